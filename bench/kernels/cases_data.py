"""Strings, parsing, images, tables, files, checkpoints, summaries, datasets."""

import atexit
import os
import shutil
import tempfile

import numpy as np
import tensorflow as tf
from table import B, F, I, R, V, Builder, Case, given, raw, tf1, untimed

FOLDER = tempfile.mkdtemp(prefix="bench_kernels_")
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


def words(n):
    return V(np.array([b"word number %d of them" % (i * 7919 % n) for i in range(n)], dtype=object))


def numbers(n):
    return V(np.array([b"%d.%d" % (i, i % 100) for i in range(n)], dtype=object))


# ---- Strings ----
W, X = 100, 10000
raw("AsString", {"small": dict(input=I(W)), "large": dict(input=I(X))})
raw("StringToNumber", {"small": dict(string_tensor=numbers(W)), "large": dict(string_tensor=numbers(X))})
raw("StringJoin", {"small": dict(inputs=[words(W), words(W)]), "large": dict(inputs=[words(X), words(X)])},
    dict(separator="/"))
raw("StringSplit", {"small": dict(input=words(W), delimiter=" "), "large": dict(input=words(X), delimiter=" ")})
raw("StringSplitV2", {"small": dict(input=words(W), sep=" "), "large": dict(input=words(X), sep=" ")})
for op in ("StringToHashBucket", "StringToHashBucketFast"):
    key = "string_tensor" if op == "StringToHashBucket" else "input"
    raw(op, {"small": {key: words(W)}, "large": {key: words(X)}}, dict(num_buckets=1000))
raw("Substr", {"small": dict(input=words(W), pos=5, len=6), "large": dict(input=words(X), pos=5, len=6)})
raw("EncodeBase64", {"small": dict(input=words(W)), "large": dict(input=words(X))})
BASE64 = np.array([b"d29yZCBudW1iZXIgb2YgdGhlbQ"] * X, dtype=object)
raw("DecodeBase64", {"small": dict(input=V(BASE64[:W])), "large": dict(input=V(BASE64))})
raw("RegexReplace", {"small": dict(input=words(W), pattern="n.mber", rewrite="x"),
                     "large": dict(input=words(X), pattern="n.mber", rewrite="x")})
raw("StaticRegexFullMatch", {"small": dict(input=words(W)), "large": dict(input=words(X))},
    dict(pattern="word.*them"))
raw("ShardedFilename", {"small": dict(basename="model", shard=3, num_shards=V(np.int32(10)))})
raw("DecodeRaw", {"small": dict(bytes=V(np.array([b"\1\2\3\4" * 1000], dtype=object))),
                  "large": dict(bytes=V(np.array([b"\1\2\3\4" * 4096] * 64, dtype=object)))},
    dict(out_type=tf.float32))


def csv(n):
    lines = given(V(np.array([b"%d,%d.5,name %d" % (i, i, i) for i in range(n)], dtype=object)))
    defaults = [tf.constant([0]), tf.constant([0.0]), tf.constant([""])]
    return lambda: R.DecodeCSV(records=lines, record_defaults=defaults)


Case("DecodeCSV", {"small": W, "large": X}, csv)


def examples(n):
    one = tf.train.Example()
    one.features.feature["label"].int64_list.value.append(3)
    one.features.feature["pixels"].float_list.value.extend([0.5] * 64)
    serialized = given(V(np.array([one.SerializeToString()] * n, dtype=object)))
    names, sparse, dense = tf.constant([], tf.string), tf.constant([], tf.string), tf.constant(["label", "pixels"])
    ragged, defaults = tf.constant([], tf.string), [tf.constant([], tf.int64), tf.constant([], tf.float32)]
    return lambda: R.ParseExampleV2(serialized=serialized, names=names, sparse_keys=sparse, dense_keys=dense,
                                    ragged_keys=ragged, dense_defaults=defaults, num_sparse=0, sparse_types=[],
                                    ragged_value_types=[], ragged_split_types=[], dense_shapes=[[1], [64]])


Case("ParseExampleV2", {"small": 4, "large": 1024}, examples)

