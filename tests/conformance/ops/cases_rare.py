"""Single ops of which each is a family of its own: scripts of code points, constants in files, isotonic regression,
places in a random permutation, the first batch normalization, convolutions with mirrored edges."""
import pathlib

import numpy as np
import tensorflow as tf
from fixtures import scratch_folder
from runner import Case, bfloat16, make_op, tf1

CASES = []
RANDOM = np.random.RandomState(7)


def add(op, inputs, name="", since=None, tolerance=None, outputs=None, **attrs):
    CASES.append(Case(op, inputs, attrs, name=f"{len(CASES)}:{op}({name})", since=since, tolerance=tolerance,
                      outputs=outputs))


# ---- UnicodeScript ----
add("UnicodeScript", [np.arange(-3, 0x110003, dtype=np.int32)], "all")
add("UnicodeScript", [np.array([[65, 0x3b1], [0x5d0, 0x4e00], [0x7fffffff, -0x80000000]], np.int32)], "matrix")
add("UnicodeScript", [np.int32(0x3042)], "scalar")
add("UnicodeScript", [np.zeros((0, 2), np.int32)], "nothing")

# ---- ImmutableConst ----
FOLDER = pathlib.Path(scratch_folder("rare"))
(FOLDER / "numbers").write_bytes(np.arange(24, dtype=np.float32).tobytes())
for dtype, shape in ((tf.float32, [2, 3, 4]), (tf.float32, [5]), (tf.int64, []), (tf.uint8, [96]), (tf.complex64, [12]),
                     (tf.float64, [13]), (tf.string, [2])):
    add("ImmutableConst", [], f"{dtype.name}{shape}", dtype=dtype, shape=shape,
        memory_region_name=str(FOLDER / "numbers"))
add("ImmutableConst", [], "no file", dtype=tf.float32, shape=[2], memory_region_name=str(FOLDER / "nothing"))
add("IsTensorFloat32Enabled", [])

# ---- IsotonicRegression ----
for dtype, output in ((np.float32, tf.float32), (np.float64, tf.float64), (np.float16, tf.float16), (bfloat16,
        tf.bfloat16),
                      (np.int8, tf.float32), (np.int16, tf.float32), (np.int32, tf.float64), (np.int64, tf.float64)):
    for shape in ((7,), (3, 40), (2, 2, 5), (1,), (0,), (3, 0), ()):
        add("IsotonicRegression", [np.asarray(RANDOM.randn(*shape) * 20).astype(dtype)],
                f"{np.dtype(dtype).name}{list(shape)}",
            output_dtype=output)
for name, values in (("rising", range(9)), ("falling", range(9, 0, -1)), ("equal", [3] * 5), ("infinite", [np.inf,
        1, np.inf, 2])):
    add("IsotonicRegression", [np.array(values, np.float32)], name, output_dtype=tf.float32)

