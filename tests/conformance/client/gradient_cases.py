"""Graphs for test_gradients.py, on whose gradients TensorFlow and Downpour must agree. CASES maps a
name to a function that builds the graph and returns (ys, xs). Inputs are constants from a fixed
seed."""
import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
raw = tf.raw_ops
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def random(*shape, low=-1.0, high=1.0, dtype=np.float32, seed=1):
    """A constant of random numbers; each call in a graph gives other numbers."""
    graph = tf1.get_default_graph()
    seed += 7 * len(graph.get_operations())
    values = np.random.RandomState(seed % 2**31).uniform(low, high, shape)
    return tf.constant(values.astype(dtype))


def unary(name, op, low=-1.0, high=1.0, dtype=np.float32):
    def build():
        x = random(2, 3, low=low, high=high, dtype=dtype)
        return [op(x)], [x]
    CASES[name] = build


for name, op in {
        "abs": raw.Abs, "neg": raw.Neg, "square": raw.Square, "exp": raw.Exp, "expm1": raw.Expm1,
        "sin": raw.Sin, "cos": raw.Cos, "tan": raw.Tan, "sinh": raw.Sinh, "cosh": raw.Cosh,
        "tanh": raw.Tanh, "asinh": raw.Asinh, "atan": raw.Atan, "sigmoid": raw.Sigmoid,
        "erf": raw.Erf, "erfc": raw.Erfc, "sign": raw.Sign, "floor": raw.Floor}.items():
    unary(name, lambda x, op=op: op(x=x))
for name, op in {"log": raw.Log, "log1p": raw.Log1p, "sqrt": raw.Sqrt, "rsqrt": raw.Rsqrt,
                 "reciprocal": raw.Reciprocal, "lgamma": raw.Lgamma,
                 "digamma": raw.Digamma}.items():
    unary(name, lambda x, op=op: op(x=x), low=0.3, high=2.0)
for name, op in {"asin": raw.Asin, "acos": raw.Acos, "atanh": raw.Atanh}.items():
    unary(name, lambda x, op=op: op(x=x), low=-0.8, high=0.8)
unary("acosh", lambda x: raw.Acosh(x=x), low=1.2, high=3)
for name, op in {"relu": tf.nn.relu, "relu6": lambda x: tf.nn.relu6(8 * x), "elu": tf.nn.elu,
                 "selu": tf.nn.selu, "softplus": tf.nn.softplus, "softsign": tf.nn.softsign,
                 "leaky_relu": lambda x: tf.nn.leaky_relu(x, 0.3), "softmax": tf.nn.softmax,
                 "log_softmax": tf.nn.log_softmax, "l2_loss": tf.nn.l2_loss,
                 "double_tanh": lambda x: tf.tanh(tf.cast(x, tf.float64)),
                 "check_numerics": lambda x: tf.debugging.check_numerics(x, "bad"),
                 "stop_gradient": lambda x: x * tf.stop_gradient(x),
                 "identity_n": lambda x: tf.identity_n([x, 2 * x])[1],
                 "print": lambda x: tf1.Print(x, [], "")}.items():
    unary(name, op)


def binary(name, op, low=-1.0, high=1.0, shapes=((2, 3), (3,))):
    def build():
        x, y = (random(*shape, low=low, high=high) for shape in shapes)
        return [op(x, y)], [x, y]
    CASES[name] = build


for name, op in {
        "add": raw.Add, "add_v2": raw.AddV2, "sub": raw.Sub, "mul": raw.Mul, "maximum": raw.Maximum,
        "minimum": raw.Minimum, "squared_difference": raw.SquaredDifference,
        "mul_no_nan": raw.MulNoNan}.items():
    binary(name, lambda x, y, op=op: op(x=x, y=y))
    binary(name + "_scalar", lambda x, y, op=op: op(x=x, y=y), shapes=((), (2, 2)))