# ---- Images ----
NOISE = np.random.RandomState(4).randint(0, 255, (256, 256, 3)).astype(np.uint8)
SMOOTH = (np.add.outer(np.arange(256), np.arange(256))[..., None] // 2 + [0, 5, 9]).astype(np.uint8)


def encoded(format_name, image):
    with tf1.Session() as session:
        encode = tf.io.encode_jpeg if format_name == "jpeg" else tf.io.encode_png
        return session.run(encode(image))


def decoding(op, format_name):
    def build(image):
        with tf.Graph().as_default():
            data = encoded(format_name, image)
        contents = given(V(np.array(data, dtype=object)))
        return lambda: getattr(R, op)(contents=contents)
    Case(op, {"small": SMOOTH[:16, :16], "large": SMOOTH}, build, repeats={"large": 2})


decoding("DecodeJpeg", "jpeg")
decoding("DecodePng", "png")
raw("EncodeJpeg", {"small": dict(image=V(SMOOTH[:16, :16])), "large": dict(image=V(SMOOTH))}, repeats={"large": 2})
raw("EncodePng", {"small": dict(image=V(SMOOTH[:16, :16])), "large": dict(image=V(SMOOTH))}, repeats={"large": 2})


# ---- Tables ----
def table_find(make):
    def build(n):
        handle = make(key_dtype=tf.string, value_dtype=tf.int64, shared_name=f"{make.__name__}{n}")
        keys, values = words(n), I(n, dtype=tf.int64)
        Builder.start(R.LookupTableImportV2(table_handle=handle, keys=keys.make(), values=values.make()))
        asked, default = given(keys), tf.constant(np.int64(-1))
        return lambda: R.LookupTableFindV2(table_handle=handle, keys=asked, default_value=default)
    return build


Case("HashTableV2", {"small": W, "large": X}, table_find(R.HashTableV2), covers=("LookupTableFindV2",))
Case("MutableHashTableV2", {"small": W, "large": X}, table_find(R.MutableHashTableV2))


def table_import(n):
    handle = R.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.float32, shared_name=f"import{n}")
    keys, values = given(V(np.arange(n, dtype=np.int64))), given(F(n))
    return lambda: R.LookupTableImportV2(table_handle=handle, keys=keys, values=values)


Case("LookupTableImportV2", {"small": W, "large": X}, table_import)


# ---- Files and checkpoints ----
def path(name):
    return os.path.join(FOLDER, name)


def write_file(size):
    name, contents = tf.constant(path(f"written{size}")), given(V(np.array(b"x" * size, dtype=object)))
    return lambda: R.WriteFile(filename=name, contents=contents)


def read_file(size):
    with open(path(f"read{size}"), "wb") as file:
        file.write(b"y" * size)
    name = tf.constant(path(f"read{size}"))
    return lambda: R.ReadFile(filename=name)


Case("WriteFile", {"small": 1000, "large": 1 << 20}, write_file, writes=True)
Case("ReadFile", {"small": 1000, "large": 1 << 20}, read_file)


def matching(count):
    folder = path(f"many{count}")
    os.makedirs(folder, exist_ok=True)
    for i in range(count):
        open(os.path.join(folder, f"part-{i}"), "w").close()
    pattern = tf.constant(os.path.join(folder, "part-*"))
    return lambda: R.MatchingFiles(pattern=pattern)


Case("MatchingFiles", {"small": 20}, matching)
SAVED = {"small": 1000, "large": 1 << 20}


def saved_names(n):
    return tf.constant(["a", "b"]), tf.constant(["", ""]), [given(F(n)), given(F(n))]


def save_v2(n):
    names, slices, values = saved_names(n)
    prefix = tf.constant(path(f"v2-{n}"))
    return lambda: R.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=slices, tensors=values)


def restore_v2(n):
    names, slices, values = saved_names(n)
    prefix = tf.constant(path(f"restored-v2-{n}"))
    Builder.start(R.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=slices, tensors=values))
    return lambda: R.RestoreV2(prefix=prefix, tensor_names=names, shape_and_slices=slices,
                               dtypes=[tf.float32, tf.float32])


def merge(n):
    names, slices, values = saved_names(n)
    prefix, merged = tf.constant(path(f"part-{n}")), tf.constant(path(f"merged-{n}"))

    def unit():
        with tf.control_dependencies([R.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=slices,
                                               tensors=values)]):
            return R.MergeV2Checkpoints(checkpoint_prefixes=tf.reshape(prefix, [1]), destination_prefix=merged)
    return unit


