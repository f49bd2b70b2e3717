"""Cases of the ops on sparse tensors in coordinates."""
import numpy as np

from runner import Case
from cases_math import C, F, I, REAL, SIGNED, values

CASES = []
LOOSE = {"float16": (1e-2, 2e-2), "bfloat16": (3e-2, 1e-1)}
L = np.int64
ALL = F + C + I + [np.bool_, np.bytes_]
random = np.random.RandomState(11)


def add(op, inputs, attrs=None, **more):
    if "tolerance" not in more and inputs:
        arrays = [a for i in inputs for a in (i if isinstance(i, list) else [i])]
        names = [np.asarray(a).dtype.name for a in arrays]
        more["tolerance"] = next((LOOSE[n] for n in names if n in LOOSE), None)
    CASES.append(Case(op, inputs, attrs, **more))


def some(dtype, count):
    if dtype is np.bytes_:
        return np.array([f"text {i} {'long' * (i % 9)}".encode() for i in range(count)], object)
    return values(dtype, (count,))


def ix(rows, rank=2):
    return np.array(rows, L).reshape(-1, rank)


def scattered(shape, count, ordered=True):
    """Distinct positions of a dense shape as rows of coordinates."""
    flat = random.choice(int(np.prod(shape)), count, replace=False)
    if ordered:
        flat = np.sort(flat)
    return np.stack(np.unravel_index(flat, shape), 1).astype(L)


def shape(*dims):
    return np.array(dims, L)


ROWS = ix([[0, 1], [0, 3], [2, 0], [2, 2], [3, 3]])
MIXED = ix([[2, 0], [0, 3], [3, 3], [0, 1], [2, 2]])
DIMS = shape(4, 5)
BAD = [  # (label, indices, values, shape): what every op that takes the three refuses
    ("vector indices", np.array([1, 2], L), np.ones(2, np.float32), DIMS),
    ("matrix values", ROWS, np.ones((5, 1), np.float32), DIMS),
    ("scalar shape", ROWS, np.ones(5, np.float32), np.array(4, L)),
    ("values", ROWS, np.ones(4, np.float32), DIMS),
    ("rank", ROWS, np.ones(5, np.float32), shape(4, 5, 6)),
]

# ---- SparseReorder ----
for dtype in ALL:
    add("SparseReorder", [MIXED, some(dtype, 5), DIMS])
add("SparseReorder", [ROWS, some(np.float32, 5), DIMS], name="SparseReorder(in order)")
add("SparseReorder", [ix([]), some(np.float32, 0), DIMS], name="SparseReorder(empty)")
add("SparseReorder", [ix([[5], [1], [3]], 1), some(np.float32, 3), shape(9)])
for dims in [(7, 5, 6), (3, 4, 2, 5), (1000, 1000), (40, 1, 50, 2, 3, 4)]:
    add("SparseReorder", [scattered(dims, 100, False), some(np.float64, 100), shape(*dims)])
add("SparseReorder", [scattered((300, 400), 5000, False), some(np.int32, 5000), shape(300, 400)])
add("SparseReorder", [ix([[9, 1 << 61], [0, 3], [9, 5]]), some(np.float32, 3), shape(1, 1 << 62)],
    name="SparseReorder(out of bounds, wide)")
add("SparseReorder", [MIXED, some(np.float32, 5), shape(1 << 40, 1 << 40)],
    name="SparseReorder(overflow)")
for label, *inputs in BAD:
    add("SparseReorder", inputs, name=f"SparseReorder({label})")

# ---- SparseReshape ----
for target in [(20,), (2, 10), (5, 4), (2, 2, 5), (-1, 2), (4, -1), (4, 5), (-1,), (1, 20, 1)]:
    add("SparseReshape", [ROWS, DIMS, shape(*target)], name=f"SparseReshape{target}")
add("SparseReshape", [ix([]), shape(0, 5), shape(5, 0)], name="SparseReshape(empty)")
add("SparseReshape", [ix([]), shape(2, 5), shape(10)], name="SparseReshape(no entries)")
for label, inputs in {
        "two unknown": [ROWS, DIMS, shape(-1, -1)], "negative": [ROWS, DIMS, shape(-2, 10)],
        "size": [ROWS, DIMS, shape(3, 7)], "multiple": [ROWS, DIMS, shape(-1, 7)],
        "unknown of zero": [ix([]), shape(0, 5), shape(0, -1)],
        "overflow": [ROWS, DIMS, shape(1 << 40, 1 << 40)],
        "entries in nothing": [ROWS, shape(0, 5), shape(0)],
        "vector": [np.array([1, 2], L), DIMS, shape(20)],
        "matrix target": [ROWS, DIMS, np.array([[20]], L)],
        "scalar shape": [ROWS, np.array(20, L), shape(20)]}.items():
    add("SparseReshape", inputs, name=f"SparseReshape({label})")

