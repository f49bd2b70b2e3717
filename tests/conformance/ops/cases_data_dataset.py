"""Datasets: every kind walked to its end on both sides, with the same elements in the same order."""
import gzip
import os
import zlib

import numpy as np
import tensorflow as tf
from fixtures import fresh, scratch_folder
from runner import Case

R = tf.raw_ops
tf1 = tf.compat.v1
D = tf1.data.Dataset
FOLDER = scratch_folder("dataset")
CASES = []


def digit(n):
    """A small number as a string."""
    return tf.gather(tf.constant([str(i) for i in range(10)]), n)


def path(name):
    return os.path.join(FOLDER, name)


def walk(op, make, steps, name="", unordered=False):
    """`steps` elements of the dataset that `make` gives; more than there are, so that the end is
    seen too."""
    def build():
        iterator = tf1.data.make_initializable_iterator(make())
        element = tf.nest.flatten(iterator.get_next(), expand_composites=True)
        return {}, [[iterator.initializer]] + [element] * steps
    CASES.append(Case(op, build=build, name=f"{op} {name}"))


def options(**changes):
    result = tf.data.Options()
    result.experimental_optimization.apply_default_optimizations = False
    for key, value in changes.items():
        setattr(result, key, value)
    return result


def plain(dataset):
    return dataset.with_options(options())


# ---- Sources ----
ROWS = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
walk("TensorDataset", lambda: D.from_tensors((ROWS, b"text", np.int64(7))), 2)
walk("TensorSliceDataset", lambda: D.from_tensor_slices((ROWS, [b"a", b"bb", b"c", b""])), 5)
walk("TensorSliceDataset", lambda: D.from_tensor_slices(np.zeros([0, 3])), 1, "empty")
walk("TensorSliceDataset", lambda: D.from_tensor_slices(
    np.arange(40000, dtype=np.float64).reshape(4, 10000)), 4, "large")
walk("SparseTensorSliceDataset", lambda: D.from_sparse_tensor_slices(tf.SparseTensor(
    [[0, 0], [0, 2], [2, 1]], [1.0, 2.0, 3.0], [4, 3])), 5)
for bounds in [(5,), (2, 5), (2, 20, 7), (5, 0, -2), (0,), (3, 3), (5, 0)]:
    walk("RangeDataset", lambda b=bounds: D.range(*b), 6, str(bounds))
walk("RangeDataset", lambda: D.range(3, output_type=tf.int32), 4, "int32")
walk("RangeDataset", lambda: D.range(3, 9, 0), 1, "step 0")

# ---- Choosing ----
for count in (-1, 0, 2, 9):
    walk("TakeDataset", lambda c=count: D.range(4).take(c), 5, str(count))
    walk("SkipDataset", lambda c=count: D.range(4).skip(c), 5, str(count))
    walk("RepeatDataset", lambda c=count: D.range(2).repeat(c), 7, str(count))
walk("RepeatDataset", lambda: D.range(0).repeat(), 2, "nothing")
walk("ShardDataset", lambda: D.range(10).shard(3, 1), 4)
walk("ShardDataset", lambda: D.range(2).shard(3, 2), 2, "empty")
walk("ShardDataset", lambda: D.range(2).shard(tf.constant(3, tf.int64), tf.constant(3, tf.int64)),
     1, "bad index")
walk("ConcatenateDataset", lambda: D.range(2).concatenate(D.range(5, 7)), 5)
walk("ConcatenateDataset", lambda: D.from_tensors([1, 2]).concatenate(D.from_tensors([3])), 3,
     "shapes")
walk("ZipDataset", lambda: D.zip((D.range(3), D.range(10, 15), D.from_tensors(b"x").repeat())), 4)

