"""`downpour serve --exit-when-done`: a parameter server ends after the last worker of its job has
ended, and not before."""

import json
import time

import pytest
import tensorflow as tf

from clusters import Genuine, GenuineTask, Task, free_ports, tf1
import genuine

GONE = 2.5  # seconds of silence after which a worker counts as dead


@pytest.fixture
def job():
    """(a parameter server that ends by itself, a function that starts a worker, the worker's target)"""
    ports = free_ports(2)
    spec = {"ps": [f"localhost:{ports[0]}"], "worker": [f"localhost:{ports[1]}"]}
    ps = Task("--cluster", json.dumps(spec), "--job", "ps", "--exit-when-done",
              "--gone", f"{int(GONE * 1000)}ms")
    ps.wait_until_ready()
    workers = []

    def start(make):
        workers.append(Task.of(spec, "worker", 0) if make == "downpour"
                       else GenuineTask(spec, "worker", 0))
        workers[-1].wait_until_ready()
        return workers[-1]
    yield ps, start, "grpc://" + spec["worker"][0]
    for worker in workers:
        worker.kill()
    ps.kill()


def train(target):
    with tf.device("/job:ps/task:0"):
        v = tf1.get_variable("v", initializer=1.0, use_resource=True)
    with tf1.Session(target) as session:
        session.run(v.initializer)
        assert session.run(v.assign_add(1.0)) == 2.0


def stays(ps, seconds=1.5 * GONE):
    time.sleep(seconds)
    return ps.process.poll() is None


@pytest.mark.parametrize("make", ["downpour", "tensorflow"])
def test_it_leaves_when_the_last_worker_has(job, make):
    ps, start, target = job
    assert stays(ps)  # no worker has come yet
    worker = start(make)
    train(target)
    assert stays(ps)  # the session is closed, but the worker is alive
    worker.stop()
    assert ps.process.wait(60) == 0
    assert "the job is done" in ps.log()


def test_it_leaves_although_a_worker_died_with_its_session(job):
    ps, start, target = job
    worker = start("downpour")
    client = Genuine(genuine.open_session, target)
    try:
        client.expect("open")
        worker.kill()
        assert ps.process.wait(60) == 0
    finally:
        client.kill()
    assert "its sessions here are dropped" in ps.log()


def test_a_server_that_is_alone_leaves_after_its_last_session():
    server = Task("--port", "0", "--exit-when-done", "--gone", "500ms")
    server.wait_until_ready()
    assert stays(server, 1)
    with tf1.Session(server.target) as session:
        assert session.run(tf.constant(1)) == 1
        assert stays(server, 1)
    assert server.process.wait(60) == 0
