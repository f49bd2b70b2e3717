"""Conditionals and loops of both control-flow versions, functions, and gradients through all of
these, on our server and on a genuine one."""

import numpy as np
import pytest
import tensorflow as tf

from conftest import tf1

VERSIONS = pytest.mark.parametrize("version", [1, 2])


@pytest.fixture(autouse=True)
def control_flow_version(request):
    version = request.node.callspec.params.get("version") if hasattr(request.node, "callspec") else None
    if version == 2:
        tf1.enable_control_flow_v2()
    else:
        tf1.disable_control_flow_v2()
    yield
    tf1.disable_control_flow_v2()


@VERSIONS
def test_cond(session, version):
    flag = tf1.placeholder(tf.bool, [])
    x = tf.constant(3.0)
    y = tf.cond(flag, lambda: x * 2.0, lambda: x - 1.0)
    assert session.run(y, {flag: True}) == 6.0
    assert session.run(y, {flag: False}) == 2.0


@VERSIONS
def test_cond_runs_only_the_taken_branch(clean, version):
    flag = tf1.placeholder(tf.bool, [])
    v = tf1.get_variable("v", initializer=0, use_resource=True)
    def bump():
        with tf.control_dependencies([v.assign_add(1)]):
            return tf.constant(1)
    y = tf.cond(flag, bump, lambda: tf.constant(0))
    with tf1.Session(clean) as session:
        session.run(v.initializer)
        session.run(y, {flag: False})
        session.run(y, {flag: True})
        session.run(y, {flag: False})
        assert session.run(v.read_value()) == 1


@VERSIONS
def test_gradient_of_cond(session, version):
    flag = tf1.placeholder(tf.bool, [])
    x = tf1.placeholder(tf.float32, [])
    y = tf.cond(flag, lambda: x * x, lambda: 3.0 * x)
    gradient = tf.gradients(y, x)[0]
    assert session.run(gradient, {flag: True, x: 5.0}) == 10.0
    assert session.run(gradient, {flag: False, x: 5.0}) == 3.0


@VERSIONS
def test_while(session, version):
    limit = tf1.placeholder(tf.int32, [])
    i, total = tf1.while_loop(lambda i, t: i < limit, lambda i, t: (i + 1, t + i),
                              [tf.constant(0), tf.constant(0)])
    for n in [0, 1, 10, 1000]:
        assert session.run([i, total], {limit: n}) == [n, n * (n - 1) // 2]


@VERSIONS
def test_nested_while(session, version):
    def outer(i, total):
        _, inner = tf1.while_loop(lambda j, t: j < i, lambda j, t: (j + 1, t + j),
                                  [tf.constant(0), tf.constant(0)])
        return i + 1, total + inner
    _, total = tf1.while_loop(lambda i, t: i < 20, outer, [tf.constant(0), tf.constant(0)])
    assert session.run(total) == sum(sum(range(i)) for i in range(20))


@VERSIONS
@pytest.mark.parametrize("parallel", [1, 2, 10, 32])
def test_parallel_iterations(session, version, parallel):
    x = tf.constant(np.arange(16.0, dtype=np.float32))
    _, y = tf1.while_loop(lambda i, y: i < 50, lambda i, y: (i + 1, y * 0.5 + x),
                          [tf.constant(0), x], parallel_iterations=parallel)
    want = np.arange(16.0, dtype=np.float32)
    start = want
    for _ in range(50):
        want = want * np.float32(0.5) + start
    np.testing.assert_allclose(session.run(y), want, rtol=1e-6)


@VERSIONS
def test_gradient_of_while(session, version):
    x = tf1.placeholder(tf.float32, [])
    _, y = tf1.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, y * x), [tf.constant(0), x])
    gradient = tf.gradients(y, x)[0]
    assert session.run([y, gradient], {x: 2.0}) == [32.0, 80.0]


