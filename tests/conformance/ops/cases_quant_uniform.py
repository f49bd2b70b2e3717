"""Uniformly quantized tensors: with one scale and zero point, and with one for each slice."""
import numpy as np
import tensorflow as tf
from cases_quant_quantized import CASES as SHARED
from cases_quant_quantized import Quantized, add, codes
from runner import tf_version

FIRST = len(SHARED)
RANDOM = np.random.RandomState(17)
LIMITS = {tf.qint8: (-128, 127), tf.quint8: (0, 255), tf.qint32: (-2**31, 2**31 - 1)}


def floats(shape, size=1.0):
    return (RANDOM.normal(size=shape) * size).astype(np.float32)


def parameters(count=None, scales=(0.01, 0.7), zeros=(-20, 20)):
    """Scales and zero points: scalars, or vectors."""
    shape = () if count is None else (count,)
    return np.float32(RANDOM.uniform(*scales, size=shape)), np.int32(RANDOM.randint(*zeros, size=shape))


def limits(kind, prefix="", low=None, high=None):
    return {prefix + "quantization_min_val": LIMITS[kind][0] if low is None else low,
            prefix + "quantization_max_val": LIMITS[kind][1] if high is None else high}


# ---- To codes and back ----


def quantize(label, values, kind=tf.qint8, axis=-1, scales=None, zeros=None, low=None, high=None):
    default = parameters(None if axis < 0 or axis >= values.ndim else values.shape[axis])
    add("UniformQuantize", label,
        dict(input=values, scales=np.float32(default[0] if scales is None else scales),
             zero_points=np.int32(default[1] if zeros is None else zeros)),
        Tout=kind, quantization_axis=axis, **limits(kind, "", low, high))


def dequantize(label, values, axis=-1, scales=None, zeros=None):
    shape = values.values.shape
    default = parameters(None if axis < 0 or axis >= len(shape) else shape[axis])
    add("UniformDequantize", label,
        dict(input=values, scales=np.float32(default[0] if scales is None else scales),
             zero_points=np.int32(default[1] if zeros is None else zeros)),
        Tout=tf.float32, quantization_axis=axis, **limits(values.kind))


KINDS = [tf.qint8, tf.qint32] + ([tf.quint8] if tf_version() >= (2, 21) else [])
for kind in KINDS:
    for shape in [(), (5,), (0,), (3, 4), (2, 3, 4, 5), (2, 0, 3)]:
        for axis in range(-1, len(shape)):
            quantize(f"{kind.name} {shape} {axis}", floats(shape, 10), kind, axis)
            dequantize(f"{kind.name} {shape} {axis}", codes(shape, kind), axis)
    quantize(f"{kind.name} halves", np.float32([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997]), kind, scales=1, zeros=3)
    quantize(f"{kind.name} large", np.float32([1e9, -1e9, 3e9, -3e9, 1e20, -1e20]), kind, scales=1, zeros=0)
    quantize(f"{kind.name} narrow", floats((40,), 30), kind, scales=0.5, zeros=5, low=10, high=30)
quantize("turned limits", floats((10,)), low=10, high=-10)
dequantize("wraps", Quantized([2**31 - 1, -2**31, 0], tf.qint32), scales=0.5, zeros=-7)
for label, axis, scales, zeros in [
        ("of two shapes", -1, 1, [1]), ("axis -2", -2, 1, 1), ("axis too large", 2, [1, 1], [1, 1]),
        ("vectors for the whole", -1, [1, 1, 1], [1, 1, 1]), ("a scalar for slices", 0, 1, 1),
        ("too many slices", 1, [1, 1], [1, 1]), ("of rank 2", 1, [[1, 1, 1]], [[1, 1, 1]])]:
    quantize(label, floats((2, 3)), axis=axis, scales=scales, zeros=zeros)
    dequantize(label, codes((2, 3), tf.qint8), axis, scales, zeros)
for scale in [0, -1, np.nan]:
    dequantize(f"scale {scale}", codes((2, 3), tf.qint8), 1, [1, scale, 1], [0, 0, 0])
quantize("limit too large", floats((3,)), high=2**31)

# ---- To other codes ----


def requantize(label, values, axis=-1, output_axis=-1, scales=None, output_scales=None, low=-128, high=127, zeros=None):
    shape = values.values.shape
    first = parameters(shape[axis] if 0 <= axis < len(shape) else None)
    second = parameters(shape[output_axis] if 0 <= output_axis < len(shape) else None)
    add("UniformRequantize", label,
        dict(input=values, input_scales=np.float32(first[0] if scales is None else scales),
             input_zero_points=np.int32(first[1] if zeros is None else zeros),
             output_scales=np.float32(second[0] if output_scales is None else output_scales),
             output_zero_points=second[1]),
        Tout=tf.qint8, input_quantization_axis=axis, output_quantization_axis=output_axis,
        **limits(values.kind, "input_"), **limits(tf.qint8, "output_", low, high))


