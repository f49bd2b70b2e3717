"""Gradients: the graphs that tf.gradients makes for each differentiable op, by its inputs, with incoming
gradients that are not all equal; for many also the gradients of the gradients."""
import numpy as np
import tensorflow as tf
from runner import Case

R = tf.raw_ops
tf1 = tf.compat.v1
CASES = []
rng = np.random.RandomState(17)


def real(*shape):
    return rng.uniform(.2, 1.5, shape).astype(np.float32) * rng.choice([-1, 1], shape).astype(np.float32)


def positive(*shape):
    return rng.uniform(.2, 1.5, shape).astype(np.float32)


def unit(*shape):
    return rng.uniform(-.9, .9, shape).astype(np.float32)


def distinct(*shape):
    """Values that are all different, so that the largest is one."""
    return (rng.permutation(int(np.prod(shape))) * .37 - 1).reshape(shape).astype(np.float32)


def grad(op, function, *arrays, second=False, tolerance=None, text="", since=None):
    """function takes tensors for the arrays and returns a tensor or several; those that are floats have
    gradients."""
    def build():
        feeds, inputs = {}, []
        for array in arrays:
            array = np.asarray(array)
            inputs.append(tf1.placeholder(tf.as_dtype(array.dtype), array.shape))
            feeds[inputs[-1]] = array
        outputs = [y for y in tf.nest.flatten(function(*inputs)) if y.dtype.is_floating or y.dtype.is_complex]
        sources = [x for x in inputs if x.dtype.is_floating or x.dtype.is_complex]
        weights = [tf.cast(tf.reshape(tf.cos(tf.cast(tf.range(tf.size(y)), tf.float32)), tf.shape(y)), y.dtype)
                   for y in outputs]
        first = tf1.gradients(outputs, sources, weights)
        fetches = [g for g in first if g is not None]
        assert fetches, f"{op} has no gradient"
        if second:
            again = tf1.gradients([g for g in fetches if isinstance(g, tf.Tensor)], sources)
            fetches += [g for g in again if g is not None]
        return feeds, [[tf.convert_to_tensor(g) for g in fetches]]
    CASES.append(Case(op, build=build, name=f"gradient of {op} {text or len(CASES)}",
                      tolerance=tolerance or (1e-4, 1e-5), since=since))


# ---- Element by element ----
UNARY = {
    "Abs": real, "Neg": real, "Square": real, "Sign": real,
    "Sqrt": positive, "Rsqrt": positive, "Log": positive, "Log1p": positive, "Exp": unit, "Expm1": unit,
    "Sin": real, "Cos": real, "Tan": unit, "Sinh": unit, "Cosh": unit, "Tanh": real, "Asin": unit, "Acos": unit,
    "Atan": real, "Asinh": real, "Atanh": unit, "Sigmoid": real, "Erf": real, "Erfc": real, "Lgamma": positive,
    "Digamma": positive, "Reciprocal": positive, "Inv": positive,
}
for op, make in UNARY.items():
    grad(op, lambda x, op=op: getattr(R, op)(x=x), make(3, 4), second=op != "Sign")
grad("Acosh", lambda x: R.Acosh(x=x), positive(3, 4) + 1.1)
for op in ["Relu", "Relu6", "Elu", "Selu", "Softplus", "Softsign"]:
    grad(op, lambda x, op=op: getattr(R, op)(features=x), real(3, 4) * 4, second=op != "Softsign")
grad("LeakyRelu", lambda x: R.LeakyRelu(features=x, alpha=.3), real(3, 4), second=True)
for op in ["Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "Maximum", "Minimum", "SquaredDifference", "DivNoNan",
           "Xdivy", "Atan2", "FloorMod"]:
    for a, b in [((3, 4), (3, 4)), ((3, 1), (4,)), ((), (2, 3)), ((2, 1, 3), (4, 1))]:
        grad(op, lambda x, y, op=op: getattr(R, op)(x=x, y=y), real(*a), real(*b), text=f"{a} {b}",
             second=op in ("Mul", "RealDiv", "SquaredDifference") and len(a) == 2,
             since=(2, 13) if op == "Atan2" and a != b else None)
