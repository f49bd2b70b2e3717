"""Cases of poolings and their gradients: windows, strides, paddings, every dtype, ties, bad shapes."""
import numpy as np

from runner import Case, bfloat16

F = [np.float32, np.float64, np.float16, bfloat16]
I = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16]
random = np.random.RandomState(17)
CASES = []
LOOSE = {"float32": (2e-5, 2e-5), "float16": (2e-2, 2e-2), "bfloat16": (6e-2, 6e-2)}


def add(op, inputs, attrs=None, dtype=np.float32, **more):
    if op.startswith("AvgPool") and dtype == bfloat16:
        more["since"] = (2, 16)  # before, with oneDNN only
    CASES.append(Case(op, inputs, attrs, tolerance=LOOSE.get(np.dtype(dtype).name), **more))


def values(dtype, shape):
    if np.dtype(dtype).kind in "iu":
        return random.randint(0, 100, shape).astype(dtype)
    return random.uniform(-1, 1, shape).astype(dtype)


def out_size(size, window, stride, padding, pads=(0, 0)):
    return -(-size // stride) if padding == "SAME" else (size + sum(pads) - window) // stride + 1


def largest(x, window, strides, padding, pads=None):
    """The output of a maximum pooling, for the ops that are given it."""
    pads = pads or [(0, 0)] * len(window)
    out = [out_size(*item) for item in zip(x.shape[1:-1], window, strides,
                                           [padding] * len(window), pads)]
    result = np.zeros((x.shape[0], *out, x.shape[-1]), x.dtype)
    starts = []
    for size, w, s, o, p in zip(x.shape[1:-1], window, strides, out, pads):
        before = max((o - 1) * s + w - size, 0) // 2 if padding == "SAME" else p[0]
        starts.append([(max(i * s - before, 0), min(i * s - before + w, size)) for i in range(o)])
    for index in np.ndindex(*out):
        box = tuple(slice(*starts[d][i]) for d, i in enumerate(index))
        result[(slice(None), *index)] = x[(slice(None), *box)].max(
            axis=tuple(range(1, len(window) + 1)))
    return result


def pool(dtype, image, window, strides, padding, explicit=()):
    rank = len(image)
    suffix = "" if rank == 4 else "3D"
    x = values(dtype, image)
    attrs = {"ksize": [1, *window, 1], "strides": [1, *strides, 1], "padding": padding}
    pads = [tuple(explicit[2 * i:2 * i + 2]) for i in range(rank - 2)] if explicit else None
    if explicit:
        attrs["explicit_paddings"] = [0, 0, *explicit, 0, 0]
    y = largest(x, window, strides, padding, pads)
    add("MaxPool" + suffix, [x], attrs, dtype)
    add(f"MaxPool{suffix}Grad", [x, y, values(dtype, y.shape)], attrs, dtype)
    if not explicit:
        add(f"MaxPool{suffix}GradGrad", [x, y, values(dtype, x.shape)], attrs, dtype)
    if np.dtype(dtype).kind not in "iu" and not explicit:
        add("AvgPool" + suffix, [x], attrs, dtype)
        add(f"AvgPool{suffix}Grad", [np.int32(image), values(dtype, y.shape)], attrs, dtype)
    if rank == 4 and not explicit:
        add("MaxPoolV2", [x, np.int32(attrs["ksize"]), np.int32(attrs["strides"])],
            {"padding": padding}, dtype)
        add("MaxPoolGradV2", [x, y, values(dtype, y.shape), np.int32(attrs["ksize"]),
                              np.int32(attrs["strides"])], {"padding": padding}, dtype)
        add("MaxPoolGradGradV2", [x, y, values(dtype, x.shape), np.int32(attrs["ksize"]),
                                  np.int32(attrs["strides"])], {"padding": padding}, dtype)
        for index in [np.int32, np.int64]:
            for batch in [False, True]:
                add("MaxPoolWithArgmax", [x], {**attrs, "Targmax": index,
                                               "include_batch_in_index": batch}, dtype)


for dtype in F + I:
    pool(dtype, (2, 7, 6, 3), (2, 2), (2, 2), "VALID")
    pool(dtype, (2, 7, 6, 3), (3, 2), (1, 2), "SAME")
for padding in ["SAME", "VALID"]:
    for window in [(1, 1), (2, 2), (3, 3), (5, 2)]:
        for strides in [(1, 1), (2, 2), (3, 1)]:
            pool(np.float32, (2, 9, 8, 5), window, strides, padding)
    pool(np.float32, (2, 15, 14, 40), (3, 3), (2, 2), padding)
for dtype in F:  # windows that share many pixels, of few channels and of more than a vector's
    pool(dtype, (2, 13, 30, 3), (5, 5), (2, 2), "SAME")
    pool(dtype, (2, 9, 21, 1), (3, 3), (1, 1), "VALID")
    pool(dtype, (1, 12, 11, 70), (3, 3), (1, 1), "SAME")
    if dtype in (np.float32, bfloat16):
        pool(dtype, (1, 5, 6, 7, 5), (3, 3, 3), (1, 1, 1), "SAME")
pool(np.float32, (1, 13, 300, 3), (3, 3), (2, 2), "SAME")
pool(np.float32, (2, 9, 8, 33), (6, 4), (2, 2), "SAME")
pool(np.float32, (1, 7, 8, 9, 20), (3, 3, 2), (2, 2, 2), "SAME")
pool(np.float32, (1, 7, 8, 9, 3), (2, 2, 2), (1, 1, 1), "VALID")
pool(np.float32, (1, 20, 20, 3), (17, 17), (1, 1), "SAME")
pool(np.float32, (3, 14, 14, 300), (2, 2), (2, 2), "SAME")
pool(np.float32, (2, 28, 28, 32), (2, 2), (2, 2), "VALID")
pool(np.float32, (2, 4, 4, 2), (5, 5), (1, 1), "SAME")
pool(np.float32, (0, 4, 4, 2), (2, 2), (1, 1), "SAME")
pool(np.float32, (2, 5, 1, 3), (2, 2), (2, 2), "SAME")
pool(np.float32, (2, 5, 2, 3), (3, 3), (2, 2), "SAME")
for explicit in [(1, 1, 1, 1), (0, 1, 1, 0)]:
    pool(np.float32, (2, 6, 7, 3), (3, 2), (2, 1), "EXPLICIT", explicit)
for dtype in [np.float32, bfloat16]:
    pool(dtype, (2, 5, 6, 4, 3), (2, 2, 2), (2, 2, 2), "VALID")
    pool(dtype, (2, 5, 6, 4, 3), (3, 2, 1), (1, 2, 1), "SAME")
pool(np.float32, (1, 8, 8, 8, 20), (2, 2, 2), (2, 2, 2), "SAME")
S = [1, 1, 1, 1]
ties = np.ones((1, 4, 4, 2), np.float32)
add("MaxPoolGrad", [ties, np.ones((1, 3, 3, 2), np.float32), values(np.float32, (1, 3, 3, 2))],
    {"ksize": [1, 2, 2, 1], "strides": S, "padding": "VALID"})
for shape, window, stride in [((2, 29, 32, 19), 3, 2), ((3, 64, 61, 32), 3, 2),
                              ((2, 40, 31, 64), 2, 2), ((2, 17, 19, 21), 3, 1),
                              ((2, 17, 19, 5), 5, 2)]:
    few = np.random.RandomState(3).randint(0, 4, shape).astype(np.float32)
    for padding in ["SAME", "VALID"]:
        y = largest(few, (window, window), (stride, stride), padding, None)
        attrs = {"ksize": [1, window, window, 1], "strides": [1, stride, stride, 1],
                 "padding": padding}
        add("MaxPoolGrad", [few, y, values(np.float32, y.shape)], attrs)
        add("MaxPoolGradGrad", [few, y, values(np.float32, few.shape)], attrs)
        add("MaxPoolWithArgmax", [few], {**attrs, "Targmax": np.int64})
for place in [(0, 0), (1, 1), (2, 2), (0, 1)]:  # no number: the largest only in the first place
    holed = np.random.RandomState(4).uniform(-1, 1, (1, 7, 6, 19)).astype(np.float32)
    holed[0, place[0], place[1]] = np.nan
    for window, padding in [(2, "VALID"), (3, "VALID"), (3, "SAME")]:
        y = largest(np.nan_to_num(holed, nan=-2), (window, window), (2, 2), padding, None)
        add("MaxPoolGrad", [holed, y, values(np.float32, y.shape)],
            {"ksize": [1, window, window, 1], "strides": [1, 2, 2, 1], "padding": padding})
add("MaxPool3DGrad", [np.ones((1, 3, 3, 3, 2), np.float32), np.ones((1, 2, 2, 2, 2), np.float32),
                      values(np.float32, (1, 2, 2, 2, 2))],
    {"ksize": [1, 2, 2, 2, 1], "strides": [1] * 5, "padding": "VALID"})
add("MaxPool", [values(np.float32, (2, 3, 3, 6))],
    {"ksize": [1, 1, 1, 3], "strides": [1, 1, 1, 3], "padding": "VALID"})
for op in ["MaxPool", "AvgPool"]:
    for shape, attrs in [((4, 4, 2), {}), ((1, 4, 4, 2), {"ksize": [1, 0, 2, 1]}),
                         ((1, 4, 4, 2), {"ksize": [1, 5, 5, 1]}),
                         ((1, 4, 4, 2), {"ksize": [1, 6, 6, 1]}),
                         ((1, 4, 4, 2), {"ksize": [2, 2, 2, 1]}),
                         ((1, 4, 4, 4), {"ksize": [1, 2, 2, 2], "strides": [1, 1, 1, 2]}),
                         ((1, 4, 4, 4), {"ksize": [1, 1, 1, 3], "strides": [1, 1, 1, 2]}),
                         ((1, 4, 4, 2), {"strides": [2, 1, 1, 1]}),
                         ((1, 4, 4, 2), {"data_format": "NCHW"})]:
        add(op, [values(np.float32, shape)],
            {"ksize": [1, 2, 2, 1], "strides": S, "padding": "VALID", **attrs})
add("AvgPool", [values(np.float32, (1, 4, 4, 4))],
    {"ksize": [1, 1, 1, 2], "strides": [1, 1, 1, 2], "padding": "VALID"})
add("MaxPool", [values(np.float32, (1, 4, 4, 2))],
    {"ksize": [1, 2, 2, 1], "strides": S, "padding": "EXPLICIT",
     "explicit_paddings": [0, 0, 2, 2, 2, 2, 0, 0]})
add("MaxPoolV2", [values(np.float32, (1, 4, 4, 2)), np.int32([2, 2]), np.int32(S)],
    {"padding": "VALID"})
for out, gradient in [((1, 3, 3, 2), (1, 2, 3, 2)), ((1, 2, 3, 2), (1, 2, 3, 2)),
                      ((1, 3, 3, 2), (3, 3, 2))]:
    add("MaxPoolGrad", [values(np.float32, (1, 4, 4, 2)), values(np.float32, out),
                        values(np.float32, gradient)],
        {"ksize": [1, 2, 2, 1], "strides": S, "padding": "VALID"})
add("MaxPoolGradGrad", [values(np.float32, (1, 4, 4, 2)), values(np.float32, (1, 3, 3, 2)),
                        values(np.float32, (1, 3, 3, 2))],
    {"ksize": [1, 2, 2, 1], "strides": S, "padding": "VALID"})
add("AvgPoolGrad", [np.int32([4, 4, 2]), values(np.float32, (1, 3, 3, 2))],
    {"ksize": [1, 2, 2, 1], "strides": S, "padding": "VALID"})
for batch, places in [(True, [[0, 3], [4, 7]]), (False, [[0, 3], [0, 3]])]:
    add("MaxPoolGradWithArgmax",
        [values(np.float32, (2, 2, 2, 1)), values(np.float32, (2, 1, 2, 1)),
         np.int64(places).reshape(2, 1, 2, 1)],
        {"ksize": [1, 2, 1, 1], "strides": [1, 2, 1, 1], "padding": "VALID",
         "include_batch_in_index": batch})