def save_v1(op):
    def build(n):
        names, slices, values = saved_names(n)
        filename = tf.constant(path(f"{op}-{n}"))
        if op == "Save":
            return lambda: R.Save(filename=filename, tensor_names=names, data=values)
        return lambda: R.SaveSlices(filename=filename, tensor_names=names, shapes_and_slices=slices, data=values)
    return build


def restore_v1(op):
    def build(n):
        names, slices, values = saved_names(n)
        filename, name, whole = tf.constant(path(f"{op}-read-{n}")), tf.constant("a"), tf.constant("")
        Builder.start(R.Save(filename=filename, tensor_names=names, data=values))
        if op == "Restore":
            return lambda: R.Restore(file_pattern=filename, tensor_name=name, dt=tf.float32)
        return lambda: R.RestoreSlice(file_pattern=filename, tensor_name=name, shape_and_slice=whole, dt=tf.float32)
    return build


FEW = {"small": 10, "large": 2}
Case("SaveV2", SAVED, save_v2, repeats=FEW, writes=True)
Case("RestoreV2", SAVED, restore_v2, repeats=FEW)
Case("MergeV2Checkpoints", {"small": 1000}, merge, repeats=FEW, writes=True)
for op in ("Save", "SaveSlices"):
    Case(op, SAVED, save_v1(op), repeats=FEW, writes=True)
for op in ("Restore", "RestoreSlice"):
    Case(op, SAVED, restore_v1(op), repeats=FEW)


# ---- Readers: a queue of names that starts again, one record a copy ----
def reader(op, take=None):
    def build(n):
        name = path("reader.txt")
        with open(name, "w", encoding="ascii") as file:
            file.writelines(f"line number {i:08}\n" for i in range(n))
        if op == "TFRecordReaderV2":
            name = path("reader.tfrecord")
            with tf.io.TFRecordWriter(name) as writer:
                for i in range(n):
                    writer.write(b"record %d" % i)
        queue = R.FIFOQueueV2(component_types=[tf.string], shapes=[[]], shared_name="names" + op)
        Builder.start(R.QueueEnqueueManyV2(handle=queue, components=[tf.constant([name] * 5000)]))
        more = dict(record_bytes=21) if op == "FixedLengthRecordReaderV2" else {}
        handle = getattr(R, op)(shared_name="reader" + op, **more)
        return (take or (lambda h, q: lambda: R.ReaderReadV2(reader_handle=h, queue_handle=q)))(handle, queue)
    return build


def read_up_to(handle, queue):
    count = tf.constant(np.int64(10))
    return lambda: R.ReaderReadUpToV2(reader_handle=handle, queue_handle=queue, num_records=count)


Case("TextLineReaderV2", {"small": 100000}, reader("TextLineReaderV2"), covers=("ReaderReadV2",))
Case("ReaderReadUpToV2", {"small": 100000}, reader("TextLineReaderV2", take=read_up_to))
Case("FixedLengthRecordReaderV2", {"small": 100000}, reader("FixedLengthRecordReaderV2"))
Case("TFRecordReaderV2", {"small": 100000}, reader("TFRecordReaderV2"))
Case("IdentityReaderV2", {"small": 10}, reader("IdentityReaderV2"), repeats={"small": 10})
Case("WholeFileReaderV2", {"small": 10}, reader("WholeFileReaderV2"), repeats={"small": 10})


def sparse_map(n):
    indices, values = given(V(np.arange(n, dtype=np.int64)[:, None])), given(F(n))
    shape = tf.constant(np.int64([n]))

    def unit():
        key = R.AddSparseToTensorsMap(sparse_indices=indices, sparse_values=values, sparse_shape=shape,
                                      shared_name="map")
        return R.TakeManySparseFromTensorsMap(sparse_handles=tf.reshape(key, [1]), dtype=tf.float32,
                                              shared_name="map")
    return unit


Case("AddSparseToTensorsMap", {"small": 100}, sparse_map)

