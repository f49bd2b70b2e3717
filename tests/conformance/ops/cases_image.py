"""Image ops: resizing, crops, colours, non-maximum suppression."""
import itertools

import numpy as np
from runner import Case, bfloat16

CASES = []
rng = np.random.default_rng(12)
FLOATS = [np.float32, np.float64, np.float16, bfloat16]
REALS = FLOATS + [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16]


def add(op, *inputs, tolerance=None, **attrs):
    CASES.append(Case(op, inputs, attrs, tolerance=tolerance,
                      name=f"{len(CASES)}:{Case(op, inputs, attrs).name}"))


def image(shape, dtype=np.float32):
    low = 0 if np.dtype(dtype).kind == "u" else -50
    return rng.integers(low, 100, shape).astype(dtype)


def unit(*shape, dtype=np.float32):
    return rng.random(shape).astype(dtype)


def i32(*numbers):
    return np.array(numbers, np.int32)


CLOSE = (1e-4, 1e-4)
# ---- Resizing ----
MODES = [dict(), dict(align_corners=True), dict(half_pixel_centers=True),
         dict(align_corners=True, half_pixel_centers=True)]
SIZES = [(3, 5), (8, 6), (16, 13), (1, 1), (2, 7)]
for op in ["ResizeBilinear", "ResizeBicubic", "ResizeArea", "ResizeNearestNeighbor"]:
    for dtype in REALS:
        add(op, image((2, 4, 5, 3), dtype), i32(7, 3), tolerance=CLOSE)
    modes = MODES[:2] if op == "ResizeArea" else MODES
    for size, mode, channels in itertools.product(SIZES, modes, [1, 3, 4]):
        add(op, image((2, 8, 6, channels)), i32(*size), tolerance=CLOSE, **mode)
    add(op, image((8, 6, 3)), i32(2, 2))
    add(op, image((1, 8, 6, 3)), i32(2))
    add(op, image((1, 8, 6, 3)), np.array(2, np.int32))
    add(op, image((1, 8, 6, 3)), i32(0, 2))
    add(op, image((1, 0, 6, 3)), i32(2, 2))
    add(op, image((0, 8, 6, 3)), i32(2, 2))
    add(op, image((1, 8, 6, 0)), i32(2, 2))
    add(op, image((2, 60, 70, 3)), i32(91, 33), tolerance=CLOSE)
for op, dtypes in [("ResizeBilinearGrad", FLOATS), ("ResizeBicubicGrad", FLOATS[:2])]:
    for dtype in dtypes:
        add(op, unit(2, 7, 3, 3), image((2, 4, 5, 3), dtype),
            tolerance=CLOSE if np.dtype(dtype).itemsize >= 4 else (2e-2, 2e-2))
    for size, mode in itertools.product(SIZES, MODES):
        add(op, unit(2, *size, 3), unit(2, 8, 6, 3), tolerance=CLOSE, **mode)
    add(op, unit(7, 3, 3), unit(2, 4, 5, 3))
    add(op, unit(2, 7, 3, 3), unit(4, 5, 3))
for dtype in FLOATS + [np.uint8, np.int8, np.int32]:
    add("ResizeNearestNeighborGrad", rng.integers(0, 5, (2, 7, 3, 3)).astype(dtype), i32(4, 5))
for size, mode in itertools.product(SIZES, MODES):
    add("ResizeNearestNeighborGrad", unit(2, *size, 3), i32(8, 6), tolerance=CLOSE, **mode)
add("ResizeNearestNeighborGrad", unit(2, 7, 3, 3), i32(0, 5))

# ---- CropAndResize ----
boxes = np.array([[0, 0, 1, 1], [0.1, 0.2, 0.7, 0.9], [0.9, 0.8, 0.2, 0.1], [-0.2, 0.3, 1.3, 0.6]],
                 np.float32)
owners = i32(0, 1, 1, 0)
CROPPED = [dtype for dtype in REALS if dtype is not bfloat16]
for dtype in CROPPED:
    add("CropAndResize", image((2, 6, 7, 3), dtype), boxes, owners, i32(4, 5), tolerance=CLOSE)
