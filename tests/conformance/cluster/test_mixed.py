"""Clusters of two tasks in every mix: the client's task, which is the master, and the second task,
each ours or genuine TensorFlow's."""

import numpy as np
import pytest
import tensorflow as tf

from clusters import Cluster, tf1


@pytest.fixture(scope="module", params=["downpour-downpour", "downpour-tensorflow",
                                        "tensorflow-downpour"])
def tasks(request):
    """A cluster of two tasks: task 0 is the client's master, task 1 the second worker."""
    cluster = Cluster({"local": 2}, {"local": request.param.split("-")})
    yield cluster
    cluster.stop()


@pytest.fixture(autouse=True)
def clean(tasks):
    tf1.Session.reset(tasks.target("local", 0))


def test_ops_run_where_they_are_pinned(tasks):
    with tf.device("/job:local/task:0"):
        a = tf1.placeholder(tf.float32, [3])
        b = a * 2.0
    with tf.device("/job:local/task:1"):
        c = b + 1.0
        text = tf.constant("there")
    with tf.device("/job:local/task:0"):
        d = tf.reduce_sum(c)
    with tf1.Session(tasks.target("local", 0)) as session:
        for scale in [1.0, 2.0]:
            total, middle = session.run([d, c], {a: np.full(3, scale, np.float32)})
            assert total == 3 * (2 * scale + 1)
            np.testing.assert_array_equal(middle, np.full(3, 2 * scale + 1))
        assert session.run(text) == b"there"


def test_devices_of_both_tasks_are_listed(tasks):
    with tf1.Session(tasks.target("local", 0)) as session:
        names = sorted(device.name for device in session.list_devices())
    assert [name for name in names if "device:CPU:0" in name] == [
        "/job:local/replica:0/task:0/device:CPU:0", "/job:local/replica:0/task:1/device:CPU:0"]


@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
def test_variables_on_the_other_task(tasks, use_resource):
    with tf.device("/job:local/task:1"):
        v = tf1.get_variable("v", initializer=[1.0, 2.0], use_resource=use_resource)
    with tf.device("/job:local/task:0"):
        update = v.assign_add([1.0, 1.0])
    with tf1.Session(tasks.target("local", 0)) as session:
        session.run(v.initializer)
        session.run(update)
        session.run(update)
        np.testing.assert_array_equal(session.run(v), [3.0, 4.0])
    with tf1.Session(tasks.target("local", 1)) as session:
        np.testing.assert_array_equal(session.run(v), [3.0, 4.0])


def test_conditions_across_tasks(tasks):
    flag = tf1.placeholder(tf.bool, [])
    with tf.device("/job:local/task:1"):
        x = tf.constant(3.0)
    y = tf1.cond(flag, lambda: x * 2.0, lambda: x - 1.0)
    with tf1.Session(tasks.target("local", 0)) as session:
        assert session.run(y, {flag: True}) == 6.0
        assert session.run(y, {flag: False}) == 2.0


def test_a_loop_across_tasks(tasks):

    def body(i, total):
        with tf.device("/job:local/task:1"):
            added = total + i
        return i + 1, added
    _, total = tf1.while_loop(lambda i, t: i < 10, body, [tf.constant(0), tf.constant(0)])
    with tf1.Session(tasks.target("local", 0)) as session:
        assert session.run(total) == 45
        assert session.run(total) == 45


def test_an_error_on_the_other_task_reaches_the_client(tasks):
    fed = tf1.placeholder(tf.int32, [None])
    with tf.device("/job:local/task:1"):
        bad = tf.reshape(fed, [2, 2], name="bad_reshape")
    with tf1.Session(tasks.target("local", 0)) as session:
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            session.run(bad, {fed: [1, 2, 3]})
        assert caught.value.op.name == "bad_reshape"
        assert "/job:local/replica:0/task:1" in str(caught.value)
        np.testing.assert_array_equal(session.run(bad, {fed: [1, 2, 3, 4]}), [[1, 2], [3, 4]])


def test_a_large_tensor_crosses(tasks):
    with tf.device("/job:local/task:1"):
        big = tf.range(4 << 20)
    with tf.device("/job:local/task:0"):
        total = tf.reduce_sum(tf.cast(big, tf.int64))
    with tf1.Session(tasks.target("local", 0)) as session:
        count = 4 << 20
        assert session.run(total) == count * (count - 1) // 2
