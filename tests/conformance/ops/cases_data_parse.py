"""Datasets that parse examples: node by node under all their names, and as tf.data and estimators
build them from files of records."""
import os

import numpy as np
import tensorflow as tf
from fixtures import quiet, scratch_folder, start_and_next
from runner import Case, feed, make_op

tf1 = tf.compat.v1
D = tf1.data.Dataset
FOLDER = scratch_folder("dataset-parse")
CASES = []
NAMES = ["ParseExampleDataset", "ParseExampleDatasetV2", "ExperimentalParseExampleDataset"]


def feature(values):
    if values is None:
        return tf.train.Feature()
    if values and isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if values and isinstance(values[0], int):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def example(**features):
    return tf.train.Example(features=tf.train.Features(
        feature={key: feature(values) for key, values in features.items()})).SerializeToString()


EXAMPLES = [
    example(id=[1], name=[b"ab", b"c"], weight=[0.5, 2.0], label=[1.0]),
    example(id=[2], name=[], weight=[1.5, -2.0], label=[0.0], unused=[4]),
    example(id=[3, 4, 5], name=[b""], weight=[3.5, 9.0], label=[1.0]),
    example(name=[b"x\0y"], weight=[0.0, 1e30], label=[0.25]),
    example(id=[-7], weight=[1.0, 2.0], label=[0.5]),
]
MANY = [example(id=list(range(i % 7)), name=[b"n%d" % i] * (i % 3), weight=[float(i), i / 3],
                label=[float(i % 2)]) for i in range(301)]


def batches(size=2, examples=None):
    return D.from_tensor_slices(np.array(EXAMPLES if examples is None else examples,
                                         object)).batch(size)


def unbox(component, kind, dtype, splits=tf.int64):
    """What a component of an element holds, as plain tensors."""
    if kind == "sparse":
        return list(tf.raw_ops.DeserializeSparse(serialized_sparse=component, dtype=dtype))
    if kind == "ragged":
        nested, values = tf.raw_ops.RaggedTensorFromVariant(
            encoded_ragged=component, input_ragged_rank=1, output_ragged_rank=1, Tvalues=dtype,
            Tsplits=splits)
        return [*nested, values]
    return [component]


def nodes(op, steps=4, dataset=batches, sparse=(), dense=(), ragged=(), calls=2, text="",
          types=None, shapes=None, **attributes):
    """sparse: (key, dtype); dense: (key, shape, default); ragged: (key, dtype, dtype of splits)."""
    components = sorted([(key, "sparse", dtype, None, [3]) for key, dtype in sparse]
                        + [(key, "dense", tf.as_dtype(np.asarray(default).dtype.type
                                                      if not isinstance(default, bytes) else "string"),
                            None, None) for key, _, default in dense]
                        + [(key, "ragged", dtype, splits, []) for key, dtype, splits in ragged],
                        key=lambda entry: entry[0])

    def build():
        made = types or [tf.variant if kind != "dense" else dtype
                         for _, kind, dtype, _, _ in components]
        known = shapes or [shape for *_, shape in components]
        more = dict(attributes)
        if not op.startswith("Exp"):
            more.update(ragged_keys=[key for key, _, _ in ragged],
                        ragged_value_types=[dtype for _, dtype, _ in ragged],
                        ragged_split_types=[dtype for _, _, dtype in ragged])
        variant = make_op(op, input_dataset=dataset()._variant_tensor,
                          num_parallel_calls=feed(calls, tf.int64),
                          dense_defaults=[feed(default) for _, _, default in dense],
                          sparse_keys=[key for key, _ in sparse],
                          dense_keys=[key for key, _, _ in dense],
                          sparse_types=[dtype for _, dtype in sparse],
                          dense_shapes=[shape for _, shape, _ in dense],
                          output_types=made, output_shapes=known, **more)
        start, element = start_and_next(variant, made, known)
        plain = [part for value, (_, kind, dtype, splits, _) in zip(element, components)
                 for part in unbox(value, kind, dtype, splits)]
        return {}, [[start]] + [plain] * steps
    CASES.append(Case(op, build=build, name=f"{op} {text} {len(CASES)}"))


