"""Cases of matrix products, activations, softmax, losses and biases."""
import numpy as np

from runner import Case, bfloat16

F = [np.float32, np.float64, np.float16, bfloat16]
C = [np.complex64, np.complex128]
I = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
random = np.random.RandomState(11)
CASES = []


# TensorFlow 2.12 has these in bfloat16 with oneDNN only.
LATE = ("_Fused", "FusedBatchNorm")


def add(op, inputs, attrs=None, **more):
    if op.startswith(LATE) and np.asarray(inputs[0]).dtype == bfloat16:
        more["since"] = (2, 16)
    CASES.append(Case(op, inputs, attrs, **more))


def values(dtype, shape, low=-2.0, high=2.0):
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        return np.asarray(random.uniform(low, high, shape) +
                          1j * random.uniform(low, high, shape), dtype)
    if dtype.kind in "iu":
        return np.asarray(random.randint(0 if dtype.kind == "u" else -9, 10, shape), dtype)
    return np.asarray(random.uniform(low, high, shape), dtype)


def sum_tolerance(dtype):
    """Sums in another order: looser than one operation."""
    return {"float32": (1e-4, 1e-4), "float16": (5e-2, 5e-2), "bfloat16": (6e-2, 6e-2),
            "complex64": (1e-4, 1e-4)}.get(np.dtype(dtype).name)


# ---- MatMul ----
for dtype in F + C + [np.int32, np.int64]:
    for a, b in [((3, 4), (4, 5)), ((1, 7), (7, 1)), ((1, 33), (33, 70)), ((37, 19), (19, 1)),
                 ((6, 16), (16, 16)), ((70, 300), (300, 90)), ((0, 3), (3, 2)), ((2, 0), (0, 3)),
                 ((2, 3), (3, 0)), ((5, 1), (1, 6))]:
        add("MatMul", [values(dtype, a), values(dtype, b)], tolerance=sum_tolerance(dtype))
    for ta, tb in [(True, False), (False, True), (True, True)]:
        for m, k, n in [(3, 4, 5), (1, 20, 40), (33, 17, 1), (20, 40, 24), (2, 70, 50)]:
            add("MatMul", [values(dtype, (k, m) if ta else (m, k)),
                           values(dtype, (n, k) if tb else (k, n))],
                {"transpose_a": ta, "transpose_b": tb}, tolerance=sum_tolerance(dtype))
    for ta, tb in [(False, False), (True, False), (False, True), (True, True)]:
        a, b = values(dtype, (3, 2, 4, 5)), values(dtype, (3, 2, 5, 6))
        a = np.swapaxes(a, 2, 3) if ta else a
        b = np.swapaxes(b, 2, 3) if tb else b
        for op in ["BatchMatMul", "BatchMatMulV2"]:
            add(op, [a, b], {"adj_x": ta, "adj_y": tb}, tolerance=sum_tolerance(dtype))
        if dtype != np.float16:
            add("BatchMatMulV3", [a, b], {"adj_x": ta, "adj_y": tb, "Tout": dtype},
                tolerance=sum_tolerance(dtype))
add("BatchMatMulV2", [values(np.int16, (2, 30, 40)), values(np.int16, (2, 40, 50))])
for a, b in [((2, 1, 3, 4), (5, 4, 2)), ((4, 3), (2, 3, 5)), ((2, 3, 4), (4, 5)),
             ((1, 2, 3), (7, 3, 2)), ((0, 2, 3), (0, 3, 4)), ((0, 2, 3), (1, 3, 4)),
             ((2, 2, 0), (2, 0, 3)), ((6, 1, 8, 8), (1, 5, 8, 8)), ((20, 9, 11), (20, 11, 3))]:
    add("BatchMatMulV2", [values(np.float32, a), values(np.float32, b)])
for ta in [np.int8, np.uint8, bfloat16]:
    for tb in [np.int8, np.uint8, bfloat16]:
        add("BatchMatMulV3", [values(ta, (2, 3, 4)), values(tb, (2, 4, 5))], {"Tout": bfloat16},
            tolerance=(6e-2, 6e-2))
        if ta != bfloat16 and tb != bfloat16:
            add("BatchMatMulV3", [values(ta, (2, 3, 4)), values(tb, (2, 4, 5))], {"Tout": np.int32})