for op in ["Pow", "Xlogy", "Xlog1py"]:
    grad(op, lambda x, y, op=op: getattr(R, op)(x=x, y=y), positive(3, 1), positive(2, 1, 4))
grad("MulNoNan", lambda x, y: R.MulNoNan(x=x, y=y), real(3, 1), real(4))
grad("AddN", lambda *xs: R.AddN(inputs=list(xs)), real(2, 3), real(2, 3), real(2, 3))
grad("AccumulateNV2", lambda *xs: tf1.accumulate_n(list(xs)), real(2, 3), real(2, 3))
grad("ClipByValue", lambda x, a, b: R.ClipByValue(t=x, clip_value_min=a, clip_value_max=b), real(3, 4),
     np.float32(-.5), np.float32(.6), since=(2, 13))
grad("Cast", lambda x: tf.cast(x, tf.float64), real(3))
grad("Cast", lambda x: tf.cast(x, tf.float16), real(3))
grad("CheckNumerics", lambda x: R.CheckNumerics(tensor=x, message="m"), real(3))
grad("Select", lambda c, x, y: R.Select(condition=c, x=x, y=y), np.array([True, False, True]), real(3, 2), real(3, 2))
grad("SelectV2", lambda c, x, y: R.SelectV2(condition=c, t=x, e=y), np.array([[True], [False]]), real(2, 3), real(3))
grad("L2Loss", lambda x: R.L2Loss(t=x), real(3, 4), second=True)
complex_numbers = (real(3) + 1j * real(3)).astype(np.complex64)
grad("Angle", lambda x: R.Angle(input=x), complex_numbers)
grad("ComplexAbs", lambda x: R.ComplexAbs(x=x), complex_numbers)
grad("Real", lambda x: R.Real(input=x) * R.Imag(input=x), complex_numbers)
grad("Conj", lambda x: R.Conj(input=x) * x, complex_numbers)
grad("Complex", lambda x, y: R.Complex(real=x, imag=y), real(3), real(3))

# ---- Reductions ----
for op in ["Sum", "Mean", "Max", "Min", "Prod"]:
    for axes in [[0], [1], [0, 2], [-1], [], [0, 1, 2]]:
        for keep in [False, True]:
            grad(op, lambda x, op=op, a=axes, k=keep: getattr(R, op)(input=x, axis=tf.constant(a, tf.int32), keep_dims=k),
                 distinct(2, 3, 2), text=f"{axes} {keep}")
grad("EuclideanNorm", lambda x: R.EuclideanNorm(input=x, axis=[1]), real(3, 4))
grad("Max", lambda x: R.Max(input=x, axis=[1]), np.float32([[1, 2, 2], [3, 3, 3]]), text="several largest")
for op in ["Cumsum", "Cumprod"]:
    for exclusive in [False, True]:
        for reverse in [False, True]:
            grad(op, lambda x, op=op, e=exclusive, r=reverse: getattr(R, op)(x=x, axis=1, exclusive=e, reverse=r),
                 real(2, 4))
grad("SegmentSum", lambda x: R.SegmentSum(data=x, segment_ids=[0, 0, 2]), real(3, 2))
grad("SegmentMean", lambda x: R.SegmentMean(data=x, segment_ids=[0, 0, 1]), real(3, 2))
grad("SegmentMax", lambda x: R.SegmentMax(data=x, segment_ids=[0, 0, 1]), distinct(3, 2))
grad("SegmentMin", lambda x: R.SegmentMin(data=x, segment_ids=[0, 0, 1]), distinct(3, 2))
for op in ["UnsortedSegmentSum", "UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentProd"]:
    grad(op, lambda x, op=op: getattr(R, op)(data=x, segment_ids=[2, 0, 2, -1], num_segments=3), distinct(4, 2) + .05)
for op in ["SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN"]:
    grad(op, lambda x, op=op: getattr(R, op)(data=x, indices=[0, 2, 2, 1], segment_ids=[0, 0, 1, 3]), real(4, 3))

