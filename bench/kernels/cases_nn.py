"""Convolution, pooling, normalization, losses, images, embeddings."""

import numpy as np
import tensorflow as tf
from table import B, F, I, R, Spec, V, Case, given, raw

raw("BiasAdd", {"small": dict(value=F(25, 40), bias=F(40)),
                "large": dict(value=F(1024, 1024), bias=F(1024)),
                "large image": dict(value=F(32, 28, 28, 32), bias=F(32))})
raw("BiasAddV1", {"small": dict(value=F(25, 40), bias=F(40)),
                  "large": dict(value=F(1024, 1024), bias=F(1024))})
raw("BiasAddGrad", {"small": dict(out_backprop=F(25, 40)),
                    "large": dict(out_backprop=F(1024, 1024)),
                    "large image": dict(out_backprop=F(32, 28, 28, 32))})
for op in ("Softmax", "LogSoftmax"):
    raw(op, {"small": dict(logits=F(25, 40)), "large": dict(logits=F(256, 1000)),
             "large short": dict(logits=F(8192, 10))})
raw("SoftmaxCrossEntropyWithLogits",
    {"small": dict(features=F(25, 40), labels=F(25, 40, low=0.0)),
     "large": dict(features=F(256, 1000), labels=F(256, 1000, low=0.0)),
     "large short": dict(features=F(8192, 10), labels=F(8192, 10, low=0.0))})
raw("SparseSoftmaxCrossEntropyWithLogits",
    {"small": dict(features=F(25, 40), labels=I(25, high=40)),
     "large": dict(features=F(256, 1000), labels=I(256, high=1000)),
     "large short": dict(features=F(8192, 10), labels=I(8192, high=10))})

# ---- Convolution: (batch, height, width, channels, filter, outputs, stride) ----
IMAGES = {"small": (1, 8, 8, 4, 3, 4, 1), "large first": (16, 28, 28, 1, 5, 32, 1),
          "large": (8, 28, 28, 32, 3, 64, 1), "large 1x1": (8, 28, 28, 64, 1, 128, 1),
          "large stride": (8, 56, 56, 32, 3, 64, 2), "large deep": (4, 14, 14, 256, 3, 256, 1),
          "large color": (2, 112, 112, 3, 7, 64, 2)}
TURNS = {label: 2 for label in IMAGES if label != "small"}


