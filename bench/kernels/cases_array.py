"""Ops that move elements, and those that say something about shapes."""

import numpy as np
import tensorflow as tf
from table import B, F, I, R, V, Case, given, raw, untimed

N, M = 1000, 1 << 20

for op in ("Identity", "PreventGradient", "StopGradient", "Snapshot", "Shape", "Size", "Rank",
           "GuaranteeConst"):
    raw(op, {"small": dict(input=F(25, 40)), "large": dict(input=F(1024, 1024))})
raw("IdentityN", {"small": dict(input=[F(25, 40), F(N)])})
raw("ShapeN", {"small": dict(input=[F(25, 40), F(N)])})
raw("EnsureShape", {"small": dict(input=F(25, 40))}, dict(shape=[25, None]))
raw("Reshape", {"small": dict(tensor=F(25, 40), shape=[40, -1])})
raw("Squeeze", {"small": dict(input=F(25, 1, 40))}, dict(axis=[1]))
raw("ExpandDims", {"small": dict(input=F(25, 40), axis=1)})
raw("BroadcastArgs", {"small": dict(s0=[25, 40], s1=[1, 40])})
raw("BroadcastGradientArgs", {"small": dict(s0=[25, 40], s1=[1, 40])})
raw("BroadcastTo", {"small": dict(input=F(40), shape=[25, 40]),
                    "large rows": dict(input=F(1024), shape=[1024, 1024]),
                    "large columns": dict(input=F(1024, 1), shape=[1024, 1024])})
raw("Fill", {"small": dict(dims=[N], value=V(np.float32(3))),
             "large": dict(dims=[M], value=V(np.float32(3)))})
raw("Range", {"small": dict(start=0, limit=N, delta=V(np.int32(1))),
              "large": dict(start=0, limit=M, delta=V(np.int32(1)))})
raw("LinSpace", {"small": dict(start=0.0, stop=V(np.float32(1)), num=N),
                 "large": dict(start=0.0, stop=V(np.float32(1)), num=M)})
raw("OneHot", {"small": dict(indices=I(50), depth=20, on_value=1.0, off_value=0.0),
               "large": dict(indices=I(1024), depth=1000, on_value=1.0, off_value=0.0)})
raw("ConcatOffset", {"small": dict(concat_dim=1, shape=[V(np.int32([2, 3])), V(np.int32([2, 4]))])})

# ---- Joining and parting ----
raw("Concat", {"small": dict(concat_dim=1, values=[F(25, 20), F(25, 20)]),
               "large": dict(concat_dim=1, values=[F(1024, 512), F(1024, 512)])})
raw("ConcatV2", {"small": dict(axis=1, values=[F(25, 20), F(25, 20)]),
                 "large inner": dict(axis=1, values=[F(1024, 512), F(1024, 512)]),
                 "large narrow": dict(axis=1, values=[F(8192, 32), F(8192, 8)]),
                 "large outer": dict(axis=0, values=[F(512, 1024), F(512, 1024)])})
