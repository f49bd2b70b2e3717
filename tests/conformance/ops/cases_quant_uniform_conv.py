"""Convolutions of uniformly quantized tensors: windows, orders of dimensions, groups, and what they
refuse."""
import numpy as np
import tensorflow as tf
from cases_quant_quantized import CASES as SHARED
from cases_quant_quantized import add, codes
from cases_quant_uniform import floats, limits, parameters

FIRST = len(SHARED)


def numbers(input_roles, kernel_roles, output_roles):
    """UniformQuantizedConvolutionDimensionNumbersAttr; roles are (batch, feature, *spatial), of a kernel
    (input feature, output feature, *spatial)."""
    message = b""
    for i, (first, second, *spatial) in enumerate([input_roles, kernel_roles, output_roles]):
        message += bytes([8 * (3 * i + 1), first, 8 * (3 * i + 2), second])
        message += bytes([8 * (3 * i + 3) + 2, len(spatial), *spatial]) if spatial else b""
    return message


NHWC = numbers((0, 3, 1, 2), (2, 3, 0, 1), (0, 3, 1, 2))
MIXED = numbers((2, 0, 3, 1), (1, 3, 2, 0), (3, 2, 0, 1))


def conv(label, x=(2, 3, 7, 6), y=(4, 3, 3, 2), axes=(-1, -1), output_features=None, hybrid=True, padding="VALID", low=-2**31,
         high=2**31 - 1, changes=(), lhs_axis=-1, **attrs):
    """The op, and with `hybrid` the one of floats, too. Older versions pad more before than behind."""
    first = len(SHARED)
    count = None if axes[0] < 0 else y[axes[0]]
    rhs = codes(y, tf.qint8)
    right = parameters(count)
    inputs = dict(lhs=codes(x, tf.qint8), rhs=rhs)
    counts = {"lhs": None, "rhs": count, "output": None if axes[1] < 0 else output_features or count}
    for name, kind in [("lhs", tf.qint8), ("rhs", tf.qint8), ("output", tf.qint32)]:
        inputs[name + "_scales"], inputs[name + "_zero_points"] = \
            right if name == "rhs" else parameters(counts[name])
    inputs.update(changes)
    add("UniformQuantizedConvolution", label, inputs, Tout=tf.qint32, padding=padding,
        lhs_quantization_axis=lhs_axis, rhs_quantization_axis=axes[0], output_quantization_axis=axes[1],
        **limits(tf.qint8, "lhs_"), **limits(tf.qint8, "rhs_"), **limits(tf.qint32, "output_", low, high), **attrs)
    if hybrid:
        values = dict(lhs=floats(x, 3), rhs=rhs, rhs_scales=right[0], rhs_zero_points=right[1])
        values.update({key: value for key, value in dict(changes).items() if key in values})
        add("UniformQuantizedConvolutionHybrid", label, values, Tout=tf.float32, padding=padding,
            rhs_quantization_axis=axes[0], **limits(tf.qint8, "rhs_"), **attrs)
    for case in SHARED[first:]:
        case.since = (2, 21) if padding == "SAME" else None


for padding in ["VALID", "SAME"]:
    conv(f"plain {padding}", padding=padding)
    conv(f"strides {padding}", padding=padding, window_strides=[2, 3])
    conv(f"right dilated {padding}", padding=padding, rhs_dilation=[2, 3])
    conv(f"left dilated {padding}", padding=padding, lhs_dilation=[3, 2])
    conv(f"all {padding}", padding=padding, window_strides=[3, 2], lhs_dilation=[2, 4], rhs_dilation=[2, 1])