# ---- Shapes and places ----
grad("Reshape", lambda x: R.Reshape(tensor=x, shape=[4, -1]), real(2, 6))
grad("ExpandDims", lambda x: R.ExpandDims(input=x, axis=1), real(2, 3))
grad("Squeeze", lambda x: R.Squeeze(input=x, axis=[1]), real(2, 1, 3))
grad("Transpose", lambda x: R.Transpose(x=x, perm=[2, 0, 1]), real(2, 3, 4))
grad("ConjugateTranspose", lambda x: R.ConjugateTranspose(x=x, perm=[1, 0]), (real(2, 3) + 1j * real(2, 3)).astype(np.complex64))
grad("Concat", lambda x, y: R.Concat(concat_dim=1, values=[x, y]), real(2, 3), real(2, 1))
grad("ConcatV2", lambda x, y, z: R.ConcatV2(values=[x, y, z], axis=-1), real(2, 3), real(2, 1), real(2, 2))
grad("ConcatV2", lambda x, y: R.ConcatV2(values=[x, y], axis=0), real(2, 3), real(1, 3))
grad("Pack", lambda x, y: R.Pack(values=[x, y], axis=1), real(2, 3), real(2, 3))
grad("Unpack", lambda x: R.Unpack(value=x, num=3, axis=1), real(2, 3))
grad("Split", lambda x: R.Split(axis=1, value=x, num_split=3), real(2, 6))
grad("SplitV", lambda x: R.SplitV(value=x, size_splits=[1, 3, 2], axis=1, num_split=3), real(2, 6))
grad("Slice", lambda x: R.Slice(input=x, begin=[1, 0], size=[2, 2]), real(4, 3))
for text, cut in [("begin", np.s_[1:]), ("step", np.s_[::2, 1]), ("reverse", np.s_[::-1]), ("new axis", np.s_[1, tf.newaxis, :2]),
                  ("ellipsis", np.s_[..., 1])]:
    grad("StridedSlice", lambda x, c=cut: x[c], real(4, 3), text=text, second=True)
grad("StridedSliceGrad", lambda dy: R.StridedSliceGrad(shape=[4, 3], begin=[1, 0], end=[3, 3], strides=[1, 2], dy=dy), real(2, 2))
grad("Gather", lambda x: R.Gather(params=x, indices=[[2, 0], [2, 1]]), real(3, 2))
grad("GatherV2", lambda x: R.GatherV2(params=x, indices=[[2, 0], [2, 1]], axis=0), real(3, 2))
grad("GatherV2", lambda x: R.GatherV2(params=x, indices=[2, 0, 2], axis=1), real(2, 3, 2), text="axis 1")
grad("GatherV2", lambda x: R.GatherV2(params=x, indices=[[1, 0], [2, 2]], axis=1, batch_dims=1), real(2, 3), text="batch")
grad("GatherNd", lambda x: R.GatherNd(params=x, indices=[[0, 1], [2, 0], [0, 1]]), real(3, 2), second=True)
grad("ScatterNd", lambda x: R.ScatterNd(indices=[[1], [3], [1]], updates=x, shape=[5, 2]), real(3, 2))
grad("TensorScatterUpdate", lambda x, y: R.TensorScatterUpdate(tensor=x, indices=[[1], [3]], updates=y), real(4, 2), real(2, 2))
grad("TensorScatterAdd", lambda x, y: R.TensorScatterAdd(tensor=x, indices=[[1], [3]], updates=y), real(4, 2), real(2, 2))
grad("DynamicPartition", lambda x: R.DynamicPartition(data=x, partitions=[0, 2, 0, 1], num_partitions=3), real(4, 2))
for op in ["DynamicStitch", "ParallelDynamicStitch"]:
    grad(op, lambda x, y, op=op: getattr(R, op)(indices=[[0, 2], [1, 3]], data=[x, y]), real(2, 3), real(2, 3))