raw("Pack", {"small": dict(values=[F(500), F(500)]), "large": dict(values=[F(M // 2), F(M // 2)])})
raw("Pack", {"small": dict(values=[F(500), F(500)]),
             "large": dict(values=[F(65536) for _ in range(4)])}, dict(axis=1), name="Pack inner")
raw("Unpack", {"small": dict(value=F(4, 250)), "large": dict(value=F(4, M // 4))}, dict(num=4))
raw("Split", {"small": dict(axis=1, value=F(25, 40)), "large": dict(axis=1, value=F(1024, 1024))},
    dict(num_split=4))
raw("SplitV", {"small": dict(value=F(25, 40), size_splits=[10, 30], axis=1),
               "large": dict(value=F(1024, 1024), size_splits=[256, 768], axis=1)}, dict(num_split=2))
raw("Slice", {"small": dict(input=F(25, 40), begin=[5, 5], size=[15, 30]),
              "large": dict(input=F(1024, 1024), begin=[64, 64], size=[900, 900])})
raw("StridedSlice",
    {"small": dict(input=F(25, 40), begin=[0, 1], end=[25, 40], strides=[1, 2]),
     "large step": dict(input=F(1024, 1024), begin=[0, 1], end=[1024, 1024], strides=[1, 2]),
     "large block": dict(input=F(1024, 1024), begin=[64, 64], end=[960, 960], strides=[1, 1])})
raw("StridedSliceGrad",
    {"small": dict(shape=[25, 40], begin=[0, 1], end=[25, 40], strides=[1, 2], dy=F(25, 20)),
     "large": dict(shape=[1024, 1024], begin=[64, 64], end=[960, 960], strides=[1, 1],
                   dy=F(896, 896))})
raw("Pad", {"small": dict(input=F(25, 30), paddings=[[1, 1], [2, 2]]),
            "large": dict(input=F(32, 56, 56, 16), paddings=[[0, 0], [1, 1], [1, 1], [0, 0]])})
raw("PadV2", {"small": dict(input=F(25, 30), paddings=[[1, 1], [2, 2]], constant_values=1.0),
              "large": dict(input=F(32, 56, 56, 16), paddings=[[0, 0], [1, 1], [1, 1], [0, 0]],
                            constant_values=1.0)})
raw("MirrorPad", {"small": dict(input=F(25, 30), paddings=[[1, 1], [2, 2]]),
                  "large": dict(input=F(32, 56, 56, 16),
                                paddings=[[0, 0], [1, 1], [1, 1], [0, 0]])}, dict(mode="REFLECT"))
raw("Tile", {"small": dict(input=F(25, 10), multiples=[1, 4]),
             "large": dict(input=F(256, 256), multiples=[4, 4])})
raw("Reverse", {"small": dict(tensor=F(25, 40), dims=[False, True]),
                "large": dict(tensor=F(1024, 1024), dims=[False, True])})
raw("ReverseV2", {"small": dict(tensor=F(25, 40), axis=[1]),
                  "large rows": dict(tensor=F(1024, 1024), axis=[1]),
                  "large outer": dict(tensor=F(1024, 1024), axis=[0])})
raw("Transpose", {"small": dict(x=F(25, 40), perm=[1, 0]),
                  "large": dict(x=F(1024, 1024), perm=[1, 0]),
                  "large channels": dict(x=F(16, 64, 64, 16), perm=[0, 3, 1, 2]),
                  "large heads": dict(x=F(16, 64, 8, 64), perm=[0, 2, 1, 3])})
raw("InvertPermutation", {"small": dict(x=V(np.arange(N, dtype=np.int32)[::-1])),
                          "large": dict(x=V(np.arange(M, dtype=np.int32)[::-1]))})

# ---- By index ----
raw("Gather", {"small": dict(params=F(50, 20), indices=I(30, high=50)),
               "large": dict(params=F(10000, 64), indices=I(4096, high=10000))})
raw("GatherV2", {"small": dict(params=F(50, 20), indices=I(30, high=50), axis=0),
                 "large": dict(params=F(10000, 64), indices=I(4096, high=10000), axis=0),
                 "large axis 1": dict(params=F(64, 1000, 8), indices=I(500, high=1000), axis=1),
                 "large scalars": dict(params=F(M), indices=I(1 << 17, high=M), axis=0)})
raw("GatherNd", {"small": dict(params=F(50, 20), indices=I(40, 2, high=20)),
                 "large": dict(params=F(1000, 64), indices=I(4096, 1, high=1000)),
                 "large scalars": dict(params=F(1000, 1000), indices=I(65536, 2, high=1000))})
raw("ScatterNd", {"small": dict(indices=I(40, 1, high=50), updates=F(40, 20), shape=[50, 20]),
                  "large": dict(indices=I(4096, 1, high=10000), updates=F(4096, 64),
                                shape=[10000, 64])})
raw("DynamicPartition", {"small": dict(data=F(50, 20), partitions=I(50, high=3)),
                         "large": dict(data=F(8192, 64), partitions=I(8192, high=3))},
    dict(num_partitions=3))


def stitch(op):
    def build(rows_and_width):
        rows, width = rows_and_width
        order = np.random.RandomState(1).permutation(rows).astype(np.int32)
        indices = [given(V(order[:rows // 2])), given(V(order[rows // 2:]))]
        data = [given(F(rows // 2, width)), given(F(rows - rows // 2, width))]
        return lambda: getattr(R, op)(indices=indices, data=data)
    Case(op, {"small": (50, 20), "large": (8192, 64)}, build)


stitch("DynamicStitch")
stitch("ParallelDynamicStitch")
raw("Where", {"small": dict(condition=B(N)), "large": dict(condition=B(M)),
              "large matrix": dict(condition=B(1024, 1024))})
raw("Unique", {"small": dict(x=I(N)), "large": dict(x=I(1 << 18, high=10000))})
raw("TopKV2", {"small": dict(input=F(10, 100), k=5), "large": dict(input=F(64, 10000), k=5),
               "large many": dict(input=F(16, 10000), k=100)})
for op in ("InTopK", "InTopKV2"):
    sizes = {"small": dict(predictions=F(50, 20), targets=I(50, high=20)),
             "large": dict(predictions=F(512, 1000), targets=I(512, high=1000))}
    if op == "InTopKV2":
        sizes = {label: dict(size, k=5) for label, size in sizes.items()}
    raw(op, sizes, {} if op == "InTopKV2" else dict(k=5))
raw("Diag", {"small": dict(diagonal=F(30)), "large": dict(diagonal=F(1024))})
raw("DiagPart", {"small": dict(input=F(30, 30)), "large": dict(input=F(1024, 1024))})
raw("MatrixDiag", {"small": dict(diagonal=F(4, 15)), "large": dict(diagonal=F(16, 256))})
raw("MatrixDiagPart", {"small": dict(input=F(4, 15, 15)), "large": dict(input=F(16, 256, 256))})
raw("MatrixSetDiag", {"small": dict(input=F(4, 15, 15), diagonal=F(4, 15)),
                      "large": dict(input=F(16, 256, 256), diagonal=F(16, 256))})
raw("MatrixBandPart", {"small": dict(input=F(4, 15, 15), num_lower=np.int64(-1), num_upper=np.int64(0)),
                       "large": dict(input=F(16, 256, 256), num_lower=np.int64(-1),
                                     num_upper=np.int64(0))})
raw("SparseToDense",
    {"small": dict(sparse_indices=V(np.arange(0, N, 10, dtype=np.int64)), output_shape=np.int64([N]),
                   sparse_values=F(100), default_value=0.0),
     "large": dict(sparse_indices=V(np.arange(0, M, 64, dtype=np.int64)), output_shape=np.int64([M]),
                   sparse_values=F(M // 64), default_value=0.0)})

untimed("a value that the client gives, or the end of a function: no body of its own", "Placeholder",
        "PlaceholderWithDefault", "_Arg", "_Retval")
untimed("a value that is there already", "Const")
