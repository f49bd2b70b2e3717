"""Lookup tables of all kinds: filling, finding, changing, exporting, and what they refuse."""
import os

import numpy as np
import tensorflow as tf
from fixtures import fresh, scratch_folder
from runner import Case, feed

R = tf.raw_ops
CASES = []


def name():
    return fresh("table")


def case(op, build, text=None, unordered=False):
    CASES.append(Case(op, build=lambda: ({}, build()), name=f"{op} {text or build.__name__}",
                      unordered=unordered))


SAMPLES = {tf.string: ["a", "b" * 40, "", "d"], tf.int32: [3, -1, 0, 7], tf.int64: [1 << 40, -5, 0, 2],
           tf.float32: [.5, 1., 2., 3.], tf.float64: [.25, 1., 2., 3.], tf.bool: [True, False, True, True]}


def fixed(key, value, shared=None):
    return R.HashTableV2(key_dtype=key, value_dtype=value, shared_name=shared or name())


def find(table, keys, default):
    return [R.LookupTableFindV2(table_handle=table, keys=keys, default_value=default)]


def size(table):
    return [R.LookupTableSizeV2(table_handle=table)]


def export(table, key, value):
    return list(R.LookupTableExportV2(table_handle=table, Tkeys=key, Tvalues=value))


def fill(table, keys, values):
    return [R.InitializeTableV2(table_handle=table, keys=keys, values=values)]


def insert(table, keys, values):
    return [R.LookupTableInsertV2(table_handle=table, keys=keys, values=values)]


def remove(table, keys):
    return [R.LookupTableRemoveV2(table_handle=table, keys=keys)]


def load(table, keys, values):
    return [R.LookupTableImportV2(table_handle=table, keys=keys, values=values)]


for key in [tf.string, tf.int32, tf.int64]:
    for value in SAMPLES:
        def build_fixed(key=key, value=value):
            table = fixed(key, value)
            keys, values = feed(SAMPLES[key][:3], key), feed(SAMPLES[value][:3], value)
            some = feed([[SAMPLES[key][1]], [SAMPLES[key][3]]], key)
            default = feed(SAMPLES[value][3], value)
            return [size(table), find(table, some, default), fill(table, keys, values), size(table),
                    find(table, some, default), fill(table, keys, values),
                    insert(table, keys, values), remove(table, keys)]
        case("HashTableV2", build_fixed, f"{key.name} {value.name}")

        def build_mutable(key=key, value=value):
            table = R.MutableHashTableV2(key_dtype=key, value_dtype=value, shared_name=name())
            keys, values = feed(SAMPLES[key], key), feed(SAMPLES[value], value)
            default = feed(SAMPLES[value][0], value)
            return [size(table), insert(table, keys, values), size(table),
                    find(table, keys, default), insert(table, keys[1:2], values[2:3]),
                    find(table, keys, default), remove(table, keys[:2]), size(table),
                    find(table, keys, default), load(table, keys[1:3], values[1:3]), size(table),
                    find(table, keys, values)]
        case("MutableHashTableV2", build_mutable, f"{key.name} {value.name}")

        def build_tensors(key=key, value=value):
            table = R.MutableHashTableOfTensorsV2(key_dtype=key, value_dtype=value, value_shape=[2],
                                                  shared_name=name())
            keys = feed(SAMPLES[key][:2], key)
            values = feed([SAMPLES[value][:2], SAMPLES[value][2:]], value)
            default = feed(SAMPLES[value][1:3], value)
            return [insert(table, keys, values), size(table),
                    find(table, feed([SAMPLES[key][1:3]], key), default), remove(table, keys[:1]),
                    export(table, key, value), insert(table, keys, values[0])]
        case("MutableHashTableOfTensorsV2", build_tensors, f"{key.name} {value.name}")


def many_entries():
    table = R.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.int64, shared_name=name())
    keys = np.random.RandomState(1).permutation(5000).astype(np.int64)
    return [insert(table, feed(keys), feed(keys * 3)), remove(table, feed(keys[::3])), size(table),
            find(table, feed(np.arange(5000)), feed(np.int64(-1))),
            insert(table, feed(keys[::6]), feed(keys[::6])), size(table),
            find(table, feed(np.arange(5000)), feed(np.int64(-1)))]


