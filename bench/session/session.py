#!/usr/bin/env python3
"""The same client and graphs against TensorFlow's server and ours, side by side, as ratios.

usage: bench/session/session.py [BUILD_DIR]        (with a python that has TensorFlow)

Each server is one process on this machine with its own defaults. The two take turns, round by round,
so that whatever else the machine does hits both; a figure is the median of its rounds, a ratio is
theirs divided by ours (above 1: ours is faster). Times are what the client sees, so they include
TensorFlow's own client on both sides. The figures go to BUILD_DIR/bench/results.json too.
"""

import os
import pathlib
import re
import statistics
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import results
from servers import GENUINE, start

tf1 = tf.compat.v1
tf1.disable_eager_execution()

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROUNDS = 9


def resident_kib(process):
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status).group(1))


def empty_step():
    return tf.no_op(), {}, 300


def ten_scalars():
    x = tf1.placeholder(tf.float32, [])
    y = x
    for _ in range(9):
        y = y * 1.0001 + 0.5
    return y, {x: 1.0}, 300


def thousand_nodes():
    x = tf1.placeholder(tf.float32, [])
    y = [x + float(i) for i in range(500)]
    return tf.add_n(y), {x: 1.0}, 50


def fed(mebibytes, repeats):
    """Large arrays to the server; what comes back is one number."""
    def case():
        x = tf1.placeholder(tf.float32, [mebibytes << 18])
        return tf.reduce_sum(x), {x: np.ones(mebibytes << 18, np.float32)}, repeats
    case.__name__ = f"fed_{mebibytes}_MiB"
    return case


def fetched(mebibytes, repeats):
    """Large arrays from the server."""
    def case():
        x = tf1.placeholder(tf.float32, [])
        return tf.fill([mebibytes << 18], x), {x: 1.0}, repeats
    case.__name__ = f"fetched_{mebibytes}_MiB"
    return case


def chain_of_elements(count, repeats):
    """Element-wise ops one behind the other, on a variable."""
    def case():
        v = tf1.get_variable("v", [count], initializer=tf1.random_uniform_initializer(),
                             use_resource=True)
        x = v.read_value()
        return tf.reduce_sum(tf.nn.relu(tf.maximum(x * 1.01 + 0.5, x) - x)).op, {}, repeats
    case.__name__ = f"5_ops_on_{count}"
    return case


def while_of_1000():
    limit = tf1.placeholder(tf.int32, [])
    _, total = tf1.while_loop(lambda i, t: i < limit, lambda i, t: (i + 1, t + 1.0),
                              [tf.constant(0), tf.constant(0.0)])
    return total, {limit: 1000}, 10


def perceptron_step():
    x = tf1.placeholder(tf.float32, [64, 784])
    y = tf1.placeholder(tf.int32, [64])
    w1 = tf1.get_variable("w1", [784, 128], use_resource=True)
    b1 = tf1.get_variable("b1", [128], initializer=tf1.zeros_initializer(), use_resource=True)
    w2 = tf1.get_variable("w2", [128, 10], use_resource=True)
    b2 = tf1.get_variable("b2", [10], initializer=tf1.zeros_initializer(), use_resource=True)
    logits = tf.matmul(tf.nn.relu(tf.matmul(x, w1) + b1), w2) + b2
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    train = tf1.train.GradientDescentOptimizer(0.01).minimize(loss)
    feeds = {x: np.random.rand(64, 784).astype(np.float32), y: np.arange(64, dtype=np.int32) % 10}
    return train, feeds, 50


CASES = [empty_step, ten_scalars, thousand_nodes, fed(1, 50), fetched(1, 50), fed(8, 10),
         fetched(8, 10), fed(100, 1), fetched(100, 1), chain_of_elements(1000, 100),
         chain_of_elements(1 << 20, 20), chain_of_elements(1 << 22, 5), while_of_1000,
         perceptron_step]


def measure(targets, case):
    """Medians of microseconds a run, for each target."""
    with tf.Graph().as_default():
        tf1.set_random_seed(1)
        fetch, feeds, repeats = case()
        sessions = [tf1.Session(target) for target in targets]
        times = [[] for _ in targets]
        for session in sessions:
            session.run(tf1.global_variables_initializer())
            for _ in range(5):
                session.run(fetch, feeds)
        for round_number in range(ROUNDS):
            order = list(enumerate(sessions))
            for which, session in order if round_number % 2 else reversed(order):
                begin = time.perf_counter()
                for _ in range(repeats):
                    session.run(fetch, feeds)
                times[which].append((time.perf_counter() - begin) / repeats * 1e6)
        for session in sessions:
            session.close()
    return [statistics.median(one) for one in times]


def first_run(targets):
    """Milliseconds of the first run of a graph of 2,000 nodes in a new session."""
    results = [[] for _ in targets]
    for _ in range(3):
        with tf.Graph().as_default() as graph:
            x = tf1.placeholder(tf.float32, [])
            y = x
            for i in range(1000):
                y = tf.identity(y) + float(i)
            for which, target in enumerate(targets):
                with tf1.Session(target, graph=graph) as session:
                    begin = time.perf_counter()
                    session.run(y, {x: 1.0})
                    results[which].append((time.perf_counter() - begin) * 1e3)
    return [statistics.median(one) for one in results]


def report(build, name, unit, theirs, ours):
    print(f"{name + ', ' + unit:28}{theirs:12.1f}{ours:12.1f}{theirs / ours:8.2f}", flush=True)
    results.add(build, f"session: {name}", unit, ours, theirs)


def main():
    build = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build"
    begin = time.perf_counter()
    ours, our_target = start([str(build / "downpour"), "serve", "--port", "0", "--log", "error"])
    our_start = time.perf_counter() - begin
    begin = time.perf_counter()
    theirs, their_target = start([sys.executable, "-c", GENUINE])
    their_start = time.perf_counter() - begin
    print(f"{'':28}{'TensorFlow':>12}{'Downpour':>12}{'ratio':>8}")
    report(build, "start to listening", "ms", their_start * 1e3, our_start * 1e3)
    report(build, "memory at rest", "MiB", resident_kib(theirs) / 1024, resident_kib(ours) / 1024)
    targets = [their_target, our_target]
    try:
        report(build, "first run of 2000 nodes", "ms", *first_run(targets))
        for case in CASES:
            report(build, case.__name__.replace("_", " "), "us", *measure(targets, case))
    finally:
        ours.terminate()
        theirs.kill()
        ours.wait()
        theirs.wait()


if __name__ == "__main__":
    main()
