"""Summaries that our tasks make, through genuine writers and hooks, read by TensorBoard's own code."""

import numpy as np
import pytest

from clusters import tf, tf1
from replicas import between_graph

event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")


def read(folder):
    accumulator = event_accumulator.EventAccumulator(
        str(folder), size_guidance={name: 0 for name in (
            "scalars", "histograms", "images", "audio", "tensors", "compressedHistograms")})
    accumulator.Reload()
    return accumulator


def summaries(x):
    """One of each kind; x is a vector."""
    tf1.summary.scalar("total", tf.reduce_sum(x))
    tf1.summary.histogram("spread", x)
    tf1.summary.image("picture", tf.reshape(tf.tile(x[:1], [48]) / 100.0, [1, 4, 4, 3]))
    tf1.summary.audio("sound", tf.reshape(tf.sin(tf.range(400.0)), [1, 400]), 8000)
    tf1.summary.text("words", tf.strings.as_string(x))
    tf1.summary.tensor_summary("whole", x)
    return tf1.summary.merge_all()


def check(accumulator, steps, vector):
    tags = accumulator.Tags()
    scalars = accumulator.Scalars("total")
    assert [event.step for event in scalars] == steps
    for event in scalars:
        assert event.value == pytest.approx(float(np.sum(vector(event.step))))
    for event in accumulator.Histograms("spread"):
        value = event.histogram_value
        assert value.num == len(vector(event.step)) == sum(value.bucket)
        assert (value.min, value.max) == (vector(event.step).min(), vector(event.step).max())
    picture = accumulator.Images("picture/image/0" if "picture/image/0" in tags["images"]
                                 else "picture/image")[0]
    assert (picture.width, picture.height) == (4, 4)
    with tf.Graph().as_default(), tf1.Session() as session:
        image = session.run(tf.io.decode_png(picture.encoded_image_string))
    assert image.shape == (4, 4, 3)
    sound = accumulator.Audio(tags["audio"][0])[0]
    assert (sound.sample_rate, sound.length_frames) == (8000, 400)
    assert {"words/text_summary", "whole/tensor_summary", "whole"} & set(tags["tensors"])
    words = accumulator.Tensors([tag for tag in tags["tensors"] if "words" in tag][0])[0]
    assert len(words.tensor_proto.string_val) == len(vector(steps[0]))


def test_a_file_writer(fresh, tmp_path):
    def vector(step):
        return np.arange(step + 1, step + 7, dtype=np.float32)
    with tf1.device(between_graph(fresh, 0)):
        x = tf1.placeholder(tf.float32, [6])
        merged = summaries(x)
    with tf1.Session(fresh.target("worker", 0)) as session, \
            tf1.summary.FileWriter(str(tmp_path), session.graph) as writer:
        for step in range(5):
            metadata = tf1.RunMetadata()
            summary = session.run(merged, {x: vector(step)}, run_metadata=metadata,
                                  options=tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE))
            writer.add_run_metadata(metadata, f"step {step}")
            writer.add_summary(summary, step)
    accumulator = read(tmp_path)
    check(accumulator, list(range(5)), vector)
    assert accumulator.Graph().node
    assert accumulator.Tags()["run_metadata"] == [f"step {step}" for step in range(5)]
    assert accumulator.RunMetadata("step 3").step_stats.dev_stats


def test_a_saver_hook(fresh, tmp_path):
    with tf1.device(between_graph(fresh, 0)):
        step = tf1.train.get_or_create_global_step()
        merged = summaries(tf.fill([6], tf.cast(step.read_value(), tf.float32)))
        count = tf1.assign_add(step, 1).op
    hook = tf1.train.SummarySaverHook(save_steps=5, output_dir=str(tmp_path), summary_op=merged)
    with tf1.train.MonitoredTrainingSession(fresh.target("worker", 0), hooks=[hook]) as session:
        for _ in range(12):
            session.run(count)
    totals = read(tmp_path).Scalars("total")
    assert len(totals) == 3
    for event in totals:  # the step is read beside its update
        assert event.value in [6.0 * (event.step - 1), 6.0 * event.step]
