"""Conditionals, loops and functions whose parts are on four tasks. The results must be those of a
session in this process, which ignores devices."""

import numpy as np
import pytest
import tensorflow as tf

from conftest import tf1

PS0, PS1, WORKER1 = "/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:1"


def nested_loops():
    x, n = tf1.placeholder(tf.float32, [], "x"), tf1.placeholder(tf.int32, [], "n")
    with tf.device(WORKER1):
        k = x * 3.0

    def body(i, y):
        with tf.device(PS0):
            y = y + k

        def inner(j, z):
            with tf.device(PS1):
                a = z * 1.5
            return j + 1, tf1.cond(a > 10.0, lambda: a / 3.0, lambda: a * 2.0)
        _, z = tf1.while_loop(lambda j, z: j < i, inner, [0, y])
        return i + 1, z + 1.0
    result = tf1.while_loop(lambda i, y: i < n, body, [tf.constant(0), x])
    return [([r.name for r in result], {"x:0": 3.0, "n:0": n}) for n in (0, 1, 7)]


def effects_in_a_branch():
    with tf.device(PS0):
        v = tf1.get_variable("v", initializer=1.0, use_resource=True)
    x = tf1.placeholder(tf.float32, [], "x")

    def taken():
        with tf.control_dependencies([v.assign_add(x)]):
            return v.read_value()
    y = tf1.cond(x > 0.0, taken, lambda: tf.constant(-1.0))
    value = v.read_value()
    return [(y.name, {"x:0": 3.0}), (value.name, {}), (y.name, {"x:0": -3.0}), (value.name, {})]


def effects_in_a_loop():
    with tf.device(PS1):
        v = tf1.get_variable("v", initializer=1.0, use_resource=True)

    def body(i):
        with tf.control_dependencies([v.assign_add(tf.cast(i, tf.float32))]):
            return i + 1
    with tf.device(WORKER1):
        i = tf1.while_loop(lambda i: i < 5, body, [tf.constant(0)])
    return [(i.name, {}), (v.read_value().name, {})]


def gradients_of_a_loop():
    with tf.device(PS0):
        v = tf1.get_variable("v", initializer=1.5, use_resource=True)
    x = tf1.placeholder(tf.float32, [], "x")

    def body(i, y):
        with tf.device(WORKER1):
            return i + 1, y * v
    with tf.device(WORKER1):
        _, y = tf1.while_loop(lambda i, y: i < 4, body, [tf.constant(0), x])
    z = tf1.cond(y > 1.0, lambda: y * y, lambda: -y)
    return [([g.name for g in tf1.gradients(z, [v, x])], {"x:0": value}) for value in (1.5, 0.01)]


def functions():
    with tf.device(PS1):
        v = tf1.get_variable("v", initializer=1.0, use_resource=True)

    @tf.function
    def inner(a, b):
        v.assign_add(a)
        with tf.device(PS0):
            return a * b, a + b

    @tf.function
    def outer(a):
        p, q = inner(a, a)
        r, s = inner(p, q)
        return r - s
    x = tf1.placeholder(tf.float32, [], "x")
    y, z = outer(x), inner(x, x)[1] + 1.0
    value = v.read_value()
    return [(y.name, {"x:0": 3.0}), (value.name, {}), (z.name, {"x:0": 2.0}), (value.name, {})]


def run(target, build, local):
    graph = tf.Graph()
    with graph.as_default():
        runs = build()
        start = tf1.global_variables_initializer().name
    definition = graph.as_graph_def()
    if local:
        for node in [*definition.node, *[n for f in definition.library.function
                                         for n in f.node_def]]:
            node.device = ""
    with tf.Graph().as_default() as graph:
        tf1.import_graph_def(definition, name="")
        with tf1.Session(target, graph=graph) as session:
            session.run(start)
            return [session.run(fetch, feed) for fetch, feed in runs]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("build", [nested_loops, effects_in_a_branch, effects_in_a_loop,
                                   gradients_of_a_loop, functions])
def test_spreading_changes_nothing(ours, build, version):
    tf1.enable_control_flow_v2() if version == 2 else tf1.disable_control_flow_v2()
    try:
        tf1.Session.reset(ours)
        here, there = run("", build, True), run(ours, build, False)
    finally:
        tf1.disable_control_flow_v2()
    for a, b in zip(here, there):
        np.testing.assert_allclose(a, b, rtol=1e-6)
