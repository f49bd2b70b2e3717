"""Asynchronous training: between-graph replicas that update the parameter servers as they come."""

import threading

import numpy as np
import pytest

from clusters import tf, tf1
from programs import linear
from replicas import DEADLINE, ByBytes, Replica, between_graph, monitored, run_replicas

KINDS = pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])


def kind_scope(use_resource):
    return tf1.variable_scope("", use_resource=use_resource)


def test_linear_regression_by_three_programs(fresh, tmp_path):
    programs = []
    try:
        for index in range(3):
            programs.append(Replica(linear, fresh.spec, index, str(tmp_path), 2000))
            programs[0].wait_for("ready")
        for program in programs:
            _, (step, weight, bias) = program.wait_for("finished")
            assert step >= 2000
            assert abs(weight - 0.1) < 0.02 and abs(bias - 0.3) < 0.02
    finally:
        for program in programs:
            program.kill()
    assert list(tmp_path.glob("events.out.tfevents.*"))


# ---- Where variables go ----
def four_variables():
    sizes = {"w1": [30, 40], "b1": [40], "w2": [40, 10], "b2": [10]}
    return {name: tf1.get_variable(name, shape, initializer=tf1.ones_initializer())
            for name, shape in sizes.items()}


@KINDS
@pytest.mark.parametrize("strategy", [None, "bytes"], ids=["round-robin", "bytes"])
def test_variables_and_slots_are_where_the_setter_put_them(fresh, use_resource, strategy):
    wanted = {"w1": 0, "b1": 1, "w2": 0 if strategy is None else 1, "b2": 1}
    with tf1.device(between_graph(fresh, 0, ByBytes(2) if strategy else None)):
        with kind_scope(use_resource):
            variables = four_variables()
        loss = tf.add_n([tf.reduce_sum(v) for v in variables.values()])
        optimizer = tf1.train.MomentumOptimizer(0.5, 0.9)
        train = optimizer.minimize(loss)
    with tf1.Session(fresh.target("worker", 0)) as session:
        session.run(tf1.global_variables_initializer())
        options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE,
                                 output_partition_graphs=True)
        metadata = tf1.RunMetadata()
        session.run(train, options=options, run_metadata=metadata)
        for v in variables.values():
            np.testing.assert_array_equal(session.run(v), np.full(v.shape, 0.5, np.float32))
            slot = session.run(optimizer.get_slot(v, "momentum"))
            np.testing.assert_array_equal(slot, np.ones(v.shape, np.float32))
    placed = {node.name: node.device for part in metadata.partition_graphs for node in part.node}
    for name, task in wanted.items():
        for whole in [name, f"{name}/Momentum"]:
            assert f"/job:ps/replica:0/task:{task}/" in placed[whole], whole


PARTITIONERS = {
    "fixed": lambda: tf1.fixed_size_partitioner(3),
    "fixed-axis-1": lambda: tf1.fixed_size_partitioner(2, axis=1),
    "bytes": lambda: tf1.variable_axis_size_partitioner(4 * 6 * 7),
    "min-max": lambda: tf1.min_max_variable_partitioner(max_partitions=4, min_slice_size=4 * 6 * 2),
}


@KINDS
@pytest.mark.parametrize("partitioner", PARTITIONERS.values(), ids=PARTITIONERS.keys())
def test_partitioned_variables_train_as_whole_ones(fresh, partitioner, use_resource):
    start = np.arange(60, dtype=np.float32).reshape(10, 6) / 60
    x = np.linspace(-1, 1, 20).reshape(2, 10).astype(np.float32)

    def build(partition):
        with tf1.variable_scope("model", use_resource=use_resource, partitioner=partition):
            v = tf1.get_variable("v", [10, 6], initializer=lambda shape, dtype, partition_info=None:
                                 part_of(start, shape, partition_info))
        parts = list(v) if partition else [v]
        loss = tf.reduce_sum(tf.square(tf.matmul(x, tf.convert_to_tensor(v))))
        return v, parts, tf1.train.AdagradOptimizer(0.1).minimize(loss)

    with tf1.device(between_graph(fresh, 0)):
        v, parts, train = build(partitioner())
    assert len(parts) > 1
    assert {part.device for part in parts} == {"/job:ps/task:0", "/job:ps/task:1"}
    value = tf.convert_to_tensor(v)
    with tf1.Session(fresh.target("worker", 0)) as session:
        session.run(tf1.global_variables_initializer())
        for _ in range(5):
            session.run(train)
        ours = session.run(value)
    with tf.Graph().as_default(), tf1.Session() as session:
        v, _, train = build(None)
        session.run(tf1.global_variables_initializer())
        for _ in range(5):
            session.run(train)
        theirs = session.run(v)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def part_of(whole, shape, partition_info):
    """The values of one part of a partitioned variable."""
    offset = partition_info.var_offset if partition_info else [0] * len(shape)
    slices = tuple(slice(begin, begin + size) for begin, size in zip(offset, shape))
    return tf.constant(whole[slices])


