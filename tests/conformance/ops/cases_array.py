"""Array ops: shapes, joins, slices, gathers, scatters, pads and most else that moves elements."""
import functools
import itertools

import numpy as np
from runner import Case, bfloat16

CASES = []
rng = np.random.default_rng(11)
FLOATS = [np.float32, np.float64, np.float16, bfloat16]
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
COMPLEX = [np.complex64, np.complex128]
NUMBERS = FLOATS + INTEGERS + COMPLEX
EVERYTHING = NUMBERS + [np.bool_, np.str_]


def add(op, *inputs, since=None, outputs=None, unordered=False, tolerance=None, **attrs):
    CASES.append(Case(op, inputs, attrs, since=since, outputs=outputs, unordered=unordered,
                      tolerance=tolerance, name=f"{len(CASES)}:{Case(op, inputs, attrs).name}"))


def values(shape, dtype, low=-20, high=20):
    """Numbers that every dtype can hold, or strings of various lengths."""
    shape = tuple(np.atleast_1d(shape)) if not isinstance(shape, tuple) else shape
    if dtype is np.str_:
        flat = [("s%d" % i * int(rng.integers(1, 12))).encode() for i in range(int(np.prod(shape)))]
        return np.array(flat, dtype=object).reshape(shape)
    if dtype is np.bool_:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if np.dtype(dtype).kind == "u":
        low = 0
    numbers = rng.integers(low, high, shape)
    if np.dtype(dtype).kind == "c":
        return (numbers + 1j * rng.integers(low, high, shape)).astype(dtype)
    return numbers.astype(dtype)


def f32(*shape):
    return values(tuple(shape), np.float32)


def i32(*numbers):
    return np.array(numbers, np.int32)


def scalar(number, dtype=np.int32):
    return np.array(number, dtype)


# ---- Shapes ----
for shape in [(), (3,), (2, 0, 4), (2, 3, 4)]:
    add("Shape", f32(*shape))
    add("Shape", f32(*shape), out_type=np.int64)
    add("Size", f32(*shape))
    add("Size", f32(*shape), out_type=np.int64)
    add("Rank", f32(*shape))
    add("ShapeN", [f32(*shape), f32(2)])
for dtype in EVERYTHING:
    add("Reshape", values((2, 6), dtype), i32(3, -1))
for shape, wanted in [((), []), ((), [1, 1]), ((4,), [2, 2]), ((4,), [-1]), ((0,), [0, 5]),
                      ((0,), [-1, 5]), ((0,), [-1, 0]), ((4,), [-1, -1]), ((4,), [3]),
                      ((4,), [-1, 3]), ((4,), [-2, 2]), ((4,), [2, 0]), ((2, 3), [3, 2]),
                      ((6,), [1 << 40, 1 << 40])]:
    add("Reshape", f32(*shape), np.array(wanted, np.int64))
add("Reshape", f32(4), np.array([[2, 2]], np.int32))
add("Reshape", f32(4), scalar(4))
for axis in [0, 1, 2, -1, -3, 3, -4]:
    add("ExpandDims", f32(2, 3), scalar(axis))
    add("ExpandDims", f32(2, 3), np.array([axis], np.int64))
add("ExpandDims", f32(2), i32(0, 1))
add("ExpandDims", f32(), scalar(0))
for axes in [[], [0], [2], [-1], [0, 2], [1], [5], [-5]]:
    add("Squeeze", f32(1, 3, 1), squeeze_dims=axes)
add("Squeeze", f32(), squeeze_dims=[])
for shape in [None, [None, 3], [2, 3], [2], [2, 4]]:
    add("EnsureShape", f32(2, 3), shape=shape)

# ---- Fill, OneHot ----
for dtype in EVERYTHING:
    add("Fill", i32(2, 3), values((), dtype))
for shape in [[], [0], [3, 0], [1000]]:
    add("Fill", np.array(shape, np.int64), np.float32(2))
add("Fill", i32(-1), np.float32(2))
add("Fill", np.array([[1]], np.int32), np.float32(2))
add("Fill", i32(2), f32(2))
for dtype in EVERYTHING:
    add("OneHot", i32(0, 2, -1, 5), scalar(3), values((), dtype), values((), dtype), axis=-1)
for index in [np.uint8, np.int8, np.int32, np.int64]:
    for axis in [-1, 0, 1, 2]:
        add("OneHot", values((2, 3), index, 0, 4), scalar(4), np.float32(1), np.float32(0), axis=axis)
add("OneHot", i32(1), scalar(0), np.float32(1), np.float32(0), axis=-1)
add("OneHot", scalar(1), scalar(3), np.float32(1), np.float32(0), axis=-1)
add("OneHot", i32(1), scalar(-1), np.float32(1), np.float32(0), axis=-1)
add("OneHot", i32(1), i32(1), np.float32(1), np.float32(0), axis=-1)
add("OneHot", i32(1), scalar(1), np.float32(1), np.float32(0), axis=3)
add("Empty", i32(2, 3), dtype=np.float32, init=True)
add("DeepCopy", f32(3))

