"""Single ops beside their families: vocabularies and matrices of warm starts, counts, old names of decompositions."""
import os

import numpy as np
import tensorflow as tf
from fixtures import scratch_folder
from runner import Case

R = tf.raw_ops
tf1 = tf.compat.v1
CASES = []
FOLDER = scratch_folder("neighbours")


def add(op, inputs, name="", outputs=None, **attrs):
    CASES.append(Case(op, inputs, attrs, name=f"{len(CASES)}:{op}({name})", outputs=outputs))


def write(name, lines):
    path = os.path.join(FOLDER, name)
    with open(path, "w") as file:
        file.write("".join(line + "\n" for line in lines))
    return path


def text(value):
    return np.array(value, object)


def i64(*numbers):
    return np.array(numbers, np.int64)


# ---- GenerateVocabRemapping ----
NEW = write("new", ["f4", "f3", "f1", "unknown", "f0", "a word that is longer than a short string"])
OLD = write("old", ["f0", "f1", "f2", "f3", "f4", "a word that is longer than a short string"])
for name, new, old, offset, count, size in (
        ("all", NEW, OLD, 0, 6, -1), ("part", NEW, OLD, 2, 3, -1), ("none", NEW, OLD, 3, 0, -1),
        ("beginning of the old", NEW, OLD, 0, 6, 3), ("too many", NEW, OLD, 2, 5, -1),
        ("old is shorter", NEW, OLD, 0, 6, 9), ("old is of size 0", NEW, OLD, 0, 2, 0),
        ("no new file", os.path.join(FOLDER, "absent"), OLD, 0, 1, -1),
        ("no old file", NEW, os.path.join(FOLDER, "absent"), 0, 1, -1),
        ("no name", "", OLD, 0, 1, -1), ("no old name", NEW, "", 0, 1, -1),
        ("vector", [NEW], OLD, 0, 1, -1), ("old vector", NEW, [OLD], 0, 1, -1),
        ("twice in the old", NEW, write("twice", ["f0", "f1", "f0"]), 0, 6, -1),
        ("twice in the new", write("again", ["f1", "f0", "f1"]), OLD, 0, 3, -1),
        ("empty line", NEW, write("gap", ["f0", "", "f1"]), 0, 6, -1),
        ("empty files", write("empty", []), write("empty", []), 0, 0, -1)):
    add("GenerateVocabRemapping", [text(new), text(old)], name, new_vocab_offset=offset,
        num_new_vocab=count, old_vocab_size=size)

# ---- LoadAndRemapMatrix ----
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

# ---- Counts ----
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

# ---- Old names ----
RANDOM = np.random.RandomState(5)
for dtype in (np.float32, np.float64):
    square = RANDOM.normal(size=(2, 4, 4)).astype(dtype)
    even = np.matmul(square, square.transpose(0, 2, 1)) + 4 * np.eye(4, dtype=dtype)
    right = RANDOM.normal(size=(2, 4, 3)).astype(dtype)
    tall = RANDOM.normal(size=(2, 5, 4)).astype(dtype)
    name = np.dtype(dtype).name
    add("BatchCholesky", [even], name)
    add("BatchCholeskyGrad", [np.linalg.cholesky(even), square], name)
    add("BatchMatrixDeterminant", [square], name)
    for adjoint in (False, True):
        add("BatchMatrixInverse", [even], f"{name}, {adjoint}", adjoint=adjoint)
        add("BatchMatrixSolve", [even, right], f"{name}, {adjoint}", adjoint=adjoint)
        for lower in (False, True):
            add("BatchMatrixTriangularSolve", [even, right], f"{name}, {adjoint}, {lower}", adjoint=adjoint, lower=lower)
    for fast in (False, True):
        add("BatchMatrixSolveLs", [tall, RANDOM.normal(size=(2, 5, 3)).astype(dtype), np.float64(0.5 * fast)],
            f"{name}, {fast}", fast=fast)
    add("BatchSelfAdjointEigV2", [even], f"{name}, values", outputs=[0], compute_v=False)
    add("BatchSvd", [tall], f"{name}, values", outputs=[0], compute_uv=False)
for op in ("BatchCholesky", "BatchMatrixDeterminant", "BatchMatrixInverse", "SelfAdjointEig", "BatchSelfAdjointEig"):
    add(op, [np.zeros([2, 3], np.float32)], "not square")
    add(op, [np.zeros([3], np.float32)], "a vector")
    add(op, [np.zeros([0, 0] if op == "SelfAdjointEig" else [2, 0, 0], np.float32)], "empty")


def factors(op, shape, dtype, rebuild):
    """Vectors are given up to their signs: what they rebuild is compared."""
    def build():
        whole = RANDOM.normal(size=shape).astype(dtype)
        if op != "BatchSvd":
            whole = whole + np.swapaxes(whole, -1, -2)
        place = tf1.placeholder(dtype, shape)
        return {place: whole}, [rebuild(place)]
    CASES.append(Case(op, build=build, name=f"{op} {shape} {np.dtype(dtype).name}", producer=10))


def rebuild_joined(node):
    def rebuild(place):
        result = node(place)
        values, vectors = result[..., 0, :], result[..., 1:, :]
        return [values, tf.matmul(vectors * values[..., None, :], vectors, transpose_b=True)]
    return rebuild


def rebuild_eigen(place):
    values, vectors = R.BatchSelfAdjointEigV2(input=place)
    return [values, tf.matmul(vectors * values[..., None, :], vectors, transpose_b=True)]


def rebuild_svd(place):
    s, u, v = R.BatchSvd(input=place)
    return [s, tf.matmul(u * s[..., None, :], v, transpose_b=True)]


for dtype in (np.float32, np.float64):
    factors("SelfAdjointEig", [4, 4], dtype, rebuild_joined(lambda place: R.SelfAdjointEig(input=place)))
    factors("BatchSelfAdjointEig", [3, 4, 4], dtype, rebuild_joined(lambda place: R.BatchSelfAdjointEig(input=place)))
    factors("BatchSelfAdjointEigV2", [2, 3, 4, 4], dtype, rebuild_eigen)
    factors("BatchSvd", [2, 3, 5], dtype, rebuild_svd)
