"""Session.make_callable, which sends RunStep, and _make_callable_from_options, which sends
MakeCallable, RunCallable and ReleaseCallable."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2

from conftest import tf1


def test_make_callable(session):
    fed = tf1.placeholder(tf.float32, [])
    double = session.make_callable(fed * 2.0, [fed])
    assert [double(i) for i in range(5)] == [0.0, 2.0, 4.0, 6.0, 8.0]


def options(feeds, fetches, targets=()):
    made = config_pb2.CallableOptions()
    made.feed.extend(tensor.name for tensor in feeds)
    made.fetch.extend(tensor.name for tensor in fetches)
    made.target.extend(targets)
    return made


def test_callable_from_options(session):
    a = tf1.placeholder(tf.float32, [2])
    b = tf1.placeholder(tf.float32, [2])
    call = session._make_callable_from_options(options([a, b], [a + b, a * b]))
    for _ in range(3):
        total, product = call(np.array([1, 2], np.float32), np.array([3, 4], np.float32))
        np.testing.assert_array_equal(total, [4, 6])
        np.testing.assert_array_equal(product, [3, 8])
    del call


def test_two_callables_and_a_target(session):
    counter = tf1.get_variable("counter", initializer=0, use_resource=True)
    session.run(counter.initializer)
    increment = counter.assign_add(1, read_value=False)
    first = session._make_callable_from_options(options([], [counter.read_value()]))
    second = session._make_callable_from_options(options([], [], [increment.name]))
    assert first() == [0]
    second()
    second()
    assert first() == [2]


def test_unknown_fetch(session):
    session.run(tf.constant(1))
    made = config_pb2.CallableOptions()
    made.fetch.append("nothing:0")
    with pytest.raises((tf.errors.NotFoundError, tf.errors.InvalidArgumentError)):
        session._make_callable_from_options(made)()


def connect(feeds, fetches, connections):
    made = options(feeds, fetches)
    for source, target in connections:
        connection = made.tensor_connection.add()
        connection.from_tensor, connection.to_tensor = source, target
    return made


def test_connected_tensors(session):
    a = tf1.placeholder(tf.float32, [], name="a")
    b = tf1.placeholder(tf.float32, [], name="b")
    twice = tf.multiply(a, 2.0, name="twice")
    with tf1.control_dependencies([b]):
        total = tf.add(b, 1.0, name="total")
    call = session._make_callable_from_options(connect([a], [total, twice], [("twice:0", "b:0")]))
    assert call(np.float32(3)) == [7.0, 6.0]
    assert call(np.float32(5)) == [11.0, 10.0]


@pytest.mark.parametrize("connections, message", [
    ([("total:0", "a:0")], "cycle"),
    ([("nothing:0", "a:0")], "unknown node"),
    ([("total:9", "a:0")], "unknown edge"),
    ([("one:0", "nothing:0")], "unable to find feed output"),
    ([("one:0", "a:0"), ("total:0", "a:0")], "fed more than once"),
])
def test_connections_that_cannot_be(session, connections, message):
    tf1.constant(1.0, name="one")
    a = tf1.placeholder(tf.float32, [], name="a")
    total = tf.add(a, 1.0, name="total")
    session.run(total, {a: 1.0})
    with pytest.raises((tf.errors.NotFoundError, tf.errors.InvalidArgumentError), match=message):
        session._make_callable_from_options(connect([], [total], connections))()
