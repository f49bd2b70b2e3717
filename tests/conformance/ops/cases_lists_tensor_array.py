"""Tensor arrays: values, gradients, and what they refuse."""
import numpy as np
import tensorflow as tf
from runner import bfloat16, case_decorator, feed

R = tf.raw_ops
CASES = []
case = case_decorator(CASES)
rng = np.random.RandomState(3)
NUMBERS = [np.float32, np.float64, np.float16, bfloat16, np.int8, np.int16, np.int32, np.int64,
           np.uint8, np.uint16, np.complex64, np.complex128]


def sample(shape, dtype=np.float32):
    values = rng.randint(0, 20, size=shape)
    return np.asarray(values).astype(dtype)


def array(size, dtype=np.float32, **attrs):
    return R.TensorArrayV3(size=feed(size, np.int32), dtype=tf.as_dtype(dtype), **attrs)


def write(handle, index, value, flow):
    return R.TensorArrayWriteV3(handle=handle, index=feed(index, np.int32), value=value, flow_in=flow)


def read(handle, index, flow, dtype=np.float32):
    return R.TensorArrayReadV3(handle=handle, index=feed(index, np.int32), flow_in=flow,
                               dtype=tf.as_dtype(dtype))


def gather(handle, indices, flow, dtype=np.float32, element_shape=None):
    return R.TensorArrayGatherV3(handle=handle, indices=feed(np.array(indices, np.int32)),
                                 flow_in=flow, dtype=tf.as_dtype(dtype), element_shape=element_shape)


def concat(handle, flow, dtype=np.float32, element_shape_except0=None):
    return R.TensorArrayConcatV3(handle=handle, flow_in=flow, dtype=tf.as_dtype(dtype),
                                 element_shape_except0=element_shape_except0)


for dtype in NUMBERS + [np.bool_]:
    @case("TensorArrayV3", f"gather {dtype}")
    def gather_dtype(dtype=dtype):
        handle, flow = array(3, dtype)
        for i in range(3):
            flow = write(handle, i, feed(sample((2,), dtype)), flow)
        return [gather(handle, [2, 0, 1], flow, dtype), flow]


@case("TensorArrayV3", "strings")
def array_of_strings():
    handle, flow = array(2, np.str_, clear_after_read=False)
    flow = write(handle, 0, feed(["a", "b"]), flow)
    flow = write(handle, 1, feed(["c" * 50, ""]), flow)
    return [gather(handle, [0, 1], flow, np.str_), concat(handle, flow, np.str_)[0]]


@case("TensorArrayV3", "unwritten strings")
def array_of_unwritten_strings():
    handle, flow = array(2, np.str_, element_shape=[1])
    return [read(handle, 1, flow, np.str_)]


@case("TensorArrayV3", "scatter and concat")
def scatter_concat():
    handle, flow = array(4)
    flow = R.TensorArrayScatterV3(handle=handle, indices=feed([3, 1, 0, 2]),
                                  value=feed(sample((4, 2, 3))), flow_in=flow)
    value, lengths = concat(handle, flow)
    return [value, lengths]


@case("TensorArrayV3", "split")
def split_read():
    handle, flow = array(3, clear_after_read=False)
    flow = R.TensorArraySplitV3(handle=handle, value=feed(sample((6, 16))),
                                lengths=feed(np.array([1, 0, 5])), flow_in=flow)
    value, lengths = concat(handle, flow)
    return [value, lengths, read(handle, 0, flow), read(handle, 1, flow), read(handle, 2, flow)]


@case("TensorArrayV3", "grows")
def grows():
    handle, flow = array(0, dynamic_size=True)
    flow = write(handle, 5, feed([1., 2.]), flow)
    with tf.control_dependencies([flow]):
        return [R.TensorArraySizeV3(handle=handle, flow_in=flow)]


@case("TensorArrayV3", "zeros for what nobody wrote")
def unwritten():
    handle, flow = array(3, element_shape=[2, 2])
    return [read(handle, 1, flow), gather(handle, [0, 2], flow)]


@case("TensorArrayV3", "sum in a gradient array")
def gradient_sum():
    handle, flow = array(2, clear_after_read=False)
    flow = write(handle, 0, feed([1., 2.]), flow)
    flow = write(handle, 1, feed([3., 4.]), flow)
    grad, gflow = R.TensorArrayGradV3(handle=handle, flow_in=flow, source="g")
    for _ in range(3):
        gflow = write(grad, 0, feed([1., 1.]), gflow)
    return [gather(grad, [0, 1], gflow)]


