"""Variants: those of plain numbers that a client puts into a Const, and how variants are shown."""
import numpy as np
import tensorflow as tf
from runner import Case, case_decorator, make_op
from tensorflow.core.framework import tensor_pb2, types_pb2

R = tf.raw_ops
CASES = []
case = case_decorator(CASES)


def number(name, value):
    """A Const whose one variant holds the bytes of a number."""
    proto = tensor_pb2.TensorProto(dtype=types_pb2.DT_VARIANT)
    proto.tensor_shape.SetInParent()
    proto.variant_val.add(type_name=name, metadata=np.asarray(value).tobytes())
    return tf.constant(proto)


def shown(*variants):
    return [R.StringFormat(inputs=[v], template="{}", placeholder="{}") for v in variants] + \
        [R.AsString(input=v) for v in variants]


for title, a, b in [("int", np.int32(5), np.int32(2**31 - 1)), ("float", np.float32(0.1), np.float32(1e9)),
                    ("double", np.float64(1) / 3, np.float64(2.5)), ("bool", np.bool_(1), np.bool_(1))]:
    # TensorFlow 2.12 shows six digits of a double.
    CASES.append(Case("Const", name=f"Const variant of {title}", since=(2, 20) if title == "double" else None,
                      build=lambda t=title, a=a, b=b: (
                          {}, shown(number(t, a), tf.zeros_like(number(t, a)),
                                    R.AddN(inputs=[number(t, a), number(t, b)])))))


@case("AsString")
def of_variants():
    shape = tf.constant([], tf.int32)
    items = R.TensorListFromTensor(tensor=[1., 2.], element_shape=shape)
    return shown(items, make_op("EmptyTensorMap"), R.TensorListReserve(
        element_shape=shape, num_elements=2, element_dtype=tf.float32))
