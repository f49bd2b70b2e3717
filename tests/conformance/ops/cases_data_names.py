"""Datasets and iterators under their older, experimental and anonymous names: each one built node by
node, and walked to its end."""
import os

import numpy as np
import tensorflow as tf
from fixtures import as_it_is, fresh, scratch_folder, start_and_next
from runner import Case, feed, make_op

R = tf.raw_ops
tf1 = tf.compat.v1
D = tf1.data.Dataset
FOLDER = scratch_folder("dataset-names")
CASES = []
NEW = (2, 13)  # the first version with some of these


def number(value):
    return feed(value, tf.int64)


def path(name):
    return os.path.join(FOLDER, name)


def walk(op, make, steps, name="", types=(tf.int64,), shapes=(None,),
         since=None):
    """`steps` elements of the dataset whose variant `make` gives, and the end."""
    def build():
        start, element = start_and_next(make(), list(types), list(shapes))
        return {}, [[start]] + [element] * steps
    CASES.append(Case(op, build=build, name=f"{op} {name}", since=since))


def source(count=4):
    return D.range(count)._variant_tensor


def over(op, input_dataset=None, types=(tf.int64,), shapes=(None,), **arguments):
    """A dataset over another one, range(4) unless told."""
    return make_op(op, input_dataset=source() if input_dataset is None else input_dataset,
                   output_types=list(types), output_shapes=list(shapes), **arguments)


def body(function, *types):
    """A function of scalars as a node's attribute takes it."""
    made = tf.function(function, autograph=False).get_concrete_function(
        *[tf.TensorSpec([], t) for t in types])
    made.add_to_graph(tf1.get_default_graph())
    return made


# ---- Datasets that pass their input on ----
def strings(*values):
    return feed(np.array(values, object) if values else np.array([], object), tf.string)


PASSING = {
    "OptimizeDataset": lambda: dict(optimizations=strings()),
    "OptimizeDatasetV2": lambda: dict(optimizations_enabled=strings(),
                                      optimizations_disabled=strings(),
                                      optimizations_default=strings()),
    "ModelDataset": dict,
    "FinalizeDataset": dict,
    "NonSerializableDataset": dict,
    "ExperimentalNonSerializableDataset": dict,
    "LatencyStatsDataset": lambda: dict(tag=feed("t")),
    "ExperimentalLatencyStatsDataset": lambda: dict(tag=feed("t")),
    "BytesProducedStatsDataset": lambda: dict(tag=feed("t")),
    "ExperimentalBytesProducedStatsDataset": lambda: dict(tag=feed("t")),
    "MaxIntraOpParallelismDataset": lambda: dict(max_intra_op_parallelism=number(1)),
    "ExperimentalMaxIntraOpParallelismDataset": lambda: dict(max_intra_op_parallelism=number(1)),
    "PrivateThreadPoolDataset": lambda: dict(num_threads=number(2)),
    "ExperimentalPrivateThreadPoolDataset": lambda: dict(num_threads=number(2)),
    "AssertNextDataset": lambda: dict(transformations=strings()),
    "ExperimentalAssertNextDataset": lambda: dict(transformations=strings()),
}
for op, arguments in PASSING.items():
    walk(op, lambda op=op, a=arguments: over(op, **a()), 5)
    walk(op, lambda op=op, a=arguments: over(op, D.range(2).map(
        lambda n: (n, tf.gather(["a", "b"], n)))._variant_tensor, (tf.int64, tf.string),
        (None, None), **a()), 3, "two components", (tf.int64, tf.string), (None, None))
    walk(op, lambda op=op, a=arguments: over(op, D.range(3).map(
        lambda n: tf.constant([1, 2], tf.int64)[n])._variant_tensor, **a()), 4, "an error")
    CASES.append(Case(op, name=f"{op} cardinality", build=lambda op=op, a=arguments: (
        {}, [[R.DatasetCardinality(input_dataset=over(op, **a()))]])))
for prefix in ["", "Experimental"]:
    for threads in [0, -1, 1]:
        walk(f"{prefix}MaxIntraOpParallelismDataset", lambda p=prefix, t=threads: over(
            f"{p}MaxIntraOpParallelismDataset", max_intra_op_parallelism=number(t)), 2, str(threads))
        walk(f"{prefix}PrivateThreadPoolDataset", lambda p=prefix, t=threads: over(
            f"{p}PrivateThreadPoolDataset", num_threads=number(t)), 2, str(threads))
    walk(f"{prefix}PrivateThreadPoolDataset", lambda p=prefix: over(
        f"{p}PrivateThreadPoolDataset", num_threads=number([1, 2])), 1, "of rank 1")
    walk(f"{prefix}MaxIntraOpParallelismDataset", lambda p=prefix: over(
        f"{p}MaxIntraOpParallelismDataset", max_intra_op_parallelism=number([1, 2])), 1, "of rank 1")
    walk(f"{prefix}LatencyStatsDataset", lambda p=prefix: over(
        f"{p}LatencyStatsDataset", tag=strings("a", "b")), 1, "two tags")

