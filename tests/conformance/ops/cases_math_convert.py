"""Cases of Cast, Bitcast, Select, ClipByValue, AddN and the like."""
import numpy as np
import tensorflow as tf

from runner import Case, bfloat16, feed
from cases_math import BROADCASTS, C, F, I, REAL, SIGNED, values

CASES = []


def add(op, inputs, attrs=None, **more):
    CASES.append(Case(op, inputs, attrs, **more))


# ---- Cast ----
ALL = F + C + I + [np.bool_]
for source in ALL:
    for target in ALL:
        kind, low = np.dtype(source).kind, -4.0
        if np.dtype(target).kind == "u" and kind not in "iu":
            low = 0.0  # a negative float as an unsigned integer is undefined
        x = values(source, (37,), low, 30.0)
        add("Cast", [x], {"DstT": tf.as_dtype(target)},
            name=f"Cast({np.dtype(source).name} to {np.dtype(target).name})")
    if np.dtype(source).kind in "iu":
        info = np.iinfo(source)
        x = np.array([info.min, info.max, 0, 1, info.max - 1, info.max // 2], source)
        for target in ALL:
            add("Cast", [x], {"DstT": tf.as_dtype(target)},
                name=f"Cast(extremes {np.dtype(source).name} to {np.dtype(target).name})")
QUANTIZED = {tf.qint8: tf.int8, tf.quint8: tf.uint8, tf.qint16: tf.int16, tf.quint16: tf.uint16,
             tf.qint32: tf.int32}


def cast_quantized(x, source, target):
    """A cast from or to a quantized type, which enters and leaves by its bits."""
    def build():
        start = feed(x)
        if source in QUANTIZED:
            start = tf.bitcast(start, source)
        end = tf.raw_ops.Cast(x=start, DstT=target)
        return {}, [tf.bitcast(end, QUANTIZED[target]) if target in QUANTIZED else end]
    CASES.append(Case("Cast", build=build, name=f"Cast({source.name} to {target.name})"))


for quantized, plain in QUANTIZED.items():
    info = np.iinfo(plain.as_numpy_dtype)
    extremes = np.array([info.min, info.max, 0, 1, 7], plain.as_numpy_dtype)
    for target in [tf.float32, tf.float16, tf.int8, tf.int64, tf.bool, tf.complex64, *QUANTIZED]:
        cast_quantized(extremes, quantized, target)
    for source in [np.float32, np.float64, np.int32, np.uint8, np.bool_]:
        cast_quantized(values(source, (37,), 0.0, 30.0), tf.as_dtype(source), quantized)
for source, target in [(np.float32(1), tf.string), (np.int64(1), tf.string), (b"1", tf.float32),
                       (b"1", tf.qint8), (np.float32(1), tf.resource), (True, tf.variant)]:
    add("Cast", [source], {"DstT": target}, name=f"Cast({source} to {target.name})")
for source in REAL:
    x = np.array([0, -0.0, 1.5, -1.5, 0.99, -0.99, np.inf, -np.inf, np.nan, 1e-8, 65504, 65520, 1e5,
                  3e38, 2.0 ** -14, 2.0 ** -25, 1.0009765, 1.00146484375], source)
    for target in F + C + [np.bool_]:
        add("Cast", [x], {"DstT": tf.as_dtype(target)},
            name=f"Cast(special {np.dtype(source).name} to {np.dtype(target).name})")
    for target in [np.float16, bfloat16, np.float32]:
        add("Cast", [values(source, (50,))], {
                                              "DstT": tf.as_dtype(target), "Truncate": True},
            tolerance=(0, 0), name=f"Cast(truncate {np.dtype(source).name} to {np.dtype(target).name})")
    x = np.array([3e9, -3e9, 1e20, np.nan, np.inf, -np.inf, 2147483647.0, -2147483648.0], source)
    for target in [np.int32, np.int64]:
        add("Cast", [x], {"DstT": tf.as_dtype(target)},
            name=f"Cast(too large {np.dtype(source).name} to {np.dtype(target).name})")
for shape in [(), (0, 3), (2, 3, 4), (5000,)]:
    add("Cast", [values(np.float32, shape)], {"DstT": tf.int32})
    add("Cast", [values(np.float32, shape)], {"DstT": tf.float16})

# ---- Bitcast ----
for shape, source, target in [((3,), np.float32, tf.int32), ((3,), np.float32, tf.uint8),
                              ((3, 4), np.uint8, tf.float32), ((3, 4), np.uint8, tf.int64),
                              ((), np.float64, tf.int32), ((2,), np.int32, tf.float64),
                              ((2, 2), np.float16, tf.uint16), ((), np.int32, tf.int64),
                              ((0,), np.int32, tf.uint8), ((2,), np.complex64, tf.float32),
                              ((3,), bfloat16, tf.uint16)]:
    add("Bitcast", [values(source, shape)], {"type": target})

# ---- Select ----
for dtype in F + C + I + [np.bool_]:
    add("Select", [values(np.bool_, (2, 3)), values(dtype, (2, 3)), values(dtype, (2, 3))])
    add("Select", [np.array(True), values(dtype, (2, 3)), values(dtype, (2, 3))])
    add("Select", [values(np.bool_, (4,)), values(dtype, (4, 3)), values(dtype, (4, 3))])
    for c, a, b in [((2, 3), (2, 3), (2, 3)), ((), (2, 3), (2, 3)), ((3,), (2, 3), (1,)),
                    ((2, 1), (1, 3), ()), ((2, 1), (), ()), ((2, 3), (3,), (2, 1)),
                    ((0,), (1,), ()), ((2, 1, 4), (3, 1), (3, 4))]:
        add("SelectV2", [values(np.bool_, c), values(dtype, a), values(dtype, b)])
text = np.array([b"a", b"much longer than twenty-two bytes", b""], object)
add("Select", [np.array([True, False, True]), text, text[::-1].copy()], name="Select(strings)")
add("SelectV2", [np.array([[True], [False]]), text, np.array(b"x", object)],
    name="SelectV2(strings)")
add("Select", [np.array([True, False]), values(np.float32, (3,)), values(np.float32, (3,))],
    name="Select(size)")
add("Select", [np.array([True, False]), values(np.float32, (3,)), values(np.float32, (2,))],
    name="Select(branches)")
add("Select", [np.array([[True, False]]), values(np.float32, (3,)), values(np.float32, (3,))],
    name="Select(rank)")
add("Select", [np.array([True]), values(np.float32, ()), values(np.float32, ())],
    name="Select(scalars)")
add("Select", [np.zeros((0,), np.bool_), values(np.float32, (0, 3)), values(np.float32, (0, 3))],
    name="Select(empty)")
add("SelectV2", [np.array([True, False]), values(np.float32, (3,)), values(np.float32, (3,))],
    name="SelectV2(size)")

# ---- ClipByValue ----
for dtype in F + SIGNED + [np.uint8, np.uint16]:
    low, high = np.array(1, dtype), np.array(3, dtype)
    add("ClipByValue", [values(dtype, (3, 4)), low, high])
    add("ClipByValue", [values(dtype, (4,)), np.array([0, 1, 2, 3], dtype), high])
    add("ClipByValue", [values(dtype, (4,)), low, np.array([1, 2, 3, 4], dtype)])
    add("ClipByValue", [values(dtype, (4,)), np.array([0, 1, 2, 3], dtype),
                        np.array([1, 2, 3, 4], dtype)])
    add("ClipByValue", [values(dtype, ()), low, high])
for dtype in [np.complex64, np.complex128]:
    add("ClipByValue", [np.array([1 + 2j, 3 - 4j, -1, .5 + .5j], dtype), np.array(-1 - 1j, dtype), np.array(1 + 1j, dtype)])
    add("ClipByValue", [np.array([1 + 2j, 3 - 4j], dtype), np.array([0, 1j], dtype), np.array([1 + 1j, 2 + 2j], dtype)])
add("ClipByValue", [np.array([np.nan, np.inf, -np.inf, 0], np.float32), np.float32(-1),
                    np.float32(1)], name="ClipByValue(nan)")
add("ClipByValue", [values(np.float32, (4,)), np.float32(2), np.float32(1)],
    name="ClipByValue(crossed)")
add("ClipByValue", [values(np.float32, (4,)), values(np.float32, (3,)), np.float32(1)],
    name="ClipByValue(shape)")

# ---- AddN ----
for dtype in F + C + I:
    for count in (1, 2, 3, 9):
        add("AddN", [[values(dtype, (3, 4)) for _ in range(count)]],
            tolerance=(3e-2, 1e-1) if dtype == bfloat16 else (1e-2, 2e-2)
            if dtype == np.float16 else None)
add("AddN", [[values(np.float32, (3000,)) for _ in range(5)]])
add("AddN", [[values(np.float32, (0,)), values(np.float32, (0,))]])
add("AddN", [[values(np.float32, (2,)), values(np.float32, (3,))]], name="AddN(shapes)")
add("AccumulateNV2", [[values(np.float32, (2,)), values(np.float32, (2,))]],
    {"shape": tf.TensorShape([2])})

# ---- Broadcasting by itself ----
for dtype in F + C + I + [np.bool_]:
    add("BroadcastTo", [values(dtype, (3, 1)), np.array([2, 3, 4], np.int32)])
for shape, target in [((), []), ((), [3]), ((1,), [0]), ((2, 3), [2, 3]), ((3,), [2, 3]),
                      ((2, 1, 3), [4, 2, 5, 3]), ((1, 1), [3, 3]), ((0, 1), [2, 0, 3]),
                      ((2,), [3]), ((2, 3), [3]), ((3,), [-1]), ((2,), [2, 3])]:
    add("BroadcastTo", [values(np.float32, shape), np.array(target, np.int64)],
        name=f"BroadcastTo({list(shape)} to {target})")
add("BroadcastTo", [text, np.array([2, 3], np.int32)], name="BroadcastTo(strings)")
add("BroadcastTo", [values(np.float32, (2,)), np.array([[2]], np.int32)],
    name="BroadcastTo(matrix)")
for dtype in (np.int32, np.int64):
    for a, b in BROADCASTS + [((2,), (3,)), ((2, 3), (3, 2)), ((1, 1, 3), (3,)), ((1,), (1, 1))]:
        add("BroadcastGradientArgs", [np.array(a, dtype), np.array(b, dtype)],
            name=f"BroadcastGradientArgs({np.dtype(dtype).name} {a} {b})")
        add("BroadcastArgs", [np.array(a, dtype), np.array(b, dtype)],
            name=f"BroadcastArgs({np.dtype(dtype).name} {a} {b})")
