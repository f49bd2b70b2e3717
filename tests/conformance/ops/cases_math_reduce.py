"""Cases of reductions, arg-min and arg-max, cumulative ops."""
import numpy as np
import tensorflow as tf

from runner import Case, bfloat16
from cases_math import C, F, I, REAL, values

CASES = []


def add(op, inputs, attrs=None, **more):
    CASES.append(Case(op, inputs, attrs, **more))


SHAPES = [((5,), [0]), ((3, 4), [0]), ((3, 4), [1]), ((3, 4), [0, 1]), ((3, 4), []),
          ((2, 3, 4), [1]), ((2, 3, 4), [0, 2]), ((2, 3, 4), [-1]), ((2, 3, 4, 5), [1, 3]),
          ((2, 3, 4, 5), [0, 2]), ((2, 1, 4), [1]), ((0, 3), [0]), ((3, 0), [1]), ((0, 3), [1]),
          ((), []), ((1, 1), [0, 1]), ((100, 10), [0]), ((7, 300), [1])]
BASE = {"Sum": F + C + I, "Prod": F + C + I, "Max": F + I, "Min": F + I, "Mean": F + C + I,
        "EuclideanNorm": F + C + I}
for op, dtypes in BASE.items():
    for dtype in dtypes:
        name = np.dtype(dtype).name
        for number, (shape, axes) in enumerate(SHAPES if name in ("float32", "int32") else SHAPES[:10]):
            x = values(dtype, shape, -1.5, 1.5) if op == "Prod" and np.dtype(dtype).kind != "u" \
                else values(dtype, shape)
            if op in ("Mean", "EuclideanNorm") and np.dtype(dtype).itemsize == 1:
                x = (x % 3).astype(dtype)
            if np.prod(shape) == 0 and op == "Mean" and name == "int32":
                continue  # TensorFlow leaves it undefined
            loose = None
            if name in ("float16", "bfloat16"):
                loose = (2e-2, 5e-2) if name == "float16" else (5e-2, 2e-1)
            axis_type = np.int64 if number % 3 == 2 else np.int32
            add(op, [x, np.array(axes, axis_type)], {"keep_dims": number % 2 == 1}, tolerance=loose,
                name=f"{op}({name}{list(shape)} over {axes})")
for op in ["All", "Any"]:
    for number, (shape, axes) in enumerate(SHAPES):
        add(op, [values(np.bool_, shape), np.array(axes, np.int32)], {"keep_dims": number % 2 == 1},
            name=f"{op}({list(shape)} over {axes})")
for op in list(BASE) + ["All"]:
    x = values(np.bool_ if op == "All" else np.float32, (2, 3))
    add(op, [x, np.array(1, np.int32)], {"keep_dims": False}, name=f"{op}(scalar axis)")
    add(op, [x, np.array([2], np.int32)], {"keep_dims": False}, name=f"{op}(axis too large)")
    add(op, [x, np.array([-3], np.int32)], {"keep_dims": False}, name=f"{op}(axis too small)")
    add(op, [x, np.array([0, 0], np.int32)], {"keep_dims": False}, name=f"{op}(axis twice)")
    add(op, [x, np.array([1, -1], np.int32)], {"keep_dims": False}, name=f"{op}(axis twice 2)")
for op in ["Max", "Min", "Sum", "Prod", "Mean"]:
    for dtype in REAL + [np.float16, bfloat16]:
        with_nan = np.array([[1, np.nan, 3], [np.inf, -np.inf, 2], [4, 5, 6]], dtype)
        for axes in ([0], [1], [0, 1]):
            add(op, [with_nan, np.array(axes, np.int32)], {"keep_dims": False},
                name=f"{op}(nan {np.dtype(dtype).name} over {axes})")
    add(op, [np.array([np.nan] * 70 + [1] * 70, np.float32), np.array([0], np.int32)],
        {"keep_dims": False}, name=f"{op}(many nan)")