# ---- Concat, Pack, Split, Unpack ----
for dtype in EVERYTHING:
    add("ConcatV2", [values((2, 3), dtype), values((2, 1), dtype), values((2, 0), dtype)], scalar(1))
    add("Concat", scalar(0), [values((2, 3), dtype), values((1, 3), dtype)])
    add("Pack", [values((2, 3), dtype), values((2, 3), dtype)], axis=1)
    add("Split", scalar(1), values((2, 6), dtype), num_split=3)
    add("SplitV", values((2, 6), dtype), i32(1, 2, 3), scalar(1), num_split=3)
    add("Unpack", values((2, 3), dtype), num=3, axis=1)
for axis in [0, 1, 2, -1, -3, 3, -4]:
    add("ConcatV2", [f32(2, 3, 4), f32(2, 3, 4)], scalar(axis))
    add("ConcatV2", [f32(2, 3, 4), f32(2, 3, 4)], np.array(axis, np.int64))
    add("Pack", [f32(2, 3), f32(2, 3), f32(2, 3)], axis=axis)
    add("Pack", [f32(2, 3)], axis=axis)
    add("Unpack", f32(3, 3, 3), num=3, axis=axis)
    add("Split", scalar(axis), f32(4, 4, 4), num_split=2)
add("ConcatV2", [f32(2, 3), f32(2, 4)], scalar(0))
add("ConcatV2", [f32(2, 3), f32(2)], scalar(0))
add("ConcatV2", [f32(2), f32(2)], i32(0))
add("ConcatV2", [f32(2), f32(2)], i32(0, 0))
add("ConcatV2", [f32(), f32()], scalar(0))
add("ConcatV2", [f32(0), f32(0)], scalar(0))
add("ConcatV2", [f32(300, 200), f32(300, 100)], scalar(1))
add("ConcatV2", [f32(1000, 300), f32(500, 300)], scalar(0))
add("ConcatV2", [f32(64, 1), f32(64, 2), f32(64, 3)], scalar(1))
add("Pack", [f32(2), f32(3)], axis=0)
add("Pack", [f32(), f32()], axis=0)
add("Pack", [f32(), f32()], axis=-1)
add("Pack", [f32(100, 100)] * 3, axis=2)
add("Unpack", f32(4), num=4, axis=0)
add("Unpack", f32(3, 2), num=2, axis=0)
add("Unpack", f32(3, 64), num=3, axis=0)
add("Unpack", f32(0, 2), num=2, axis=1)
add("Split", scalar(0), f32(5), num_split=2)
add("Split", scalar(0), f32(), num_split=1)
add("Split", i32(0), f32(4), num_split=2)
add("Split", scalar(0), f32(64), num_split=4)
add("Split", scalar(0), f32(6), num_split=1)
for sizes in [[1, 5], [-1, 2], [2, -1], [-1, -1], [3, 4], [-2, 8], [0, 6], [7, -1]]:
    add("SplitV", f32(6, 2), np.array(sizes, np.int64), scalar(0), num_split=2)
add("SplitV", f32(6), i32(6), scalar(0), num_split=1)
add("SplitV", f32(6), i32(5), scalar(0), num_split=1)
add("SplitV", f32(6), i32(1, 2, 3), scalar(0), num_split=2)
add("SplitV", f32(6), i32(3, 3), scalar(2), num_split=2)
add("SplitV", f32(48, 2), i32(16, 32), scalar(0), num_split=2)
add("ConcatOffset", scalar(1), [i32(2, 3, 4), i32(2, 5, 4), i32(2, 1, 4)])
add("ConcatOffset", scalar(-1), [i32(2, 3), i32(2, 5)])
add("ConcatOffset", scalar(0), [i32(2, 3), i32(2, 5)])
add("ConcatOffset", scalar(3), [i32(2, 3), i32(2, 3)])
add("ConcatOffset", scalar(0), [i32(2, 3), i32(2)])


def parallel_concat():
    import tensorflow as tf
    rows = [tf.compat.v1.placeholder(tf.float32, (1, 3)) for _ in range(2)]
    return {row: f32(1, 3) for row in rows}, [tf.raw_ops.ParallelConcat(values=rows, shape=[2, 3])]


CASES.append(Case("ParallelConcat", build=parallel_concat, name="ParallelConcat"))

# ---- Slices ----
for dtype in EVERYTHING:
    add("Slice", values((4, 5), dtype), i32(1, 2), i32(2, 3))
    add("StridedSlice", values((4, 5), dtype), i32(3, 0), i32(0, 5), i32(-1, 2))