# ---- Gathering ----
for drop in (False, True):
    walk("BatchDatasetV2", lambda d=drop: D.range(7).batch(3, drop_remainder=d), 4, f"{drop}")
    walk("WindowDataset", lambda d=drop: D.range(7).window(3, 2, 2, d).flat_map(
        lambda w: w.batch(10)), 5, f"{drop}")
    walk("WindowDataset", lambda d=drop: D.range(9).window(2, 4, 1, d).flat_map(
        lambda w: w.batch(10)), 5, f"gaps {drop}")
    walk("PaddedBatchDatasetV2", lambda d=drop: D.range(1, 6).map(
        lambda n: tf.fill([n], n)).padded_batch(2, [None], drop_remainder=d), 4, f"{drop}")
walk("BatchDatasetV2", lambda: D.from_tensor_slices([b"a", b"b", b"c"]).batch(2), 3, "strings")
walk("BatchDatasetV2", lambda: D.range(3).batch(tf.constant(0, tf.int64)), 1, "size 0")
walk("BatchDatasetV2", lambda: D.range(1, 4).map(lambda n: tf.fill([n], n)).batch(3), 2,
     "different shapes")
walk("PaddedBatchDatasetV2", lambda: D.range(1, 4).map(
    lambda n: (tf.fill([n, 2], n), digit(n))).padded_batch(
        3, ([4, 3], []), (np.int64(-1), b"")), 2, "matrix")
walk("PaddedBatchDatasetV2", lambda: D.range(1, 6).map(lambda n: tf.fill([n], n)).padded_batch(
    5, [3]), 2, "too small")
walk("PaddedBatchDatasetV2", lambda: D.from_tensors([b"ab", b"c"]).padded_batch(1, [4], b"-"), 2,
     "strings")
walk("UnbatchDataset", lambda: D.from_tensors((ROWS, [1, 2, 3, 4])).unbatch(), 5)

# ---- Functions ----
walk("MapDataset", lambda: plain(D.range(4).map(lambda n: (n * n, digit(n)))), 5)
walk("MapDataset", lambda: plain(D.range(4).map(
    lambda n: tf.constant([1, 2, 3], tf.int64)[n])), 5, "error")
walk("MapDataset", lambda: plain(D.range(2).map(lambda n: n + tf.constant(ROWS.size, tf.int64))), 3,
     "captured")
walk("FilterDataset", lambda: plain(D.range(10).filter(lambda n: tf.equal(n % 3, 0))), 5)
walk("FilterDataset", lambda: plain(D.range(3).filter(lambda n: n > 100)), 1, "nothing")
walk("TakeWhileDataset", lambda: plain(D.range(10).apply(
    tf.data.experimental.take_while(lambda n: n < 3))), 5)
walk("ScanDataset", lambda: plain(D.range(5).apply(tf.data.experimental.scan(
    np.int64(1), lambda s, n: (s * 2, s + n)))), 6)
walk("FlatMapDataset", lambda: plain(D.range(4).flat_map(lambda n: D.range(n))), 7)
walk("FlatMapDataset", lambda: plain(D.range(3).flat_map(
    lambda n: D.from_tensors(n).repeat(2).flat_map(lambda m: D.range(m)))), 8, "nested")
for cycle, block in [(1, 1), (2, 1), (3, 2), (10, 3)]:
    walk("InterleaveDataset", lambda c=cycle, b=block: plain(D.range(1, 6).interleave(
        lambda n: D.from_tensors(n).repeat(n), c, b)), 16, f"{cycle} {block}")
    walk("ParallelInterleaveDatasetV4", lambda c=cycle, b=block: plain(D.range(1, 6).interleave(
        lambda n: D.from_tensors(n).repeat(n), c, b, num_parallel_calls=2)), 16,
        f"{cycle} {block}")
for calls in (1, 3, -1):
    walk("ParallelMapDatasetV2", lambda c=calls: plain(D.range(9).map(
        lambda n: n * 2 + 1, num_parallel_calls=c)), 10, str(calls))
walk("ParallelMapDatasetV2", lambda: plain(D.range(4).map(
    lambda n: tf.constant([1, 2, 3], tf.int64)[n], num_parallel_calls=2)), 5, "error")
