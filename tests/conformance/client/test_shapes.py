"""Shape inference against TensorFlow's: one node over placeholders of many shapes, known and partly
known. Downpour and TensorFlow must agree on the output's shape, or on the error's code and text."""
import functools
import itertools
import os
import pathlib
import subprocess

import pytest
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()
raw = tf.raw_ops
ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("DOWNPOUR_BUILD", ROOT / "build"))
PROGRAM = BUILD / "tests/unit/client/client_infer_shapes"
CASES = {}
_ = None  # an unknown rank, or an unknown size


def add(name, build, *shape_sets, types=None):
    """Adds cases: `build` makes the node "y" from placeholders; each entry of `shape_sets` is a list
    of the placeholders' shapes."""
    for i, shapes in enumerate(shape_sets):
        CASES[f"{name}-{i}"] = (build, shapes, types or [tf.float32] * len(shapes))


def every(*choices):
    return [list(shapes) for shapes in itertools.product(*choices)]


ANY = [_, [], [3], [_], [2, 3], [_, 3], [2, _], [4, 2, 3]]
for op in ("Neg", "Relu", "Tanh", "Softmax", "Square", "L2Loss", "Shape", "Size", "Rank"):
    argument = {"Relu": "features", "L2Loss": "t", "Softmax": "logits", "Shape": "input",
                "Size": "input", "Rank": "input"}.get(op, "x")
    add(op, lambda x, op=op, argument=argument: getattr(raw, op)(name="y", **{argument: x}),
        *every(ANY))
for op in ("AddV2", "Mul", "Maximum", "Equal", "Pow"):
    add(op, lambda a, b, op=op: getattr(raw, op)(x=a, y=b, name="y"),
        *every(ANY, [_, [], [1], [3], [2, 1], [_, 4], [0, 3]]))
add("EqualLenient", lambda a, b: raw.Equal(x=a, y=b, incompatible_shape_error=False, name="y"),
    *every([[2, 3]], [[2, 3], [2, 4], [3]]))
for ta, tb in itertools.product((False, True), repeat=2):
    add(f"MatMul{ta}{tb}", lambda a, b, ta=ta, tb=tb: raw.MatMul(
        a=a, b=b, transpose_a=ta, transpose_b=tb, name="y"),
        *every([_, [2, 3], [_, 3], [3, 2], [3]], [_, [3, 5], [5, 3], [_, _], [2, 3, 4]]))
    add(f"BatchMatMulV2{ta}{tb}", lambda a, b, ta=ta, tb=tb: raw.BatchMatMulV2(
        x=a, y=b, adj_x=ta, adj_y=tb, name="y"),
        *every([_, [7, 2, 3], [_, 2, 3], [2, 3], [3]], [_, [7, 3, 5], [1, 5, 3], [_, _], [4, 7, 3, 3]]))
add("AddN", lambda a, b: raw.AddN(inputs=[a, b], name="y"),
    *every([_, [2, _], [2, 3]], [_, [2, 3], [3, 3], [3]]))

for axis, keep in itertools.product((0, -1, [0, 1], [], 2), (False, True)):
    add(f"Sum{axis}{keep}", lambda x, axis=axis, keep=keep: raw.Sum(
        input=x, axis=axis, keep_dims=keep, name="y"), *every(ANY))
add("SumUnknownAxis", lambda x, axis: raw.Sum(input=x, axis=axis, keep_dims=True, name="y"),
    *every([_, [2, 3]], [_, [1], []]), types=[tf.float32, tf.int32])
for axis in (0, -1, 2):
    add(f"ArgMax{axis}", lambda x, axis=axis: raw.ArgMax(input=x, dimension=axis, name="y"), *every(ANY))

for shape in ([6], [-1], [2, -1], [4, -1], [-1, -1], [5, 2], [], [0, -1], [3, 2, 1]):
    add(f"Reshape{shape}", lambda x, shape=shape: raw.Reshape(
        tensor=x, shape=tf.constant(shape, tf.int32), name="y"),
        *every([_, [2, 3], [_, 3], [], [0, 3]]))
add("ReshapeUnknown", lambda x, shape: raw.Reshape(tensor=x, shape=shape, name="y"),
    *every([_, [2, 3]], [_, [2], []]), types=[tf.float32, tf.int32])
