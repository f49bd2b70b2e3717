"""Writes tests/unit/base/philox_golden.h: what genuine TensorFlow's random kernels give.

The stateful kernels seed PhiloxRandom(seed, seed2) when both attributes are set, and the full-int
kernel takes key and counter as they are, so the words, the conversions and Box-Muller can each be
compared bit by bit. Run with a Python that has TensorFlow; the header goes to standard output.
"""
import numpy as np
import tensorflow as tf

SEED, SEED2 = 0x123456789ABCDEF, 0x0FEDCBA987654321
KEY, COUNTER = 0xA4093822299F31D0, (0xFFFFFFFFFFFFFFFD, 0x1319_8A2E_0370_7344)


def integers(values, width):
    digits = width // 4
    return ", ".join("0x%0*x" % (digits, int(v)) for v in values)


def emit(name, values, width):
    print("static const uint%d_t %s[] = {%s};" % (width, name, integers(values, width)))


def run(op, dtype, count):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        return session.run(op(shape=[count], dtype=dtype, seed=SEED, seed2=SEED2))


def main():
    print("/* Written by tests/conformance/golden/philox_golden.py with TensorFlow %s. */"
          % tf.__version__)
    print("#include <stdint.h>")
    print("static const uint64_t golden_seed = 0x%x, golden_seed2 = 0x%x;" % (SEED, SEED2))
    print("static const uint64_t golden_key = 0x%x;" % KEY)
    print("static const uint64_t golden_counter[] = {0x%x, 0x%x};" % COUNTER)
    words = tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=[32], key=tf.constant([KEY], tf.uint64), counter=tf.constant(COUNTER, tf.uint64),
        alg=1, dtype=tf.uint32).numpy()
    emit("golden_words", words, 32)
    raw = tf.raw_ops
    emit("golden_floats", run(raw.RandomUniform, tf.float32, 64).view(np.uint32), 32)
    emit("golden_doubles", run(raw.RandomUniform, tf.float64, 32).view(np.uint64), 64)
    emit("golden_halves", run(raw.RandomUniform, tf.float16, 32).view(np.uint16), 16)
    emit("golden_normals", run(raw.RandomStandardNormal, tf.float32, 256).view(np.uint32), 32)
    emit("golden_normal_doubles",
         run(raw.RandomStandardNormal, tf.float64, 64).view(np.uint64), 64)
    # Groups of four start 256 words of four apart; a word pair gives two numbers, those of 2 and
    # beyond are dropped.
    emit("golden_truncated", run(raw.TruncatedNormal, tf.float32, 64).view(np.uint32), 32)
    # A long stream as one number: the fingerprint of 40000 normals.
    many = run(raw.RandomStandardNormal, tf.float32, 40000)
    digest = raw.Fingerprint(data=tf.constant(many.view(np.uint8)[None, :]),
                             method=tf.constant("farmhash64")).numpy().view("<u8")[0, 0]
    print("static const uint64_t golden_normals_fingerprint = 0x%016x;" % int(digest))


main()
