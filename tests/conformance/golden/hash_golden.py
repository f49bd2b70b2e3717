"""Writes tests/unit/base/hash_golden.h: what genuine TensorFlow's fingerprints and hashes give.

Input i is the first i bytes of the sequence x -> 5 x + 1 (mod 256) that starts with 7, taken from a
generator of full period so that all bytes occur. Hash64 and the joined fingerprint come from ops
that answer modulo a number of buckets, here 2^63 - 1. Standard output gets the header.
"""
import tensorflow as tf

BUCKETS = 2**63 - 1
LENGTHS = list(range(0, 201)) + [255, 256, 257, 1000]


def sequence(length):
    data, x = bytearray(), 7
    for _ in range(length):
        data.append(x)
        x = (5 * x + 1) % 256
    return bytes(data)


def emit(name, values):
    print("static const uint64_t %s[] = {%s};" % (name, ", ".join("0x%x" % v for v in values)))


def main():
    strings = tf.constant([sequence(n) for n in LENGTHS])
    fingerprints = tf.raw_ops.Fingerprint(data=strings, method=tf.constant("farmhash64"))
    fingerprints = fingerprints.numpy().view("<u8")[:, 0]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        hashes = session.run(tf.raw_ops.StringToHashBucket(
            string_tensor=tf.constant([sequence(n) for n in LENGTHS]), num_buckets=BUCKETS))
    print("/* Written by tests/conformance/golden/hash_golden.py with TensorFlow %s. */"
          % tf.__version__)
    print("#include <stdint.h>")
    print("static const uint16_t golden_lengths[] = {%s};" % ", ".join(map(str, LENGTHS)))
    emit("golden_fingerprints", [int(v) for v in fingerprints])
    emit("golden_hashes", [int(v) for v in hashes])
    pairs = [(0, 0), (1, 2), (2, 1), (0xDECAFCAFFE, 12345), (2**62 + 17, 2**61 + 3)]
    joined = []
    for key, value in pairs:
        out = tf.raw_ops.SparseCross(
            indices=[], values=[], shapes=[], dense_inputs=[tf.constant([[value]], tf.int64)],
            hashed_output=True, num_buckets=BUCKETS, hash_key=key, out_type=tf.int64,
            internal_type=tf.int64)
        joined.append(int(out.output_values.numpy()[0]))
    emit("golden_join_first", [p[0] for p in pairs])
    emit("golden_join_second", [p[1] for p in pairs])
    emit("golden_joined", joined)


main()
