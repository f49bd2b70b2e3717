"""Sparse matrices in compressed rows: made, turned back, transposed and multiplied."""
import itertools

import numpy as np
import tensorflow as tf
from runner import Case, make_op, tf1

CASES = []
RANDOM = np.random.RandomState(11)
DTYPES = (np.float32, np.float64, np.complex64, np.complex128)


def feed(feeds, value):
    """The graph must know ranks, and with them the length of coordinates and shapes."""
    value = np.asarray(value)
    shape = [None] * value.ndim
    if value.dtype == np.int64:
        shape[-1] = value.shape[-1]
    tensor = tf1.placeholder(tf.as_dtype(value.dtype), shape)
    feeds[tensor] = value
    return tensor


def numbers(shape, dtype):
    values = RANDOM.randn(*shape)
    return (values + 1j * RANDOM.randn(*shape) if np.dtype(dtype).kind == "c" else values).astype(dtype)


def some(shape, dtype, density=0.4):
    """A dense array with zeros, and where it has none."""
    array = numbers(shape, dtype) * (RANDOM.rand(*shape) < density)
    return array.astype(dtype), np.argwhere(array != 0).astype(np.int64).reshape(-1, len(shape))


def matrix(feeds, shape, dtype, density=0.4):
    array, indices = some(shape, dtype, density)
    return make_op("SparseTensorToCSRSparseMatrix", indices=feed(feeds, indices),
                   values=feed(feeds, array[tuple(indices.T)]), dense_shape=feed(feeds, np.array(shape, np.int64)))


def parts(csr, dtype, index=0):
    return tf.nest.flatten(make_op("CSRSparseMatrixComponents", csr_sparse_matrix=csr,
                                   index=tf.constant(index, tf.int32), type=tf.as_dtype(dtype)))


def dense(csr, dtype):
    return make_op("CSRSparseMatrixToDense", sparse_input=csr, type=tf.as_dtype(dtype))


def add(op, name, make, since=None):
    def build():
        feeds = {}
        return feeds, tf.nest.flatten(make(feeds))
    CASES.append(Case(op, build=build, name=f"{len(CASES)}:{op}({name})", since=since))


# ---- Made and turned back ----
for dtype, shape in itertools.product(DTYPES, ((4, 5), (3, 4, 5), (1, 1), (0, 3), (3, 0), (2, 0, 3), (40, 30))):
    label = f"{np.dtype(dtype).name}{list(shape)}"

    def sparse(feeds, t=dtype, s=shape):
        csr = matrix(feeds, s, t)
        return [make_op("SparseMatrixNNZ", sparse_matrix=csr), dense(csr, t), parts(csr, t),
                make_op("CSRSparseMatrixToSparseTensor", sparse_matrix=csr, type=tf.as_dtype(t))]
    add("SparseTensorToCSRSparseMatrix", label, sparse)

    def from_dense(feeds, t=dtype, s=shape):
        array, indices = some(s, t)
        csr = make_op("DenseToCSRSparseMatrix", dense_input=feed(feeds, array), indices=feed(feeds, indices))
        return [make_op("SparseMatrixNNZ", sparse_matrix=csr), dense(csr, t), parts(csr, t)]
    add("DenseToCSRSparseMatrix", label, from_dense)

    for conjugate in (False, True):
        def turned(feeds, t=dtype, s=shape, c=conjugate):
            csr = make_op("SparseMatrixTranspose", input=matrix(feeds, s, t), conjugate=c, type=tf.as_dtype(t))
            return [dense(csr, t), parts(csr, t)]
        add("SparseMatrixTranspose", f"{label} {conjugate}", turned)
for index in (0, 1, 2, 3, -1):
    add("CSRSparseMatrixComponents", f"part {index}",
        lambda f, i=index: parts(matrix(f, (3, 4, 5), np.float32), np.float32, i))
for op in ("CSRSparseMatrixToDense", "CSRSparseMatrixToSparseTensor"):
    def other_type(feeds, op=op):
        name = "sparse_input" if op.endswith("Dense") else "sparse_matrix"
        return make_op(op, **{name: matrix(feeds, (3, 4), np.float32)}, type=tf.float64)
    add(op, "another dtype", other_type)
add("SparseMatrixTranspose", "another dtype", lambda f: dense(make_op(
    "SparseMatrixTranspose", input=matrix(f, (3, 4), np.float32), type=tf.float64), np.float64))