add("ReshapeFromShape", lambda x: raw.Reshape(tensor=x, shape=tf.stack(
    [tf.shape(x)[0], -1]), name="y"), [[4, 2, 3]], [[_, 2, 3]])
add("ReshapeLike", lambda x, like: raw.Reshape(tensor=x, shape=tf.shape(like), name="y"),
    *every([[6], _], [[2, 3], [_, 3], _]))
add("ReshapeComputed", lambda x: raw.Reshape(
    tensor=x, shape=tf.concat([tf.shape(x)[:1], [tf.shape(x)[1] * tf.shape(x)[2]]], 0), name="y"),
    [[4, 2, 3]], [[_, 2, 3]], [[4, _, 3]])
for axis in (0, 1, -1, -3, 4):
    add(f"ExpandDims{axis}", lambda x, axis=axis: raw.ExpandDims(input=x, axis=axis, name="y"), *every(ANY))
for axes in ([], [0], [-1], [0, 1], [3]):
    add(f"Squeeze{axes}", lambda x, axes=axes: raw.Squeeze(input=x, axis=axes, name="y"),
        *every([_, [1, 3], [1, 1], [_, 1], [2, 3]]))
for perm in ([0, 1], [1, 0], [2, 0, 1], [-1, 0]):
    add(f"Transpose{perm}", lambda x, perm=perm: raw.Transpose(x=x, perm=perm, name="y"), *every(ANY))
add("TransposeUnknown", lambda x, perm: raw.Transpose(x=x, perm=perm, name="y"),
    *every([_, [2, 3]], [_, [2], [3]]), types=[tf.float32, tf.int32])
for copies in ([1, 2], [2], [0, 3]):
    add(f"Tile{copies}", lambda x, copies=copies: raw.Tile(input=x, multiples=copies, name="y"), *every(ANY))
for shape in ([2, 3], [4, 2, 3], [2, 4], [3]):
    add(f"BroadcastTo{shape}", lambda x, shape=shape: raw.BroadcastTo(input=x, shape=shape, name="y"),
        *every(ANY))

for axis in (0, 1, -1, 2):
    add(f"ConcatV2{axis}", lambda a, b, axis=axis: raw.ConcatV2(values=[a, b], axis=axis, name="y"),
        *every([_, [2, 3], [_, 3]], [_, [2, 3], [5, 3], [2, _], [3]]))
    add(f"Pack{axis}", lambda a, b, axis=axis: raw.Pack(values=[a, b], axis=axis, name="y"),
        *every([_, [2, 3], [3]], [_, [2, _], [3], [3, 3]]))
    add(f"Split{axis}", lambda x, axis=axis: raw.Split(axis=axis, value=x, num_split=2, name="y"),
        *every([_, [2, 4], [_, 4], [3, 3], [4]]))
    add(f"SplitV{axis}", lambda x, axis=axis: raw.SplitV(
        value=x, size_splits=[1, -1], axis=axis, num_split=2, name="y"),
        *every([_, [2, 4], [_, 4], [3, 3]]))
    add(f"Unpack{axis}", lambda x, axis=axis: raw.Unpack(value=x, num=3, axis=axis, name="y"),
        *every([_, [3, 3], [_, 3], [2, 3], [3]]))
add("ConcatUnknownAxis", lambda a, b, axis: raw.ConcatV2(values=[a, b], axis=axis, name="y"),
    *every([_, [2, 3]], [_, [2, 3]], [[], _]), types=[tf.float32, tf.float32, tf.int32])

SLICES = {
    "first": lambda x: x[0], "last": lambda x: x[-1], "rows": lambda x: x[1:3],
    "column": lambda x: x[:, 1], "step": lambda x: x[::2], "back": lambda x: x[::-1],
    "dots": lambda x: x[..., 0], "fresh": lambda x: x[:, tf.newaxis], "far": lambda x: x[5],
    "empty": lambda x: x[3:1], "three": lambda x: x[0, 0, 0], "negative": lambda x: x[-2:],
    "both": lambda x: x[tf.newaxis, ..., 1:]}
for name, cut in SLICES.items():
    add("StridedSlice_" + name, lambda x, cut=cut: tf.identity(cut(x), name="y"),
        *every([_, [], [4], [_], [2, 3], [_, 3], [4, 2, 3], [4, _, 3]]))
