"""Synchronous training: SyncReplicasOptimizer with its accumulators and tokens on our servers."""

import threading

import numpy as np
import pytest

from clusters import Cluster, tf, tf1
from replicas import DEADLINE, between_graph, monitored, run_replicas

STEPS = 100


def model(features, ids, labels, use_resource):
    """A table of embeddings, which gets sparse gradients, and two dense layers."""
    with tf1.variable_scope("model", use_resource=use_resource):
        random = np.random.RandomState(7)
        table = tf1.get_variable("table", initializer=random.randn(6, 4).astype(np.float32))
        weights = tf1.get_variable("weights", initializer=random.randn(9, 8).astype(np.float32) / 3)
        last = tf1.get_variable("last", initializer=random.randn(8, 1).astype(np.float32) / 3)
    rows = tf1.nn.embedding_lookup(table, ids)
    hidden = tf.tanh(tf.matmul(tf.concat([rows, features], 1), weights))
    return tf.reduce_mean(tf.square(tf.matmul(hidden, last) - labels)), [table, weights, last]


def batch(step, replica):
    """Six examples; every row of the table once, so that a mean over replicas is one over rows."""
    random = np.random.RandomState(1000 * step + replica)
    features = random.randn(6, 5).astype(np.float32)
    return features, np.arange(6), np.sin(features.sum(1, keepdims=True))


def placeholders():
    return (tf1.placeholder(tf.float32, [None, 5]), tf1.placeholder(tf.int64, [None]),
            tf1.placeholder(tf.float32, [None, 1]))


def train_alone(replicas, make_optimizer, use_resource):
    """Genuine TensorFlow, one session: the batches of all replicas in one."""
    with tf.Graph().as_default(), tf1.Session() as session:
        inputs = placeholders()
        loss, variables = model(*inputs, use_resource)
        train = make_optimizer().minimize(loss)
        session.run(tf1.global_variables_initializer())
        losses = []
        for step in range(STEPS):
            parts = [batch(step, replica) for replica in range(replicas)]
            feeds = dict(zip(inputs, [np.concatenate(column) for column in zip(*parts)]))
            losses.append(session.run([loss, train], feeds)[0])
        return losses, session.run(variables)


@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
@pytest.mark.parametrize("replicas", [2, 3])
def test_replicas_equal_one_machine(fresh, replicas, use_resource):
    def make_optimizer():
        return tf1.train.MomentumOptimizer(0.05, 0.9)
    ready = threading.Event()
    turn = threading.Barrier(replicas)  # each replica gives one gradient a step, no one two

    def replica(index):
        with tf1.device(between_graph(fresh, index)):
            inputs = placeholders()
            loss, variables = model(*inputs, use_resource)
            step = tf1.train.get_or_create_global_step()
            optimizer = tf1.train.SyncReplicasOptimizer(
                make_optimizer(), replicas_to_aggregate=replicas, total_num_replicas=replicas)
            train = optimizer.minimize(loss, global_step=step)
        hook = optimizer.make_session_run_hook(index == 0, num_tokens=0)
        losses = []
        with monitored(fresh, index, ready, [hook]) as session:
            for number in range(STEPS):
                turn.wait(DEADLINE)
                feeds = dict(zip(inputs, batch(number, index)))
                losses.append(session.run([loss, train], feeds)[0])
            turn.wait(DEADLINE)
            final = session.run(variables + [step])
            turn.wait(DEADLINE)
        return losses, final
    results = run_replicas(replicas, replica)
    losses, final = train_alone(replicas, make_optimizer, use_resource)
    np.testing.assert_allclose(np.mean([r[0] for r in results], axis=0), losses, rtol=2e-4,
                               atol=1e-6)
    for _, values in results:
        assert values[-1] == STEPS
        for ours, theirs in zip(values, final):
            np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)


def sparse_rows(index, step):
    """Which rows of ten a replica touches: sorted, unique, different."""
    return np.unique(np.random.RandomState(10 * step + index).randint(0, 10, 4))


def test_a_row_is_averaged_over_the_replicas_that_touched_it(fresh):
    turn, ready = threading.Barrier(3), threading.Event()

    def replica(index):
        with tf1.device(between_graph(fresh, index)):
            ids = tf1.placeholder(tf.int64, [None])
            table = tf1.get_variable("table", [10, 3], initializer=tf1.zeros_initializer())
            loss = tf.reduce_sum(tf1.nn.embedding_lookup(table, ids)) * (index + 1.0)
            optimizer = tf1.train.SyncReplicasOptimizer(
                tf1.train.GradientDescentOptimizer(1.0), 3, 3)
            train = optimizer.minimize(loss, global_step=tf1.train.get_or_create_global_step())
        hook = optimizer.make_session_run_hook(index == 0, num_tokens=0)
        with monitored(fresh, index, ready, [hook]) as session:
            for step in range(10):
                turn.wait(DEADLINE)
                session.run(train, {ids: sparse_rows(index, step)})
            turn.wait(DEADLINE)
            value = session.run(table)
            turn.wait(DEADLINE)
        return value
    wanted = np.zeros((10, 3), np.float32)
    for step in range(10):
        sums, counts = np.zeros(10), np.zeros(10)
        for index in range(3):
            sums[sparse_rows(index, step)] += index + 1.0
            counts[sparse_rows(index, step)] += 1
        wanted -= (sums / np.maximum(counts, 1))[:, None]
    for value in run_replicas(3, replica):
        np.testing.assert_allclose(value, wanted, rtol=1e-5)


