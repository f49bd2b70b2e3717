"""Counts of numbers by row as sparse tensors, of dense, sparse and ragged input."""
import numpy as np
from runner import Case

CASES = []


def add(op, inputs, name="", **attrs):
    CASES.append(Case(op, inputs, attrs, name=f"{len(CASES)}:{op}({name})"))


def i64(*numbers):
    return np.array(numbers, np.int64)


def counts(op, inputs, name, weights=np.zeros(0, np.float32), least=-1, most=-1, binary=False):
    add(op, inputs + [weights], name, minlength=least, maxlength=most, binary_output=binary)


NUMBERS = np.array([[3, 1, 1, 0], [2, 2, 7, 1], [5, 5, 5, 5]])
PLACES = np.array([[i // 4, i % 4] for i in range(12)], np.int64)
WEIGHTS = np.array([.5, 1.5, 2, 3, 1e8, 1, -1e8, 2, 1, 2, 3, 250])
FORMS = {"DenseCountSparseOutput": lambda numbers: [numbers],
         "SparseCountSparseOutput": lambda numbers: [PLACES[:numbers.size], numbers.reshape(-1), i64(3, 4)],
         "RaggedCountSparseOutput": lambda numbers: [i64(0, 2, 2, numbers.size), numbers.reshape(-1)]}
for op, form in FORMS.items():
    is_dense = op == "DenseCountSparseOutput"
    for index_type in (np.int32, np.int64):
        numbers = NUMBERS.astype(index_type)
        for dtype in (np.float32, np.float64, np.int32, np.int64):
            weights = WEIGHTS.astype(np.int64).astype(dtype) if np.dtype(dtype).kind in "iu" else WEIGHTS.astype(dtype)
            counts(op, form(numbers), f"{index_type.__name__}, {dtype.__name__}", np.zeros(0, dtype))
            counts(op, form(numbers), f"weights, {dtype.__name__}", weights.reshape(3, 4) if is_dense else weights)
    for least, most in ((0, 0), (3, -1), (20, -1), (-1, 3), (20, 3), (-1, 20), (5, 6)):
        for binary in (False, True):
            counts(op, form(NUMBERS), f"{least}, {most}, {binary}", least=least, most=most, binary=binary)
    counts(op, form(NUMBERS - 1), "negative")
    counts(op, form(NUMBERS), "weights of another shape", np.ones(5, np.float32))
    counts(op, form(NUMBERS), "binary weights", (WEIGHTS.reshape(3, 4) if is_dense else WEIGHTS).astype(np.float32), binary=True)
counts("DenseCountSparseOutput", [NUMBERS[0]], "vector")
counts("DenseCountSparseOutput", [NUMBERS[0]], "vector with a limit", most=2)
counts("DenseCountSparseOutput", [np.zeros(0, np.int64)], "nothing")
for shape in ([0, 3], [3, 0], [], [1, 2, 3]):
    counts("DenseCountSparseOutput", [np.zeros(shape, np.int64)], str(shape))
SPARSE = "SparseCountSparseOutput"
counts(SPARSE, [np.array([[0], [4]], np.int64), i64(2, 2), i64(6)], "vector")
counts(SPARSE, [np.array([[0, 1, 2], [2, 0, 1], [2, 1, 1]], np.int64), i64(2, 3, 3), i64(3, 2, 3)], "cube")
counts(SPARSE, [np.zeros([0, 2], np.int64), i64(), i64(3, 4)], "nothing")
counts(SPARSE, [np.zeros([0, 2], np.int64), i64(), i64(0, 4)], "no rows")
counts(SPARSE, [i64(1), i64(1), i64(3)], "indices of rank 1")
counts(SPARSE, [PLACES, NUMBERS, i64(3, 4)], "values of rank 2")
counts(SPARSE, [PLACES, NUMBERS.reshape(-1), np.array([[3, 4]], np.int64)], "shape of rank 2")
counts(SPARSE, [PLACES, NUMBERS[0], i64(3, 4)], "fewer values")
counts(SPARSE, [PLACES, NUMBERS.reshape(-1), i64(3, 4, 5)], "more dimensions")
counts(SPARSE, [PLACES, NUMBERS.reshape(-1), i64(2, 4)], "index past the shape")
counts(SPARSE, [-PLACES, NUMBERS.reshape(-1), i64(3, 4)], "negative index")
for name, splits in (("one split", i64(0)), ("begin", i64(1, 12)), ("end", i64(0, 11)), ("past", i64(0, 13)),
                     ("none", i64()), ("down", i64(0, 8, 4, 12))):
    counts("RaggedCountSparseOutput", [splits, NUMBERS.reshape(-1)], name)
counts("RaggedCountSparseOutput", [i64(0, 0, 0), i64()], "empty rows")
