"""Quantized inference: products, sums, activations, poolings and ranges of quantized tensors."""
import itertools

import numpy as np
import tensorflow as tf
from runner import Case, make_op, tf1

CASES = []
RANDOM = np.random.RandomState(3)
PLAIN = {tf.quint8: np.uint8, tf.qint8: np.int8, tf.qint32: np.int32}


class Quantized:
    """Numbers of a quantized type; they are fed as plain integers and bitcast in the graph."""

    def __init__(self, values, kind):
        self.values, self.kind = np.asarray(values, PLAIN[kind]), kind


def codes(shape, kind):
    limits = np.iinfo(PLAIN[kind])
    return Quantized(RANDOM.randint(limits.min, int(limits.max) + 1, size=shape, dtype=np.int64), kind)


def feed(feeds, value):
    if isinstance(value, list):
        return [feed(feeds, item) for item in value]
    array = value.values if isinstance(value, Quantized) else np.asarray(value)
    tensor = tf1.placeholder(tf.as_dtype(array.dtype), shape=None)
    feeds[tensor] = array
    return tf.bitcast(tensor, value.kind) if isinstance(value, Quantized) else tensor


def plain(tensor):
    for kind, dtype in PLAIN.items():
        if tensor.dtype == kind:
            return tf.bitcast(tensor, tf.as_dtype(dtype))
    return tensor


def add(op, name, inputs, tolerance=None, **attrs):
    def build():
        feeds = {}
        tensors = {key: feed(feeds, value) for key, value in inputs.items()}
        return feeds, [plain(output) for output in tf.nest.flatten(make_op(op, **tensors, **attrs))]
    CASES.append(Case(op, build=build, name=f"{len(CASES)}:{op}({name})", tolerance=tolerance))


def f32(value):
    return np.float32(value)


RANGES = ((0, 6), (-1, 1), (-3.5, 10), (-20, -5), (2, 3), (0, 0.01), (-100, 1000))

# ---- Ranges ----
for low, high in RANGES + ((0, 0), (1, 1)):
    for shape in ((40,), (3, 4), ()):
        wide = codes(shape, tf.qint32)
        label = f"[{low}, {high}] {shape}"
        limits = dict(input_min=f32(low), input_max=f32(high))
        add("QuantizeDownAndShrinkRange", label, dict(input=wide, **limits), out_type=tf.quint8)
        add("RequantizationRange", label, dict(input=wide, **limits))
        for new_low, new_high in ((0, 6), (-1, 1), (-3.5, 10), (-20, 0)):
            for kind in (tf.quint8, tf.qint8):
                add("Requantize", f"{label} {kind.name} [{new_low}, {new_high}]", dict(
                    input=wide, **limits, requested_output_min=f32(new_low), requested_output_max=f32(new_high)),
                    out_type=kind)
    for kind in (tf.quint8, tf.qint32):
        for op in ("QuantizedRelu", "QuantizedRelu6"):
            add(op, f"[{low}, {high}] {kind.name}", dict(features=codes((5, 7), kind), min_features=f32(low),
                                                         max_features=f32(high)), out_type=kind)
SMALL = Quantized([-5, 0, 3, 1000, -70000], tf.qint32)
add("QuantizeDownAndShrinkRange", "near zero", dict(input=SMALL, input_min=f32(-1e6), input_max=f32(1e6)),
        out_type=tf.quint8)
add("QuantizeDownAndShrinkRange", "nothing", dict(input=codes((0,), tf.qint32), input_min=f32(-1), input_max=f32(1)),
    out_type=tf.quint8)
add("RequantizationRange", "near zero", dict(input=SMALL, input_min=f32(-1e6), input_max=f32(1e6)))
for low, high in ((1, 2), (0, -1), (-1, -2)):
    add("Requantize", f"wrong [{low}, {high}]", dict(input=SMALL, input_min=f32(-1), input_max=f32(1),
            requested_output_min=f32(low),
                                                     requested_output_max=f32(high)), out_type=tf.quint8)

# ---- Concat ----
for kind in (tf.quint8, tf.qint32):
    for axis, shapes in ((0, ((2, 3), (1, 3), (4, 3))), (1, ((2, 3), (2, 1))), (2, ((2, 3, 1), (2, 3, 5))),
                         (1, ((2, 3), (2, 0))), (2, ((2, 3), (2, 1))), (-1, ((2, 3), (2, 1))), (0, ((2, 3), (2, 1)))):
        for ranges in (((-1, 1), (-1, 1), (-1, 1)), ((0, 6), (-2, 3), (-0.5, 20))):
            some = ranges[:len(shapes)]
            add("QuantizedConcat", f"{kind.name} {axis} {shapes} {some}", dict(
                concat_dim=np.int32(axis), values=[codes(shape, kind) for shape in shapes],
                input_mins=[f32(low) for low, _ in some], input_maxes=[f32(high) for _, high in some]))

