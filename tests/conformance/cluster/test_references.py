"""Values of reference variables that cross tasks: the receiver sees the variable as it is when it
asks, which is after everything else that the reading node waits for. Every mix of makes, because
whoever is the master cuts the graph, and whoever holds the variable answers."""

import numpy as np
import pytest
import tensorflow as tf

from clusters import Cluster, tf1

SIZE, ROUNDS = 50000, 40


@pytest.fixture(scope="module", params=["downpour-downpour", "downpour-tensorflow",
                                        "tensorflow-downpour", "tensorflow-tensorflow"])
def tasks(request):
    """A parameter server and a worker, which is the client's master."""
    ps, worker = request.param.split("-")
    cluster = Cluster({"ps": 1, "worker": 1}, {"ps": ps, "worker": worker})
    yield cluster
    cluster.stop()


@pytest.fixture(autouse=True)
def clean(tasks):
    tf1.Session.reset(tasks.target("worker", 0))


def _variable():
    with tf.device("/job:ps/task:0"):
        return tf1.get_variable("v", [SIZE], initializer=tf1.zeros_initializer(), use_resource=False)


def _check_rounds(tasks, variable, gradient, read):
    with tf1.Session(tasks.target("worker", 0)) as session:
        session.run(variable.initializer)
        for step in range(1, ROUNDS + 1):
            seen = session.run(read, {gradient: np.full(SIZE, -1, np.float32)})
            np.testing.assert_array_equal(seen, np.full(SIZE, step, np.float32))


def test_a_read_behind_an_update_and_a_queue_barrier(tasks):
    v = _variable()
    with tf.device("/job:worker/task:0"):
        gradient = tf1.placeholder(tf.float32, [SIZE])
        update = tf1.train.GradientDescentOptimizer(1.0).apply_gradients([(gradient, v)])
    with tf.device("/job:ps/task:0"):
        barrier = tf1.FIFOQueue(4, [tf.bool], shapes=[[]])
        with tf.control_dependencies([update]):
            arrive = barrier.enqueue(False)
        with tf.control_dependencies([arrive]):
            leave = barrier.dequeue()
    with tf.device("/job:worker/task:0"), tf.control_dependencies([leave]):
        read = v.read_value()
    _check_rounds(tasks, v, gradient, read)


def test_a_read_behind_an_update_without_a_barrier(tasks):
    v = _variable()
    gradient = tf1.placeholder(tf.float32, [SIZE])
    with tf.device("/job:worker/task:0"):
        update = tf1.train.GradientDescentOptimizer(1.0).apply_gradients([(gradient, v)])
        with tf.control_dependencies([update]):
            read = v.read_value()
    _check_rounds(tasks, v, gradient, read)


def test_a_read_waits_for_the_other_inputs_of_its_node(tasks):
    """The node that reads is an op with a second input, which is there only after the update."""
    v = _variable()
    gradient = tf1.placeholder(tf.float32, [SIZE])
    with tf.device("/job:ps/task:0"):
        update = tf1.assign_sub(v, gradient)
    with tf.device("/job:worker/task:0"):
        after = update * 0.0
        read = tf.raw_ops.AddN(inputs=[v._variable, after])
    _check_rounds(tasks, v, gradient, read)


def test_a_fetch_on_the_variables_own_task_shows_the_step_s_update(tasks):
    v = _variable()
    with tf.device("/job:ps/task:0"):
        slow = tf1.placeholder(tf.float32, [SIZE])
        wait = slow
        for _ in range(20):
            wait = tf.sin(wait)
        with tf.control_dependencies([wait]):
            update = v.assign_add(tf.ones([SIZE]))
    with tf1.Session(tasks.target("ps", 0)) as session:
        session.run(v.initializer)
        for step in range(1, ROUNDS + 1):
            seen, _ = session.run([v, update.op], {slow: np.zeros(SIZE, np.float32)})
            np.testing.assert_array_equal(seen, np.full(SIZE, step, np.float32))


def test_an_uninitialized_variable_is_named(tasks):
    v = _variable()
    with tf.device("/job:worker/task:0"):
        read = v.read_value() + 1.0
    with tf1.Session(tasks.target("worker", 0)) as session:
        with pytest.raises(tf.errors.FailedPreconditionError,
                           match="Attempting to use uninitialized value v"):
            session.run(read)
