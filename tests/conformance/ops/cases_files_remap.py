"""Matrices of warm starts: rows and columns of a checkpoint's matrix in another order."""
import os

import numpy as np
import tensorflow as tf
from fixtures import scratch_folder
from runner import Case

R = tf.raw_ops
tf1 = tf.compat.v1
CASES = []
FOLDER = scratch_folder("remap")


def add(op, inputs, name="", **attrs):
    CASES.append(Case(op, inputs, attrs, name=f"{len(CASES)}:{op}({name})"))


def text(value):
    return np.array(value, object)


MATRIX = np.arange(20, dtype=np.float32).reshape(5, 4)
PREFIX = os.path.join(FOLDER, "checkpoint")


def make_checkpoint():
    with tf.Graph().as_default(), tf1.Session() as session:
        session.run(R.SaveV2(
            prefix=PREFIX, tensor_names=["matrix", "double", "cube"], shape_and_slices=[""] * 3,
            tensors=[MATRIX, MATRIX.astype(np.float64), MATRIX.reshape(5, 2, 2)]))
        session.run(R.SaveV2(
            prefix=PREFIX + "-parts", tensor_names=["matrix", "matrix"],
            shape_and_slices=["5 4 0,3:-", "5 4 3,2:-"], tensors=[MATRIX[:3], MATRIX[3:]]))


make_checkpoint()


def remap(name, rows, columns=(), missing=(), path=PREFIX, matrix="matrix", num_rows=None, num_cols=None, most=-1):
    rows, columns = np.array(rows, np.int64), np.array(columns, np.int64)
    add("LoadAndRemapMatrix", [text(path), text(matrix), rows, columns, np.array(missing, np.float32)],
        name, num_rows=rows.size if num_rows is None else num_rows,
        num_cols=(columns.size or 4) if num_cols is None else num_cols, max_rows_in_memory=most)


for path in (PREFIX, PREFIX + "-parts"):
    for most in (-1, 0, 1, 2, 100):
        remap("all rows", [0, 1, 2, 3, 4], path=path, most=most)
        remap("turned", [4, 2, 0], path=path, most=most)
        remap("with a new row", [3, -1, 1], missing=[1, 2, 3, 4], path=path, most=most)
        remap("columns", [4, 1], [2, 0], path=path, most=most)
        remap("new rows and columns", [-1, 4, 1], [2, -1, 0], [1, 2, 3, 4, 5], path=path, most=most)
remap("only new ones", [-1, -7], missing=range(8))
remap("no rows", [])
remap("too few values", [0, -1], missing=[1, 2])
remap("too many values", [0, -1], missing=range(9))
remap("values for nothing", [0], missing=[1])
remap("row twice", [1, 1])
remap("column twice", [1], [0, 0])
remap("row past the end", [1, 5])
remap("row far away", [0, 1 << 60])
remap("rows of another count", [1, 2], num_rows=3)
remap("columns of another count", [1], [1, 2], num_cols=3)
remap("other width", [1], num_cols=3)
remap("matrix of rows", [[1]])
remap("no such name", [1], matrix="absent")
remap("no such checkpoint", [1], path=PREFIX + "-absent")
remap("double", [1], matrix="double")
remap("rank 3", [1], matrix="cube")
remap("two paths", [1], path=[PREFIX, PREFIX])