for begin, size in [([0, 0], [4, 6]), ([1, 0], [2, -1]), ([0, 1], [-1, -1]), ([4, 0], [0, 6]),
                    ([0, 0], [0, 0]), ([-1, 0], [1, 1]), ([0, 0], [5, 1]), ([2, 2], [-2, 1]),
                    ([5, 0], [-1, 1]), ([0], [1]), ([0, 0, 0], [1, 1, 1])]:
    add("Slice", f32(4, 6), np.array(begin, np.int64), np.array(size, np.int64))
add("Slice", f32(0, 3), i32(0, 1), i32(-1, 2))
add("Slice", f32(0, 3), i32(1, 1), i32(0, 2))
add("Slice", f32(8, 16), i32(2, 0), i32(3, 16))
add("Slice", f32(), np.zeros(0, np.int32), np.zeros(0, np.int32))
add("Slice", f32(3, 4, 5, 6), i32(1, 1, 1, 1), i32(2, 2, 2, 2))
MASKS = ["begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"]


def masks(*numbers):
    return dict(zip(MASKS, numbers))


SPECS = [
    ([0, 0], [4, 6], [1, 1], masks()),
    ([1, 2], [3, 5], [1, 1], masks()),
    ([1, 2], [3, 5], [1, 2], masks()),
    ([-1, -1], [-5, -7], [-1, -1], masks()),
    ([-1, 5], [-3, 0], [-1, -2], masks()),
    ([0, 0], [0, 0], [1, 1], masks(3, 3)),
    ([0, 0], [0, 0], [-1, -1], masks(3, 3)),
    ([1], [3], [1], masks()),
    ([1], [2], [1], masks(0, 0, 0, 0, 1)),
    ([-1], [0], [1], masks(0, 0, 0, 0, 1)),
    ([4], [5], [1], masks(0, 0, 0, 0, 1)),
    ([1], [2], [-1], masks(0, 0, 0, 0, 1)),
    ([1], [2], [2], masks(0, 0, 0, 0, 1)),
    ([0, 1], [0, 2], [1, 1], masks(0, 0, 1, 0, 2)),
    ([0, 0], [0, 0], [1, 1], masks(0, 0, 1, 2, 0)),
    ([0, 0, 1], [0, 0, 3], [1, 1, 1], masks(0, 0, 2, 1, 0)),
    ([0, 1, 0], [0, 3, 0], [1, 1, 1], masks(0, 0, 0, 5, 0)),
    ([0, 0], [0, 0], [1, 1], masks(0, 0, 3)),
    ([0, 0, 0], [1, 1, 1], [1, 1, 1], masks()),
    ([1, 1], [3, 3], [0, 1], masks()),
    ([100, -100], [-100, 100], [-2, 3], masks()),
    ([3, 3], [1, 1], [1, 1], masks()),
    ([0, 0], [100, 1], [2, 1], masks(0, 0, 0, 0, 2)),
    ([1, 1], [2, 2], [1, 1], masks(0, 0, 0, 0, 3)),
    ([0, 1], [4, 2], [1, 1], masks(0, 0, 0, 1, 1)),
]
for begin, end, strides, attrs in SPECS:
    spec = [np.array(s, np.int32) for s in (begin, end, strides)]
    add("StridedSlice", f32(4, 6), *spec, **attrs)
add("StridedSlice", f32(4), i32(0, 1), i32(1), i32(1))
add("StridedSlice", f32(), np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int32))
add("StridedSlice", f32(), i32(0), i32(1), i32(1), new_axis_mask=1)
add("StridedSlice", f32(64, 16), i32(4), i32(12), i32(1))
add("StridedSlice", f32(200, 300, 3), i32(1, 2, 0), i32(199, 290, 3), i32(3, 7, 2))
add("StridedSlice", f32(2, 3, 4, 5, 6), i32(0, 1, 0, 0, 1), i32(2, 3, 4, 5, 6), i32(1, 1, 2, 3, 2))
for dtype in NUMBERS + [np.bool_]:
    add("StridedSliceGrad", i32(4, 5), i32(3, 0), i32(0, 5), i32(-1, 2), values((3, 3), dtype))
add("StridedSliceGrad", i32(4, 6), i32(1), i32(2), i32(1), f32(6), shrink_axis_mask=1)
add("StridedSliceGrad", i32(4, 6), i32(0), i32(4), i32(1), f32(4, 6))
add("StridedSliceGrad", i32(4, 6), i32(0), i32(4), i32(1), f32(4, 5))
add("StridedSliceGrad", i32(4, 6), i32(2), i32(2), i32(1), f32(0, 6))
add("StridedSliceGrad", np.zeros((1, 2), np.int32), i32(2), i32(2), i32(1), f32(0, 6))
for dtype in EVERYTHING:
    add("TensorStridedSliceUpdate", values((4, 5), dtype), i32(3, 0), i32(0, 5), i32(-1, 2),
        values((3, 3), dtype))