conv("explicit", padding="EXPLICIT", explicit_padding=[1, 0, 2, 5])
conv("explicit, dilated", padding="EXPLICIT", explicit_padding=[0, 3, 4, 1], lhs_dilation=[2, 3], window_strides=[1, 2])
conv("one dimension", (2, 3, 9), (4, 3, 4), padding="SAME", window_strides=[2])
conv("three dimensions", (2, 2, 4, 5, 3), (3, 2, 2, 3, 2), padding="SAME", rhs_dilation=[1, 2, 1])
conv("along features", axes=(0, -1))
conv("both along features", axes=(0, 1))
conv("images last", (2, 7, 6, 3), (3, 2, 3, 4), padding="SAME", dimension_numbers=NHWC)
conv("images last along features", (2, 7, 6, 3), (3, 2, 3, 4), axes=(3, 3), dimension_numbers=NHWC)
conv("any order", (3, 6, 2, 7), (2, 3, 3, 4), dimension_numbers=MIXED, window_strides=[2, 1])
conv("any order along features", (3, 6, 2, 7), (2, 3, 3, 4), axes=(3, 2), dimension_numbers=MIXED)
conv("groups of features", (2, 6, 5, 5), (4, 3, 2, 2), feature_group_count=2)
conv("each feature alone", (2, 3, 5, 5), (6, 1, 2, 2), axes=(0, 1), feature_group_count=3)
conv("groups of images", (4, 3, 5, 5), (6, 3, 2, 2), batch_group_count=2)
conv("groups of images along features", (6, 3, 5, 5), (6, 3, 2, 2), axes=(0, 1), batch_group_count=3)
conv("within limits", low=-50, high=60)
conv("no image", (0, 3, 7, 6))
conv("no filter", y=(0, 3, 3, 2))
conv("a window as large as the image", (1, 3, 3, 2))

conv("ranks", y=(4, 3, 3))
conv("rank 2", (3, 4), (4, 4))
for name in ["window_strides", "lhs_dilation", "rhs_dilation"]:
    conv(f"{name} of three", **{name: [1, 1, 1]})
    conv(f"{name} of 0", **{name: [2, 0]})
    conv(f"{name} too large", hybrid=False, **{name: [1, 2**31]})
conv("padding that is none", padding="FULL")
conv("explicit padding beside another", padding="SAME", explicit_padding=[0, 0, 0, 0])
conv("too few explicit paddings", padding="EXPLICIT", explicit_padding=[0, 0])
conv("negative explicit padding", padding="EXPLICIT", explicit_padding=[0, -1, 2, 0])
conv("dimension numbers that are none", dimension_numbers=b"\xff\xff")
conv("a dimension number of 4", dimension_numbers=numbers((0, 4, 1, 2), (2, 3, 0, 1), (0, 3, 1, 2)))
conv("a kernel's dimension number of 4", dimension_numbers=numbers((0, 3, 1, 2), (4, 3, 0, 1), (0, 3, 1, 2)))
conv("three spatial dimensions", dimension_numbers=numbers((0, 3, 1, 2, 2), (2, 3, 0, 1), (0, 3, 1, 2)))
conv("one spatial dimension of the kernel", dimension_numbers=numbers((0, 3, 1, 2), (2, 3, 0), (0, 3, 1, 2)))
for groups in [0, -1, 2, 4]:
    conv(f"{groups} groups of features", feature_group_count=groups)
conv("rhs features do not divide", (2, 3, 7, 6), (4, 2, 3, 2))
conv("rhs features are too few", (2, 4, 7, 6), (4, 2, 3, 2))
conv("rhs outputs and groups of features", (2, 6, 5, 5), (3, 3, 2, 2), feature_group_count=2)
for groups in [0, -1, 3]:
    conv(f"{groups} groups of images", batch_group_count=groups)
conv("rhs outputs and groups of images", (4, 3, 5, 5), (5, 3, 2, 2), batch_group_count=2)
conv("left axis", hybrid=False, lhs_axis=0)
conv("right axis", axes=(1, -1))
conv("output axis", axes=(0, 0), hybrid=False)
conv("output along features only", axes=(-1, 1), output_features=4, hybrid=False)
conv("output scales", axes=(0, 1), output_features=3, hybrid=False)
conv("left scales", hybrid=False, changes={"lhs_scales": np.ones(2, np.float32), "lhs_zero_points": np.ones(2, np.int32)})
conv("right scales", changes={"rhs_scales": np.ones(4, np.float32), "rhs_zero_points": np.ones(4, np.int32)})
conv("right zero points", changes={"rhs_zero_points": np.ones(4, np.int32)})
for name in ["lhs", "rhs", "output"]:
    conv(f"{name} scale of 0", hybrid=name == "rhs", changes={name + "_scales": np.float32(0)})
conv("a window much larger than the image", (1, 3, 2, 2), (4, 3, 9, 9))

CASES = SHARED[FIRST:]
del SHARED[FIRST:]