for method, size in itertools.product(["bilinear", "nearest"], [(3, 4), (1, 1), (1, 5), (9, 9)]):
    add("CropAndResize", image((2, 6, 7, 2)), boxes, owners, i32(*size), method=method,
        extrapolation_value=-3.5, tolerance=CLOSE)
    for dtype in [np.float32, np.float64, np.float16]:
        add("CropAndResizeGradImage", unit(4, *size, 2), boxes, owners, i32(2, 6, 7, 2), T=dtype,
            method=method, tolerance=CLOSE if dtype is not np.float16 else (2e-2, 2e-2))
    if method == "bilinear":
        add("CropAndResizeGradBoxes", unit(4, *size, 2), unit(2, 6, 7, 2), boxes, owners,
            tolerance=CLOSE)
for dtype in CROPPED:
    add("CropAndResizeGradBoxes", unit(4, 3, 4, 2), image((2, 6, 7, 2), dtype), boxes, owners,
        tolerance=(1e-4, 1e-2))
add("CropAndResize", image((2, 6, 7, 3)), boxes, i32(0, 1, 2, 0), i32(4, 5))
add("CropAndResize", image((2, 6, 7, 3)), boxes, i32(0, 1, -1, 0), i32(4, 5))
add("CropAndResize", image((6, 7, 3)), boxes, owners, i32(4, 5))
add("CropAndResize", image((2, 6, 7, 3)), boxes, owners, i32(0, 5))
add("CropAndResize", image((2, 6, 7, 3)), boxes, owners, i32(5))
add("CropAndResize", image((2, 6, 7, 3)), boxes[:, :3], owners, i32(4, 5))
add("CropAndResize", image((2, 6, 7, 3)), boxes, owners[:2], i32(4, 5))
add("CropAndResize", image((2, 6, 7, 3)), boxes[:0], owners[:0], i32(4, 5))

# ---- Colours ----
for dtype in FLOATS:
    loose = None if np.dtype(dtype).itemsize >= 4 else (5e-2, 5e-2)
    add("RGBToHSV", unit(4, 5, 3, dtype=dtype), tolerance=loose)
    add("HSVToRGB", unit(4, 5, 3, dtype=dtype), tolerance=loose)
corners = np.array(list(itertools.product([0, 0.5, 1], repeat=3)), np.float32)
add("RGBToHSV", corners)
add("HSVToRGB", corners)
add("RGBToHSV", unit(3))
add("RGBToHSV", unit(4, 2))
add("RGBToHSV", np.float32(1))
add("HSVToRGB", unit(100, 90, 3))
for delta in [0, 0.2, -0.3, 1, 2.7, -5.1]:
    add("AdjustHue", unit(2, 5, 6, 3), np.float32(delta), tolerance=CLOSE)
add("AdjustHue", corners[None], np.float32(0.1), tolerance=CLOSE)
add("AdjustHue", unit(5, 3), np.float32(0.1))
add("AdjustHue", unit(5, 6, 2), np.float32(0.1))
add("AdjustHue", unit(5, 6, 3), unit(1))
for scale in [0, 0.5, 1, 3]:
    add("AdjustSaturation", unit(2, 5, 6, 3), np.float32(scale), tolerance=CLOSE)
    add("AdjustContrastv2", unit(2, 5, 6, 3), np.float32(scale), tolerance=CLOSE)
    add("AdjustContrast", unit(2, 5, 6, 3), np.float32(scale), np.float32(0.2), np.float32(0.7),
        tolerance=CLOSE)
add("AdjustSaturation", corners[None], np.float32(0.6), tolerance=CLOSE)
add("AdjustSaturation", unit(5, 3), np.float32(0.1))
for dtype in [np.uint8, np.int8, np.int16, np.int32, np.int64, np.float64]:
    add("AdjustContrast", rng.integers(0, 100, (5, 6, 3)).astype(dtype), np.float32(1.5),
        np.float32(0), np.float32(90), tolerance=CLOSE)
