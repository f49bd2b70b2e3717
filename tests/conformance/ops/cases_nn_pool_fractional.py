"""Fractional pooling and grey dilation, with their gradients; max-pooling and its gradient in one graph, which a
server runs as a pair."""
import itertools

import numpy as np
import tensorflow as tf
from runner import Case, bfloat16

tf1 = tf.compat.v1
R = tf.raw_ops
CASES = []
rng = np.random.default_rng(31)
REALS = [np.float32, np.float64, np.float16, bfloat16, np.int8, np.int16, np.int32, np.int64,
         np.uint8, np.uint16, np.uint32, np.uint64]


def add(op, *inputs, note="", tolerance=None, **attrs):
    CASES.append(Case(op, inputs, attrs, tolerance=tolerance,
                      name=f"{len(CASES)}:{note}{Case(op, inputs, attrs).name}"))


def image(*shape, dtype=np.float32):
    if np.dtype(dtype).kind == "f" or dtype == bfloat16:
        return rng.normal(size=shape).astype(dtype)
    return rng.integers(0 if np.dtype(dtype).kind == "u" else -9, 10, shape).astype(dtype)


# ---- Max-pooling with its gradient ----
def paired(value, note="", suffix="", **attrs):
    def build():
        feed = tf1.placeholder_with_default(tf.constant(value), None)
        out = getattr(R, "MaxPool" + suffix)(input=feed, **attrs)
        back = tf.cast(tf.reshape(tf.range(tf.size(out)) % 7 - 3, tf.shape(out)), out.dtype)
        return {}, [out, getattr(R, "MaxPoolGrad" + suffix)(orig_input=feed, orig_output=out, grad=back, **attrs)]
    CASES.append(Case("MaxPoolGrad" + suffix, build=build,
                      name=f"{len(CASES)}:{note}MaxPoolGrad{suffix}{value.shape}{value.dtype} {attrs}"))


def holed(*shape, dtype=np.float32):
    """Few different values, and what is not a number or infinite among them."""
    value = rng.integers(-3, 4, shape).astype(dtype)
    value[value == 3] = np.nan
    value[value == -3] = -np.inf
    value[value == 2] = np.inf
    return value


for size, stride, padding in itertools.product((1, 2, 3, 4), (1, 2, 3), ("SAME", "VALID")):
    attrs = dict(ksize=[1, size, size, 1], strides=[1, stride, stride, 1], padding=padding)
    for shape in ((2, 8, 8, 16), (1, 7, 9, 19), (1, 9, 4, 3)):
        paired(image(*shape), **attrs)
        paired(np.round(image(*shape)), note="ties", **attrs)
    paired(holed(2, 8, 7, 17), note="holes", **attrs)
    paired(image(1, 6, 7, 5), suffix="V2", **attrs)
for dtype in REALS[:4] + [np.int32, np.uint8]:
    for size in (2, 3):
        window = dict(ksize=[1, size, size, 1], strides=[1, 2, 2, 1], padding="SAME")
        paired(image(2, 7, 8, 21, dtype=dtype), **window)
        if dtype in REALS[:4]:
            paired(holed(3, 7, 8, 21, dtype=dtype), note="holes", **window)
for shape, size, paddings in (((2, 7, 8, 19), (3, 3), (1, 2, 2, 1)), ((1, 5, 6, 9), (4, 3), (3, 3, 0, 2)),
                              ((1, 6, 6, 16), (2, 2), (1, 1, 1, 0)), ((1, 6, 6, 2), (2, 2), (2, 0, 0, 0))):
    paired(image(*shape), ksize=[1, *size, 1], strides=[1, 2, 2, 1], padding="EXPLICIT",
           explicit_paddings=[0, 0, *paddings, 0, 0])
for shape in ((0, 4, 4, 2), (2, 4, 4, 0), (2, 3, 3, 4), (1, 1, 1, 40)):
    paired(image(*shape), ksize=[1, 5, 4, 1], strides=[1, 2, 3, 1], padding="SAME")
