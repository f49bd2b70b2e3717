"""Image ops that move and sample pixels: filters, projections, glimpses, random boxes, combined suppression."""
import itertools

import numpy as np
import tensorflow as tf
from runner import Case, bfloat16

tf1 = tf.compat.v1
R = tf.raw_ops
CASES = []
rng = np.random.default_rng(21)
FLOATS = [np.float32, np.float64, np.float16, bfloat16]
CLOSE = (1e-4, 1e-4)


def add(op, *inputs, tolerance=None, note="", check=None, since=None, **attrs):
    CASES.append(Case(op, inputs, attrs, tolerance=tolerance, check=check, since=since,
                      name=f"{len(CASES)}:{note}{Case(op, inputs, attrs).name}"))


def image(*shape, dtype=np.float32):
    low = 0 if np.dtype(dtype).kind == "u" else -50
    return rng.integers(low, 100, shape).astype(dtype)


def f32(*numbers):
    return np.array(numbers, np.float32)


def i32(*numbers):
    return np.array(numbers, np.int32)


# ---- ScaleAndTranslate ----
KINDS = ["lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic", "mitchellcubic"]
for kind, antialias in itertools.product(KINDS, [False, True]):
    for size, scale, move in (((9, 11), (1.5, 1.3), (0, 0)), ((3, 4), (0.4, 0.6), (0.5, -1.2)),
                              ((8, 7), (1, 1), (3, -2)), ((5, 5), (0.05, 9), (0, 30))):
        add("ScaleAndTranslate", image(2, 7, 8, 3), i32(*size), f32(*scale), f32(*move), tolerance=CLOSE,
            kernel_type=kind, antialias=antialias)
        add("ScaleAndTranslateGrad", image(2, *size, 3), image(2, 7, 8, 3), f32(*scale), f32(*move),
            tolerance=CLOSE, kernel_type=kind, antialias=antialias)
for dtype in FLOATS + [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16]:
    add("ScaleAndTranslate", image(1, 6, 5, 2, dtype=dtype), i32(4, 7), f32(0.7, 1.4), f32(0, 0), tolerance=CLOSE)
add("ScaleAndTranslate", image(0, 6, 5, 2), i32(4, 7), f32(1, 1), f32(0, 0))
for note, inputs in {
        "rank": [image(6, 5, 2), i32(4, 7), f32(1, 1), f32(0, 0)],
        "size": [image(1, 6, 5, 2), i32(4), f32(1, 1), f32(0, 0)],
        "no size": [image(1, 6, 5, 2), i32(4, 0), f32(1, 1), f32(0, 0)],
        "no channel": [image(1, 6, 5, 0), i32(4, 2), f32(1, 1), f32(0, 0)],
        "no pixel": [image(1, 0, 5, 1), i32(4, 2), f32(1, 1), f32(0, 0)],
        "scale": [image(1, 6, 5, 2), i32(4, 2), f32(0, 1), f32(0, 0)],
        "scales": [image(1, 6, 5, 2), i32(4, 2), f32(1, 1, 1), f32(0, 0)],
        "translation": [image(1, 6, 5, 2), i32(4, 2), f32(1, 1), np.zeros((2, 1), np.float32)]}.items():
    add("ScaleAndTranslate", *inputs, note=note)
add("ScaleAndTranslate", image(1, 6, 5, 2), i32(4, 7), f32(1, 1), f32(0, 0), kernel_type="other")
add("ScaleAndTranslateGrad", image(4, 7, 2), image(1, 6, 5, 2), f32(1, 1), f32(0, 0))
add("ScaleAndTranslateGrad", image(1, 4, 7, 2), image(6, 5, 2), f32(1, 1), f32(0, 0))
add("ScaleAndTranslateGrad", image(1, 4, 7, 2), image(1, 6, 5, 2), f32(1, -1), f32(0, 0))

