"""Many sessions, and many threads that run steps of one session, at the same time: every result must
be right."""

import concurrent.futures

import numpy as np
import tensorflow as tf

from conftest import tf1


def test_many_steps_of_one_session(session):
    fed = tf1.placeholder(tf.float32, [64, 64])
    product = tf.reduce_sum(tf.matmul(fed, fed))

    def step(number):
        matrix = np.full((64, 64), number, np.float32)
        return session.run(product, {fed: matrix})

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        got = list(pool.map(step, range(64)))
    np.testing.assert_allclose(got, [64.0 ** 3 * n * n for n in range(64)], rtol=1e-5)


def test_many_sessions(target, graph):
    fed = tf1.placeholder(tf.int64, [])
    square = fed * fed

    def work(number):
        with tf1.Session(target, graph=graph) as own:
            return [own.run(square, {fed: number + i}) for i in range(10)]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for number, got in enumerate(pool.map(work, range(16))):
            assert got == [(number + i) ** 2 for i in range(10)]


def test_concurrent_updates_of_a_variable(clean):
    counter = tf1.get_variable("counter", initializer=tf.zeros([1000], tf.int64), use_resource=True)
    increment = counter.assign_add(tf.ones([1000], tf.int64), read_value=False)
    with tf1.Session(clean) as session:
        session.run(counter.initializer)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: session.run(increment), range(200)))
        np.testing.assert_array_equal(session.run(counter.read_value()), np.full(1000, 200))


def test_steps_while_the_graph_grows(session):
    base = tf.constant(1)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        futures = []
        last = base
        for _ in range(20):
            last = last + 1
            futures.append(pool.submit(session.run, base))
            assert session.run(last) == session.run(last)
        assert all(future.result() == 1 for future in futures)
    assert session.run(last) == 21
