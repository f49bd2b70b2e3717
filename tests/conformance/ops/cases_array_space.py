"""Array ops: diagonals of matrices; blocks between space, batch and depth; patches."""
import numpy as np
from cases_array import EVERYTHING, FLOATS, INTEGERS, NUMBERS, f32, i32, scalar, values
from runner import Case
from tensorflow.python.framework import op_def_registry

CASES = []


def add(op, *inputs, **attrs):
    CASES.append(Case(op, inputs, attrs, name=f"{len(CASES)}:{Case(op, inputs, attrs).name}"))


def add_ranked(op, *inputs, **attrs):
    """For ops whose graph needs to know the shapes of all inputs but the first."""
    def build():
        import tensorflow as tf
        feeds = {tf.compat.v1.placeholder(i.dtype, i.shape if n else None): i
                 for n, i in enumerate(inputs)}
        names = [a.name for a in op_def_registry.get(op).input_arg]
        return feeds, [getattr(tf.raw_ops, op)(**dict(zip(names, feeds)), **attrs)]
    CASES.append(Case(op, build=build, name=f"{len(CASES)}:{Case(op, inputs, attrs).name}"))


# ---- Diagonals ----
for dtype in NUMBERS + [np.bool_]:
    for prefix in ["", "Batch"]:
        add(f"{prefix}MatrixDiag", values((2, 3), dtype))
        add(f"{prefix}MatrixDiagPart", values((2, 3, 4), dtype))
        add(f"{prefix}MatrixSetDiag", values((2, 3, 4), dtype), values((2, 3), dtype))
    add("MatrixDiagV3", values((2, 2, 3), dtype), i32(0, 1), scalar(-1), scalar(-1),
        values((), dtype))
    add("MatrixDiagPartV3", values((2, 3, 4), dtype), i32(-1, 1), values((), dtype))
    add("MatrixSetDiagV3", values((2, 3, 4), dtype), values((2, 2, 3), dtype), i32(0, 1))
    add("MatrixBandPart", values((3, 4), dtype), scalar(1), scalar(0))
    add("BatchMatrixBandPart", values((2, 3, 4), dtype), scalar(1, np.int64), scalar(0, np.int64))
for dtype in [np.float32, np.float64, np.int32, np.int64, np.complex64, np.complex128, np.float16]:
    add("Diag", values((2, 3), dtype))
    add("DiagPart", values((2, 3, 2, 3), dtype))
add("Diag", f32())
add("Diag", f32(0))
add("DiagPart", f32(3))
add("DiagPart", f32(2, 3))
add("DiagPart", f32())
ALIGNS = ["LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"]
for shape in [(3, 4), (4, 3), (2, 4, 4), (2, 1), (1, 5)]:
    for lower, upper in [(0, 0), (1, 1), (-1, -1), (-1, 1), (-2, 2), (0, 2), (-2, -1), (1, 2)]:
        for align in ALIGNS:
            add("MatrixDiagPartV3", f32(*shape), i32(lower, upper), np.float32(-9), align=align)
        add("MatrixDiagPartV2", f32(*shape), i32(lower, upper), np.float32(-9))
        longest = min(shape[-2] + min(upper, 0), shape[-1] - max(lower, 0))
        count = upper - lower + 1
        if longest > 0:
            packed = shape[:-2] + ((count,) if count > 1 else ()) + (longest,)
            add("MatrixSetDiagV2", f32(*shape), f32(*packed), i32(lower, upper))
            for align in ALIGNS:
                add("MatrixSetDiagV3", f32(*shape), f32(*packed), i32(lower, upper), align=align)
                add("MatrixDiagV3", f32(*packed), i32(lower, upper), scalar(-1), scalar(-1),
                    np.float32(5), align=align)
                add("MatrixDiagV3", f32(*packed), i32(lower, upper), scalar(shape[-2]),
                    scalar(shape[-1]), np.float32(5), align=align)
            add("MatrixDiagV2", f32(*packed), i32(lower, upper), scalar(-1), scalar(9),
                np.float32(5))
add("MatrixDiag", f32())
add("MatrixDiagV3", f32(3), scalar(1), scalar(2), scalar(2), f32())
add("MatrixDiagV3", f32(3), scalar(0), scalar(9), scalar(9), f32())
add("MatrixDiagV3", f32(3), i32(1, 0), scalar(-1), scalar(-1), f32())
add("MatrixDiagV3", f32(3), i32(0, 1), scalar(-1), scalar(-1), f32())
add("MatrixDiagV3", f32(3, 3), i32(0, 1), scalar(-1), scalar(-1), f32())
add("MatrixDiagV3", f32(3), i32(0, 1, 2), scalar(-1), scalar(-1), f32())
add("MatrixDiagPartV3", f32(3, 4), scalar(4), f32())
add("MatrixDiagPartV3", f32(3, 4), scalar(-3), f32())
add("MatrixDiagPartV3", f32(3), scalar(0), f32())
add("MatrixSetDiag", f32(3, 4), f32(4))
add("MatrixSetDiag", f32(3), f32(3))
add("MatrixSetDiagV3", f32(3, 4), f32(2, 4), i32(0, 1))
add("MatrixSetDiagV3", f32(3, 4), f32(3), scalar(5))
for lower, upper in [(0, 0), (-1, 0), (0, -1), (-1, -1), (1, 2), (2, 1), (9, 0), (0, 9), (3, 4)]:
    add("MatrixBandPart", f32(2, 3, 4), np.array(lower, np.int64), np.array(upper, np.int64))
    add("BatchMatrixBandPart", f32(3, 4), scalar(lower, np.int64), scalar(upper, np.int64))