walk("MapAndBatchDataset", lambda: plain(D.range(7).apply(tf.data.experimental.map_and_batch(
    lambda n: n + 1, 3, num_parallel_calls=2))), 4)
for size in (0, 1, 5, -1):
    walk("PrefetchDataset", lambda s=size: plain(D.range(6).prefetch(s)), 7, str(size))
walk("PrefetchDataset", lambda: plain(D.range(3).map(
    lambda n: tf.constant([1, 2], tf.int64)[n]).prefetch(2)), 4, "error")

# ---- Shuffling: TensorFlow's own order ----
for size in (1, 3, 10, 100):
    for seed in (1, 42):
        for again in (True, False):
            def shuffled(s=size, e=seed, a=again):
                return D.range(12).shuffle(s, e, reshuffle_each_iteration=a)
            walk("ShuffleDataset", lambda f=shuffled: plain(f()), 13, f"{size} {seed} {again}")
            walk("ShuffleDataset", lambda f=shuffled: plain(f().repeat(3)), 37,
                 f"repeated {size} {seed} {again}")


def shuffle_and_repeat(size, count, seed):
    return D.range(5).apply(tf.data.experimental.shuffle_and_repeat(size, count, seed))


for size, count in [(3, 2), (20, 3), (7, -1), (4, 1)]:
    walk("ShuffleAndRepeatDataset", lambda s=size, c=count: plain(shuffle_and_repeat(s, c, 9)), 17,
         f"{size} {count}")
walk("ShuffleDataset", lambda: D.range(3).shuffle(tf.constant(0, tf.int64)), 1, "size 0")

# ---- Caches ----
walk("CacheDataset", lambda: plain(D.range(4).shuffle(4, 3).cache().repeat(3)), 13, "memory")


def fresh_path(name):
    """Another path each time a graph is built: the two sides must not find each other's cache."""
    return path(fresh(name))


CASES.append(Case("CacheDataset", build=lambda: (lambda it: ({}, [[it.initializer]] +
                                                             [[it.get_next()]] * 9))(
    tf1.data.make_initializable_iterator(plain(D.range(4).cache(fresh_path("cache")).repeat(2)))),
    name="CacheDataset file"))
with tf.Graph().as_default(), tf1.Session() as session:
    it = tf1.data.make_initializable_iterator(plain(D.from_tensor_slices(
        (ROWS, [b"a", b"bb", b"c", b""])).cache(path("genuine"))))
    session.run(it.initializer)
    step = it.get_next()
    for _ in range(4):
        session.run(step)
    try:
        session.run(step)
    except tf.errors.OutOfRangeError:
        pass
walk("CacheDataset", lambda: plain(D.from_tensor_slices((ROWS[:1], [b"other"])).cache(
    path("genuine"))), 5, "genuine file")

# ---- Files ----
RECORDS = [b"first", b"", b"x" * 100000, b"last"]
LINES = b"one\ntwo\r\n\nfour\rfour\nno end"
for suffix, pack in [("", lambda b: b), (".gz", gzip.compress), (".z", zlib.compress)]:
    open(path("lines" + suffix), "wb").write(pack(LINES))
    open(path("fixed" + suffix), "wb").write(pack(b"HEAD" + bytes(range(30)) + b"END"))
    open(path("odd" + suffix), "wb").write(pack(b"HEAD" + bytes(range(31)) + b"END"))
    open(path("empty" + suffix), "wb").write(pack(b""))