@KINDS
@pytest.mark.parametrize("strategy", ["mod", "div"])
def test_embedding_lookups_over_partitions(fresh, strategy, use_resource):
    """Rows come from the part that holds them; sparse updates touch those rows alone."""
    table = np.arange(22, dtype=np.float32).reshape(11, 2)
    rows = [table[i::3] for i in range(3)] if strategy == "mod" else [table[:4], table[4:8],
                                                                     table[8:]]
    ids = np.array([[10, 0, 3], [3, 7, 0]])
    with tf1.device(between_graph(fresh, 0)):
        with kind_scope(use_resource):
            parts = [tf1.get_variable(f"part{i}", initializer=row) for i, row in enumerate(rows)]
        found = tf1.nn.embedding_lookup(parts, ids, partition_strategy=strategy)
        sparse = tf1.SparseTensor([[0, 0], [0, 1], [1, 0], [3, 0]],
                                  np.array([2, 9, 2, 5], np.int64), [4, 2])
        mean = tf1.nn.embedding_lookup_sparse(parts, sparse, None, partition_strategy=strategy,
                                              combiner="mean")
        train = tf1.train.GradientDescentOptimizer(1.0).minimize(tf.reduce_sum(found))
    with tf1.Session(fresh.target("worker", 0)) as session:
        session.run(tf1.global_variables_initializer())
        np.testing.assert_array_equal(session.run(found), table[ids])
        np.testing.assert_array_equal(
            session.run(mean), [(table[2] + table[9]) / 2, table[2], [0, 0], table[5]])
        session.run(train)
        np.add.at(table, ids.ravel(), -1.0)
        np.testing.assert_array_equal(
            session.run(tf1.nn.embedding_lookup(parts, np.arange(11), strategy)), table)


# ---- Updates at the same time ----
@KINDS
@pytest.mark.parametrize("locking", [False, True], ids=["free", "locked"])
def test_updates_of_three_replicas(fresh, use_resource, locking):
    """With locks no update is lost; without, what is read is a sum of whole updates."""
    rounds = 60

    def replica(index):
        with tf1.device(between_graph(fresh, index)):
            with kind_scope(use_resource):
                v = tf1.get_variable("v", [3000], initializer=tf1.zeros_initializer(), dtype=tf.float32)
            if use_resource:
                add = v.assign_add(tf.ones([3000]), read_value=False)
            else:
                add = v.assign_add(tf.ones([3000]), use_locking=locking).op
        with tf1.Session(fresh.target("worker", index)) as session:
            if index == 0:
                session.run(v.initializer)
                ready.set()
            assert ready.wait(DEADLINE)
            for _ in range(rounds):
                session.run(add)
                seen = session.run(v)
                assert np.all(seen == np.round(seen)) and np.all(seen <= 3 * rounds)
            together.wait(DEADLINE)
            return session.run(v)
    ready, together = threading.Event(), threading.Barrier(3)
    for value in run_replicas(3, replica):
        if locking or use_resource:
            np.testing.assert_array_equal(value, np.full(3000, 3 * rounds, np.float32))
        else:
            assert np.all(value >= rounds) and np.all(value <= 3 * rounds)


def test_a_replica_joins_late(fresh):
    """The chief trains alone until it has made 20 steps; then two more come and share the work."""
    joined, others, ready = threading.Event(), threading.Event(), threading.Event()
    steps = [0, 0, 0]

    def replica(index):
        if index > 0:
            assert joined.wait(DEADLINE)
        with tf1.device(between_graph(fresh, index)):
            v = tf1.get_variable("v", [2], initializer=tf1.zeros_initializer(), use_resource=False)
            step = tf1.train.get_or_create_global_step()
            train = tf1.train.GradientDescentOptimizer(0.1).minimize(
                tf.reduce_sum(tf.square(v - [1.0, 2.0])), global_step=step)
        with monitored(fresh, index, ready) as session:
            for _ in range(200 if index == 0 else 30):
                session.run(train)
                steps[index] += 1
                if steps[0] == 20:
                    joined.set()
                if index == 0 and steps[0] == 30:
                    assert others.wait(DEADLINE)
            others.set()
            return session.run([v, step])
    results = run_replicas(3, replica)
    np.testing.assert_allclose(results[0][0], [1.0, 2.0], atol=1e-3)
    assert steps == [200, 30, 30]
