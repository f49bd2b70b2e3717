"""States of iterators: saved into checkpoints in the middle of a walk, and restored into the same
iterator, into a fresh one, and by tf.train.Saver."""
import os

import numpy as np
import tensorflow as tf
from fixtures import fresh, quiet, scratch_folder
from runner import Case

R = tf.raw_ops
tf1 = tf.compat.v1
D = tf1.data.Dataset
FOLDER = scratch_folder("dataset-state")
CASES = []


def case(op, build, text, **more):
    CASES.append(Case(op, build=lambda: ({}, build()), name=f"{op} {text}", **more))


def save(iterator, path):
    return R.SaveV2(prefix=path, tensor_names=["state"], shape_and_slices=[""],
                    tensors=[R.SerializeIterator(resource_handle=iterator._iterator_resource)])


def load(iterator, path):
    (state,) = R.RestoreV2(prefix=path, tensor_names=["state"], shape_and_slices=[""], dtypes=[tf.variant])
    return R.DeserializeIterator(resource_handle=iterator._iterator_resource,
                                 serialized=tf.reshape(state, [-1]))


def element(iterator):
    return tf.nest.flatten(iterator.get_next(), expand_composites=True)


def walk(make, before, after, text):
    """`before` elements, saved; `after` more; then again from the saved place on, in the same
    iterator and in a fresh one."""
    def build():
        path = os.path.join(FOLDER, fresh("state"))
        first = tf1.data.make_initializable_iterator(make().with_options(quiet()), fresh("first"))
        second = tf1.data.make_initializable_iterator(make().with_options(quiet()), fresh("second"))
        one, two = element(first), element(second)
        return ([[first.initializer]] + [one] * before + [[save(first, path)]] + [one] * after
                + [[load(first, path)]] + [one] * after
                + [[second.initializer]] + [two] + [[load(second, path)]] + [two] * after)
    case("SerializeIterator", build, text)


LINES = os.path.join(FOLDER, "lines.txt")
with open(LINES, "w") as file:
    file.writelines(f"line {i}\n" for i in range(9))
RECORDS = os.path.join(FOLDER, "records")
with tf.io.TFRecordWriter(RECORDS) as writer:
    for i in range(9):
        writer.write(b"record %d" % i)

DATA = {
    "range": lambda: D.range(8),
    "slices": lambda: D.from_tensor_slices((np.arange(8), [b"%d" % i for i in range(8)])),
    "map": lambda: D.range(8).map(lambda n: n * n),
    "parallel map": lambda: D.range(8).map(lambda n: n * n, 3),
    "filter": lambda: D.range(16).filter(lambda n: n % 2 > 0),
    "batch": lambda: D.range(20).batch(3),
    "padded batch": lambda: D.range(12).map(lambda n: tf.fill([n % 3], n)).padded_batch(2, [None]),
    "take and skip": lambda: D.range(20).skip(2).take(9),
    "repeat": lambda: D.range(3).repeat(4),
    "repeat for ever": lambda: D.range(3).repeat(),
    "concatenate": lambda: D.range(3).concatenate(D.range(10, 17)),
    "zip": lambda: D.zip((D.range(9), D.range(20, 30).map(lambda n: -n))),
    "flat map": lambda: D.range(6).flat_map(lambda n: D.from_tensors(n).repeat(n)),
    "interleave": lambda: D.range(6).interleave(lambda n: D.range(n), 3, 2),
    "prefetch": lambda: D.range(9).prefetch(3),
    "cache": lambda: D.range(3).cache().repeat(4),
    "scan": lambda: D.range(9).apply(tf.data.experimental.scan(np.int64(1), lambda s, n: (s + n, s * n))),
    "window": lambda: D.range(12).window(3, 1).flat_map(lambda w: w.batch(3)),
    "shuffle": lambda: D.range(9).shuffle(4, seed=7),
    "shuffle and repeat": lambda: D.range(4).shuffle(3, seed=7).repeat(4),
    "shuffle once": lambda: D.range(4).shuffle(3, seed=7, reshuffle_each_iteration=False).repeat(4),
    "two shuffles": lambda: D.zip((D.range(9).shuffle(4, seed=1), D.range(9).shuffle(9, seed=2))).batch(2),
    "shuffles in a row": lambda: D.range(9).shuffle(4, seed=1).concatenate(
        D.range(9).shuffle(9, seed=2, reshuffle_each_iteration=False)),
    "random": lambda: tf1.data.experimental.RandomDataset(seed=5),
    "samples": lambda: tf1.data.experimental.sample_from_datasets(
        [D.range(9).shuffle(4, seed=1), D.range(10, 30)], [.5, .5], seed=4),
    "lines": lambda: D.from_tensors(LINES).flat_map(tf1.data.TextLineDataset),
    "text": lambda: tf1.data.TextLineDataset(LINES).map(tf.strings.length),
    "records": lambda: tf1.data.TFRecordDataset([RECORDS, RECORDS]),
    "shard": lambda: D.range(20).shard(2, 1),
    "enumerate": lambda: D.range(9).enumerate(),
}
for name, make in DATA.items():
    for before, after in [(3, 3), (0, 2), (7, 4)]:
        walk(make, before, after, f"{name} {before}")
walk(lambda: D.range(6).map(lambda n: tf.constant([5, 6, 7], tf.int64)[n % 4]), 5, 3, "behind an error")


def unstarted(op):
    iterator = tf1.data.make_initializable_iterator(D.range(5), fresh("never"))
    path = os.path.join(FOLDER, fresh("state"))
    if op == "SerializeIterator":
        return [[save(iterator, path)]]
    other = tf1.data.make_initializable_iterator(D.range(5), fresh("other"))
    return [[other.initializer], [save(other, path)], [load(iterator, path)]]


for op in ["SerializeIterator", "DeserializeIterator"]:
    case(op, lambda op=op: unstarted(op), "before the start")


def by_saver():
    """What CheckpointInputPipelineHook and make_saveable_from_iterator build."""
    iterator = tf1.data.make_initializable_iterator(
        D.range(50).shuffle(10, seed=3).batch(4).with_options(quiet()), fresh("saver"))
    saveable = tf.data.experimental.make_saveable_from_iterator(iterator)
    saver = tf1.train.Saver([saveable], filename=os.path.join(FOLDER, fresh("saver")))
    graph, names = tf1.get_default_graph(), saver.saver_def
    one = element(iterator)
    return ([[iterator.initializer]] + [one] * 3 + [[graph.get_tensor_by_name(names.save_tensor_name).op]]
            + [one] * 2 + [[iterator.initializer], [graph.get_operation_by_name(names.restore_op_name)]]
            + [one] * 2)


case("SerializeIterator", by_saver, "of tf.train.Saver")
