"""The first scripts of the seed documents: a greeting, the list of devices, a graph that grows between
runs. Also how a server starts and stops."""

import os
import pathlib
import subprocess
import sys

import tensorflow as tf

from conftest import BUILD, PATIENCE, Server, tf1


def test_hello_string(session):
    hello = tf.constant("Hello, distributed tensorflow.")
    assert session.run(hello) == b"Hello, distributed tensorflow."


def test_hello_on_a_named_device(target):
    with tf.device("/job:local/task:0"):
        hello = tf.constant("Hello")
    with tf1.Session(target, config=tf1.ConfigProto(log_device_placement=True)) as session:
        assert session.run(hello) == b"Hello"


def test_list_devices(session):
    devices = session.list_devices()
    assert [device.name for device in devices] == ["/job:local/replica:0/task:0/device:CPU:0"]
    assert devices[0].device_type == "CPU"
    assert devices[0].incarnation != 0


def test_second_session_sees_the_graph(target):
    with tf1.Session(target) as first, tf1.Session(target) as second:
        number = tf.constant(3) + 4
        assert first.run(number) == 7
        assert second.run(number) == 7


def test_graph_grows_between_runs(session):
    a = tf.constant(2.0)
    assert session.run(a) == 2.0
    b = a * 3.0
    assert session.run(b) == 6.0
    c = b + a
    assert session.run([a, b, c]) == [2.0, 6.0, 8.0]


def test_starts_and_stops_quickly():
    """Measured in processor time, because waiting for a processor is not the server's doing."""
    started = Server("--port", "0")
    fields = pathlib.Path(f"/proc/{started.process.pid}/stat").read_text().rpartition(")")[2].split()
    assert (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") < 1.0
    started.stop()


def test_port_in_use_is_one_clear_line(server):
    port = server.target.rsplit(":", 1)[1]
    result = subprocess.run([str(BUILD / "downpour"), "serve", "--port", port],
                            capture_output=True, text=True, timeout=PATIENCE)
    assert result.returncode == 1
    assert port in result.stderr
    assert result.stderr.count("\n") == 1


EAGER = """
import sys
import tensorflow as tf
tf.config.experimental_connect_to_host(sys.argv[1], job_name="local")
with tf.device("/job:local/task:0"):
    print(tf.constant(1) + 1)
"""


def test_a_tensorflow_2_client_is_told_what_to_use(server):
    """Its first call that is not TensorFlow 1's: the client logs that, and fails with the same text."""
    result = subprocess.run([sys.executable, "-c", EAGER, server.target.removeprefix("grpc://")],
                            capture_output=True, text=True, timeout=PATIENCE,
                            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "1"})
    assert result.returncode != 0
    first = next(line for line in result.stderr.splitlines() if "eager calls" in line)
    assert "speaks TensorFlow 1 sessions" in first and "(CreateContext)" in first
    assert "use tf.compat.v1.Session" in first
    assert "UnimplementedError" in result.stderr