def exported():
    table = R.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.int64, shared_name=name())
    keys = np.arange(50)
    return [insert(table, feed(keys), feed(keys)), export(table, tf.int64, tf.int64)]


def exported_fixed():
    table = fixed(tf.int64, tf.int64)
    return [export(table, tf.int64, tf.int64), fill(table, feed(np.arange(9)), feed(np.arange(9))),
            export(table, tf.int64, tf.int64)]


case("MutableHashTableV2", many_entries)
case("MutableHashTableV2", exported, unordered=True)
case("HashTableV2", exported_fixed, unordered=True)


def fixed_twice():
    table = fixed(tf.string, tf.int64)
    return [fill(table, feed(["a", "b", "a"]), feed(np.array([1, 2, 1]))), size(table),
            fill(table, feed(["a", "b", "c"]), feed(np.array([1, 2, 3]))),
            fill(table, feed(["x", "y"]), feed(np.array([1, 2]))),
            find(table, feed(["x", "a"]), feed(np.int64(-1)))]


def fixed_refuses():
    table = fixed(tf.string, tf.int64)
    return [fill(table, feed(["a", "a"]), feed(np.array([1, 2]))),
            fill(table, feed([["a"]]), feed(np.array([[1]]))),
            fill(table, feed(["a", "b"]), feed(np.array([1]))),
            fill(table, feed(["a"]), feed([1])),
            fill(table, feed([1]), feed(np.array([1])))]


def wrong_types():
    table = fixed(tf.string, tf.int64)
    return [fill(table, feed(["a"]), feed(np.array([1]))), find(table, feed([1]), feed(np.int64(1))),
            find(table, feed(["a"]), feed(1.)), find(table, feed(["a"]), feed(np.array([1, 2])))]


def shared_differently():
    shared = name()
    return [size(fixed(tf.string, tf.int64, shared)), size(fixed(tf.string, tf.float32, shared))]


def vectors_refuse():
    table = R.MutableHashTableOfTensorsV2(key_dtype=tf.int64, value_dtype=tf.float32, value_shape=[2],
                                          shared_name=name())
    return [find(table, feed(np.array([1])), feed([1.])), find(table, feed(np.array([1])), feed(1.)),
            insert(table, feed(np.array([1])), feed([[1., 2., 3.]])),
            insert(table, feed(np.array(1)), feed([1., 2.])), size(table)]


def scalar_values_of_tensors():
    return [size(R.MutableHashTableOfTensorsV2(key_dtype=tf.int64, value_dtype=tf.float32,
                                               value_shape=[], shared_name=name()))]


for build in [fixed_twice, fixed_refuses, wrong_types, shared_differently]:
    case("HashTableV2", build)
for build in [vectors_refuse, scalar_values_of_tensors]:
    case("MutableHashTableOfTensorsV2", build)


def old_handles():
    table = R.MutableHashTable(key_dtype=tf.string, value_dtype=tf.int64, shared_name=name())
    keys, values = feed(["a", "b"]), feed(np.array([1, 2]))
    return [[R.LookupTableInsert(table_handle=table, keys=keys, values=values)],
            [R.LookupTableSize(table_handle=table)],
            [R.LookupTableFind(table_handle=table, keys=keys, default_value=feed(np.int64(0)))],
            [R.LookupTableImport(table_handle=table, keys=keys[:1], values=values[:1])],
            list(R.LookupTableExport(table_handle=table, Tkeys=tf.string, Tvalues=tf.int64))]


def old_fixed():
    table = R.HashTable(key_dtype=tf.string, value_dtype=tf.int64, shared_name=name())
    keys, values = feed(["a", "b"]), feed(np.array([1, 2]))
    return [[R.InitializeTable(table_handle=table, keys=keys, values=values)],
            [R.LookupTableFind(table_handle=table, keys=keys, default_value=feed(np.int64(0)))]]


