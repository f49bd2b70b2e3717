"""Neighbours of the quantized products: norms, sums, resizing, and ranges by channel."""
import numpy as np
import tensorflow as tf
from cases_quant_quantized import RANGES, Quantized, add, codes, f32
from cases_quant_quantized import CASES as SHARED

FIRST = len(SHARED)
RANDOM = np.random.RandomState(11)

# ---- QuantizedAdd ----
PAIRS = (((4,), (4,)), ((3, 5), (3, 5)), ((), (7,)), ((7,), ()), ((), ()), ((1,), (2, 3)), ((2, 3, 4), (1, 1, 1)),
         ((2, 3), (3,)), ((4,), (2, 3, 4)), ((2, 3, 4), (3, 4)), ((5, 1), (1,)), ((0,), (0,)), ((1,), (0,)))


def add_op(label, x, y, first=(0, 1), second=(-2, 3), **limits):
    inputs = dict(x=codes(x, tf.quint8), y=codes(y, tf.quint8), min_x=f32(first[0]), max_x=f32(first[1]),
                  min_y=f32(second[0]), max_y=f32(second[1]))
    inputs.update(limits)
    add("QuantizedAdd", label, inputs)


for x, y in PAIRS:
    add_op(f"{x} {y}", x, y)
for first in RANGES:
    for second in ((0, 6), (-3.5, 10), (-1e10, 1e-3)):
        add_op(f"{first} {second}", (40,), (40,), first, second)
        add_op(f"{first} {second} single", (40,), (), first, second)
for label, x, y, options in [
        ("shapes", (3,), (4,), {}), ("x empty", (4,), (4,), {"first": (1, 1)}), ("y empty", (4,), (4,), {"second": (2, 1)}),
        ("not a number", (4,), (4,), {"first": (0, np.nan)})]:
    add_op(label, x, y, **options)
for name in ("min_x", "max_x", "min_y", "max_y"):
    add_op(f"{name} of rank 1", (4,), (4,), **{name: np.ones(1, np.float32)})

# ---- QuantizedBatchNormWithGlobalNormalization ----
OPERANDS = ("t", "m", "v", "beta", "gamma")


def batch_norm(label, shapes=((2, 3, 4, 5),), ranges=((-1, 2), (0, 1), (0, 3), (-1, 1), (-2, 2)), epsilon=0.01, scales=True,
               **changes):
    inputs = {}
    for i, name in enumerate(OPERANDS):
        shape = shapes[i] if i < len(shapes) else (shapes[0][-1],)
        inputs.update({name: codes(shape, tf.quint8), name + "_min": f32(ranges[i][0]),
                       name + "_max": f32(ranges[i][1])})
    inputs.update(changes)
    add("QuantizedBatchNormWithGlobalNormalization", label, inputs, out_type=tf.qint32,
        variance_epsilon=epsilon, scale_after_normalization=scales)


for scales in (True, False):
    batch_norm(f"plain {scales}", scales=scales)
    batch_norm(f"wide {scales}", ranges=((-1e5, 1e6), (-10, 1e4), (0, 100), (-1e6, 1), (-300, 2)), scales=scales)
    batch_norm(f"narrow {scales}", ranges=((0, 0.01), (1, 1), (0, 1e-3), (0, 0), (0, 1)), epsilon=1e-6, scales=scales)
batch_norm("no image", shapes=((0, 2, 2, 3),))
batch_norm("vectors as limits", t_min=np.zeros(1, np.float32), gamma_max=np.ones((1, 1), np.float32))
batch_norm("input of rank 2", shapes=((3, 5),))
for i, name in enumerate(OPERANDS):
    if i > 0:
        batch_norm(f"{name} of rank 2", shapes=((2, 3, 4, 5),) + ((5,),) * (i - 1) + ((5, 1),))
        batch_norm(f"{name} too short", shapes=((2, 3, 4, 5),) + ((5,),) * (i - 1) + ((4,),))
    for end in ("_min", "_max"):
        batch_norm(f"two of {name}{end}", **{name + end: np.ones(2, np.float32)})
batch_norm("no channel", shapes=((1, 1, 1, 0),))

# ---- QuantizedInstanceNorm ----


def instance_norm(label, shape=(2, 5, 6, 3), low=0., high=6., **attrs):
    add("QuantizedInstanceNorm", label, dict(x=codes(shape, tf.quint8), x_min=np.float32(low), x_max=np.float32(high)),
        **attrs)


for shape in ((2, 5, 6, 3), (1, 1, 1, 1), (1, 1, 4, 2), (3, 4, 4, 16), (0, 2, 2, 3), (1, 0, 2, 3)):
    instance_norm(f"{shape}", shape)
for low, high in RANGES:
    instance_norm(f"{low} {high}", low=low, high=high)
