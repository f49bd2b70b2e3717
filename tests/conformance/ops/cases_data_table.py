"""Tables that datasets fill, and the first form of dense tables. Datasets that do not fit their table
are not here: genuine TensorFlow dies of them."""
import numpy as np
import tensorflow as tf
from fixtures import fresh
from runner import Case, make_op

R = tf.raw_ops
tf1 = tf.compat.v1
D = tf1.data.Dataset
CASES = []


def case(op, build, text):
    CASES.append(Case(op, build=lambda: ({}, build()), name=f"{op} {text}"))


SAMPLES = {tf.string: np.array([b"a", b"b" * 40, b""], object), tf.int32: np.array([3, -1, 0], np.int32),
           tf.int64: np.array([1 << 40, -5, 0]), tf.float32: np.array([.5, 1, 2], np.float32),
           tf.float64: np.array([.5, 1, 2]), tf.bool: np.array([True, False, True])}
PAIRS = [(tf.string, tf.int64), (tf.string, tf.string), (tf.int64, tf.string), (tf.int64, tf.int64),
         (tf.int64, tf.float32), (tf.int32, tf.int32), (tf.string, tf.float32), (tf.string, tf.float64),
         (tf.int64, tf.float64), (tf.string, tf.bool), (tf.int64, tf.bool)]


def dataset(keys, values, key, value):
    return D.from_tensor_slices((tf.constant(keys, key), tf.constant(values, value)))


def filled(key, value, make, again=None, questions=None, kind="HashTableV2"):
    """The table is filled, asked, filled once more and asked again."""
    def build():
        table = make_op(kind, key_dtype=key, value_dtype=value, shared_name=fresh("filled"), container="",
                        use_node_name_sharing=False)
        asked = SAMPLES[key] if questions is None else questions
        answers = [R.LookupTableFindV2(table_handle=table, keys=tf.constant(asked, key),
                                       default_value=tf.constant(SAMPLES[value][1], value)),
                   R.LookupTableSizeV2(table_handle=table)]
        runs = [[R.InitializeTableFromDataset(table_handle=table, dataset=make()._variant_tensor)],
                answers]
        if again:
            runs += [[R.InitializeTableFromDataset(table_handle=table, dataset=again()._variant_tensor)],
                     answers]
        return runs
    return build


OP = "InitializeTableFromDataset"
for key, value in PAIRS:
    case(OP, filled(key, value, lambda k=key, v=value: dataset(SAMPLES[k], SAMPLES[v], k, v)),
         f"{key.name} {value.name}")
NUMBERS = (tf.int64, tf.int64)
for name, make in {
        "nothing": lambda: dataset([], [], *NUMBERS),
        "many": lambda: D.range(1000).map(lambda n: (n, n * n)),
        "twice the same": lambda: dataset([1, 2, 1], [5, 6, 5], *NUMBERS),
        "twice another": lambda: dataset([1, 2, 1], [5, 6, 7], *NUMBERS),
        "an error": lambda: D.range(4).map(lambda n: (n, tf.constant([1, 2], tf.int64)[n])),
        "vectors of a shape nobody knows": lambda: D.range(6).batch(2).map(
            lambda n: (tf1.placeholder_with_default(n, None), tf1.placeholder_with_default(n + 1, None))),
}.items():
    case(OP, filled(*NUMBERS, make, questions=[0, 1, 2, 3, 999]), name)
case(OP, filled(*NUMBERS, lambda: dataset([1], [2], *NUMBERS), lambda: dataset([1], [3], *NUMBERS),
                [1, 2]), "twice with as many")
case(OP, filled(*NUMBERS, lambda: dataset([1], [2], *NUMBERS), lambda: dataset([4, 5], [3, 3], *NUMBERS),
                [1, 4]), "twice with more")
case(OP, filled(*NUMBERS, lambda: D.range(4).map(lambda n: (n, n)), kind="MutableHashTableV2"), "mutable")


def by_python():
    table = tf.lookup.StaticHashTable(tf.data.experimental.DatasetInitializer(
        D.from_tensor_slices(["x", "y", "z"]).enumerate().map(lambda i, s: (s, i))), -1)
    return [[table._initializer.initialize(table)], [table.lookup(tf.constant(["z", "q", "x"])), table.size()]]


case(OP, by_python, "StaticHashTable")


def first_dense(**attributes):
    table = make_op("MutableDenseHashTable", empty_key=tf.constant(0, tf.int64), value_dtype=tf.int64,
                    value_shape=[], shared_name=fresh("filled"), container="", use_node_name_sharing=False,
                    **dict(dict(initial_num_buckets=16, max_load_factor=0.5), **attributes))
    return [[R.LookupTableSize(table_handle=table)]]


for text, attributes in {"": {}, "buckets": {"initial_num_buckets": 5}, "load": {"max_load_factor": 2.}}.items():
    case("MutableDenseHashTable", lambda a=attributes: first_dense(**a), text)