# ---- RandomIndexShuffle ----
for dtype in (np.int32, np.uint32, np.int64, np.uint64):
    for seed in (np.array([1, 2, 3], np.int32), np.array([-1, 2**40 + 5, 77], np.int64)):
        for most in (0, 1, 9, 100, 65535, 65536, 65537, 2**20, 2**31 - 1):
            for rounds in (4, 6, 8):
                index = np.array(sorted({0, most // 3, most}), dtype)
                add("RandomIndexShuffle", [index, seed, np.array(most, dtype)], f"{index.dtype.name} {most} {rounds}",
                    rounds=rounds)
for most in (2**32, 2**40 + 3, 2**54 + 1, 2**62):
    add("RandomIndexShuffle", [np.array([0, most // 7, most - 1]), np.array([9, 8, 7], np.uint32), np.array(most)],
        f"{most}", rounds=4)
SEED = np.array([5, 6, 7], np.int32)
add("RandomIndexShuffle", [np.int32(3), SEED, np.int32(10)], "scalar", rounds=4)
add("RandomIndexShuffle", [np.int32(3), np.stack([SEED, SEED + 1]), np.int32(10)], "seeds", rounds=4)
add("RandomIndexShuffle", [np.int32(3), SEED, np.array([10, 11], np.int32)], "limits", rounds=4)
add("RandomIndexShuffle", [np.array([1, 2], np.int32), np.stack([SEED, SEED + 1]), np.array([10, 11], np.int32)], "all",
    rounds=4)
for name, index, seed, most in (("no index", np.zeros(0, np.int32), SEED, np.int32(10)),
                                ("index rank", np.ones((1, 1), np.int32), SEED, np.int32(10)),
                                ("seed", np.int32(1), SEED[:2], np.int32(10)),
                                ("seed rank", np.int32(1), SEED[None, None], np.int32(10)),
                                ("limit", np.array([1, 2, 3], np.int32), SEED, np.array([10, 11], np.int32))):
    add("RandomIndexShuffle", [index, seed, most], name, rounds=4)
for name, index, most in (("above", 11, 10), ("negative", -1, 10), ("negative limit", 0, -1)):
    add("RandomIndexShuffle", [np.int32(index), SEED, np.int32(most)], name, rounds=4, since=(2, 21))

# ---- BatchNormWithGlobalNormalization ----
for dtype in (np.float32, np.float64, np.float16):
    for shape in ((2, 3, 4, 5), (1, 1, 1, 1), (0, 3, 3, 2)):
        for scales in (True, False):
            depth = shape[3]
            image, gradient = (RANDOM.randn(*shape).astype(dtype) for _ in range(2))
            mean, beta, gamma = (RANDOM.randn(depth).astype(dtype) for _ in range(3))
            variance = RANDOM.rand(depth).astype(dtype) + dtype(0.25)
            attrs = dict(variance_epsilon=0.01, scale_after_normalization=scales)
            tolerance = (1e-2, 2e-2) if dtype == np.float16 else (1e-4, 1e-5) if dtype == np.float32 else None
            label = f"{np.dtype(dtype).name}{list(shape)} {scales}"
            add("BatchNormWithGlobalNormalization", [image, mean, variance, beta, gamma], label,
                    tolerance=tolerance, **attrs)
            add("BatchNormWithGlobalNormalizationGrad", [image, mean, variance, gamma, gradient], label,
                tolerance=tolerance, **attrs)
IMAGE, VECTOR = np.ones((2, 2, 2, 3), np.float32), np.ones(3, np.float32)
attrs = dict(variance_epsilon=0.01, scale_after_normalization=True)
for wrong in range(5):
    inputs = [IMAGE, VECTOR, VECTOR, VECTOR, VECTOR]
    inputs[wrong] = inputs[wrong][None]
    add("BatchNormWithGlobalNormalization", inputs, f"rank of {wrong}", **attrs)
    inputs = [IMAGE, VECTOR, VECTOR, VECTOR, IMAGE]
    inputs[wrong] = inputs[wrong][None]
    add("BatchNormWithGlobalNormalizationGrad", inputs, f"rank of {wrong}", **attrs)

# ---- FusedPadConv2D, FusedResizeAndPadConv2D ----
def convolve(op, inputs, name, tolerance=None, since=None, **attrs):
    """The graph must know the size of the paddings, or it cannot be made."""
    def build():
        names = ["input", "size", "paddings", "filter"] if len(inputs) == 4 else ["input", "paddings", "filter"]
        tensors = [tf1.placeholder(tf.as_dtype(value.dtype), value.shape if value.dtype == np.int32 else [None] * 4)
                   for value in inputs]
        return dict(zip(tensors, inputs)), [make_op(op, **dict(zip(names, tensors)), **attrs)]
    CASES.append(Case(op, build=build, name=f"{len(CASES)}:{op}({name})", tolerance=tolerance, since=since))


# One image: of several, TensorFlow convolves the first one again and again.
for dtype in (np.float32, np.float64, np.float16, bfloat16):
    image, filters = RANDOM.randn(1, 5, 6, 3).astype(dtype), RANDOM.randn(3, 2, 3, 4).astype(dtype)
    for mode in ("REFLECT", "SYMMETRIC"):
        for padding in ("SAME", "VALID"):
            for strides in ([1, 1, 1, 1], [1, 2, 3, 1]):
                for sides in ([[0, 0]] * 4, [[0, 0], [2, 1], [0, 3], [0, 0]], [[0, 0], [4, 4], [5, 5], [0, 0]]):
                    sides = np.array(sides, np.int32)
                    attrs = dict(mode=mode, padding=padding, strides=strides)
                    label = f"{np.dtype(dtype).name} {mode} {padding} {strides} {sides[1:3].tolist()}"
                    tolerance = {np.float16: (2e-2, 2e-2), np.float32: (1e-4, 1e-5)}.get(dtype)
                    convolve("FusedPadConv2D", [image, sides, filters], label, tolerance=tolerance,
                             since=(2, 21) if dtype == bfloat16 else None, **attrs)
                    if dtype == bfloat16:
                        continue
                    for size in ([10, 12], [7, 4], [5, 6]):
                        corners = size[0] == 7
                        convolve("FusedResizeAndPadConv2D", [image, np.array(size, np.int32), np.minimum(
                            sides, [[9], [6], [3], [9]]).astype(np.int32), filters], f"{label} {size}",
                            tolerance=tolerance, resize_align_corners=corners, **attrs)
IMAGE, FILTERS = RANDOM.randn(2, 5, 6, 3).astype(np.float32), RANDOM.randn(3, 2, 3, 4).astype(np.float32)
NONE = np.zeros((4, 2), np.int32)
attrs = dict(mode="REFLECT", padding="SAME", strides=[1, 1, 1, 1])


def sides(axis, before, after):
    pairs = NONE.copy()
    pairs[axis] = before, after
    return pairs


for name, image, pairs, filters in (
        ("large", IMAGE, sides(1, 5, 0), FILTERS), ("negative", IMAGE, sides(1, -1, 0), FILTERS),
        ("batch", IMAGE, sides(0, 1, 0), FILTERS), ("channels", IMAGE, sides(3, 1, 0), FILTERS),
        ("depth", IMAGE, NONE, FILTERS[:, :, :2]), ("empty", IMAGE[:0], NONE, FILTERS)):
    convolve("FusedPadConv2D", [image, pairs, filters], name, **attrs)
    convolve("FusedResizeAndPadConv2D", [image, np.array([5, 6], np.int32), pairs, filters], name,
            resize_align_corners=False,
        **attrs)
for name, size in (("no size", [0, 6]), ("negative size", [-1, 6])):
    convolve("FusedResizeAndPadConv2D", [IMAGE, np.array(size, np.int32), NONE, FILTERS], name,
            resize_align_corners=False, **attrs)
