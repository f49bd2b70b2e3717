"""Datasets that choose, group, regroup and parse elements: built node by node under all their names,
and as tf.data builds them; each walked to its end."""
import os

import numpy as np
import tensorflow as tf
from fixtures import fresh, quiet, scratch_folder, start_and_next
from runner import Case, feed, make_op

R = tf.raw_ops
tf1 = tf.compat.v1
D = tf1.data.Dataset
FOLDER = scratch_folder("dataset-more")
CASES = []


def number(value):
    return feed(value, tf.int64)


def path(name):
    return os.path.join(FOLDER, name)


def walk(op, make, steps, name="", types=(tf.int64,), shapes=None, since=None):
    """`steps` elements of the dataset whose variant `make` gives; more than there are, so that the
    end is seen too."""
    types, shapes = list(types), list(shapes or [None] * len(types))

    def build():
        start, element = start_and_next(make(), types, shapes)
        return {}, [[start]] + [element] * steps
    CASES.append(Case(op, build=build, name=f"{op} {name}", since=since))


def through(op, make, steps, name="", since=None):
    """The same for a dataset of tf.data's."""
    def build():
        iterator = tf1.data.make_initializable_iterator(make().with_options(quiet()))
        element = tf.nest.flatten(iterator.get_next(), expand_composites=True)
        return {}, [[iterator.initializer]] + [element] * steps
    CASES.append(Case(op, build=build, name=f"{op} of tf.data {name}", since=since))


def cardinality(op, make, name=""):
    CASES.append(Case(op, name=f"{op} cardinality {name}", build=lambda: (
        {}, [[R.DatasetCardinality(input_dataset=make())]])))


def variant(dataset):
    return dataset._variant_tensor


def over(op, dataset=None, types=(tf.int64,), **arguments):
    """A dataset over another one, range(4) unless told."""
    return make_op(op, input_dataset=variant(D.range(4) if dataset is None else dataset),
                   output_types=list(types), output_shapes=[None] * len(types), **arguments)


def names(op):
    return [op, f"Experimental{op}"]


def body(function, *types):
    """A function of scalars as a node's attribute takes it."""
    made = tf.function(function, autograph=False).get_concrete_function(
        *[tf.TensorSpec([], t) for t in types])
    made.add_to_graph(tf1.get_default_graph())
    return made


def failing(count=4, good=2):
    """Elements of which those from `good` on are errors."""
    return D.range(count).map(lambda n: tf.constant(list(range(good)), tf.int64)[n])


# ---- Random numbers ----
def random(op="RandomDataset", seed=1, seed2=2, **more):
    return make_op(op, seed=number(seed), seed2=number(seed2), output_types=[tf.int64],
                   output_shapes=[[]], **more)


for op in names("RandomDataset"):
    for seeds in [(1, 2), (0, 7), (42, 0), (-5, 2**40)]:
        walk(op, lambda o=op, s=seeds: random(o, *s), 9, str(seeds))
    walk(op, lambda o=op: R.RepeatDataset(
        input_dataset=R.TakeDataset(input_dataset=random(o), count=number(3),
                                    output_types=[tf.int64], output_shapes=[[]]),
        count=number(3), output_types=[tf.int64], output_shapes=[[]]), 10, "again")
    walk(op, lambda o=op: random(o, [1, 2]), 1, "seed of rank 1")
    cardinality(op, lambda o=op: random(o))
V2 = (2, 12)


def random_v2(again, own):
    handle = R.DummySeedGenerator() if own else R.AnonymousSeedGenerator(
        seed=number(3), seed2=number(4), reshuffle=feed(again))[0]
    return R.RandomDatasetV2(seed=number(3), seed2=number(4), seed_generator=handle,
                             rerandomize_each_iteration=again, output_types=[tf.int64],
                             output_shapes=[[]])


for again in (False, True):
    for own in (False, True):
        walk("RandomDatasetV2", lambda a=again, o=own: R.RepeatDataset(
            input_dataset=R.TakeDataset(input_dataset=random_v2(a, o), count=number(3),
                                        output_types=[tf.int64], output_shapes=[[]]),
            count=number(3), output_types=[tf.int64], output_shapes=[[]]), 10, f"{again} {own}",
             since=V2)
through("RandomDataset", lambda: tf.data.experimental.RandomDataset(7).take(5), 6)