add("TensorStridedSliceUpdate", f32(4, 5), i32(1), i32(2), i32(1), f32(5), shrink_axis_mask=1)
add("TensorStridedSliceUpdate", f32(4, 5), i32(1, 1), i32(3, 4), i32(1, 1), f32(3))
add("TensorStridedSliceUpdate", f32(4, 5), i32(1, 1), i32(3, 4), i32(1, 1), f32())
add("TensorStridedSliceUpdate", f32(4, 5), i32(1, 1), i32(3, 4), i32(1, 1), f32(2, 1))
add("TensorStridedSliceUpdate", f32(4, 5), i32(1, 1), i32(3, 4), i32(1, 1), f32(2, 2))
add("TensorStridedSliceUpdate", f32(4, 5), i32(1, 1), i32(3, 4), i32(1, 1), f32(1, 2, 3))
add("TensorStridedSliceUpdate", f32(4, 5), i32(1, 1), i32(1, 4), i32(1, 1), f32(7))

# ---- Gathers ----
for dtype in EVERYTHING:
    for index in [np.int32, np.int64]:
        add("GatherV2", values((5, 3), dtype), values((2, 2), index, 0, 5), scalar(0))
        add("GatherNd", values((5, 3), dtype), values((4, 2), index, 0, 3))
    add("Gather", values((5,), dtype), i32(4, 0, 4))
for axis in [0, 1, 2, -1, 3, -4]:
    add("GatherV2", f32(4, 5, 6), i32(3, 0, 1), scalar(axis))
    add("GatherV2", f32(4, 5, 6), scalar(2), np.array(axis, np.int64))
for axis, batch in [(1, 1), (2, 1), (2, 2), (1, -1), (0, 1), (2, 3), (1, 2), (2, -2)]:
    add("GatherV2", f32(2, 3, 6), values((2, 3), np.int32, 0, 3), scalar(axis), batch_dims=batch)
add("GatherV2", f32(3, 3, 6), values((2, 3), np.int32, 0, 3), scalar(1), batch_dims=1)
add("GatherV2", f32(5), i32(5), scalar(0))
add("GatherV2", f32(5), i32(-1), scalar(0))
add("GatherV2", f32(5, 2), np.array([[0, 1], [2, 9]], np.int32), scalar(0))
add("GatherV2", f32(5), np.zeros((0,), np.int32), scalar(0))
add("GatherV2", f32(0, 3), np.zeros((0,), np.int32), scalar(0))
add("GatherV2", f32(0, 3), i32(0), scalar(0))
add("GatherV2", f32(3, 0), i32(0), scalar(0))
add("GatherV2", f32(3, 0), i32(7), scalar(0))
add("GatherV2", f32(), i32(0), scalar(0))
add("GatherV2", f32(5), i32(0), i32(0))
add("GatherV2", f32(1000, 128), values((3000,), np.int64, 0, 1000), scalar(0))
add("GatherV2", f32(3, 100000), values((5000,), np.int32, 0, 100000), scalar(1))
add("GatherNd", f32(4, 5, 6), values((3, 1), np.int32, 0, 4))
add("GatherNd", f32(4, 5, 6), values((3, 3), np.int32, 0, 4))
add("GatherNd", f32(4, 5, 6), values((2, 3, 2), np.int32, 0, 4))
add("GatherNd", f32(4, 5), np.zeros((3, 0), np.int32))
add("GatherNd", f32(4, 5), np.zeros((0, 2), np.int32))
add("GatherNd", f32(4, 5), i32(1, 2))
add("GatherNd", f32(4, 5), np.array([[1, 2], [3, 5]], np.int32))
add("GatherNd", f32(4, 5), np.array([[-1, 2]], np.int32))
add("GatherNd", f32(4, 5), np.zeros((2, 3), np.int32))
add("GatherNd", f32(4, 5), scalar(0))
add("GatherNd", f32(), np.zeros((1, 0), np.int32))
add("GatherNd", f32(0, 5), np.zeros((1, 1), np.int32))

# ---- Scatters ----
for dtype in EVERYTHING:
    for index in [np.int32, np.int64]:
        indices = np.array([[1], [3], [1]], index)
        add("ScatterNd", indices, values((3, 2), dtype, 0, 9), np.array([5, 2], index))
        add("TensorScatterUpdate", values((5, 2), dtype), indices, values((3, 2), dtype))
    if dtype is not np.str_:
        add("ScatterNdNonAliasingAdd", values((5,), dtype, 10, 20), indices,
            values((3,), dtype, 0, 9))
    add("InplaceUpdate", values((4, 3), dtype), i32(1, -1), values((2, 3), dtype))