KINDS = {"": "", ".gz": "GZIP", ".z": "ZLIB"}
for suffix, kind in KINDS.items():
    with tf.io.TFRecordWriter(path("records" + suffix), kind) as writer:
        for record in RECORDS:
            writer.write(record)
    files = [path("records" + suffix)] * 2
    walk("TFRecordDataset", lambda f=files, k=kind: plain(tf1.data.TFRecordDataset(f, k)), 9,
         kind)
    walk("TFRecordDataset", lambda f=files, k=kind: plain(tf1.data.TFRecordDataset(
        f[0], k, buffer_size=1)), 5, f"small buffer {kind}")
    walk("TextLineDataset", lambda s=suffix, k=kind: plain(tf1.data.TextLineDataset(
        [path("lines" + s), path("empty" + s), path("lines" + s)], k)), 11, kind)
    walk("FixedLengthRecordDatasetV2", lambda s=suffix, k=kind: plain(
        tf1.data.FixedLengthRecordDataset([path("fixed" + s)] * 2, 5, 4, 3, compression_type=k)),
        13, kind)
    walk("FixedLengthRecordDatasetV2", lambda s=suffix, k=kind: plain(
        tf1.data.FixedLengthRecordDataset(path("odd" + s), 5, 4, 3, compression_type=k)), 1,
        f"odd {kind}")
data = open(path("records"), "rb").read()
open(path("cut"), "wb").write(data[:-7])
open(path("cuthead"), "wb").write(data[:30])
open(path("flipped"), "wb").write(data[:14] + b"X" + data[15:])
open(path("badlength"), "wb").write(b"\xff" + data[1:])
for name in ("cut", "cuthead", "flipped", "badlength", "absent", "lines.gz"):
    walk("TFRecordDataset", lambda n=name: plain(tf1.data.TFRecordDataset(path(n))), 5, name)
walk("TFRecordDataset", lambda: plain(tf1.data.TFRecordDataset(path("records"), "GZIP")), 1,
     "not compressed")
walk("TextLineDataset", lambda: plain(tf1.data.TextLineDataset(path("absent"))), 1, "absent")


# ---- Iterators ----
def one_shot():
    element = tf1.data.make_one_shot_iterator(plain(D.range(3).map(lambda n: n * n))).get_next()
    return {}, [[element]] * 4


CASES.append(Case("OneShotIterator", build=one_shot, name="OneShotIterator"))


def uninitialized():
    iterator = tf1.data.make_initializable_iterator(D.range(3))
    return {}, [[iterator.get_next()]]


CASES.append(Case("IteratorGetNext", build=uninitialized, name="IteratorGetNext uninitialized"))


def restarted():
    iterator = tf1.data.make_initializable_iterator(plain(D.range(3)))
    element = iterator.get_next()
    return {}, [[iterator.initializer], [element], [element], [iterator.initializer], [element]]


CASES.append(Case("MakeIterator", build=restarted, name="MakeIterator again"))


def reinitializable():
    iterator = tf1.data.Iterator.from_structure(tf.int64, [])
    first, second = (iterator.make_initializer(plain(d)) for d in (D.range(2), D.range(10, 12)))
    element = iterator.get_next()
    return {}, [[first], [element], [second], [element], [element], [element]]


CASES.append(Case("MakeIterator", build=reinitializable, name="MakeIterator two datasets"))


def mismatch():
    handle = R.IteratorV2(shared_name="m", container="", output_types=[tf.float32],
                          output_shapes=[[]])
    return {}, [[R.MakeIterator(dataset=D.range(3)._variant_tensor, iterator=handle)]]


CASES.append(Case("MakeIterator", build=mismatch, name="MakeIterator mismatch"))


def string_handle():
    iterator = tf1.data.make_initializable_iterator(plain(D.range(3)))
    handle = iterator.string_handle()
    element = tf1.data.Iterator.from_string_handle(handle, tf.int64, []).get_next()
    return {}, [[iterator.initializer], [element], [element], [element], [element]]


CASES.append(Case("IteratorFromStringHandle", build=string_handle, name="IteratorFromStringHandle"))
CASES.append(Case("IteratorFromStringHandle", build=lambda: ({}, [
    [tf1.data.Iterator.from_string_handle(tf.constant(b"nonsense"), tf.int64, []).get_next()]]),
    name="IteratorFromStringHandle bad"))