# ---- ImageProjectiveTransform ----
TURN = f32(0.8, -0.6, 1.5, 0.6, 0.8, -0.7, 0, 0)
SLANT = f32(1.1, 0.2, -3.3, -0.1, 0.9, 2.2, 0.01, -0.02)
FAR = f32(3, 0, -20, 0, 3, 15, 0, 0)
for dtype in FLOATS + [np.uint8, np.int32, np.int64]:
    for kind in ("NEAREST", "BILINEAR"):
        add("ImageProjectiveTransformV2", image(2, 6, 7, 3, dtype=dtype), np.stack([TURN, SLANT]), i32(6, 7),
            interpolation=kind, since=(2, 16) if dtype == bfloat16 else None,
            tolerance=CLOSE if np.dtype(dtype).itemsize > 2 else (2e-2, 2e-2))
for kind, mode in itertools.product(("NEAREST", "BILINEAR"), ("REFLECT", "WRAP", "CONSTANT", "NEAREST")):
    for transforms in (TURN[None], SLANT[None], FAR[None], np.stack([TURN, FAR])):
        add("ImageProjectiveTransformV3", image(2, 5, 6, 2), transforms, i32(9, 11), np.float32(7.5),
            interpolation=kind, fill_mode=mode, tolerance=CLOSE)
        add("ImageProjectiveTransformV2", image(2, 5, 6, 2), transforms, i32(4, 3),
            interpolation=kind, fill_mode=mode, tolerance=CLOSE)
    add("ImageProjectiveTransformV3", image(1, 1, 1, 1), SLANT[None], i32(3, 3), np.float32(-1),
        interpolation=kind, fill_mode=mode, tolerance=CLOSE)
add("ImageProjectiveTransformV3", image(1, 4, 4, 1, dtype=np.int32), FAR[None], i32(5, 5), np.float32(3.7),
    interpolation="NEAREST")
add("ImageProjectiveTransformV2", image(1, 4, 4, 1), f32(1, 0, 0, 0, 1, 0, -0.5, 0)[None], i32(5, 5),
    interpolation="BILINEAR", tolerance=CLOSE)
add("ImageProjectiveTransformV2", image(0, 4, 4, 1), TURN[None], i32(5, 5), interpolation="BILINEAR")
for note, inputs in {
        "rank": [image(4, 4, 1), TURN[None], i32(5, 5)],
        "transforms": [image(3, 4, 4, 1), np.stack([TURN, TURN]), i32(5, 5)],
        "columns": [image(1, 4, 4, 1), TURN[None, :7], i32(5, 5)],
        "size": [image(1, 4, 4, 1), TURN[None], i32(5)],
        "size 0": [image(1, 4, 4, 1), TURN[None], i32(5, 0)]}.items():
    add("ImageProjectiveTransformV2", *inputs, note=note, interpolation="NEAREST")
add("ImageProjectiveTransformV3", image(1, 4, 4, 1), TURN[None], i32(5, 5), f32(1), interpolation="NEAREST")

# ---- ExtractGlimpse ----
OFFSETS = {True: [f32(0, 0, -1, -1), f32(0.9, -0.4, 0.3, 1), f32(-3, 0.2, 5, 5)],
           False: [f32(0, 0, 2, 3), f32(-2.5, 1, 4, 6), f32(-30, 2, 40, 40)]}
