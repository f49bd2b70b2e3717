"""Cases of the ops on ragged tensors."""
import numpy as np
import tensorflow as tf

from runner import Case
from cases_sparse import ALL, some

CASES = []


def add(op, inputs, attrs=None, **more):
    CASES.append(Case(op, inputs, attrs, **more))


for dtype in (np.int32, np.int64, np.float32, np.float64):
    for splits in (tf.int32, tf.int64):
        attrs = {"Tsplits": splits}
        add("RaggedRange", [np.array([0, 5, 8, 3, 7], dtype), np.array([4, 5, 2, 9, -3], dtype),
                            np.array([1, 2, 3, 2, -4], dtype)], attrs)
        add("RaggedRange", [np.array(0, dtype), np.array([3, 0, 5], dtype), np.array(2, dtype)], attrs)
        add("RaggedRange", [np.array(2, dtype), np.array(9, dtype), np.array(3, dtype)], attrs)
        add("RaggedRange", [np.zeros(0, dtype), np.array(9, dtype), np.array(3, dtype)], attrs)
add("RaggedRange", [np.array([0, 0.1], np.float32), np.array([1, 0.95], np.float32),
                    np.array(0.1, np.float32)])
for label, starts, limits, deltas in [("zero", [0], [3], [0]), ("sizes", [0, 1], [3], [1]),
                                      ("rank", [[0]], [[3]], [[1]])]:
    add("RaggedRange", [np.array(a, np.int32) for a in (starts, limits, deltas)],
        name=f"RaggedRange({label})")
for index in (np.int32, np.int64):
    one = np.array([0, 2, 2, 5, 6], index)
    for dtype in ALL:
        add("RaggedTensorToSparse", [[one], some(dtype, 6)])
    add("RaggedTensorToSparse", [[np.array([0, 1, 4], index), one], some(np.float32, 6)])
    add("RaggedTensorToSparse", [[one], some(np.float32, 24).reshape(6, 2, 2)])
    add("RaggedTensorToSparse", [[np.array([0, 0, 4, 4], index), one], some(np.float32, 18).reshape(6, 3)])
    add("RaggedTensorToSparse", [[np.array([0, 0, 0], index)], some(np.float32, 0)])
    add("RaggedTensorToSparse", [[np.array([0], index)], some(np.float32, 0)])
    for label, splits, count in [("start", [1, 6], 6), ("order", [0, 4, 2, 6], 6), ("end", [0, 5], 6),
                                 ("empty", [], 0), ("beyond", [0, 7], 6)]:
        add("RaggedTensorToSparse", [[np.array(splits, index)], some(np.float32, count)],
            name=f"RaggedTensorToSparse({label},{index.__name__})")
add("RaggedTensorToSparse", [[np.array([0, 3], np.int64), np.array([0, 1, 2], np.int64)],
                             some(np.float32, 2)], name="RaggedTensorToSparse(levels)")