def optional():
    iterator = tf1.data.make_initializable_iterator(plain(D.range(2)))
    item = tf1.data.get_next_as_optional(iterator) if hasattr(tf1.data, "get_next_as_optional") \
        else tf.data.experimental.get_next_as_optional(iterator)
    variant = item._variant_tensor
    has = R.OptionalHasValue(optional=variant)
    value = R.OptionalGetValue(optional=variant, output_types=[tf.int64], output_shapes=[[]])[0]
    return {}, [[iterator.initializer], [has, value], [has, value], [has], [value]]


CASES.append(Case("IteratorGetNextAsOptional", build=optional, name="IteratorGetNextAsOptional"))


def made_optional(types, shapes):
    def build():
        made = R.OptionalFromValue(components=[np.float32([1, 2]), b"x"])
        return {}, [list(R.OptionalGetValue(optional=made, output_types=types,
                                            output_shapes=shapes)),
                    [R.OptionalHasValue(optional=made),
                     R.OptionalHasValue(optional=R.OptionalNone())]]
    return build


for types, shapes in [([tf.float32, tf.string], [[2], []]), ([tf.float32, tf.string], [[3], []]),
                      ([tf.int32, tf.string], [[2], []]), ([tf.float32], [[2]])]:
    CASES.append(Case("OptionalGetValue", build=made_optional(types, shapes),
                      name=f"OptionalGetValue {types} {shapes}"))
CASES.append(Case("OptionalGetValue", build=lambda: ({}, [list(R.OptionalGetValue(
    optional=R.OptionalNone(), output_types=[tf.float32], output_shapes=[[]]))]),
    name="OptionalGetValue nothing"))

# ---- Whole walks ----
for name, make in [("sum", lambda: D.range(5)), ("empty", lambda: D.range(0))]:
    CASES.append(Case("ReduceDataset", build=lambda m=make: ({}, [[
        m().reduce(np.int64(100), lambda s, n: s + n)]]), name=f"ReduceDataset {name}"))
CASES.append(Case("ReduceDataset", build=lambda: ({}, [list(D.range(5).reduce(
    (np.int64(0), b""), lambda s, n: (s[0] + n, s[1] + digit(n))))]),
    name="ReduceDataset two"))
for count in (0, 1, 2):
    CASES.append(Case("DatasetToSingleElement", build=lambda c=count: ({}, [[
        tf.data.experimental.get_single_element(D.range(c))]]),
        name=f"DatasetToSingleElement {count}"))
for name, make in [("range", lambda: D.range(5)), ("repeat", lambda: D.range(5).repeat()),
                   ("batch", lambda: D.range(5).batch(2)), ("skip", lambda: D.range(5).skip(9)),
                   ("filter", lambda: D.range(5).filter(lambda n: n > 1)),
                   ("map", lambda: D.range(5).map(lambda n: n)),
                   ("take", lambda: D.range(5).repeat().take(3)),
                   ("zip", lambda: D.zip((D.range(3), D.range(5).repeat()))),
                   ("shard", lambda: D.range(5).shard(2, 0)),
                   ("concatenate", lambda: D.range(5).concatenate(D.range(3))),
                   ("window", lambda: D.range(10).window(3, 2)),
                   ("shuffle", lambda: D.range(5).shuffle(3)),
                   ("slices", lambda: D.from_tensor_slices(ROWS))]:
    CASES.append(Case("DatasetCardinality", build=lambda m=make: ({}, [[
        tf.data.experimental.cardinality(m())]]), name=f"DatasetCardinality {name}"))

# More than a number holds, where TensorFlow's numbers wrap: unknown.
HALF = 2**62
for name, make in {
        "concatenated": lambda: D.range(HALF).concatenate(D.range(HALF)),
        "repeated": lambda: D.range(HALF).repeat(5),
        "shuffled and repeated": lambda: D.range(HALF).apply(
            tf.data.experimental.shuffle_and_repeat(3, 5))}.items():
    CASES.append(Case("DatasetCardinality", name=f"DatasetCardinality too many {name}", build=(
        lambda m=make: ({}, [[tf.data.experimental.cardinality(m())]])),
        check=lambda got: None if got[0] == -2 else f"{got[0]} is not unknown"))
