"""Cases of segment reductions, counting, ranges and other ops of the mathematics families."""
import numpy as np
import tensorflow as tf

from runner import Case, bfloat16
from cases_math import C, F, I, REAL, values

CASES = []
LOOSE = {"float16": (1e-2, 2e-2), "bfloat16": (3e-2, 1e-1)}


def add(op, inputs, attrs=None, **more):
    CASES.append(Case(op, inputs, attrs, **more))


def loose(dtype):
    return LOOSE.get(np.dtype(dtype).name)


# ---- Segments ----
for op, dtypes in {"SegmentSum": F + C + I, "SegmentMean": F + C + I, "SegmentProd": F + C + I,
                   "SegmentMin": F + I, "SegmentMax": F + I}.items():
    for dtype in dtypes:
        for index in (np.int32, np.int64):
            add(op, [values(dtype, (6, 3)), np.array([0, 0, 1, 3, 3, 3], index)], tolerance=loose(dtype))
        add(op, [values(dtype, (5,)), np.array([1, 1, 1, 2, 5], np.int32)], tolerance=loose(dtype))
    x = values(np.float32, (4, 2))
    add(op, [x, np.array([0, 1, 0, 2], np.int32)], name=f"{op}(unsorted)")
    add(op, [x, np.array([-1, 0, 1, 2], np.int32)], name=f"{op}(negative)")
    add(op, [x, np.array([0, 0, 1], np.int32)], name=f"{op}(length)")
    add(op, [x, np.array([[0, 0, 1, 1]], np.int32)], name=f"{op}(matrix)")
    add(op, [values(np.float32, (0, 2)), np.zeros((0,), np.int32)], name=f"{op}(empty)")
    add(op, [values(np.float32, (4, 0)), np.array([0, 0, 1, 1], np.int32)], name=f"{op}(no columns)")
for op, dtypes in {"UnsortedSegmentSum": F + C + I, "UnsortedSegmentProd": F + C + I,
                   "UnsortedSegmentMin": F + I, "UnsortedSegmentMax": F + I}.items():
    for dtype in dtypes:
        for index in (np.int32, np.int64):
            add(op, [values(dtype, (6, 3)), np.array([4, 0, 1, 0, -1, 4], index),
                     np.array(6, np.int32)], tolerance=loose(dtype))
        add(op, [values(dtype, (2, 3)), np.array([[1, 0, 1], [2, 2, 2]], np.int32),
                 np.array(3, np.int64)], tolerance=loose(dtype))
    x = values(np.float32, (4, 2))
    add(op, [x, np.array([0, 1, 3, 2], np.int32), np.array(3, np.int32)], name=f"{op}(range)")
    add(op, [x, np.array([0, 1, 3], np.int32), np.array(3, np.int32)], name=f"{op}(shape)")
    add(op, [x, np.array([0, 1, 3, 2], np.int32), np.array(-1, np.int32)], name=f"{op}(negative)")
    add(op, [x, np.array([0, 1, 3, 2], np.int32), np.array([4, 4], np.int32)], name=f"{op}(count)")
    add(op, [values(np.float32, (0, 2)), np.zeros((0,), np.int32), np.array(3, np.int32)],
        name=f"{op}(empty)")
add("UnsortedSegmentSum", [values(np.float32, (4, 2)), np.array([0, 1, 1, 2], np.int16),
                           np.array(3, np.int32)], since=(2, 21))