for a, b in [((3,), (3, 2)), ((2, 3), (2, 3)), ((2, 3, 4), (4, 5)), ((), ())]:
    add("MatMul", [values(np.float32, a), values(np.float32, b)])
for a, b in [((2, 3, 4), (3, 4, 5)), ((2, 3), (3,)), ((2, 3, 4), (2, 3, 5)), ((2, 3), (2, 3, 4))]:
    for op in ["BatchMatMul", "BatchMatMulV2"]:
        add(op, [values(np.float32, a), values(np.float32, b)])

# ---- Activations ----
SPECIAL = [0.0, -0.0, 1.0, -1.0, 5.9, 6.0, 6.1, -20.0, 20.0, 100.0, -100.0, 13.9, -13.9, 14.0,
           np.inf, -np.inf, 1e-4, -1e-4, 34.0, -34.0, 35.0]
for op in ["Relu", "Relu6", "LeakyRelu", "Elu", "Selu", "Softplus", "Softsign"]:
    for dtype in F + (I if op in ("Relu", "Relu6") else []):
        attrs = {"alpha": 0.3} if op == "LeakyRelu" else None
        kinds = [values(dtype, shape, -8, 8) for shape in [(), (0,), (5,), (2, 3, 17), (70, 33)]]
        if np.dtype(dtype).kind not in "iu":
            kinds.append(np.array(SPECIAL).astype(dtype))
        for x in kinds:
            add(op, [x], attrs)
            add(op + "Grad", [values(dtype, x.shape), x], attrs)
    add(op + "Grad", [values(np.float32, (2, 3)), values(np.float32, (3, 2))])
add("Relu", [np.array([np.nan, 1, -1], np.float32)])
add("Relu6", [np.array([np.nan, 1, -1], np.float32)])
add("LeakyRelu", [values(np.float32, (40,))], {"alpha": 1.5})
for dtype in [np.float16, bfloat16]:  # to the last bit
    for op, inputs in [("LeakyRelu", [values(dtype, (500,), -8, 8)]),
                       ("LeakyReluGrad", [values(dtype, (500,), -8, 8), values(dtype, (500,), -8, 8)])]:
        for alpha in [0.1, 0.2, 1.7]:
            add(op, inputs, {"alpha": alpha}, tolerance=(0, 0))

# ---- Softmax and losses ----
for dtype in F:
    for shape in [(1,), (7,), (3, 10), (5, 1), (2, 3, 33), (4, 1000), (3, 5000), (0, 4), (4, 0)]:
        for op in ["Softmax", "LogSoftmax"]:
            add(op, [values(dtype, shape, -6, 6)],
                tolerance=(1e-2, 1e-2) if dtype in (np.float16, bfloat16) else (1e-5, 1e-5))
    for rows, classes in [(1, 1), (4, 10), (3, 100), (2, 3000), (0, 5), (70, 2)]:
        loose = {np.float16: (1e-2, 1e-2), bfloat16: (5e-2, 5e-2), np.float32: (1e-5, 1e-5)}.get(dtype)
        labels = values(dtype, (rows, classes), 0, 1)
        add("SoftmaxCrossEntropyWithLogits", [values(dtype, (rows, classes), -5, 5), labels],
            tolerance=loose)
        for index in [np.int32, np.int64]:
            add("SparseSoftmaxCrossEntropyWithLogits",
                [values(dtype, (rows, classes), -5, 5),
                 random.randint(0, classes, (rows,)).astype(index)], tolerance=loose)
for a, b in [((3, 4), (1, 4)), ((1, 4), (3, 4)), ((3, 1), (3, 4)), ((3, 4), (3, 1)), ((3, 4), (4,)),
             ((4,), (3, 4)), ((3, 4), ()), ((), (3, 4)), ((3, 4), (2, 4)), ((4,), (4,)),
             ((2, 3, 4), (2, 3, 4)), ((1, 1), (3, 4)), ((3, 4), (1, 1))]:
    add("SoftmaxCrossEntropyWithLogits", [values(np.float32, a), values(np.float32, b, 0, 1)])
