"""Constants whose bytes are a file's, and a setting that is always on."""
import pathlib

import numpy as np
import tensorflow as tf
from fixtures import scratch_folder
from runner import Case

CASES = []


def add(op, inputs, name="", **attrs):
    CASES.append(Case(op, inputs, attrs, name=f"{len(CASES)}:{op}({name})"))


FOLDER = pathlib.Path(scratch_folder("constants"))
(FOLDER / "numbers").write_bytes(np.arange(24, dtype=np.float32).tobytes())
for dtype, shape in ((tf.float32, [2, 3, 4]), (tf.float32, [5]), (tf.int64, []), (tf.uint8, [96]), (tf.complex64, [12]),
                     (tf.float64, [13]), (tf.string, [2])):
    add("ImmutableConst", [], f"{dtype.name}{shape}", dtype=dtype, shape=shape,
        memory_region_name=str(FOLDER / "numbers"))
add("ImmutableConst", [], "no file", dtype=tf.float32, shape=[2], memory_region_name=str(FOLDER / "nothing"))
add("IsTensorFloat32Enabled", [])