def old_tensors(key, value):
    def build():
        table = R.MutableHashTableOfTensors(key_dtype=key, value_dtype=value, value_shape=[2],
                                            shared_name=name())
        keys = feed(SAMPLES[key][:2], key)
        values = feed([SAMPLES[value][:2], SAMPLES[value][2:]], value)
        default = feed(SAMPLES[value][1:3], value)
        found = R.LookupTableFind(table_handle=table, keys=feed([SAMPLES[key][1:3]], key),
                                  default_value=default)
        return [[R.LookupTableSize(table_handle=table)], [found],
                [R.LookupTableInsert(table_handle=table, keys=keys, values=values)],
                [R.LookupTableSize(table_handle=table)], [found],
                [R.LookupTableInsert(table_handle=table, keys=keys, values=values[0])],
                [R.LookupTableImport(table_handle=table, keys=keys[:1], values=values[:1])],
                list(R.LookupTableExport(table_handle=table, Tkeys=key, Tvalues=value))]
    return build


for key in [tf.string, tf.int64]:
    for value in SAMPLES:
        case("MutableHashTableOfTensors", old_tensors(key, value), f"{key.name} {value.name}")


# Tables without a name last as long as their handle: everything happens in one run.
def in_order(*steps):
    """Fetches of nodes that are made one after the other, each after the one before."""
    made, before = [], []
    for step in steps:
        with tf.control_dependencies(before):
            made += step()
            before = made[-1:]
    return made


def anonymous_fixed(key, value):
    def build():
        table = R.AnonymousHashTable(key_dtype=key, value_dtype=value)
        keys, values = feed(SAMPLES[key][:3], key), feed(SAMPLES[value][:3], value)
        some = feed([[SAMPLES[key][1]], [SAMPLES[key][3]]], key)
        return in_order(lambda: size(table), lambda: fill(table, keys, values), lambda: size(table),
                        lambda: find(table, some, feed(SAMPLES[value][3], value)))
    return build


def anonymous_mutable(key, value):
    def build():
        table = R.AnonymousMutableHashTable(key_dtype=key, value_dtype=value)
        keys, values = feed(SAMPLES[key], key), feed(SAMPLES[value], value)
        default = feed(SAMPLES[value][0], value)
        return in_order(lambda: size(table), lambda: insert(table, keys, values),
                        lambda: find(table, keys, default), lambda: remove(table, keys[:2]),
                        lambda: size(table), lambda: load(table, keys[1:3], values[1:3]),
                        lambda: find(table, keys, default))
    return build


def anonymous_tensors(key, value):
    def build():
        table = R.AnonymousMutableHashTableOfTensors(key_dtype=key, value_dtype=value,
                                                     value_shape=[2])
        keys = feed(SAMPLES[key][:2], key)
        values = feed([SAMPLES[value][:2], SAMPLES[value][2:]], value)
        return in_order(lambda: insert(table, keys, values), lambda: size(table),
                        lambda: find(table, feed([SAMPLES[key][1:3]], key),
                                     feed(SAMPLES[value][1:3], value)))
    return build


for key in [tf.string, tf.int32, tf.int64]:
    for value in SAMPLES:
        for op, make in [("AnonymousHashTable", anonymous_fixed),
                         ("AnonymousMutableHashTable", anonymous_mutable),
                         ("AnonymousMutableHashTableOfTensors", anonymous_tensors)]:
            case(op, make(key, value), f"{key.name} {value.name}")


def anonymous_dense():
    table = R.AnonymousMutableDenseHashTable(
        empty_key=feed(np.int64(-1)), deleted_key=feed(np.int64(-2)), value_dtype=tf.int64,
        value_shape=[], initial_num_buckets=4)
    keys = feed(np.arange(0, 200, 7))
    return in_order(lambda: insert(table, keys, keys * 2), lambda: size(table),
                    lambda: remove(table, keys[3:9]),
                    lambda: find(table, feed(np.arange(20)), feed(np.int64(-9))),
                    lambda: export(table, tf.int64, tf.int64))


