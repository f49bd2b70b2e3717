"""Reference and resource variables: containers, sharing between sessions, Session.reset, and state of
random ops."""

import numpy as np
import pytest
import tensorflow as tf

from conftest import tf1

KINDS = pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])


@KINDS
def test_assign_and_read(clean, use_resource):
    v = tf1.get_variable("v", initializer=[1.0, 2.0], use_resource=use_resource)
    update = v.assign_add([1.0, 1.0])
    with tf1.Session(clean) as session:
        session.run(v.initializer)
        session.run(update)
        session.run(v.assign_sub([0.5, 0.0]))
        np.testing.assert_array_equal(session.run(v), [1.5, 3.0])


@KINDS
def test_sessions_share_variables(clean, use_resource):
    v = tf1.get_variable("v", initializer=5.0, use_resource=use_resource)
    with tf1.Session(clean) as first, tf1.Session(clean) as second:
        first.run(v.initializer)
        assert second.run(v) == 5.0
        second.run(v.assign(6.0))
        assert first.run(v) == 6.0


@KINDS
def test_variables_outlive_sessions(clean, use_resource):
    v = tf1.get_variable("v", initializer=5.0, use_resource=use_resource)
    with tf1.Session(clean) as session:
        session.run(v.initializer)
    with tf1.Session(clean) as session:
        assert session.run(v) == 5.0


@KINDS
def test_uninitialized_variables_are_reported(clean, use_resource):
    v = tf1.get_variable("v", initializer=5.0, use_resource=use_resource)
    with tf1.Session(clean) as session:
        with pytest.raises(tf.errors.FailedPreconditionError) as caught:
            session.run(v)
        assert "v" in str(caught.value)
        report = tf1.report_uninitialized_variables([v])
        assert session.run(report).tolist() == [b"v"]
        session.run(v.initializer)
        assert session.run(report).tolist() == []


@KINDS
def test_reset_of_a_container_spares_others(clean, use_resource):
    with tf1.container("one"):
        a = tf1.get_variable("a", initializer=1.0, use_resource=use_resource)
    with tf1.container("two"):
        b = tf1.get_variable("b", initializer=2.0, use_resource=use_resource)
    with tf1.Session(clean) as session:
        session.run([a.initializer, b.initializer])
    tf1.Session.reset(clean, ["one"])
    with tf1.Session(clean) as session:
        with pytest.raises(tf.errors.FailedPreconditionError):
            session.run(a)
        assert session.run(b) == 2.0
    tf1.Session.reset(clean, ["two"])
    with tf1.Session(clean) as session:
        with pytest.raises(tf.errors.FailedPreconditionError):
            session.run(b)


@KINDS
def test_reset_without_names_clears_the_default_container(clean, use_resource):
    v = tf1.get_variable("v", initializer=5.0, use_resource=use_resource)
    with tf1.Session(clean) as session:
        session.run(v.initializer)
    tf1.Session.reset(clean)
    with tf1.Session(clean) as session:
        with pytest.raises(tf.errors.FailedPreconditionError):
            session.run(v)


def test_the_default_container_has_the_name_of_the_job(clean):
    v = tf1.get_variable("v", initializer=5.0, use_resource=True)
    w = tf1.get_variable("w", initializer=5.0, use_resource=True)
    with tf1.Session(clean) as session:
        job = session.list_devices()[0].name.split("/")[1].removeprefix("job:")
        session.run(w.initializer)
        with pytest.raises(tf.errors.FailedPreconditionError,
                           match=f"container={job}, status error message=Resource {job}/v/"):
            session.run(v)
    tf1.Session.reset(clean, [job])
    with tf1.Session(clean) as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match=f"Container {job} does not"):
            session.run(w)


def test_a_container_that_is_not_there(clean):
    with tf1.get_default_graph().container("elsewhere"):
        v = tf1.get_variable("v", initializer=5.0, use_resource=True)
    with tf1.Session(clean) as session:
        message = r"Container elsewhere does not exist. \(Could not find resource: elsewhere/v\)"
        with pytest.raises(tf.errors.FailedPreconditionError, match=message):
            session.run(v)


def test_reset_ends_other_sessions(clean):
    v = tf1.get_variable("v", initializer=5.0)
    session = tf1.Session(clean)
    session.run(v.initializer)
    tf1.Session.reset(clean)
    with pytest.raises((tf.errors.AbortedError, tf.errors.FailedPreconditionError,
                        tf.errors.CancelledError)):
        session.run(v)


@KINDS
def test_isolated_sessions_share_nothing(clean, use_resource):
    v = tf1.get_variable("v", initializer=5.0, use_resource=use_resource)
    config = tf1.ConfigProto(isolate_session_state=True)
    with tf1.Session(clean, config=config) as first, tf1.Session(clean, config=config) as second:
        first.run(v.initializer)
        assert first.run(v) == 5.0
        with pytest.raises(tf.errors.FailedPreconditionError):
            second.run(v)


@KINDS
def test_gradient_descent(clean, use_resource):
    tf1.set_random_seed(1)
    x = tf1.placeholder(tf.float32, [None])
    y = tf1.placeholder(tf.float32, [None])
    weight = tf1.get_variable("weight", initializer=0.0, use_resource=use_resource)
    bias = tf1.get_variable("bias", initializer=0.0, use_resource=use_resource)
    loss = tf.reduce_mean(tf.square(weight * x + bias - y))
    train = tf1.train.GradientDescentOptimizer(0.5).minimize(loss)
    points = np.linspace(0, 1, 100, dtype=np.float32)
    with tf1.Session(clean) as session:
        session.run(tf1.global_variables_initializer())
        for _ in range(200):
            session.run(train, {x: points, y: points * 0.1 + 0.3})
        got = session.run([weight, bias])
    np.testing.assert_allclose(got, [0.1, 0.3], atol=2e-2)


def test_random_streams_continue_over_signatures(clean):
    """The state of a random op belongs to the session: a step with other fetches continues its stream."""
    number = tf.random.uniform([3], seed=7)
    other = tf.constant(1)
    with tf1.Session(clean) as session, tf1.Session("") as local:
        ours = [session.run(number), session.run([number, other])[0], session.run(number)]
        theirs = [local.run(number), local.run([number, other])[0], local.run(number)]
    np.testing.assert_array_equal(ours, theirs)