grad("Tile", lambda x: R.Tile(input=x, multiples=[2, 3]), real(2, 3))
grad("BroadcastTo", lambda x: R.BroadcastTo(input=x, shape=[4, 2, 3]), real(2, 1))
grad("Pad", lambda x: R.Pad(input=x, paddings=[[1, 2], [0, 1]]), real(2, 3))
grad("PadV2", lambda x, c: R.PadV2(input=x, paddings=[[1, 2], [0, 1]], constant_values=c), real(2, 3), np.float32(3))
for mode in ["REFLECT", "SYMMETRIC"]:
    grad("MirrorPad", lambda x, m=mode: R.MirrorPad(input=x, paddings=[[1, 1], [2, 1]], mode=m), real(3, 4), text=mode)
grad("Reverse", lambda x: R.Reverse(tensor=x, dims=[True, False]), real(2, 3))
grad("ReverseV2", lambda x: R.ReverseV2(tensor=x, axis=[1]), real(2, 3))
grad("ReverseSequence", lambda x: R.ReverseSequence(input=x, seq_lengths=[2, 3], seq_dim=1, batch_dim=0), real(2, 4))
grad("Roll", lambda x: R.Roll(input=x, shift=[1], axis=[1]), real(2, 3))
grad("Fill", lambda x: R.Fill(dims=[2, 3], value=x), np.float32(2))
grad("Identity", lambda x: R.Identity(input=x), real(3))
grad("IdentityN", lambda x, y: R.IdentityN(input=[x, y]), real(3), real(2))
grad("EnsureShape", lambda x: R.EnsureShape(input=x, shape=[None, 3]), real(2, 3))
grad("PlaceholderWithDefault", lambda x: R.PlaceholderWithDefault(input=x, shape=[None]), real(3))
grad("StopGradient", lambda x: x * R.StopGradient(input=x), real(3))
grad("TopKV2", lambda x: R.TopKV2(input=x, k=2)[0], distinct(3, 4))
for block in ["SpaceToDepth", "DepthToSpace"]:
    grad(block, lambda x, b=block: getattr(R, b)(input=x, block_size=2), real(1, 2, 4, 4))
grad("SpaceToBatchND", lambda x: R.SpaceToBatchND(input=x, block_shape=[2, 2], paddings=[[0, 0], [1, 1]]), real(1, 2, 2, 3))
grad("BatchToSpaceND", lambda x: R.BatchToSpaceND(input=x, block_shape=[2, 2], crops=[[0, 0], [1, 0]]), real(4, 1, 2, 3))
grad("SparseToDense", lambda v, d: R.SparseToDense(sparse_indices=[[0, 1], [2, 0]], output_shape=[3, 2], sparse_values=v,
                                                   default_value=d), real(2), np.float32(.5))

# ---- Matrices ----
for a in [False, True]:
    for b in [False, True]:
        grad("MatMul", lambda x, y, a=a, b=b: R.MatMul(a=x, b=y, transpose_a=a, transpose_b=b),
             real(*((4, 3) if a else (3, 4))), real(*((5, 4) if b else (4, 5))), second=True)
        grad("BatchMatMulV2", lambda x, y, a=a, b=b: R.BatchMatMulV2(x=x, y=y, adj_x=a, adj_y=b),
             real(2, 1, *((4, 3) if a else (3, 4))), real(3, *((5, 4) if b else (4, 5))))
grad("BatchMatMul", lambda x, y: R.BatchMatMul(x=x, y=y), real(2, 3, 4), real(2, 4, 5), second=True)
for equation, shapes in [("ij,jk->ik", [(2, 3), (3, 4)]), ("bij,bjk->bik", [(2, 2, 3), (2, 3, 2)]), ("ij->j", [(2, 3)]),
                         ("ij,ij->", [(2, 3), (2, 3)])]:
    grad("Einsum", lambda *xs, e=equation: R.Einsum(inputs=list(xs), equation=e), *[real(*s) for s in shapes], text=equation)
for op in ["Diag", "MatrixDiag"]:
    grad(op, lambda x, op=op: getattr(R, op)(diagonal=x), real(3))
for op in ["DiagPart", "MatrixDiagPart"]:
    grad(op, lambda x, op=op: getattr(R, op)(input=x), real(3, 3))