for name in ("Sum", "Mean", "SqrtN"):
    dtypes = F + I if name == "Sum" else F
    for dtype in dtypes:
        for index in (np.int32, np.int64):
            for ids in (np.int32, np.int64):
                add(f"SparseSegment{name}", [values(dtype, (5, 3)), np.array([0, 4, 4, 1, 2], index),
                                             np.array([0, 0, 2, 2, 2], ids)], tolerance=loose(dtype))
        add(f"SparseSegment{name}WithNumSegments",
            [values(dtype, (5, 3)), np.array([0, 4, 4, 1, 2], np.int32),
             np.array([0, 0, 2, 2, 2], np.int32), np.array(5, np.int32)], tolerance=loose(dtype))
    x = values(np.float32, (5, 3))
    for label, indices, ids in [("index", [0, 5], [0, 1]), ("negative index", [0, -1], [0, 1]),
                                ("unsorted", [0, 1, 2], [1, 0, 2]), ("negative", [0, 1], [-1, 0]),
                                ("length", [0, 1], [0]), ("empty", [], [])]:
        add(f"SparseSegment{name}", [x, np.array(indices, np.int32), np.array(ids, np.int32)],
            name=f"SparseSegment{name}({label})")
    add(f"SparseSegment{name}WithNumSegments",
        [x, np.array([0, 1], np.int32), np.array([0, 3], np.int32), np.array(3, np.int32)],
        name=f"SparseSegment{name}WithNumSegments(too few)")
    for dtype in F:
        for index in (np.int32, np.int64):
            add(f"SparseSegment{name}Grad",
                [values(dtype, (3, 2)), np.array([0, 4, 4, 1, 2], index),
                 np.array([0, 0, 2, 2, 2], np.int32), np.array(6, np.int32)], tolerance=loose(dtype))
        add(f"SparseSegment{name}GradV2",
            [values(dtype, (3, 2)), np.array([0, 4, 4, 1, 2], np.int32),
             np.array([0, 0, 2, 2, 2], np.int32), np.array(6, np.int32)], tolerance=loose(dtype),
            since=(2, 21))
    for label, indices, ids in [("index", [0, 6], [0, 1]), ("segment", [0, 1], [0, 3]),
                                ("negative", [0, -1], [0, 1])]:
        add(f"SparseSegment{name}Grad",
            [values(np.float32, (3, 2)), np.array(indices, np.int32), np.array(ids, np.int32),
             np.array(6, np.int32)], name=f"SparseSegment{name}Grad({label})")

# ---- Counting ----
for dtype in REAL + [np.int32, np.int64]:
    add("Bincount", [np.array([1, 2, 2, 9, 0], np.int32), np.array(5, np.int32),
                     values(dtype, (5,))], tolerance=loose(dtype))
    add("Bincount", [np.array([1, 2, 2, 9, 0], np.int32), np.array(5, np.int32),
                     np.zeros((0,), dtype)])
    for index in (np.int32, np.int64):
        add("DenseBincount", [np.array([[1, 2, 2], [9, 0, 0]], index), np.array(5, index),
                              values(dtype, (2, 3))], tolerance=loose(dtype))
        add("DenseBincount", [np.array([1, 2, 2, 9, 0, 0], index), np.array(5, index),
                              np.zeros((0,), dtype)], {"binary_output": True})
add("Bincount", [np.array([1, -2], np.int32), np.array(5, np.int32), np.zeros((0,), np.float32)],
    name="Bincount(negative)")
add("Bincount", [np.array([1, 2], np.int32), np.array(-5, np.int32), np.zeros((0,), np.float32)],
    name="Bincount(size)")
add("Bincount", [np.array([1, 2], np.int32), np.array(5, np.int32), np.zeros((3,), np.float32)],
    name="Bincount(weights)")
add("SparseBincount", [np.array([[0, 1], [1, 0], [1, 2]], np.int64), np.array([1, 2, 2], np.int32),
                       np.array([2, 3], np.int64), np.array(4, np.int32), np.zeros((0,), np.float32)])
add("SparseBincount", [np.array([[0], [1], [2]], np.int64), np.array([1, 2, 2], np.int64),
                       np.array([3], np.int64), np.array(4, np.int64),
                       np.array([1, 2, 3], np.float32)])
add("RaggedBincount", [np.array([0, 2, 2, 4], np.int64), np.array([1, 1, 0, 9], np.int32),
                       np.array(3, np.int32), np.zeros((0,), np.int64)])
for dtype in REAL + [np.int32, np.int64]:
    add("Bucketize", [values(dtype, (3, 4), -10, 10)], {"boundaries": [-5.0, 0.0, 2.5, 7.0]})
