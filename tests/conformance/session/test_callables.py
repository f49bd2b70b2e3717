"""make_callable in both of its forms."""

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
