"""Checkpoints of parameter servers: both ways between ours and genuine TensorFlow's, in shards, while
training goes on, and through a server's death."""

import threading
import time

import numpy as np
import pytest

from clusters import tf, tf1
from replicas import between_graph
from saving import kill_while_saving

DTYPES = [tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int8, tf.int16, tf.int32, tf.int64,
          tf.uint8, tf.uint16, tf.uint32, tf.uint64, tf.bool, tf.complex64, tf.complex128, tf.string]
WHOLE = np.arange(66, dtype=np.float32).reshape(11, 6)


def value_of(dtype):
    if dtype == tf.string:
        return np.array([b"", b"one", "zwölf".encode(), b"\0" * 300], object)
    return np.array([0, 1, 2, 100]).astype(dtype.as_numpy_dtype)


def all_dtypes():
    """A variable of each dtype, and placeholders to set them."""
    made = []
    for dtype in DTYPES:
        fed = tf1.placeholder(dtype, [4])
        v = tf1.Variable(fed, name=f"v_{dtype.name}", use_resource=True)
        made.append((dtype, fed, v))
    return made


def on_our_cluster(cluster):
    """(makes a device scope, the target) of a place to save or restore at."""
    return lambda: tf1.device(between_graph(cluster, 0)), cluster.target("worker", 0)


def on_genuine():
    return lambda: tf1.device(None), ""


@pytest.mark.parametrize("saved_by", ["downpour", "tensorflow"])
@pytest.mark.parametrize("sharded", [False, True], ids=["whole", "sharded"])
def test_every_dtype_goes_there_and_back(fresh, tmp_path, saved_by, sharded):
    here, there = on_our_cluster(fresh), on_genuine()
    if saved_by == "tensorflow":
        here, there = there, here
    prefix = str(tmp_path / "model")
    with tf.Graph().as_default(), here[0]():
        made = all_dtypes()
        with tf1.Session(here[1]) as session:
            session.run([v.initializer for _, _, v in made],
                        {fed: value_of(dtype) for dtype, fed, _ in made})
            saved = tf1.train.Saver(sharded=sharded).save(session, prefix)
            assert saved == prefix
    if sharded and saved_by == "downpour":
        assert sorted(path.name for path in tmp_path.glob("model.data*")) == [
            "model.data-00000-of-00002", "model.data-00001-of-00002"]
    assert tf1.train.latest_checkpoint(str(tmp_path)) == prefix
    with tf.Graph().as_default(), there[0]():
        made = all_dtypes()
        with tf1.Session(there[1]) as session:
            tf1.train.Saver(sharded=sharded).restore(session, prefix)
            for dtype, _, v in made:
                np.testing.assert_array_equal(session.run(v), value_of(dtype), dtype.name)


def table(parts, use_resource):
    """WHOLE as one variable or as a partitioned one, with a slot-like second variable."""
    partitioner = tf1.fixed_size_partitioner(parts) if parts > 1 else None
    with tf1.variable_scope("model", use_resource=use_resource, partitioner=partitioner):
        v = tf1.get_variable("table", [11, 6], initializer=tf1.zeros_initializer())
    pieces = list(v) if parts > 1 else [v]
    fed = tf1.placeholder(tf.float32, [11, 6])
    offsets = np.cumsum([0] + [int(piece.shape[0]) for piece in pieces])
    fill = [piece.assign(fed[int(begin):int(end)]).op
            for piece, begin, end in zip(pieces, offsets, offsets[1:])]
    return fed, fill, tf.concat([tf.identity(piece) for piece in pieces], 0)


