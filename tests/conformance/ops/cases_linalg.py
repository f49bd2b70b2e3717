"""Cases of linear algebra: decompositions, solutions, Einsum, sparse products. What is unique only up
to signs is checked by putting it together again."""
import numpy as np
import tensorflow as tf

from runner import Case, bfloat16

L = [np.float32, np.float64, np.complex64, np.complex128]
random = np.random.RandomState(19)
CASES = []
LOOSE = {"float32": (2e-3, 2e-4), "complex64": (2e-3, 2e-4), "float64": (1e-9, 1e-10),
         "complex128": (1e-9, 1e-10), "float16": (3e-2, 3e-2), "bfloat16": (6e-2, 1e-1)}


def add(op, inputs, attrs=None, dtype=np.float32, **more):
    CASES.append(Case(op, inputs, attrs, tolerance=LOOSE.get(np.dtype(dtype).name), **more))


def values(dtype, shape):
    dtype = np.dtype(dtype)
    if dtype.kind == "i":
        return random.randint(-5, 6, shape).astype(dtype)
    if dtype.kind == "c":
        return (random.uniform(-1, 1, shape) + 1j * random.uniform(-1, 1, shape)).astype(dtype)
    return random.uniform(-1, 1, shape).astype(dtype)


def regular(dtype, shape):
    """Far from singular."""
    return values(dtype, shape) + np.asarray(3 * np.eye(shape[-1]), dtype)


def positive(dtype, shape):
    a = values(dtype, shape)
    return np.matmul(a, np.conj(np.swapaxes(a, -1, -2))) + np.asarray(np.eye(shape[-1]), dtype)


for dtype in L:
    for shape in [(1, 1), (2, 2), (5, 5), (3, 4, 4), (2, 3, 6, 6), (40, 40), (0, 0), (0, 3, 3)]:
        add("Cholesky", [positive(dtype, shape)], dtype=dtype)
        add("MatrixDeterminant", [regular(dtype, shape)], dtype=dtype)
        add("LogMatrixDeterminant", [regular(dtype, shape)], dtype=dtype)
        add("Lu", [regular(dtype, shape)], dtype=dtype)
        for adjoint in [False, True]:
            right = values(dtype, shape[:-1] + (3,))
            add("MatrixInverse", [regular(dtype, shape)], {"adjoint": adjoint}, dtype)
            add("MatrixSolve", [regular(dtype, shape), right], {"adjoint": adjoint}, dtype)
            for lower in [False, True]:
                add("MatrixTriangularSolve", [regular(dtype, shape), right],
                    {"adjoint": adjoint, "lower": lower}, dtype)
    for shape in [(3, 2), (2, 3), (4, 4), (2, 5, 3), (30, 20), (0, 2), (2, 0)]:
        for full in [False, True]:
            add("Qr", [values(dtype, shape)], {"full_matrices": full}, dtype)
        add("Svd", [values(dtype, shape)], {"compute_uv": False}, dtype, outputs=[0])
    for shape in [(1, 1), (2, 2), (3, 5, 5), (20, 20), (0, 0)]:
        add("SelfAdjointEigV2", [positive(dtype, shape)], {"compute_v": False}, dtype, outputs=[0])


def whole(name, fn, dtype):
    """A decomposition and the product of its parts in one graph."""
    def build():
        x, tensors = fn(dtype)
        return x, tensors
    CASES.append(Case(name, name=f"{name} put together ({np.dtype(dtype).name})", build=build,
                      tolerance=LOOSE[np.dtype(dtype).name]))


def svd(full, shape):
    def fn(dtype):
        x = tf.compat.v1.placeholder(dtype, None)
        s, u, v = tf.raw_ops.Svd(input=x, compute_uv=True, full_matrices=full)
        p = min(shape[-2:])
        scaled = tf.multiply(u[..., :, :p], tf.expand_dims(s, -2))
        return {x: values(dtype, shape)}, [tf.matmul(scaled, v[..., :, :p], adjoint_b=True), s,
                                           tf.matmul(u, u, adjoint_a=True),
                                           tf.matmul(v, v, adjoint_a=True)]
    return fn