add("AdjustContrast", unit(5, 3), np.float32(0.1), np.float32(0), np.float32(1))
add("AdjustContrast", unit(0, 5, 3), np.float32(0.1), np.float32(0), np.float32(1))
add("AdjustContrast", unit(2, 5, 3), unit(1), np.float32(0), np.float32(1))
add("AdjustContrast", unit(2, 5, 3), np.float32(2), unit(1), np.float32(1))
add("AdjustContrast", unit(2, 5, 3), np.float32(2), np.float32(0), unit(1))
add("AdjustContrastv2", unit(5, 3), np.float32(0.1))
add("AdjustContrastv2", unit(5, 3, 7), np.float32(2), tolerance=CLOSE)
add("AdjustContrastv2", unit(5, 3, 7), unit(1))
for depth, dtype in itertools.product([1, 3, 4], [np.float32, np.float16]):
    drawn = rng.random((2, 12, 4)).astype(np.float32)
    drawn[..., 2:] += drawn[..., :2]
    add("DrawBoundingBoxes", unit(2, 20, 24, depth, dtype=dtype), drawn)
    add("DrawBoundingBoxesV2", unit(2, 20, 24, depth, dtype=dtype), drawn, unit(5, 4))
add("DrawBoundingBoxes", unit(2, 20, 24, 2), unit(2, 3, 4))
add("DrawBoundingBoxes", unit(2, 20, 24, 3), unit(1, 3, 4))
add("DrawBoundingBoxes", unit(2, 20, 24, 3), unit(2, 3, 3))

# ---- Non-maximum suppression ----
many = rng.random((60, 4)).astype(np.float32)
scores = rng.random(60).astype(np.float32)
few = np.array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [1, 11.1, 0, 10.1],
                [0, 100, 1, 101]], np.float32)
few_scores = np.array([0.9, 0.75, 0.6, 0.95, 0.5, 0.3], np.float32)


def number(value, dtype=np.float32):
    return np.array(value, dtype)


for wanted, overlap in itertools.product([0, 3, 100], [0.0, 0.3, 0.5, 1.0]):
    size = number(wanted, np.int32)
    for one, other in [(few, few_scores), (many, scores)]:
        add("NonMaxSuppression", one, other, size, iou_threshold=overlap)
        add("NonMaxSuppressionV2", one, other, size, number(overlap))
        add("NonMaxSuppressionV3", one, other, size, number(overlap), number(0.4))
        for pads in [False, True]:
            add("NonMaxSuppressionV4", one, other, size, number(overlap), number(0.4),
                pad_to_max_output_size=pads)
            for sigma in [0.0, 0.5]:
                add("NonMaxSuppressionV5", one, other, size, number(overlap), number(0.2),
                    number(sigma), pad_to_max_output_size=pads)
    add("NonMaxSuppressionWithOverlaps", unit(20, 20), unit(20), size, number(overlap), number(0.1))
half = np.float16
add("NonMaxSuppressionV3", few.astype(half), few_scores.astype(half), number(3, np.int32),
    number(0.5, half), number(0, half))
add("NonMaxSuppressionV2", few, few_scores, number(3, np.int32), number(1.5))
add("NonMaxSuppressionV2", few, few_scores, number(-1, np.int32), number(0.5))
add("NonMaxSuppressionV2", few, few_scores[:3], number(3, np.int32), number(0.5))
add("NonMaxSuppressionV2", few[:, :3], few_scores, number(3, np.int32), number(0.5))
add("NonMaxSuppressionV2", few[0], few_scores, number(3, np.int32), number(0.5))
add("NonMaxSuppressionV2", few[:0], few_scores[:0], number(3, np.int32), number(0.5))
add("NonMaxSuppressionV3", few, np.ones(6, np.float32), number(6, np.int32), number(0.5), number(0))
add("NonMaxSuppressionV5", few, few_scores, number(6, np.int32), number(0.5), number(0), number(-1))