# ---- Products and sums ----
for (a_range, b_range), (turn_a, turn_b) in itertools.product(
        (((0, 6), (-1, 1)), ((-3.5, 10), (-20, -5)), ((2, 3), (-100, 1000))), itertools.product((False, True),
                repeat=2)):
    for m, k, n in ((3, 4, 5), (1, 1, 1), (20, 70, 30)):
        add("QuantizedMatMul", f"{a_range} {b_range} {turn_a} {turn_b} {m} {k} {n}", dict(
            a=codes((k, m) if turn_a else (m, k), tf.quint8), b=codes((n, k) if turn_b else (k, n), tf.quint8),
            min_a=f32(a_range[0]), max_a=f32(a_range[1]), min_b=f32(b_range[0]), max_b=f32(b_range[1])),
            transpose_a=turn_a, transpose_b=turn_b, Toutput=tf.qint32)
for name, a, b, limits in (("sizes", (3, 4), (5, 4), (0, 1, 0, 1)), ("rank of a", (4,), (4, 5), (0, 1, 0, 1)),
                           ("rank of b", (3, 4), (4,), (0, 1, 0, 1)), ("range of a", (3, 4), (4, 5), (1, 1, 0, 1)),
                           ("range of b", (3, 4), (4, 5), (0, 1, 1, 0))):
    add("QuantizedMatMul", f"wrong {name}", dict(
        a=codes(a, tf.quint8), b=codes(b, tf.quint8), min_a=f32(limits[0]), max_a=f32(limits[1]), min_b=f32(limits[2]),
        max_b=f32(limits[3])), Toutput=tf.qint32)
for (x, y), (x_range, y_range) in itertools.product(
        (((4, 5), (4, 5)), ((4, 5), (5,)), ((5,), (4, 5)), ((), (4, 5)), ((3, 4, 5), (5,)), ((1,), (7,)), ((3,), (4,))),
        (((0, 6), (-1, 1)), ((-3.5, 10), (-20, -5)), ((1, 1), (0, 1)))):
    add("QuantizedMul", f"{x} {y} {x_range} {y_range}", dict(
        x=codes(x, tf.quint8), y=codes(y, tf.quint8), min_x=f32(x_range[0]), max_x=f32(x_range[1]),
                min_y=f32(y_range[0]),
        max_y=f32(y_range[1])), Toutput=tf.qint32)
for kind, (shape, width), (low, high) in itertools.product(
        (tf.quint8, tf.qint8), (((3, 5), 5), ((2, 3, 4, 5), 5), ((3, 5), 4), ((5,), 5)), ((0, 6), (-3.5, 10))):
    add("QuantizedBiasAdd", f"{kind.name} {shape} {width} {(low, high)}", dict(
        input=codes(shape, kind), bias=codes((width,), kind), min_input=f32(low), max_input=f32(high), min_bias=f32(-2),
        max_bias=f32(1)), out_type=tf.qint32)
for padding, stride, size in itertools.product(("SAME", "VALID"), (1, 2), (1, 3)):
    for image_range, filter_range in (((0, 6), (-1, 1)), ((-3.5, 10), (-20, 4)), ((-1, 0), (0, 1))):
        add("QuantizedConv2D", f"{padding} {stride} {size} {image_range} {filter_range}", dict(
            input=codes((2, 7, 6, 3), tf.quint8), filter=codes((size, size, 3, 4), tf.quint8),
                    min_input=f32(image_range[0]),
            max_input=f32(image_range[1]), min_filter=f32(filter_range[0]), max_filter=f32(filter_range[1])),
            out_type=tf.qint32, strides=[1, stride, stride, 1], padding=padding)

# ---- Poolings ----
for op, kind, padding, stride, size in itertools.product(("QuantizedMaxPool", "QuantizedAvgPool"), (tf.quint8,
        tf.qint8),
                                                         ("SAME", "VALID"), (1, 2), (2, 3)):
    add(op, f"{kind.name} {padding} {stride} {size}", dict(
        input=codes((2, 7, 6, 3), kind), min_input=f32(-3), max_input=f32(5)), ksize=[1, size, size, 1],
        strides=[1, stride, stride, 1], padding=padding)