# ---- DirectedInterleave ----
def directed(op, choices, counts=(3, 2, 4), types=(tf.int64,), **more):
    return make_op(op, selector_input_dataset=variant(
        D.from_tensor_slices(np.array(choices, np.int64))),
        data_input_datasets=[variant(D.range(100 * i, 100 * i + n)) for i, n in enumerate(counts)],
        output_types=list(types), output_shapes=[None], **more)


for op in names("DirectedInterleaveDataset"):
    for choices in [[0, 1, 2, 2, 1, 0], [0] * 9, [1, 1, 1, 0, 1, 2, 2], [2, 5], [-1], [0, 3, 1, 1],
                    [0, 1, 2] * 9]:
        walk(op, lambda o=op, c=choices: directed(o, c), 11, str(choices))
    walk(op, lambda o=op: make_op(
        o, selector_input_dataset=variant(D.from_tensors([1, 2])),
        data_input_datasets=[variant(D.range(3))], output_types=[tf.int64], output_shapes=[None]),
         1, "selector of rank 1")
    walk(op, lambda o=op: make_op(
        o, selector_input_dataset=variant(D.range(2)), data_input_datasets=[
            variant(D.range(3)), variant(D.from_tensors(1.0))],
        output_types=[tf.int64], output_shapes=[None]), 1, "different types")
    walk(op, lambda o=op: make_op(
        o, selector_input_dataset=variant(D.from_tensor_slices(np.int64([0, 1, 0, 1, 0, 0]))),
        data_input_datasets=[variant(failing()), variant(D.range(9))],
        output_types=[tf.int64], output_shapes=[None]), 8, "an error")
    cardinality(op, lambda o=op: directed(o, [1, 2]))
cardinality("DirectedInterleaveDataset", lambda: make_op(
    "DirectedInterleaveDataset", selector_input_dataset=variant(D.range(2)),
    data_input_datasets=[variant(D.range(3)), variant(D.range(3).repeat())],
    output_types=[tf.int64], output_shapes=[None]), "without end")
for choices in [[0, 1, 2] * 4, [0, 1, 1, 1, 0]]:
    walk("DirectedInterleaveDataset", lambda c=choices: directed(
        "DirectedInterleaveDataset", c, stop_on_empty_dataset=True), 10, f"stops {choices}")
ABC = [b"a", b"b", b"c"]
for weights in [None, [0.2, 0.3, 0.5], [1.0, 0.0, 0.0]]:
    for stops in (False, True):
        through("DirectedInterleaveDataset", lambda w=weights, s=stops: D.sample_from_datasets(
            [D.from_tensors(c).repeat(6) for c in ABC], w, seed=5, stop_on_empty_dataset=s), 20,
            f"sampled {weights} {stops}")
through("DirectedInterleaveDataset", lambda: D.sample_from_datasets(
    [D.from_tensors(c).repeat() for c in ABC], D.from_tensor_slices([[.1, .2, .7], [.5, .5, 0.]])
    .repeat(), seed=9), 20, "weights from a dataset")
through("DirectedInterleaveDataset", lambda: D.choose_from_datasets(
    [D.from_tensors(c).repeat(2) for c in ABC], D.range(3).repeat(4)), 8, "chosen")

# ---- Rewrite ----
for rewrite in ["replicate_on_split", ""]:
    walk("RewriteDataset", lambda r=rewrite: over("RewriteDataset", rewrite_name=feed(r)), 5, rewrite)
walk("RewriteDataset", lambda: over("RewriteDataset", rewrite_name=feed(["a", "b"])), 1,
     "name of rank 1")

# ---- Unique ----
UNIQUE = {
    "int64": np.int64([1, 2, 1, 3, 3, 2, 0, 1 << 40]),
    "int32": np.int32([1, 2, 1, -1, -1]),
    "strings": np.array([b"a", b"", b"a", b"", b"b", b"x" * 100, b"x" * 100], object),
    "rows": np.int64([[1, 2], [2, 1], [1, 2]]),
    "string rows": np.array([[b"ab", b"c"], [b"a", b"bc"], [b"ab", b"c"]], object),
    "floats": np.float32([1, 2, 1]),
    "bools": np.array([True, False, True]),
}
for op in names("UniqueDataset"):
    for name, values in UNIQUE.items():
        dtype = tf.as_dtype(values.dtype) if values.dtype != object else tf.string
        walk(op, lambda o=op, v=values, t=dtype: over(o, D.from_tensor_slices(v), (t,)), 8, name,
             (dtype,))
    walk(op, lambda o=op: over(o, D.range(6).map(lambda n: tf.fill([n % 3], np.int64(0)))), 4,
         "shapes")
    walk(op, lambda o=op: over(o, D.zip((D.range(3), D.range(3))), (tf.int64,) * 2), 1,
         "two components", (tf.int64,) * 2)
    walk(op, lambda o=op: over(o, failing(6)), 7, "an error")
    cardinality(op, lambda o=op: over(o))
