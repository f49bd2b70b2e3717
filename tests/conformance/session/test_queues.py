"""Queues: enqueues and dequeues that wait for each other, until the queue is closed, or until the
step is cancelled."""

import threading

import numpy as np
import pytest
import tensorflow as tf

from conftest import PATIENCE, announced, tf1, wait_until


class Background(threading.Thread):
    """Runs a function that may wait in a thread, and keeps its result or its error."""

    def __init__(self, run):
        super().__init__(daemon=True)
        self.run_it, self.result, self.error = run, None, None
        self.start()

    def run(self):
        try:
            self.result = self.run_it()
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def waits(self, seconds=0.3):
        self.join(seconds)
        return self.is_alive()

    def ends(self):
        self.join(PATIENCE)
        assert not self.is_alive(), "still waits"
        if self.error:
            raise self.error
        return self.result


def wait_until_full(session, queue, capacity):
    """Waits until the queue is full. Then an enqueue of more elements than fit is known to wait."""
    size = queue.size()
    wait_until(lambda: session.run(size) == capacity, "the queue is full")


def test_dequeue_waits_for_enqueue(session):
    queue = tf1.FIFOQueue(10, [tf.float32], [[]])
    put, take = queue.enqueue([3.]), queue.dequeue()
    taker = Background(lambda: session.run(take))
    assert taker.waits()
    session.run(put)
    assert taker.ends() == 3.


def test_enqueue_waits_for_room(session):
    queue = tf1.FIFOQueue(2, [tf.float32], [[]])
    put, take, size = queue.enqueue_many([[1., 2., 3.]]), queue.dequeue(), queue.size()
    putter = Background(lambda: session.run(put))
    wait_until_full(session, queue, 2)
    assert putter.waits()
    assert session.run(size) == 2
    assert session.run(take) == 1.
    putter.ends()
    assert session.run(size) == 2


def test_enqueue_and_dequeue_in_one_step(session):
    queue = tf1.FIFOQueue(1, [tf.float32], [[]])
    puts = [queue.enqueue([float(i)]) for i in range(5)]
    takes = [queue.dequeue() for _ in range(5)]
    results = session.run(takes + puts)
    assert sorted(results[:5]) == [0., 1., 2., 3., 4.]


def test_dequeue_many_collects(session):
    queue = tf1.FIFOQueue(10, [tf.int32], [[]])
    value = tf1.placeholder(tf.int32, [])
    put, take = queue.enqueue([value]), queue.dequeue_many(4)
    taker = Background(lambda: session.run(take))
    for i in range(4):
        assert taker.waits(0.1)
        session.run(put, {value: i})
    np.testing.assert_array_equal(taker.ends(), [0, 1, 2, 3])


def test_close_ends_waiting_dequeues(session):
    queue = tf1.FIFOQueue(10, [tf.float32], [[]])
    take, close, put = queue.dequeue_many(2), queue.close(), queue.enqueue([7.])
    taker = Background(lambda: session.run(take))
    assert taker.waits()
    session.run(put)
    session.run(close)
    with pytest.raises(tf.errors.OutOfRangeError, match="is closed and has insufficient elements"):
        taker.ends()
    assert session.run(queue.size()) == 1
    np.testing.assert_array_equal(session.run(queue.dequeue_up_to(5)), [7.])


def test_close_waits_for_enqueues_before_it(session):
    queue = tf1.FIFOQueue(1, [tf.float32], [[]])
    put, take, close = queue.enqueue_many([[1., 2.]]), queue.dequeue(), queue.close()
    putter = Background(lambda: session.run(put))
    wait_until_full(session, queue, 1)
    closer = Background(lambda: session.run(close))
    assert putter.waits() and closer.waits()
    assert session.run(take) == 1.
    putter.ends()
    closer.ends()
    assert session.run(take) == 2.
    with pytest.raises(tf.errors.CancelledError, match="is closed"):
        session.run(put)