def anonymous_dense_strings():
    table = R.AnonymousMutableDenseHashTable(empty_key=feed(""), deleted_key=feed("-"),
                                             value_dtype=tf.float32, value_shape=[2],
                                             initial_num_buckets=4)
    keys = feed([f"key{i}" for i in range(9)])
    values = feed(np.arange(18, dtype=np.float32).reshape(9, 2))
    return in_order(lambda: insert(table, keys, values), lambda: size(table),
                    lambda: find(table, feed(["key3", "none"]), feed([-1., -2.])))


def anonymous_dense_refuses(**attrs):
    def build():
        attrs.setdefault("value_dtype", tf.int64)
        attrs.setdefault("value_shape", [])
        return size(R.AnonymousMutableDenseHashTable(
            empty_key=feed(attrs.pop("empty", -1), tf.int64),
            deleted_key=feed(attrs.pop("deleted", -2), tf.int64), **attrs))
    return build


case("AnonymousMutableDenseHashTable", anonymous_dense)
case("AnonymousMutableDenseHashTable", anonymous_dense_strings)
for number, attrs in enumerate([dict(initial_num_buckets=12), dict(initial_num_buckets=2),
                                dict(max_load_factor=1.5), dict(deleted=-1),
                                dict(empty=[[1]], deleted=[[2]]), dict(empty=[1], deleted=2)]):
    case("AnonymousMutableDenseHashTable", anonymous_dense_refuses(**attrs), f"refuses {number}")


def two_without_names():
    """Each node has a table of its own."""
    one, two = (R.AnonymousMutableHashTable(key_dtype=tf.string, value_dtype=tf.int64)
                for _ in range(2))
    filled = insert(one, feed(["a", "b"]), feed(np.array([1, 2])))
    with tf.control_dependencies(filled):
        return [size(one) + size(two)] * 2


case("AnonymousMutableHashTable", two_without_names)
case("MutableHashTable", old_handles)
case("HashTable", old_fixed)


# ---- Dense ----
def dense(key=tf.int64, value=tf.int64, empty=-1, deleted=-2, value_shape=(), **attrs):
    attrs.setdefault("initial_num_buckets", 4)
    return R.MutableDenseHashTableV2(empty_key=feed(empty, key), deleted_key=feed(deleted, key),
                                     value_dtype=value, value_shape=value_shape,
                                     shared_name=name(), **attrs)


def dense_numbers():
    table = dense()
    keys = feed(np.arange(0, 200, 7))
    return [size(table), insert(table, keys, keys * 2), size(table), export(table, tf.int64, tf.int64),
            find(table, feed(np.arange(20)), feed(np.int64(-9))), remove(table, keys[3:9]),
            size(table), export(table, tf.int64, tf.int64), insert(table, keys[4:6], keys[4:6]),
            export(table, tf.int64, tf.int64), find(table, keys, feed(np.int64(-9)))]


def dense_strings():
    table = dense(tf.string, tf.float32, "", "-", [2])
    keys = feed([f"key{i}" for i in range(9)])
    values = feed(np.arange(18, dtype=np.float32).reshape(9, 2))
    return [insert(table, keys, values), export(table, tf.string, tf.float32),
            find(table, feed(["key3", "none"]), feed([-1., -2.])), remove(table, keys[2:4]),
            size(table), export(table, tf.string, tf.float32)]


def dense_vector_keys():
    table = dense(tf.int64, tf.float32, [0, 0], [-1, -1])
    keys, values = feed(np.array([[1, 2], [3, 4], [1, 3]])), feed([1., 2., 3.])
    return [insert(table, keys, values), size(table), find(table, keys[::-1], feed(9.)),
            export(table, tf.int64, tf.float32), remove(table, keys[:1]),
            find(table, keys, feed(9.))]


def dense_int32():
    table = dense(tf.int32, tf.int32)
    keys = feed(np.array([5, -7, 100, 1 << 30], np.int32))
    return [insert(table, keys, keys), export(table, tf.int32, tf.int32),
            find(table, keys, feed(0))]


