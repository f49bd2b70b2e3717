"""Conditional accumulators: a step that takes gradients waits until enough have come. On them
SyncReplicasOptimizer is built, which two workers use here."""

import threading

import numpy as np
import pytest
import tensorflow as tf

from conftest import PATIENCE, tf1


def in_background(run):
    results = []

    def catch():
        try:
            results.append(run())
        except tf.errors.OpError as error:
            results.append(error)
    thread = threading.Thread(target=catch, daemon=True)
    thread.start()
    return thread, results


def test_taking_waits_for_enough(session):
    accumulator = tf1.ConditionalAccumulator(tf.float32, shape=[2])
    add, take = accumulator.apply_grad([2., 4.], local_step=9), accumulator.take_grad(3)
    thread, results = in_background(lambda: session.run(take))
    for _ in range(3):
        thread.join(0.2)
        assert thread.is_alive()
        session.run(add)
    thread.join(PATIENCE)
    np.testing.assert_array_equal(results[0], [2., 4.])
    assert session.run(accumulator.num_accumulated()) == 0


def test_timeout_cancels_a_taking(session):
    accumulator = tf1.ConditionalAccumulator(tf.float32, shape=[])
    with pytest.raises(tf.errors.DeadlineExceededError):
        session.run(accumulator.take_grad(1), options=tf1.RunOptions(timeout_in_ms=300))
    session.run(accumulator.apply_grad(5., local_step=9))
    assert session.run(accumulator.take_grad(1)) == 5.


def test_sparse_sums_of_threads(session):
    accumulator = tf1.SparseConditionalAccumulator(tf.float32, shape=[None, 1], reduction_type="SUM")
    indices = tf1.placeholder(tf.int64, [None])
    values = tf1.placeholder(tf.float32, [None, 1])
    add = accumulator.apply_grad(indices, values, local_step=9)

    def worker(row):
        for _ in range(5):
            session.run(add, {indices: [0, row], values: [[1.], [2.]]})
    threads = [in_background(lambda row=row: worker(row))[0] for row in range(1, 5)]
    taken = session.run(accumulator.take_indexed_slices_grad(20))
    for thread in threads:
        thread.join(PATIENCE)
    np.testing.assert_array_equal(taken.indices, [0, 1, 2, 3, 4])
    np.testing.assert_array_equal(taken.values[:, 0], [20., 10., 10., 10., 10.])


def test_synchronous_replicas(clean):
    """Two workers train one variable with SyncReplicasOptimizer. The gradient of the second worker is
    twice that of the first. Each update is the mean of two gradients that are not stale."""
    with tf1.Session(clean) as session:
        step = tf1.train.get_or_create_global_step()
        weight = tf1.get_variable("weight", [], tf.float32, tf1.zeros_initializer(),
                                  use_resource=False)
        scale = tf1.placeholder(tf.float32, [])
        optimizer = tf1.train.SyncReplicasOptimizer(
            tf1.train.GradientDescentOptimizer(1.), replicas_to_aggregate=2, total_num_replicas=2)
        train = optimizer.minimize(weight * scale, global_step=step)
        session.run(tf1.global_variables_initializer())
        session.run([optimizer.local_step_init_op, optimizer.chief_init_op,
                     optimizer.get_init_tokens_op()])
        coordinator = tf1.train.Coordinator()
        runner = optimizer.get_chief_queue_runner()
        threads = runner.create_threads(session, coordinator, daemon=True, start=True)
        for _ in range(12):
            workers = [in_background(lambda s=s: session.run(train, {scale: s})) for s in (1., 2.)]
            for thread, results in workers:
                thread.join(PATIENCE)
                assert not thread.is_alive() and not isinstance(results[0], Exception), results
        updates, value = session.run([step, weight])
        assert updates >= 3
        assert -2. * updates <= value <= -1. * updates
        coordinator.request_stop()
        assert threads