def test_close_cancels_pending_enqueues(session):
    queue = tf1.FIFOQueue(1, [tf.float32], [[]])
    put = queue.enqueue_many([[1., 2., 3.]])
    putter = Background(lambda: session.run(put))
    wait_until_full(session, queue, 1)
    assert putter.waits()
    session.run(queue.close(cancel_pending_enqueues=True))
    with pytest.raises(tf.errors.CancelledError, match="Enqueue operation was cancelled"):
        putter.ends()
    assert session.run(queue.size()) == 1


def test_timeout_cancels_a_dequeue(session):
    queue = tf1.FIFOQueue(10, [tf.float32], [[]])
    take = queue.dequeue()
    with pytest.raises(tf.errors.DeadlineExceededError):
        session.run(take, options=tf1.RunOptions(timeout_in_ms=300))
    session.run(queue.enqueue([2.]))
    assert session.run(queue.dequeue()) == 2.


def test_error_elsewhere_cancels_a_dequeue(session):
    queue = tf1.FIFOQueue(10, [tf.float32], [[]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="boom"):
        session.run([queue.dequeue(), tf1.Assert(tf1.placeholder_with_default(False, []), ["boom"])])


def test_closing_the_session_ends_what_waits(target):
    session = tf1.Session(target)
    queue = tf1.FIFOQueue(10, [tf.float32], [[]])
    take, begun = announced(queue.dequeue)
    taker = Background(lambda: session.run(take))
    session.run(begun)
    assert taker.waits()
    session.close()
    with pytest.raises((tf.errors.CancelledError, tf.errors.AbortedError)):
        taker.ends()


def test_queue_of_a_session_continues_over_signatures(session):
    queue = tf1.FIFOQueue(10, [tf.float32], [[]])
    for i in range(3):
        session.run(queue.enqueue([float(i)]))
    assert [session.run(queue.dequeue()) for _ in range(3)] == [0., 1., 2.]


def test_sessions_share_queues_by_name(clean):
    with tf1.Session(clean) as one, tf1.Session(clean) as other:
        queue = tf1.FIFOQueue(10, [tf.float32], [[]], shared_name="shared_queue")
        put, take = queue.enqueue([5.]), queue.dequeue()
        taker = Background(lambda: other.run(take))
        assert taker.waits()
        one.run(put)
        assert taker.ends() == 5.


def test_queue_runners_feed_a_batch(session):
    """A whole input pipeline of TensorFlow 1."""
    numbers = tf1.train.range_input_producer(10, num_epochs=2, shuffle=False)
    batch = tf1.train.batch([numbers.dequeue()], batch_size=4, allow_smaller_final_batch=True)
    session.run([tf1.global_variables_initializer(), tf1.local_variables_initializer()])
    coordinator = tf1.train.Coordinator()
    threads = tf1.train.start_queue_runners(session, coordinator)
    seen = []
    with pytest.raises(tf.errors.OutOfRangeError):
        while True:
            seen.extend(session.run(batch))
    assert seen == list(range(10)) * 2
    coordinator.request_stop()
    coordinator.join(threads, stop_grace_period_secs=PATIENCE)


@pytest.mark.parametrize("threads", [8])
def test_many_threads_lose_nothing(session, threads):
    queue = tf1.RandomShuffleQueue(20, 5, [tf.int32], [[]])
    value = tf1.placeholder(tf.int32, [None])
    put, take, close = queue.enqueue_many([value]), queue.dequeue_up_to(7), queue.close()
    seen, lock = [], threading.Lock()

    def taking():
        while True:
            try:
                got = session.run(take)
            except tf.errors.OutOfRangeError:
                return
            with lock:
                seen.extend(got)

    def putting(first):
        for i in range(10):
            session.run(put, {value: np.arange(first + 10 * i, first + 10 * i + 10)})
    takers = [Background(taking) for _ in range(threads)]
    putters = [Background(lambda i=i: putting(1000 * i)) for i in range(threads)]
    for putter in putters:
        putter.ends()
    session.run(close)
    for taker in takers:
        taker.ends()
    assert sorted(seen) == sorted(1000 * i + j for i in range(threads) for j in range(100))