for name, op in {"div": raw.Div, "real_div": raw.RealDiv, "div_no_nan": raw.DivNoNan,
                 "pow": raw.Pow, "floor_mod": raw.FloorMod,
                 "floor_div": raw.FloorDiv, "xdivy": raw.Xdivy, "xlogy": raw.Xlogy}.items():
    binary(name, lambda x, y, op=op: op(x=x, y=y), low=0.3, high=2.0)
binary("atan2", lambda x, y: raw.Atan2(y=x, x=y), shapes=((2, 3), (2, 3)))
binary("mat_mul", tf.matmul, shapes=((2, 3), (3, 4)))
binary("mat_mul_ta", lambda a, b: tf.matmul(a, b, transpose_a=True), shapes=((3, 2), (3, 4)))
binary("mat_mul_tb", lambda a, b: tf.matmul(a, b, transpose_b=True), shapes=((2, 3), (4, 3)))
binary("mat_mul_both", lambda a, b: tf.matmul(a, b, transpose_a=True, transpose_b=True),
       shapes=((3, 2), (4, 3)))
for a in (False, True):
    for b in (False, True):
        binary(f"batch_mat_mul_{a}_{b}",
               lambda x, y, a=a, b=b: raw.BatchMatMul(x=x, y=y, adj_x=a, adj_y=b),
               shapes=((2, 3, 2) if a else (2, 2, 3), (2, 4, 3) if b else (2, 3, 4)))
        binary(f"batch_mat_mul_v2_{a}_{b}",
               lambda x, y, a=a, b=b: raw.BatchMatMulV2(x=x, y=y, adj_x=a, adj_y=b),
               shapes=((5, 1, 3, 2) if a else (5, 1, 2, 3), (2, 4, 3) if b else (2, 3, 4)))
binary("bias_add", tf.nn.bias_add, shapes=((2, 4, 3), (3,)))


def reduction(name, op, axes=((0,), (1,), (0, 1), (-1,), ())):
    for axis in axes:
        def build(axis=axis):
            x = random(2, 3, 2)
            return [op(x, list(axis))], [x]
        CASES[f"{name}_{'_'.join(map(str, axis)) or 'none'}"] = build


for name, op in {"sum": tf.reduce_sum, "mean": tf.reduce_mean, "max": tf.reduce_max,
                 "min": tf.reduce_min}.items():
    reduction(name, op)
reduction("prod", tf.reduce_prod, axes=((0,), (1,), (0, 2)))


@case
def sum_scalar_axis_kept():
    x = random(2, 3)
    return [tf.reduce_sum(x * x, 1, keepdims=True)], [x]


@case
def max_with_ties():
    x = tf.constant([[1., 2., 2.], [0., 0., 0.]])
    return [tf.reduce_max(x, 1)], [x]


@case
def running():
    x = random(4, 3, low=0.5, high=1.5)
    return [tf.cumsum(x, 0), tf.cumsum(x, 1, exclusive=True, reverse=True),
            tf.math.cumprod(x, 0), tf.math.cumprod(x, 1, reverse=True)], [x]


@case
def segments():
    x, ids = random(5, 2), tf.constant([0, 0, 1, 3, 3])
    loose = tf.constant([3, 0, -1, 0, 2])
    return [tf.math.segment_sum(x, ids), tf.math.segment_mean(x, ids),
            tf.math.segment_max(x, ids), tf.math.segment_min(x, ids),
            tf.math.unsorted_segment_sum(x, loose, 4),
            tf.math.unsorted_segment_max(x, tf.abs(loose), 4)], [x]


@case
def sparse_segments():
    x, rows, ids = random(5, 2), tf.constant([0, 2, 2, 4]), tf.constant([0, 0, 1, 1])
    return [tf.sparse.segment_sum(x, rows, ids), tf.sparse.segment_mean(x, rows, ids),
            tf.sparse.segment_sqrt_n(x, rows, ids)], [x]


@case
def shapes():
    x = random(2, 3, 1)
    return [tf.reshape(x, [6]) * 2, tf.expand_dims(x, 0) * 3, tf.squeeze(x, 2) * 5,
            tf.transpose(x, [2, 0, 1]) * 7, tf.tile(x, [2, 1, 3]) * random(4, 3, 3),
            tf.broadcast_to(x, [4, 2, 3, 2]) * random(4, 2, 3, 2),
            tf.reverse(x, [1]) * random(2, 3, 1)], [x]


