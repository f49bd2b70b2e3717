"""Element-wise ops, reductions, products of matrices, random numbers."""

import numpy as np
import tensorflow as tf
from table import B, F, I, R, V, Case, given, raw

N, M = 1000, 1 << 20  # elements of a small and of a large input
SLOW = 1 << 18        # of a large input of ops that take long


def unary(*ops, low=-1.0, high=1.0, dtype=tf.float32, large=M, **attrs):
    for op in ops:
        raw(op, {"small": dict(x=F(N, low=low, high=high, dtype=dtype)),
                 "large": dict(x=F(large, low=low, high=high, dtype=dtype))}, attrs)


unary("Abs", "Ceil", "Floor", "IsFinite", "IsInf", "IsNan", "Neg", "Reciprocal", "Round", "Sign",
      "Square", low=-9.0, high=9.0)
unary("Exp", "Expm1", "Sigmoid", "Tanh", "Erf", "Erfc", "Sin", "Cos", "Tan", "Sinh", "Cosh",
      low=-3.0, high=3.0)
unary("Log", "Log1p", "Sqrt", "Rsqrt", low=0.1, high=9.0)
unary("Lgamma", "Digamma", low=0.1, high=9.0, large=SLOW)
for op in ("Elu", "LeakyRelu", "Relu", "Relu6", "Selu", "Softplus"):
    raw(op, {"small": dict(features=F(N, low=-3.0, high=8.0)),
             "large": dict(features=F(M, low=-3.0, high=8.0))})
raw("Angle", {"small": dict(input=V((np.arange(N) - 500 + 3j).astype(np.complex64))),
              "large": dict(input=V((np.arange(SLOW) - 500 + 3j).astype(np.complex64)))})
raw("L2Loss", {"small": dict(t=F(N)), "large": dict(t=F(M))})
raw("CheckNumerics", {"small": dict(tensor=F(N)), "large": dict(tensor=F(M))}, dict(message="bad"))
raw("ZerosLike", {"small": dict(x=F(N)), "large": dict(x=F(M))})
raw("Cast", {"small": dict(x=I(N)), "large": dict(x=I(M))}, dict(DstT=tf.float32))
raw("Cast", {"small": dict(x=F(N)), "large": dict(x=F(M))}, dict(DstT=tf.bfloat16),
    name="Cast to bfloat16")
raw("Cast", {"small": dict(x=F(N)), "large": dict(x=F(M))}, dict(DstT=tf.int32),
    name="Cast to int32")
raw("Bitcast", {"small": dict(input=F(N)), "large": dict(input=F(M))}, dict(type=tf.int32))


def binary(*ops, low=0.5, high=9.0, dtype=tf.float32, large=M):
    for op in ops:
        make = (lambda n: F(n, low=low, high=high)) if dtype is tf.float32 else \
            (lambda n: I(n, low=low, high=high, dtype=dtype))
        raw(op, {"small": dict(x=make(N), y=make(N)), "large": dict(x=make(large), y=make(large))})


binary("Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "DivNoNan", "Maximum", "Minimum",
       "SquaredDifference", "Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual",
       "Xdivy")
binary("Pow", "Atan2", "Xlogy", "FloorDiv", "FloorMod", large=SLOW)
binary("Mod", "TruncateDiv", "TruncateMod", low=1, high=90, dtype=tf.int32, large=SLOW)
for op in ("AddV2", "Mul", "Sub", "RealDiv"):
    raw(op, {"small rows": dict(x=F(25, 40), y=F(40, low=1, high=2)),
             "small columns": dict(x=F(25, 40), y=F(25, 1, low=1, high=2)),
             "small scalar": dict(x=F(N), y=F(low=1, high=2)),
             "large rows": dict(x=F(1024, 1024), y=F(1024, low=1, high=2)),
             "large columns": dict(x=F(1024, 1024), y=F(1024, 1, low=1, high=2)),
             "large scalar": dict(x=F(M), y=F(low=1, high=2))}, name=op + " broadcast")
