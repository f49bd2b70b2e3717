"""One task of ours and one of genuine TensorFlow's, side by side: what holds on theirs must hold on
ours. A test that takes `target` runs on both; one that takes `server` runs on ours alone."""

import os
import pathlib
import re
import signal
import subprocess
import threading
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import pytest
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("DOWNPOUR_BUILD", ROOT / "build"))


PATIENCE = 60  # seconds: far more than anything here takes


def wait_until(condition, what):
    """Waits for a state that only shows from outside."""
    limit = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < limit, f"not within {PATIENCE} s: {what}"
        time.sleep(0.02)


def announced(make):
    """(what make() adds to the graph, an op that ends when a step has begun with it)"""
    begun = tf1.FIFOQueue(1, [tf.bool], [[]])
    with tf.control_dependencies([begun.enqueue([True])]):
        made = make()
    return made, begun.dequeue()


class Server:
    """A `downpour serve` process of the test's own."""

    def __init__(self, *arguments, environment=None):
        command = [str(BUILD / "downpour"), "serve", *arguments]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **(environment or {})})
        self.errors = []
        self.reader = threading.Thread(target=self._drain, daemon=True)
        self.reader.start()
        line = self.process.stdout.readline()
        match = re.search(r"Started server with target: (grpc://\S+)", line)
        if not match:
            self.process.wait(PATIENCE)
            raise AssertionError(f"no start line but {line!r}; stderr: {self.log()}")
        self.target = match.group(1)

    def _drain(self):
        for line in self.process.stderr:
            self.errors.append(line)

    def log(self):
        """All that it said; when it has ended."""
        self.reader.join(PATIENCE)
        return "".join(self.errors)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError("the server did not stop on SIGTERM; stderr: " + self.log())
        assert code == 0, f"the server ended with {code}; stderr: {self.log()}"


@pytest.fixture(scope="session")
def server():
    started = Server("--port", "0")
    yield started
    started.stop()


@pytest.fixture(scope="session")
def genuine():
    return tf1.train.Server({"local": ["localhost:0"]}, job_name="local", task_index=0)


@pytest.fixture(params=["tensorflow", "downpour"])
def target(request):
    if request.param == "tensorflow":
        return request.getfixturevalue("genuine").target
    return request.getfixturevalue("server").target


@pytest.fixture(autouse=True)
def graph():
    """A fresh default graph for each test."""
    with tf.Graph().as_default() as fresh:
        yield fresh


@pytest.fixture
def session(target):
    with tf1.Session(target) as opened:
        yield opened


@pytest.fixture
def clean(target):
    """Containers are shared by all sessions of a server: empty ones before and after."""
    tf1.Session.reset(target)
    yield target
    tf1.Session.reset(target)
