"""More linear algebra: least squares, few diagonals, functions of matrices, eigenvalues of general ones."""
import itertools

import numpy as np
import tensorflow as tf

from runner import Case
from cases_linalg import L, LOOSE, positive, regular, values

CASES = []
SHAPES = [(1, 1), (2, 2), (5, 5), (3, 4, 4), (2, 3, 6, 6), (40, 40), (0, 0), (0, 3, 3)]


def add(op, inputs, attrs=None, dtype=np.float32, name=None, **more):
    CASES.append(Case(op, inputs, attrs, tolerance=LOOSE[np.dtype(dtype).name],
                      name=f"{len(CASES)}:{name or Case(op, inputs, attrs).name}", **more))


# ---- CholeskyGrad ----
for dtype in (np.float32, np.float64):
    for shape in SHAPES + [(70, 70)]:
        lower = np.linalg.cholesky(positive(dtype, shape).astype(np.float64)).astype(dtype)
        add("CholeskyGrad", [lower, values(dtype, shape)], dtype=dtype)
square = regular(np.float32, (3, 3))
for inputs in ([square, square[:2]], [square[:2], square[:2]], [square[0], square[0]], [square, square[None]]):
    add("CholeskyGrad", inputs, name="CholeskyGrad(shapes)")

# ---- MatrixSolveLs ----
for dtype, fast in itertools.product(L, (False, True)):
    for shape in [(1, 1), (5, 3), (3, 5), (4, 4), (2, 6, 2), (2, 2, 3, 7), (30, 20)]:
        for k, regularizer in ((1, 0.0), (3, 0.5)):
            add("MatrixSolveLs", [values(dtype, shape), values(dtype, shape[:-1] + (k,)), np.float64(regularizer)],
                {"fast": fast}, dtype)
    flat = np.ones((4, 3), dtype)
    add("MatrixSolveLs", [flat, values(dtype, (4, 2)), np.float64(0)], {"fast": False}, dtype, name="rank 1")
    add("MatrixSolveLs", [np.zeros((4, 3), dtype), values(dtype, (4, 2)), np.float64(0)], {"fast": True}, dtype,
        name="zeros, fast")
    for empty in ([(3, 0), (3, 2)], [(3, 2), (3, 0)], [(0, 3, 2), (0, 3, 1)]):
        add("MatrixSolveLs", [np.zeros(empty[0], dtype), np.zeros(empty[1], dtype), np.float64(0)], {"fast": fast},
            dtype)
a, b = values(np.float32, (4, 3)), values(np.float32, (4, 2))
for name, inputs in {"regularizer": [a, b, np.float64(-1)], "vector": [a, b, np.zeros(1)],
                     "rows": [a, b[:3], np.float64(0)], "rank": [a, b[None], np.float64(0)],
                     "matrix": [a[0], b[0], np.float64(0)]}.items():
    add("MatrixSolveLs", inputs, name=f"MatrixSolveLs({name})")

# ---- Few diagonals ----
def diagonals(dtype, *shape):
    result = values(dtype, shape)
    result[..., 1, :] += dtype(3)
    return result


for dtype in L:
    for batch, n, k in (((), 5, 3), ((2, 3), 4, 1), ((), 1, 2), ((3,), 2, 2), ((), 60, 5), ((), 0, 2), ((0,), 3, 2)):
        right = values(dtype, batch + (n, k))
        for pivots in (False, True):
            add("TridiagonalSolve", [diagonals(dtype, *batch, 3, n), right], {"partial_pivoting": pivots}, dtype)
        add("TridiagonalSolve", [values(dtype, batch + (3, n)), right], {"partial_pivoting": True}, dtype)
        add("TridiagonalSolve", [values(dtype, batch + (3, n)), right],
            {"partial_pivoting": True, "perturb_singular": True}, dtype)
        add("TridiagonalMatMul", [values(dtype, batch + (1, n)) for _ in range(3)] + [right], dtype=dtype)
    zero = np.array([[1, 1, 0], [0, 0, 2], [0, 1, 1]], dtype)
    for attrs in ({"partial_pivoting": False}, {"partial_pivoting": True},
                  {"partial_pivoting": True, "perturb_singular": True}):
        add("TridiagonalSolve", [zero, values(dtype, (3, 2))], attrs, dtype, name=f"zero pivot {attrs}")
        if "perturb_singular" not in attrs:
            add("TridiagonalSolve", [np.zeros((3, 4), dtype), values(dtype, (4, 2))], attrs, dtype,
                name=f"zeros {attrs}", since=(2, 16))
            add("TridiagonalSolve", [np.zeros((3, 1), dtype), values(dtype, (1, 2))], attrs, dtype,
                name=f"one zero {attrs}", since=(2, 16))
    singular = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 0]], dtype)
    add("TridiagonalSolve", [singular, values(dtype, (3, 2))],
        {"partial_pivoting": True, "perturb_singular": True}, dtype, name="singular")
    for lower, adjoint in itertools.product((False, True), (False, True)):
        attrs = {"lower": lower, "adjoint": adjoint}
        for bands, n, k in ((1, 4, 2), (3, 6, 2), (4, 4, 1), (2, 30, 3), (1, 1, 1)):
            matrix = values(dtype, (bands, n))
            matrix[0 if lower else -1] += dtype(3)
            add("BandedTriangularSolve", [matrix, values(dtype, (n, k))], attrs, dtype)
        matrix = values(dtype, (2, 1, 3, 5))
        matrix[..., 0 if lower else -1, :] += dtype(3)
        add("BandedTriangularSolve", [matrix, values(dtype, (4, 5, 2))], attrs, dtype)
