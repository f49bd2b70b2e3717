"""Training on two parameter servers and three workers of ours, driven by genuine TensorFlow, and by
the training library in C next to it."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import pytest

from clusters import Cluster, tf, tf1


@pytest.fixture(scope="module")
def jobs():
    """The cluster of a file's tests."""
    cluster = Cluster({"ps": 2, "worker": 3}, {"ps": "downpour", "worker": "downpour"})
    yield cluster
    cluster.stop()


@pytest.fixture
def fresh(jobs):
    """The same cluster, every task's variables, queues and accumulators gone."""
    tf1.Session.reset(jobs.target("worker", 0))
    return jobs


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made
