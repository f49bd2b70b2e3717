"""Arrays that are large enough to be split over threads: one case a kind of work."""
import numpy as np
import tensorflow as tf

from runner import Case, bfloat16
from cases_math import values

N = 300000
CASES = []


def add(op, inputs, attrs=None, **more):
    CASES.append(Case(op, inputs, attrs, **more))


for dtype in (np.float32, np.float64, np.float16, bfloat16, np.int32, np.int8, np.complex64):
    add("AddV2", [values(dtype, (N,)), values(dtype, (N,))])
    add("AddV2", [values(dtype, (N,)), values(dtype, ())])
    add("Mul", [values(dtype, (N // 10, 10)), values(dtype, (10,))])
    add("Sub", [values(dtype, (300, 1000)), values(dtype, (300, 1))])
    add("Sub", [values(dtype, (30, 1, 100)), values(dtype, (100, 1))])
for op in ("Exp", "Tanh", "Sigmoid", "Sqrt", "Sin", "Square", "Neg"):
    add(op, [values(np.float32, (N,), 0.1, 5)])
    add(op, [values(bfloat16, (N,), 0.1, 5)])
add("FloorDiv", [values(np.int32, (N,)), np.concatenate([np.ones(N - 1, np.int32), [0]]).astype(np.int32)],
    name="FloorDiv(zero at the end)")
add("Less", [values(np.float32, (N,)), values(np.float32, (N,))])
add("Greater", [values(np.float32, (N // 4, 4)), values(np.float32, (4,))])
for op in ("Sum", "Max", "Mean", "Prod"):
    for shape, axes in [((N,), [0]), ((N // 10, 10), [0]), ((300, 1000), [0]), ((300, 1000), [1]),
                        ((20, 150, 100), [1]), ((20, 150, 100), [0, 2]), ((3, 100000), [1]),
                        ((10, 10, 10, 10, 30), [0, 2, 4])]:
        x = values(np.float32, shape, 0.999, 1.001) if op == "Prod" else values(np.float32, shape)
        add(op, [x, np.array(axes, np.int32)], {"keep_dims": False}, tolerance=(1e-3, 2e-2)
            if op in ("Sum", "Prod") else (1e-4, 1e-4), name=f"{op}({shape} over {axes})")
add("Sum", [values(bfloat16, (300, 1000)), np.array([1], np.int32)], {"keep_dims": False},
    tolerance=(3e-2, 1.0))
add("All", [values(np.bool_, (300, 1000)), np.array([1], np.int32)], {"keep_dims": False})
add("ArgMax", [values(np.float32, (300, 1000)), np.array(1, np.int32)], {"output_type": tf.int64})
add("ArgMax", [values(np.float32, (300, 1000)), np.array(0, np.int32)], {"output_type": tf.int64})
add("Cumsum", [values(np.float32, (300, 1000)), np.array(1, np.int32)],
    {"exclusive": False, "reverse": False}, tolerance=(1e-3, 1e-3))
add("Cast", [values(np.float32, (N,))], {"DstT": tf.int32})
add("Cast", [values(np.float32, (N,))], {"DstT": tf.float16})
add("Cast", [values(bfloat16, (N,))], {"DstT": tf.float32})
add("SelectV2", [values(np.bool_, (N,)), values(np.float32, (N,)), values(np.float32, (N,))])
add("SelectV2", [values(np.bool_, (300, 1)), values(np.float32, (300, 1000)), values(np.float32, ())])
add("Select", [values(np.bool_, (300,)), values(np.float32, (300, 1000)), values(np.float32, (300, 1000))])
add("AddN", [[values(np.float32, (N,)) for _ in range(4)]])
add("AddN", [[values(bfloat16, (N,)) for _ in range(3)]], tolerance=(3e-2, 1e-1))
# TensorFlow's threads take subnormal numbers for zeros.
for dtype, tiny in ((np.float32, 1e-40), (np.float64, 1e-310)):
    for count in (3, N):
        x = np.full(count, tiny, dtype)
        add("Mul", [x, np.ones(count, dtype)], name=f"Mul({count} subnormal {dtype.__name__})")
        add("Mul", [np.sqrt(x), np.sqrt(x)], name=f"Mul({count} to subnormal {dtype.__name__})")
        add("Sum", [x, np.array([0], np.int32)], {"keep_dims": False},
            name=f"Sum({count} subnormal {dtype.__name__})")
        add("Less", [np.zeros(count, dtype), x], name=f"Less({count} subnormal {dtype.__name__})")
add("ClipByValue", [values(np.float32, (N,)), np.float32(-1), np.float32(1)])
add("BroadcastTo", [values(np.float32, (300, 1)), np.array([300, 1000], np.int32)])
add("UnsortedSegmentSum", [values(np.float32, (3000, 100)), np.arange(3000, dtype=np.int32) % 7,
                           np.array(7, np.int32)], tolerance=(1e-3, 1e-2))