# ---- SparseConcat ----
OTHER = ix([[0, 0], [1, 2], [2, 1]])
for dtype in ALL:
    for axis in (0, 1, -1, -2):
        add("SparseConcat", [[ROWS, OTHER], [some(dtype, 5), some(dtype, 3)], [DIMS, shape(4, 5)]],
            {"concat_dim": axis})
add("SparseConcat", [[ROWS, OTHER, ix([])], [some(np.float32, n) for n in (5, 3, 0)],
                     [DIMS, shape(4, 3), shape(4, 9)]], {"concat_dim": 1})
add("SparseConcat", [[MIXED, OTHER], [some(np.float32, 5), some(np.float32, 3)], [DIMS, DIMS]],
    {"concat_dim": 1}, name="SparseConcat(not in order)")
for axis in range(3):
    dims = [(6, 7, 8), (6, 7, 8), (6, 7, 8)]
    add("SparseConcat", [[scattered(d, 60) for d in dims], [some(np.float32, 60) for _ in dims],
                         [shape(*d) for d in dims]], {"concat_dim": axis})
for label, first, second, axis in [("rank", DIMS, shape(4, 5, 6), 0), ("sizes", DIMS, shape(3, 5), 1),
                                   ("axis", DIMS, DIMS, 2), ("axis below", DIMS, DIMS, -3)]:
    add("SparseConcat", [[ROWS, scattered(tuple(second), 3)],
                         [some(np.float32, 5), some(np.float32, 3)], [first, second]],
        {"concat_dim": axis}, name=f"SparseConcat({label})")
for label, *inputs in BAD:
    add("SparseConcat", [[ROWS, inputs[0]], [some(np.float32, 5), inputs[1]], [DIMS, inputs[2]]],
        {"concat_dim": 0}, name=f"SparseConcat({label})")

# ---- SparseSplit ----
for dtype in ALL:
    add("SparseSplit", [np.array(1, L), ROWS, some(dtype, 5), DIMS], {"num_split": 2})
for axis, parts in [(0, 1), (0, 2), (0, 3), (0, 4), (1, 1), (1, 3), (1, 4), (1, 5)]:
    add("SparseSplit", [np.array(axis, L), MIXED, some(np.float32, 5), DIMS], {"num_split": parts})
add("SparseSplit", [np.array(2, L), scattered((5, 6, 17), 80), some(np.float32, 80),
                    shape(5, 6, 17)], {"num_split": 7})
for label, axis, parts in [("axis", 2, 1), ("parts", 0, 5)]:
    add("SparseSplit", [np.array(axis, L), ROWS, some(np.float32, 5), DIMS], {"num_split": parts},
        name=f"SparseSplit({label})")
add("SparseSplit", [np.array([0], L), ROWS, some(np.float32, 5), DIMS], {"num_split": 1},
    name="SparseSplit(vector axis)")
for label, *inputs in BAD:
    add("SparseSplit", [np.array(0, L)] + inputs, {"num_split": 2}, name=f"SparseSplit({label})")

# ---- SparseSlice ----
for dtype in ALL:
    add("SparseSlice", [ROWS, some(dtype, 5), DIMS, shape(0, 1), shape(3, 3)])
for start, size in [((0, 0), (4, 5)), ((1, 1), (2, 2)), ((0, 0), (9, 9)), ((4, 0), (1, 5)),
                    ((2, 2), (0, 0)), ((0, 3), (4, 1))]:
    add("SparseSlice", [ROWS, some(np.float32, 5), DIMS, shape(*start), shape(*size)],
        name=f"SparseSlice({start},{size})")