# ---- How many gradients a step takes ----
def constant_slope(cluster, index, aggregate, total, last_step, ready, on_step=None):
    """Trains w on a loss with slope 1, so that w is -0.5 a step whoever gave the gradients."""
    with tf1.device(between_graph(cluster, index)):
        w = tf1.get_variable("w", [4], initializer=tf1.zeros_initializer(), use_resource=False)
        with tf1.variable_scope("", use_resource=False):
            step = tf1.train.get_or_create_global_step()
        optimizer = tf1.train.SyncReplicasOptimizer(
            tf1.train.GradientDescentOptimizer(0.5), replicas_to_aggregate=aggregate,
            total_num_replicas=total)
        train = optimizer.minimize(tf.reduce_sum(w), global_step=step)
    hooks = [optimizer.make_session_run_hook(index == 0),
             tf1.train.StopAtStepHook(last_step=last_step)]
    made = 0
    with monitored(cluster, index, ready, hooks) as session:
        while not session.should_stop():
            try:
                _, at = session.run([train, step])
            except tf.errors.OutOfRangeError:  # the chief ended and closed the tokens
                break
            made += 1
            if on_step:
                on_step(index, at)
    return made


def read_result(cluster):
    """The variables of constant_slope, found by their names."""
    with tf.Graph().as_default(), tf1.Session(cluster.target("worker", 0)) as session:
        with tf1.device("/job:ps/task:0"):
            w = tf1.get_variable("w", [4], use_resource=False)
        with tf1.device("/job:ps/task:1"):
            step = tf1.get_variable("global_step", [], tf.int64, use_resource=False)
        return session.run([w, step])


@pytest.mark.parametrize("aggregate", [2, 3, 5], ids=["fewer", "equal", "more"])
def test_gradients_to_a_step(fresh, aggregate):
    last, ready = 40, threading.Event()

    def replica(index):
        return constant_slope(fresh, index, aggregate, 3, last, ready)
    counts = run_replicas(3, replica)
    assert sum(counts) >= last * aggregate * 0.5
    w, step = read_result(fresh)
    assert step >= last
    np.testing.assert_array_equal(w, np.full(4, -0.5 * step, np.float32))


def test_a_slow_replica_is_left_behind(fresh):
    """Two gradients make a step of three replicas: the slow one's are stale and dropped."""
    ready, begun, ended = threading.Event(), threading.Event(), threading.Event()

    def on_step(index, step):
        if index == 2:
            begun.set()
            assert ended.wait(DEADLINE)
        assert begun.wait(DEADLINE)  # the others do not end before it has come

    def replica(index):
        try:
            return constant_slope(fresh, index, 2, 3, 60, ready, on_step)
        finally:
            ended.set()
    run_replicas(3, replica)
    w, step = read_result(fresh)
    assert step >= 60
    np.testing.assert_array_equal(w, np.full(4, -0.5 * step, np.float32))


def test_a_replica_joins_a_synchronous_run(fresh):
    ready, joined = threading.Event(), threading.Event()

    def on_step(index, step):
        if index == 0 and step >= 10:
            joined.set()

    def replica(index):
        if index == 2:
            assert joined.wait(DEADLINE)
        return constant_slope(fresh, index, 2, 3, 150, ready, on_step)
    run_replicas(3, replica)
    w, step = read_result(fresh)
    assert step >= 150
    np.testing.assert_array_equal(w, np.full(4, -0.5 * step, np.float32))


def test_a_replica_is_lost_in_a_synchronous_run():
    """A worker's task and its client's step die with it; the two others finish the run."""
    cluster = Cluster({"ps": 2, "worker": 3}, {"ps": "downpour", "worker": "downpour"})
    ready, dead = threading.Event(), threading.Event()

    def on_step(index, step):
        if index == 2 and step >= 20:
            cluster.tasks["worker", 2].kill()
            dead.set()
            raise EOFError("this replica is dead")
        if index == 0 and step >= 50:
            assert dead.wait(DEADLINE)

    def replica(index):
        try:
            return constant_slope(cluster, index, 2, 3, 120, ready, on_step)
        except EOFError:
            return "dead"
        finally:
            if index == 0:  # the dead one's client waits for the address to come back
                cluster.start("worker", 2).wait_until_ready()
    try:
        assert run_replicas(3, replica)[2] == "dead"
        w, step = read_result(cluster)
        assert step >= 120
        np.testing.assert_array_equal(w, np.full(4, -0.5 * step, np.float32))
    finally:
        cluster.stop()
