"""Fixtures for the tests of clusters, around tests/conformance/clusters.py."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import pytest

from clusters import Cluster, Genuine, tf


@pytest.fixture
def cluster():
    """Starts clusters; they are stopped at the end of the test."""
    made = []

    def make(sizes, makes):
        made.append(Cluster(sizes, makes))
        return made[-1]
    yield make
    for one in made:
        one.stop()


@pytest.fixture
def script():
    """Starts scripts of genuine TensorFlow; they are killed at the end of the test."""
    started = []

    def start(function, *arguments):
        started.append(Genuine(function, *arguments))
        return started[-1]
    yield start
    for one in started:
        one.kill()


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as fresh:
        yield fresh
