"""Sparse tensors in maps: put in one by one or by rows, taken out and joined."""
import numpy as np
import tensorflow as tf
from fixtures import fresh
from runner import Case, feed

R = tf.raw_ops
tf1 = tf.compat.v1
CASES = []


def sparse(indices, values, shape, dtype):
    return dict(sparse_indices=feed(np.array(indices, np.int64).reshape(-1, len(shape))),
                sparse_values=feed(values, dtype), sparse_shape=feed(np.array(shape, np.int64)))


def case(op, build, text):
    CASES.append(Case(op, build=lambda: ({}, build(fresh("map"))), name=f"{op} {text}"))


SAMPLES = {tf.float32: [1., 2., 3.], tf.string: ["a", "b" * 30, ""], tf.int64: [1, -2, 3], tf.bool: [True, False, True],
           tf.complex64: [1 + 1j, 2, 3]}
for dtype, values in SAMPLES.items():
    def build(name, dtype=dtype, values=values):
        one = R.AddSparseToTensorsMap(**sparse([[0, 1], [2, 0], [2, 3]], values, [3, 4], dtype), shared_name=name)
        two = R.AddSparseToTensorsMap(**sparse([[4, 1]], values[:1], [5, 2], dtype), shared_name=name)
        handles = tf.stack([two, one, two][:2])
        taken = R.TakeManySparseFromTensorsMap(sparse_handles=handles, dtype=dtype, shared_name=name)
        return [list(taken), [one], [two]]
    case("AddSparseToTensorsMap", build, dtype.name)

    def build_rows(name, dtype=dtype, values=values):
        rows = R.AddManySparseToTensorsMap(**sparse([[0, 1], [2, 0], [2, 3]], values, [4, 4], dtype), shared_name=name)
        taken = R.TakeManySparseFromTensorsMap(sparse_handles=rows, dtype=dtype, shared_name=name)
        some = R.TakeManySparseFromTensorsMap(sparse_handles=rows[1:3], dtype=dtype, shared_name=name)
        return [[rows], list(taken), list(some)]
    case("AddManySparseToTensorsMap", build_rows, dtype.name)


def build_gone(name):
    number = R.AddSparseToTensorsMap(**sparse([[0]], [1.], [3], tf.float32), shared_name=name)
    handle = tf1.placeholder_with_default(tf.constant([0], tf.int64), None)
    take = list(R.TakeManySparseFromTensorsMap(sparse_handles=handle, dtype=tf.float32, shared_name=name))
    wrong = list(R.TakeManySparseFromTensorsMap(sparse_handles=handle, dtype=tf.int32, shared_name=name))
    return [[number], wrong, [number], take, take]


def build_ranks(name):
    one = R.AddSparseToTensorsMap(**sparse([[0]], [1.], [3], tf.float32), shared_name=name)
    two = R.AddSparseToTensorsMap(**sparse([[0, 0]], [1.], [3, 3], tf.float32), shared_name=name)
    return [list(R.TakeManySparseFromTensorsMap(sparse_handles=tf.stack([one, two]), dtype=tf.float32,
                                                shared_name=name))]


case("TakeManySparseFromTensorsMap", build_gone, "gone")
case("TakeManySparseFromTensorsMap", build_ranks, "ranks")
for text, handles in [("matrix", [[0]]), ("nothing", [])]:
    case("TakeManySparseFromTensorsMap",
         lambda name, h=handles: [list(R.TakeManySparseFromTensorsMap(
             sparse_handles=feed(h, tf.int64), dtype=tf.float32, shared_name=name))], text)
for op in ["AddSparseToTensorsMap", "AddManySparseToTensorsMap"]:
    for text, indices, values, shape in [
            ("few values", [[0, 0], [1, 1]], [1.], [2, 2]), ("matrix of values", [[0, 0]], [[1.]], [2, 2]),
            ("vector of indices", [0, 0], [1., 2.], [2]), ("scalar shape", [[0]], [1.], 2),
            ("other rank", [[0, 0]], [1.], [2, 2, 2]), ("negative size", [[0, 0]], [1.], [-2, 2]),
            ("empty", np.zeros((0, 2), np.int64), np.zeros((0,), np.float32), [2, 2])]:
        case(op, lambda name, o=op, i=indices, v=values, s=shape: [[getattr(R, o)(
            sparse_indices=feed(i, tf.int64), sparse_values=feed(v, tf.float32), sparse_shape=feed(s, tf.int64),
            shared_name=name)]], text)
