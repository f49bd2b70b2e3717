"""A cluster of ours and one of genuine tasks: two parameter servers and two workers with two
devices each. The client is at the first worker."""

import json
import os
import pathlib
import signal
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import pytest
import tensorflow as tf

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from ports import free_ports  # noqa: E402

tf1 = tf.compat.v1
tf1.disable_eager_execution()

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("DOWNPOUR_BUILD", ROOT / "build"))
SIZES = {"ps": 2, "worker": 2}


def cluster_spec():
    ports = iter(free_ports(sum(SIZES.values())))
    return {job: [f"localhost:{next(ports)}" for _ in range(size)] for job, size in SIZES.items()}


@pytest.fixture(scope="module")
def ours():
    spec, tasks = cluster_spec(), []
    for job, addresses in spec.items():
        for index in range(len(addresses)):
            tasks.append(subprocess.Popen(
                [str(BUILD / "downpour"), "serve", "--cluster", json.dumps(spec), "--job", job,
                 "--task", str(index), "--cpu-devices", "2", "--log", "error"],
                stdout=subprocess.PIPE, text=True))
    for task in tasks:
        assert "Started server" in task.stdout.readline()
    yield "grpc://" + spec["worker"][0]
    for task in tasks:
        task.send_signal(signal.SIGTERM)
    assert [task.wait(60) for task in tasks] == [0] * len(tasks)


@pytest.fixture(scope="module")
def genuine():
    spec = cluster_spec()
    config = tf1.ConfigProto(device_count={"CPU": 2})
    servers = [tf1.train.Server(spec, job_name=job, task_index=index, config=config)
               for job, addresses in spec.items() for index in range(len(addresses))]
    yield servers[-2].target
