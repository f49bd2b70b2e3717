"""downpour.Server in place of tf.distribute.Server: a TensorFlow 1 script in which only that line is
changed gives the same losses. The class takes a cluster in the same forms; mistakes raise clear
errors."""
import gc
import json
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
    """Runs the job and gives the losses that the worker printed, by step."""
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


def test_a_started_server_outlives_its_object():
    server = downpour.Server.create_local_server()
    target = server.target
    del server
    gc.collect()
    with tf1.Graph().as_default():
        with tf1.Session(target, config=tf1.ConfigProto(operation_timeout_in_ms=60000)) as session:
            assert session.run(tf.constant(2) * 21) == 42


def test_a_server_that_is_not_started_goes_with_its_object():
    address = free_address()
    for start in (False, False, True):  # the address is free again each time
        server = downpour.Server({"local": [address]}, start=start)
        if start:
            server.stop()
        del server
        gc.collect()


def test_join_raises_what_the_library_says(monkeypatch):
    server = downpour.Server.create_local_server()
    failure = downpour.ServerError(13, "no join")

    def fail(*_):
        raise failure
    monkeypatch.setattr(downpour, "_checked", fail)
    with pytest.raises(downpour.ServerError, match="no join"):
        server.join()
    monkeypatch.undo()
    server.stop()


@pytest.mark.skipif(not hasattr(tf, "estimator"), reason="this version has no estimators")
def test_train_and_evaluate(tmp_path):
    jobs = {"chief": [free_address()], "ps": [free_address()]}
    processes = {}
    try:
        for job in jobs:
            place = json.dumps({"cluster": jobs, "task": {"type": job, "index": 0}})
            processes[job] = subprocess.Popen(
                [sys.executable, str(HERE / "estimator_v1.py"), str(tmp_path / "model")],
                env={**ENVIRONMENT, "TF_CONFIG": place}, text=True, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE)
        output, errors = processes["chief"].communicate(timeout=400)
        assert processes["chief"].returncode == 0, errors
        assert "trained until 40" in output
        assert processes["ps"].poll() is None
    finally:
        for process in processes.values():
            process.kill()
            process.communicate()


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


def test_what_is_not_given_is_the_only_one():
    ps, worker, second = free_address(), free_address(), free_address()
    only = tf.train.ClusterSpec({"worker": {2: worker}})
    for cluster in (only, only.as_cluster_def(), only.as_dict()):
        assert downpour.Server(cluster, start=False).target == "grpc://" + worker
    several = tf.train.ClusterSpec({"ps": [ps], "worker": [worker, second]})
    for cluster in (several, several.as_cluster_def(), several.as_dict()):
        assert downpour.Server(cluster, job_name="ps", start=False).target == "grpc://" + ps
        for refused in ({}, {"job_name": "worker"}, {"job_name": "chief"}):
            with pytest.raises(ValueError):
                downpour.Server(cluster, start=False, **refused)
            with pytest.raises(ValueError):
                tf.distribute.Server(cluster, start=False, **refused)


def test_arguments_count_more_than_a_server_definition():
    ps, worker = free_address(), free_address()
    cluster = tf.train.ClusterSpec({"ps": [ps], "worker": ["localhost:1", worker]})
    whole = tf.train.ServerDef(cluster=cluster.as_cluster_def(), job_name="worker", task_index=1,
                               protocol="grpc")
    assert downpour.Server(whole, start=False).target == "grpc://" + worker
    changed = downpour.Server(whole, job_name="ps", task_index=0, start=False)
    assert changed.target == "grpc://" + ps
    with pytest.raises(downpour.ServerError, match="protocol"):
        downpour.Server(whole, protocol="carrier-pigeon", start=False)


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