@case
def joins():
    a, b, c = random(2, 3), random(2, 3), random(2, 3)
    parts = tf.split(a, 3, 1)
    uneven = tf.split(b, [1, 2], 1)
    rows = tf.unstack(c, axis=0)
    return [tf.concat([a, b, c], -1) * random(2, 9), tf.stack([a, b], 1) * random(2, 2, 3),
            parts[1] * 3, uneven[1] * random(2, 2), rows[0] * random(3),
            raw.Concat(concat_dim=0, values=[a, b]) * random(4, 3), tf.concat([a], 0)], [a, b, c]


@case
def slices():
    x = random(4, 5)
    return [tf.slice(x, [1, 2], [2, -1]) * random(2, 3), x[1:3, ::2] * random(2, 3), x[2] * 3,
            x[:, tf.newaxis, -1] * 2, tf.pad(x, [[1, 0], [2, 1]]) * random(5, 8),
            tf.pad(x, [[1, 1], [2, 1]], "REFLECT") * random(6, 8),
            tf.pad(x, [[1, 1], [2, 1]], "SYMMETRIC") * random(6, 8)], [x]


@case
def pad_v2():
    x, v = random(2, 2), random()
    return [raw.PadV2(input=x, paddings=[[1, 0], [0, 2]], constant_values=v) * random(3, 4)], [x, v]


@case
def gathers():
    x = random(4, 3, 2)
    rows = tf.constant([[0, 2], [2, 3]])
    return [tf.gather(x, rows) * random(2, 2, 3, 2),
            tf.gather(x, [2, 0, 2], axis=1) * random(4, 3, 2),
            tf.gather(x, tf.constant([[1, 0]]), axis=-1) * random(4, 3, 1, 2),
            tf.gather_nd(x, [[0, 1], [3, 2], [0, 1]]) * random(3, 2),
            raw.Gather(params=x, indices=rows) * 2], [x]


@case
def scatters():
    x, u = random(5, 2), random(2, 2)
    at = tf.constant([[1], [3]])
    return [tf.scatter_nd(at, u, [5, 2]) * random(5, 2),
            tf.tensor_scatter_nd_update(x, at, u) * random(5, 2),
            tf.tensor_scatter_nd_add(x, at, u) * random(5, 2)], [x, u]


@case
def partitions():
    x = random(5, 2)
    parts = tf.dynamic_partition(x, [1, 0, 1, 2, 0], 3)
    stitched = tf.dynamic_stitch([[0, 2], [1, 3]], [x[:2], x[2:4]])
    return [parts[0] * random(2, 2), parts[1] * 3, stitched * random(4, 2)], [x]


@case
def top_k():
    x = random(2, 3, 5)
    values, _ = tf.math.top_k(x, 2)
    return [values * random(2, 3, 2)], [x]


@case
def selects():
    a, b = random(3, 2), random(3, 2)
    c = tf.constant([True, False, True])
    return [tf1.where(c, a, b) * random(3, 2), tf.where(c[:, None], a, b[:1]) * random(3, 2)], [a, b]


@case
def clip():
    x, low, high = random(3, 2), tf.constant(-0.4), tf.constant(0.3)
    return [tf.clip_by_value(x, -0.5, 0.5), raw.Maximum(x=x, y=low) * raw.Minimum(x=x, y=high)], [
        x, low, high]


@case
def diagonals():
    v, m = random(3), random(2, 3, 3)
    return [tf.linalg.tensor_diag(v) * random(3, 3), raw.DiagPart(input=m[0]) * random(3),
            raw.MatrixDiag(diagonal=v) * random(3, 3), raw.MatrixDiagPart(input=m) * random(2, 3),
            raw.MatrixSetDiag(input=m, diagonal=tf.stack([v, v])) * random(2, 3, 3),
            tf.linalg.band_part(m, 1, 0) * random(2, 3, 3)], [v, m]