for op, dtype in itertools.product(["TensorScatterAdd", "TensorScatterSub"], NUMBERS):
    add(op, values((5, 2), dtype, 20, 30), indices, values((3, 2), dtype, 0, 9))
for op, dtype in itertools.product(["TensorScatterMin", "TensorScatterMax"], FLOATS + INTEGERS):
    add(op, values((5, 2), dtype, 0, 30), indices, values((3, 2), dtype, 0, 30))


def inplace(op, dtype):
    """TensorFlow writes into the fed memory: give it some of its own."""
    import tensorflow as tf
    x = tf.compat.v1.placeholder(dtype, None)
    y = getattr(tf.raw_ops, op)(x=tf.abs(x), i=i32(1, 1, 6), v=values((3, 3), dtype))
    return {x: values((4, 3), dtype, 0)}, [y]


for op, dtype in itertools.product(["InplaceAdd", "InplaceSub"], [np.float32, np.int32, np.int64]):
    CASES.append(Case(op, build=functools.partial(inplace, op, dtype), name=f"{op}({dtype})"))
add("InplaceUpdate", f32(4, 3), i32(1), f32(2, 3))
add("InplaceUpdate", f32(4, 3), i32(1), f32(1, 2))
add("InplaceUpdate", f32(4, 3), scalar(1), f32(1, 3))
for op in ["TensorScatterUpdate", "TensorScatterAdd"]:
    add(op, f32(4, 5), np.array([[0, 1], [3, 4]], np.int32), f32(2))
    add(op, f32(4, 5), np.array([[0, 1], [3, 5]], np.int32), f32(2))
    add(op, f32(4, 5), np.array([[[0], [1]], [[2], [3]]], np.int32), f32(2, 2, 5))
    add(op, f32(4, 5), np.array([[0], [1]], np.int32), f32(2, 4))
    add(op, f32(4, 5), np.array([[0], [1]], np.int32), f32(3, 5))
    add(op, f32(4, 5), np.array([[0], [1]], np.int32), f32(2))
    add(op, f32(4, 5), np.zeros((0, 1), np.int32), f32(0, 5))
    add(op, f32(0, 5), np.zeros((1, 1), np.int32), f32(1, 5))
    add(op, f32(4, 5), scalar(0), f32(5))
add("ScatterNd", np.array([[0, 1], [2, 2]], np.int32), f32(2), i32(3, 3))
add("ScatterNd", np.array([[0, 1], [3, 2]], np.int32), f32(2), i32(3, 3))
add("ScatterNd", np.array([[0], [-1]], np.int32), f32(2), i32(3))
add("ScatterNd", np.array([[0], [1]], np.int32), f32(2, 4), i32(3, 4))
add("ScatterNd", np.array([[0], [1]], np.int32), f32(2, 4), i32(3, 5))
add("ScatterNd", np.array([[0], [1]], np.int32), f32(3, 4), i32(3, 4))
add("ScatterNd", np.zeros((0, 1), np.int32), f32(0), i32(3))
add("ScatterNd", np.zeros((1, 1), np.int32), f32(1), i32(0))
add("ScatterNd", np.zeros((1, 1), np.int32), f32(1), scalar(2))
add("ScatterNd", np.zeros((1, 1), np.int32), f32(1), i32(-2))
add("ScatterNd", scalar(0), f32(1), i32(2))
for dtype in EVERYTHING:
    add("SparseToDense", i32(1, 3), i32(5), values((2,), dtype), values((), dtype))
add("SparseToDense", np.array([[0, 1], [2, 2]], np.int64), np.array([3, 3], np.int64), f32(2), f32())
add("SparseToDense", np.array([[0, 1], [2, 2]], np.int64), np.array([3, 3], np.int64), f32(), f32())
add("SparseToDense", scalar(2), i32(4), f32(), f32())
add("SparseToDense", i32(3, 1), i32(5), f32(2), f32())
add("SparseToDense", i32(3, 1), i32(5), f32(2), f32(), validate_indices=False)
add("SparseToDense", i32(1, 1), i32(5), f32(2), f32())
add("SparseToDense", i32(1, 5), i32(5), f32(2), f32())
add("SparseToDense", i32(1, 5), i32(5), f32(2), f32(), validate_indices=False)
add("SparseToDense", i32(1, 2), i32(5), f32(3), f32())
add("SparseToDense", i32(1, 2), i32(5, 5), f32(2), f32())
add("SparseToDense", i32(1, 2), i32(5), f32(2), f32(1))

# ---- Orders ----
for dtype in EVERYTHING:
    add("Transpose", values((4, 5), dtype), i32(1, 0))
    add("Transpose", values((2, 3, 4), dtype), i32(2, 0, 1))
    add("ConjugateTranspose", values((4, 5), dtype), i32(1, 0))
    add("ReverseV2", values((3, 4), dtype), i32(-1))
    add("Reverse", values((3, 4), dtype), np.array([True, False]))
    add("ReverseSequence", values((3, 4), dtype), i32(2, 0, 4), seq_dim=1, batch_dim=0)
    add("Roll", values((3, 4), dtype), i32(1, -1), i32(0, 1))
    if dtype is not np.uint16:  # TensorFlow's has none
        add("Tile", values((2, 3), dtype), i32(2, 3))
