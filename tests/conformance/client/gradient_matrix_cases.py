"""Graphs for test_gradients.py with decompositions, sparse and banded matrices, ragged tensors,
images and a few layers. The form is that of gradient_cases.py. OLD_CASES have ops that only graphs
of an old version may hold."""
import numpy as np
import tensorflow as tf
from gradient_cases import CASES, case, random, raw


def symmetric(*shape, dtype=np.float64):
    """A constant matrix whose eigenvalues are far apart."""
    x = random(*shape, dtype=dtype)
    return x + tf.linalg.adjoint(x) + tf.constant(np.diag(np.arange(shape[-1]) * 3.0), dtype)


def complex_random(*shape):
    return tf.complex(random(*shape, dtype=np.float64), random(*shape, dtype=np.float64))


def each(name, variants):
    """Makes one case per entry of the arguments, named by its place in the list."""
    def register(function):
        for i, arguments in enumerate(variants):
            CASES[f"{name}_{i}"] = lambda arguments=arguments: function(*arguments)
        return function
    return register


# ---- Decompositions ----

@each("self_adjoint_eigen", [(3, 3), (2, 4, 4)])
def self_adjoint_eigen(*shape):
    x = symmetric(*shape)
    e, v = tf.linalg.eigh(x)
    return [e * random(*shape[:-1], dtype=np.float64), v * random(*shape, dtype=np.float64),
            tf.linalg.eigvalsh(x) ** 2], [x]


@case
def self_adjoint_eigen_complex():
    part = complex_random(3, 3)
    x = part + tf.linalg.adjoint(part) + tf.constant(np.diag([0, 3, 6]), tf.complex128)
    e, v = tf.linalg.eigh(x)
    return [tf.math.real(e) * random(3, dtype=np.float64), tf.abs(v) ** 2
            * random(3, 3, dtype=np.float64)], [part]


@each("eigen", [(3, 3), (2, 4, 4)])
def eigen(*shape):
    x = symmetric(*shape) + 0.3 * random(*shape, dtype=np.float64)
    e, v = tf.linalg.eig(x)
    return [tf.math.real(e) * random(*shape[:-1], dtype=np.float64),
            tf.abs(v) ** 2 * random(*shape, dtype=np.float64),
            tf.math.real(tf.linalg.eigvals(x) ** 2)], [x]


@each("qr", [(3, 3), (5, 3), (3, 5), (2, 4, 3), (2, 3, 4)])
def qr(*shape):
    x = random(*shape, dtype=np.float64)
    q, r = tf.linalg.qr(x)
    return [q * tf.sin(q), r * tf.cos(r)], [x]


@case
def qr_full():
    x, y = random(3, 3, dtype=np.float64), random(3, 5, dtype=np.float64)
    return [part * tf.sin(part) for value in (x, y)
            for part in tf.linalg.qr(value, full_matrices=True)], [x, y]


@case
def qr_complex():
    x = complex_random(3, 3)
    q, r = tf.linalg.qr(x)
    return [tf.abs(q) ** 2 * random(3, 3, dtype=np.float64),
            tf.abs(r) ** 2 * random(3, 3, dtype=np.float64)], [x]


@each("svd", [((3, 3), False), ((4, 3), False), ((2, 5), False), ((2, 3, 4), False),
              ((3, 4), True), ((4, 3), True), ((3, 3), True)])
def svd(shape, is_full):
    x = random(*shape, dtype=np.float64)
    s, u, v = tf.linalg.svd(x, full_matrices=is_full)
    return [s ** 3, u * tf.sin(u), v * tf.cos(v), tf.linalg.svd(x, compute_uv=False) ** 2], [x]


@each("svd_complex", [(3, 3), (2, 4), (4, 2)])
def svd_complex(*shape):
    x = complex_random(*shape)
    s, u, v = tf.linalg.svd(x)
    return [tf.math.real(s) ** 2, tf.abs(u) ** 4, tf.abs(v) ** 4], [x]