# ---- Batches ----
for size in [1, 3, 4, 9, 0, -1]:
    walk("BatchDataset", lambda s=size: over("BatchDataset", batch_size=number(s)), 5, str(size))
walk("BatchDataset", lambda: over("BatchDataset", batch_size=number([2])), 1, "size of rank 1")
walk("BatchDataset", lambda: over("BatchDataset", D.range(1, 4).map(
    lambda n: tf.fill([n], n))._variant_tensor, batch_size=number(3)), 2, "different shapes")
walk("BatchDataset", lambda: over("BatchDataset", D.from_tensor_slices(
    [b"a", b"b", b"c"])._variant_tensor, (tf.string,), batch_size=number(2)), 3, "strings",
    (tf.string,))


def padded(size, shape, value=-1, data=None, types=(tf.int64,)):
    rows = D.range(1, 6).map(lambda n: tf.fill([n], n)) if data is None else data()
    return make_op("PaddedBatchDataset", input_dataset=rows._variant_tensor,
                   batch_size=number(size), padded_shapes=[number(shape)],
                   padding_values=[feed(value, types[0])], output_shapes=[None])


for size, shape in [(2, [-1]), (2, [7]), (5, [3]), (9, [-1]), (0, [-1]), (2, [-1, 2]), (2, [])]:
    walk("PaddedBatchDataset", lambda s=size, p=shape: padded(s, p), 4, f"{size} {shape}")
walk("PaddedBatchDataset", lambda: padded(2, [-1], [1, 2]), 2, "values of rank 1")
walk("PaddedBatchDataset", lambda: padded(2, [4], "-", lambda: D.from_tensors([b"ab", b"c"]),
                                          (tf.string,)), 2, "strings", (tf.string,))
for name, data in {"rows": lambda: D.from_tensors(np.arange(12).reshape(4, 3)).repeat(2),
                   "no rows": lambda: D.from_tensors(np.zeros((0, 2), np.int64)),
                   "scalars": lambda: D.range(2)}.items():
    walk("ExperimentalUnbatchDataset", lambda d=data: over("ExperimentalUnbatchDataset",
                                                           d()._variant_tensor), 9, name)


# ---- Functions ----
def mapped(op, function, result=(tf.int64,), **arguments):
    return over(op, f=body(function, tf.int64), other_arguments=[], types=result,
                shapes=[None] * len(result), **arguments)


def failing(n):
    return tf.constant([1, 2, 3], tf.int64)[n]


for calls in [1, 3, -1, 0, -2]:
    walk("ParallelMapDataset", lambda c=calls: mapped(
        "ParallelMapDataset", lambda n: n * 2 + 1, num_parallel_calls=feed(c)), 5, str(calls))
walk("ParallelMapDataset", lambda: mapped("ParallelMapDataset", failing,
                                          num_parallel_calls=feed(2)), 6, "an error")
for size, calls, drop in [(3, 2, False), (3, 2, True), (2, 1, False), (9, 4, False), (9, 4, True),
                          (0, 1, False), (2, 0, False)]:
    walk("ExperimentalMapAndBatchDataset", lambda s=size, c=calls, d=drop: mapped(
        "ExperimentalMapAndBatchDataset", lambda n: n + 10, batch_size=number(s),
        num_parallel_calls=number(c), drop_remainder=feed(d)), 4, f"{size} {calls} {drop}")
for limit in [0, 2, 9]:
    walk("ExperimentalTakeWhileDataset", lambda m=limit: over(
        "ExperimentalTakeWhileDataset", predicate=body(lambda n: n < m, tf.int64),
        other_arguments=[]), 5, str(limit))
walk("ExperimentalTakeWhileDataset", lambda: over(
    "ExperimentalTakeWhileDataset", predicate=body(lambda n: failing(n) > 0, tf.int64),
    other_arguments=[]), 5, "an error")
walk("ExperimentalScanDataset", lambda: over(
    "ExperimentalScanDataset", initial_state=[number(1)], other_arguments=[],
    f=body(lambda s, n: (s * 2, s + n), tf.int64, tf.int64)), 6)
