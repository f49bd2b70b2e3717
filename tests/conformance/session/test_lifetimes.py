"""What outlives a session: variables and tables with a shared name belong to the server and stay.
State without a shared name belongs to the session and goes with it."""

import numpy as np
import pytest
import tensorflow as tf

from conftest import tf1

ONE_SHOT = tf1.data.make_one_shot_iterator
INITIALIZABLE = tf1.data.make_initializable_iterator


def first_two(target, make, dataset):
    with tf.Graph().as_default(), tf1.Session(target) as session:
        iterator = make(dataset())
        element = iterator.get_next()
        if make is INITIALIZABLE:
            session.run(iterator.initializer)
        return [session.run(element) for _ in range(2)]


@pytest.mark.parametrize("make", [ONE_SHOT, INITIALIZABLE], ids=["one shot", "initializable"])
def test_an_iterator_ends_with_its_session(clean, make):
    data = tf1.data.Dataset
    assert first_two(clean, make, lambda: data.range(2)) == [0, 1]
    assert first_two(clean, make, lambda: data.range(5, 7)) == [5, 6]
    assert first_two(clean, make, lambda: data.from_tensors("a").repeat(3)) == [b"a", b"a"]


def queue_size(target, dtype, **arguments):
    with tf.Graph().as_default(), tf1.Session(target) as session:
        queue = tf1.FIFOQueue(5, [dtype], shapes=[[]], name="queue", **arguments)
        session.run(queue.enqueue(np.array(1, dtype.as_numpy_dtype)))
        return session.run(queue.size())


def test_a_queue_ends_with_its_session_unless_shared(clean):
    assert queue_size(clean, tf.int32) == 1
    assert queue_size(clean, tf.int32) == 1
    assert queue_size(clean, tf.float32) == 1
    assert queue_size(clean, tf.int32, shared_name="kept") == 1
    assert queue_size(clean, tf.int32, shared_name="kept") == 2


def table_size(target):
    with tf.Graph().as_default(), tf1.Session(target) as session:
        table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1, name="table")
        size = session.run(table.size())
        session.run(table.insert(["key"], tf.constant([5], tf.int64)))
        return size


def test_a_table_outlives_its_session(clean):
    assert [table_size(clean), table_size(clean)] == [0, 1]