@each("square_root", [(3, 3), (2, 2, 2)])
def square_root(*shape):
    x = random(*shape, dtype=np.float64)
    x = tf.matmul(x, x, transpose_b=True) + np.eye(shape[-1])
    return [tf.linalg.sqrtm(x) * random(*shape, dtype=np.float64)], [x]


@each("least_squares", [((4, 3), 0.0), ((4, 3), 0.5), ((3, 4), 0.0), ((2, 3, 4), 0.5),
                        ((3, 3), 0.1)])
def least_squares(shape, l2):
    a, b = random(*shape, dtype=np.float64), random(*shape[:-1], 2, dtype=np.float64)
    x = tf.linalg.lstsq(a, b, l2_regularizer=l2)
    return [x * tf.sin(x)], [a, b]


# ---- Banded matrices ----

@each("banded_solve", [(lower, adjoint, batch) for lower in (True, False)
                       for adjoint in (True, False) for batch in ((), (2,))])
def banded_solve(lower, adjoint, batch):
    a = random(*batch, 2, 4, low=1.0, high=2.0, dtype=np.float64)
    b = random(*batch, 4, 3, dtype=np.float64)
    x = tf.linalg.banded_triangular_solve(a, b, lower=lower, adjoint=adjoint)
    return [x * tf.sin(x)], [a, b]


@case
def banded_solve_broadcast():
    a, b = random(2, 4, low=1.0, high=2.0), random(3, 4, 2)
    return [tf.linalg.banded_triangular_solve(a, b) * random(3, 4, 2)], [a, b]


@each("tridiagonal", [(), (2,)])
def tridiagonal(*batch):
    diagonals = random(*batch, 3, 4, dtype=np.float64) + tf.constant(
        [[0.0], [4.0], [0.0]], tf.float64)
    b = random(*batch, 4, 2, dtype=np.float64)
    x = tf.linalg.tridiagonal_solve(diagonals, b)
    parts = [random(*batch, 1, 4, dtype=np.float64) for _ in range(3)]
    y = raw.TridiagonalMatMul(superdiag=parts[0], maindiag=parts[1], subdiag=parts[2], rhs=b)
    return [x * tf.sin(x), y * tf.cos(y)], [diagonals, b] + parts


@case
def tridiagonal_complex():
    diagonals = complex_random(3, 4) + tf.constant([[0], [4], [0]], tf.complex128)
    b, parts = complex_random(4, 2), [complex_random(1, 4) for _ in range(3)]
    y = raw.TridiagonalMatMul(superdiag=parts[0], maindiag=parts[1], subdiag=parts[2], rhs=b)
    x = tf.linalg.tridiagonal_solve(diagonals, b)
    return [tf.abs(x) ** 2, tf.abs(y) ** 2], [diagonals, b] + parts


@each("skipping_mat_mul", [(a, b, kind) for a in (True, False) for b in (True, False)
                           for kind in (tf.float32, tf.bfloat16)])
def skipping_mat_mul(turn_a, turn_b, kind):
    x, y = random(*((3, 2) if turn_a else (2, 3))), random(*((4, 3) if turn_b else (3, 4)))
    z = raw.SparseMatMul(a=tf.cast(x, kind), b=y, transpose_a=turn_a, transpose_b=turn_b,
                         a_is_sparse=True)
    return [z * random(2, 4)], [x, y]


# ---- Compressed sparse matrices ----

PLACES = np.array([[0, 0], [0, 2], [1, 1], [2, 0], [2, 3]], np.int64)


def compressed(x, places=None):
    """The elements of x at the given places, as a compressed sparse matrix."""
    return raw.DenseToCSRSparseMatrix(dense_input=x, indices=places if places is not None
                                      else PLACES[:, ::-1] if x.shape[0] == 4 else PLACES)


@case
def compressed_and_back():
    x, values = random(3, 4), random(5)
    m = raw.SparseTensorToCSRSparseMatrix(indices=PLACES, values=values,
                                          dense_shape=np.array([3, 4], np.int64))
    turned = raw.SparseMatrixTranspose(input=compressed(x), type=tf.float32)
    parts = raw.CSRSparseMatrixToSparseTensor(sparse_matrix=turned, type=tf.float32)
    dense = raw.CSRSparseMatrixToDense(sparse_input=m, type=tf.float32)
    return [dense * random(3, 4), parts.values * random(5)], [x, values]


