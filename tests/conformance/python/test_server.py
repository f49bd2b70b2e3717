"""downpour.Server in place of tf.distribute.Server: a TensorFlow 1 script with that line changed
trains as it did, and the class keeps the original's manners."""
import os
import pathlib
import re
import subprocess
import sys
import threading

import pytest
import tensorflow as tf

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
BUILD = pathlib.Path(os.environ.get("DOWNPOUR_BUILD", ROOT / "build"))
os.environ["DOWNPOUR_LIBRARY"] = str(BUILD / "libdownpour.so")
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests")]
import downpour  # noqa: E402
from ports import free_port  # noqa: E402

tf1 = tf.compat.v1
tf1.disable_eager_execution()
OURS = ("server = tf.distribute.Server(", "import downpour; server = downpour.Server(")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "TF_CPP_MIN_LOG_LEVEL": "3",
               "CUDA_VISIBLE_DEVICES": ""}


def free_address():
    return f"localhost:{free_port()}"


def start(script, job, addresses):
    return subprocess.Popen([sys.executable, script, job, *addresses], env=ENVIRONMENT, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def train(script):
    """Losses by step, as the worker prints them."""
    addresses = [free_address(), free_address()]
    ps, worker = start(script, "ps", addresses), start(script, "worker", addresses)
    try:
        output, errors = worker.communicate(timeout=400)
        assert worker.returncode == 0, errors
    finally:
        for process in (ps, worker):
            process.kill()
            process.communicate()
    return re.findall(r"step (\d+) loss (\S+)", output)


def test_one_line_changes(tmp_path):
    script = (HERE / "train_v1.py").read_text()
    assert script.count(OURS[0]) == 1
    changed = tmp_path / "train_changed.py"
    changed.write_text(script.replace(*OURS))
    ours = train(changed)
    assert len(ours) == 40
    theirs = train(HERE / "train_v1.py")
    assert [step for step, _ in ours] == [step for step, _ in theirs]
    for (_, mine), (_, other) in zip(ours, theirs):
        assert float(mine) == pytest.approx(float(other), rel=1e-4, abs=1e-5)


def test_in_process():
    server = downpour.Server.create_local_server(config=tf1.ConfigProto(device_count={"CPU": 2}))
    assert server.target.startswith("grpc://localhost:")
    with tf1.Graph().as_default(), tf1.Session(server.target) as session:
        assert session.run(tf.constant(2) * 21) == 42
        assert len([d for d in session.list_devices() if d.device_type == "CPU"]) == 2
    joiner = threading.Thread(target=server.join, daemon=True)
    joiner.start()
    server.stop()
    joiner.join(60)
    assert not joiner.is_alive()
    with pytest.raises(downpour.ServerError, match="stopped"):
        server.start()


def test_forms_of_a_cluster():
    address = free_address()
    for cluster in ({"worker": {3: address}}, tf.train.ClusterSpec({"worker": {3: address}}),
                    tf.train.ClusterSpec({"worker": {3: address}}).as_cluster_def()):
        server = downpour.Server(cluster, job_name="worker", task_index=3, start=False)
        assert server.target == "grpc://" + address
        del server
    whole = tf.train.ServerDef(cluster=tf.train.ClusterSpec({"ps": [address]}).as_cluster_def(),
                               job_name="ps", task_index=0, protocol="grpc")
    assert downpour.Server(whole, start=False).target == "grpc://" + address


def test_mistakes():
    with pytest.raises(downpour.ServerError, match='no job "worker"'):
        downpour.Server({"ps": ["localhost:0"]}, job_name="worker", task_index=0)
    with pytest.raises(downpour.ServerError, match="no task 2"):
        downpour.Server({"ps": ["localhost:0"]}, job_name="ps", task_index=2)
    with pytest.raises(downpour.ServerError, match="protocol"):
        downpour.Server({"ps": ["localhost:0"]}, protocol="carrier-pigeon")
    with pytest.raises(ValueError, match="job_name"):
        downpour.Server({"ps": ["localhost:0"], "worker": ["localhost:0"]})
    with pytest.raises(TypeError, match="list of addresses"):
        downpour.Server({"ps": "localhost:0"}, job_name="ps", task_index=0)
