#!/usr/bin/env python3
"""Writes float_golden.inc: checksums of small-float conversions by ml_dtypes and NumPy.

Needs a Python with ml_dtypes (TensorFlow brings it). For each format: the CRC-32 of the float bits
of all its values, and of its bits for a grid of floats: every upper half word of a float with six
lower half words around the rounding points. NaNs are made canonical where libraries differ.
Usage: make_float_golden.py > float_golden.inc
"""
import zlib

import ml_dtypes
import numpy as np

LOW_WORDS = [0x0000, 0x0001, 0x7FFF, 0x8000, 0x8001, 0xFFFF]
FORMATS = [
    ("FLOAT8_E5M2", ml_dtypes.float8_e5m2, np.uint8),
    ("FLOAT8_E4M3FN", ml_dtypes.float8_e4m3fn, np.uint8),
    ("FLOAT8_E4M3FNUZ", ml_dtypes.float8_e4m3fnuz, np.uint8),
    ("FLOAT8_E4M3B11FNUZ", ml_dtypes.float8_e4m3b11fnuz, np.uint8),
    ("FLOAT8_E5M2FNUZ", ml_dtypes.float8_e5m2fnuz, np.uint8),
    ("BFLOAT16", ml_dtypes.bfloat16, np.uint16),
    ("HALF", np.float16, np.uint16),
]


def grid():
    high = np.arange(1 << 16, dtype=np.uint32) << 16
    low = np.array(LOW_WORDS, dtype=np.uint32)
    return (high[:, None] | low[None, :]).reshape(-1).view(np.float32)


def canonical(floats):
    """Float bits with every NaN made the quiet one of its sign."""
    bits = floats.view(np.uint32).copy()
    nan = np.isnan(floats)
    bits[nan] = (bits[nan] & 0x80000000) | 0x7FC00000
    return bits


def main():
    np.seterr(all="ignore")
    print("/* Made by make_float_golden.py with ml_dtypes %s. {dtype, CRC-32 of all values as floats,"
          % ml_dtypes.__version__)
    print(" * CRC-32 of what the grid of floats becomes}. */")
    floats = grid()
    for name, dtype, word in FORMATS:
        count = 1 << (8 * np.dtype(word).itemsize)
        values = np.arange(count, dtype=word).view(dtype).astype(np.float32)
        rounded = floats.astype(dtype).view(word)
        if name == "HALF":
            nan = np.isnan(floats)
            rounded[nan] = (rounded[nan] & 0x8000) | 0x7E00
        print("{DP_%s, 0x%08xu, 0x%08xu},"
              % (name, zlib.crc32(canonical(values).tobytes()), zlib.crc32(rounded.tobytes())))


if __name__ == "__main__":
    main()
