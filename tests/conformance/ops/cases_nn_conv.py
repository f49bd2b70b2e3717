"""Cases of convolutions: strides, dilations, paddings, groups, every dtype, gradients, bad shapes."""
import numpy as np

from runner import Case, bfloat16

F = [np.float32, np.float64, np.float16, bfloat16]
random = np.random.RandomState(13)
CASES = []
LOOSE = {"float32": (2e-4, 2e-4), "float64": (1e-10, 1e-10), "float16": (4e-2, 6e-2),
         "bfloat16": (8e-2, 2e-1), "int32": None}


def add(op, inputs, attrs=None, dtype=np.float32, **more):
    CASES.append(Case(op, inputs, attrs, tolerance=LOOSE[np.dtype(dtype).name], **more))


def values(dtype, shape):
    if np.dtype(dtype).kind == "i":
        return random.randint(-9, 10, shape).astype(dtype)
    return random.uniform(-1, 1, shape).astype(dtype)


def out_size(size, window, stride, dilation, padding, pads):
    reach = (window - 1) * dilation + 1
    if padding == "SAME":
        return -(-size // stride)
    return (size + sum(pads) - reach) // stride + 1


def convolve(dtype, image, window, channels, strides, dilations, padding, explicit=(),
             gradients=True):
    """Forward and both gradients of one geometry; image is [batch, spatial..., channels]."""
    rank = len(image)
    kind = "Conv2D" if rank == 4 else "Conv3D"
    x, w = values(dtype, image), values(dtype, window + channels)
    attrs = {"strides": [1] + list(strides) + [1], "padding": padding,
             "dilations": [1] + list(dilations) + [1]}
    if explicit:
        attrs["explicit_paddings"] = [0, 0] + list(explicit) + [0, 0]
    add(kind, [x, w], attrs, dtype)
    if not gradients:
        return
    pads = [explicit[2 * i:2 * i + 2] if explicit else (0, 0) for i in range(rank - 2)]
    out = [out_size(*item, padding, pad) for *item, pad in
           zip(image[1:-1], window, strides, dilations, pads)]
    gradient = values(dtype, (image[0], *out, channels[1]))
    suffix = "" if rank == 4 else "V2"
    add(kind + "BackpropInput" + suffix, [np.int32(image), w, gradient], attrs, dtype)
    if np.dtype(dtype).kind != "i":
        add(kind + "BackpropFilter" + suffix, [x, np.int32(w.shape), gradient], attrs, dtype)
    if rank == 5 and dtype is not bfloat16:  # the old ops take whole tensors for their shapes
        add("Conv3DBackpropInput", [x, w, gradient], attrs, dtype)
        add("Conv3DBackpropFilter", [x, w, gradient], attrs, dtype)


ONE = (1, 1)
for dtype in F + [np.int32]:
    convolve(dtype, (2, 7, 8, 3), (3, 3), (3, 5), ONE, ONE, "SAME")
    convolve(dtype, (2, 7, 8, 3), (3, 2), (3, 20), (2, 2), ONE, "VALID")
    convolve(dtype, (1, 6, 5, 16), (1, 1), (16, 32), ONE, ONE, "VALID")
for padding in ["SAME", "VALID"]:
    for strides in [(1, 1), (2, 2), (1, 2), (3, 1), (4, 4)]:
        for window in [(1, 1), (2, 2), (3, 3), (5, 3), (1, 4), (7, 7)]:
            convolve(np.float32, (2, 11, 9, 4), window, (4, 18), strides, ONE, padding)
for padding in ["SAME", "VALID"]:
    for dilations in [(2, 2), (1, 3), (3, 1)]:
        convolve(np.float32, (2, 13, 12, 3), (3, 3), (3, 6), ONE, dilations, padding,
                 gradients=False)
        convolve(np.float32, (2, 13, 12, 3), (3, 3), (3, 6), (2, 2), dilations, padding,
                 gradients=False)
for explicit in [(1, 2, 3, 0), (0, 0, 2, 2), (5, 4, 1, 1)]:
    convolve(np.float32, (2, 6, 7, 3), (3, 2), (3, 6), (1, 2), ONE, "EXPLICIT", explicit)
for groups, channels in [(2, (3, 8)), (4, (2, 4)), (8, (1, 24))]:
    convolve(np.float32, (2, 6, 7, groups * channels[0]), (3, 3), channels, ONE, ONE, "SAME",
             gradients=False)
    convolve(np.float32, (2, 6, 7, groups * channels[0]), (3, 3), channels, (2, 1), (1, 1),
             "VALID", gradients=False)
convolve(np.float32, (1, 56, 56, 64), (3, 3), (64, 64), ONE, ONE, "SAME")
convolve(np.float32, (3, 14, 14, 40), (3, 3), (40, 50), (2, 2), ONE, "SAME")
convolve(np.float32, (4, 28, 28, 1), (5, 5), (1, 32), ONE, ONE, "SAME")
convolve(np.float32, (2, 5, 5, 300), (3, 3), (300, 17), ONE, ONE, "SAME")
convolve(np.float32, (2, 32, 32, 3), (7, 7), (3, 64), (2, 2), ONE, "SAME")
convolve(np.float32, (0, 5, 5, 3), (3, 3), (3, 4), ONE, ONE, "SAME")
convolve(np.float32, (2, 2, 2, 3), (3, 3), (3, 4), ONE, ONE, "VALID", gradients=False)
convolve(np.float32, (2, 5, 5, 3), (3, 3), (3, 0), ONE, ONE, "SAME", gradients=False)
for image, window in [((4, 4, 2), (3, 3, 2, 5)), ((1, 4, 4, 2), (3, 3, 3, 5)),
                      ((1, 4, 4, 4), (3, 3, 2, 5)), ((1, 4, 4, 2), (3, 3, 2)),
                      ((1, 4, 4, 2), (3, 0, 2, 3)), ((1, 4, 4, 0), (3, 3, 0, 3)),
                      ((1, 1, 1, 2), (3, 3, 2, 4))]:
    add("Conv2D", [values(np.float32, image), values(np.float32, window)],
        {"strides": [1, 1, 1, 1], "padding": "VALID"})
for attrs in [{"strides": [2, 1, 1, 1]}, {"dilations": [1, 1, 1, 2]},
              {"data_format": "NCHW"}]:
    add("Conv2D", [values(np.float32, (1, 4, 4, 4)), values(np.float32, (3, 3, 4, 4))],
        {"strides": [1, 1, 1, 1], "padding": "VALID", **attrs})
for sizes, gradient in [((4, 4), (1, 2, 2, 4)), ((4, 4, 2), (1, 2, 2, 4)),
                        ((1, 4, 4, 2), (1, 3, 3, 4)), ((1, 4, 4, 2), (2, 2, 2, 4)),
                        ((1, 4, 4, 2), (1, 2, 2, 3)), ((1, 4, 4, 3), (1, 2, 2, 4)),
                        ((1, -4, 4, 2), (1, 2, 2, 4)), ((1, 4, 4, 2), (2, 2, 4))]:
    add("Conv2DBackpropInput", [np.int32(sizes), values(np.float32, (3, 3, 2, 4)),
                                values(np.float32, gradient)],
        {"strides": [1, 1, 1, 1], "padding": "VALID"})
for sizes, gradient in [((3, 3, 2, 4), (1, 2, 3, 4)), ((3, 3, 2), (1, 2, 2, 4)),
                        ((3, 3, 3, 4), (1, 2, 2, 4)), ((3, 3, 2, 4), (1, 2, 2, 5))]:
    add("Conv2DBackpropFilter", [values(np.float32, (1, 4, 4, 2)), np.int32(sizes),
                                 values(np.float32, gradient)],
        {"strides": [1, 1, 1, 1], "padding": "VALID"})

# ---- Three dimensions ----
ONE3 = (1, 1, 1)
for dtype in F:
    convolve(dtype, (2, 5, 6, 7, 3), (3, 2, 3), (3, 4), ONE3, ONE3, "SAME")
    convolve(dtype, (1, 5, 6, 7, 2), (2, 2, 2), (2, 17), (2, 1, 2), ONE3, "VALID")
convolve(np.float32, (2, 4, 4, 4, 8), (1, 1, 1), (8, 8), ONE3, ONE3, "SAME")
convolve(np.float32, (2, 4, 9, 4, 8), (3, 3, 3), (8, 8), (3, 2, 1), ONE3, "SAME")
for image, window in [((4, 4, 4, 2), (3, 3, 3, 2, 5)), ((1, 4, 4, 4, 3), (3, 3, 3, 2, 5)),
                      ((1, 4, 4, 4, 4), (3, 3, 3, 2, 6)), ((1, 1, 1, 1, 2), (3, 3, 3, 2, 5))]:
    add("Conv3D", [values(np.float32, image), values(np.float32, window)],
        {"strides": [1] * 5, "padding": "VALID"})
for image, window, gradient in [((1, 4, 4, 4, 2), (3, 3, 3, 2, 4), (1, 2, 2, 2, 3)),
                                ((1, 4, 4, 4, 2), (3, 3, 3, 2, 4), (1, 3, 2, 2, 4)),
                                ((1, 4, 4, 4, 2), (3, 3, 3, 2, 4), (2, 2, 2, 2, 4)),
                                ((1, 4, 4, 4, 3), (3, 3, 3, 2, 4), (1, 2, 2, 2, 4)),
                                ((4, 4, 4, 2), (3, 3, 3, 2, 4), (1, 2, 2, 2, 4)),
                                ((1, 4, 4, 4, 2), (3, 3, 3, 2), (1, 2, 2, 2, 4)),
                                ((1, 4, 4, 4, 2), (3, 3, 3, 2, 4), (2, 2, 2, 4))]:
    for op in ["Conv3DBackpropInput", "Conv3DBackpropFilter"]:
        add(op, [values(np.float32, shape) for shape in (image, window, gradient)],
            {"strides": [1] * 5, "padding": "VALID"})


# ---- Depthwise ----
def depthwise(dtype, image, window, multiplier, stride, padding, explicit=()):
    x, w = values(dtype, image), values(dtype, window + (image[3], multiplier))
    attrs = {"strides": [1, stride, stride, 1], "padding": padding}
    if explicit:
        attrs["explicit_paddings"] = [0, 0] + list(explicit) + [0, 0]
    pads = [explicit[2 * i:2 * i + 2] if explicit else (0, 0) for i in range(2)]
    out = [out_size(*item, padding, pad) for *item, pad in
           zip(image[1:-1], window, (stride, stride), ONE, pads)]
    gradient = values(dtype, (image[0], *out, image[3] * multiplier))
    add("DepthwiseConv2dNative", [x, w], attrs, dtype)
    add("DepthwiseConv2dNativeBackpropInput", [np.int32(image), w, gradient], attrs, dtype)
    add("DepthwiseConv2dNativeBackpropFilter", [x, np.int32(w.shape), gradient], attrs, dtype)


for dtype in F:
    depthwise(dtype, (2, 6, 7, 5), (3, 3), 1, 1, "SAME")
    depthwise(dtype, (2, 6, 7, 3), (3, 2), 2, 2, "VALID")
for padding in ["SAME", "VALID"]:
    for stride in [1, 2, 3]:
        for multiplier in [1, 3]:
            depthwise(np.float32, (2, 9, 8, 40), (3, 5), multiplier, stride, padding)
for stride in [1, 2]:
    for window in [(3, 3), (5, 5)]:
        depthwise(np.float32, (2, 15, 12, 70), window, 1, stride, "SAME")
depthwise(np.float32, (1, 28, 28, 64), (3, 3), 1, 1, "SAME")
depthwise(np.float32, (2, 6, 6, 4), (3, 3), 2, 1, "EXPLICIT", (1, 2, 0, 1))
for image, window, attrs in [((4, 4, 2), (3, 3, 2, 3), {}), ((1, 4, 4, 2), (3, 3, 3, 3), {}),
                             ((1, 4, 4, 2), (3, 3, 2, 3), {"strides": [1, 1, 2, 1]}),
                             ((1, 2, 2, 2), (3, 3, 2, 3), {}), ((1, 4, 4, 2), (3, 3, 2), {}),
                             ((1, 2, 4, 4), (3, 3, 2, 3), {"data_format": "NCHW"})]:
    add("DepthwiseConv2dNative", [values(np.float32, image), values(np.float32, window)],
        {"strides": [1, 1, 1, 1], "padding": "VALID", **attrs})
for gradient in [(1, 2, 2, 5), (1, 3, 2, 6), (2, 2, 2, 6), (2, 2, 6)]:
    add("DepthwiseConv2dNativeBackpropInput",
        [np.int32([1, 4, 4, 2]), values(np.float32, (3, 3, 2, 3)), values(np.float32, gradient)],
        {"strides": [1, 1, 1, 1], "padding": "VALID"})
    add("DepthwiseConv2dNativeBackpropFilter",
        [values(np.float32, (1, 4, 4, 2)), np.int32([3, 3, 2, 3]), values(np.float32, gradient)],
        {"strides": [1, 1, 1, 1], "padding": "VALID"})

# ---- With an end fused to it ----
for ops in [["BiasAdd"], ["BiasAdd", "Relu"], ["BiasAdd", "Relu6"], ["BiasAdd", "Elu"],
            ["BiasAdd", "LeakyRelu"], ["FusedBatchNorm"], ["FusedBatchNorm", "Relu"]]:
    for window, strides in [((3, 3), (1, 1)), ((1, 1), (1, 1)), ((3, 3), (2, 2))]:
        arguments = [random.uniform(0.5, 2, (18,)).astype(np.float32)
                     for _ in range(4 if ops[0] == "FusedBatchNorm" else 1)]
        add("_FusedConv2D", [values(np.float32, (2, 8, 9, 4)),
                             values(np.float32, window + (4, 18)), arguments, []],
            {"strides": [1, *strides, 1], "padding": "SAME", "fused_ops": ops,
             "num_args": len(arguments), "leakyrelu_alpha": 0.3})
