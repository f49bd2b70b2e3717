"""Datasets that are written to files and read back: Dataset.save, Dataset.load."""
import os

import numpy as np
import tensorflow as tf
from fixtures import quiet, scratch_folder
from runner import Case

R = tf.raw_ops
tf1 = tf.compat.v1
D = tf.data.Dataset
FOLDER = scratch_folder("dataset-saved")
CASES = []


def path(name):
    return os.path.join(FOLDER, name)


def add(op, name, build, **options):
    CASES.append(Case(op, build=build, name=f"{op} {name}", **options))


def taken(dataset, steps):
    """What starts a walk, then what takes an element, so many times."""
    iterator = tf1.data.make_initializable_iterator(dataset.with_options(quiet()))
    element = tf.nest.flatten(iterator.get_next(), expand_composites=True)
    return [[iterator.initializer]] + [element] * steps


def save(dataset, folder, **options):
    """The op that Dataset.save adds, which older versions do not return."""
    dataset.with_options(quiet()).save(folder, **options)
    operations = tf1.get_default_graph().get_operations()
    return [operation for operation in operations if operation.type == "SaveDataset"][-1]


def in_order(datasets):
    """One shard after the other."""
    return datasets.flat_map(lambda shard: shard)


def numbers(count=5):
    return D.range(count)


def mixed():
    values = (np.arange(6).reshape(3, 2), np.array([b"a", b"", b"long" * 40], object),
              np.linspace(0, 1, 3).astype(np.float32), np.array([True, False, True]),
              {"half": np.arange(3).astype(np.float16), "complex": np.array([1j, 2, 3 + 1j])})
    return D.from_tensor_slices(values)


def ragged():
    return D.range(4).map(lambda i: tf.ones([i, 2], tf.int32))


SOURCES = {"numbers": (numbers, 5), "mixed": (mixed, 3), "ragged": (ragged, 4),
           "none": (lambda: D.range(0), 0), "large": (
               lambda: D.range(3).map(lambda i: tf.range(100000) * tf.cast(i, tf.int32)), 3)}


def saved_and_loaded(name, compression, **functions):
    make, count = SOURCES[name]

    def build():
        folder = path(f"{name}-{compression}-{len(functions)}")
        source = make()
        written = save(source, folder, compression=compression, **functions)
        back = D.load(folder, source.element_spec, compression=compression, reader_func=in_order)
        return {}, [[written]] + taken(back, count + 1) + [[back.cardinality()]]
    return build


for source in SOURCES:
    add("LoadDataset", source, saved_and_loaded(source, None))
for kind in ("GZIP", "ZLIB", "SNAPPY", "OTHER"):
    add("LoadDataset", kind, saved_and_loaded("mixed", kind))
add("LoadDataset", "large GZIP", saved_and_loaded("large", "GZIP"))
add("SaveDataset", "in shards", saved_and_loaded("numbers", None, shard_func=lambda x: x % 3))
add("SaveDataset", "in far shards",
    saved_and_loaded("numbers", "GZIP", shard_func=lambda x: -x * 1000000007))