for op in ("LogicalAnd", "LogicalOr"):
    raw(op, {"small": dict(x=B(N), y=B(N)), "large": dict(x=B(M), y=B(M))})
raw("LogicalNot", {"small": dict(x=B(N)), "large": dict(x=B(M))})
for op in ("EluGrad", "SeluGrad"):
    raw(op, {"small": dict(gradients=F(N), outputs=F(N)), "large": dict(gradients=F(M), outputs=F(M))})
for op in ("LeakyReluGrad", "Relu6Grad", "ReluGrad"):
    raw(op, {"small": dict(gradients=F(N), features=F(N)),
             "large": dict(gradients=F(M), features=F(M))})
for op in ("RsqrtGrad", "SigmoidGrad", "TanhGrad"):
    raw(op, {"small": dict(y=F(N), dy=F(N)), "large": dict(y=F(M), dy=F(M))})
raw("AddN", {"small": dict(inputs=[F(N), F(N), F(N)]), "large": dict(inputs=[F(M), F(M), F(M)])})
raw("ClipByValue", {"small": dict(t=F(N), clip_value_min=-0.5, clip_value_max=0.5),
                    "large": dict(t=F(M), clip_value_min=-0.5, clip_value_max=0.5)})
raw("Select", {"small": dict(condition=B(N), x=F(N), y=F(N)),
               "large": dict(condition=B(M), x=F(M), y=F(M))})
raw("SelectV2", {"small": dict(condition=B(N), t=F(N), e=F(N)),
                 "large": dict(condition=B(M), t=F(M), e=F(M)),
                 "large rows": dict(condition=B(1024, 1), t=F(1024, 1024), e=0.0)})

# ---- Reductions ----
for op in ("Sum", "Mean", "Max", "Min", "Prod"):
    raw(op, {"small all": dict(input=F(25, 40), axis=[0, 1]),
             "small rows": dict(input=F(25, 40), axis=[1]),
             "small columns": dict(input=F(25, 40), axis=[0]),
             "large all": dict(input=F(1024, 1024), axis=[0, 1]),
             "large rows": dict(input=F(1024, 1024), axis=[1]),
             "large columns": dict(input=F(1024, 1024), axis=[0]),
             "large middle": dict(input=F(32, 32, 32, 32), axis=[1, 2])})
for op in ("All", "Any"):
    raw(op, {"small": dict(input=B(25, 40), axis=[1]), "large": dict(input=B(1024, 1024), axis=[1])})
for op in ("ArgMax", "ArgMin"):
    raw(op, {"small": dict(input=F(25, 40), dimension=1),
             "large rows": dict(input=F(1024, 1024), dimension=1),
             "large columns": dict(input=F(1024, 1024), dimension=0),
             "large short": dict(input=F(8192, 10), dimension=1)})
for op in ("Cumsum", "Cumprod"):
    raw(op, {"small": dict(x=F(25, 40), axis=1),
             "large rows": dict(x=F(512, 512), axis=1), "large columns": dict(x=F(512, 512), axis=0)})
raw("Bincount", {"small": dict(arr=I(N), size=100, weights=V(np.zeros(0, np.float32))),
                 "large": dict(arr=I(M), size=100, weights=V(np.zeros(0, np.float32)))})