walk("ExperimentalScanDataset", lambda: over(
    "ExperimentalScanDataset", initial_state=[number(1)], other_arguments=[],
    f=body(lambda s, n: (s, failing(n)), tf.int64, tf.int64)), 5, "an error")


def repeats(n):
    return D.from_tensors(n).repeat(n)._variant_tensor


def six_times(n):
    return D.from_tensors(n).repeat(6)._variant_tensor


def interleaved(op, cycle, block, function=repeats, **arguments):
    return over(op, D.range(1, 6)._variant_tensor, f=body(function, tf.int64), other_arguments=[],
                cycle_length=number(cycle), block_length=number(block), **arguments)


def buffered(output=1, ahead=1):
    return dict(buffer_output_elements=number(output), prefetch_input_elements=number(ahead))


def calls(count=2):
    return dict(num_parallel_calls=number(count))


BUFFERED = {
    "ParallelInterleaveDataset": lambda: dict(buffered(), sloppy=feed(False)),
    "ExperimentalParallelInterleaveDataset": lambda: dict(buffered(), sloppy=feed(False)),
    "LegacyParallelInterleaveDatasetV2": lambda: dict(buffered(), deterministic="true"),
}
CALLED = {
    "ParallelInterleaveDatasetV2": calls,
    "ParallelInterleaveDatasetV3": lambda: dict(calls(), deterministic="true"),
}
for op, arguments in {**BUFFERED, **CALLED}.items():
    turns = [(1, 1, repeats), (2, 1, repeats), (10, 1, repeats), (0, 1, repeats), (2, 0, repeats)]
    if op in CALLED:
        turns += [(10, 3, repeats), (2, 7, repeats), (3, 2, repeats)]
    else:  # what follows an input that ends within its block depends on TensorFlow's threads
        turns += [(10, 3, six_times), (2, 6, six_times), (3, 2, six_times)]
    for cycle, block, function in turns:
        walk(op, lambda op=op, c=cycle, b=block, f=function, a=arguments: interleaved(
            op, c, b, f, **a()), 16, f"{cycle} {block}")
    walk(op, lambda op=op, a=arguments: interleaved(op, 2, 1, lambda n: D.range(n).map(
        lambda m: failing(m))._variant_tensor, **a()), 18, "an error")
    walk(op, lambda op=op, a=arguments: interleaved(op, 2, 2, lambda n: D.range(
        0)._variant_tensor, **a()), 1, "nothing")
for output, ahead in [(5, 0), (0, 1), (1, -1), (3, 3)]:
    walk("ParallelInterleaveDataset", lambda o=output, a=ahead: interleaved(
        "ParallelInterleaveDataset", 2, 1, sloppy=feed(False), **buffered(o, a)), 16,
        f"buffers {output} {ahead}")
for count in [1, 8, -1, 0]:
    walk("ParallelInterleaveDatasetV2", lambda n=count: interleaved(
        "ParallelInterleaveDatasetV2", 3, 1, **calls(n)), 16, f"calls {count}")


# ---- Shuffling with generators of seeds ----
def shuffled(op, generator, size=3, **arguments):
    return over(op, source(8), buffer_size=number(size), seed_generator=generator, **arguments)


def seeded(seed=5, seed2=7, again=True):
    return make_op("AnonymousSeedGenerator", seed=number(seed), seed2=number(seed2),
                   reshuffle=feed(again))


def shuffle_in_one_run(op, generator, name, steps=9, repeat=1, **arguments):
    """A generator lives as long as its handle, so everything happens in one run."""
    def build():
        handle, _ = generator()
        data = shuffled(op, handle, **{k: v() for k, v in arguments.items()})
        data = R.RepeatDataset(input_dataset=data, count=number(repeat), output_types=[tf.int64],
                               output_shapes=[None])
        iterator, end = make_op("AnonymousIteratorV2", output_types=[tf.int64], output_shapes=[None])
        before, elements = [R.MakeIterator(
            dataset=as_it_is(data, [tf.int64], [None]), iterator=iterator)], []
        for _ in range(steps):
            with tf.control_dependencies(before):
                before = tf.nest.flatten(make_op("IteratorGetNextSync", iterator=iterator,
                                                 output_types=[tf.int64], output_shapes=[None]))
                elements += before
        with tf.control_dependencies(before):
            ends = [make_op("DeleteIterator", handle=iterator, deleter=end)]
        return {}, [elements + ends]
    CASES.append(Case(op, build=build, name=f"{op} {name}"))


def seeds(seed=5, seed2=7):
    return dict(seed=lambda: number(seed), seed2=lambda: number(seed2))