for op in ["Sum", "Mean", "Max"]:
    add(op, [values(np.float32, (200000,)), np.array([0], np.int32)], {"keep_dims": False},
        tolerance=(1e-4, 1e-2), name=f"{op}(large vector)")
    add(op, [values(np.float32, (2000, 70)), np.array([0], np.int32)], {"keep_dims": False},
        tolerance=(1e-4, 1e-2), name=f"{op}(large columns)")
    add(op, [values(np.float32, (30000, 10)), np.array([0], np.int32)], {"keep_dims": False},
        tolerance=(1e-4, 1e-2), name=f"{op}(narrow columns)")
    add(op, [values(np.float32, (70, 2000)), np.array([1], np.int32)], {"keep_dims": False},
        tolerance=(1e-4, 1e-2), name=f"{op}(large rows)")

# ---- ArgMax, ArgMin ----
for op in ["ArgMax", "ArgMin"]:
    for dtype in F + I + [np.bool_]:
        for shape, axis in [((7,), 0), ((3, 4), 0), ((3, 4), 1), ((2, 3, 4), 1), ((2, 3, 4), -1),
                            ((40, 33), 0)]:
            add(op, [values(dtype, shape), np.array(axis, np.int32)], {"output_type": tf.int64})
        add(op, [values(dtype, (3, 4)), np.array(1, np.int64)], {"output_type": tf.int32})
    add(op, [values(np.float32, (0, 4)), np.array(1, np.int32)], {"output_type": tf.int64})
    add(op, [values(np.float32, (0, 4)), np.array(0, np.int32)], {"output_type": tf.int64},
        name=f"{op}(empty)")
    add(op, [values(np.float32, (3, 4)), np.array(2, np.int32)], {"output_type": tf.int64},
        name=f"{op}(axis)")
    add(op, [values(np.float32, (3, 4)), np.array([0], np.int32)], {"output_type": tf.int64},
        name=f"{op}(vector axis)")
    add(op, [np.array([[1, 5, 5], [np.inf, 0, np.inf], [-1, -np.inf, -np.inf]], np.float32),
             np.array(1, np.int32)], {"output_type": tf.int64}, name=f"{op}(ties)")
    for columns in (15, 16, 17, 40, 127, 130):
        add(op, [np.round(values(np.float32, (6, columns))), np.array(1, np.int32)],
            {"output_type": tf.int64}, name=f"{op}(rows of {columns})")
for out in [tf.int16, tf.uint16]:
    add("ArgMax", [values(np.float32, (3, 40)), np.array(1, np.int32)], {"output_type": out},
        name=f"ArgMax(to {out.name})")

# ---- Cumulative ----
for op in ["Cumsum", "Cumprod"]:
    for dtype in F + C + I:
        for number, (shape, axis) in enumerate([((6,), 0), ((3, 4), 0), ((3, 4), 1),
                                                ((2, 3, 4), 1), ((2, 3, 4), -2)]):
            add(op, [values(dtype, shape, -1.5, 1.5), np.array(axis, np.int32)],
                {"exclusive": number % 2 == 1, "reverse": number % 3 == 1},
                tolerance=(3e-2, 1e-1) if dtype == bfloat16 else (1e-2, 1e-2)
                if dtype == np.float16 else None)
    for exclusive in (False, True):
        for reverse in (False, True):
            add(op, [values(np.float32, (3, 5)), np.array(1, np.int64)],
                {"exclusive": exclusive, "reverse": reverse})
    add(op, [values(np.float32, (0, 5)), np.array(1, np.int64)],
        {"exclusive": False, "reverse": False})
    add(op, [values(np.float32, (3,)), np.array(1, np.int32)],
        {"exclusive": False, "reverse": False}, name=f"{op}(axis)")
    add(op, [values(np.float32, (3,)), np.array([0], np.int32)],
        {"exclusive": False, "reverse": False}, name=f"{op}(vector axis)")
for dtype in F:
    for exclusive in (False, True):
        for reverse in (False, True):
            add("CumulativeLogsumexp", [values(dtype, (3, 5)), np.array(1, np.int32)],
                {"exclusive": exclusive, "reverse": reverse})
add("CumulativeLogsumexp", [np.array([-np.inf, 0, 5, np.inf], np.float32), np.array(0, np.int32)],
    {"exclusive": False, "reverse": False}, name="CumulativeLogsumexp(infinite)")