d, right = diagonals(np.float32, 3, 4), values(np.float32, (4, 2))
for name, inputs in {"rows": [d[:2], right], "sides": [d, right[:3]], "rank": [d[None], right],
                     "batch": [np.stack([d, d]), right[None]], "vector": [d[0], right[0]]}.items():
    add("TridiagonalSolve", inputs, name=f"TridiagonalSolve({name})")
add("TridiagonalSolve", [d, right], {"partial_pivoting": False, "perturb_singular": True})
row = values(np.float32, (1, 4))
for name, inputs in {"rows": [d[:2], row, row, right], "length": [row, row, row[:, :3], right],
                     "rank": [row, row[0], row, right]}.items():
    add("TridiagonalMatMul", inputs, name=f"TridiagonalMatMul({name})")
for name, inputs in {"zero": [np.zeros((2, 4), np.float32), right], "length": [d, right[:3]], "vector": [d[0], right],
                     "empty": [d[:, :0], right[:0]], "batch": [np.stack([d] * 2), np.stack([right] * 3)]}.items():
    add("BandedTriangularSolve", inputs, name=f"BandedTriangularSolve({name})")

# ---- Functions of matrices ----
for dtype in L:
    for shape in SHAPES[:5] + [(12, 12), (0, 0), (0, 3, 3)]:
        matrix = positive(dtype, shape)
        add("MatrixSquareRoot", [matrix], dtype=dtype)
        add("MatrixSquareRoot", [regular(dtype, shape) @ regular(dtype, shape) + np.asarray(
            5 * np.eye(shape[-1]), dtype)], dtype=dtype)
        if np.dtype(dtype).kind == "c":
            add("MatrixLogarithm", [matrix], dtype=dtype)
            add("MatrixLogarithm", [regular(dtype, shape)], dtype=dtype)
        for scale in [0, 0.01, 0.3, 1.5]:
            add("MatrixExponential", [np.asarray(scale * regular(dtype, shape), dtype)], dtype=dtype,
                name=f"MatrixExponential({np.dtype(dtype).name} {shape} {scale})")
for op, matrix in (("MatrixSquareRoot", square[:2]), ("MatrixSquareRoot", square[0]),
                   ("MatrixLogarithm", square[:2].astype(np.complex64)), ("MatrixExponential", square[:2]),
                   ("MatrixExponential", square[0])):
    add(op, [matrix], name=f"{op}(shape)")


# ---- Eig: values in any order, vectors up to a factor ----
def check_eigen(matrix):
    def check(results):
        found, vectors = results
        left, right = matrix @ vectors, found[..., None, :] * vectors
        tolerance = LOOSE[np.dtype(matrix.dtype).name][0] * 10
        if not np.allclose(left, right, atol=tolerance):
            return f"{left} is not {right}"
        if not np.allclose(np.linalg.norm(vectors, axis=-2), 1, atol=tolerance):
            return "vectors have not the length 1"
        wanted = np.linalg.eigvals(matrix)
        near = np.abs(found[..., :, None] - wanted[..., None, :]).min(-1)
        return None if (near < 10 * tolerance).all() else f"values {found}, wanted {wanted}"
    return check


for dtype in L:
    out = tf.complex64 if np.dtype(dtype).itemsize == 4 or dtype == np.complex64 else tf.complex128
    for shape in [(1, 1), (2, 2), (5, 5), (3, 4, 4), (30, 30)]:
        matrix = values(dtype, shape)
        add("Eig", [matrix], {"Tout": out}, dtype, check=check_eigen(matrix))
        add("Eig", [np.asarray(np.diag(np.arange(1, 6)), dtype)], {"Tout": out, "compute_v": False}, dtype, outputs=[0])
    for shape in ((0, 0), (0, 3, 3)):
        add("Eig", [np.zeros(shape, dtype)], {"Tout": out}, dtype)
    add("Eig", [np.full((3, 3), np.nan, dtype)], {"Tout": out}, dtype, name="Eig(NaN)")
add("Eig", [square[:2]], {"Tout": tf.complex64}, name="Eig(shape)")