for op in ("ExtractGlimpse", "ExtractGlimpseV2"):
    for centered, normalized in itertools.product((False, True), (False, True)):
        for offsets, size in itertools.product(OFFSETS[normalized], ((3, 3), (4, 2), (9, 11))):
            add(op, image(2, 6, 7, 2), i32(*size), offsets.reshape(2, 2), centered=centered, normalized=normalized,
                uniform_noise=False, noise="zero")
    for noise in ("uniform", "gaussian"):
        add(op, image(2, 6, 7, 2), i32(3, 2), f32(0.1, 0.1, -0.1, 0.2).reshape(2, 2), noise=noise,
            uniform_noise=False)
    def within(results):
        low = results[0].min() >= 4 and results[0].max() <= 9
        return None if low and len(np.unique(results[0])) > 20 else f"noise {results[0]}"
    for noise in ("uniform", "gaussian"):
        add(op, (4 + np.arange(36) % 6).astype(np.float32).reshape(1, 6, 6, 1), i32(8, 8), f32(-0.9, -0.9).reshape(1, 2),
            noise=noise, uniform_noise=False, check=within)
    add(op, image(0, 6, 7, 2), i32(3, 2), np.zeros((0, 2), np.float32), uniform_noise=False, noise="zero")
    for note, inputs in {"rank": [image(6, 7, 2), i32(3, 2), f32(0, 0).reshape(1, 2)],
                         "size": [image(1, 6, 7, 2), i32(3), f32(0, 0).reshape(1, 2)],
                         "negative": [image(1, 6, 7, 2), i32(3, -2), f32(0, 0).reshape(1, 2)],
                         "batch": [image(2, 6, 7, 2), i32(3, 2), f32(0, 0).reshape(1, 2)],
                         "columns": [image(1, 6, 7, 2), i32(3, 2), f32(0, 0, 0).reshape(1, 3)],
                         "vector": [image(1, 6, 7, 2), i32(3, 2), f32(0, 0)]}.items():
        add(op, *inputs, note=note, uniform_noise=False, noise="zero")

# ---- SampleDistortedBoundingBox ----
BOXES = f32(0.1, 0.2, 0.7, 0.9, 0.4, 0.4, 0.6, 0.5).reshape(1, 2, 4)
NONE = np.zeros((1, 0, 4), np.float32)


def repeated(size, boxes, version, **attrs):
    """Several runs of one node: its stream goes on."""
    def build():
        inputs = dict(image_size=tf1.placeholder_with_default(tf.constant(size), None),
                      bounding_boxes=tf1.placeholder_with_default(tf.constant(boxes), None))
        if version == 1:
            result = R.SampleDistortedBoundingBox(**inputs, **attrs)
        else:
            result = R.SampleDistortedBoundingBoxV2(
                **inputs, min_object_covered=tf.constant(attrs.pop("min_object_covered", 0.1)), **attrs)
        return {}, [list(result)] * 4
    CASES.append(Case("SampleDistortedBoundingBox" + ("" if version == 1 else "V2"), build=build,
                      name=f"{len(CASES)}:SampleDistortedBoundingBox{version} {size} {attrs}"))


for version, seed in itertools.product((1, 2), (1, 7, 12345)):
    repeated(i32(60, 40, 3), BOXES, version, seed=seed, seed2=3)
    repeated(i32(33, 101, 3), BOXES, version, seed=seed, seed2=0, min_object_covered=0.9, area_range=[0.3, 0.8])
    repeated(i32(500, 375, 1), NONE, version, seed=seed, seed2=9, use_image_if_no_bounding_boxes=True,
             aspect_ratio_range=[0.5, 2.0], area_range=[0.05, 1.0], max_attempts=20)
    repeated(i32(7, 5, 1), BOXES, version, seed=seed, seed2=1, min_object_covered=1.0, max_attempts=2)
for dtype in (np.int8, np.int16, np.int64, np.uint8):
    repeated(np.array([60, 40, 3], dtype), BOXES, 2, seed=3, seed2=4)
for seed in ((1, 2), (-5, 77), (0, 0)):
    for dtype in (np.int32, np.int64):
        add("StatelessSampleDistortedBoundingBox", i32(60, 40, 3), BOXES, np.float32(0.3), np.array(seed, dtype))
        add("StatelessSampleDistortedBoundingBox", i32(97, 140, 3), NONE, np.float32(0), np.array(seed, dtype),
            use_image_if_no_bounding_boxes=True, area_range=[0.1, 0.4])
