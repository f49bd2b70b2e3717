"""Errors that people meet every day, compared word for word: they read the message, search for it,
and some programs look for words in it."""
import pathlib

import numpy as np
import tensorflow as tf
from fixtures import scratch_folder
from runner import Case

CASES = []


def add(op, *inputs, since=None, **attrs):
    CASES.append(Case(op, inputs, attrs, since=since, says=True,
                      name=f"{len(CASES)}:{Case(op, inputs, attrs).name}"))


def f32(*shape):
    return np.ones(shape, np.float32)


def i32(*values):
    return np.array(values, np.int32)


def i64(*values):
    return np.array(values, np.int64)


# ---- Shapes and places ----
add("Transpose", f32(2, 2), i32(0, 0))
add("Transpose", f32(2, 3, 4), i32(2, -1, 0), since=(2, 21))
add("Transpose", f32(2, 2), i32(0, 2))
add("SegmentSum", f32(3), i32(0, 2, 1))
add("SegmentSum", f32(4), i32(5, 5, 1, 2))
add("SegmentMean", f32(2), i64(-1, 0))
add("GatherNd", f32(2, 2), i32([0, 5]))
add("GatherNd", f32(2, 2), i32([0, 0], [0, -1]))
add("Einsum", [f32(2, 3), f32(2, 3)], equation="ij,jk->ik")
add("Einsum", [f32(4, 2, 3), f32(4, 5, 2)], equation="bij,bjk->bik")
add("SparseToDense", i64([5]), i64(3), f32(1), f32(), validate_indices=True)
add("SparseToDense", i64([1, 1], [0, 3]), i64(2, 3), f32(2), f32(), validate_indices=True)
add("SparseToDense", i64([1], [0]), i64(3), f32(2), f32(), validate_indices=True)
add("SparseToDense", i64([1], [1]), i64(3), f32(2), f32(), validate_indices=True)


add("ConcatV2", [f32(), f32()], np.array(0, np.int32))
add("ConcatV2", [f32(2, 3), f32(2, 4)], np.array(0, np.int32))
add("ConcatV2", [f32(2, 3), f32(2)], np.array(0, np.int32))
add("ConcatV2", [f32(2), f32(2)], np.array(1, np.int32))
add("ConcatV2", [f32(2), f32(2)], i32(0, 1))
add("Concat", i32(0, 1), [f32(2), f32(2)])
add("ConcatOffset", np.array(0, np.int32), [i32(2, 3), i32(2, 5)])
add("ReverseSequence", f32(2, 3), i32(1), seq_dim=1, batch_dim=0)
add("SparseSegmentSum", f32(3, 2), i32(0, 1), i32(-1, 0))
add("SparseSegmentMean", f32(3, 2), i32(0, 5), i32(0, 1))
add("DynamicStitch", [i32(0), i32(1, -1)], [f32(1, 3), f32(2, 3)])
add("MatrixTriangularSolve", f32(2, 3), f32(2, 4))
for op in ["TensorScatterUpdate", "TensorScatterAdd"]:
    add(op, f32(4, 5), i32([0], [1]), f32(2, 4))
    add(op, f32(4, 5), i32([0], [1]), f32(3, 5))
    add(op, f32(4, 5), i32([0], [1]), f32(2))
    add(op, f32(4, 5), i32([0], [7]), f32(2, 5))
add("ScatterNd", i32([1]), f32(1), i32(0))
add("ScatterNd", i32([1]), f32(2), i32(3))
add("TensorStridedSliceUpdate", f32(4, 5), i32(0, 0), i32(2, 3), i32(1, 1), f32(2, 2))


def add_graph(op, name, build):
    CASES.append(Case(op, build=build, says=True, name=f"{len(CASES)}:{op} {name}"))


def wrong_components():
    queue = tf.compat.v1.FIFOQueue(3, [tf.float32, tf.int32]).queue_ref
    return {}, [[tf.raw_ops.QueueEnqueueV2(handle=queue, components=[f32(), f32()])],
                [tf.raw_ops.QueueDequeueV2(handle=queue, component_types=[tf.int32, tf.float32])[0]]]


def no_records():
    path = pathlib.Path(scratch_folder("messages")) / "text"
    path.write_bytes(b"this is a text and not a file of records")
    records = tf.compat.v1.data.TFRecordDataset(str(path))
    iterator = tf.compat.v1.data.make_initializable_iterator(records)
    return {}, [[iterator.initializer], [iterator.get_next()]]


add_graph("QueueEnqueueV2", "components of other types", wrong_components)
add_graph("TFRecordDataset", "a file of something else", no_records)


# ---- Examples ----
def example(**features):
    lists = {int: lambda v: tf.train.Feature(int64_list=tf.train.Int64List(value=v)),
             float: lambda v: tf.train.Feature(float_list=tf.train.FloatList(value=v)),
             bytes: lambda v: tf.train.Feature(bytes_list=tf.train.BytesList(value=v))}
    made = {key: lists[type(v[0])](v) for key, v in features.items()}
    return tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString()


def add_parse(name, message, feature, since=None):
    """The message alone, and as a batch of one."""
    for kind in ["single", "batch"]:
        def build(kind=kind):
            fed = tf.compat.v1.placeholder(tf.string, [] if kind == "single" else [None])
            value = np.array(message if kind == "single" else [message], object)
            parse = tf.io.parse_single_example if kind == "single" else tf.io.parse_example
            found = parse(fed, {"a": feature})["a"]
            return {fed: value}, [found.values if isinstance(found, tf.SparseTensor) else found]
        CASES.append(Case("ParseExampleV2", build=build, says=True, since=since,
                          name=f"{len(CASES)}:ParseExampleV2 {name} {kind}"))


add_parse("missing", example(b=[1]), tf.io.FixedLenFeature([2], tf.float32))
add_parse("dense of another type", example(a=[1, 2]), tf.io.FixedLenFeature([2], tf.float32))
add_parse("list of another type", example(a=[1, 2]), tf.io.VarLenFeature(tf.float32))
for values in [[1], [1, 1, 1], [1.0], [1.0] * 3, [b"x"], [b"x"] * 3]:
    dtype = {int: tf.int64, float: tf.float32, bytes: tf.string}[type(values[0])]
    add_parse(f"{len(values)} of {dtype.name}", example(a=values), tf.io.FixedLenFeature([2], dtype),
              since=(2, 21))
    add_parse(f"{len(values)} rows of {dtype.name}", example(a=values),
              tf.io.FixedLenSequenceFeature([2], dtype, allow_missing=True), since=(2, 21))
