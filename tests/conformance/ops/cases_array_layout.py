"""Cases of the ops that translate layouts and positions."""
import numpy as np

from runner import Case

CASES = []


def add(op, inputs, attrs=None, **more):
    CASES.append(Case(op, inputs, attrs, **more))


PAIRS = [("NHWC", "NCHW"), ("NCHW", "NHWC"), ("NHWC", "HWNC"), ("NHWC", "WHCN"), ("NHWC", "NHWC")]
LONG = [("NDHWC", "NCDHW"), ("NCDHW", "NDHWC")]
for dtype in (np.int32, np.int64):
    for source, target in PAIRS + LONG:
        attrs = {"src_format": source, "dst_format": target}
        size = len(source)
        add("DataFormatDimMap", [np.arange(-size, size, dtype=dtype)], attrs)
        add("DataFormatDimMap", [np.array(-1, dtype)], attrs)
        add("DataFormatDimMap", [np.array([[0, 3], [2, 1]], dtype)], attrs)
        add("DataFormatVecPermute", [np.arange(7, 7 + size, dtype=dtype)], attrs)
        add("DataFormatVecPermute", [np.arange(2 * size, dtype=dtype).reshape(size, 2)], attrs)
        add("DataFormatVecPermute", [np.arange(size - 2, dtype=dtype)], attrs)
        add("DataFormatVecPermute", [np.arange(2 * size - 4, dtype=dtype).reshape(-1, 2)], attrs)
add("DataFormatVecPermute", [np.zeros((4, 3), np.int32)], name="DataFormatVecPermute(columns)")
add("DataFormatVecPermute", [np.zeros(6, np.int32)], name="DataFormatVecPermute(size)")
add("DataFormatVecPermute", [np.zeros((4, 2, 1), np.int32)], name="DataFormatVecPermute(rank)")
for dtype in (np.int32, np.int64):
    for dims in ([5], [3, 4], [2, 3, 4], [1, 1, 24]):
        add("UnravelIndex", [np.arange(int(np.prod(dims)), dtype=dtype), np.array(dims, dtype)])
        add("UnravelIndex", [np.array(4 % int(np.prod(dims)), dtype), np.array(dims, dtype)])
    for label, indices, dims in [("range", [24], [4, 6]), ("negative", [-1], [4, 6]),
                                 ("zero", [0], [4, 0]), ("matrix", [[1]], [4]), ("dims", [1], [[4]])]:
        add("UnravelIndex", [np.array(indices, dtype), np.array(dims, dtype)],
            name=f"UnravelIndex({label},{dtype.__name__})")