def convolution(op, depthwise=False):
    def build(size):
        batch, height, width, channels, filter_size, outputs, stride = size
        out = (batch, -(-height // stride), -(-width // stride),
               channels * outputs if depthwise else outputs)
        image, filters = (batch, height, width, channels), (filter_size, filter_size, channels, outputs)
        attrs = dict(strides=[1, stride, stride, 1], padding="SAME")
        if op.endswith("BackpropFilter"):
            inputs = dict(input=given(F(*image)), filter_sizes=given(list(filters)),
                          out_backprop=given(F(*out)))
        elif op.endswith("BackpropInput"):
            inputs = dict(input_sizes=given(list(image)), filter=given(F(*filters)),
                          out_backprop=given(F(*out)))
        else:
            inputs = dict(input=given(F(*image)), filter=given(F(*filters)))
        return lambda: getattr(R, op)(**inputs, **attrs)
    sizes = IMAGES if not depthwise else {"small": (1, 8, 8, 4, 3, 1, 1), "large": (8, 28, 28, 64, 3, 1, 1),
                                          "large stride": (8, 56, 56, 32, 3, 1, 2)}
    Case(op, sizes, build, repeats=TURNS)


for op in ("Conv2D", "Conv2DBackpropFilter", "Conv2DBackpropInput"):
    convolution(op)
for op in ("DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropFilter",
           "DepthwiseConv2dNativeBackpropInput"):
    convolution(op, depthwise=True)
raw("Conv3D", {"small": dict(input=F(1, 4, 6, 6, 4), filter=F(3, 3, 3, 4, 4)),
               "large": dict(input=F(2, 8, 28, 28, 16), filter=F(3, 3, 3, 16, 32))},
    dict(strides=[1] * 5, padding="SAME"), repeats={"large": 2})

# ---- Pooling ----
POOL = dict(ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
WIDE = dict(ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1], padding="SAME")
SHARED = {"3x3 dense": dict(ksize=[1, 3, 3, 1], strides=[1, 1, 1, 1], padding="SAME"),
          "5x5": dict(ksize=[1, 5, 5, 1], strides=[1, 2, 2, 1], padding="SAME")}
for op, key in (("AvgPool", "value"), ("MaxPool", "input")):
    raw(op, {"small": {key: F(1, 8, 8, 12)}, "large": {key: F(16, 56, 56, 32)}}, POOL)
    raw(op, {"small": {key: F(1, 8, 8, 12)}, "large": {key: F(16, 56, 56, 32)}}, WIDE,
        name=op + " 3x3")
    for name, attrs in SHARED.items():
        raw(op, {"large": {key: F(16, 56, 56, 32)}, "large color": {key: F(16, 112, 112, 3)}}, attrs,
            name=f"{op} {name}")
raw("AvgPoolGrad", {"small": dict(orig_input_shape=[1, 8, 8, 12], grad=F(1, 4, 4, 12)),
                    "large": dict(orig_input_shape=[16, 56, 56, 32], grad=F(16, 28, 28, 32))}, POOL)


def pool_gradient(op, attrs):
    def build(shape):
        image = given(F(*shape))
        pooled = (R.MaxPool3D if "3D" in op else R.MaxPool)(input=image, **attrs)
        gradient = given(F(*(image if op.endswith("GradGrad") else pooled).shape))
        return lambda: getattr(R, op)(orig_input=image, orig_output=pooled, grad=gradient, **attrs)
    return build


Case("MaxPoolGrad", {"small": (1, 8, 8, 12), "large": (16, 56, 56, 32)},
     pool_gradient("MaxPoolGrad", POOL))
Case("MaxPoolGrad 3x3", {"large": (16, 56, 56, 32)}, pool_gradient("MaxPoolGrad", WIDE))
for name, attrs in SHARED.items():
    Case(f"MaxPoolGrad {name}", {"large": (16, 56, 56, 32)}, pool_gradient("MaxPoolGrad", attrs))
    pooled = 56 // attrs["strides"][1]
    raw("AvgPoolGrad", {"large": dict(orig_input_shape=[16, 56, 56, 32], grad=F(16, pooled, pooled, 32))},
        attrs, name=f"AvgPoolGrad {name}")
Case("MaxPoolGradGrad", {"small": (1, 8, 8, 12), "large": (16, 56, 56, 32)},
     pool_gradient("MaxPoolGradGrad", POOL))

# ---- Pooling in three dimensions, and with the places of the largest elements ----
CUBES = {"": dict(ksize=[1, 2, 2, 2, 1], strides=[1, 2, 2, 2, 1], padding="SAME"),
         " 3x3x3": dict(ksize=[1, 3, 3, 3, 1], strides=[1, 2, 2, 2, 1], padding="SAME"),
         " 3x3x3 dense": dict(ksize=[1, 3, 3, 3, 1], strides=[1] * 5, padding="SAME")}
SPACES = {"small": (1, 4, 6, 6, 8), "large": (4, 16, 28, 28, 32), "large color": (4, 16, 56, 56, 3)}
PLANES = {"small": (1, 8, 8, 12), "large": (16, 56, 56, 32), "large color": (16, 112, 112, 3)}


def pooled_shape(shape, attrs):
    return [-(-size // stride) for size, stride in zip(shape, attrs["strides"])]


def images(shapes):
    return {label: dict(input=F(*shape)) for label, shape in shapes.items()}


def average_gradient_3d(attrs):
    def build(shape):
        gradient = given(F(*pooled_shape(shape, attrs)))
        return lambda: R.AvgPool3DGrad(orig_input_shape=list(shape), grad=gradient, **attrs)
    return build


def place_gradient(attrs):
    def build(shape):
        pixels, out = F(*shape), pooled_shape(shape, attrs)
        found = Spec(lambda: R.MaxPoolWithArgmax(input=pixels.make(), **attrs).argmax, out, tf.int64)
        image, gradient, places = given(pixels), given(F(*out)), given(found)
        return lambda: R.MaxPoolGradWithArgmax(input=image, grad=gradient, argmax=places, **attrs)
    return build


for name, attrs in CUBES.items():
    for op in ("AvgPool3D", "MaxPool3D"):
        raw(op, images(SPACES), attrs, name=op + name)
    Case("AvgPool3DGrad" + name, SPACES, average_gradient_3d(attrs))
    for op in ("MaxPool3DGrad", "MaxPool3DGradGrad"):
        Case(op + name, SPACES, pool_gradient(op, attrs))
for name, attrs in {"": POOL, " 3x3": WIDE, " 3x3 dense": SHARED["3x3 dense"]}.items():
    raw("MaxPoolWithArgmax", images(PLANES), attrs, name="MaxPoolWithArgmax" + name)
    Case("MaxPoolGradWithArgmax" + name, PLANES, place_gradient(attrs))

# ---- Batch normalization ----
SHAPES = {"small": (2, 5, 5, 16), "large": (32, 28, 28, 32)}


def normalization(op):
    def build(shape):
        x = given(F(*shape))
        scale, offset = given(F(shape[-1], low=0.5)), given(F(shape[-1]))
        empty = given(V(np.zeros(0, np.float32)))
        return lambda: getattr(R, op)(x=x, scale=scale, offset=offset, mean=empty, variance=empty,
                                      is_training=True)
    Case(op, SHAPES, build)

    def build_inference(shape):
        x = given(F(*shape))
        scale, offset = given(F(shape[-1], low=0.5)), given(F(shape[-1]))
        mean, variance = given(F(shape[-1])), given(F(shape[-1], low=0.5))
        return lambda: getattr(R, op)(x=x, scale=scale, offset=offset, mean=mean, variance=variance,
                                      is_training=False)
    Case(op + " inference", SHAPES, build_inference)


def normalization_gradient(op):
    def build(shape):
        x, gradient = given(F(*shape)), given(F(*shape))
        scale, mean, variance = (given(F(shape[-1], low=0.5)) for _ in range(3))
        more = dict(reserve_space_3=variance) if op.endswith("V3") else {}
        return lambda: getattr(R, op)(y_backprop=gradient, x=x, scale=scale, reserve_space_1=mean,
                                      reserve_space_2=variance, is_training=True, **more)
    Case(op, SHAPES, build)


for version in ("", "V2", "V3"):
    normalization("FusedBatchNorm" + version)
    normalization_gradient("FusedBatchNormGrad" + version)

# ---- Embeddings ----
for op in ("SparseSegmentMean", "SparseSegmentSum", "SparseSegmentSqrtN"):
    raw(op, {"small": dict(data=F(50, 20), indices=I(40, high=50), segment_ids=V(np.arange(40, dtype=np.int32) // 4)),
             "large": dict(data=F(10000, 64), indices=I(8192, high=10000),
                           segment_ids=V(np.arange(8192, dtype=np.int32) // 4))})
raw("SparseSegmentMeanGrad",
    {"small": dict(grad=F(10, 20), indices=I(40, high=50), segment_ids=V(np.arange(40, dtype=np.int32) // 4),
                   output_dim0=50),
     "large": dict(grad=F(2048, 64), indices=I(8192, high=10000),
                   segment_ids=V(np.arange(8192, dtype=np.int32) // 4), output_dim0=10000)})