grad("MatrixSetDiag", lambda x, d: R.MatrixSetDiag(input=x, diagonal=d), real(2, 3, 3), real(2, 3))
grad("MatrixBandPart", lambda x: R.MatrixBandPart(input=x, num_lower=1, num_upper=0), real(3, 4))
spd = (lambda m: m @ m.T + 3 * np.eye(3, dtype=np.float32))(real(3, 3))
grad("Cholesky", lambda x: R.Cholesky(input=x), spd)
grad("MatrixInverse", lambda x: R.MatrixInverse(input=x), spd)
grad("MatrixDeterminant", lambda x: R.MatrixDeterminant(input=x), spd)
for adjoint in [False, True]:
    grad("MatrixSolve", lambda x, y, a=adjoint: R.MatrixSolve(matrix=x, rhs=y, adjoint=a), spd, real(3, 2))
    grad("MatrixTriangularSolve", lambda x, y, a=adjoint: R.MatrixTriangularSolve(matrix=x, rhs=y, adjoint=a), spd, real(3, 2))
    grad("SparseTensorDenseMatMul", lambda v, y, a=adjoint: R.SparseTensorDenseMatMul(
        a_indices=[[0, 1], [1, 0], [1, 1]], a_values=v, a_shape=[2, 2], b=y, adjoint_a=a), real(3), real(2, 3))

# ---- Neural networks ----
image, depth_filter = real(2, 5, 5, 3), real(3, 3, 3, 4)
for padding in ["SAME", "VALID"]:
    for stride in [1, 2]:
        attrs = dict(strides=[1, stride, stride, 1], padding=padding)
        text = f"{padding} {stride}"
        grad("Conv2D", lambda x, f, k=attrs: R.Conv2D(input=x, filter=f, **k), image, depth_filter, text=text, second=stride == 1)
        grad("DepthwiseConv2dNative", lambda x, f, k=attrs: R.DepthwiseConv2dNative(input=x, filter=f, **k), image,
             real(3, 3, 3, 2), text=text)
        grad("MaxPool", lambda x, k=attrs: R.MaxPool(input=x, ksize=[1, 2, 2, 1], **k), distinct(2, 5, 5, 3), text=text, second=True)
        grad("AvgPool", lambda x, k=attrs: R.AvgPool(value=x, ksize=[1, 2, 2, 1], **k), image, text=text, second=True)
grad("Conv2DBackpropInput", lambda f, x: R.Conv2DBackpropInput(input_sizes=[2, 5, 5, 3], filter=f, out_backprop=x,
                                                              strides=[1, 2, 2, 1], padding="SAME"), depth_filter, real(2, 3, 3, 4))
grad("Conv2DBackpropFilter", lambda x, y: R.Conv2DBackpropFilter(input=x, filter_sizes=[3, 3, 3, 4], out_backprop=y,
                                                                strides=[1, 2, 2, 1], padding="SAME"), image, real(2, 3, 3, 4))
grad("DepthwiseConv2dNativeBackpropInput", lambda f, x: R.DepthwiseConv2dNativeBackpropInput(
    input_sizes=[2, 5, 5, 3], filter=f, out_backprop=x, strides=[1, 1, 1, 1], padding="SAME"), real(3, 3, 3, 2), real(2, 5, 5, 6))
grad("DepthwiseConv2dNativeBackpropFilter", lambda x, y: R.DepthwiseConv2dNativeBackpropFilter(
    input=x, filter_sizes=[3, 3, 3, 2], out_backprop=y, strides=[1, 1, 1, 1], padding="SAME"), image, real(2, 5, 5, 6))
grad("Conv3D", lambda x, f: R.Conv3D(input=x, filter=f, strides=[1, 1, 1, 1, 1], padding="SAME"), real(1, 3, 4, 4, 2), real(2, 2, 2, 2, 3))
grad("BiasAdd", lambda x, b: R.BiasAdd(value=x, bias=b), image, real(3), second=False)
grad("BiasAdd", lambda x, b: R.BiasAdd(value=x, bias=b, data_format="NCHW"), image, real(5), text="NCHW")
grad("BiasAddV1", lambda x, b: R.BiasAddV1(value=x, bias=b), image, real(3))
grad("BiasAddGrad", lambda x: R.BiasAddGrad(out_backprop=x), image)
grad("Softmax", lambda x: R.Softmax(logits=x), real(3, 5), second=True)
grad("LogSoftmax", lambda x: R.LogSoftmax(logits=x), real(3, 5), second=True)
grad("SoftmaxCrossEntropyWithLogits", lambda x, y: R.SoftmaxCrossEntropyWithLogits(features=x, labels=y)[0], real(3, 5),
     positive(3, 5))
