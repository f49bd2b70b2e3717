"""Convolutions of images whose edges are mirrored, resized before or not."""
import numpy as np
import tensorflow as tf
from runner import Case, bfloat16, make_op, tf1

CASES = []
RANDOM = np.random.RandomState(7)


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