def dense_refuses():
    table = dense()
    one, two = feed(np.array([-1])), feed(np.array([-2]))
    return [insert(table, one, one), insert(table, two, two), find(table, one, feed(np.int64(0))),
            remove(table, two), size(table), size(dense(initial_num_buckets=12)),
            size(dense(initial_num_buckets=2)), size(dense(max_load_factor=1.5)),
            size(dense(deleted=-1)), size(dense(empty=[[1]], deleted=[[2]])),
            size(dense(empty=[1], deleted=2))]


for build in [dense_numbers, dense_strings, dense_vector_keys, dense_int32, dense_refuses]:
    case("MutableDenseHashTableV2", build)


# ---- Text files ----
FOLDER = scratch_folder("lookup")


def text(lines):
    path = os.path.join(FOLDER, fresh("text"))
    with open(path, "w") as file:
        file.write("".join(line + "\n" for line in lines))
    return path


def from_file(lines, key=tf.string, value=tf.int64, probe="b", default=-1, **attrs):
    def build():
        table = fixed(key, value)
        path = lines if isinstance(lines, str) else text(lines)
        attrs.setdefault("key_index", -2)
        attrs.setdefault("value_index", -1)
        return [[R.InitializeTableFromTextFileV2(table_handle=table, filename=feed(path), **attrs)],
                size(table), find(table, feed([probe], key), feed(default, value))]
    return build


COLUMNS = ["a\t1\t0.5", "b\t2\t1.5", "c\t3\t2.5"]
for number, build in enumerate([
        from_file(["a", "b", "c"]), from_file(["a", "b", "c"], vocab_size=2),
        from_file(["a", "b", "c"], vocab_size=4), from_file(["a", "", "c"]),
        from_file(["a", "b", "c"], offset=10),
        from_file(COLUMNS, key_index=0, value_index=1),
        from_file(COLUMNS, key_index=0, value_index=2, value=tf.float32, default=-1.),
        from_file(COLUMNS, key_index=1, value_index=0, key=tf.int64, value=tf.string, probe=2,
                  default=""),
        from_file(COLUMNS, key_index=-1, value_index=0, key=tf.int64, value=tf.string, probe=2,
                  default=""),
        from_file(COLUMNS, key_index=0, value_index=5), from_file(COLUMNS, key_index=0, value_index=2),
        from_file(["a,1", "b,2"], key_index=0, value_index=1, delimiter=","),
        from_file(["a", "b"], value=tf.float32, default=1.),
        from_file(["a", "b"], delimiter=", "), from_file("/nonexistent/file"), from_file(""),
        from_file([]), from_file([], vocab_size=0), from_file(["a"], vocab_size=0),
        from_file([], vocab_size=2)]):
    case("InitializeTableFromTextFileV2", build, str(number))


def from_file_by_name(lines, key=tf.string, value=tf.int64, probe="b", default=-1, **attrs):
    def build():
        table = R.HashTable(key_dtype=key, value_dtype=value, shared_name=name())
        path = lines if isinstance(lines, str) else text(lines)
        attrs.setdefault("key_index", -2)
        attrs.setdefault("value_index", -1)
        start = [R.InitializeTableFromTextFile(table_handle=table, filename=feed(path), **attrs)]
        return [start, [R.LookupTableSize(table_handle=table)], start,
                [R.LookupTableFind(table_handle=table, keys=feed([probe], key),
                                   default_value=feed(default, value))]]
    return build


for number, build in enumerate([
        from_file_by_name(["a", "b", "c"]), from_file_by_name(["a", "b", "c"], vocab_size=2),
        from_file_by_name(["a", "b", "c"], vocab_size=4), from_file_by_name(["a", "b"], offset=10),
        from_file_by_name(COLUMNS, key_index=1, value_index=0, key=tf.int64, value=tf.string,
                          probe=2, default=""),
        from_file_by_name(COLUMNS, key_index=0, value_index=5),
        from_file_by_name(["a,1", "b,2"], key_index=0, value_index=1, delimiter=","),
        from_file_by_name("/nonexistent/file"), from_file_by_name("")]):
    case("InitializeTableFromTextFile", build, str(number))