@case
def blocks():
    x = random(2, 4, 4, 4)
    return [tf.nn.space_to_depth(x, 2) * random(2, 2, 2, 16),
            tf.nn.depth_to_space(x, 2) * random(2, 8, 8, 1),
            tf.space_to_batch(x, [2, 2], [[0, 0], [0, 0]]) * random(8, 2, 2, 4)], [x]


@case
def fill_and_add_n():
    x, y = random(), random(2, 2)
    return [tf.fill([2, 3], x) * random(2, 3), tf.add_n([y, 2 * y, y * y])], [x, y]


@case
def complex_numbers():
    a, b = random(2, 2), random(2, 2)
    z = tf.complex(a, b)
    return [tf.math.real(z * tf.math.conj(z) * z), tf.math.imag(z / (1 + z)), tf.abs(z),
            tf.math.angle(z), tf.math.real(tf.exp(z))], [a, b]


# ---- Matrices ----

def square_matrix(seed=3):
    values = np.random.RandomState(seed).uniform(-1, 1, (2, 3, 3))
    return tf.constant((values + 3 * np.eye(3)).astype(np.float64))


@case
def matrix_inverse():
    m = square_matrix()
    return [tf.linalg.inv(m), tf.linalg.inv(m, adjoint=True) * 2], [m]


@case
def matrix_solve():
    m, b = square_matrix(), random(2, 3, 2, dtype=np.float64)
    return [tf.linalg.solve(m, b), tf.linalg.solve(m, b, adjoint=True) * b,
            tf.linalg.triangular_solve(m, b), tf.linalg.det(m)], [m, b]


@case
def cholesky():
    m = square_matrix()
    spd = tf.matmul(m, m, transpose_b=True)
    return [tf.linalg.cholesky(spd) * random(2, 3, 3, dtype=np.float64)], [m]


@case
def sparse_dense():
    values, b, c = random(3), random(4, 2), random(2, 4)
    sparse = tf.SparseTensor([[0, 1], [1, 3], [2, 0]], values, [3, 4])
    return [tf.sparse.sparse_dense_matmul(sparse, b) * random(3, 2),
            tf.sparse.sparse_dense_matmul(sparse, c, adjoint_b=True) * random(3, 2)], [values, b, c]


@case
def newer_diagonals():
    v, m = random(3), random(2, 3, 3)
    return [tf.linalg.diag(v) * random(3, 3), tf.linalg.diag_part(m) * random(2, 3),
            tf.linalg.diag_part(m, k=1) * random(2, 2),
            tf.linalg.set_diag(m, tf.stack([v, v])) * random(2, 3, 3)], [v, m]


@case
def einsums():
    a, b, c = random(2, 3), random(3, 4), random(5, 2, 3)
    return [tf.einsum("ab,bc->ac", a, b) * random(2, 4), tf.einsum("ab->ba", a) * random(3, 2),
            tf.einsum("xab,bc->xca", c, b) * random(5, 4, 2), tf.einsum("ab,cd->a", a, b),
            tf.einsum("ab->", a)], [a, b, c]


# ---- Gathering by batch ----

def batch_gather(name, shape, indices, axis, batch_dims):
    def build():
        x = random(*shape)
        y = raw.GatherV2(params=x, indices=tf.constant(indices), axis=axis, batch_dims=batch_dims)
        return [y * random(*y.shape)], [x]
    CASES[name] = build


batch_gather("gather_batch", (2, 3, 4), [[0, 2], [2, 2]], 1, 1)
batch_gather("gather_batch_inner", (2, 3, 4), [[0, 2, 0], [3, 3, 1]], 2, 1)
batch_gather("gather_batch_negative", (2, 3, 4), [[0, 2], [2, 2]], -1, -1)
batch_gather("gather_batch_two", (2, 2, 3), [[[0], [2]], [[2], [1]]], 2, 2)
batch_gather("gather_no_batch", (2, 3, 4), [[0, 2], [2, 2]], 1, 0)


# ---- Einsum ----

