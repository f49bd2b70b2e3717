"""Tests of clusters: fixtures around clusters.py, which is a folder up."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import pytest

from clusters import Cluster, Genuine, tf


@pytest.fixture
def cluster():
    """Makes clusters that end with the test."""
    made = []

    def make(sizes, makes):
        made.append(Cluster(sizes, makes))
        return made[-1]
    yield make
    for one in made:
        one.stop()


@pytest.fixture
def script():
    """Starts scripts of genuine TensorFlow that end with the test."""
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