FIXED = [("label", [], np.float32(0)), ("weight", [2], np.zeros(0, np.float32))]
SPARSE = [("id", tf.int64), ("name", tf.string)]
for op in NAMES:
    nodes(op, sparse=SPARSE, text="sparse")
    nodes(op, dense=FIXED, text="dense")
    nodes(op, sparse=SPARSE, dense=FIXED, text="both")
    nodes(op, sparse=SPARSE, dense=FIXED, dataset=lambda: batches(100, MANY), steps=5, text="large")
    for calls in [1, 5, -1, 0, -2]:
        nodes(op, dense=FIXED, calls=calls, text=f"calls {calls}")
    nodes(op, dense=FIXED, calls=[1, 2], text="calls of rank 1")
    nodes(op, dense=[("id", [None], np.int64(-1)), ("name", [None], b"none")], text="padded")
    nodes(op, dense=[("weight", [None, 2], np.float32(9))], text="padded rows")
    nodes(op, dense=[("weight", [None, 3], np.float32(9))], text="not a multiple")
    nodes(op, dense=[("weight", [3], np.zeros(0, np.float32))], text="wrong size")
    nodes(op, dense=[("id", [1], np.array([8], np.int64))], text="too many in the third")
    nodes(op, dense=[("id", [], np.zeros(0, np.int64))], text="missing and required")
    nodes(op, sparse=[("id", tf.float32)], text="another dtype")
    nodes(op, dense=[("weight", [2], np.zeros(3, np.float32))], text="default of another shape")
    nodes(op, dense=[("id", [None], np.zeros(2, np.int64))], text="default of two")
    nodes(op, dense=[("weight", None, np.zeros(2, np.float32))], text="unknown shape")
    nodes(op, dense=[("weight", [2, None], np.zeros(2, np.float32))], text="unknown inner size")
    nodes(op, sparse=[("id", tf.int64)], dense=[("id", [], np.int64(0))], text="one key twice")
    nodes(op, sparse=[("id", tf.int64)], dataset=lambda: batches(2, [b"damaged", EXAMPLES[0]]),
          text="damaged")
    nodes(op, sparse=[("id", tf.int64)], dataset=lambda: batches(1, [EXAMPLES[0], b"damaged", EXAMPLES[2]]),
          text="damaged, then not")
    nodes(op, sparse=[("id", tf.int64)], dataset=lambda: D.from_tensor_slices(EXAMPLES), text="scalars")
    nodes(op, sparse=SPARSE, dataset=lambda: batches().map(lambda v: (v, v[:1])), text="two components")
    nodes(op, sparse=[("id", tf.int64)], dataset=lambda: batches(3, EXAMPLES[:0]), text="nothing")
    nodes(op, dense=FIXED, types=[tf.float32, tf.int64], text="another output type")
    nodes(op, dense=FIXED, shapes=[[2], [2, 3]], text="another output shape")
    CASES.append(Case(op, name=f"{op} cardinality", build=lambda op=op: ({}, [[
        make_op("DatasetCardinality", input_dataset=make_op(
            op, input_dataset=batches()._variant_tensor, num_parallel_calls=feed(1, tf.int64),
            dense_defaults=[], sparse_keys=["id"], dense_keys=[], sparse_types=[tf.int64],
            dense_shapes=[], output_types=[tf.variant], output_shapes=[[3]]))]])))
for op in NAMES[:2]:
    for splits in [tf.int32, tf.int64]:
        nodes(op, ragged=[("name", tf.string, splits), ("id", tf.int64, splits)], text="ragged")
        nodes(op, ragged=[("weight", tf.float32, splits)], sparse=SPARSE, dense=FIXED[:1], text="all")
    nodes(op, ragged=[("id", tf.string, tf.int64)], text="ragged of another dtype")
for order in ["true", "false", "default"]:
    nodes("ParseExampleDatasetV2", dense=FIXED, deterministic=order, calls=1, text=order)
nodes("ParseExampleDatasetV2", dense=FIXED, deterministic="perhaps", text="perhaps")
for sloppy in [True, False]:
    for op in [NAMES[0], NAMES[2]]:
        nodes(op, dense=FIXED, sloppy=sloppy, calls=1, text=f"sloppy {sloppy}")


# ---- As programs build them ----
SPEC = {
    "id": tf.io.VarLenFeature(tf.int64),
    "name": tf.io.FixedLenSequenceFeature([], tf.string, allow_missing=True, default_value="-"),
    "weight": tf.io.FixedLenFeature([2], tf.float32),
    "label": tf.io.FixedLenFeature([], tf.float32, default_value=0.0),
}
RAGGED = dict(SPEC, id=tf.io.RaggedFeature(tf.int64), label=tf.io.RaggedFeature(
    tf.float32, row_splits_dtype=tf.int64))
SPARSE_SPEC = {"pair": tf.io.SparseFeature("id", "weight", tf.float32, 6)}


def through(op, make, steps, name):
    def build():
        iterator = tf1.data.make_initializable_iterator(make().with_options(quiet()))
        element = tf.nest.flatten(iterator.get_next(), expand_composites=True)
        return {}, [[iterator.initializer]] + [element] * steps
    CASES.append(Case(op, build=build, name=f"{op} of tf.data {name}"))


def records(name, examples):
    path = os.path.join(FOLDER, name)
    with tf.io.TFRecordWriter(path) as writer:
        for one in examples:
            writer.write(one)
    return path


for name, spec in {"features": SPEC, "ragged": RAGGED}.items():
    for calls in [1, 4]:
        through("ParseExampleDatasetV2", lambda s=spec, c=calls: batches().apply(
            tf.data.experimental.parse_example_dataset(s, num_parallel_calls=c)), 4, f"{name} {calls}")
through("ParseExampleDatasetV2", lambda: batches(1, [
    example(id=[i, i + 1], weight=[i / 2, 1.0]) for i in range(3)]).apply(
        tf.data.experimental.parse_example_dataset(SPARSE_SPEC)), 4, "sparse features")
for label in [None, "label"]:
    through("ParseExampleDatasetV2", lambda k=label: tf1.data.experimental.make_batched_features_dataset(
        [records("a", EXAMPLES[:3]), records("b", MANY[:20])], 4, SPEC, label_key=k,
        reader=tf1.data.TFRecordDataset, num_epochs=2, shuffle=False), 13, f"batched features {label}")