instance_norm("a range", output_range_given=True, given_y_min=-1.0, given_y_max=2.0)
instance_norm("far apart", min_separation=100.0)
instance_norm("a range far apart", output_range_given=True, given_y_min=-1.0, given_y_max=2.0, min_separation=20.0)
instance_norm("epsilon", variance_epsilon=2.5)
instance_norm("an empty range", output_range_given=True, given_y_min=2.0, given_y_max=2.0)
instance_norm("an empty input range", low=1, high=1)
instance_norm("a turned input range", low=2, high=1)
instance_norm("limits of rank 1", low=[1])
instance_norm("limits of rank 2", high=[[1]])

# ---- QuantizedResizeBilinear ----


def resize(label, images, size=(4, 7), low=0., high=1., **attrs):
    add("QuantizedResizeBilinear", label, dict(images=images, size=np.int32(size), min=np.float32(low),
                                               max=np.float32(high)), **attrs)


KINDS = {"quint8": lambda shape: codes(shape, tf.quint8), "qint32": lambda shape: codes(shape, tf.qint32),
         "float": lambda shape: RANDOM.normal(size=shape).astype(np.float32)}
for name, make in KINDS.items():
    for shape in ((1, 2, 3, 1), (2, 5, 4, 3), (1, 9, 11, 2), (1, 1, 1, 4)):
        for size in ((4, 7), (1, 1), (3, 2), (5, 4), (20, 33)):
            for attrs in ({}, {"align_corners": True}, {"half_pixel_centers": True},
                          {"align_corners": True, "half_pixel_centers": True}):
                resize(f"{name} {shape} {size} {attrs}", make(shape), size, **attrs)
    resize(f"{name} same size", make((2, 4, 7, 2)))
IMAGE = codes((1, 2, 2, 1), tf.quint8)
for label, options in {"a turned range": {"low": 3.0}, "one size": {"size": [4]}, "sizes of rank 2": {"size": [[4, 4]]},
                       "no height": {"size": [0, 4]}, "negative": {"size": [4, -1]}, "min of rank 1": {"low": [0.0]},
                       "max of rank 1": {"high": [0.0]}}.items():
    resize(label, IMAGE, **options)
resize("rank 3", codes((2, 2, 1), tf.quint8))
resize("an image without rows", codes((1, 0, 2, 1), tf.quint8))
resize("an image without channels", codes((1, 2, 2, 0), tf.quint8))

# ---- By channel ----
SMALL = Quantized(RANDOM.randint(-1000, 1000, size=(2, 3, 4, 5)), tf.qint32)
POSITIVE = Quantized(RANDOM.randint(0, 2**31, size=(2, 3, 4, 5)), tf.qint32)
LEAST = Quantized(np.full((1, 1, 1, 5), -2**31), tf.qint32)
LOWS = np.float32([0, -1, -100, 2, -1e-3])
HIGHS = np.float32([6, 1, 50, 3, 1e4])


def channels(op, label, values=codes((2, 3, 4, 5), tf.qint32), lows=LOWS, highs=HIGHS, **options):
    limits = {key: np.float32(options.pop(key)) for key in list(options) if key.startswith("requested")}
    add(op, label, dict(input=values, input_min=np.float32(lows), input_max=np.float32(highs), **limits), **options)


for label, values in {"any": codes((2, 3, 4, 5), tf.qint32), "small": SMALL, "positive": POSITIVE, "least": LEAST}.items():
    for clip in (1e30, 6.0, 0.0):
        channels("RequantizationRangePerChannel", f"{label} clip {clip}", values, clip_value_max=clip)
    for kind in (tf.quint8, tf.qint8):
        for low, high in ((-1, 1), (-3.5, 10), (-1e4, 1), (-1e-3, 1e-3), (-1, 0)):
            channels("RequantizePerChannel", f"{label} {kind.name} {low} {high}", values, out_type=kind,
                     requested_output_min=low, requested_output_max=high)
for label, options in {
        "one limit fewer": {"lows": LOWS[:4]}, "one limit more": {"highs": np.ones(6)}, "limits of rank 2": {"lows": [LOWS]},
        "high limits of rank 2": {"highs": [HIGHS]}, "empty": {"values": codes((0, 3, 4, 5), tf.qint32)},
        "rank 3": {"values": codes((3, 4, 5), tf.qint32)}, "channels": {"values": codes((1, 1, 2, 4), tf.qint32)}}.items():
    channels("RequantizationRangePerChannel", label, clip_value_max=10.0, **options)
for label, options in {
        "one limit fewer": {"lows": LOWS[:4]}, "one limit more": {"highs": np.ones(6)},
        "two requested": {"requested_output_min": [0, 1]}, "rank 3": {"values": codes((3, 4, 5), tf.qint32)},
        "rank 5": {"values": codes((1, 2, 3, 4, 5), tf.qint32)},
        "positive minimum": {"requested_output_min": 0.0, "out_type": tf.qint8},
        "one element": {"requested_output_min": [-1], "requested_output_max": [[2]]}}.items():
    channels("RequantizePerChannel", label, **{"requested_output_min": -1, "requested_output_max": 1,
                                               "out_type": tf.quint8, **options})

CASES = SHARED[FIRST:]
del SHARED[FIRST:]