add("SparseSlice", [ix([]), some(np.float32, 0), DIMS, shape(0, 0), shape(2, 2)])
for label, start, size in [("start length", (0,), (2, 2)), ("size length", (0, 0), (2,)),
                           ("beyond", (5, 0), (1, 1)), ("negative size", (0, 0), (-1, 2)),
                           ("negative start", (-1, 0), (2, 2))]:
    add("SparseSlice", [ROWS, some(np.float32, 5), DIMS, shape(*start), shape(*size)],
        name=f"SparseSlice({label})")
for label, *inputs in BAD:
    add("SparseSlice", inputs + [shape(0, 0), shape(2, 2)], name=f"SparseSlice({label})")
for dtype in F + C + I:
    add("SparseSliceGrad", [some(dtype, 3), ROWS, shape(0, 1), ix([[0, 0], [0, 2], [2, 1]])])
add("SparseSliceGrad", [some(np.float32, 0), ROWS, shape(0, 1), ix([])])
for label, inputs in {
        "not found": [some(np.float32, 2), ROWS, shape(0, 0), ix([[0, 1], [1, 1]])],
        "counts": [some(np.float32, 1), ROWS, shape(0, 0), ix([[0, 1], [0, 3]])],
        "more": [some(np.float32, 6), ROWS, shape(0, 0), scattered((4, 5), 6)],
        "start": [some(np.float32, 1), ROWS, shape(0), ix([[0, 1]])],
        "rank": [some(np.float32, 1), ROWS, shape(0, 0), ix([[0, 1, 0]], 3)],
        "vector": [some(np.float32, 1), ROWS, shape(0, 0), np.array([0, 1], L)]}.items():
    add("SparseSliceGrad", inputs, name=f"SparseSliceGrad({label})")

# ---- SparseFillEmptyRows ----
for dtype in ALL:
    default = np.array(b"none", object) if dtype is np.bytes_ else np.array(1, dtype)
    add("SparseFillEmptyRows", [ROWS, some(dtype, 5), DIMS, default])
    add("SparseFillEmptyRows", [MIXED, some(dtype, 5), shape(6, 5), default])
one = np.array(1, np.float32)
add("SparseFillEmptyRows", [ix([[0, 0], [1, 2]]), some(np.float32, 2), shape(2, 3), one],
    name="SparseFillEmptyRows(full)")
add("SparseFillEmptyRows", [ix([[1, 0], [0, 2]]), some(np.float32, 2), shape(2, 3), one],
    name="SparseFillEmptyRows(full, not in order)")
add("SparseFillEmptyRows", [ix([]), some(np.float32, 0), shape(3, 3), one],
    name="SparseFillEmptyRows(no entries)")
add("SparseFillEmptyRows", [ix([]), some(np.float32, 0), shape(0, 3), one],
    name="SparseFillEmptyRows(no rows)")
add("SparseFillEmptyRows", [ix([[2]], 1), some(np.float32, 1), shape(4), one])
add("SparseFillEmptyRows", [ROWS, some(np.float32, 5), shape(4, 1 << 62), one],
    name="SparseFillEmptyRows(wide)")
add("SparseFillEmptyRows", [scattered((5, 3, 4), 9), some(np.float32, 9), shape(5, 3, 4), one])
for label, inputs in {"row": [ROWS, some(np.float32, 5), shape(3, 5), one],
                      "negative row": [ix([[-1, 0]]), some(np.float32, 1), shape(3, 5), one],
                      "entries without rows": [ROWS, some(np.float32, 5), shape(0, 5), one],
                      "default": [ROWS, some(np.float32, 5), DIMS, np.ones(1, np.float32)],
                      "no shape": [np.zeros((0, 0), L), some(np.float32, 0), shape(), one]}.items():
    add("SparseFillEmptyRows", inputs, name=f"SparseFillEmptyRows({label})")
for label, *inputs in BAD:
    if label != "rank":  # TensorFlow does not look
        add("SparseFillEmptyRows", inputs + [one], name=f"SparseFillEmptyRows({label})")
for dtype in F + C + I:
    add("SparseFillEmptyRowsGrad", [np.array([0, 2, 3], L), some(dtype, 6)])
add("SparseFillEmptyRowsGrad", [np.array([1, 0], L), some(np.float32, 2)])
add("SparseFillEmptyRowsGrad", [np.zeros(0, L), some(np.float32, 3)])
add("SparseFillEmptyRowsGrad", [np.zeros(0, L), some(np.float32, 0)])
for label, inputs in {"range": [np.array([0, 6], L), some(np.float32, 6)],
                      "negative": [np.array([-1], L), some(np.float32, 6)],
                      "matrix": [np.array([[0]], L), some(np.float32, 6)],
                      "matrix of gradients": [np.array([0], L), np.ones((2, 2), np.float32)]}.items():
    add("SparseFillEmptyRowsGrad", inputs, name=f"SparseFillEmptyRowsGrad({label})")