for kind in [tf.qint8, tf.qint32]:
    for shape in [(), (7,), (3, 4), (2, 3, 4)]:
        values = codes(shape, tf.qint8)
        values = Quantized(values.values.astype(np.int32) * 3, kind) if kind == tf.qint32 else values
        requantize(f"{kind.name} {shape}", values)
        for axis in range(len(shape)):
            requantize(f"{kind.name} {shape} in {axis}", values, axis)
            requantize(f"{kind.name} {shape} out {axis}", values, -1, axis)
            requantize(f"{kind.name} {shape} both {axis}", values, axis, axis)
WIDE = codes((3, 50), tf.qint32)
for scales in [(1e-9, 1), (1, 1), (1e-30, 1e30), (1e30, 1e-30), (1e-38, 1), (3e38, 1e-3), (2**-33, 1), (2**31, 1)]:
    requantize(f"wide {scales}", WIDE, scales=scales[0], output_scales=scales[1])
requantize("narrow", WIDE, scales=1e-7, output_scales=1, low=-5, high=100)
for label, options in {
        "axis -2": {"axis": -2}, "output axis -2": {"output_axis": -2}, "two axes": {"axis": 0, "output_axis": 1},
        "axis too large": {"axis": 2, "scales": 1}, "a scale of 0": {"scales": 0}, "a negative one": {"output_scales": -1},
        "vectors": {"scales": [1, 1, 1], "zeros": [0, 0, 0]}, "a ratio without end": {"scales": np.inf}}.items():
    requantize(label, WIDE, **options)

# ---- Clip ----


def clip(label, values, low, high, axis=-1, count=None, zeros=None):
    scales, default = parameters(count)
    add("UniformQuantizedClipByValue", label,
        dict(operand=values, min=Quantized(low, tf.qint32), max=Quantized(high, tf.qint32), scales=scales,
             zero_points=np.int32(default if zeros is None else zeros)), quantization_axis=axis, **limits(tf.qint32))


SMALL = Quantized(RANDOM.randint(-50, 50, size=(2, 3, 4)), tf.qint32)
clip("the whole", SMALL, -10, 20)
clip("turned", SMALL, 20, -10)
clip("axis 0", SMALL, [-5, 10], [0, 30], 0, 2)
clip("axis 1", SMALL, [-5, 10, 0], [0, 30, 1], 1, 3)
clip("axis 2", SMALL, [-5, 10, 0, -100], [0, 30, 1, 100], 2, 4)
clip("empty", Quantized(np.zeros((0, 3)), tf.qint32), 1, 2)
clip("minima of another shape", SMALL, [-10], 20)
clip("maxima of another shape", SMALL, [-5, 10], [0, 30, 4], 0, 2)
clip("zero points of another shape", SMALL, 1, 2, zeros=[1])
clip("axis -2", SMALL, 1, 2, -2)
clip("axis 3", SMALL, [1], [2], 3, 1)

# ---- Add ----


def plus(label, x, y, axes=(-1, -1, -1), counts=(None, None, None), low=-2**31, high=2**31 - 1, sizes=(100, 100), **changes):
    inputs = {}
    for name, shape, size in zip(["lhs", "rhs"], [x, y], sizes):
        inputs[name] = Quantized(RANDOM.randint(-size, size, size=shape), tf.qint32)
    attrs = {}
    for name, axis, count in zip(["lhs", "rhs", "output"], axes, counts):
        inputs[name + "_scales"], inputs[name + "_zero_points"] = parameters(count)
        attrs[name + "_quantization_axis"] = axis
        attrs.update(limits(tf.qint32, name + "_"))
    inputs.update({key: np.asarray(value) for key, value in changes.items()})
    attrs.update(output_quantization_min_val=low, output_quantization_max_val=high)
    add("UniformQuantizedAdd", label, inputs, **attrs)


for x, y in [((3,), (3,)), ((2, 3), (3,)), ((3,), (2, 3)), ((), (4,)), ((4,), ()), ((), ()), ((2, 1), (1, 3)), ((2, 3, 4), (3, 1)),
             ((0, 3), (3,)), ((2, 1, 4), (3, 1))]:
    plus(f"{x} {y}", x, y)