paired(image(1, 20, 19, 3), note="most places", ksize=[1, 16, 16, 1], strides=[1, 2, 1, 1], padding="VALID")
paired(image(1, 20, 19, 3), note="too many", ksize=[1, 17, 16, 1], strides=[1, 2, 1, 1], padding="VALID")
paired(image(4, 4, 3), note="rank", ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")
paired(image(1, 4, 4, 6), note="channels", ksize=[1, 1, 1, 2], strides=[1, 1, 1, 2], padding="VALID")

# ---- Fractional pooling ----
def are_borders(results):
    """Without a seed: cells of two neighbouring sizes, from 0 to the end."""
    for borders, size in zip(results[1:3], (20, 31)):
        cells = np.diff(borders)
        if borders[0] != 0 or borders[-1] != size or cells.max() - cells.min() > 1:
            return f"borders {borders}"
    return None


def pooled(op, value, check=None, **attrs):
    """Two runs: the borders stay."""
    def build():
        feed = tf1.placeholder_with_default(tf.constant(value), None)
        return {}, [list(getattr(R, op)(value=feed, **attrs))] * 2
    CASES.append(Case(op, build=build, check=check, name=f"{len(CASES)}:{op}{value.shape}{value.dtype} {attrs}"))


for op in ("FractionalAvgPool", "FractionalMaxPool"):
    for dtype in (np.float32, np.float64, np.int32, np.int64):
        pooled(op, image(2, 9, 7, 3, dtype=dtype), pooling_ratio=[1.0, 1.44, 1.73, 1.0], deterministic=True, seed=5,
               seed2=6)
    for pseudo, overlapping in itertools.product((False, True), repeat=2):
        for shape, ratio in (((1, 20, 31, 2), (1.41, 2.3)), ((2, 8, 8, 1), (2.0, 4.0)), ((1, 5, 1, 3), (1.0, 1.0)),
                             ((3, 17, 6, 2), (3.7, 1.2))):
            pooled(op, image(*shape), pooling_ratio=[1.0, *ratio, 1.0], pseudo_random=pseudo,
                   overlapping=overlapping, deterministic=True, seed=3, seed2=8)
        pooled(op, image(1, 20, 31, 2), check=are_borders, pooling_ratio=[1.0, 1.41, 2.3, 1.0], pseudo_random=pseudo,
               overlapping=overlapping)
    add(op, image(2, 6, 6, 1), pooling_ratio=[1.0, 1.5, 1.5, 1.0], seed=1, note="seed alone")
    for ratio in ([2.0, 1.5, 1.5, 2.0], [1.0, 7.0, 1.5, 1.0]):
        add(op, image(2, 6, 6, 1), pooling_ratio=ratio, deterministic=True, seed=1, seed2=2)
    add(op, image(6, 6, 1), pooling_ratio=[1.0, 1.5, 1.5, 1.0], deterministic=True, seed=1, seed2=2)

ROWS, COLUMNS = np.array([0, 2, 3, 5], np.int64), np.array([0, 1, 3, 4, 6], np.int64)
for dtype, overlapping in itertools.product((np.float32, np.float64, np.int32, np.int64), (False, True)):
    add("FractionalAvgPoolGrad", np.array([2, 5, 6, 3], np.int64), image(2, 3, 4, 3, dtype=dtype), ROWS, COLUMNS,
        overlapping=overlapping)
    value = image(2, 5, 6, 3, dtype=dtype)

    def gradient(value=value, overlapping=overlapping):
        feed = tf1.placeholder_with_default(tf.constant(value), None)
        out, rows, columns = R.FractionalMaxPool(value=feed, pooling_ratio=[1.0, 1.6, 1.4, 1.0],
                                                 overlapping=overlapping, deterministic=True, seed=4, seed2=5)
        return {}, [R.FractionalMaxPoolGrad(orig_input=feed, orig_output=out, out_backprop=out * 2,
                                            row_pooling_sequence=rows, col_pooling_sequence=columns,
                                            overlapping=overlapping)]
    CASES.append(Case("FractionalMaxPoolGrad", build=gradient,
                      name=f"FractionalMaxPoolGrad({np.dtype(dtype).name},{overlapping})"))
add("FractionalAvgPoolGrad", np.array([2, 5, 6], np.int64), image(2, 3, 4, 3), ROWS, COLUMNS)
add("FractionalAvgPoolGrad", np.array([2, 5, 6, 3], np.int64), image(3, 4, 3), ROWS, COLUMNS)
add("FractionalMaxPoolGrad", image(2, 5, 6, 3), image(2, 3, 4, 3), image(2, 3, 3, 3), ROWS, COLUMNS)


# ---- Dilation ----
SHAPES = [((2, 6, 7, 3), (3, 2, 3), (1, 1), (1, 1)), ((1, 9, 8, 70), (2, 3, 70), (2, 1), (1, 2)),
          ((2, 5, 5, 1), (1, 1, 1), (1, 2), (1, 1)), ((1, 8, 8, 2), (3, 3, 2), (3, 3), (2, 2))]


def out_size(size, window, stride, rate, padding):
    window = (window - 1) * rate + 1
    return -(-size // stride) if padding == "SAME" else -(-(size - window + 1) // stride)


for padding, (shape, window, stride, rate) in itertools.product(("SAME", "VALID"), SHAPES):
    for dtype in REALS if shape[0] == 2 and window[0] == 3 else [np.float32, np.float64, np.int32]:
        attrs = dict(strides=[1, *stride, 1], rates=[1, *rate, 1], padding=padding)
        value, weights = image(*shape, dtype=dtype), image(*window, dtype=dtype)
        add("Dilation2D", value, weights, **attrs)
        out = [out_size(shape[1 + i], window[i], stride[i], rate[i], padding) for i in range(2)]
        back = image(shape[0], *out, shape[3], dtype=dtype)
        loose = (3e-2, 3e-2) if np.dtype(dtype).itemsize == 2 and dtype in (np.float16, bfloat16) else None
        add("Dilation2DBackpropInput", value, weights, back, tolerance=loose, **attrs)
        # Long sums of 16-bit floats lose digits at every step.
        longer = (3e-2, 3e-1) if loose else (1e-4, 1e-4)
        add("Dilation2DBackpropFilter", value, weights, back, tolerance=longer, **attrs)
plain = dict(strides=[1, 1, 1, 1], rates=[1, 1, 1, 1], padding="VALID")
special = np.full((1, 3, 3, 1), -np.inf, np.float32)
special[0, 2, 2, 0] = np.nan
for op, more in (("Dilation2D", []), ("Dilation2DBackpropInput", [image(1, 2, 2, 1)]),
                 ("Dilation2DBackpropFilter", [image(1, 2, 2, 1)])):
    add(op, special, image(2, 2, 1), *more, note="nothing above the lowest", **plain)
    back = [image(0, 2, 2, 1)] * len(more)
    add(op, image(0, 3, 3, 1), image(2, 2, 1), *back, note="empty", **plain)
    add(op, image(3, 3, 1), image(2, 2, 1), *more, note="rank", **plain)
    add(op, image(1, 3, 3, 1), image(2, 2), *more, note="filter rank", **plain)
    add(op, image(1, 3, 3, 1), image(2, 2, 3), *more, note="depth", **plain)
    add(op, image(1, 3, 3, 1), image(4, 4, 1), *more, note="window", **plain)
    for attrs in (dict(strides=[2, 1, 1, 1]), dict(rates=[1, 1, 1, 2])):
        add(op, image(1, 3, 3, 1), image(2, 2, 1), *more, note="attributes", **{**plain, **attrs})
add("Dilation2DBackpropInput", image(1, 3, 3, 1), image(2, 2, 1), image(1, 2, 3, 1), note="size", **plain)
add("Dilation2DBackpropFilter", image(1, 3, 3, 1), image(2, 2, 1), image(1, 2, 3, 1), note="size", **plain)