add("Bucketize", [np.array([0, 1, 2], np.float32)], {"boundaries": []})
add("Bucketize", [np.array([0, 1, 2], np.float32)], {"boundaries": [1.0, 0.0]}, name="Bucketize(unsorted)")
for dtype in REAL + [np.int32, np.int64]:
    for out in (tf.int32, tf.int64):
        add("HistogramFixedWidth", [values(dtype, (40,), 0, 4), np.array([1, 3], dtype),
                                    np.array(4, np.int32)], {"dtype": out})
add("HistogramFixedWidth", [values(np.float32, (4,)), np.array([3, 1], np.float32),
                            np.array(4, np.int32)], {"dtype": tf.int32}, name="HistogramFixedWidth(range)")
add("HistogramFixedWidth", [values(np.float32, (4,)), np.array([1, 3], np.float32),
                            np.array(0, np.int32)], {"dtype": tf.int32}, name="HistogramFixedWidth(bins)")

# ---- Ranges ----
for dtype in [np.int32, np.int64]:
    for start, limit, delta in [(0, 5, 1), (3, 18, 4), (5, 0, -2), (0, 0, 1), (5, 0, 1), (0, 5, 0),
                                (0, 5, -1), (-3, 3, 2)]:
        add("Range", [np.array(v, dtype) for v in (start, limit, delta)],
            name=f"Range({np.dtype(dtype).name} {start} {limit} {delta})")
for dtype in REAL:
    for start, limit, delta in [(0, 1, 0.1), (3, 1, -0.5), (0, 0, 1), (0, 10, 3.3), (1, 0, 0.5)]:
        add("Range", [np.array(v, dtype) for v in (start, limit, delta)], tolerance=(1e-6, 1e-7),
            name=f"Range({np.dtype(dtype).name} {start} {limit} {delta})")
    for index in (np.int32, np.int64):
        for start, stop, num in [(0, 1, 5), (3, -1, 7), (2, 2, 3), (1, 9, 1), (0, 1, 0), (0, 1, -1)]:
            add("LinSpace", [np.array(start, dtype), np.array(stop, dtype), np.array(num, index)],
                name=f"LinSpace({np.dtype(dtype).name} {start} {stop} {num} {np.dtype(index).name})")
for dtype in (np.float16, bfloat16):
    add("Range", [np.array(v, dtype) for v in (0, 5, 0.5)], since=(2, 21))
add("Range", [np.array([0, 1], np.int32), np.array(3, np.int32), np.array(1, np.int32)],
    name="Range(vector)")
add("Range", [np.array([1], np.int32), np.array(3, np.int32), np.array(1, np.int32)],
    name="Range(one)")

# ---- Others ----
for dtype in F + I:
    add("Cross", [values(dtype, (4, 3)), values(dtype, (4, 3))], tolerance=loose(dtype) and
        (3e-2, 2e-1))
add("Cross", [values(np.float32, (4, 2)), values(np.float32, (4, 2))], name="Cross(size)")
add("Cross", [values(np.float32, (4, 3)), values(np.float32, (3,))], name="Cross(shapes)")
for op in ("CheckNumerics", "CheckNumericsV2"):
    for dtype in F:
        for x in ([1, 2], [1, np.nan], [np.inf, 1], [-np.inf, 1], [np.inf, np.nan], []):
            add(op, [np.array(x, dtype)], {"message": "here"}, name=f"{op}({np.dtype(dtype).name} {x})")
        # Longer than the blocks that are looked at together, with all that is nearly infinite.
        limits = tf.dtypes.as_dtype(dtype)
        edges = np.array([limits.max, limits.min, 0, -0.0, 1e-7, -1e-7], dtype)
        for place, bad in ((None, 0), (3, np.nan), (63, -np.inf), (150, np.inf), (199, np.nan)):
            x = np.resize(edges, 200)
            if place is not None:
                x[place] = bad
            add(op, [x], {"message": "here"}, name=f"{op}({np.dtype(dtype).name} {bad} at {place})")
for dtype in (np.int32, np.int64):
    for x in ([2, 0, 1], [], [0], [0, 0], [1, 2], [-1, 0]):
        add("InvertPermutation", [np.array(x, dtype)], name=f"InvertPermutation({x} {np.dtype(dtype).name})")