for seed in [(5, 7), (0, 1), (-3, 2 ** 40)]:
    for times in [1, 3]:
        for again in [True, False]:
            shuffle_in_one_run("ShuffleDatasetV2", lambda s=seed, a=again: seeded(*s, a),
                               f"{seed} {times} {again}", 8 * times, times)
            shuffle_in_one_run("ShuffleDatasetV3", lambda s=seed, a=again: seeded(*s, a),
                               f"{seed} {times} {again}", 8 * times, times,
                               **seeds(*seed))
            shuffle_in_one_run("ShuffleAndRepeatDatasetV2", lambda s=seed, a=again: seeded(*s, a),
                               f"{seed} {times} {again}", 8 * times,
                               count=lambda t=times: number(t), **seeds(*seed))
for size in [1, 8, 100]:
    shuffle_in_one_run("ShuffleDatasetV3", seeded, f"size {size}", 8,
                       size=lambda s=size: s, **seeds())
for size in [0, -1, -2]:
    walk("ShuffleDatasetV3", lambda s=size: shuffled(
        "ShuffleDatasetV3", make_op("DummySeedGenerator"), s, seed=number(1), seed2=number(2)), 9,
        f"size {size}", since=NEW if size == -2 else None)
for size in [0, -1, 1]:  # the order of more would be random
    walk("ShuffleDatasetV2", lambda s=size: shuffled(
        "ShuffleDatasetV2", make_op("DummySeedGenerator"), s), 9, f"size {size}")
for again in [True, False]:
    walk("ShuffleDatasetV3", lambda a=again: shuffled(
        "ShuffleDatasetV3", make_op("DummySeedGenerator"), seed=number(1), seed2=number(2),
        reshuffle_each_iteration=a), 9, f"without a generator {again}")
    for count in [1, 3, -1, 0]:
        walk("ShuffleAndRepeatDatasetV2", lambda a=again, c=count: shuffled(
            "ShuffleAndRepeatDatasetV2", make_op("DummySeedGenerator"), seed=number(1),
            seed2=number(2), count=number(c), reshuffle_each_iteration=a), 26,
            f"without a generator {again} {count}")


# ---- Caches ----
def cached(cache, name=""):
    return over("CacheDatasetV2", D.range(4).shuffle(4, 3)._variant_tensor, filename=feed(name),
                cache=cache)


def cache_in_one_run():
    handle, _ = make_op("AnonymousMemoryCache")
    data = R.RepeatDataset(input_dataset=cached(handle), count=number(2), output_types=[tf.int64],
                           output_shapes=[None])
    iterator = make_op("AnonymousIterator", output_types=[tf.int64], output_shapes=[None])
    before, elements = [R.MakeIterator(
            dataset=as_it_is(data, [tf.int64], [None]), iterator=iterator)], []
    for _ in range(8):
        with tf.control_dependencies(before):
            before = list(R.IteratorGetNext(iterator=iterator, output_types=[tf.int64],
                                            output_shapes=[None]))
            elements += before
    return {}, [elements] * 2


CASES.append(Case("CacheDatasetV2", name="CacheDatasetV2 memory", build=cache_in_one_run))
walk("CacheDatasetV2", lambda: R.RepeatDataset(
    input_dataset=cached(make_op("DummyMemoryCache"), path(fresh("cache"))), count=number(2),
    output_types=[tf.int64], output_shapes=[None]), 9, "file")


# ---- Files ----
def write_records(name, compression=""):
    with tf.io.TFRecordWriter(path(name), compression) as writer:
        for record in [b"first", b"", b"x" * 1000, b"last"]:
            writer.write(record)


def records(names, compression="", size=0, offsets=()):
    return make_op("TFRecordDatasetV2", filenames=feed([path(n) for n in names]),
                   compression_type=feed(compression), buffer_size=number(size),
                   byte_offsets=number(np.array(offsets, np.int64)))


for compression in ["", "GZIP", "ZLIB"]:
    write_records("records" + compression, compression)
    for size in [0, 1, 4096]:
        walk("TFRecordDatasetV2", lambda c=compression, s=size: records(
            ["records" + c] * 2, c, s), 9, f"{compression} {size}", (tf.string,), since=NEW)
FIRST = 8 + 4 + 5 + 4  # where the second record begins
for name, files, offsets in [("after the first", ["records"], [FIRST]),
                             ("two files", ["records", "records"], [FIRST, 0]),
                             ("inside a record", ["records"], [3]),
                             ("past the end", ["records"], [100000]),
                             ("an absent file", ["absent"], [0])]:
    walk("TFRecordDatasetV2", lambda f=files, o=offsets: records(f, offsets=o), 8, name,
         (tf.string,), since=NEW)