add("StridedSliceUnknown", lambda x, i: tf.identity(x[i:, 0], name="y"),
    *every([_, [2, 3], [_, 3]], [[], _]), types=[tf.float32, tf.int32])
for begin, size in (([0, 0], [1, 2]), ([1, 0], [-1, -1]), ([0], [2]), ([3, 0], [-1, 1])):
    add(f"Slice{begin}{size}", lambda x, begin=begin, size=size: raw.Slice(
        input=x, begin=begin, size=size, name="y"), *every([_, [2, 3], [_, 3], [4]]))
add("Gather", lambda x, i: raw.Gather(params=x, indices=i, name="y"),
    *every([_, [], [4], [4, 3], [_, 3]], [_, [], [2], [5, _]]), types=[tf.float32, tf.int32])
for axis, batch in ((0, 0), (1, 0), (-1, 0), (3, 0), (1, 1), (2, 1)):
    add(f"GatherV2{axis}_{batch}", lambda x, i, axis=axis, batch=batch: raw.GatherV2(
        params=x, indices=i, axis=axis, batch_dims=batch, name="y"),
        *every([_, [2, 4], [2, _], [2, 4, 3]], [_, [2], [2, 5], [3, 5], [_, 5]]),
        types=[tf.float32, tf.int32])
add("GatherNd", lambda x, i: raw.GatherNd(params=x, indices=i, name="y"),
    *every([_, [4, 3], [4]], [_, [2], [5, 1], [5, 2], [5, _], []]), types=[tf.float32, tf.int32])
for paddings in ([[1, 2], [0, 0]], [[1, 1]]):
    add(f"Pad{paddings}", lambda x, p=paddings: raw.Pad(input=x, paddings=p, name="y"), *every(ANY))
add("OneHot", lambda i: raw.OneHot(indices=i, depth=5, on_value=1.0, off_value=0.0, name="y"),
    *every([_, [], [3], [2, _]]), types=[tf.int32])
add("Select", lambda c, a, b: raw.Select(condition=c, x=a, y=b, name="y"),
    *every([_, [], [2], [2, 3], [3]], [_, [2, 3]], [[2, 3], [2, _], [3, 3]]),
    types=[tf.bool, tf.float32, tf.float32])
add("SelectV2", lambda c, a, b: raw.SelectV2(condition=c, t=a, e=b, name="y"),
    *every([_, [], [2, 1], [3]], [[], [2, 3], [_, 3]], [[2, 3], [1, 3], [4]]),
    types=[tf.bool, tf.float32, tf.float32])
add("Range", lambda: raw.Range(start=0, limit=7, delta=2, name="y"), [])
add("Fill", lambda v: raw.Fill(dims=[2, 3], value=v, name="y"), *every([_, [], [2]]))
add("FillUnknown", lambda s: raw.Fill(dims=s, value=1.0, name="y"), *every([_, [2], []]),
    types=[tf.int32])
add("RandomUniform", lambda s: raw.RandomUniform(shape=s, dtype=tf.float32, name="y"),
    *every([_, [2], [2, 2]]), types=[tf.int32])
add("TopKV2", lambda x: raw.TopKV2(input=x, k=2, name="y"), *every(ANY + [[1]]))
add("Cumsum", lambda x: raw.Cumsum(x=x, axis=0, name="y"), *every(ANY))
add("UnsortedSegmentSum", lambda x, i: raw.UnsortedSegmentSum(
    data=x, segment_ids=i, num_segments=4, name="y"),
    *every([_, [5, 2], [_, 2]], [_, [5], [4], [5, 2, 1]]), types=[tf.float32, tf.int32])
add("SegmentSum", lambda x, i: raw.SegmentSum(data=x, segment_ids=i, name="y"),
    *every([_, [5, 2], []], [_, [5], [5, 2]]), types=[tf.float32, tf.int32])