def eigen(shape):
    def fn(dtype):
        x = tf.compat.v1.placeholder(dtype, None)
        e, v = tf.raw_ops.SelfAdjointEigV2(input=x, compute_v=True)
        return {x: positive(dtype, shape)}, [tf.matmul(v * tf.expand_dims(e, -2), v,
                                                       adjoint_b=True), e]
    return fn


for dtype in L:
    for shape in [(3, 2), (2, 3), (2, 4, 4), (12, 7)]:
        for full in [False, True]:
            whole("Svd", svd(full, shape), dtype)
    whole("SelfAdjointEigV2", eigen((2, 5, 5)), dtype)
bad, singular = np.float32([[1, 2], [2, 1]]), np.float32([[1, 2], [2, 4]])
add("MatrixInverse", [regular(np.float16, (2, 3, 3))], {"adjoint": True}, np.float16)
add("MatrixInverse", [regular(np.float16, (4, 4))], {}, np.float16)
for op in ["Cholesky", "MatrixInverse", "MatrixDeterminant", "LogMatrixDeterminant", "Lu", "Qr",
           "SelfAdjointEigV2"]:
    add(op, [bad[0]])
    add(op, [values(np.float32, (2, 3))])
    if op not in ("Cholesky", "Qr", "SelfAdjointEigV2", "LogMatrixDeterminant"):
        add(op, [singular])


def lower_factor(matrix):
    """The part that counts: above the diagonal of a factor that is none, 2.21 leaves what was there."""
    def build():
        x = tf.compat.v1.placeholder(tf.float32, None)
        return {x: matrix}, [tf.linalg.band_part(tf.raw_ops.Cholesky(input=x), -1, 0)]
    return build


CASES.append(Case("Cholesky", name="Cholesky of an indefinite matrix", build=lower_factor(bad)))
CASES.append(Case("Cholesky", name="Cholesky of a singular matrix", build=lower_factor(singular)))
add("Svd", [bad[0]])
for a, b in [(singular, bad), (bad, bad[:1]), (bad, bad[0]), (np.stack([bad, bad]), bad)]:
    add("MatrixSolve", [a, b])
add("MatrixTriangularSolve", [np.float32([[0, 0], [1, 1]]), bad])
for a, b in [((3, 2, 2), (2, 4)), ((2, 2), (3, 2, 4)), ((3, 1, 2, 2), (5, 2, 4)), ((2, 2), (1, 4)),
             ((3, 2, 2), (2, 2, 4)), ((2, 3), (2, 4)), ((2,), (2, 4))]:
    add("MatrixTriangularSolve", [values(np.float32, a) + 2, values(np.float32, b)])