@VERSIONS
def test_tensor_array_in_a_loop(session, version):
    array = tf.TensorArray(tf.float32, size=5)
    _, array = tf1.while_loop(lambda i, a: i < 5,
                              lambda i, a: (i + 1, a.write(i, tf.cast(i * i, tf.float32))),
                              [tf.constant(0), array])
    np.testing.assert_array_equal(session.run(array.stack()), [0, 1, 4, 9, 16])


@VERSIONS
def test_gradient_of_scan(session, version):
    x = tf1.placeholder(tf.float32, [4])
    y = tf.reduce_sum(tf.scan(lambda a, b: a * b, x))
    gradient = tf.gradients(y, x)[0]
    value, slope = session.run([y, gradient], {x: [1.0, 2.0, 3.0, 4.0]})
    assert value == 1 + 2 + 6 + 24
    np.testing.assert_allclose(slope, [33.0, 16.0, 10.0, 6.0])


@VERSIONS
def test_map_fn(session, version):
    got = session.run(tf.map_fn(lambda x: x * x + 1, tf.range(6)))
    np.testing.assert_array_equal(got, [1, 2, 5, 10, 17, 26])


@VERSIONS
def test_case_and_switch_case(session, version):
    index = tf1.placeholder(tf.int32, [])
    y = tf.switch_case(index, [lambda: tf.constant(10), lambda: tf.constant(20),
                               lambda: tf.constant(30)])
    assert [session.run(y, {index: i}) for i in range(4)] == [10, 20, 30, 30]


@VERSIONS
def test_cond_inside_while(session, version):
    _, total = tf1.while_loop(
        lambda i, t: i < 10,
        lambda i, t: (i + 1, tf.cond(tf.equal(i % 2, 0), lambda: t + i, lambda: t - i)),
        [tf.constant(0), tf.constant(0)])
    assert session.run(total) == sum(i if i % 2 == 0 else -i for i in range(10))


@VERSIONS
def test_while_inside_cond(session, version):
    flag = tf1.placeholder(tf.bool, [])
    def loop():
        return tf1.while_loop(lambda i: i < 7, lambda i: i + 1, [tf.constant(0)])
    y = tf.cond(flag, loop, lambda: tf.constant(-1))
    assert session.run(y, {flag: True}) == 7
    assert session.run(y, {flag: False}) == -1


def test_function(session):
    @tf.function
    def square_plus(x, y):
        return x * x + y
    x = tf1.placeholder(tf.float32, [])
    y = square_plus(x, tf.constant(1.0))
    gradient = tf.gradients(y, x)[0]
    assert session.run(y, {x: 3.0}) == 10.0
    assert session.run(gradient, {x: 3.0}) == 6.0


def test_function_calls_function(session):
    @tf.function
    def inner(x):
        return x + 1

    @tf.function
    def outer(x):
        return inner(inner(x)) * 2
    assert session.run(outer(tf.constant(5))) == 14


def test_function_with_state(clean):
    v = tf1.get_variable("v", initializer=0, use_resource=True)

    @tf.function
    def bump(n):
        v.assign_add(n)
        return v.read_value()
    with tf1.Session(clean) as session:
        session.run(v.initializer)
        y = bump(tf.constant(5))
        assert session.run(y) == 5
        assert session.run(y) == 10


def test_defun(session):
    from tensorflow.python.framework import function

    @function.Defun(tf.float32, tf.float32)
    def multiply_add(x, y):
        return x * y + x
    assert session.run(multiply_add(tf.constant(2.0), tf.constant(3.0))) == 8.0


def test_dead_fetch_is_an_error(session):
    data, flag = tf.constant(1), tf1.placeholder(tf.bool, [])
    false_side, true_side = tf.raw_ops.Switch(data=data, pred=flag)
    assert session.run(true_side, {flag: True}) == 1
    with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.InternalError),
                       match="was not valid"):
        session.run(false_side, {flag: True})