add("Softmax", [np.float32(1)])
add("Softmax", [np.array([[np.inf, 1], [-np.inf, 2], [np.nan, 1], [-np.inf, -np.inf]], np.float32)])
add("LogSoftmax", [np.array([[np.inf, 1], [-np.inf, 2], [np.nan, 1]], np.float32)])
add("SoftmaxCrossEntropyWithLogits", [np.array([[-np.inf, 1, 2], [80, 3, -90]], np.float32),
                                      np.array([[0, 0.5, 0.5], [0, 1, 0]], np.float32)])
for labels in [[0, 3], [-1, 0], [0, 5], [[0], [1]], [0]]:
    add("SparseSoftmaxCrossEntropyWithLogits", [values(np.float32, (2, 3)), np.int64(labels)])
add("SparseSoftmaxCrossEntropyWithLogits", [values(np.float32, (2,)), np.int64([0, 1])])
add("SparseSoftmaxCrossEntropyWithLogits", [values(np.float32, (2, 0)), np.int64([0, 1])])
for dtype in F:
    for shape in [(), (0,), (3, 4), (200, 300)]:
        add("L2Loss", [values(dtype, shape, -0.5, 0.5)],
            tolerance=(2e-2, 2e-2) if dtype in (np.float16, bfloat16) else (1e-5, 1e-5))

# ---- BiasAdd ----
for dtype in F + C + I:
    for shape in [(2, 3), (2, 3, 4), (2, 3, 4, 5), (2, 3, 2, 3, 4), (0, 3), (100, 40)]:
        add("BiasAdd", [values(dtype, shape), values(dtype, shape[-1:])])
        add("BiasAddGrad", [values(dtype, shape)], tolerance=sum_tolerance(dtype))
    for shape in [(2, 3, 4), (2, 3, 4, 5), (2, 3, 2, 3, 4), (0, 3, 2, 2)]:
        add("BiasAdd", [values(dtype, shape), values(dtype, shape[1:2])], {"data_format": "NCHW"})
        add("BiasAddGrad", [values(dtype, shape)], {"data_format": "NCHW"},
            tolerance=sum_tolerance(dtype))
    add("BiasAddV1", [values(dtype, (4, 3)), values(dtype, (3,))])
for shape, bias in [((3,), (3,)), ((2, 3), (2,)), ((2, 3), (1, 3)), ((), (1,)), ((2, 0), (0,))]:
    add("BiasAdd", [values(np.float32, shape), values(np.float32, bias)])
add("BiasAdd", [values(np.float32, (2, 3, 4)), values(np.float32, (4,))], {"data_format": "NCHW"})
add("BiasAddGrad", [values(np.float32, (3,))])
add("BiasAddGrad", [values(np.float32, (300, 7, 70))], tolerance=sum_tolerance(np.float32))
add("BiasAddGrad", [values(np.float32, (0, 7))])

# ---- Products with an end fused to them ----
for dtype in [np.float32, bfloat16]:
    for ops in [["BiasAdd"], ["BiasAdd", "Relu"], ["BiasAdd", "Relu6"], ["BiasAdd", "Elu"],
                ["BiasAdd", "LeakyRelu"], ["BiasAdd", "Tanh"], ["BiasAdd", "Sigmoid"]]:
        if dtype == bfloat16 and ops[-1] in ("Relu6", "Elu", "LeakyRelu"):
            continue
        for m, k, n in [(3, 4, 5), (1, 9, 40), (70, 33, 1)]:
            add("_FusedMatMul", [values(dtype, (m, k)), values(dtype, (k, n)),
                                 [values(dtype, (n,))]],
                {"fused_ops": ops, "leakyrelu_alpha": 0.3},
                tolerance=(1e-4, 1e-4) if dtype == np.float32 else (1e-1, 2e-1))
add("_FusedMatMul", [values(np.float32, (300, 200)), values(np.float32, (300, 150)),
                     [values(np.float32, (150,))]],
    {"fused_ops": ["BiasAdd", "Relu"], "transpose_a": True}, tolerance=(1e-4, 1e-4))

# ---- Batch normalization ----
NORM = {np.float32: (2e-5, 2e-5), np.float16: (1e-2, 1e-2), bfloat16: (5e-2, 5e-2)}