through("UniqueDataset", lambda: D.from_tensor_slices([3, 1, 3, 2, 1]).apply(
    tf.data.experimental.unique()), 4)

# ---- Sampling ----
for rate in (0.0, 0.3, 0.9, 1.0, 2.0):
    for seeds in [(1, 2), (0, 9)]:
        walk("SamplingDataset", lambda r=rate, s=seeds: over(
            "SamplingDataset", D.range(9), rate=feed(r, tf.float32), seed=number(s[0]),
            seed2=number(s[1])), 10, f"{rate} {seeds}")
walk("SamplingDataset", lambda: over("SamplingDataset", D.range(9), rate=feed([.5], tf.float32),
                                     seed=number(1), seed2=number(1)), 1, "rate of rank 1")
walk("SamplingDataset", lambda: R.RepeatDataset(
    input_dataset=over("SamplingDataset", D.range(9), rate=feed(.5, tf.float32), seed=number(1),
                       seed2=number(1)),
    count=number(2), output_types=[tf.int64], output_shapes=[[]]), 19, "again")
cardinality("SamplingDataset", lambda: over("SamplingDataset", rate=feed(.5, tf.float32),
                                            seed=number(1), seed2=number(1)))

# ---- IgnoreErrors ----
for op in names("IgnoreErrorsDataset"):
    for warns in (False, True):
        walk(op, lambda o=op, w=warns: over(o, D.from_tensor_slices([1., 0., 2., 0.]).map(
            lambda x: tf.debugging.check_numerics(1. / x, "bad")), (tf.float32,), log_warning=w), 4,
             str(warns), (tf.float32,))
    walk(op, lambda o=op: over(o), 5, "none")
    walk(op, lambda o=op: over(o, failing(4, 1)), 2, "all but one")
    cardinality(op, lambda o=op: over(o))
    cardinality(op, lambda o=op: over(o, D.range(3).repeat()), "without end")
with tf.io.TFRecordWriter(path("records")) as writer:
    for record in [b"first", b"second", b"third"]:
        writer.write(record)
RECORDS = open(path("records"), "rb").read()
open(path("flipped"), "wb").write(RECORDS[:-6] + b"X" + RECORDS[-5:])
through("IgnoreErrorsDataset", lambda: tf1.data.TFRecordDataset(
    [path("records"), path("flipped"), path("records")]).apply(
        tf.data.experimental.ignore_errors()), 9, "files")

# ---- AssertCardinality ----
for count in (4, 3, 5, 0, -1, -2):
    walk("AssertCardinalityDataset", lambda c=count: over("AssertCardinalityDataset",
                                                          cardinality=number(c)), 6, str(count))
    cardinality("AssertCardinalityDataset", lambda c=count: over(
        "AssertCardinalityDataset", cardinality=number(c)), str(count))
walk("AssertCardinalityDataset", lambda: over("AssertCardinalityDataset", cardinality=number([4])),
     1, "of rank 1")
through("AssertCardinalityDataset", lambda: D.range(3).apply(
    tf.data.experimental.assert_cardinality(2)), 4)
through("AssertCardinalityDataset", lambda: D.range(1).apply(
    tf.data.experimental.assert_cardinality(2)), 3, "too few")

# ---- Sleep ----
for op in names("SleepDataset"):
    for micros in (0, 1, 2000, -1):
        walk(op, lambda o=op, m=micros: over(o, sleep_microseconds=number(m)), 5, str(micros))
    walk(op, lambda o=op: over(o, sleep_microseconds=number([1])), 1, "of rank 1")
    cardinality(op, lambda o=op: over(o, sleep_microseconds=number(1)))

# ---- ParallelFilter ----
def parallel_filter(calls, predicate=lambda n: tf.equal(n % 3, 0), dataset=None):
    return over("ParallelFilterDataset", D.range(9) if dataset is None else dataset,
                other_arguments=[], num_parallel_calls=number(calls), deterministic="true",
                predicate=body(predicate, tf.int64))


