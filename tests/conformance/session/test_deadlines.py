"""Timeouts and cancellation: a step that waits ends at its deadline, when its session closes, or when
another branch of it fails. Later steps work."""

import threading
import time

import pytest
import tensorflow as tf

from conftest import PATIENCE, announced, tf1


def waiting():
    """An op that never ends: a dequeue from an empty queue."""
    queue = tf1.FIFOQueue(1, [tf.int32], name="empty", shared_name="")
    return queue.dequeue()


def test_timeout_of_a_run(session):
    never = waiting()
    begin = time.monotonic()
    with pytest.raises(tf.errors.DeadlineExceededError):
        session.run(never, options=tf1.RunOptions(timeout_in_ms=300))
    assert 0.2 < time.monotonic() - begin < PATIENCE
    assert session.run(tf.constant(1)) == 1


def test_timeout_of_a_session(target):
    never = waiting()
    config = tf1.ConfigProto(operation_timeout_in_ms=300)
    with tf1.Session(target, config=config) as session:
        begin = time.monotonic()
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(never)
        assert time.monotonic() - begin < PATIENCE


def test_close_cancels_what_runs(target):
    never, begun = announced(waiting)
    session = tf1.Session(target)
    caught = []

    def run():
        try:
            session.run(never)
        except (tf.errors.CancelledError, tf.errors.AbortedError) as error:
            caught.append(error)
    thread = threading.Thread(target=run)
    thread.start()
    session.run(begun)
    session.close()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert len(caught) == 1


def test_one_failing_branch_ends_the_waiting_one(session):
    never = waiting()
    fed = tf1.placeholder(tf.int32, [None])
    bad = tf.reshape(fed, [2, 2])
    with pytest.raises(tf.errors.InvalidArgumentError):
        session.run([never, bad], {fed: [1, 2, 3]})
