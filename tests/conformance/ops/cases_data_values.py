"""Functions over rows, datasets of lists, inside variants and by the number of an element; handles of
thread pools."""
import numpy as np
import tensorflow as tf
from fixtures import fresh, start_and_next
from runner import Case, feed, make_op

R = tf.raw_ops
tf1 = tf.compat.v1
D = tf1.data.Dataset
CASES = []


def case(op, build, text, **more):
    CASES.append(Case(op, build=lambda: ({}, build()), name=f"{op} {text}", **more))


def walk(op, make, steps, text, types=(tf.int64,), shapes=None, since=None):
    def build():
        kinds, forms = list(types), list(shapes or [None] * len(types))
        start, element = start_and_next(make(), kinds, forms)
        return [[start]] + [element] * steps
    case(op, build, text, since=since)


def variant(dataset):
    return dataset._variant_tensor


# ---- MapDefun ----
def body(function, *specs):
    made = tf.function(function, autograph=False).get_concrete_function(
        *[tf.TensorSpec(None, dtype) for dtype in specs])
    made.add_to_graph(tf1.get_default_graph())
    return made


def rows(function, arguments, types, shapes, text, captured=(), parallel=1):
    def build():
        inputs, held = [feed(a) for a in arguments], [feed(c) for c in captured]
        return [list(make_op("MapDefun", arguments=inputs, captured_inputs=held, output_types=types,
                             output_shapes=shapes, max_intra_op_parallelism=parallel,
                             f=body(function, *[t.dtype for t in inputs + held])))]
    case("MapDefun", build, text)


I, F, S = tf.int32, tf.float32, tf.string
NUMBERS = np.arange(12, dtype=np.int32).reshape(4, 3)
rows(lambda x: x * 2, [NUMBERS], [I], [[3]], "rows")
rows(lambda x: x * 2, [NUMBERS], [I], [None], "rows of a shape nobody knows")
rows(lambda x: (tf.reduce_sum(x), tf.as_string(x)), [NUMBERS], [I, S], [[], [None]], "two results")
rows(lambda x, y: x + y, [NUMBERS, NUMBERS[:, :1]], [I], [[3]], "two arguments")
rows(lambda x, c: x + c, [NUMBERS], [I], [[3]], "a captured one", captured=[np.int32(100)])
rows(lambda x: x + 1, [np.arange(1000, dtype=np.float32)], [F], [[]], "many")
rows(lambda x: x + 1, [np.arange(10, dtype=np.float32)], [F], [[]], "any number of threads", parallel=0)
rows(lambda x: tf.strings.join([x, x]), [np.array([b"a", b"bc"], object)], [S], [[]], "strings")
rows(lambda x: x + 1, [np.zeros((0, 2), np.float32)], [F], [[2]], "no rows")
rows(lambda x: x + 1, [np.zeros((0, 2), np.float32)], [F], [None], "no rows, no shape")
rows(lambda x: x + 1, [np.float32(1)], [F], [[]], "a scalar")
rows(lambda x, y: x + y, [NUMBERS, NUMBERS[:2]], [I], [[3]], "different numbers of rows")
rows(lambda x: x + 1, [NUMBERS], [I], [[2]], "another shape")
rows(lambda x: x + 1, [NUMBERS], [F], [[3]], "another type")
rows(lambda x: tf.range(x), [np.arange(3, dtype=np.int32)], [I], [None], "different shapes")
rows(lambda x: tf.gather([1, 2], x), [np.arange(3, dtype=np.int32)], [I], [[]], "an error")
rows(lambda x: (x, x), [NUMBERS], [I], [[3]], "too many results")

# ---- Lists ----
for text, arguments in {
        "numbers": dict(tensors=[[1, 2], [3, 4, 5], []], types=[tf.int64]),
        "pairs": dict(tensors=[[1], "a", [2, 3], "b"], types=[tf.int64, S])}.items():
    walk("ListDataset", lambda a=arguments: make_op(
        "ListDataset", tensors=[feed(t, S if isinstance(t, str) else tf.int64) for t in a["tensors"]],
        output_types=a["types"], output_shapes=[None] * len(a["types"])), 4, text, arguments["types"])
case("ListDataset", lambda: [[R.DatasetCardinality(input_dataset=make_op(
    "ListDataset", tensors=[feed(1), feed(2)], output_types=[I], output_shapes=[[]]))]], "cardinality")

# ---- Variants ----
walk("WrapDatasetVariant", lambda: make_op("UnwrapDatasetVariant", input_handle=make_op(
    "WrapDatasetVariant", input_handle=variant(D.range(3)))), 4, "and back")
case("WrapDatasetVariant", lambda: [[R.DatasetCardinality(input_dataset=make_op(
    "WrapDatasetVariant", input_handle=variant(D.range(3))))]], "is no dataset")
case("UnwrapDatasetVariant", lambda: [[R.DatasetCardinality(input_dataset=make_op(
    "UnwrapDatasetVariant", input_handle=variant(D.range(3))))]], "of a dataset")
case("WrapDatasetVariant", lambda: [[R.DatasetCardinality(input_dataset=make_op(
    "UnwrapDatasetVariant", input_handle=make_op("WrapDatasetVariant", input_handle=R.OptionalNone()))
)]], "of nothing")

