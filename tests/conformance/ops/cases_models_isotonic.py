"""Isotonic regression: every dtype and shape, rising, falling, equal and infinite values."""
import numpy as np
import tensorflow as tf
from runner import Case, bfloat16

CASES = []
RANDOM = np.random.RandomState(7)


def add(op, inputs, name="", **attrs):
    CASES.append(Case(op, inputs, attrs, name=f"{len(CASES)}:{op}({name})"))


for dtype, output in ((np.float32, tf.float32), (np.float64, tf.float64), (np.float16, tf.float16), (bfloat16,
        tf.bfloat16),
                      (np.int8, tf.float32), (np.int16, tf.float32), (np.int32, tf.float64), (np.int64, tf.float64)):
    for shape in ((7,), (3, 40), (2, 2, 5), (1,), (0,), (3, 0), ()):
        add("IsotonicRegression", [np.asarray(RANDOM.randn(*shape) * 20).astype(dtype)],
                f"{np.dtype(dtype).name}{list(shape)}",
            output_dtype=output)
for name, values in (("rising", range(9)), ("falling", range(9, 0, -1)), ("equal", [3] * 5), ("infinite", [np.inf,
        1, np.inf, 2])):
    add("IsotonicRegression", [np.array(values, np.float32)], name, output_dtype=tf.float32)