for order in itertools.permutations(range(4)):
    add("Transpose", f32(9, 5, 1, 17), np.array(order, np.int64))
for shape in [(100, 101), (257, 33), (5, 1000), (1000, 7), (3, 50, 60)]:
    for dtype in [np.uint8, np.int16, np.float32, np.float64, np.complex128]:
        order = list(range(len(shape)))
        add("Transpose", values(shape, dtype), i32(*(order[:-2] + [order[-1], order[-2]])))
add("Transpose", f32(4, 8, 8, 3), i32(0, 3, 1, 2))
add("Transpose", f32(4, 3, 8, 8), i32(0, 2, 3, 1))
add("Transpose", f32(40, 50, 2), i32(1, 0, 2))
add("Transpose", f32(2, 3, 2, 3, 2, 3, 2), i32(6, 0, 5, 1, 4, 2, 3))
add("Transpose", f32(0, 3), i32(1, 0))
add("Transpose", f32(), np.zeros(0, np.int32))
add("Transpose", f32(2, 3), i32(-1, 0), since=(2, 13))
add("Transpose", f32(2, 3), i32(0, 0))
add("Transpose", f32(2, 3), i32(0, 2))
add("Transpose", f32(2, 3), i32(0))
add("Transpose", f32(2, 3), np.zeros((1, 2), np.int32))
add("InvertPermutation", i32(2, 0, 1))
add("InvertPermutation", np.array([1, 0], np.int64))
add("InvertPermutation", i32(0, 0))
add("InvertPermutation", i32(0, 2))
add("InvertPermutation", np.zeros((1, 2), np.int32))
for axes in [[], [0], [1, 2], [-1, 0], [3], [0, 0], [0, -3]]:
    add("ReverseV2", f32(3, 4, 5), np.array(axes, np.int64))
add("ReverseV2", f32(), np.zeros(0, np.int32))
add("ReverseV2", f32(3), scalar(0))
add("ReverseV2", f32(50, 2000), i32(1))
add("Reverse", f32(3, 4), np.array([True]))
add("Reverse", f32(2, 3, 4), np.array([False, True, True]))
add("ReverseSequence", f32(4, 3, 2), i32(1, 4, 0), seq_dim=0, batch_dim=1)
add("ReverseSequence", f32(2, 3, 4), np.array([3, 4], np.int64), seq_dim=2, batch_dim=0)
add("ReverseSequence", f32(2, 3), i32(4, 1), seq_dim=1, batch_dim=0)
add("ReverseSequence", f32(2, 3), i32(-1, 1), seq_dim=1, batch_dim=0)
add("ReverseSequence", f32(2, 3), i32(1), seq_dim=1, batch_dim=0)
add("ReverseSequence", f32(2, 3), i32(1, 1), seq_dim=0, batch_dim=0)
add("ReverseSequence", f32(2, 3), i32(1, 1), seq_dim=2, batch_dim=0)
add("Roll", f32(5), scalar(2), scalar(0))
add("Roll", f32(4, 5, 6), i32(3, -2, 1), i32(0, 1, 1))
add("Roll", f32(4, 5), i32(9), i32(-1))
add("Roll", f32(4, 5), i32(1, 1), i32(0))
add("Roll", f32(4, 5), i32(1), i32(2))
add("Roll", f32(), i32(1), i32(0))
add("Roll", f32(0, 3), i32(1), i32(0))
for shape, times in [((), []), ((3,), [1]), ((3,), [0]), ((1, 4), [5, 1]), ((4, 1), [1, 5]),
                     ((2, 2, 2), [2, 1, 3]), ((0, 2), [3, 3]), ((3,), [-1]), ((3,), [1, 2]),
                     ((20, 30), [30, 20]), ((3, 1, 1, 2), [1, 2, 2, 1])]:
    add("Tile", f32(*shape), np.array(times, np.int32))

# ---- Pads ----
for dtype in EVERYTHING:
    add("Pad", values((2, 3), dtype), np.array([[1, 0], [2, 3]], np.int32))
    add("PadV2", values((2, 3), dtype), np.array([[1, 0], [2, 3]], np.int64), values((), dtype))
    add("MirrorPad", values((3, 4), dtype), np.array([[2, 1], [0, 3]], np.int32), mode="REFLECT")
for dtype in NUMBERS:
    add("MirrorPadGrad", values((6, 7), dtype, -4, 4), np.array([[2, 1], [0, 3]], np.int32),
        mode="REFLECT")