ONE = np.float32(0.1)
for note, inputs in {
        "size": [i32(60, 40), BOXES, ONE], "size rank": [i32(60, 40, 3)[None], BOXES, ONE],
        "negative size": [i32(-60, 40, 3), BOXES, ONE], "boxes": [i32(60, 40, 3), BOXES[0], ONE],
        "columns": [i32(60, 40, 3), BOXES[:, :, :3], ONE], "beyond": [i32(60, 40, 3), BOXES * f32(2), ONE],
        "none": [i32(60, 40, 3), NONE, ONE], "covered": [i32(60, 40, 3), BOXES, np.float32(-1)],
        "covered rank": [i32(60, 40, 3), BOXES, f32(1)]}.items():
    add("SampleDistortedBoundingBoxV2", *inputs, note=note, seed=1, seed2=2)
add("StatelessSampleDistortedBoundingBox", i32(60, 40, 3), BOXES, ONE, i32(1, 2, 3))
for attrs in (dict(aspect_ratio_range=[0.5]), dict(aspect_ratio_range=[-1.0, 1.0]), dict(area_range=[0.5, 1.5]),
              dict(area_range=[0.0, 1.0]), dict(max_attempts=0)):
    add("SampleDistortedBoundingBoxV2", i32(60, 40, 3), BOXES, ONE, seed=1, seed2=2, **attrs)
add("SampleDistortedBoundingBox", i32(60, 40, 3), BOXES, min_object_covered=-0.5, seed=1, seed2=2)

# ---- CombinedNonMaxSuppression ----
def boxes_of(images, count, classes):
    corners = rng.random((images, count, classes, 2)).astype(np.float32) * 1.2 - 0.1
    return np.concatenate([corners, corners + 0.4 * rng.random(corners.shape).astype(np.float32)], -1)


def scores_of(images, count, classes):
    return rng.permutation(images * count * classes).reshape(images, count, classes).astype(np.float32) / 1000


for classes, shared in itertools.product((1, 3), (False, True)):
    for per_class, total in ((4, 7), (50, 20), (1, 2), (3, 100)):
        for pads, clips in itertools.product((False, True), (False, True)):
            add("CombinedNonMaxSuppression", boxes_of(2, 20, 1 if shared else classes), scores_of(2, 20, classes),
                np.int32(per_class), np.int32(total), np.float32(0.3), np.float32(0.01),
                pad_per_class=pads, clip_boxes=clips)
LAST = [np.int32(3), np.int32(5), np.float32(0.5), np.float32(0)]
add("CombinedNonMaxSuppression", boxes_of(2, 0, 1), scores_of(2, 0, 3), *LAST)
add("CombinedNonMaxSuppression", boxes_of(1, 30, 1), scores_of(1, 30, 2), *LAST[:3], np.float32(5))
for note, inputs in {
        "boxes": [boxes_of(1, 5, 1)[0], scores_of(1, 5, 2), *LAST],
        "scores": [boxes_of(1, 5, 1), scores_of(1, 5, 2)[0], *LAST],
        "classes": [boxes_of(1, 5, 3), scores_of(1, 5, 2), *LAST],
        "columns": [boxes_of(1, 5, 1)[..., :3], scores_of(1, 5, 2), *LAST],
        "count": [boxes_of(1, 5, 1), scores_of(1, 4, 2), *LAST],
        "batch": [boxes_of(2, 5, 1), scores_of(1, 5, 2), *LAST],
        "per class": [boxes_of(1, 5, 1), scores_of(1, 5, 2), np.int32(0), *LAST[1:]],
        "per class rank": [boxes_of(1, 5, 1), scores_of(1, 5, 2), i32(3), *LAST[1:]],
        "total": [boxes_of(1, 5, 1), scores_of(1, 5, 2), LAST[0], np.int32(-1), *LAST[2:]],
        "overlap": [boxes_of(1, 5, 1), scores_of(1, 5, 2), *LAST[:2], np.float32(1.5), LAST[3]],
        "threshold": [boxes_of(1, 5, 1), scores_of(1, 5, 2), *LAST[:3], f32(0)]}.items():
    add("CombinedNonMaxSuppression", *inputs, note=note)
