#!/usr/bin/env python3
"""Peak memory of a step: the same client and graphs against TensorFlow's server and ours.

usage: bench/session/memory.py [BUILD_DIR] [CASE...]      (with a python that has TensorFlow)

Each case has a fresh server of each kind. Variables are made first; then the kernel's mark of the
server's largest resident size is reset and the step runs a few times. What is printed is how far
the mark rose above the memory at rest (before the variables), and above what was resident before
the steps; a ratio is ours divided by theirs (below 1: ours takes less). The figures go to
BUILD_DIR/bench/results.json too, where a ratio is the other way round, as everywhere in that file.
"""

import os
import pathlib
import re
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import tensorflow as tf
from session import GENUINE, ROOT, results, start

tf1 = tf.compat.v1
tf1.disable_eager_execution()

STEPS = 3


def status_mib(process, field):
    text = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(rf"{field}:\s+(\d+)", text).group(1)) / 1024


def variable(name, shape):
    return tf1.get_variable(name, shape, initializer=tf1.random_uniform_initializer(-0.1, 0.1),
                            use_resource=True)


def perceptron_of_4096():
    x = tf.random.uniform([256, 4096])
    for layer in range(2):
        x = tf.nn.relu(tf.matmul(x, variable(f"w{layer}", [4096, 4096])))
    loss = tf.reduce_mean(tf.square(x))
    return tf1.train.GradientDescentOptimizer(0.1).minimize(loss)


def chain_of_64_MiB():
    x = y = variable("v", [16 << 20]).read_value()
    for _ in range(10):
        y = tf.nn.relu(tf.tanh(y * 0.9) + 0.1)
    return tf.reduce_sum(y - x).op


def chain_of_64_MiB_with_gradients():
    v = variable("v", [16 << 20])
    y = v.read_value()
    for _ in range(3):
        y = tf.tanh(y * 0.9)
    return tf1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(y))


def convolutions():
    x = tf.random.uniform([16, 64, 64, 16])
    for layer in range(3):
        x = tf.nn.relu(tf.nn.conv2d(x, variable(f"k{layer}", [3, 3, 16, 16]), 1, "SAME"))
    return tf1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(tf.square(x)))


CASES = [perceptron_of_4096, chain_of_64_MiB, chain_of_64_MiB_with_gradients, convolutions]


def measure(command, case):
    """MiB above rest, and above what was resident before the steps."""
    process, target = start(command)
    try:
        with tf.Graph().as_default():
            tf1.set_random_seed(1)
            step = case()
            with tf1.Session(target) as session:
                session.run(tf.constant(0))
                rest = status_mib(process, "VmRSS")
                session.run(tf1.global_variables_initializer())
                before = status_mib(process, "VmRSS")
                pathlib.Path(f"/proc/{process.pid}/clear_refs").write_text("5")
                for _ in range(STEPS):
                    session.run(step)
                peak = status_mib(process, "VmHWM")
        return peak - rest, peak - before
    finally:
        process.kill()
        process.wait()


def main():
    build = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build"
    wanted = sys.argv[2:]
    ours = [str(build / "downpour"), "serve", "--port", "0", "--log", "error"]
    theirs = [sys.executable, "-c", GENUINE]
    print(f"{'peak of a step, MiB':44}{'theirs':>9}{'ours':>9}{'ratio':>8}")
    for case in CASES:
        if wanted and case.__name__ not in wanted:
            continue
        name = case.__name__.replace("_", " ")
        both = measure(theirs, case), measure(ours, case)
        for i, what in enumerate(["above rest", "of the step"]):
            their, our = both[0][i], both[1][i]
            print(f"{name if i == 0 else '':32}{what:>12}{their:9.0f}{our:9.0f}"
                  f"{our / max(their, 1):8.2f}", flush=True)
            results.add(build, f"memory: {name}, {what}", "MiB", our, their)


if __name__ == "__main__":
    main()