def einsum(name, equation, *shapes, dtype=np.float32):
    def build():
        xs = [random(*shape, dtype=np.float32) for shape in shapes]
        if dtype == np.complex64:
            xs = [tf.complex(x, x * x) for x in xs]
        y = raw.Einsum(inputs=xs, equation=equation)
        weight = tf.cast(random(*y.shape), y.dtype)
        return [tf.math.real(y * weight)], xs
    CASES["einsum_" + name] = build


einsum("dots", "...ab,...bc->...ac", (5, 2, 3), (5, 3, 4))
einsum("dots_broadcast", "...ab,...bc->...ac", (5, 1, 2, 3), (7, 3, 4))
einsum("dots_one_side", "...ab,bc->...ac", (5, 2, 3), (3, 4))
einsum("dots_other_side", "ab,...bc->a...c", (2, 3), (5, 3, 4))
einsum("dots_empty", "...ab,bc->...ac", (2, 3), (3, 4))
einsum("dots_reduced", "...ab,...c->...a", (2, 2, 3), (2, 4))
einsum("dots_reduced_behind", "a...b,c->...a", (2, 5, 3), (4,))
einsum("dots_unary", "a...b->b...", (2, 5, 3))
einsum("trace", "aa->", (3, 3))
einsum("diagonal", "aab->ba", (3, 3, 2))
einsum("into_diagonal", "ab->aab", (3, 2))
einsum("repeated_reduced", "aabbcd->ca", (2, 2, 3, 3, 2, 4))
einsum("repeated_binary", "aab,bc->ac", (3, 3, 2), (2, 4))
einsum("repeated_reduced_binary", "abbe,cd->ca", (2, 3, 3, 2), (4, 2))
einsum("transposed_reduction", "abc->ca", (2, 3, 4))
einsum("complex", "ab,bc->ac", (2, 3), (3, 4), dtype=np.complex64)
einsum("complex_dots", "...ab,bc->...ac", (2, 2, 3), (3, 4), dtype=np.complex64)


# ---- Special functions ----

for name, op in {"bessel_i0": raw.BesselI0, "bessel_i0e": raw.BesselI0e, "bessel_i1": raw.BesselI1,
                 "bessel_i1e": raw.BesselI1e, "bessel_j0": raw.BesselJ0, "bessel_j1": raw.BesselJ1,
                 "dawsn": raw.Dawsn, "fresnel_cos": raw.FresnelCos, "fresnel_sin": raw.FresnelSin,
                 "rint": raw.Rint}.items():
    unary(name, lambda x, op=op: op(x=x))
for name, op in {"bessel_k0": raw.BesselK0, "bessel_k0e": raw.BesselK0e, "bessel_k1": raw.BesselK1,
                 "bessel_k1e": raw.BesselK1e, "bessel_y0": raw.BesselY0, "bessel_y1": raw.BesselY1,
                 "expint": raw.Expint, "spence": raw.Spence}.items():
    unary(name, lambda x, op=op: op(x=x), low=0.3, high=2.0)
for name, op in {"erfinv": raw.Erfinv, "ndtri": raw.Ndtri}.items():
    unary(name, lambda x, op=op: op(x=x), low=0.1, high=0.9)
for name, op in {"igamma": lambda a, x: raw.Igamma(a=a, x=x),
                 "igammac": lambda a, x: raw.Igammac(a=a, x=x),
                 "zeta": lambda a, x: raw.Zeta(x=1 + a, q=x),
                 "polygamma": lambda a, x: raw.Polygamma(a=tf.round(a), x=x),
                 "xlog1py": lambda a, x: raw.Xlog1py(x=a, y=x)}.items():
    binary(name, op, low=0.6, high=2.0)
binary("next_after", lambda a, b: raw.NextAfter(x1=a, x2=b))


@case
def special_at_edges():
    x = tf.constant([0.0, 1.0])
    return [raw.BesselI1(x=x), raw.BesselI1e(x=x), raw.BesselJ1(x=x), raw.Spence(x=x)], [x]


