"""Quantizing, dequantizing and what simulates both; fingerprints."""
import itertools

import numpy as np
import tensorflow as tf
from runner import Case

CASES = []
rng = np.random.default_rng(13)
QUANTIZED = [tf.qint8, tf.quint8, tf.qint16, tf.quint16, tf.qint32]
STORED = {tf.qint8: np.int8, tf.quint8: np.uint8, tf.qint16: np.int16, tf.quint16: np.uint16,
          tf.qint32: np.int32}
LOOSE = (1e-5, 1e-5)


def add(op, *inputs, tolerance=None, since=None, **attrs):
    CASES.append(Case(op, inputs, attrs, tolerance=tolerance, since=since,
                      name=f"{len(CASES)}:{Case(op, inputs, attrs).name}"))


def f32(*shape):
    return rng.uniform(-3, 3, shape).astype(np.float32)


def number(value, dtype=np.float32):
    return np.array(value, dtype)


def graph(op, make):
    CASES.append(Case(op, build=make, name=f"{len(CASES)}:{op}"))


# Q-types are compared as the plain integers behind them.
def quantize(dtype, value, low, high, attrs):
    def make():
        x = tf.compat.v1.placeholder(tf.float32, value.shape)
        out = tf.raw_ops.QuantizeV2(input=x, min_range=low, max_range=high, T=dtype, **attrs)
        return {x: value}, [tf.bitcast(out.output, STORED[dtype]), out.output_min, out.output_max]
    graph("QuantizeV2", make)


def dequantize(dtype, low, high, shape, attrs, result=tf.float32):
    info = np.iinfo(STORED[dtype])
    value = rng.integers(info.min, info.max, shape, dtype=STORED[dtype], endpoint=True)

    def make():
        x = tf.compat.v1.placeholder(STORED[dtype], shape)
        return {x: value}, [tf.raw_ops.Dequantize(input=tf.bitcast(x, dtype), min_range=low,
                                                  max_range=high, dtype=result, **attrs)]
    CASES.append(Case("Dequantize", build=make, tolerance=LOOSE if result == tf.float32 else None,
                      name=f"{len(CASES)}:Dequantize"))


MODES = ["MIN_COMBINED", "MIN_FIRST", "SCALED"]
for dtype, mode, (low, high) in itertools.product(QUANTIZED, MODES, [(-2, 2.5), (0, 1), (-1, 0), (0, 0),
                                                                     (0.5, 2.0)]):
    if dtype == tf.qint32:
        continue  # saturation overflows in TensorFlow
    quantize(dtype, f32(40), np.float32(low), np.float32(high), dict(mode=mode))
for dtype, mode, result in itertools.product(QUANTIZED, MODES, [tf.float32, tf.bfloat16]):
    if result == tf.bfloat16 and mode != "MIN_COMBINED":
        continue
    dequantize(dtype, np.float32(-2), np.float32(2.5), (30,), dict(mode=mode), result)
for narrow, rounding in itertools.product([False, True], ["HALF_TO_EVEN", "HALF_AWAY_FROM_ZERO"]):
    quantize(tf.qint8, f32(40), np.float32(-2), np.float32(2), dict(
        mode="SCALED", narrow_range=narrow, round_mode=rounding))
    quantize(tf.qint8, f32(3, 2, 5), f32(2) - 3, f32(2) + 3, dict(
        mode="SCALED", narrow_range=narrow, round_mode=rounding, axis=1))
dequantize(tf.qint8, f32(2) - 3, f32(2) + 3, (3, 2, 4), dict(mode="SCALED", axis=1))
dequantize(tf.qint8, f32(2) - 3, f32(2) + 3, (3, 2, 4), dict(mode="MIN_COMBINED", axis=1))
dequantize(tf.qint8, np.float32(-3), np.float32(2), (3, 4), dict(mode="SCALED", narrow_range=True))
quantize(tf.qint8, f32(40), np.float32(2), np.float32(-2), dict(mode="SCALED"))