for calls in (1, 3, -1):  # with 0 TensorFlow waits for ever
    walk("ParallelFilterDataset", lambda c=calls: parallel_filter(c), 4, str(calls))
walk("ParallelFilterDataset", lambda: parallel_filter(2, lambda n: n > 100), 1, "nothing")
walk("ParallelFilterDataset", lambda: parallel_filter(2, dataset=failing()), 6, "an error")
walk("ParallelFilterDataset", lambda: parallel_filter([2]), 1, "calls of rank 1")
cardinality("ParallelFilterDataset", lambda: parallel_filter(2))

# ---- ParallelBatch ----
def parallel_batch(size, calls=2, drop=False, dataset=None):
    return over("ParallelBatchDataset", D.range(7) if dataset is None else dataset,
                batch_size=number(size), num_parallel_calls=number(calls),
                drop_remainder=feed(drop), deterministic="true")


for size in (1, 3, 7, 9, 0, -1):
    for drop in (False, True):
        walk("ParallelBatchDataset", lambda s=size, d=drop: parallel_batch(s, drop=d), 8,
             f"{size} {drop}")
for calls in (1, -1):
    walk("ParallelBatchDataset", lambda c=calls: parallel_batch(3, c), 4, f"calls {calls}")
walk("ParallelBatchDataset", lambda: parallel_batch([3]), 1, "size of rank 1")
walk("ParallelBatchDataset", lambda: parallel_batch(2, dataset=D.range(1, 3).map(
    lambda n: tf.fill([n], n))), 2, "different shapes")
cardinality("ParallelBatchDataset", lambda: parallel_batch(3))
cardinality("ParallelBatchDataset", lambda: parallel_batch(3, drop=True), "whole ones")
through("ParallelBatchDataset", lambda: D.range(7).batch(3, num_parallel_calls=2,
                                                         deterministic=True), 4)

# ---- SlidingWindow ----
def sliding(op, size, shift, stride, dataset=None, types=(tf.int64,), **more):
    return over(op, D.range(9) if dataset is None else dataset, types, window_size=number(size),
                window_shift=number(shift), window_stride=number(stride), **more)