raw("SegmentSum", {"small": dict(data=F(50, 20), segment_ids=V(np.arange(50) // 4)),
                   "large": dict(data=F(8192, 64), segment_ids=V(np.arange(8192) // 4))})
raw("UnsortedSegmentSum",
    {"small": dict(data=F(50, 20), segment_ids=I(50, high=13), num_segments=13),
     "large": dict(data=F(8192, 64), segment_ids=I(8192, high=2000), num_segments=2000)})

# ---- Products ----
raw("MatMul", {"small": dict(a=F(16, 16), b=F(16, 16)), "small 30": dict(a=F(30, 30), b=F(30, 30)),
               "small vector": dict(a=F(1, 30), b=F(30, 30)),
               "large 64x784x128": dict(a=F(64, 784), b=F(784, 128)),
               "large 512": dict(a=F(512, 512), b=F(512, 512)),
               "large 128x1024x1024": dict(a=F(128, 1024), b=F(1024, 1024)),
               "large one row": dict(a=F(1, 1024), b=F(1024, 1024))})
raw("MatMul", {"small": dict(a=F(16, 16), b=F(16, 16)),
               "large": dict(a=F(64, 784), b=F(64, 128)), "large 512": dict(a=F(512, 512), b=F(512, 512))},
    dict(transpose_a=True), name="MatMul a'b")
raw("MatMul", {"small": dict(a=F(16, 16), b=F(16, 16)),
               "large": dict(a=F(64, 128), b=F(784, 128)), "large 512": dict(a=F(512, 512), b=F(512, 512))},
    dict(transpose_b=True), name="MatMul ab'")
for op in ("BatchMatMul", "BatchMatMulV2"):
    raw(op, {"small": dict(x=F(4, 8, 8), y=F(4, 8, 8)),
             "large": dict(x=F(32, 64, 64), y=F(32, 64, 64))})


def einsum(equation, x, y):
    tensors = [given(x), given(y)]
    return lambda: R.Einsum(inputs=tensors, equation=equation)


Case("Einsum", {"small": ("ij,jk->ik", F(16, 16), F(16, 16)),
                "large": ("bthd,bshd->bhts", F(4, 64, 8, 32), F(4, 64, 8, 32))},
     lambda size: einsum(*size))

SPARSE = np.stack([np.sort(np.random.RandomState(2).randint(0, 1024, 8192)),
                   np.random.RandomState(3).randint(0, 1024, 8192)], 1).astype(np.int64)
raw("SparseTensorDenseMatMul",
    {"small": dict(a_indices=V(SPARSE[:50] % [20, 20]), a_values=F(50), a_shape=np.int64([20, 20]),
                   b=F(20, 20)),
     "large": dict(a_indices=V(SPARSE), a_values=F(8192), a_shape=np.int64([1024, 1024]),
                   b=F(1024, 64))})


def definite(n):
    a = np.random.RandomState(7).rand(n, n).astype(np.float32)
    return V((a @ a.T + n * np.eye(n)).astype(np.float32))


raw("Cholesky", {"small": dict(input=definite(16)), "large": dict(input=definite(256))})
raw("MatrixInverse", {"small": dict(input=definite(16)), "large": dict(input=definite(256))})
raw("MatrixSolve", {"small": dict(matrix=definite(16), rhs=F(16, 4)),
                    "large": dict(matrix=definite(256), rhs=F(256, 64))})

# ---- Random ----
for op in ("RandomUniform", "RandomStandardNormal", "TruncatedNormal"):
    raw(op, {"small": dict(shape=[N]), "large": dict(shape=[M])}, dict(dtype=tf.float32, seed=1))
raw("RandomUniformInt", {"small": dict(shape=[N], minval=0, maxval=1000),
                         "large": dict(shape=[M], minval=0, maxval=1000)}, dict(seed=1))
raw("RandomShuffle", {"small": dict(value=F(100, 10)), "large": dict(value=F(8192, 32))}, dict(seed=1))
raw("Multinomial", {"small": dict(logits=F(10, 10), num_samples=5),
                    "large": dict(logits=F(64, 1000), num_samples=10)}, dict(seed=1))
raw("StatelessRandomGetKeyCounter", {"small": dict(seed=V(np.int32([1, 2])))})
raw("StatelessRandomUniformV2",
    {"small": dict(shape=[N], key=V(np.uint64([1])), counter=V(np.uint64([1, 2])), alg=1),
     "large": dict(shape=[M], key=V(np.uint64([1])), counter=V(np.uint64([1, 2])), alg=1)})
raw("LogUniformCandidateSampler",
    {"small": dict(true_classes=I(16, 1, high=1000, dtype=tf.int64)),
     "large": dict(true_classes=I(4096, 1, high=1000, dtype=tf.int64))},
    dict(num_true=1, num_sampled=64, unique=True, range_max=10000, seed=1))
