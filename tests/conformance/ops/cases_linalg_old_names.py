"""Decompositions and solutions under their old names, which begin with Batch."""
import numpy as np
import tensorflow as tf
from runner import Case

R = tf.raw_ops
tf1 = tf.compat.v1
CASES = []


def add(op, inputs, name="", outputs=None, **attrs):
    CASES.append(Case(op, inputs, attrs, name=f"{len(CASES)}:{op}({name})", outputs=outputs))


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