def normalize(version, dtype, shape, layout, training, factor=1.0, estimates=True):
    channels = shape[1] if layout[1] == "C" else shape[-1]
    scale, offset, mean = (values(np.float32, (channels,)) for _ in range(3))
    variance = values(np.float32, (channels,), 0.5, 2)
    if not estimates:
        mean = variance = np.zeros((0,), np.float32)
    attrs = {"is_training": training, "data_format": layout, "epsilon": 0.01}
    more = {} if version == "" else {"U": np.float32}
    x = values(dtype, shape)
    # Without training TensorFlow leaves the reserved spaces as they are.
    add("FusedBatchNorm" + version, [x, scale, offset, mean, variance],
        {**attrs, "exponential_avg_factor": factor},
        outputs=None if training and x.size else [0, 1, 2], tolerance=NORM[dtype])
    if factor != 1 or not estimates or (not training and layout[1] == "C"):
        return
    spaces = [mean, variance] + ([np.zeros((0,), np.float32)] if version == "V3" else [])
    add("FusedBatchNormGrad" + version, [values(dtype, shape), x, scale] + spaces, attrs,
        tolerance=tuple(10 * t for t in NORM[dtype]))


for version, dtypes in [("", [np.float32]), ("V2", NORM), ("V3", NORM)]:
    for dtype in dtypes:
        for training in [True, False]:
            normalize(version, dtype, (2, 3, 4, 5), "NHWC", training)
            normalize(version, dtype, (2, 5, 3, 4), "NCHW", training)
    normalize(version, np.float32, (2, 3, 4, 5), "NHWC", True, 0.3)
    normalize(version, np.float32, (2, 3, 4, 5), "NHWC", True, estimates=False)
    normalize(version, np.float32, (0, 3, 4, 5), "NHWC", True)
normalize("V3", np.float32, (2, 2, 3, 4, 5), "NDHWC", True)
normalize("V3", np.float32, (2, 5, 2, 3, 4), "NCDHW", True)
normalize("V3", np.float32, (8, 28, 28, 64), "NHWC", True)
normalize("V3", np.float32, (8, 64, 28, 28), "NCHW", True)
normalize("V3", np.float32, (1, 1, 1, 3), "NHWC", True)
normalize("V3", np.float32, (2, 3, 4, 5), "NHWC", False, estimates=False)
normalize("V3", np.float32, (2, 3, 4, 5), "NHWC", True, 0.5, estimates=False)
one = np.ones((2,), np.float32)
for x, scale, offset in [((3, 3, 2), one, one), ((1, 3, 3, 2), np.ones((3,), np.float32), one),
                         ((1, 3, 3, 2), one, np.ones((3,), np.float32)),
                         ((1, 3, 3, 2), one[None], one)]:
    add("FusedBatchNormV3", [values(np.float32, x), scale, offset, one, one])
add("FusedBatchNormGradV3", [values(np.float32, (1, 3, 3, 2)), values(np.float32, (2, 3, 3, 2)),
                             one, one, one, one])
add("FusedBatchNormGradV3", [values(np.float32, (1, 3, 3, 2)), values(np.float32, (1, 3, 3, 2)),
                             one, one[:1], one, one])
for dtype in [np.float32, np.float16]:
    for radius, shape in [(5, (2, 3, 4, 20)), (0, (1, 2, 2, 3)), (2, (1, 2, 3, 3)),
                          (1, (2, 1, 1, 1)), (2, (0, 2, 2, 2))]:
        attrs = {"depth_radius": radius, "bias": 1.5, "alpha": 0.3, "beta": 0.7}
        loose = (1e-4, 1e-4) if dtype == np.float32 else (2e-2, 2e-2)
        add("LRN", [values(dtype, shape)], attrs, tolerance=loose)
        add("LRNGrad", [values(dtype, shape) for _ in range(3)], attrs, tolerance=loose)
add("LRN", [values(np.float32, (3, 4, 5))])
add("LRNGrad", [values(np.float32, (1, 2, 2, 3)), values(np.float32, (1, 2, 2, 4)),
                values(np.float32, (1, 2, 2, 3))])

# TensorFlow 2.12 has no Tanh and Sigmoid there, and adds long products of half floats in half.
for one in CASES:
    if one.op == "_FusedMatMul" and {"Tanh", "Sigmoid"} & set(one.attrs["fused_ops"]):
        one.since = (2, 16)
    if one.op == "MatMul" and np.asarray(one.inputs[0]).dtype == np.float16:
        one.since = (2, 16)
