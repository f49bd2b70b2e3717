"""RunMetadata: step statistics, which TensorFlow's own timeline must be able to draw, and partition
graphs."""

import json

import pytest
import tensorflow as tf
from tensorflow.python.client import timeline

from conftest import tf1


def traced(session, fetch, **options):
    metadata = tf1.RunMetadata()
    session.run(fetch, options=tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE, **options),
                run_metadata=metadata)
    return metadata


def test_step_stats(session):
    a = tf.random.uniform([50, 50], name="first")
    b = tf.matmul(a, a, name="second")
    metadata = traced(session, b)
    names = [node.node_name for device in metadata.step_stats.dev_stats
             for node in device.node_stats]
    assert any(name.startswith("second") for name in names)
    for device in metadata.step_stats.dev_stats:
        for node in device.node_stats:
            assert node.all_start_micros > 0
            assert node.all_end_rel_micros >= 0


@pytest.mark.parametrize("level", ["NO_TRACE", "SOFTWARE_TRACE", "HARDWARE_TRACE"])
def test_only_a_full_trace_has_statistics(session, level):
    metadata = tf1.RunMetadata()
    session.run(tf.constant(1) + 1, run_metadata=metadata,
                options=tf1.RunOptions(trace_level=tf1.RunOptions.TraceLevel.Value(level)))
    assert len(metadata.step_stats.dev_stats) == 0


def test_timeline_draws_it(session):
    a = tf.random.uniform([50, 50])
    metadata = traced(session, tf.matmul(a, a, name="product"))
    trace = json.loads(timeline.Timeline(metadata.step_stats).generate_chrome_trace_format())
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert any(event["args"].get("name") == "product" for event in events)


def test_partition_graphs(session):
    a = tf1.placeholder(tf.float32, [], name="fed")
    metadata = tf1.RunMetadata()
    session.run(a + 1.0, {a: 1.0}, options=tf1.RunOptions(output_partition_graphs=True),
                run_metadata=metadata)
    assert len(metadata.partition_graphs) >= 1
    names = [node.name for graph in metadata.partition_graphs for node in graph.node]
    assert any("fed" in name for name in names)


def test_without_options_there_is_no_metadata(session):
    metadata = tf1.RunMetadata()
    session.run(tf.constant(1), run_metadata=metadata)
    assert len(metadata.step_stats.dev_stats) == 0
