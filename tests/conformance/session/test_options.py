"""Options of a server and of a session: what they change about threads, devices and sessions that
are idle."""

import os
import pathlib
import threading

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2

from conftest import PATIENCE, Server, tf1, wait_until


def threads_of(server, name):
    """The number of the server's threads with this name, as in "name/0"."""
    count = 0
    for task in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir():
        try:
            count += (task / "comm").read_text().startswith(name + "/")
        except OSError:  # it has just ended
            pass
    return count


@pytest.fixture
def own_server(request):
    started = Server("--port", "0", *request.param)
    yield started
    started.stop()


def sum_of_ten():
    return tf.add_n([tf.square(float(i) * tf.ones([4])) for i in range(10)])


# ---- Idle sessions ----

@pytest.mark.parametrize("own_server", [["--session-idle", "6s"]], indirect=True)
def test_idle_sessions_are_closed(own_server):
    queue = tf1.FIFOQueue(1, [tf.int32], shapes=[[]], shared_name="kept")
    variable = tf1.get_variable("v", [], tf.int32, initializer=tf1.zeros_initializer())
    add, take = tf1.assign_add(variable, 1), queue.dequeue()
    idle, busy = tf1.Session(own_server.target), tf1.Session(own_server.target)
    idle.run(variable.initializer)
    taken = []
    thread = threading.Thread(target=lambda: taken.append(busy.run(take)))
    thread.start()
    idle.run(add)
    wait_until(lambda: any("closing it" in line for line in own_server.errors),
               "the idle session is closed")
    with pytest.raises(tf.errors.AbortedError):
        idle.run(add)
    with tf1.Session(own_server.target) as fresh:
        assert fresh.run(add) == 2  # the variable belongs to the server and outlives the session
        fresh.run(queue.enqueue(7))
    thread.join(PATIENCE)
    assert taken == [7]  # a session with a running step is not idle
    busy.close()


# ---- Threads ----

@pytest.mark.parametrize("config", [
    {"inter_op_parallelism_threads": 1}, {"intra_op_parallelism_threads": 1},
    {"inter_op_parallelism_threads": 3, "intra_op_parallelism_threads": 2}], ids=str)
def test_parallelism_changes_no_value(target, config):
    total = sum_of_ten()
    with tf1.Session(target, config=tf1.ConfigProto(**config)) as session:
        assert session.run(total).tolist() == [285.0] * 4


@pytest.mark.parametrize("own_server", [["--threads", "3"]], indirect=True)
def test_threads_of_a_server(own_server):
    with tf1.Session(own_server.target) as session:
        assert session.run(sum_of_ten()).tolist() == [285.0] * 4
        assert threads_of(own_server, "compute") == 3


@pytest.mark.parametrize("config, count", [
    (dict(use_per_session_threads=True, inter_op_parallelism_threads=3), 3),
    (dict(session_inter_op_thread_pool=[config_pb2.ThreadPoolOptionProto(num_threads=2)]), 2),
    (dict(inter_op_parallelism_threads=2), 0)], ids=["per session", "pool", "neither"])
def test_threads_of_a_session(server, config, count):
    """On ours only: a genuine server refuses the first two. Ours gives the session its own threads,
    at most one for each core."""
    total = sum_of_ten()
    with tf1.Session(server.target, config=tf1.ConfigProto(**config)) as session:
        assert session.run(total).tolist() == [285.0] * 4
        assert threads_of(server, "session") == min(count, len(os.sched_getaffinity(0)))
    wait_until(lambda: threads_of(server, "session") == 0, "the threads end with their session")


def test_several_pools_are_refused(target):
    pools = [config_pb2.ThreadPoolOptionProto(num_threads=1)] * 2
    config = tf1.ConfigProto(session_inter_op_thread_pool=pools)
    with pytest.raises(tf.errors.InvalidArgumentError, match="session thread pool options"):
        with tf1.Session(target, config=config) as session:
            session.run(tf.constant(1))


# ---- Devices ----

@pytest.mark.parametrize("own_server", [["--cpu-devices", "3"]], indirect=True)
def test_cpu_devices(own_server):
    with tf.device("/cpu:2"):
        there = tf.constant(1.0) + tf.random.uniform([])
    with tf.device("/cpu:3"):
        nowhere = tf.constant(1.0) + tf.random.uniform([])
    with tf1.Session(own_server.target) as session:
        names = sorted(device.name for device in session.list_devices())
        assert names == [f"/job:local/replica:0/task:0/device:CPU:{i}" for i in range(3)]
        metadata = tf1.RunMetadata()
        session.run(there, options=tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE),
                    run_metadata=metadata)
        used = {stats.device for stats in metadata.step_stats.dev_stats}
        assert any(device.endswith("CPU:2") for device in used)
        with pytest.raises(tf.errors.InvalidArgumentError, match="CPU:3"):
            session.run(nowhere)
    soft = tf1.ConfigProto(allow_soft_placement=True)
    with tf1.Session(own_server.target, config=soft) as session:
        assert session.run(nowhere) >= 1.0


def test_device_count_of_a_session(target):
    """A client's device_count does not change the devices of a running server."""
    with tf1.Session(target, config=tf1.ConfigProto(device_count={"CPU": 4})) as session:
        cpus = [device for device in session.list_devices() if device.device_type == "CPU"]
        assert len(cpus) == 1