plus("along the last", (2, 3), (2, 3), (1, 1, 1), (3, 3, 3))
plus("along the first", (2, 3), (2, 3), (0, 0, 0), (2, 2, 2))
plus("a bias along", (2, 3), (3,), (1, 0, 1), (3, 3, 3))
plus("to the whole", (2, 3), (2, 3), (1, 0, -1), (3, 2, None))
plus("one of them along", (2, 3), (2, 3), (1, -1, -1), (3, None, None))
plus("the right one as a whole", (2, 3), (2, 3), (1, -1, 1), (3, None, 3))
plus("within limits", (40,), (40,), low=-30, high=20)
plus("large", (40,), (40,), sizes=(2**31 - 1, 2**31 - 1))
plus("shapes", (2, 3), (4,))
plus("axes do not match", (2, 2), (2, 2), (0, 1, 1), (2, 2, 2))
plus("axes of the right do not match", (2, 2), (2, 2), (1, 0, 1), (2, 2, 2))
plus("axis -2", (2, 3), (2, 3), (-2, -1, -1))
plus("axis too large", (2, 3), (2, 3), (2, -1, -1))
plus("vectors for the whole", (2, 3), (2, 3), counts=(3, None, None))
for name in ["lhs", "rhs", "output"]:
    plus(f"{name} scale of 0", (2,), (2,), **{name + "_scales": np.float32(0)})

# ---- Dot ----


def dot(label, x=(3, 5), y=(5, 4), counts=(None, None, None), low=-2**31, high=2**31 - 1, attrs=(), **changes):
    inputs = dict(lhs=codes(x, tf.qint8), rhs=codes(y, tf.qint8))
    attributes = {}
    for name, count in zip(["lhs", "rhs", "output"], counts):
        inputs[name + "_scales"], inputs[name + "_zero_points"] = parameters(count)
        attributes[name + "_quantization_axis"] = -1 if count is None else 1
        attributes.update(limits(tf.qint32 if name == "output" else tf.qint8, name + "_"))
    inputs.update({key: np.asarray(value) for key, value in changes.items()})
    attributes.update(output_quantization_min_val=low, output_quantization_max_val=high)
    attributes.update(attrs)
    add("UniformQuantizedDot", label, inputs, Tout=tf.qint32, **attributes)


def hybrid(label, x=None, y=(5, 4), count=None, axis=None, **changes):
    scales, zeros = parameters(count)
    x = floats((3, 5)) if x is None else x
    inputs = dict(lhs=np.float32(x), rhs=codes(y, tf.qint8), rhs_scales=scales, rhs_zero_points=zeros)
    inputs.update({key: np.asarray(value) for key, value in changes.items()})
    axis = axis if axis is not None else -1 if count is None else 1
    add("UniformQuantizedDotHybrid", label, inputs, Tout=tf.float32, rhs_quantization_axis=axis,
        **limits(tf.qint8, "rhs_"))


for x, y in [((3, 5), (5, 4)), ((1, 1), (1, 1)), ((0, 5), (5, 4)), ((3, 5), (5, 0)), ((3, 0), (0, 4)), ((40, 100), (100, 30))]:
    for counts in [(None, None, None), (None, y[1], None), (None, y[1], y[1])]:
        dot(f"{x} {y} {counts}", x, y, counts)
    for count in [None, y[1]]:
        hybrid(f"{x} {y} {count}", floats(x), y, count)
dot("within limits", low=-50, high=100)
for label, row in {"zeros": [0, 0, 0, 0, 0], "positive": [1, 2, 3, 4, 5], "negative": [-1, -2, -3, -4, -5],
                   "tiny": [1e-44, 0, 0, -1e-44, 0], "small": [1e-37, 1e-38, -1e-38, 0, 0], "huge": [3e38, -3e38, 1, 0, 0],
                   "one": [0, 0, 7, 0, 0], "mixed": [-100, 1, 2, 3, 0.5]}.items():
    hybrid(label, [row])
for label, options in {
        "left of rank 1": {"x": (5,)}, "right of rank 3": {"y": (5, 4, 1)}, "sizes": {"x": (3, 4)},
        "left scales": {"counts": (5, None, None), "attrs": {"lhs_quantization_axis": -1}},
        "right scales": {"counts": (None, 3, None)}, "output scales": {"counts": (None, 4, 3)},
        "output along": {"counts": (None, None, 4)}, "left axis": {"attrs": {"lhs_quantization_axis": 0}},
        "right axis": {"attrs": {"rhs_quantization_axis": 0}}, "output axis": {"attrs": {"output_quantization_axis": 2}},
        "left scale of 0": {"lhs_scales": np.float32(0)}, "right scale of 0": {"rhs_scales": np.float32(0)},
        "output scale of 0": {"output_scales": np.float32(0)}, "no end": {"lhs_scales": np.float32(np.inf)}}.items():
    dot(label, **options)
for label, options in {
        "left of rank 1": {"x": floats((5,))}, "right of rank 3": {"y": (5, 4, 1)}, "sizes": {"x": floats((3, 4))},
        "scales": {"count": 3}, "axis": {"axis": 0}, "scale of 0": {"rhs_scales": np.float32(0)},
        "zero points": {"rhs_zero_points": np.int32([1])}}.items():
    hybrid(label, **options)

CASES = SHARED[FIRST:]
del SHARED[FIRST:]