@case
def betainc():
    a, b, x = (random(2, 3, low=0.4, high=0.9) for _ in range(3))
    return [raw.Betainc(a=a, b=b, x=x) * random(2, 3)], [a, b, x]


@case
def stateless_gamma():
    alpha = random(3, low=0.5, high=2.0)
    y = tf.random.stateless_gamma([4, 3], seed=[1, 2], alpha=alpha)
    return [y * random(4, 3)], [alpha]


# ---- Signals ----

@case
def fourier():
    a, b = random(2, 4, 4, 3), random(2, 4, 4, 3)
    z = tf.complex(a, b)
    weight = tf.complex(random(2, 4, 4, 3), random(2, 4, 4, 3))
    transforms = [tf.signal.fft, tf.signal.ifft, tf.signal.fft2d, tf.signal.ifft2d,
                  tf.signal.fft3d, tf.signal.ifft3d]
    return [tf.math.real(transform(z) * weight) for transform in transforms], [a, b]


@case
def real_fourier():
    ys, xs = [], []
    for length in (6, 5):
        x = random(2, 4, length)
        half = tf.complex(random(2, 4, length // 2 + 1), random(2, 4, length // 2 + 1))
        z = half * 1
        ys += [tf.math.real(tf.signal.rfft(x) * half), tf.math.imag(tf.signal.rfft2d(x) * half),
               tf.signal.irfft(z, [length]) * x, tf.signal.irfft2d(z, [4, length]) * x]
        xs += [x, z]
    return ys, xs


# ---- Sparse tensors ----

SPARSE = ([[0, 1], [1, 3], [2, 0]], [3, 4])


def sparse(values):
    return tf.SparseTensor(SPARSE[0], values, SPARSE[1])


@case
def sparse_sums():
    v, w, d = random(3), random(3), random(3, 4)
    other = tf.SparseTensor([[0, 1], [1, 1], [2, 0]], w, [3, 4])
    both = tf.sparse.add(sparse(v), other)
    part = tf.sparse.slice(sparse(v), [0, 0], [2, 4])
    return [both.values * random(4), tf.sparse.add(d, sparse(v)) * random(3, 4),
            part.values * random(2), tf.sparse.reduce_sum(sparse(v), 1) * random(3),
            tf.sparse.reduce_sum(sparse(v), [-2], keepdims=True) * random(1, 4),
            tf.sparse.softmax(sparse(v)).values * random(3)], [v, w, d]


@case
def sparse_and_dense():
    v, d, row = random(3), random(3, 4, low=0.5, high=2.0), random(4, low=0.5, high=2.0)
    ops = [raw.SparseDenseCwiseMul, raw.SparseDenseCwiseDiv]
    return [op(sp_indices=tf.constant(SPARSE[0], tf.int64), sp_values=v,
               sp_shape=tf.constant(SPARSE[1], tf.int64), dense=dense) * random(3)
            for op in ops for dense in (d, row)], [v, d, row]


@case
def sparse_moves():
    v, default = random(3), random()
    loose = tf.SparseTensor([[2, 0], [0, 1], [1, 3]], v, [3, 4])
    gaps = tf.SparseTensor([[0, 1], [3, 3], [3, 0]], v, [5, 4])
    filled = raw.SparseFillEmptyRows(indices=gaps.indices, values=v, dense_shape=gaps.dense_shape,
                                     default_value=default)
    dense = raw.SparseToDense(sparse_indices=SPARSE[0], output_shape=SPARSE[1], sparse_values=v,
                              default_value=default)
    return [tf.sparse.reorder(loose).values * random(3), filled.output_values * random(6),
            dense * random(3, 4)], [v, default]


@case
def ragged_to_sparse():
    v = random(5)
    return [tf.RaggedTensor.from_row_splits(v, [0, 2, 2, 5]).to_sparse().values * random(5)], [v]


# ---- Further ops of the families above ----

@case
def segment_products():
    x = tf.constant([[1., 2.], [0., 3.], [4., 0.], [0.5, 0.], [2., 3.]])
    ids = tf.constant([0, 0, 1, 1, 3])
    y, z = tf.math.segment_prod(x, ids), tf.math.unsorted_segment_prod(x, ids, 4)
    return [y * random(4, 2), z * random(4, 2)], [x]


@case
def segment_products_left_out():
    x = random(5, 2, low=0.5)
    return [tf.math.unsorted_segment_prod(x, [3, 0, -1, 0, 2], 4) * random(4, 2)], [x]


@case
def sparse_segments_counted():
    x, rows, ids = random(5, 2), tf.constant([0, 2, 2, 4]), tf.constant([0, 0, 1, 1])
    return [op(x, rows, ids, num_segments=4) * random(4, 2)
            for op in (tf.sparse.segment_sum, tf.sparse.segment_mean, tf.sparse.segment_sqrt_n)], [x]


@case
def running_log_sums():
    x = random(4, 3)
    return [raw.CumulativeLogsumexp(x=x, axis=0) * random(4, 3),
            raw.CumulativeLogsumexp(x=x, axis=1, reverse=True) * random(4, 3)], [x]


@case
def nth_elements():
    x = tf.constant([[3., 1., 2., 2.], [5., 5., 5., 1.]])
    return [raw.NthElement(input=x, n=1) * random(2), raw.NthElement(input=x, n=0) * 2], [x]


@case
def cross():
    a, b = random(2, 3), random(2, 3)
    return [tf.linalg.cross(a, b) * random(2, 3)], [a, b]


@case
def log_determinant():
    m = square_matrix()
    return [tf.linalg.slogdet(m).log_abs_determinant * random(2, dtype=np.float64)], [m]


binary("batch_mat_mul_v3", lambda x, y: raw.BatchMatMulV3(x=x, y=y, Tout=tf.float32),
       shapes=((5, 1, 2, 3), (2, 3, 4)))
unary("accumulate_n", lambda x: raw.AccumulateNV2(inputs=[x, 2 * x, x], shape=[2, 3]))
unary("check_numerics_v2", lambda x: raw.CheckNumericsV2(tensor=x, message="bad"))


@case
def more_scatters():
    x, u, at = random(5, 2), random(2, 2), tf.constant([[1], [3]])
    tied = tf.tensor_scatter_nd_update(x, [[1]], u[:1])
    return [tf.tensor_scatter_nd_sub(x, at, u) * random(5, 2),
            tf.tensor_scatter_nd_max(x, at, u) * random(5, 2),
            tf.tensor_scatter_nd_min(tied, at, u) * random(5, 2),
            raw.ScatterNdNonAliasingAdd(input=x, indices=at, updates=u) * random(5, 2)], [x, u]


@case
def strided_slice_updates():
    x, u, one = random(4, 5), random(2, 3), random()
    def update(value):
        return raw.TensorStridedSliceUpdate(input=x, begin=[1, 0], end=[3, 5], strides=[1, 2],
                                            value=value)
    return [update(u) * random(4, 5), update(one) * random(4, 5)], [x, u, one]


@case
def older_blocks():
    x = random(4, 4, 4, 1)
    return [raw.SpaceToBatch(input=x, paddings=[[0, 0], [0, 0]], block_size=2) * random(16, 2, 2, 1),
            raw.BatchToSpace(input=x, crops=[[0, 0], [0, 0]], block_size=2) * random(1, 8, 8, 1)], [x]


@case
def mirror_pad_twice():
    x = random(3, 4)
    return tf.gradients(tf.pad(x, [[1, 1], [2, 1]], "REFLECT") ** 3, x), [x]


@case
def banded_diagonals():
    v, m, k = random(2, 3), random(3, 4), tf.constant([-1, 0])
    wide = {"k": k, "padding_value": 0.0}
    return [raw.MatrixDiagV2(diagonal=v, num_rows=-1, num_cols=-1, **wide) * random(3, 3),
            raw.MatrixDiagPartV2(input=m, **wide) * random(2, 3),
            raw.MatrixSetDiagV2(input=m, diagonal=v, k=k) * random(3, 4)], [v, m]