FORMS = [{}, {"transpose": True}, {"adjoint": True}]


def sided(form, side):
    return {f"{key}_{side}": value for key, value in form.items()}


@each("compressed_product", [(a, b, kind, out) for a in FORMS for b in FORMS
                             for kind in (np.float32, np.complex64)
                             for out in ({}, {"transpose_output": True})])
def compressed_product(form_a, form_b, kind, out):
    if kind == np.float32:
        x, y = random(3, 4), random(*((2, 4) if form_b else (4, 2)))
    else:
        x = tf.complex(random(3, 4), random(3, 4))
        y = tf.cast(complex_random(*((2, 4) if form_b else (4, 2))), tf.complex64)
    a = compressed(tf.linalg.adjoint(x) if form_a else x,
                   PLACES[np.lexsort(PLACES.T)][:, ::-1].copy() if form_a else PLACES)
    z = raw.SparseMatrixMatMul(a=a, b=y, **sided(form_a, "a"), **sided(form_b, "b"), **out)
    return [tf.abs(z) ** 2], [x, y]


@case
def compressed_product_batch():
    x, y = random(2, 3, 4), random(2, 4, 2)
    places = np.array([[k, *place] for k in range(2) for place in PLACES], np.int64)
    z = raw.SparseMatrixMatMul(a=compressed(x, places), b=y)
    return [z * random(2, 3, 2)], [x, y]


@each("compressed_pair", [(a, b) for a in FORMS for b in FORMS])
def compressed_pair(form_a, form_b):
    x, y = random(3, 3), random(3, 3)
    places = np.array([[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2], [2, 0], [2, 1], [2, 2]],
                      np.int64)
    z = raw.SparseMatrixSparseMatMul(a=compressed(x, PLACES[:4]), b=compressed(y, places),
                                     type=tf.float32, **sided(form_a, "a"), **sided(form_b, "b"))
    return [raw.CSRSparseMatrixToDense(sparse_input=z, type=tf.float32) * random(3, 3)], [x, y]


# ---- Ragged tensors ----

@case
def ragged_variants():
    x, y, z = random(5, 2), random(4), random(2, 3)
    splits = tf.constant([0, 2, 2, 5], tf.int64)
    encoded = raw.RaggedTensorToVariant(rt_nested_splits=[splits], rt_dense_values=x * x,
                                        batched_input=True)
    back = raw.RaggedTensorFromVariant(encoded_ragged=encoded, input_ragged_rank=0,
                                       output_ragged_rank=1, Tvalues=tf.float32)
    whole = raw.RaggedTensorToVariant(rt_nested_splits=[tf.constant([0, 4], tf.int64)],
                                      rt_dense_values=tf.sin(y), batched_input=False)
    again = raw.RaggedTensorFromVariant(encoded_ragged=whole, input_ragged_rank=1,
                                        output_ragged_rank=1, Tvalues=tf.float32)
    plain = raw.RaggedTensorToVariant(rt_nested_splits=[], rt_dense_values=tf.exp(z),
                                      batched_input=False)
    flat = raw.RaggedTensorFromVariant(encoded_ragged=plain, input_ragged_rank=0,
                                       output_ragged_rank=0, Tvalues=tf.float32)
    return [back.output_dense_values * random(5, 2), again.output_dense_values * random(4),
            flat.output_dense_values * random(2, 3)], [x, y, z]


@case
def ragged_gather():
    x = random(6, 2)
    one = tf.RaggedTensor.from_row_splits(x * x, [0, 2, 2, 6])
    two = tf.RaggedTensor.from_nested_row_splits(tf.sin(x), [[0, 2, 3], [0, 1, 4, 6]])
    chosen = [tf.gather(one, [2, 0, 2]).flat_values, tf.gather(two, [[1, 0], [1, 1]]).flat_values]
    return [value * tf.cos(value) for value in chosen], [x]


