"""Summaries as strings, and the ops that write them to events files."""
import os

import numpy as np
import tensorflow as tf
from pictures import seen
from fixtures import scratch_folder
from runner import Case, bfloat16

R = tf.raw_ops
tf1 = tf.compat.v1
RNG = np.random.RandomState(3)
FOLDER = scratch_folder("summary")
REALS = [np.float32, np.float64, np.float16, bfloat16, np.int8, np.int16, np.int32, np.int64,
         np.uint8, np.uint16, np.uint32, np.uint64]
CASES = []


def strings(*values):
    return np.array(values, object)


for dtype in REALS:
    CASES.append(Case("ScalarSummary", [strings("a", "b"), np.array([1, 3], dtype)]))
    CASES.append(Case("HistogramSummary", [b"h", RNG.randint(0, 100, [7, 9]).astype(dtype)]))
CASES += [
    Case("ScalarSummary", [b"loss", np.float32(0.25)]),
    Case("ScalarSummary", [b"loss", np.float32("nan")]),
    Case("ScalarSummary", [strings("a", "b"), np.float32([[1, 2]])]),
    Case("ScalarSummary", [strings("a"), np.float32(1)]),
    Case("ScalarSummary", [strings(), np.zeros([0], np.float32)]),
    Case("HistogramSummary", [b"h", RNG.normal(size=[1000])]),
    Case("HistogramSummary", [b"h", np.float32([0, -0.0, 1e-30, 1e30, -1e30, 1e-12])]),
    Case("HistogramSummary", [b"h", np.zeros([0], np.float32)]),
    Case("HistogramSummary", [b"h", np.float32([1, np.nan])]),
    Case("HistogramSummary", [b"h", np.float32([1, -np.inf])]),
    Case("HistogramSummary", [strings("a", "b"), np.float32([1])]),
]

# ---- Images and sounds ----
def image_case(*inputs, **attrs):
    CASES.append(Case("ImageSummary", inputs, attrs, seen=seen))


GRADIENT = np.linspace(0, 255, 2 * 17 * 13 * 3).reshape(2, 17, 13, 3)
for channels in (1, 3, 4):
    image_case(b"i", RNG.randint(0, 256, [2, 5, 7, channels]).astype(np.uint8))
for dtype in (np.uint8, np.float32, np.float64, np.float16):
    image_case(b"i", GRADIENT.astype(dtype), max_images=1)
    image_case(b"i", GRADIENT.astype(dtype), max_images=5)
BAD = (GRADIENT - 100).astype(np.float32)
BAD[0, 3, 4, 1] = np.nan
BAD[1, 0, 0, 0] = np.inf
image_case(b"i", BAD)
image_case(b"i", np.zeros([1, 3, 3, 1], np.float32))
image_case(b"i", np.full([1, 1, 9, 1], 7, np.float32))
image_case(b"i", np.full([1, 9, 1, 3], -7, np.float64))
image_case(b"i", np.zeros([1, 3, 3, 2], np.float32))
image_case(b"i", np.zeros([3, 3, 1], np.float32))
image_case(b"i", np.zeros([1, 0, 3, 1], np.float32))
image_case(strings("a", "b"), np.zeros([1, 3, 3, 1], np.float32))
image_case(b"i", RNG.randint(0, 256, [1, 200, 300, 3]).astype(np.uint8))
image_case(b"i", np.uint8(GRADIENT.repeat(20, 1).repeat(20, 2)))
WAVE = np.sin(np.arange(60)).reshape(2, 15, 2).astype(np.float32) * 1.2
for rate in (8000.0, 0.2, 0.0):
    CASES.append(Case("AudioSummaryV2", [b"a", WAVE, np.float32(rate)]))
CASES += [
    Case("AudioSummaryV2", [b"a", WAVE[:, :, 0], np.float32(44100)], {"max_outputs": 1}),
    Case("AudioSummaryV2", [b"a", WAVE[0, :, 0], np.float32(44100)]),
    Case("AudioSummaryV2", [b"a", np.zeros([1, 0], np.float32), np.float32(44100)]),
]
for rate in (8000.0, 0.2, 0.0, -1.0):
    CASES.append(Case("AudioSummary", [b"a", WAVE], {"sample_rate": rate}))
for count in (1, 2, 5):
    CASES.append(Case("AudioSummary", [b"a", WAVE[:, :, 0]],
                      {"sample_rate": 44100.0, "max_outputs": count}))