# ---- The fastest ----
for op in ["ChooseFastestDataset", "ExperimentalChooseFastestDataset"]:
    for text, inputs in {
            "same": [lambda: D.range(5), lambda: D.range(5).map(lambda n: n)],
            "another number": [lambda: D.range(5), lambda: D.range(4)],
            "unknown number": [lambda: D.range(5).filter(lambda n: True), lambda: D.range(5)],
            "another type": [lambda: D.range(5), lambda: D.range(5).map(lambda n: tf.cast(n, F))],
            "another shape": [lambda: D.range(5), lambda: D.range(5).map(lambda n: [n, n])]}.items():
        def make(op=op, inputs=inputs):
            return make_op(op, input_datasets=[variant(one()) for one in inputs], num_experiments=2,
                           output_types=[tf.int64], output_shapes=[[]])
        walk(op, make, 6, text)
        case(op, lambda make=make: [[R.DatasetCardinality(input_dataset=make())]], f"cardinality {text}")

# ---- One element ----
for text, data in {
        "range": lambda: D.range(2, 9, 3), "slices": lambda: D.from_tensor_slices(np.arange(3)),
        "map": lambda: D.range(3).map(lambda n: n * n),
        "counted map": lambda: tf.data.Dataset.range(3).map(lambda n: n * n),
        "counted parallel map": lambda: tf.data.Dataset.range(3).map(lambda n: n * n, 2), "batch": lambda: D.range(7).batch(2),
        "take": lambda: D.range(9).take(3), "skip": lambda: D.range(9).skip(6),
        "repeat": lambda: D.range(2).repeat(2), "concatenate": lambda: D.range(1).concatenate(D.range(2)),
        "parallel map": lambda: D.range(3).map(lambda n: n + 1, 2),
        "prefetch": lambda: D.range(3).prefetch(2), "shard": lambda: D.range(5).shard(2, 1)}.items():
    for index in [0, 1, 2, 3, -1]:
        case("GetElementAtIndex", lambda d=data, i=index: [list(R.GetElementAtIndex(
            dataset=variant(d()), index=feed(i, tf.int64), output_types=[tf.int64], output_shapes=[None]))],
            f"{text} {index}")
case("GetElementAtIndex", lambda: [list(R.GetElementAtIndex(
    dataset=variant(D.zip((D.range(3), D.range(4, 7)))), index=feed(1, tf.int64),
    output_types=[tf.int64, tf.int64], output_shapes=[[], []]))], "zip")
for text, data in {"filter": lambda: D.range(3).filter(lambda n: n > 0), "repeat": lambda: D.range(3).repeat()}.items():
    case("GetElementAtIndex", lambda d=data: [list(R.GetElementAtIndex(
        dataset=variant(d()), index=feed(1, tf.int64), output_types=[tf.int64], output_shapes=[None]))],
        f"{text} has no number")

# ---- Thread pools ----
for prefix in ["", "Experimental"]:
    for threads in [1, 3, -1]:
        walk(f"{prefix}ThreadPoolHandle", lambda p=prefix, n=threads: make_op(
            f"{p}ThreadPoolDataset", input_dataset=variant(D.range(3)), output_types=[tf.int64],
            output_shapes=[None], thread_pool=make_op(
                f"{p}ThreadPoolHandle", num_threads=n, max_intra_op_parallelism=1, display_name="pool",
                container="", shared_name=fresh("values"))), 4, str(threads))

# ---- Packed elements ----
rng = np.random.RandomState(3)
ELEMENTS = {
    "numbers": [np.arange(7), np.float32(2.5), np.zeros((0, 3), np.int16), np.array([True, False])],
    "strings": [np.array([b"a", b"", b"long " * 99], object), np.int32(4), np.array(b"x", object)],
    "long": [np.tile(np.arange(100), 3000), rng.bytes(100000), np.zeros(70000, np.int8)],
    "random": [rng.randint(0, 3, 200001).astype(np.int8), rng.standard_normal(5000)],
    "nearly random": [np.frombuffer(rng.bytes(1 << 16) + b"abcdefgh" * 9 + rng.bytes(999), np.uint8)],
}


def packed(values, types=None, steps=1):
    def build():
        box = make_op("CompressElement", components=[feed(v) for v in values])
        kinds = types or [tf.constant(v).dtype for v in values]
        out = make_op("UncompressElement", compressed=box, output_types=kinds, output_shapes=[None] * len(kinds))
        return [tf.nest.flatten(out)]
    return build


for name, values in ELEMENTS.items():
    case("CompressElement", packed(values), name)
case("UncompressElement", packed([np.int32(1)], [tf.int64]), "another type")
case("UncompressElement", packed([np.int32(1)], [I, I]), "too few")
case("UncompressElement", packed([np.int32(1), np.int32(2)], [I]), "too many")
case("UncompressElement", lambda: [tf.nest.flatten(make_op(
    "UncompressElement", compressed=variant(D.range(2)), output_types=[I], output_shapes=[[]]))], "no element")
walk("CompressElement", lambda: variant(D.range(4).map(lambda n: make_op(
    "CompressElement", components=[n, tf.fill([n], n)])).map(lambda box: tf.nest.flatten(make_op(
        "UncompressElement", compressed=box, output_types=[tf.int64, tf.int64], output_shapes=[[], [None]])[1]))), 5,
    "in a dataset")
