"""Ragged tensors: gathered, and made dense with defaults, limits and each kind of partition."""
import numpy as np
from runner import Case, bfloat16

CASES = []


def add(op, inputs, name, **attrs):
    CASES.append(Case(op, inputs, attrs, name=f"{len(CASES)}:{op}({name})"))


def i32(*numbers):
    return np.array(numbers, np.int32)


def i64(*numbers):
    return np.array(numbers, np.int64)


# ---- RaggedGather ----
VALUES = np.arange(1, 10, dtype=np.float32)
ROWS = i64(0, 2, 2, 5, 9)


def gather(splits, values, indices, name):
    add("RaggedGather", [splits, values, indices], name,
        OUTPUT_RAGGED_RANK=len(splits) + np.asarray(indices).ndim - 1)


for dtype in (np.float32, np.float64, np.float16, bfloat16, np.int8, np.int64, np.uint16, np.bool_, np.complex64):
    gather([ROWS], VALUES.astype(dtype), i64(3, 0, 0, 1), np.dtype(dtype).name)
gather([ROWS], np.array([f"text {i} that is not short at all" for i in range(9)], object), i64(3, 0, 1), "strings")
for splits_type in (np.int32, np.int64):
    for index_type in (np.int32, np.int64):
        splits = ROWS.astype(splits_type)
        for indices in ([2, 3], [], [[0, 1, 3], [2, 2, 0]], [[[1], [3]]], [[], []]):
            gather([splits], VALUES, np.array(indices, index_type), f"{indices}")
        gather([splits], np.stack([VALUES, -VALUES], 1), np.array([1, 2], index_type), "inner dimension")
        outer = np.array([0, 3, 3, 4], splits_type)
        for indices in ([1, 0, 2], [[2], [0]], 0, 2):
            gather([outer, splits], VALUES, np.array(indices, index_type), f"two levels {indices}")
for name, splits, values, indices in (
        ("index", [ROWS], VALUES, i64(4)), ("negative index", [ROWS], VALUES, i64(-1)),
        ("scalar values", [ROWS], np.float32(1), i64(0)), ("past values", [i64(0, 10)], VALUES, i64(0)),
        ("negative", [i64(-1, 2)], VALUES, i64(0)), ("order", [i64(0, 4, 2, 9)], VALUES, i64(0)),
        ("empty splits", [i64()], VALUES, i64())):
    gather(splits, values, indices, name)

# ---- RaggedTensorToTensor ----
def dense(shape, values, default, partitions, kinds, name):
    add("RaggedTensorToTensor", [np.asarray(shape), values, default, partitions], name, row_partition_types=kinds)


ZERO = np.float32(0)
for dtype in (np.float32, np.float64, np.float16, np.int8, np.int32, np.uint64, np.bool_, np.complex128):
    dense(i64(-1, -1), VALUES.astype(dtype), np.zeros((), dtype), [ROWS], ["ROW_SPLITS"], np.dtype(dtype).name)
TEXTS = np.array([f"text {i} that is not short at all" for i in range(9)], object)
dense(i64(-1, -1), TEXTS, np.array("-", object), [ROWS], ["ROW_SPLITS"], "strings")
IDS = i64(0, 0, 2, 2, 2, 3, 3, 3, 3)
for index_type, shape_type in ((np.int32, np.int64), (np.int64, np.int32)):
    for shape in ([-1, -1], [4, 4], [2, -1], [-1, 2], [6, 6], [1, 1], [0, 3], [4, 0]):
        shape = np.array(shape, shape_type)
        dense(shape, VALUES, np.float32(-1), [ROWS.astype(index_type)], ["ROW_SPLITS"], f"splits {shape}")
        dense(shape, VALUES, np.float32(-1), [np.array(5, index_type), IDS.astype(index_type)],
              ["FIRST_DIM_SIZE", "VALUE_ROWIDS"], f"ids {shape}")
    dense(np.array(-1, shape_type), VALUES, ZERO, [ROWS.astype(index_type)], ["ROW_SPLITS"], "open shape")
OUTER = i64(0, 3, 3, 4)
for shape in ([-1, -1, -1], [3, 2, 3], [4, 4, 1], [1, -1, 2]):
    dense(i64(*shape), VALUES, np.float32(7), [OUTER, ROWS], ["ROW_SPLITS", "ROW_SPLITS"], f"two levels {shape}")
    dense(i64(*shape), VALUES, np.float32(7), [np.int64(3), i64(0, 0, 0, 2), IDS],
          ["FIRST_DIM_SIZE", "VALUE_ROWIDS", "VALUE_ROWIDS"], f"two levels of ids {shape}")
PAIRS = np.stack([VALUES, -VALUES], 1)
for default in (ZERO, np.array([5, 6], np.float32), np.array([5], np.float32)):
    dense(i64(-1, -1, -1), PAIRS, default, [ROWS], ["ROW_SPLITS"], f"inner {default}")
    dense(i64(-1, 2, 2), PAIRS, default, [ROWS], ["ROW_SPLITS"], f"inner, cut {default}")
CUBE = np.arange(54, dtype=np.float32).reshape(9, 2, 3)
for default in (np.ones((2, 3), np.float32), np.array([[1], [2]], np.float32), np.arange(3, dtype=np.float32)):
    dense(i64(-1, 5, -1, 3), CUBE, default, [ROWS], ["ROW_SPLITS"], f"inner matrix {default.shape}")
for name, shape, values, default, partitions, kinds in (
        ("rank", i64(-1, -1, -1), VALUES, ZERO, [ROWS], ["ROW_SPLITS"]),
        ("inner size", i64(-1, -1, 3), PAIRS, ZERO, [ROWS], ["ROW_SPLITS"]),
        ("default rank", i64(-1, -1), VALUES, np.zeros(1, np.float32), [ROWS], ["ROW_SPLITS"]),
        ("default size", i64(-1, -1, -1), PAIRS, np.zeros(3, np.float32), [ROWS], ["ROW_SPLITS"]),
        ("ids", i64(-1, -1), VALUES, ZERO, [np.int64(2), IDS], ["FIRST_DIM_SIZE", "VALUE_ROWIDS"]),
        ("negative ids", i64(-1, -1), VALUES, ZERO, [np.int64(4), -IDS], ["FIRST_DIM_SIZE", "VALUE_ROWIDS"]),
        ("too many rows", i64(-1, -1, -1), VALUES, ZERO, [i64(0, 2), ROWS], ["ROW_SPLITS", "ROW_SPLITS"]),
        ("no splits", i64(-1, -1), VALUES, ZERO, [i64()], ["ROW_SPLITS"])):
    dense(shape, values, default, partitions, kinds, name)
