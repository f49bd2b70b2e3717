"""Events files that the summary writers make hold what genuine TensorFlow's hold."""
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import runner  # noqa: E402
import tensorflow as tf  # noqa: E402
from pictures import show_pixels  # noqa: E402
from test_checkpoint_files import run_both  # noqa: E402

tf1 = tf.compat.v1
R = tf.raw_ops


def read_events(folder):
    """All events without what differs between runs."""
    files = sorted(folder.glob("*.tfevents.*"))
    assert len(files) == 1 and files[0].name.endswith(".suffix"), files
    found = []
    for record in tf1.python_io.tf_record_iterator(str(files[0])):
        event = tf1.Event.FromString(record)
        assert event.wall_time > 1e9
        event.wall_time = 0
        event.ClearField("source_metadata")
        show_pixels(event.summary)
        found.append(event)
    return found


def test_writer(tmp_path):
    summary = tf1.Summary(value=[tf1.Summary.Value(tag="raw", simple_value=2)])

    def build(folder):
        writer = R.SummaryWriter(shared_name="w", container="")
        image = np.linspace(0, 1, 2 * 9 * 8 * 3).reshape(2, 9, 8, 3)
        return [
            R.CreateSummaryFileWriter(writer=writer, logdir=folder + "/logs", max_queue=3,
                                      flush_millis=100000, filename_suffix=".suffix"),
            R.WriteScalarSummary(writer=writer, step=np.int64(1), tag="s", value=1.5),
            R.WriteHistogramSummary(writer=writer, step=np.int64(2), tag="h", values=[1.0, -2, 2.5]),
            R.WriteImageSummary(writer=writer, step=np.int64(3), tag="i", max_images=2,
                                tensor=np.float32(image), bad_color=np.uint8([255, 0, 0, 255])),
            R.WriteAudioSummary(writer=writer, step=np.int64(4), tag="a", sample_rate=8000.0,
                                tensor=np.float32(np.sin(np.arange(40))).reshape(2, 20)),
            R.WriteSummary(writer=writer, step=np.int64(5), tensor=["x", "y"], tag="t",
                           summary_metadata=""),
            R.WriteRawProtoSummary(writer=writer, step=np.int64(6),
                                   tensor=[summary.SerializeToString()] * 2),
            R.WriteGraphSummary(writer=writer, step=np.int64(7),
                                tensor=tf1.GraphDef().SerializeToString()),
            R.ImportEvent(writer=writer, event=tf1.Event(step=8, wall_time=2e9)
                          .SerializeToString()),
            R.CloseSummaryWriter(writer=writer),
        ]
    run_both(build, tmp_path)
    assert read_events(tmp_path / "genuine" / "logs") == read_events(tmp_path / "ours" / "logs")