@each("ragged_to_tensor", [((6,), ()), ((6, 2), ()), ((6, 2), (2,)), ((6, 2), (1,))])
def ragged_to_tensor(shape, default_shape):
    x, default = random(*shape), random(*default_shape)
    one = tf.RaggedTensor.from_row_splits(x * x, [0, 2, 2, 6])
    two = tf.RaggedTensor.from_nested_row_splits(tf.sin(x), [[0, 2, 3], [0, 1, 4, 6]])
    if len(default_shape) == 0 or default_shape == (2,):
        cut = [one.to_tensor(default, shape=[2, 3] + [None] * (len(shape) - 1))]
    else:
        cut = []
    return [value * tf.cos(value) for value in
            [one.to_tensor(default), two.to_tensor(default)] + cut], [x, default]


if hasattr(raw, "RaggedFillEmptyRows"):
    @case
    def ragged_fill_empty_rows():
        x, default = random(3), random()
        filled = raw.RaggedFillEmptyRows(value_rowids=tf.constant([0, 2, 2], tf.int64), values=x,
                                         nrows=tf.constant(4, tf.int64), default_value=default)
        return [filled.output_values * random(5)], [x, default]


# ---- Images ----

@case
def image_patches():
    x = random(2, 5, 6, 3)
    patches = [tf.image.extract_patches(x, [1, 2, 3, 1], [1, 2, 1, 1], [1, 1, 2, 1], padding)
               for padding in ("VALID", "SAME")]
    return [patch * tf.sin(patch) for patch in patches], [x]


@case
def volume_patches():
    x = random(2, 4, 3, 5, 2)
    patches = [raw.ExtractVolumePatches(input=x, ksizes=[1, 2, 2, 3, 1], strides=[1, 1, 2, 2, 1],
                                        padding=padding) for padding in ("VALID", "SAME")]
    return [patch * tf.sin(patch) for patch in patches], [x]


@case
def warped_images():
    x = random(2, 5, 6, 1)
    transforms = tf.constant([[1.0, 0.1, -1.0, 0.05, 0.9, 0.5, 0.001, 0.002],
                              [1.1, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0]])
    values = {"images": x, "output_shape": [4, 5], "interpolation": "BILINEAR"}
    return [raw.ImageProjectiveTransformV2(transforms=transforms, **values) * random(2, 4, 5, 1),
            raw.ImageProjectiveTransformV3(transforms=transforms[:1], fill_value=0.5,
                                           fill_mode="REFLECT", **values)
            * random(2, 4, 5, 1)], [x]


@case
def scaled_images():
    x = random(2, 5, 6, 1)
    y = raw.ScaleAndTranslate(images=x, size=[4, 7], scale=[0.8, 1.3], translation=[0.2, -0.5],
                              kernel_type="triangle")
    return [y * random(2, 4, 7, 1)], [x]


@case
def colours():
    x = random(40, 3, low=0.0, high=1.0)
    edges = tf.constant([[0, 0, 0], [1, 1, 1], [0.5, 0.5, 0.2], [0.2, 0.5, 0.5], [0.5, 0.2, 0.5],
                         [0, 0.3, 0.3], [0, 0, 1], [0.4, 0, 0]])
    return [tf.image.rgb_to_hsv(value) * random(*value.shape) for value in (x, edges)], [x, edges]


@case
def dilated():
    x, kernel = random(2, 5, 6, 2), random(2, 3, 2)
    y = raw.Dilation2D(input=x, filter=kernel, strides=[1, 2, 1, 1], rates=[1, 1, 2, 1],
                       padding="SAME")
    return [y * random(2, 3, 6, 2)], [x, kernel]


@case
def fractional_pools():
    x = random(2, 7, 8, 2)
    options = {"value": x, "pooling_ratio": [1.0, 1.5, 1.4, 1.0], "deterministic": True, "seed": 3,
               "seed2": 5}
    pools = [op(overlapping=overlapping, **options).output
             for op in (raw.FractionalAvgPool, raw.FractionalMaxPool)
             for overlapping in (True, False)]
    return [pool * tf.sin(pool) for pool in pools], [x]