for rank in range(1, 7):
    shape = (2, 3, 1, 4, 2, 2)[:rank]
    padding = values((rank, 2), np.int32, 0, 3)
    add("Pad", f32(*shape), padding)
    add("PadV2", f32(*shape), padding, np.float32(7))
for mode in ["REFLECT", "SYMMETRIC"]:
    for padding in [[[1, 2], [2, 1], [0, 0]], [[2, 2], [3, 3], [4, 4]], [[3, 3], [0, 4], [5, 0]],
                    [[0, 0], [0, 0], [0, 0]], [[9, 0], [0, 0], [0, 0]], [[-1, 0], [0, 0], [0, 0]]]:
        add("MirrorPad", f32(3, 4, 5), np.array(padding, np.int32), mode=mode)
        add("MirrorPadGrad", f32(9, 12, 15), np.array(padding, np.int32), mode=mode)
add("Pad", f32(2), np.array([[-1, 0]], np.int32))
add("Pad", f32(2), np.array([[1, 0, 1]], np.int32))
add("Pad", f32(2), np.array([[1, 0], [0, 1]], np.int32))
add("Pad", f32(), np.zeros((0, 2), np.int32))
add("Pad", f32(0, 3), np.array([[1, 1], [0, 1]], np.int32))
add("PadV2", f32(2), np.array([[1, 0]], np.int32), f32(1))
add("Pad", f32(300, 400), np.array([[3, 5], [7, 1]], np.int32))

# ---- Where, Unique, ListDiff ----
for dtype in NUMBERS + [np.bool_]:
    if dtype is not np.float16:  # TensorFlow refuses it on a CPU
        add("Where", values((3, 4), dtype, -1, 2))
for shape in [(), (5,), (0,), (2, 3, 4), (3, 0)]:
    add("Where", values(shape, np.bool_))
add("Where", np.array([0.0, -0.0, np.nan, 1.0], np.float32))
add("Where", values((70, 90), np.bool_))
add("Where", np.array(True))
COMPARABLE = FLOATS + INTEGERS + [np.str_, np.bool_]
for dtype in COMPARABLE:
    numbers = np.repeat(values((4,), dtype), 2)[[0, 5, 3, 1, 7, 2, 4, 0]]
    for index in [np.int32, np.int64]:
        add("Unique", numbers, out_idx=index)
    add("UniqueWithCounts", numbers)
    add("UniqueV2", numbers.reshape(4, 2), np.array([0], np.int64))
    add("UniqueWithCountsV2", numbers.reshape(2, 4), np.array([1], np.int64))
    if dtype is not np.bool_:
        add("ListDiff", numbers, numbers[:3])
rows = np.array([[1, 2], [1, 2], [3, 4], [1, 2]], np.int32)
for axis in [0, 1, -1, 2]:
    add("UniqueV2", np.stack([rows, rows + 1, rows]), np.array([axis], np.int32))
add("UniqueV2", i32(1, 2, 1), np.zeros(0, np.int32))
add("UniqueV2", rows, np.zeros(0, np.int32))
add("UniqueV2", rows, i32(5))
add("UniqueV2", rows, i32(0, 1))
add("Unique", rows)
add("Unique", np.zeros(0, np.float32))
add("UniqueV2", f32(0, 3), i32(0))
add("UniqueV2", f32(3, 0), i32(0))
add("Unique", np.array([np.nan, 0.0, -0.0, np.nan], np.float32))
add("UniqueWithCounts", values((20000,), np.int64, 0, 3000))
add("ListDiff", i32(1, 2, 3, 2), i32(), out_idx=np.int64)
add("ListDiff", rows, i32(1))
add("ListDiff", i32(1), rows)

# ---- TopK and searches ----
for dtype in FLOATS + INTEGERS:
    add("TopKV2", values((3, 9), dtype), scalar(4))
    add("TopK", values((3, 9), dtype), k=4)
    add("NthElement", values((3, 9), dtype), scalar(4))
    numbers = np.sort(values((2, 6), dtype, -5, 5).astype(np.float64), axis=1).astype(dtype)
    for op, out in itertools.product(["LowerBound", "UpperBound"], [np.int32, np.int64]):
        add(op, numbers, values((2, 5), dtype, -6, 6), out_type=out)
for k in [0, 1, 2, 50, 100]:
    add("TopKV2", f32(7, 100), scalar(k))
    add("TopK", f32(7, 100), k=k)
    add("TopKV2", f32(7, 100), scalar(k), sorted=False, unordered=True, outputs=[])
for k in [-1, 5]:
    add("TopKV2", f32(2, 4), scalar(k))
    add("TopK", f32(2, 4), k=max(k, 0))