for dtype, signed, bits in itertools.product([np.float32, np.float64], [True, False], [3, 8, 16]):
    x = rng.uniform(-3, 3, (4, 5)).astype(dtype)
    low, high = number(-1.5, dtype), number(2, dtype)
    for given, rounding, narrow in itertools.product([True, False], ["HALF_TO_EVEN", "HALF_UP"],
                                                     [True, False]):
        if rounding == "HALF_TO_EVEN" and not narrow:
            add("QuantizeAndDequantize", x, signed_input=signed, num_bits=bits, range_given=given,
                input_min=-1.5, input_max=2.0, tolerance=LOOSE)
        for op in ["QuantizeAndDequantizeV2", "QuantizeAndDequantizeV4"]:
            add(op, x, low, high, signed_input=signed, num_bits=bits, range_given=given,
                round_mode=rounding, narrow_range=narrow, tolerance=LOOSE)
        add("QuantizeAndDequantizeV3", x, low, high, number(bits, np.int32), signed_input=signed,
            range_given=given, narrow_range=narrow, tolerance=LOOSE)
        add("QuantizeAndDequantizeV2", x, -np.ones(5, dtype), np.full(5, 2, dtype),
            range_given=False, axis=1, tolerance=LOOSE)
        add("QuantizeAndDequantizeV3", x, -np.ones(5, dtype), np.full(5, 2, dtype),
            number(bits, np.int32), range_given=given, axis=1, tolerance=LOOSE)
    add("QuantizeAndDequantizeV4Grad", x, x[::-1].copy(), low, high)
    add("QuantizeAndDequantizeV4Grad", x, x[::-1].copy(), -np.ones(5, dtype), np.ones(5, dtype),
        axis=1)
for attrs in [dict(range_given=True, input_min=2.0, input_max=-2.0), dict(num_bits=0),
              dict(num_bits=63), dict(num_bits=70), dict(num_bits=1, signed_input=False),
              dict(signed_input=False, range_given=True, input_min=-1.0, input_max=1.0)]:
    add("QuantizeAndDequantize", f32(4), **attrs)
add("QuantizeAndDequantize", f32(0))
add("QuantizeAndDequantize", np.zeros(3, np.float32))


def reshape(dtype, value, shape):
    def make():
        x = tf.compat.v1.placeholder(STORED.get(dtype, dtype.as_numpy_dtype), None)
        to = tf.compat.v1.placeholder(shape.dtype, None)
        stored = tf.bitcast(x, dtype) if dtype in STORED else x
        out = tf.raw_ops.QuantizedReshape(tensor=stored, shape=to, input_min=number(-1.5),
                                          input_max=number(2.5))
        plain = tf.bitcast(out.output, STORED[dtype]) if dtype in STORED else out.output
        return {x: value, to: shape}, [plain, out.output_min, out.output_max]
    graph("QuantizedReshape", make)


for dtype in [tf.quint8, tf.qint32]:
    for size in [[3, 4], [-1, 6], [12], [1, 2, -1, 3]]:
        for kind in [np.int32, np.int64]:
            reshape(dtype, np.arange(12).reshape(2, 6).astype(STORED[dtype]), np.array(size, kind))
for size in [[5], [-1, 5], [-1, -1], [[3, 4]], [-2, 6]]:
    reshape(tf.quint8, np.arange(12).astype(np.uint8), np.array(size, np.int32))
reshape(tf.quint8, np.zeros((0, 3), np.uint8), np.array([3, 0, 2], np.int64))

add("QuantizeAndDequantizeV2", f32(4), number(2), number(-2), range_given=True)
add("QuantizeAndDequantizeV3", f32(4), number(-2), number(2), number(70, np.int32))
add("QuantizeAndDequantizeV2", f32(4), f32(2), f32(2), range_given=True, since=(2, 13))
add("QuantizeAndDequantizeV2", f32(4), number(-2), number(2), axis=1)
add("QuantizeAndDequantizeV2", f32(0), number(-2), number(2), range_given=True)

method = np.array(b"farmhash64", dtype=object)
for dtype in [np.float32, np.int64, np.uint8, np.bool_, np.complex128]:
    add("Fingerprint", rng.integers(0, 9, (3, 7)).astype(dtype), method)
words = np.array([[b"a", b"bc"], [b"", b"long enough to be hashed in another way" * 3]], dtype=object)
add("Fingerprint", words, method)
add("Fingerprint", words[0], method)
add("Fingerprint", f32(), method)
add("Fingerprint", f32(2), np.array(b"md5", dtype=object))