# ---- Einsum ----
for equation, *shapes in [
        ("ij,jk->ik", (3, 4), (4, 5)), ("ij,kj->ik", (3, 4), (5, 4)), ("ji,jk->ik", (4, 3), (4, 5)),
        ("ij,jk->ki", (3, 4), (4, 5)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
        ("bij,bkj->bki", (2, 3, 4), (2, 5, 4)), ("ij->ji", (3, 4)), ("ij->", (3, 4)),
        ("ij->i", (3, 4)), ("ij->j", (3, 4)), ("ii->i", (4, 4)), ("ii->", (4, 4)), ("i->ii", (4,)),
        ("iji->j", (3, 4, 3)), ("ij,ij->", (3, 4), (3, 4)), ("ij,ij->ij", (3, 4), (3, 4)),
        ("i,j->ij", (3,), (4,)), ("...ij,...jk->...ik", (2, 3, 4), (4, 5)),
        ("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)), ("...ij->...ji", (2, 3, 4)),
        ("...->...", (2, 3)), ("i...->...", (3, 2, 4)), ("ab...,b...c->ac...", (2, 3, 4), (3, 4, 5)),
        ("abc,cd->abd", (2, 3, 4), (4, 5)), ("abcd,cbe->adeb", (2, 3, 4, 5), (4, 3, 6)),
        ("aab,bcc->ac", (2, 2, 3), (3, 4, 4)), ("ij,k->ik", (3, 4), (5,)), ("ij,jk->i", (3, 4), (4, 5)),
        (",->", (), ()), (",ab->ba", (), (2, 3)), ("abc,abc->bca", (2, 3, 4), (2, 3, 4)),
        ("bqhd,bkhd->bhqk", (2, 5, 3, 4), (2, 6, 3, 4)), ("ij,jk->ik", (0, 4), (4, 5)),
        ("ij,jk->ik", (3, 0), (0, 5)), ("ij,jk->ik", (3, 4), (5, 6)),
        ("ij,jk->ik", (3, 4, 1), (4, 5))]:
    for dtype in [np.float32, np.complex64, np.int32] if len(shapes) == 2 else [np.float32]:
        add("Einsum", [[values(dtype, shape) for shape in shapes]], {"equation": equation}, dtype)
for dtype in [np.float64, np.float16, bfloat16, np.complex128, np.int64]:
    add("Einsum", [[values(dtype, (2, 3, 4)), values(dtype, (2, 4, 5))]],
        {"equation": "bij,bjk->kbi"}, dtype)
add("Einsum", [[values(np.float32, (70, 80)), values(np.float32, (80, 90))]],
    {"equation": "ij,jk->ki"})
for equation, *shapes in [
        ("->...", ()), ("ij->...", (2, 3)), ("ij->...ij", (2, 3)), ("ij->i...j", (2, 3)),
        ("i,j->...ij", (2,), (3,)), ("ijk->...", (2, 3)), ("a b->a", (2, 1, 3)), ("1->1", (3,)),
        ("...ij,jk->ik", (3,), (3, 4)), ("...ij,...jk->...ik", (5, 2, 3), (7, 3, 4)),
        ("...bijl,...jkbm->...bik", (5, 2, 3, 4, 3), (7, 4, 4, 2, 2)),
        ("j...ai,bjk...b->...ik", (2, 5, 3, 4), (3, 2, 6, 7, 3)),
        ("...ji,...kj->...ik", (5, 2, 3), (7, 3, 2)),
        ("...ij,...jk->ik", (2, 2, 3), (3, 4)), ("...ij->ij", (1, 2, 3)), ("...ij->ij", (2, 3)),
        ("ij...->ij", (2, 3, 1, 1)), ("ij...->ij", (2, 3, 0)), ("a...->", (3, 1)),
        ("ab,b...->a", (2, 3), (3, 1)), ("ii->i", (2, 3))]:
    add("Einsum", [[values(np.float32, shape) for shape in shapes]], {"equation": equation},
        np.float32)

# ---- Sparse ----
for dtype in [np.float32, np.float64, np.float16, bfloat16, np.complex64, np.complex128, np.int32]:
    for index in [np.int32, np.int64]:
        for adjoint_a, adjoint_b in [(False, False), (True, False), (False, True), (True, True)]:
            places = np.array([[0, 1], [2, 0], [2, 3], [0, 1]], index)
            inner, outer = (3, 4) if adjoint_a else (4, 3)
            add("SparseTensorDenseMatMul",
                [places, values(dtype, (4,)), np.int64([3, 4]),
                 values(dtype, (5, inner) if adjoint_b else (inner, 5))],
                {"adjoint_a": adjoint_a, "adjoint_b": adjoint_b}, dtype)
for places, count, shape, b in [([[0, 1], [5, 0]], 2, [2, 2], (2, 2)), ([[0, 7]], 1, [2, 2], (2, 2)),
                                ([[0, -1]], 1, [2, 2], (2, 2)), ([[0, 1]], 1, [2, 3], (2, 2)),
                                ([[0, 1]], 2, [2, 2], (2, 2)), ([[0, 1]], 1, [2, 2, 2], (2, 2)),
                                ([[0, 1]], 1, [2, 2], (2,)), (np.zeros((0, 2)), 0, [2, 2], (2, 2))]:
    add("SparseTensorDenseMatMul", [np.int64(places), values(np.float32, (count,)),
                                    np.int64(shape), values(np.float32, b)])
for ta in [np.float32, bfloat16]:
    for tb in [np.float32, bfloat16]:
        for transpose in [False, True]:
            add("SparseMatMul", [values(ta, (4, 3) if transpose else (3, 4)),
                                 values(tb, (5, 4) if transpose else (4, 5))],
                {"transpose_a": transpose, "transpose_b": transpose}, bfloat16)