add("TopKV2", f32(), scalar(0))
add("TopKV2", f32(3), i32(1))
add("TopKV2", f32(2, 3, 4), scalar(2))
add("TopKV2", f32(0, 4), scalar(2))
add("TopKV2", np.array([0.0, -0.0, -np.inf, np.inf, 0.0], np.float32), scalar(4))
add("TopKV2", rng.standard_normal((4, 3000)).astype(np.float32), scalar(200))
for n, reverse in [(0, False), (0, True), (6, False), (3, True), (7, False), (-1, False)]:
    add("NthElement", f32(4, 7), scalar(n), reverse=reverse)
add("NthElement", f32(), scalar(0))
add("NthElement", f32(3), i32(0))
add("NthElement", rng.standard_normal((3, 1001)).astype(np.float32), scalar(500))
predictions = rng.standard_normal((6, 5)).astype(np.float32)
predictions[4, 2] = np.nan
predictions[5, 0] = np.inf
for k in [0, 1, 2, 9]:
    add("InTopK", predictions, i32(0, 1, 2, 7, 1, 2), k=k)
    add("InTopKV2", predictions, np.array([0, 1, -1, 3, 1, 0], np.int64), np.array(k, np.int64))
add("InTopK", f32(2, 3), i32(0), k=1)
add("InTopK", f32(2), i32(0), k=1)
add("InTopK", f32(2, 3), np.zeros((2, 1), np.int32), k=1)
add("InTopKV2", f32(2, 3), i32(0, 1), i32(1))
for op in ["LowerBound", "UpperBound"]:
    add(op, f32(2, 3), f32(3, 2))
    add(op, f32(3), f32(2))
    add(op, f32(2, 0), f32(2, 3))
    add(op, f32(2, 3), f32(2, 0))

# ---- Partition and stitch ----
for dtype in EVERYTHING:
    add("DynamicPartition", values((4, 2), dtype), i32(1, 0, 1, 2), num_partitions=3)
    add("DynamicStitch", [i32(0, 2), i32(1, 3)], [values((2, 2), dtype), values((2, 2), dtype)])
    add("ParallelDynamicStitch", [i32(0, 2), i32(1, 3)],
        [values((2, 2), dtype), values((2, 2), dtype)])
add("DynamicPartition", f32(2, 3), values((2, 3), np.int32, 0, 2), num_partitions=2)
add("DynamicPartition", f32(2, 3), scalar(1), num_partitions=2)
add("DynamicPartition", f32(0, 3), np.zeros((0,), np.int32), num_partitions=2)
add("DynamicPartition", f32(2, 3), i32(0, 2), num_partitions=2)
add("DynamicPartition", f32(2, 3), i32(0, -1), num_partitions=2)
add("DynamicPartition", f32(2, 3), i32(0, 1, 1), num_partitions=2)
add("DynamicStitch", [scalar(1), scalar(0)], [f32(), f32()])
add("DynamicStitch", [i32(0, 1), i32(1, 0)], [f32(2, 3), f32(2, 3)])
add("DynamicStitch", [i32(0, 1, 1), np.zeros((0,), np.int32)], [f32(3, 3), f32(0, 3)])
add("DynamicStitch", [np.zeros((0,), np.int32)], [f32(0, 3)])
add("DynamicStitch", [i32(0, 1), scalar(2)], [f32(2, 3), f32(3)])
add("DynamicStitch", [i32(0, 1), i32(2)], [f32(2, 3), f32(1, 2)])
add("DynamicStitch", [i32(0, 1), i32(2)], [f32(2, 3), f32(2, 3)])
add("DynamicStitch", [i32(-1, 1)], [f32(2, 3)])


# ---- Slices of variables ----
def assign_slice(use_resource, dtype, value_shape):
    """Assigns to part of a variable, then reads all of it."""
    import tensorflow as tf
    tf1 = tf.compat.v1
    start = values((4, 5), dtype)
    name = "_".join(map(str, ("variable", use_resource, np.dtype(dtype).name) + value_shape))
    variable = tf1.get_variable(name, initializer=tf.constant(start), use_resource=use_resource)
    part = values(value_shape, dtype)
    spec = dict(begin=i32(3, 0), end=i32(0, 5), strides=i32(-1, 2), value=part)
    if use_resource:
        update = tf.raw_ops.ResourceStridedSliceAssign(ref=variable.handle, **spec)
    else:
        update = tf.raw_ops.StridedSliceAssign(ref=variable._ref(), **spec)
    return {}, [[variable.initializer], [update], [variable.read_value()]]


for use_resource, dtype, value_shape in itertools.product(
        [False, True], [np.float32, np.int64], [(3, 3), (3,), (2, 3)]):
    CASES.append(Case("ResourceStridedSliceAssign" if use_resource else "StridedSliceAssign",
                      build=functools.partial(assign_slice, use_resource, dtype, value_shape),
                      name=f"{len(CASES)}:assign_slice({use_resource},{dtype},{value_shape})"))