def to_file(op, dataset, compression=""):
    def build():
        name = path(fresh("written"))
        write = make_op(op, input_dataset=dataset()._variant_tensor, filename=feed(name),
                        compression_type=feed(compression))
        start, element = start_and_next(
            tf1.data.TFRecordDataset(name, compression)._variant_tensor, [tf.string], [[]])
        return {}, [[write], [start]] + [element] * 5
    return build


for op in ["DatasetToTFRecord", "ExperimentalDatasetToTFRecord"]:
    for name, dataset, compression in [
            ("plain", lambda: D.from_tensor_slices([b"a", b"", b"c" * 1000]), ""),
            ("GZIP", lambda: D.from_tensor_slices([b"a", b"", b"c" * 1000]), "GZIP"),
            ("ZLIB", lambda: D.from_tensor_slices([b"a", b"", b"c" * 1000]), "ZLIB"),
            ("nothing", lambda: D.from_tensor_slices(np.array([], object).astype(bytes)), ""),
            ("numbers", lambda: D.range(3), ""),
            ("two components", lambda: D.from_tensors((b"a", b"b")), ""),
            ("an error", lambda: D.range(3).map(lambda n: tf.gather(["a"], n)), ""),
            ("unknown compression", lambda: D.from_tensors(b"a"), "LZO")]:
        CASES.append(Case(op, build=to_file(op, dataset, compression), name=f"{op} {name}"))


# ---- Iterators ----
for op in ["AnonymousIterator", "AnonymousIteratorV2", "AnonymousIteratorV3"]:
    def anonymous(op=op, get_next="IteratorGetNext", count=3, dataset=None):
        def build():
            handle = tf.nest.flatten(make_op(op, output_types=[tf.int64], output_shapes=[[]]))
            data = D.range(3) if dataset is None else dataset()
            before, elements = [R.MakeIterator(dataset=data._variant_tensor, iterator=handle[0])], []
            for _ in range(count):
                with tf.control_dependencies(before):
                    before = tf.nest.flatten(make_op(get_next, iterator=handle[0],
                                                     output_types=[tf.int64], output_shapes=[[]]))
                    elements += before
            with tf.control_dependencies(before):
                ends = [make_op("DeleteIterator", handle=handle[0], deleter=handle[1])] \
                    if len(handle) == 2 else []
            return {}, [elements + ends] * 2
        return build
    for get_next in ["IteratorGetNext", "IteratorGetNextSync"]:
        for count in [1, 3, 4]:
            CASES.append(Case(op, build=anonymous(op, get_next, count),
                              name=f"{op} {get_next} {count}"))
    CASES.append(Case(op, build=anonymous(op, dataset=lambda: D.from_tensors(1.)),
                      name=f"{op} another dtype"))
    CASES.append(Case(op, build=anonymous(op, dataset=lambda: D.from_tensors(np.array([1]))),
                      name=f"{op} another shape"))
    CASES.append(Case(op, name=f"{op} not started", build=lambda op=op: ({}, [[
        make_op("IteratorGetNextSync", iterator=tf.nest.flatten(make_op(
            op, output_types=[tf.int64], output_shapes=[[]]))[0], output_types=[tf.int64],
            output_shapes=[[]])[0]]])))


def synchronous():
    start, element = start_and_next(source(3), [tf.int64], [[]], "IteratorGetNextSync")
    return {}, [element, [start]] + [element] * 4 + [[start], element]


CASES.append(Case("IteratorGetNextSync", build=synchronous, name="IteratorGetNextSync"))


def on_cpu(results):
    return None if results[0].endswith(b"/device:CPU:0") else f"device {results[0]}"


for op in ["IteratorGetDevice", "ExperimentalIteratorGetDevice"]:
    def device(op=op):
        iterator = tf1.data.make_initializable_iterator(D.range(3))
        return {}, [[make_op(op, resource=iterator._iterator_resource)]]
    CASES.append(Case(op, build=device, name=op, check=lambda got: on_cpu([np.asarray(
        got[0], object).item()])))

for name, make in {"range": lambda: D.range(5), "endless": lambda: D.range(5).repeat(),
                   "unknown": lambda: D.range(5).filter(lambda n: n > 1),
                   "batches": lambda: D.range(5).batch(2), "none": lambda: D.range(0)}.items():
    CASES.append(Case("ExperimentalDatasetCardinality", build=lambda m=make: ({}, [[make_op(
        "ExperimentalDatasetCardinality", input_dataset=m()._variant_tensor)]]),
        name=f"ExperimentalDatasetCardinality {name}"))