def captured():
    three = tf1.placeholder_with_default(tf.constant(3, tf.int64), [])
    folder = path("captured")
    written = save(numbers(9), folder, shard_func=lambda x: x // three)
    back = D.load(folder, tf.TensorSpec([], tf.int64), reader_func=lambda shards: shards.interleave(
        lambda shard: shard.map(lambda x: x * three), cycle_length=3, num_parallel_calls=None))
    return {}, [[written]] + taken(back, 10)


def twice():
    """The last one who wrote counts; a walk goes on with what it began."""
    folder = path("twice")
    writes = [save(numbers(n), folder) for n in (3, 2)]
    walk = taken(D.load(folder, tf.TensorSpec([], tf.int64), reader_func=in_order), 3)
    return {}, [[writes[0]]] + walk[:2] + [[writes[1]]] + walk[2:] + walk


def passed_on(**functions):
    """SaveDatasetV2: written by a walk, and there only once the walk is at its end."""
    def build():
        folder = path(f"passed-{len(functions)}")
        function = functions.get("shard_func", lambda x: tf.constant(0, tf.int64))
        graph = tf.function(function).get_concrete_function(tf.TensorSpec([], tf.int64))
        types = {"output_types": [tf.int64], "output_shapes": [[]]}
        kept = numbers(4).with_options(quiet())
        variant = R.SaveDatasetV2(input_dataset=kept._variant_tensor, path=folder, shard_func=graph,
                                  shard_func_other_args=[], use_shard_func=bool(functions), **types)
        iterator = R.IteratorV2(shared_name=folder, container="", **types)
        element = R.IteratorGetNext(iterator=iterator, **types)
        walk = [[R.MakeIterator(dataset=variant, iterator=iterator)]] + [list(element)] * 6
        back = D.load(folder, tf.TensorSpec([], tf.int64), reader_func=in_order)
        return {}, walk + [[R.DatasetCardinality(input_dataset=variant)]] + taken(back, 5) + [
            [back.cardinality()]]
    return build


def records():
    """The files are of records, which other datasets read too."""
    folder = path("records")
    written = save(numbers(3), folder, compression="SNAPPY")
    file = tf.io.matching_files(f"{folder}/*/*.shard/*.snapshot")[0]
    back = tf.data.TFRecordDataset(file, compression_type="SNAPPY")
    return {}, [[written]] + taken(back, 4)


add("SaveDataset", "read as records", records)
add("SaveDataset", "with captures", captured)
add("SaveDataset", "twice", twice)
add("SaveDatasetV2", "", passed_on())
add("SaveDatasetV2", "in shards", passed_on(shard_func=lambda x: x % 2))


# ---- What goes wrong ----

def load(folder, compression=None):
    def build():
        spec = tf.TensorSpec([], tf.int64)
        return {}, taken(D.load(folder, spec, compression, in_order), 1)
    return build


def wrong_shard():
    types = tf.TensorSpec([], tf.int64)
    function = tf.function(lambda x: tf.cast(x, tf.int32)).get_concrete_function(types)
    return {}, [[R.SaveDataset(input_dataset=numbers()._variant_tensor, path=path("wrong"),
                               shard_func_other_args=[], shard_func=function)]]


def vector_path():
    function = tf.function(lambda x: x).get_concrete_function(tf.TensorSpec([], tf.int64))
    vector = tf1.placeholder_with_default(tf.constant([path("vector")]), None)
    return {}, [[R.SaveDataset(input_dataset=numbers()._variant_tensor, path=vector,
                               shard_func_other_args=[], shard_func=function)]]


os.makedirs(path("torn"))
with open(path("torn/snapshot.metadata"), "wb") as file:
    file.write(b"\xff\xff no message")
os.makedirs(path("version/7/0.shard"))
with open(path("version/snapshot.metadata"), "wb") as file:
    file.write(b"\x12\x017\x20\x09")
os.makedirs(path("empty/7"))
with open(path("empty/snapshot.metadata"), "wb") as file:
    file.write(b"\x12\x017\x20\x02")
for shard, content in {"damaged": b"no records at all, by no means", "missing": None,
                       "damaged block": b"\0\0\0\5\x09hell", "cut block": b"\0\0\1\0\x10hello",
                       "empty block": b"\0\0\0\0", "block of nothing": b"\0\0\0\1\0"}.items():
    os.makedirs(path(f"{shard}/7/00000000.shard"))
    with open(path(f"{shard}/snapshot.metadata"), "wb") as file:
        file.write(b"\x12\x017\x20\x02")
    if content:
        with open(path(f"{shard}/7/00000000.shard/00000000.snapshot"), "wb") as file:
            file.write(content)
add("LoadDataset", "that is not there", load(path("nowhere")), says=True)
add("LoadDataset", "torn metadata", load(path("torn")))
add("LoadDataset", "unknown version", load(path("version")))
add("LoadDataset", "no shards", load(path("empty")))
add("LoadDataset", "damaged", load(path("damaged")))
for shard in ("damaged block", "cut block", "empty block", "block of nothing"):
    add("LoadDataset", shard, load(path(shard), "SNAPPY"))
add("LoadDataset", "missing file", load(path("missing")))
add("SaveDataset", "shard of another type", wrong_shard)
add("SaveDataset", "vector of paths", vector_path)