add("Where", lambda x: raw.Where(condition=x, name="y"), *every(ANY))
add("MatrixDiag", lambda x: raw.MatrixDiag(diagonal=x, name="y"), *every(ANY))
add("MatrixDiagPart", lambda x: raw.MatrixDiagPart(input=x, name="y"), *every(ANY))
add("MatrixInverse", lambda x: raw.MatrixInverse(input=x, name="y"), *every(ANY + [[3, 3]]))
add("MatrixDeterminant", lambda x: raw.MatrixDeterminant(input=x, name="y"), *every(ANY + [[3, 3]]))
add("ReverseV2", lambda x: raw.ReverseV2(tensor=x, axis=[0], name="y"), *every([_, [2, 3], [3]]))

add("BiasAdd", lambda x, b: raw.BiasAdd(value=x, bias=b, name="y"),
    *every([_, [2, 3], [_, _], [2, 5, 3], [3]], [_, [3], [4], [2, 3]]))
add("BiasAddNCHW", lambda x, b: raw.BiasAdd(value=x, bias=b, data_format="NCHW", name="y"),
    *every([_, [2, 3, 4, 4]], [[3], [4]]))
add("SoftmaxCrossEntropyWithLogits", lambda x, t: raw.SoftmaxCrossEntropyWithLogits(
    features=x, labels=t, name="y"), *every([_, [2, 3], [_, 3], [3]], [_, [2, 3], [2, 4], [1, 3]]))
add("SparseSoftmaxCrossEntropyWithLogits", lambda x, t: raw.SparseSoftmaxCrossEntropyWithLogits(
    features=x, labels=t, name="y"), *every([_, [2, 3], [_, 3], [3]], [_, [2], [3], [2, 1]]),
    types=[tf.float32, tf.int32])
IMAGES = [_, [2, 7, 8, 3], [_, 7, _, 3], [2, 7, 8], [2, 2, 2, 3], [2, 7, 8, 4]]
for padding, stride in itertools.product(("SAME", "VALID"), (1, 2)):
    options = {"strides": [1, stride, stride, 1], "padding": padding, "name": "y"}
    add(f"Conv2D{padding}{stride}", lambda x, w, o=options: raw.Conv2D(input=x, filter=w, **o),
        *every(IMAGES, [_, [3, 3, 3, 5], [_, 3, 3, 5], [3, 3, 2, 5], [3, 3, 3]]))
    add(f"Depthwise{padding}{stride}", lambda x, w, o=options: raw.DepthwiseConv2dNative(
        input=x, filter=w, **o), *every(IMAGES, [_, [3, 3, 3, 2], [3, 3, 4, 2]]))
    for op in ("MaxPool", "AvgPool"):
        argument = "input" if op == "MaxPool" else "value"
        add(f"{op}{padding}{stride}", lambda x, o=options, op=op, argument=argument: getattr(raw, op)(
            ksize=[1, 3, 3, 1], **{argument: x}, **o), *every(IMAGES))
add("Conv2DDilated", lambda x, w: raw.Conv2D(
    input=x, filter=w, strides=[1, 1, 1, 1], dilations=[1, 2, 3, 1], padding="VALID", name="y"),
    *every(IMAGES, [[3, 3, 3, 5]]))
add("Conv2DNCHW", lambda x, w: raw.Conv2D(
    input=x, filter=w, strides=[1, 1, 2, 2], padding="SAME", data_format="NCHW", name="y"),
    *every([_, [2, 3, 7, 8], [2, 4, 7, 8]], [[3, 3, 3, 5]]))
add("Conv2DExplicit", lambda x, w: raw.Conv2D(
    input=x, filter=w, strides=[1, 2, 2, 1], padding="EXPLICIT",
    explicit_paddings=[0, 0, 1, 2, 3, 0, 0, 0], name="y"), *every(IMAGES, [[3, 3, 3, 5]]))
add("Conv3D", lambda x, w: raw.Conv3D(input=x, filter=w, strides=[1, 1, 2, 2, 1], padding="VALID",
                                      name="y"),
    *every([_, [2, 5, 6, 7, 3], [2, 5, 6, 7], [_, 5, 1, 7, 3]], [_, [2, 2, 2, 3, 4], [2, 2, 2, 2, 4]]))
add("Conv2DBackpropInput", lambda w, dy: raw.Conv2DBackpropInput(
    input_sizes=[2, 7, 8, 3], filter=w, out_backprop=dy, strides=[1, 1, 1, 1], padding="SAME",
    name="y"), *every([_, [3, 3, 3, 5]], [_, [2, 7, 8, 5]]))
