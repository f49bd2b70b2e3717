"""Tensors that stay in a session: one step keeps a tensor (GetSessionHandle), later steps use it by
its handle (GetSessionTensor) and delete it (DeleteSessionTensor).

Genuine TensorFlow supports them only in sessions in the client's own process. So a session on our
server is compared with such a session."""

import gc
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

from conftest import Server, tf1


@pytest.fixture(params=["tensorflow", "downpour"])
def keeping(request):
    """A session that can keep tensors: TensorFlow's in this process, or ours on a server."""
    target = "" if request.param == "tensorflow" else request.getfixturevalue("server").target
    with tf1.Session(target) as opened:
        yield opened


def keep(session, value):
    return session.run(tf1.get_session_handle(tf.constant(value)))


def read(session, handle, dtype):
    holder, tensor = tf1.get_session_tensor(handle, dtype)
    return session.run(tensor, {holder: handle})


def test_a_handle_names_node_number_and_device(keeping):
    product = tf.multiply(tf.constant(6.), 7.)
    fetch = tf1.get_session_handle(product, name="kept")
    assert fetch.op.type == "GetSessionHandle"
    first, second = keeping.run(fetch), keeping.run(fetch)
    for number, handle in enumerate((first, second)):
        node, count, device = handle.handle.split(";")
        assert (node, int(count)) == ("kept", number)
        assert device.endswith("/replica:0/task:0/device:CPU:0")
    assert first.eval() == second.eval() == 42.


@pytest.mark.parametrize("value", [
    np.arange(6, dtype=np.float32).reshape(2, 3), np.array([], np.int64), np.array(True),
    np.array([b"a", b"text that is longer than twenty-two bytes"], object),
    np.array([1 + 2j], np.complex64), np.float16(0.5), np.arange(300000, dtype=np.int16)],
    ids=["matrix", "empty", "bool", "strings", "complex", "half", "large"])
def test_values(keeping, value):
    handle = keep(keeping, value)
    np.testing.assert_array_equal(handle.eval(), value)
    dtype = tf.as_dtype(tf.constant(value).dtype)
    np.testing.assert_array_equal(read(keeping, handle.handle, dtype), value)


def test_a_tensor_is_used_by_later_steps(keeping):
    total = keep(keeping, np.float32(1))
    holder, before = tf1.get_session_tensor(total.handle, tf.float32)
    assert before.op.type == "GetSessionTensor"
    after = tf1.get_session_handle(before * 2.)
    for _ in range(10):
        total = keeping.run(after, {holder: total.handle})
    assert total.eval() == 1024.


def test_a_handle_is_fed_in_place_of_its_tensor(keeping):
    handle = keep(keeping, np.arange(3, dtype=np.float32))
    place = tf1.placeholder(tf.float32, [None])
    np.testing.assert_array_equal(keeping.run(place + 1., {place: handle}), [1., 2., 3.])
    np.testing.assert_array_equal(keeping.run([place, place * 2.], {place: handle})[1], [0., 2., 4.])


def test_a_kept_variable_does_not_change(keeping):
    variable = tf1.get_variable("v", [], tf.float32, tf1.ones_initializer(), use_resource=True)
    keeping.run(variable.initializer)
    handle = keeping.run(tf1.get_session_handle(variable.read_value()))
    keeping.run(variable.assign_add(5.))
    assert handle.eval() == 1.
    keeping.run(tf1.assign_add(variable, 1.))
    assert handle.eval() == 1.


def test_a_deleted_tensor_is_gone(keeping):
    handle = keep(keeping, [1, 2])
    name = handle.handle
    handle.delete()
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match="The tensor with handle '.*' is not in the session store."):
        read(keeping, name, tf.int32)
    holder, deleter = tf1.delete_session_tensor(name)
    assert deleter.type == "DeleteSessionTensor"
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match="Failed to delete a tensor with handle '.*' in the session store."):
        keeping.run(deleter, {holder: name})


def test_dead_handles_are_deleted(keeping):
    fetch = tf1.get_session_handle(tf.constant(3))
    names = []
    for _ in range(20):
        names.append(keeping.run(fetch).handle)
        gc.collect()
    holder, tensor = tf1.get_session_tensor(names[0], tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not in the session store"):
        keeping.run(tensor, {holder: names[0]})


def test_what_is_not_fetched_is_not_kept(keeping):
    fetch = tf1.get_session_handle(tf.constant(3), name="unseen")
    keeping.run(fetch.op)
    later = keeping.run(fetch)
    name = later.handle.replace(";1;", ";0;")
    assert name != later.handle
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not in the session store"):
        read(keeping, name, tf.int32)


def test_a_failed_step_keeps_nothing(keeping):
    fetch = tf1.get_session_handle(tf.constant(3), name="failing")
    with tf.control_dependencies([fetch]):
        failure = tf1.Print(tf.linalg.inv([[0.]]), [])
    with pytest.raises(tf.errors.InvalidArgumentError):
        keeping.run([fetch, failure])
    name = keeping.run(fetch).handle.replace(";1;", ";0;")
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not in the session store"):
        read(keeping, name, tf.int32)


def test_a_resource_handle(keeping):
    """GetSessionHandleV2 gives a resource. Its tensor is found by the text of the handle."""
    kept = tf1.raw_ops.GetSessionHandleV2(value=tf.constant([5., 6.]), name="second")
    assert kept.dtype == tf.resource and kept.shape == []
    keeping.run(kept).get_raw_handle()
    device = keep(keeping, 1).handle.split(";")[-1]
    np.testing.assert_array_equal(read(keeping, "second;0;" + device, tf.float32), [5., 6.])


def test_sessions_do_not_see_each_other(keeping):
    handle = keep(keeping, 1)
    with tf1.Session(keeping.sess_str) as other:
        with pytest.raises(tf.errors.InvalidArgumentError, match="is not in the session store"):
            read(other, handle.handle, tf.int32)


def resident(process):
    with open(f"/proc/{process.pid}/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


KEEPING_CLIENT = """
import sys, time
import tensorflow as tf
tf1 = tf.compat.v1
tf1.disable_eager_execution()
session = tf1.Session(sys.argv[1])
session.run(tf1.get_session_handle(tf.zeros([1 << 26], tf.float32) + 1.))
print("kept", flush=True)
if sys.argv[2] == "close":
    session.close()
else:
    session.run(tf1.FIFOQueue(1, tf.int32, name="never").dequeue())
"""


@pytest.mark.parametrize("end", ["close", "die"])
def test_memory_goes_with_the_session(end):
    """A session keeps 256 MiB. Closing it frees them, and so does the death of the client in a step."""
    server = Server("--port", "0", "--session-lost", "1s")
    try:
        client = subprocess.Popen([sys.executable, "-c", KEEPING_CLIENT, server.target, end],
                                  stdout=subprocess.PIPE, text=True)
        assert client.stdout.readline() == "kept\n"
        if end == "die":
            assert resident(server.process) > 1 << 28
            time.sleep(0.5)
            client.send_signal(signal.SIGKILL)
        client.wait(60)
        deadline = time.monotonic() + 60
        while resident(server.process) > 1 << 27 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert resident(server.process) < 1 << 27
    finally:
        server.stop()
