"""Chains of elementwise ops, which our server fuses into one. Values, errors, and feeds and fetches
in the middle of a chain must be as if each op ran by itself."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import rewriter_config_pb2

from conftest import tf1

SHAPES = [((), ()), ((7,), (7,)), ((7,), ()), ((0,), (0,)), ((3000,), (3000,)), ((40, 300), (300,)),
          ((5, 1), (4,)), ((1,), ())]


def without_remapping():
    config = tf1.ConfigProto()
    config.graph_options.rewrite_options.remapping = rewriter_config_pb2.RewriterConfig.OFF
    return config


def chain(x, y):
    a = tf.exp(x * 0.5, name="a")
    b = tf.subtract(a, tf.nn.sigmoid(y), name="b")
    c = tf.nn.leaky_relu(b, alpha=0.3, name="c")
    return a, b, tf.maximum(tf.sqrt(tf.abs(c)), y * y - 1.0, name="result")


def numpy_chain(x, y):
    b = np.exp(x * 0.5) - 1 / (1 + np.exp(-y))
    c = np.where(b > 0, b, 0.3 * b)
    return np.maximum(np.sqrt(np.abs(c)), y * y - 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shapes", SHAPES)
def test_values(target, dtype, shapes):
    random = np.random.default_rng(1)
    values = [np.asarray(random.standard_normal(shape), dtype) for shape in shapes]
    x, y = (tf1.placeholder(dtype, None) for _ in range(2))
    result = chain(x, y)[-1]
    feeds = dict(zip([x, y], values))
    with tf1.Session(target) as session, tf1.Session(target, config=without_remapping()) as plain:
        found, again = session.run(result, feeds), plain.run(result, feeds)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, numpy_chain(*values), rtol=2e-5, atol=2e-6)
    np.testing.assert_array_equal(found, again)


def test_fetches_in_the_middle(session):
    x, y = (tf1.placeholder(tf.float32, [None]) for _ in range(2))
    a, b, result = chain(x, y)
    feeds = {x: [0.1, -2.0], y: [1.0, 3.0]}
    alone = [session.run(one, feeds) for one in (a, b, result)]
    for one, other in zip(alone, session.run([a, b, result], feeds)):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_feeds_in_the_middle(session):
    x, y = (tf1.placeholder(tf.float32, [None]) for _ in range(2))
    a, b, result = chain(x, y)
    np.testing.assert_allclose(session.run(result, {b: [16.0, -0.3], y: [0.0, 0.0]}),
                               [4.0, 0.3], rtol=1e-6)
    fed = session.run(result, {a: [1.5, 1.5], y: [0.0, 0.0]})
    np.testing.assert_allclose(fed, [1.0, 1.0], rtol=1e-6)


def test_errors_name_the_op(session):
    x, y = (tf1.placeholder(tf.float32, [None]) for _ in range(2))
    result = chain(x, y)[-1]
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        session.run(result, {x: [1.0, 2.0], y: [1.0, 2.0, 3.0]})
    assert "Incompatible shapes: [2] vs. [3]" in caught.value.message
    assert caught.value.op is not None and caught.value.op.name == "b"


def test_gradients(session):
    x, y = (tf1.placeholder(tf.float32, [None]) for _ in range(2))
    result = tf.reduce_sum(tf.tanh(x * y) * tf.sigmoid(x) + tf.nn.relu(x - y))
    dx, dy = tf1.gradients(result, [x, y])
    values = np.linspace(-2, 2, 9, dtype=np.float32), np.linspace(1, -1, 9, dtype=np.float32)
    found = session.run([dx, dy], {x: values[0], y: values[1]})
    a, b = (one.astype(np.float64) for one in values)
    t, s, step = np.tanh(a * b), 1 / (1 + np.exp(-a)), (a > b).astype(float)
    np.testing.assert_allclose(found[0], (1 - t * t) * b * s + t * s * (1 - s) + step, rtol=1e-5,
                               atol=1e-6)
    np.testing.assert_allclose(found[1], (1 - t * t) * a * s - step, rtol=1e-5, atol=1e-6)


def test_variables_are_read_where_they_stand(clean):
    """A reference variable has the value of the time when the op that reads it runs."""
    variable = tf1.get_variable("v", [3], initializer=tf1.ones_initializer(), use_resource=False)
    before = tf.negative(variable * 2.0)
    with tf.control_dependencies([before]):
        change = tf1.assign_add(variable, [1.0, 1.0, 1.0])
    with tf.control_dependencies([change]):
        after = tf.negative(variable.read_value() * 2.0)
    with tf1.Session(clean) as session:
        session.run(variable.initializer)
        first, second = session.run([before, after])
    np.testing.assert_array_equal(first, [-2, -2, -2])
    np.testing.assert_array_equal(second, [-4, -4, -4])
