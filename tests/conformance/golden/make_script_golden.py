"""Writes src/kernels/strings/unicode_script.inc: the script of every code point as genuine TensorFlow numbers it.

usage: python make_script_golden.py OUTPUT    (with the python of a TensorFlow environment)
"""
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

HEAD = """/* Made by tests/conformance/golden/make_script_golden.py from what genuine TensorFlow's
 * UnicodeScript answers; included by unicode_script.c alone. Each run of code points begins where
 * its row says and ends where the next one begins. */
static const script_run runs[] = {
"""


def main():
    scripts = tf.raw_ops.UnicodeScript(input=np.arange(0x110000, dtype=np.int32)).numpy()
    starts = [0] + [int(at) + 1 for at in np.flatnonzero(np.diff(scripts))]
    rows = [f"{{{hex(start)}, {scripts[start]}}}," for start in starts]
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(HEAD)
        for begin in range(0, len(rows), 6):
            file.write("    " + " ".join(rows[begin:begin + 6]) + "\n")
        file.write("};\n")


main()