add("BatchMatrixBandPart", f32(3), scalar(0, np.int64), scalar(0, np.int64))
add("BatchMatrixBandPart", f32(3, 3), scalar(0, np.int64), np.array([0]))
add("BatchMatrixDiag", f32())
add("BatchMatrixDiag", f32(2, 0))
add("BatchMatrixDiagPart", f32(3))
add("BatchMatrixDiagPart", f32(0, 3, 3))
add("BatchMatrixSetDiag", f32(3, 4), f32(4))
add("BatchMatrixSetDiag", f32(3), f32(3))
add("BatchMatrixSetDiag", f32(2, 4, 3), f32(2, 3))
add("MatrixBandPart", f32(3), scalar(0), scalar(0))
add("MatrixBandPart", f32(3, 3), i32(0), scalar(0))
add("MatrixBandPart", f32(5, 2), scalar(0), scalar(0))

# ---- Space, batch, depth ----
for dtype in FLOATS + INTEGERS:
    add_ranked("SpaceToBatchND", values((1, 4, 4, 1), dtype), i32(2, 2), np.zeros((2, 2), np.int32))
    add_ranked("BatchToSpaceND", values((4, 2, 2, 1), dtype), i32(2, 2), np.zeros((2, 2), np.int32))
    add("ExtractImagePatches", values((1, 5, 5, 2), dtype), ksizes=[1, 2, 2, 1],
        strides=[1, 1, 1, 1], rates=[1, 1, 1, 1], padding="SAME")
    add("ExtractVolumePatches", values((1, 3, 4, 5, 2), dtype), ksizes=[1, 2, 2, 2, 1],
        strides=[1, 1, 2, 1, 1], padding="SAME")
for dtype in EVERYTHING:
    add("SpaceToDepth", values((2, 4, 6, 3), dtype), block_size=2)
    add("DepthToSpace", values((2, 2, 3, 12), dtype), block_size=2)
for block, padding in [([2, 2], [[0, 0], [2, 0]]), ([3, 1], [[1, 1], [0, 2]]), ([2, 3], [[1, 1], [1, 1]]),
                       ([1, 1], [[0, 0], [0, 0]]), ([2, 2], [[0, 1], [0, 0]]), ([0, 2], [[0, 0], [0, 0]]),
                       ([2, 2], [[-1, 1], [0, 0]]), ([4, 2], [[0, 0], [0, 0]])]:
    add_ranked("SpaceToBatchND", f32(2, 4, 4, 3), i32(*block), np.array(padding, np.int32))
for block, crops in [([2, 2], [[0, 0], [2, 0]]), ([3, 1], [[1, 1], [0, 2]]), ([2, 3], [[1, 2], [1, 1]]),
                     ([1, 1], [[0, 0], [0, 0]]), ([2, 2], [[5, 5], [0, 0]]), ([5, 2], [[0, 0], [0, 0]]),
                     ([2, 2], [[-1, 1], [0, 0]])]:
    add_ranked("BatchToSpaceND", f32(12, 4, 4, 3), i32(*block), np.array(crops, np.int32))
add_ranked("SpaceToBatchND", f32(2, 6), np.array([3], np.int64), np.zeros((1, 2), np.int64))
add_ranked("SpaceToBatchND", f32(2, 4, 6, 4, 2), i32(2, 3, 2), np.zeros((3, 2), np.int32))
add("SpaceToBatch", f32(2, 4, 4, 3), np.array([[0, 0], [1, 1]], np.int32), block_size=2)
add("BatchToSpace", f32(8, 4, 4, 3), np.array([[0, 1], [1, 1]], np.int32), block_size=2)
add("SpaceToBatch", f32(4, 4, 3), np.zeros((2, 2), np.int32), block_size=2)
add("SpaceToDepth", f32(1, 6, 6, 2), block_size=3)
add("SpaceToDepth", f32(1, 5, 6, 2), block_size=3)
add("SpaceToDepth", f32(6, 6, 2), block_size=3)
add("DepthToSpace", f32(1, 2, 2, 18), block_size=3)
add("DepthToSpace", f32(1, 2, 2, 10), block_size=3)
add("DepthToSpace", f32(2, 2, 18), block_size=3)
for sizes, strides, rates in [([2, 3], [1, 1], [1, 1]), ([3, 3], [2, 2], [1, 1]),
                              ([2, 2], [1, 2], [2, 3]), ([1, 1], [3, 3], [1, 1]),
                              ([5, 5], [1, 1], [1, 1]), ([2, 2], [4, 4], [1, 1])]:
    for padding in ["SAME", "VALID"]:
        add("ExtractImagePatches", f32(2, 7, 8, 3), ksizes=[1] + sizes + [1],
            strides=[1] + strides + [1], rates=[1] + rates + [1], padding=padding)
        add("ExtractVolumePatches", f32(2, 7, 8, 6, 3), ksizes=[1, 2] + sizes + [1],
            strides=[1, 2] + strides + [1], padding=padding)
add("ExtractImagePatches", f32(7, 8, 3), ksizes=[1, 2, 2, 1], strides=[1, 1, 1, 1],
    rates=[1, 1, 1, 1], padding="SAME")
add("ExtractImagePatches", f32(1, 2, 2, 1), ksizes=[1, 3, 3, 1], strides=[1, 1, 1, 1],
    rates=[1, 1, 1, 1], padding="VALID")