# ---- SparseAdd, SparseSparseMaximum, SparseSparseMinimum ----
B_ROWS = ix([[0, 0], [0, 3], [1, 1], [2, 2], [3, 4]])


def real(dtype):
    return {"complex64": np.float32, "complex128": np.float64}.get(np.dtype(dtype).name, dtype)


for dtype in REAL + C + SIGNED:
    for threshold in (0, 1, 3):
        add("SparseAdd", [ROWS, some(dtype, 5), DIMS, B_ROWS, some(dtype, 5), DIMS,
                          np.array(threshold, real(dtype))], name=f"SparseAdd({dtype},{threshold})")
    add("SparseAddGrad", [some(dtype, 4), ROWS, B_ROWS, ix([[0, 0], [0, 1], [2, 2], [3, 4]])])
x, zero = some(np.float32, 5), np.array(0, np.float32)
add("SparseAdd", [ROWS, x, DIMS, ROWS, -x, DIMS, np.array(1e-3, np.float32)], name="SparseAdd(gone)")
add("SparseAdd", [ROWS, x, DIMS, ROWS, -x, DIMS, zero], name="SparseAdd(zeros stay)")
add("SparseAdd", [ROWS, x, DIMS, ix([]), x[:0], DIMS, zero], name="SparseAdd(empty)")
add("SparseAdd", [ix([]), x[:0], DIMS, ix([]), x[:0], DIMS, zero], name="SparseAdd(both empty)")
add("SparseAdd", [ROWS, x, shape(1 << 62, 1 << 62), B_ROWS, x, shape(1 << 62, 1 << 62), zero],
    name="SparseAdd(huge shape)")
add("SparseAdd", [ix([[0, 0]]), np.array([-128], np.int8), DIMS, ix([[0, 0]]),
                  np.array([0], np.int8), DIMS, np.array(127, np.int8)], name="SparseAdd(lowest)")
for label, inputs in {"shapes": [ROWS, x, DIMS, ROWS, x, shape(4, 6), zero],
                      "ranks": [ROWS, x, DIMS, ix([[0, 0, 0]], 3), x[:1], shape(4, 5, 1), zero],
                      "threshold": [ROWS, x, DIMS, ROWS, x, DIMS, np.zeros(1, np.float32)]}.items():
    add("SparseAdd", inputs, name=f"SparseAdd({label})")
for label, *inputs in BAD:
    add("SparseAdd", inputs + [ROWS, x, DIMS, zero], name=f"SparseAdd({label})")
for label, inputs in {"counts": [x, ROWS, ROWS, ROWS[:4]], "ranks": [x, ROWS, ix([[1, 1, 1]], 3), ROWS],
                      "matrix": [np.ones((5, 1), np.float32), ROWS, ROWS, ROWS],
                      "vector": [x, ROWS[0], ROWS, ROWS]}.items():
    add("SparseAddGrad", inputs, name=f"SparseAddGrad({label})")
for op in ("SparseSparseMaximum", "SparseSparseMinimum"):
    for dtype in F + I:
        add(op, [ROWS, some(dtype, 5), DIMS, B_ROWS, some(dtype, 5), DIMS])
    add(op, [ROWS, x, DIMS, ix([]), x[:0], DIMS], name=f"{op}(empty)")
    add(op, [ROWS, x, DIMS, ROWS, x, shape(4, 6)], name=f"{op}(shapes)")
    for label, *inputs in BAD:
        add(op, inputs + [ROWS, x, DIMS], name=f"{op}({label})")

# ---- With dense operands ----
for dtype in F + C + I:
    for index in (np.int32, np.int64):
        add("SparseTensorDenseAdd", [ROWS.astype(index), some(dtype, 5), DIMS.astype(index),
                                     values(dtype, (4, 5))])
add("SparseTensorDenseAdd", [ix([[1], [1], [0]], 1), some(np.float32, 3), shape(3),
                             values(np.float32, (3,))], name="SparseTensorDenseAdd(repeated)")