@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
@pytest.mark.parametrize("saved, restored", [(3, 3), (3, 2), (2, 5), (4, 1), (1, 3)])
def test_partitions_are_restored_into_others(fresh, tmp_path, saved, restored, use_resource):
    """Saved by ours and by theirs, restored by the other and by itself."""
    places = {"ours": on_our_cluster(fresh), "theirs": on_genuine()}
    for name, (device, target) in places.items():
        with tf.Graph().as_default(), device():
            fed, fill, _ = table(saved, use_resource)
            with tf1.Session(target) as session:
                session.run(tf1.global_variables_initializer())
                session.run(fill, {fed: WHOLE})
                tf1.train.Saver(sharded=True).save(session, str(tmp_path / name))
    tf1.Session.reset(fresh.target("worker", 0))
    for name in places:
        for device, target in places.values():
            with tf.Graph().as_default(), device():
                _, _, value = table(restored, use_resource)
                with tf1.Session(target) as session:
                    tf1.train.Saver().restore(session, str(tmp_path / name))
                    np.testing.assert_array_equal(session.run(value), WHOLE)


def test_files_are_equal_to_the_byte(fresh, tmp_path):
    """The same variables, saved by both from one device."""
    for name, target in [("ours", fresh.target("worker", 0)), ("theirs", "")]:
        with tf.Graph().as_default():
            made = all_dtypes()
            with tf1.Session(target) as session:
                session.run([v.initializer for _, _, v in made],
                            {fed: value_of(dtype) for dtype, fed, _ in made})
                tf1.train.Saver().save(session, str(tmp_path / name), write_meta_graph=False)
    for ending in ["index", "data-00000-of-00001"]:
        ours, theirs = [(tmp_path / f"{name}.{ending}").read_bytes() for name in ("ours", "theirs")]
        assert ours == theirs, ending


def test_a_missing_tensor_is_not_found(fresh, tmp_path):
    with tf1.device(between_graph(fresh, 0)):
        a = tf1.get_variable("a", initializer=1.0)
        b = tf1.get_variable("b", initializer=1.0)
    with tf1.Session(fresh.target("worker", 0)) as session:
        session.run(a.initializer)
        prefix = tf1.train.Saver([a]).save(session, str(tmp_path / "model"))
        with pytest.raises(tf.errors.NotFoundError):
            tf1.train.Saver([a, b]).restore(session, prefix)


def test_a_parameter_server_serves_while_it_saves(fresh, tmp_path):
    """Of the checkpoint of 128 MB each variable is from one moment, while updates go on."""
    rows = 16 << 20
    with tf1.device("/job:ps/task:0"):
        big = tf1.get_variable("big", [2, rows], initializer=tf1.zeros_initializer(),
                               use_resource=False)
        small = tf1.get_variable("small", [1000], initializer=tf1.zeros_initializer())
        add_small = small.assign_add(tf.ones([1000]), read_value=False)
        add_big = tf1.scatter_add(big, [0], tf.ones([1, rows])).op
        saver = tf1.train.Saver([big, small])
    with tf1.Session(fresh.target("worker", 1)) as session:
        session.run(tf1.global_variables_initializer())
        session.run(add_big)
        done, steps = threading.Event(), []

        def train():
            while not done.is_set():
                session.run([add_small, add_big] if len(steps) % 8 == 0 else add_small)
                assert session.run(small)[0] >= len(steps) + 1
                steps.append(time.monotonic())
        trainer = threading.Thread(target=train, daemon=True)
        trainer.start()
        during = 0
        try:
            for _ in range(20):  # a save may be shorter than a step of a busy machine
                begin = time.monotonic()
                prefix = saver.save(session, str(tmp_path / "model"), write_meta_graph=False)
                end = time.monotonic()
                during += sum(begin < step < end for step in list(steps))
                if during >= 3:
                    break
        finally:
            done.set()
        trainer.join(60)
        assert not trainer.is_alive()
    assert during >= 3, f"{during} steps while it saved"
    reader = tf1.train.load_checkpoint(prefix)
    saved = reader.get_tensor("big")
    assert saved[0, 0] >= 1
    np.testing.assert_array_equal(saved[0], np.full(rows, saved[0, 0]))
    assert len(np.unique(reader.get_tensor("small"))) == 1


def test_the_last_finished_checkpoint_survives_the_server(tmp_path):
    finished = 0
    for seed in range(10):
        folder = tmp_path / str(seed)
        folder.mkdir()
        finished += kill_while_saving(folder, seed)
    assert finished > 0