add("Conv2DBackpropFilter", lambda x, dy: raw.Conv2DBackpropFilter(
    input=x, filter_sizes=[3, 3, 3, 5], out_backprop=dy, strides=[1, 1, 1, 1], padding="SAME",
    name="y"), *every([_, [2, 7, 8, 3]], [_, [2, 7, 8, 5]]))
add("LRN", lambda x: raw.LRN(input=x, name="y"), *every(IMAGES))
add("FusedBatchNorm", lambda x, s: raw.FusedBatchNorm(
    x=x, scale=s, offset=s, mean=[], variance=[], name="y"), *every(IMAGES, [_, [3], [4]]))
add("FusedBatchNormFixed", lambda x, s, m: raw.FusedBatchNorm(
    x=x, scale=s, offset=s, mean=m, variance=m, is_training=False, name="y"),
    *every([_, [2, 7, 8, 3]], [_, [3]], [_, [3], [4]]))
add("SpaceToDepth", lambda x: raw.SpaceToDepth(input=x, block_size=2, name="y"),
    *every([_, [2, 4, 6, 3], [_, 4, _, 3], [2, 5, 6, 3]]))
add("DepthToSpace", lambda x: raw.DepthToSpace(input=x, block_size=2, name="y"),
    *every([_, [2, 4, 6, 4], [2, 4, 6, 3]]))
add("Merge", lambda a, b: raw.Merge(inputs=[a, b], name="y"),
    *every([_, [2, 3]], [_, [2, 3], [2, _], [4, 3], [3]]))
add("IdentityN", lambda a, b: raw.IdentityN(input=[a, b], name="y"), *every([_, [2]], [[2, _]]))
add("VariableV2", lambda: raw.VariableV2(shape=[2, 3], dtype=tf.float32, name="y"), [])


@functools.lru_cache(maxsize=None)
def make_open_graph(build, types):
    with tf1.Graph().as_default() as graph:
        build(*[tf1.placeholder(dtype, name=f"x{i}") for i, dtype in enumerate(types)])
    return graph.as_graph_def()


def make_graph(build, shapes, types):
    """A GraphDef. The shapes are set afterwards, because Python would refuse wrong ones at once."""
    message = tf1.GraphDef()
    message.CopyFrom(make_open_graph(build, tuple(types)))
    for node in message.node:
        if node.op == "Placeholder":
            shape = shapes[int(node.name[1:])]
            known = tf.TensorShape(shape)
            node.attr["shape"].shape.CopyFrom(known.as_proto())
    return message


def text_of(shape):
    if shape.rank is None:
        return "?;"
    return "[" + ",".join("?" if size is None else str(size) for size in shape.as_list()) + "];"


# Messages of older versions and their wording in the newest version, which is ours.
OLDER = {"error Index out of range using input dim 0; input has only 0 dims":
         "error Attempting to slice scalar input."}


def theirs(message):
    with tf1.Graph().as_default() as graph:
        try:
            tf1.import_graph_def(message, name="")
        except ValueError as error:
            text = "error " + str(error).split(" for '{{node")[0].replace("\n", " ")
            return OLDER.get(text, text)
        return "".join(text_of(y.shape) for y in graph.get_operation_by_name("y").outputs)


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shapes")
    paths, expected = [], {}
    for i, (name, case) in enumerate(CASES.items()):
        message = make_graph(*case)
        expected[name] = theirs(message)
        path = folder / f"{i}.pb"
        path.write_bytes(message.SerializeToString())
        paths.append(path)
    lines = subprocess.run([PROGRAM, *paths], check=True, text=True, stdout=subprocess.PIPE,
                           timeout=300).stdout.splitlines()
    return dict(zip(CASES, lines)), expected


@pytest.mark.parametrize("op", dict.fromkeys(name.rsplit("-", 1)[0] for name in CASES))
def test_shapes_agree(answers, op):
    ours, expected = answers
    wrong = []
    for name in (name for name in CASES if name.rsplit("-", 1)[0] == op):
        mine = ours[name].split(" for '{{node")[0]
        if mine.replace("error 3 ", "error ") != expected[name]:
            wrong.append(f"{name} {CASES[name][1]}: {mine} instead of {expected[name]}")
    assert not wrong, "\n".join(wrong)