CASES += [
    Case("AudioSummary", [b"a", WAVE[0, :, 0]], {"sample_rate": 44100.0}),
    Case("AudioSummary", [strings("a", "b"), WAVE], {"sample_rate": 44100.0}),
    Case("AudioSummary", [b"a", np.zeros([1, 0], np.float32)], {"sample_rate": 44100.0}),
    Case("AudioSummary", [b"", np.zeros([0, 3], np.float32)], {"sample_rate": 44100.0}),
]

# ---- Tensors and merging ----
METADATA = tf1.SummaryMetadata(display_name="d", plugin_data=tf1.SummaryMetadata.PluginData(
    plugin_name="p", content=b"\x01\x02")).SerializeToString()
for value in (np.float32([[1, 2], [3, 4]]), strings("x", "yy"), np.int8(3),
              np.zeros([0, 2], np.int64), np.array([True, False])):
    CASES.append(Case("TensorSummaryV2", [b"t", value, METADATA]))
    CASES.append(Case("TensorSummaryV2", [b"t", value, b""]))
    CASES.append(Case("TensorSummary", [value]))


def summary(tag, value):
    return tf1.Summary(value=[tf1.Summary.Value(tag=tag, simple_value=value)]).SerializeToString()


CASES += [
    Case("MergeSummary", [[summary("a", 1), summary("b", 2)]]),
    Case("MergeSummary", [[strings(summary("a", 1), summary("c", 3)), summary("b", 2)]]),
    Case("MergeSummary", [[summary("a", 1), summary("a", 2)]]),
    Case("MergeSummary", [[summary("", 1), summary("", 2)]]),
    Case("MergeSummary", [[b"nonsense"]]),
    Case("MergeSummary", [[b""]]),
]


# ---- Writers: the files themselves are compared by test_events_files.py ----
COUNT = [0]


def writer_case(op, name, write):
    COUNT[0] += 1
    folder, shared = os.path.join(FOLDER, f"w{COUNT[0]}", "deep"), f"writer{COUNT[0]}"

    def build():
        handle = R.SummaryWriter(shared_name=shared, container="")
        start = R.CreateSummaryFileWriter(writer=handle, logdir=folder, max_queue=10,
                                          flush_millis=100000, filename_suffix=".v2")
        return {}, [[write(handle)], [start], [start], [write(handle)],
                    [R.FlushSummaryWriter(writer=handle)], [R.CloseSummaryWriter(writer=handle)],
                    [R.CloseSummaryWriter(writer=handle)]]
    CASES.append(Case(op, build=build, name=f"{op} {name}"))


STEP = np.int64(7)
writer_case("WriteScalarSummary", "number", lambda h: R.WriteScalarSummary(
    writer=h, step=STEP, tag="s", value=1.5))
writer_case("WriteHistogramSummary", "good", lambda h: R.WriteHistogramSummary(
    writer=h, step=STEP, tag="h", values=[1.0, 2.0, 2.5]))
writer_case("WriteHistogramSummary", "bad", lambda h: R.WriteHistogramSummary(
    writer=h, step=STEP, tag="h", values=[1.0, np.nan]))
writer_case("WriteImageSummary", "good", lambda h: R.WriteImageSummary(
    writer=h, step=STEP, tag="i", max_images=2, tensor=np.float32(GRADIENT),
    bad_color=np.uint8([255, 0, 0, 255])))
writer_case("WriteAudioSummary", "good", lambda h: R.WriteAudioSummary(
    writer=h, step=STEP, tag="a", tensor=WAVE, sample_rate=8000.0))
writer_case("WriteSummary", "good", lambda h: R.WriteSummary(
    writer=h, step=STEP, tensor=[1, 2], tag="t", summary_metadata=METADATA))
writer_case("WriteRawProtoSummary", "good", lambda h: R.WriteRawProtoSummary(
    writer=h, step=STEP, tensor=[summary("a", 1), summary("b", 2)]))
writer_case("WriteRawProtoSummary", "bad", lambda h: R.WriteRawProtoSummary(
    writer=h, step=STEP, tensor=["nonsense"]))
writer_case("WriteGraphSummary", "good", lambda h: R.WriteGraphSummary(
    writer=h, step=STEP, tensor=tf1.GraphDef().SerializeToString()))
writer_case("WriteGraphSummary", "bad", lambda h: R.WriteGraphSummary(
    writer=h, step=STEP, tensor="nonsense"))
writer_case("ImportEvent", "good", lambda h: R.ImportEvent(
    writer=h, event=tf1.Event(step=3).SerializeToString()))
