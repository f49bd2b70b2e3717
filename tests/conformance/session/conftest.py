"""One server of ours and one of genuine TensorFlow, side by side: what holds on the genuine server
must hold on ours. A test that takes `target` runs on both, a test that takes `server` on ours only."""

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


PATIENCE = 60  # seconds; nothing here takes nearly as long


def wait_until(condition, what):
    """Waits until condition() is true."""
    limit = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < limit, f"not within {PATIENCE} s: {what}"
        time.sleep(0.02)


def announced(make):
    """(what make() returned, an op that ends once a step has begun to run it)"""
    begun = tf1.FIFOQueue(1, [tf.bool], [[]])
    with tf.control_dependencies([begun.enqueue([True])]):
        made = make()
    return made, begun.dequeue()


class Server:
    """A `downpour serve` process for one test. `prefix` is a command that starts it, such as prlimit."""

    def __init__(self, *arguments, environment=None, prefix=()):
        command = [*prefix, str(BUILD / "downpour"), "serve", *arguments]
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
        """All of its standard error. Waits until the process has ended."""
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
    """A new default graph per test."""
    with tf.Graph().as_default() as fresh:
        yield fresh


@pytest.fixture
def session(target):
    with tf1.Session(target) as opened:
        yield opened


@pytest.fixture
def clean(target):
    """Empties the containers, which all sessions of a server share, before and after the test."""
    tf1.Session.reset(target)
    yield target
    tf1.Session.reset(target)
