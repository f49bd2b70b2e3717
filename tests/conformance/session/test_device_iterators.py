"""Input for several devices of one task: MultiDeviceIterator, as TensorFlow's distribution of
datasets over devices builds it (remote calls, generators, prefetching on each device)."""

import ctypes

import pytest
import tensorflow as tf
from tensorflow.python.data.ops import multi_device_iterator_ops

from conftest import Server, tf1

DEVICES = ["/cpu:1", "/cpu:2"]


@pytest.fixture(scope="module")
def ours():
    started = Server("--port", "0", "--cpu-devices", "3")
    yield started.target
    started.stop()


@pytest.fixture(scope="module")
def theirs():
    config = tf1.ConfigProto(device_count={"CPU": 3})
    return tf1.train.Server.create_local_server(config).target


@pytest.fixture(params=["tensorflow", "downpour"])
def devices(request):
    return request.getfixturevalue({"tensorflow": "theirs", "downpour": "ours"}[request.param])


def session_on(target):
    return tf1.Session(target, config=tf1.ConfigProto(operation_timeout_in_ms=60000))


def take_all(session, fetches):
    """The values of all steps until the iterator ends."""
    results = []
    with pytest.raises(tf.errors.OutOfRangeError):
        while True:
            results.append(session.run(fetches))
    return results


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_elements_go_to_the_devices_in_turn(devices, prefetch):
    with tf.Graph().as_default():
        iterator = multi_device_iterator_ops.MultiDeviceIterator(
            tf1.data.Dataset.range(10), DEVICES, prefetch_buffer_size=prefetch)
        elements = iterator.get_next()
        assert [one.device[-5:] for one in elements] == ["CPU:1", "CPU:2"]
        with session_on(devices) as session:
            for _ in range(2):  # the second time from the beginning
                session.run(iterator.initializer)
                assert take_all(session, elements) == [[i, i + 1] for i in range(0, 10, 2)]


def test_one_device_may_run_ahead(devices):
    with tf.Graph().as_default():
        iterator = multi_device_iterator_ops.MultiDeviceIterator(
            tf1.data.Dataset.range(9), DEVICES, max_buffer_size=8)
        first, second = iterator.get_next()
        with session_on(devices) as session:
            session.run(iterator.initializer)
            assert [session.run(second) for _ in range(3)] == [1, 3, 5]
            assert take_all(session, first) == [0, 2, 4, 6, 8]
            assert take_all(session, second) == [7]


def test_a_session_may_go_in_the_middle(devices):
    for _ in range(3):
        with tf.Graph().as_default():
            iterator = multi_device_iterator_ops.MultiDeviceIterator(
                tf1.data.Dataset.range(1000).repeat(), DEVICES)
            elements = iterator.get_next()
            with session_on(devices) as session:
                session.run(iterator.initializer)
                assert session.run(elements) == [0, 1]


def test_a_waiting_step_ends_with_its_deadline(devices):
    """Nobody takes the elements of the other device, so its buffer is full and the step must wait."""
    with tf.Graph().as_default():
        iterator = multi_device_iterator_ops.MultiDeviceIterator(
            tf1.data.Dataset.range(100), DEVICES, max_buffer_size=1, prefetch_buffer_size=0)
        first, second = iterator.get_next()
        with session_on(devices) as session:
            session.run(iterator.initializer)
            assert session.run(second) == 1
            with pytest.raises((tf.errors.DeadlineExceededError, tf.errors.CancelledError)):
                session.run(second, options=tf1.RunOptions(timeout_in_ms=500))
        with session_on(devices) as session:
            session.run(iterator.initializer)
            assert session.run([first, second]) == [0, 1]


def test_an_error_goes_to_the_device_whose_turn_it_is(ours):
    """On ours only: on a genuine server of 2.21 a session with such an error never closes."""
    with tf.Graph().as_default():
        dataset = tf1.data.Dataset.range(6).map(
            lambda x: tf.gather(tf.range(6), tf.where(tf.equal(x, 3), x + 9, x)))
        iterator = multi_device_iterator_ops.MultiDeviceIterator(dataset, DEVICES, prefetch_buffer_size=0)
        first, second = iterator.get_next()
        with session_on(ours) as session:
            session.run(iterator.initializer)
            assert session.run([first, second]) == [0, 1]
            assert session.run(first) == 2
            with pytest.raises(tf.errors.InvalidArgumentError, match="not in"):
                session.run(second)
            assert session.run([first, second]) == [4, 5]


def test_a_server_stops_in_the_middle_of_walks():
    """Ending an iterator calls functions: the finalizers of its generators."""
    server = Server("--port", "0", "--cpu-devices", "3")
    with tf.Graph().as_default():
        iterator = multi_device_iterator_ops.MultiDeviceIterator(
            tf1.data.Dataset.range(1000).repeat(), DEVICES, prefetch_buffer_size=2)
        elements = iterator.get_next()
        session = session_on(server.target)
        # Closing or collecting the session would wait for the server that has ended.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(session))
        session.run(iterator.initializer)
        assert session.run(elements) == [0, 1]
    server.stop()


def test_a_named_walk_outlives_the_session_that_began_it(devices):
    """The iterator's function, and the function inside of it, are first called in the next session."""
    with tf.Graph().as_default():
        dataset = tf1.data.Dataset.range(5).map(
            lambda x: tf.cond(tf.greater(x, 1), lambda: x * 10, lambda: x))
        iterator = tf1.data.make_initializable_iterator(dataset, shared_name="walk that stays")
        element = iterator.get_next()
        with session_on(devices) as session:
            session.run(iterator.initializer)
        with session_on(devices) as session:
            assert [session.run(element) for _ in range(4)] == [0, 1, 20, 30]