# ---- Summaries ----
raw("ScalarSummary", {"small": dict(tags="loss", values=V(np.float32(1.5)))})
raw("HistogramSummary", {"small": dict(tag="weights", values=F(1000)), "large": dict(tag="weights", values=F(1 << 18))})
raw("TensorSummaryV2", {"small": dict(tag="weights", tensor=F(1000), serialized_summary_metadata=""),
                        "large": dict(tag="weights", tensor=F(1 << 18), serialized_summary_metadata="")})
raw("ImageSummary", {"small": dict(tag="image", tensor=F(1, 16, 16, 3)),
                     "large": dict(tag="image", tensor=F(3, 64, 64, 3))}, dict(max_images=3))


def merged(count):
    summaries = [R.ScalarSummary(tags=f"loss{i}", values=given(V(np.float32(i)))) for i in range(count)]
    return lambda: R.MergeSummary(inputs=summaries)


Case("MergeSummary", {"small": 10}, merged)


# ---- Datasets: each copy takes one element of a pipeline that does not end ----
def pipeline(op, make, sizes, covers=(), repeats=None):
    def build(size):
        dataset = make(size)
        iterator = tf1.data.make_initializable_iterator(dataset.repeat(), shared_name=f"{op}{size}")
        Builder.start(iterator.initializer)
        types = tf.nest.flatten(tf1.data.get_output_types(dataset))
        shapes = tf.nest.flatten(tf1.data.get_output_shapes(dataset))
        handle = iterator._iterator_resource
        return lambda: R.IteratorGetNext(iterator=handle, output_types=types, output_shapes=shapes)
    Case(op, sizes, build, covers=covers, repeats=repeats)


D = tf.data.Dataset
ONE = {"small": 1000}
pipeline("RangeDataset", lambda n: D.range(n), ONE,
         covers=("IteratorGetNext", "IteratorV2", "MakeIterator", "RepeatDataset"))
pipeline("TensorDataset", lambda n: D.from_tensors(np.ones(n, np.float32)), ONE)
pipeline("TensorSliceDataset", lambda n: D.from_tensor_slices(np.ones((n, 10), np.float32)), ONE)
pipeline("BatchDatasetV2", lambda n: D.from_tensor_slices(np.ones((n, 10), np.float32)).batch(50),
         {"small": 1000, "large": 10000}, repeats={"large": 20})
pipeline("ConcatenateDataset", lambda n: D.range(n).concatenate(D.range(n)), ONE)
pipeline("FilterDataset", lambda n: D.range(n).filter(lambda x: tf.equal(x % 2, 0)), ONE)
pipeline("FlatMapDataset", lambda n: D.range(n).flat_map(lambda x: D.range(20)), ONE)
pipeline("InterleaveDataset", lambda n: D.range(n).interleave(lambda x: D.range(20), cycle_length=4, block_length=4), ONE)
pipeline("ParallelMapDatasetV2", lambda n: D.range(n).map(lambda x: x + 1, num_parallel_calls=2), ONE)
pipeline("PrefetchDataset", lambda n: D.range(n).prefetch(10), ONE)
pipeline("ShardDataset", lambda n: D.range(n).shard(2, 1), ONE)
pipeline("ShuffleDataset", lambda n: D.range(n).shuffle(100, seed=1), ONE)
pipeline("SkipDataset", lambda n: D.range(n).skip(10), ONE)
pipeline("TakeDataset", lambda n: D.range(n).take(900), ONE)
pipeline("ZipDataset", lambda n: D.zip((D.range(n), D.range(n))), ONE)


def text_lines(n):
    with open(path("lines"), "w", encoding="ascii") as file:
        file.writelines(f"line number {i}\n" for i in range(n))
    return tf.data.TextLineDataset(path("lines"))


def records(n):
    with tf.io.TFRecordWriter(path("records")) as writer:
        for _ in range(n):
            writer.write(b"record" * 20)
    return tf.data.TFRecordDataset(path("records"))


pipeline("TextLineDataset", text_lines, ONE)
pipeline("TFRecordDataset", records, ONE)


def optional(n):
    value = given(F(n))

    def unit():
        handle = R.OptionalFromValue(components=[value])
        return R.OptionalGetValue(optional=handle, output_types=[tf.float32], output_shapes=[[n]])
    return unit


Case("OptionalFromValue", ONE, optional, covers=("OptionalGetValue",))
untimed("made once in a graph's life", "OneShotIterator", "IteratorToStringHandle")