grad("SparseSoftmaxCrossEntropyWithLogits", lambda x: R.SparseSoftmaxCrossEntropyWithLogits(features=x, labels=[1, 0, 4])[0],
     real(3, 5))
grad("LRN", lambda x: R.LRN(input=x, depth_radius=1), image)
for op in ["FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"]:
    for training in [True, False]:
        grad(op, lambda x, s, o, m, v, op=op, t=training: getattr(R, op)(
            x=x, scale=s, offset=o, mean=m[:0] if t else m, variance=v[:0] if t else v, epsilon=.01, is_training=t)[0],
             image, real(3), real(3), real(3), positive(3), text=f"training {training}", tolerance=(1e-3, 1e-4),
             second=training and op == "FusedBatchNormV3")
grad("ResizeBilinear", lambda x: R.ResizeBilinear(images=x, size=[7, 3]), image)
grad("ResizeNearestNeighbor", lambda x: R.ResizeNearestNeighbor(images=x, size=[7, 3]), image)


# ---- Flow ----
def loop(x):
    return tf1.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, tf.sin(y) * x + y), (0, x), parallel_iterations=1)[1]


def arrays(x):
    array = tf.TensorArray(tf.float32, 3).unstack(x)
    out = tf.TensorArray(tf.float32, 2).write(0, array.read(2) * 2.).write(1, tf.square(array.read(0)))
    return tf.concat([out.stack(), array.gather([1, 1])], 0)


def lists(x):
    handle = R.TensorListFromTensor(tensor=x, element_shape=tf.constant([2]))
    item = R.TensorListGetItem(input_handle=handle, index=1, element_shape=tf.constant([2]), element_dtype=tf.float32)
    handle = R.TensorListSetItem(input_handle=handle, index=0, item=item * 3.)
    handle = R.TensorListPushBack(input_handle=handle, tensor=tf.cos(item))
    return R.TensorListStack(input_handle=handle, element_shape=tf.constant([2]), element_dtype=tf.float32, num_elements=-1)


grad("Enter", loop, real(3), text="loop")
grad("Switch", lambda p, x: tf1.cond(p, lambda: tf.square(x), lambda: tf.sin(x)), np.array(True), real(3))
grad("Switch", lambda p, x: tf1.cond(p, lambda: tf.square(x), lambda: tf.sin(x)), np.array(False), real(3))
grad("TensorArrayReadV3", arrays, real(3, 2))
grad("TensorListStack", lists, real(3, 2))


def popped(x):
    handle = R.TensorListFromTensor(tensor=x, element_shape=tf.constant([2]))
    handle, last = R.TensorListPopBack(input_handle=handle, element_shape=tf.constant([2]), element_dtype=tf.float32)
    rest = R.TensorListStack(input_handle=handle, element_shape=tf.constant([2]), element_dtype=tf.float32)
    return tf.sin(last) * rest


grad("TensorListPopBack", popped, real(3, 2))


def with_functions(make):
    def call(*xs):
        tf1.enable_control_flow_v2()
        try:
            return make(*xs)
        finally:
            tf1.disable_control_flow_v2()
    return call


grad("If", with_functions(lambda p, x: tf1.cond(p, lambda: tf.square(x), lambda: tf.sin(x))), np.array(True), real(3))
grad("While", with_functions(loop), real(3))


def build_gather():
    variable = tf1.get_variable(f"gathered{len(CASES)}", initializer=real(4, 3), use_resource=True)
    y = tf1.nn.embedding_lookup(variable, [3, 1, 3]) * tf.constant(real(3, 3))
    return {}, [[variable.initializer], [tf.convert_to_tensor(tf1.gradients(y, variable)[0])]]


CASES.append(Case("ResourceGather", build=build_gather, name="gradient of ResourceGather"))