def made(feeds, indices, values, shape):
    return dense(make_op("SparseTensorToCSRSparseMatrix", indices=feed(feeds, np.array(indices, np.int64)),
                         values=feed(feeds, np.array(values, np.float32)),
                         dense_shape=feed(feeds, np.array(shape, np.int64))), np.float32)


for name, indices, values, shape in (
        ("row", [[3, 0]], [1], [3, 4]), ("column", [[0, 4]], [1], [3, 4]), ("negative", [[0, -1]], [1], [3, 4]),
        ("batch", [[2, 0, 0]], [1], [2, 3, 4]),
        ("sizes", [[0, 0]], [1, 2], [3, 4]), ("huge", [[0, 0]], [1], [2**33, 4]),
        ("huge batch", [[0, 0, 0]], [1], [2**32, 1, 4])):
    add("SparseTensorToCSRSparseMatrix", f"wrong {name}", lambda f, i=indices, v=values, s=shape: made(f, i, v, s),
        since=(2, 21))  # the older one dies of large sizes


def picked(feeds, array, indices):
    return dense(make_op("DenseToCSRSparseMatrix", dense_input=feed(feeds, array),
                         indices=feed(feeds, np.array(indices, np.int64))), np.float32)


for name, shape, indices in (("row", (3, 4), [[3, 0]]), ("column", (3, 4), [[0, 4]]), ("negative", (3, 4), [[-1, 0]])):
    add("DenseToCSRSparseMatrix", f"wrong {name}", lambda f, s=shape, i=indices: picked(f, np.ones(s, np.float32), i))

# ---- Products ----
WAYS = [dict(zip(("transpose", "adjoint"), way)) for way in ((False, False), (True, False), (False, True))]


def ways_of(a, b):
    return {f"{key}_{name}": value for name, way in (("a", a), ("b", b)) for key, value in way.items()}


for dtype, batch in itertools.product(DTYPES, ((), (3,))):
    for a, b in itertools.product(WAYS, WAYS):
        left, right = ((5, 4) if any(a.values()) else (4, 5)), ((6, 5) if any(b.values()) else (5, 6))
        label = f"{np.dtype(dtype).name} {batch} {ways_of(a, b)}"

        def products(feeds, t=dtype, x=batch + left, y=batch + right, ways=ways_of(a, b)):
            csr = make_op("SparseMatrixSparseMatMul", a=matrix(feeds, x, t), b=matrix(feeds, y, t),
                          type=tf.as_dtype(t), **ways)
            return [dense(csr, t), parts(csr, t)]
        add("SparseMatrixSparseMatMul", label, products)
        for turned, conjugated in itertools.product((False, True), (False, True)):
            def with_dense(feeds, t=dtype, x=batch + left, y=batch + right, ways=ways_of(a, b), out=(turned,
                    conjugated)):
                return make_op("SparseMatrixMatMul", a=matrix(feeds, x, t), b=feed(feeds, numbers(y, t)),
                               transpose_output=out[0], conjugate_output=out[1], **ways)
            add("SparseMatrixMatMul", f"{label} {turned} {conjugated}", with_dense)
for name, x, y in (("inner", (3, 4), (3, 4)), ("batch", (2, 3, 4), (3, 4, 5)),
                   ("no inner", (3, 0), (0, 5)), ("no width", (3, 4), (4, 0)), ("large", (70, 80), (80, 90))):
    add("SparseMatrixMatMul", name, lambda f, x=x, y=y: make_op(
        "SparseMatrixMatMul", a=matrix(f, x, np.float64), b=feed(f, numbers(y, np.float64))))
    add("SparseMatrixSparseMatMul", name, lambda f, x=x, y=y: dense(make_op(
        "SparseMatrixSparseMatMul", a=matrix(f, x, np.float64), b=matrix(f, y, np.float64), type=tf.float64),
                np.float64))
add("SparseMatrixMatMul", "dtypes", lambda f: make_op(
    "SparseMatrixMatMul", a=matrix(f, (3, 4), np.float64), b=feed(f, numbers((4, 5), np.float32))))
add("SparseMatrixSparseMatMul", "dtypes", lambda f: dense(make_op(
    "SparseMatrixSparseMatMul", a=matrix(f, (3, 4), np.float64), b=matrix(f, (4, 5), np.float32), type=tf.float64),
            np.float64))