WINDOWS = [(3, 1, 1), (3, 3, 1), (2, 4, 1), (3, 1, 2), (4, 2, 3), (20, 1, 1), (2, 20, 1), (1, 1, 5)]
for op in names("SlidingWindowDataset"):
    for window in WINDOWS:
        walk(op, lambda o=op, w=window: sliding(o, *w), 10, str(window))
        cardinality(op, lambda o=op, w=window: sliding(o, *w), str(window))
    for window in [(0, 1, 1), (1, 0, 1), (1, 1, 0), ([1], 1, 1), (1, [1], 1), (1, 1, [1])]:
        walk(op, lambda o=op, w=window: sliding(o, *w), 1, str(window))
    walk(op, lambda o=op: sliding(o, 2, 1, 1, D.range(1, 4).map(lambda n: tf.fill([n // 2], n))), 4,
         "different shapes")
    walk(op, lambda o=op: sliding(o, 2, 1, 1, D.zip((
        D.range(4), D.from_tensor_slices([b"a", b"b", b"c", b"d"]))), (tf.int64, tf.string)), 4,
         "two components", (tf.int64, tf.string))
    walk(op, lambda o=op: sliding(o, 2, 1, 1, D.range(0)), 1, "nothing")
for window in WINDOWS:
    walk("SlidingWindowDataset", lambda w=window: sliding("SlidingWindowDataset", *w,
                                                          drop_remainder=False), 10, f"rest {window}")
    cardinality("SlidingWindowDataset", lambda w=window: sliding(
        "SlidingWindowDataset", *w, drop_remainder=False), f"rest {window}")

# ---- GroupByWindow ----
def batches(key, window):
    """As a dataset's function gives them: the group, two by two."""
    return R.BatchDatasetV2(input_dataset=window, batch_size=np.int64(2), drop_remainder=False,
                            output_types=[tf.int64], output_shapes=[[None]])


def windows(op, key=lambda n: n % 3, reduce=batches, size=lambda k: k + 1, dataset=None):
    return over(op, D.range(14) if dataset is None else dataset, key_func_other_arguments=[],
                reduce_func_other_arguments=[], window_size_func_other_arguments=[],
                key_func=body(key, tf.int64), reduce_func=body(reduce, tf.int64, tf.variant),
                window_size_func=body(size, tf.int64))


for op in names("GroupByWindowDataset"):
    walk(op, lambda o=op: windows(o), 13)
    walk(op, lambda o=op: windows(o, lambda n: -n), 15, "each its own")
    walk(op, lambda o=op: windows(o, lambda n: n * 0 + 7, size=lambda k: k - 3), 9, "one key")
    walk(op, lambda o=op: windows(o, size=lambda k: k * 0 + 100), 9, "left over")
    walk(op, lambda o=op: windows(o, size=lambda k: k), 3, "size 0")
    walk(op, lambda o=op: windows(o, lambda n: tf.fill([2], n)), 1, "two keys")
    walk(op, lambda o=op: windows(o, lambda n: tf.cast(n, tf.int32), size=lambda k: k + 1), 1,
         "key of another type")
    walk(op, lambda o=op: windows(o, size=lambda k: tf.fill([2], k)), 1, "two sizes")
    walk(op, lambda o=op: windows(o, reduce=lambda k, w: k), 2, "no dataset")
    walk(op, lambda o=op: windows(o, dataset=D.range(0)), 1, "nothing")
    walk(op, lambda o=op: windows(o, dataset=failing(4, 2), size=lambda k: k * 0 + 2), 5,
         "an error")
    cardinality(op, lambda o=op: windows(o))
    cardinality(op, lambda o=op: windows(o, dataset=D.range(3).repeat()), "without end")
through("GroupByWindowDataset", lambda: D.range(10).apply(tf.data.experimental.group_by_window(
    lambda n: n % 2, lambda k, w: w.batch(3), window_size=4)), 6)
through("GroupByWindowDataset", lambda: D.zip((D.range(10), D.range(10, 20))).apply(
    tf.data.experimental.group_by_window(
        lambda n, m: n % 3, lambda k, w: D.zip((D.from_tensors(k).repeat(), w)).batch(2),
        window_size_func=lambda k: k + 1)), 12, "two components")
through("GroupByWindowDataset", lambda: D.range(1, 12).map(
    lambda n: tf.fill([(n * 5) % 7], n)).apply(tf.data.experimental.bucket_by_sequence_length(
        lambda x: tf.shape(x)[0], [2, 5], [2, 3, 2])), 8, "buckets")
through("GroupByWindowDataset", lambda: D.range(1, 12).map(
    lambda n: tf.fill([n % 4 + 1], n)).apply(tf.data.experimental.bucket_by_sequence_length(
        lambda x: tf.shape(x)[0], [3, 7], [2, 2, 2], pad_to_bucket_boundary=True,
        drop_remainder=True)), 8, "padded buckets")

# ---- GroupByReducer ----
def reducer(op, key=lambda n: n % 3, init=lambda k: (k * 0, k), reduce=None, finalize=None,
            dataset=None, types=(tf.int64,)):
    reduce = reduce or (lambda s, k, n: (s * 2 + n, k))
    finalize = finalize or (lambda s, k: s * 100 + k)
    return over(op, D.range(10) if dataset is None else dataset, types,
                key_func_other_arguments=[], init_func_other_arguments=[],
                reduce_func_other_arguments=[], finalize_func_other_arguments=[],
                key_func=body(key, tf.int64), init_func=body(init, tf.int64),
                reduce_func=body(reduce, tf.int64, tf.int64, tf.int64),
                finalize_func=body(finalize, tf.int64, tf.int64))


for op in names("GroupByReducerDataset"):
    walk(op, lambda o=op: reducer(o), 5)
    walk(op, lambda o=op: reducer(o, lambda n: -n), 11, "each its own")
    walk(op, lambda o=op: reducer(o, lambda n: tf.fill([2], n)), 1, "two keys")
    walk(op, lambda o=op: reducer(o, lambda n: tf.cast(n, tf.int32)), 1, "key of another type")
    walk(op, lambda o=op: reducer(o, dataset=D.range(0)), 1, "nothing")
    walk(op, lambda o=op: reducer(o, dataset=failing()), 5, "an error")
    walk(op, lambda o=op: reducer(o, finalize=lambda s, k: (s, k), types=(tf.int64,) * 2), 4,
         "two components", (tf.int64,) * 2)
    cardinality(op, lambda o=op: reducer(o))
    cardinality(op, lambda o=op: reducer(o, dataset=D.range(3).repeat()), "without end")
through("GroupByReducerDataset", lambda: D.range(10).apply(tf.data.experimental.group_by_reducer(
    lambda n: n % 2, tf.data.experimental.Reducer(
        lambda k: (tf.constant(0, tf.int64), b""), lambda s, n: (
            s[0] + n, s[1] + tf.strings.as_string(n)), lambda s, t: (t, s)))), 3)

# ---- Rebatch ----
def rebatch(op, replicas, dataset=None, types=(tf.int64,)):
    return over(op, D.range(11).batch(4) if dataset is None else dataset, types,
                num_replicas=number(replicas))


PAIRS = (tf.int64, tf.string)


def pairs():
    return D.from_tensors((np.arange(6, dtype=np.int64).reshape(3, 2), [b"a", b"b", b"c", b"d"]))


for op in names("RebatchDataset"):
    for replicas in (1, 2, 3, 7, 0, -1):
        walk(op, lambda o=op, r=replicas: rebatch(o, r), 8, str(replicas))
    walk(op, lambda o=op: rebatch(o, [2]), 1, "of rank 1")
    walk(op, lambda o=op: rebatch(o, 2, D.range(2)), 3, "scalars")
    walk(op, lambda o=op: rebatch(o, 3, pairs(), PAIRS), 4, "different sizes", PAIRS)
    cardinality(op, lambda o=op: rebatch(o, 2))


def rebatch_v2(sizes, drop=False, dataset=None, types=(tf.int64,), shapes=None):
    return make_op("RebatchDatasetV2", input_dataset=variant(
        D.range(11).batch(4) if dataset is None else dataset), batch_sizes=number(sizes),
        drop_remainder=feed(drop), output_types=list(types),
        output_shapes=shapes or [None] * len(types))


for sizes in (1, 3, 4, 20, [2, 3], [1, 0, 5], [0, 1]):
    for drop in (False, True):
        walk("RebatchDatasetV2", lambda s=sizes, d=drop: rebatch_v2(s, d), 12, f"{sizes} {drop}")
walk("RebatchDatasetV2", lambda: rebatch_v2([[2]]), 1, "sizes of rank 2")
walk("RebatchDatasetV2", lambda: rebatch_v2(2, dataset=D.range(2)), 3, "scalars")
walk("RebatchDatasetV2", lambda: rebatch_v2(2, dataset=pairs(), types=PAIRS), 2, "different sizes",
     PAIRS)
walk("RebatchDatasetV2", lambda: rebatch_v2([0, 2], dataset=D.from_tensors(
    (np.zeros([3, 2], np.int64), [b"a", b"b", b"c"])).repeat(2), types=PAIRS,
    shapes=[[None, 2], [None]]), 8, "two components", PAIRS, [[None, 2], [None]])
walk("RebatchDatasetV2", lambda: rebatch_v2(4, dataset=D.range(1, 4).map(
    lambda n: tf.fill([2, n], n))), 3, "different shapes")
cardinality("RebatchDatasetV2", lambda: rebatch_v2(2))

# ---- DenseToSparseBatch ----
def sparse_batch(op, size, row, dataset=None):
    rows = D.range(1, 6).map(lambda n: tf.fill([n], n)) if dataset is None else dataset()
    return over(op, rows, (tf.variant,), batch_size=number(size), row_shape=number(row))


def sparse_walk(op, steps, name, *arguments, dtype=tf.int64):
    """The elements are read as sparse tensors: variants cannot be fetched."""
    def build():
        iterator = R.IteratorV2(shared_name=fresh("more"), container="",
                                output_types=[tf.variant], output_shapes=[None])
        element = R.IteratorGetNext(iterator=iterator, output_types=[tf.variant],
                                    output_shapes=[None])[0]
        parts = list(R.DeserializeSparse(serialized_sparse=element, dtype=dtype))
        return {}, [[R.MakeIterator(dataset=sparse_batch(op, *arguments), iterator=iterator)]] + [
            parts] * steps
    CASES.append(Case(op, build=build, name=f"{op} {name}"))


for op in names("DenseToSparseBatchDataset"):
    for size, row in [(2, [-1]), (3, [7]), (9, [-1]), (2, [3]), (2, [3, 3]), (0, [-1]), (2, 5)]:
        sparse_walk(op, 5, f"{size} {row}", size, row)
    sparse_walk(op, 3, "matrices", 2, [-1, 3],
                lambda: D.range(1, 4).map(lambda n: tf.fill([2, n], n)))
    sparse_walk(op, 3, "strings", 2, [-1],
                lambda: D.from_tensor_slices([[b"a", b"b"], [b"", b"c"]]), dtype=tf.string)
    sparse_walk(op, 1, "two components", 2, [-1], lambda: D.zip((D.range(2), D.range(2))))
    cardinality(op, lambda o=op: sparse_batch(o, 2, [-1], lambda: D.range(5)))
through("DenseToSparseBatchDataset", lambda: D.range(1, 6).map(lambda n: tf.fill([n], n)).apply(
    tf.data.experimental.dense_to_sparse_batch(2, [5])), 4)
through("RebatchDatasetV2", lambda: D.range(10).batch(4).rebatch([3, 1]), 6)


# ---- Which function failed, and where in the pipeline ----
def bad(n):
    return tf.gather(tf.constant([7, 8], tf.int64), n + 1)


PLACES = {
    "Map": lambda d: d, "BatchV2": lambda d: d.batch(2),
    "PaddedBatchV2": lambda d: d.padded_batch(2, []),
    "MemoryCache": lambda d: d.cache(), "Unbatch": lambda d: d.map(lambda n: tf.stack([n, n])).unbatch(),
    "first of two": lambda d: d.concatenate(D.range(2)), "Filter": lambda d: d.filter(lambda n: n > 0),
    "second of two": lambda d: D.range(1).concatenate(d), "Prefetch": lambda d: d.prefetch(2),
    "second of a zip": lambda d: D.zip((D.range(5), d)).map(lambda a, b: b),
    "FlatMap": lambda d: d.flat_map(lambda n: D.range(2)), "Shard": lambda d: d.shard(2, 0),
    "in FlatMap": lambda d: D.range(3).flat_map(
        lambda n: D.range(2).map(lambda m: tf.gather([1, 2], n))),
    "in Interleave": lambda d: D.range(5).interleave(
        lambda n: D.range(1).map(lambda m: tf.gather([1, 2, 3], n)), cycle_length=2),
    "in ParallelInterleaveV4": lambda d: D.range(5).interleave(
        lambda n: D.range(1).map(lambda m: tf.gather([1, 2, 3], n)), 2, num_parallel_calls=2,
        deterministic=True),
    "in GroupByWindow": lambda d: D.range(6).apply(tf.data.experimental.group_by_window(
        lambda n: 1 - n % 2, lambda key, group: group.map(lambda n: tf.gather([1, 2, 3], n)), None,
        lambda key: np.int64(2))),
    "MapAndBatch": lambda d: d.apply(tf.data.experimental.map_and_batch(lambda n: n, 2)),
    "TakeWhile": lambda d: d.take_while(lambda n: n > 0), "Scan": lambda d: d.scan(
        tf.constant(0), lambda s, n: (s, n)),
    "ForeverRepeat": lambda d: d.repeat(), "FiniteRepeat": lambda d: d.repeat(2),
    "FiniteTake": lambda d: d.take(3), "FiniteSkip": lambda d: d.skip(1),
    "Shuffle": lambda d: d.shuffle(1),
    "a filter's": lambda d: D.range(3).filter(lambda n: bad(n) > 0),
    "a flat map's": lambda d: D.range(3).flat_map(lambda n: D.from_tensors(bad(n))),
    "an interleave's": lambda d: D.range(3).interleave(lambda n: D.from_tensors(bad(n)), 2),
    "a parallel map's": lambda d: D.range(3).map(bad, num_parallel_calls=2),
    "a while's": lambda d: D.range(3).take_while(lambda n: bad(n) > 0),
    "a scan's": lambda d: D.range(3).scan(tf.constant(0), lambda s, n: (s, bad(n))),
    "a map with a name": lambda d: tf.data.Dataset.range(3).map(bad, name="mine").batch(1),
    "a reduction in a map": lambda d: D.range(2).map(lambda n: D.range(3).map(bad).reduce(
        np.int64(0), lambda a, b: a + b)),
    "a single element in a map": lambda d: D.range(2).map(
        lambda n: D.range(1, 3).map(bad).get_single_element()),
}
for place, pipeline in PLACES.items():
    through("MapDataset", lambda p=pipeline: p(D.range(3).map(bad)), 4, f"failing, {place}")