add("SparseTensorDenseAdd", [scattered((2, 3, 4, 2, 3), 20), some(np.float32, 20),
                             shape(2, 3, 4, 2, 3), values(np.float32, (2, 3, 4, 2, 3))])
for label, inputs in {"index": [ix([[4, 0]]), x[:1], DIMS, values(np.float32, (4, 5))],
                      "negative": [ix([[0, -1]]), x[:1], DIMS, values(np.float32, (4, 5))],
                      "shape": [ROWS, x, DIMS, values(np.float32, (5, 4))],
                      "ranks": [ROWS, x, DIMS, values(np.float32, (4, 5, 1))]}.items():
    add("SparseTensorDenseAdd", inputs, name=f"SparseTensorDenseAdd({label})")
for label, *inputs in BAD:
    add("SparseTensorDenseAdd", inputs + [values(np.float32, (4, 5))],
        name=f"SparseTensorDenseAdd({label})")
for op in ("SparseDenseCwiseAdd", "SparseDenseCwiseMul", "SparseDenseCwiseDiv"):
    for dtype in F + I:
        for dims in [(4, 5), (5,), (1,), (), (4, 1), (1, 5)]:
            add(op, [ROWS, some(dtype, 5), DIMS, values(dtype, dims, 1, 4)])
    add(op, [scattered((3, 4, 5), 9), some(np.float32, 9), shape(3, 4, 5),
             values(np.float32, (4, 1), 1, 4)])
    add(op, [ROWS, x, DIMS, np.zeros((4, 5), np.float32)], name=f"{op}(zeros)")
    add(op, [ROWS, np.ones(5, np.int32), DIMS, np.zeros((4, 5), np.int32)], name=f"{op}(int zeros)")
    for label, inputs in {"wider": [ROWS, x, DIMS, values(np.float32, (1, 4, 5))],
                          "sizes": [ROWS, x, DIMS, values(np.float32, (4, 4))],
                          "larger": [ROWS, x, shape(1, 5), values(np.float32, (4, 5))],
                          "index": [ix([[4, 0]]), x[:1], DIMS, values(np.float32, (4, 5))],
                          "negative": [ix([[0, -1]]), x[:1], DIMS, values(np.float32, (4, 5))]}.items():
        add(op, inputs, name=f"{op}({label})")
    for label, *inputs in BAD:
        add(op, inputs + [values(np.float32, (4, 5))], name=f"{op}({label})")

# ---- Reductions ----
CUBE = scattered((3, 4, 5), 25, False)
for name, dtypes in {"Sum": F + C + I, "Max": F + I}.items():
    for op in (f"SparseReduce{name}", f"SparseReduce{name}Sparse"):
        for dtype in dtypes:
            add(op, [CUBE, some(dtype, 25), shape(3, 4, 5), np.array([1], np.int32)])
        for axes in ([], 0, -1, [0, 2], [2, 0], [0, 1, 2], [-1, 2], [1, -2]):
            for keep in (False, True):
                add(op, [CUBE, some(np.float32, 25), shape(3, 4, 5), np.array(axes, np.int32)],
                    {"keep_dims": keep}, name=f"{op}({axes},{keep})")
        add(op, [ix([]), x[:0], DIMS, np.array([0], np.int32)], name=f"{op}(empty)")
        for label, axes in [("axis", [2]), ("negative axis", [-3]), ("matrix of axes", [[0]])]:
            add(op, [ROWS, x, DIMS, np.array(axes, np.int32)], name=f"{op}({label})")
        for label, *inputs in BAD:
            add(op, inputs + [np.array([0], np.int32)], name=f"{op}({label})")
for dtype in (np.float16, np.float32, np.float64):
    add("SparseSoftmax", [ROWS, some(dtype, 5), DIMS])
    add("SparseSoftmax", [scattered((3, 4, 5), 25), some(dtype, 25), shape(3, 4, 5)])
add("SparseSoftmax", [MIXED, x, DIMS], name="SparseSoftmax(not in order)")
add("SparseSoftmax", [ix([]), x[:0], DIMS], name="SparseSoftmax(empty)")
add("SparseSoftmax", [ix([[1]], 1), x[:1], shape(3)], name="SparseSoftmax(vector)")
for label, *inputs in BAD:
    add("SparseSoftmax", inputs, name=f"SparseSoftmax({label})")