@case("TensorArrayV3", "gradient with another shape")
def gradient_shape():
    handle, flow = array(2)
    flow = write(handle, 0, feed([1., 2.]), flow)
    grad, gflow = R.TensorArrayGradWithShape(handle=handle, flow_in=flow, source="g",
                                             shape_to_prepend=feed([3]))
    return [read(grad, 0, gflow)]


def refuses(name):
    return case("TensorArrayV3", "refuses " + name)


@refuses("a second write")
def second_write():
    handle, flow = array(2)
    return [write(handle, 0, feed(2.), write(handle, 0, feed(1.), flow))]


@refuses("a second read")
def second_read():
    handle, flow = array(2)
    flow = write(handle, 0, feed(1.), flow)
    first = read(handle, 0, flow)
    with tf.control_dependencies([first]):
        return [read(handle, 0, tf.identity(flow))]


@refuses("a write after a read")
def write_after_read():
    handle, flow = array(2, clear_after_read=False)
    flow = write(handle, 0, feed(1.), flow)
    first = read(handle, 0, flow)
    with tf.control_dependencies([first]):
        return [write(handle, 0, feed(1.), tf.identity(flow))]


for index in [2, -1, 100]:
    @refuses(f"a write to {index}")
    def write_outside(index=index):
        handle, flow = array(2)
        return [write(handle, index, feed(1.), flow)]

    @refuses(f"a read of {index}")
    def read_outside(index=index):
        handle, flow = array(2)
        return [read(handle, index, flow)]


@refuses("other shapes")
def other_shape():
    handle, flow = array(2, element_shape=[2])
    return [write(handle, 0, feed([1., 2., 3.]), flow)]


@refuses("shapes that differ")
def identical_shapes():
    handle, flow = array(2, identical_element_shapes=True)
    flow = write(handle, 0, feed([1., 2.]), flow)
    return [write(handle, 1, feed([1.]), flow)]


@refuses("another dtype to write")
def write_dtype():
    handle, flow = array(2)
    return [write(handle, 0, feed(1), flow)]


@refuses("another dtype to read")
def read_dtype():
    handle, flow = array(2)
    return [read(handle, 0, write(handle, 0, feed(1.), flow), np.int32)]


@refuses("a read without shape")
def read_unknown():
    handle, flow = array(2)
    return [read(handle, 0, flow)]


@refuses("what is closed")
def closed():
    handle, flow = array(2)
    with tf.control_dependencies([R.TensorArrayCloseV3(handle=handle)]):
        return [write(handle, 0, feed(1.), tf.identity(flow))]


@refuses("negative sizes")
def negative_size():
    handle, flow = array(-1)
    return [flow]


@refuses("sizes of rank 1")
def vector_size():
    handle, flow = R.TensorArrayV3(size=feed([1]), dtype=tf.float32)
    return [flow]


@refuses("elements of different shapes to stack")
def inconsistent():
    handle, flow = array(2)
    flow = write(handle, 0, feed([1.]), flow)
    flow = write(handle, 1, feed([1., 2.]), flow)
    return [gather(handle, [0, 1], flow)]


@refuses("scalars to concat")
def concat_scalars():
    handle, flow = array(1)
    return list(concat(handle, write(handle, 0, feed(1.), flow)))


@refuses("empty arrays of unknown shape")
def empty_unknown():
    handle, flow = array(0)
    return [gather(handle, [], flow)]


@case("TensorArrayV3", "empty arrays of known shape")
def empty_known():
    handle, flow = array(0)
    value, lengths = concat(handle, flow, element_shape_except0=[3])
    return [gather(handle, [], flow, element_shape=[2]), value, lengths]


for lengths, rows in [([1, 2], 4), ([1, 2, 3], 6), ([[1, 3]], 4)]:
    @refuses(f"split {lengths} of {rows}")
    def bad_split(lengths=lengths, rows=rows):
        handle, flow = array(2)
        return [R.TensorArraySplitV3(handle=handle, value=feed(sample((rows, 2))),
                                     lengths=feed(np.array(lengths, np.int64)), flow_in=flow)]

for indices in [[0, 2], [0, 1, 0], [0], [[0, 1]]]:
    @refuses(f"scatter to {indices}")
    def bad_scatter(indices=indices):
        handle, flow = array(2)
        return [R.TensorArrayScatterV3(handle=handle, indices=feed(np.array(indices, np.int32)),
                                       value=feed(sample((2, 2))), flow_in=flow)]