# ---- Layers ----

@each("block_lstm", [(True,), (False,)])
def block_lstm(use_peephole):
    x, cs, h, w = random(4, 2, 3), random(2, 5), random(2, 5), random(8, 20)
    peepholes, b = [random(5) for _ in range(3)], random(20)
    y = raw.BlockLSTM(seq_len_max=tf.constant(3, tf.int64), x=x, cs_prev=cs, h_prev=h, w=w,
                      wci=peepholes[0], wcf=peepholes[1], wco=peepholes[2], b=b,
                      use_peephole=use_peephole)
    return [y.h * random(4, 2, 5), y.cs * random(4, 2, 5)], [x, cs, h, w] + (
        peepholes if use_peephole else []) + [b]


def lstm_of(version):
    """The same cell as BlockLSTM or as BlockLSTMV2. TensorFlow registers the gradient of BlockLSTM
    for BlockLSTMV2 too, although V2 has its gates in another order. So the oracle for V2 is the
    gradient of BlockLSTM with reordered weights."""
    x, cs, h, w = random(4, 2, 3), random(2, 5), random(2, 5), random(8, 20)
    none, b = random(5), random(20)
    inputs = {"seq_len_max": tf.constant(3, tf.int64), "x": x, "cs_prev": cs, "h_prev": h,
              "wci": none, "wcf": none, "wco": none}
    if version == 2:
        y = raw.BlockLSTMV2(w=w, b=b, **inputs)
    else:
        order = np.arange(20).reshape(4, 5)[[0, 2, 1, 3]].ravel()
        y = raw.BlockLSTM(w=tf.gather(w, order, axis=1), b=tf.gather(b, order), forget_bias=0.0,
                          cell_clip=0.0, **inputs)
    return [tf.sin(y.h), tf.cos(y.cs)], [x, cs, h, w, b]


@case
def isotonic():
    x = random(3, 7)
    return [tf.nn.isotonic_regression(x)[0] * random(3, 7)], [x]


@each("truncated_normal", [(), (3,), (4, 1), (1, 3)])
def truncated_normal(*shape):
    mean, deviation = random(*shape), random(*shape, low=0.5, high=2.0)
    low, high = random(4, 3, low=-2.0, high=-1.0), random(3, low=1.0, high=2.0)
    sample = raw.StatelessParameterizedTruncatedNormal(
        shape=[5, 4, 3], seed=[3, 5], means=mean, stddevs=deviation, minvals=low, maxvals=high)
    return [sample * random(5, 4, 3)], [mean, deviation, low, high]


# ---- Cases ----

@each("functional_case", [(0,), (1,), (2,), (7,), (-1,)])
def functional_case(index):
    x, y = random(3), random(3)

    def branch(build):
        function = tf.function(build, autograph=False)
        return function.get_concrete_function(tf.TensorSpec([3]), tf.TensorSpec([3]))

    branches = [branch(lambda a, b: a * b), branch(lambda a, b: tf.sin(a) + tf.ones([3])),
                branch(lambda a, b: b ** 2)]
    z = [op(branch_index=tf.constant(index), input=[x, y], Tout=[tf.float32], branches=branches)[0]
         for op in (raw.Case, raw.StatelessCase)]
    return [part * random(3) for part in z], [x, y]


# ---- Ops that only graphs of an old version may hold ----

OLD_CASES = {}


def global_norm(is_scaled):
    x, mean, beta, gamma = random(2, 3, 3, 4), random(4), random(4), random(4)
    variance = random(4, low=0.5, high=1.5)
    y = raw.BatchNormWithGlobalNormalization(
        t=x, m=mean, v=variance, beta=beta, gamma=gamma, variance_epsilon=0.01,
        scale_after_normalization=is_scaled)
    return [raw.Mul(x=y, y=random(2, 3, 3, 4))], [x, mean, variance, beta, gamma]


for scaled in (True, False):
    OLD_CASES[f"global_norm_{scaled}"] = lambda scaled=scaled: global_norm(scaled)
