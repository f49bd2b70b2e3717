"""Input pipelines: queue runners, coordinators, staging areas and barriers that wait, close and cancel.
Every test runs on our task and on a genuine one."""

import threading

import numpy as np
import pytest

from clusters import Cluster, tf, tf1


@pytest.fixture(scope="module", params=["downpour", "tensorflow"])
def target(request):
    cluster = Cluster({"local": 1}, {"local": request.param})
    yield cluster.target("local", 0)
    cluster.stop()


@pytest.fixture(autouse=True)
def clean(target):
    tf1.Session.reset(target)


QUEUES = {
    "fifo": lambda: tf1.FIFOQueue(10, [tf.int64], [[]]),
    "padding": lambda: tf1.PaddingFIFOQueue(10, [tf.int64], [[]]),
    "shuffle": lambda: tf1.RandomShuffleQueue(10, 3, [tf.int64], [[]], seed=3),
    "priority": lambda: tf1.PriorityQueue(10, [tf.int64], [[]]),
}


@pytest.mark.parametrize("kind", QUEUES)
def test_queue_runners_end_with_their_input(target, kind):
    """Three threads fill the queue from one that is fed; all that went in comes out."""
    source = tf1.FIFOQueue(100, [tf.int64], [[]], name="source")
    fill = source.enqueue_many([np.arange(60)])
    queue = QUEUES[kind]()
    value = source.dequeue()
    enqueue = queue.enqueue([value, value] if kind == "priority" else value)
    tf1.train.add_queue_runner(tf1.train.QueueRunner(queue, [enqueue] * 3))
    taken = queue.dequeue()
    taken = taken[1] if kind == "priority" else taken
    with tf1.Session(target) as session:
        session.run(fill)
        session.run(source.close())
        coordinator = tf1.train.Coordinator()
        threads = tf1.train.start_queue_runners(session, coordinator)
        seen = []
        with pytest.raises(tf.errors.OutOfRangeError):
            while True:
                seen.append(session.run(taken))
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=60)
    assert sorted(seen) == list(range(60))


@pytest.mark.parametrize("kind", QUEUES)
def test_a_stop_ends_runners_that_wait(target, kind):
    """The runners stand before a full queue when the coordinator wants to stop."""
    queue = QUEUES[kind]()
    value = tf.constant(1, tf.int64)
    enqueue = queue.enqueue([value, value] if kind == "priority" else value)
    tf1.train.add_queue_runner(tf1.train.QueueRunner(queue, [enqueue] * 2))
    with tf1.Session(target) as session:
        coordinator = tf1.train.Coordinator()
        threads = tf1.train.start_queue_runners(session, coordinator)
        while session.run(queue.size()) < 10:
            pass
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=60)
        assert not any(thread.is_alive() for thread in threads)


def test_an_error_in_a_runner_reaches_the_coordinator(target):
    queue = tf1.FIFOQueue(10, [tf.float32], [[]])
    bad = tf1.check_numerics(tf1.log(tf.constant(-1.0)), "not a number")
    tf1.train.add_queue_runner(tf1.train.QueueRunner(queue, [queue.enqueue(bad)]))
    with tf1.Session(target) as session:
        coordinator = tf1.train.Coordinator()
        threads = tf1.train.start_queue_runners(session, coordinator)
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(queue.dequeue())
        with pytest.raises(tf.errors.InvalidArgumentError):
            coordinator.join(threads, stop_grace_period_secs=60)


def test_batches_of_examples(target):
    """input_producer, batch and shuffle_batch, as the old input pipelines have them."""
    numbers = tf1.train.range_input_producer(12, num_epochs=2, shuffle=True, seed=1)
    number = numbers.dequeue()
    batch = tf1.train.batch([number, tf.cast(number, tf.float32) * 0.5], batch_size=5,
                            allow_smaller_final_batch=True, num_threads=2)
    with tf1.Session(target) as session:
        session.run(tf1.local_variables_initializer())
        coordinator = tf1.train.Coordinator()
        threads = tf1.train.start_queue_runners(session, coordinator)
        seen = []
        with pytest.raises(tf.errors.OutOfRangeError):
            while True:
                first, second = session.run(batch)
                np.testing.assert_array_equal(first * 0.5, second)
                seen.extend(first)
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=60)
    assert sorted(seen) == sorted(list(range(12)) * 2)


def start(function, *arguments):
    """(thread, what it returned or raised)."""
    result = []

    def run():
        try:
            result.append(function(*arguments))
        except tf.errors.OpError as error:
            result.append(error)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, result


def finish(started):
    thread, result = started
    thread.join(60)
    assert not thread.is_alive()
    return result[0]


def data_flow():
    from tensorflow.python.ops import data_flow_ops
    return data_flow_ops


def test_a_staging_area_feeds_the_next_step(target):
    """Each step takes what the one before staged, as a pipeline of copies does."""
    area = data_flow().StagingArea([tf.int32], shapes=[[]])
    fed = tf1.placeholder(tf.int32, [])
    stage, take = area.put([fed]), area.get()
    with tf1.Session(target) as session:
        session.run(stage, {fed: 0})
        for step in range(1, 20):
            value, _ = session.run([take, stage], {fed: step})
            assert value == step - 1 or value == [step - 1]
        assert session.run(area.size()) == 1


def test_staging_areas_wait_for_room_and_for_values(target):
    area = data_flow().StagingArea([tf.int32], shapes=[[]], capacity=2)
    fed = tf1.placeholder(tf.int32, [])
    stage, take = area.put([fed]), area.get()
    with tf1.Session(target) as session:
        waiting = start(session.run, take)
        session.run(stage, {fed: 1})
        assert np.ravel(finish(waiting)) == [1]
        for value in [2, 3]:
            session.run(stage, {fed: value})
        waiting = start(session.run, stage, {fed: 4})
        assert np.ravel(session.run(take)) == [2]
        finish(waiting)
        assert [int(np.ravel(session.run(take))[0]) for _ in range(2)] == [3, 4]


@pytest.mark.parametrize("ordered", [False, True])
def test_map_staging_areas_wait_for_a_key(target, ordered):
    area = data_flow().MapStagingArea([tf.float32, tf.string], shapes=[[], []], ordered=ordered)
    key = tf1.placeholder(tf.int64, [])
    number, text = tf1.placeholder(tf.float32, []), tf1.placeholder(tf.string, [])
    first, second = area.put(key, [number], [0]), area.put(key, [text], [1])
    wanted = tf1.placeholder(tf.int64, [])
    take = area.get(wanted)
    with tf1.Session(target) as session:
        waiting = start(session.run, take, {wanted: 8})
        session.run(first, {key: 8, number: 1.5})
        session.run([first, second], {key: 9, number: 2.5, text: "nine"})
        session.run(second, {key: 8, text: "eight"})
        taken = finish(waiting)
        assert taken[1] == [1.5, b"eight"] and taken[0] == 8
        assert session.run(area.size()) == 1


def test_barriers_wait_for_components(target):
    barrier = data_flow().Barrier([tf.float32, tf.string], shapes=[[], []])
    keys = tf1.placeholder(tf.string, [None])
    numbers, texts = tf1.placeholder(tf.float32, [None]), tf1.placeholder(tf.string, [None])
    first, second = barrier.insert_many(0, keys, numbers), barrier.insert_many(1, keys, texts)
    take = barrier.take_many(2)
    with tf1.Session(target) as session:
        waiting = start(session.run, take)
        session.run(first, {keys: ["a", "b", "c"], numbers: [1, 2, 3]})
        session.run(second, {keys: ["c"], texts: ["see"]})
        session.run(second, {keys: ["a"], texts: ["ay"]})
        _, found, values = finish(waiting)
        assert sorted(found) == [b"a", b"c"]
        session.run(barrier.close())
        with pytest.raises(tf.errors.OutOfRangeError):  # one is left, and none will come
            session.run(take)


def test_a_closed_session_ends_what_waits(target):
    """Our staging areas and barriers leave their lines; genuine staging areas cannot."""
    queue = tf1.FIFOQueue(1, [tf.float32], [[]])
    barrier = data_flow().Barrier([tf.float32], shapes=[[]])
    begun = tf1.FIFOQueue(2, [tf.bool], [[]])
    with tf.control_dependencies([begun.enqueue([True])]):
        waits = [queue.dequeue(), barrier.take_many(1)]
    both = begun.dequeue_many(2)
    session = tf1.Session(target)
    waiting = [start(session.run, op) for op in waits]
    session.run(both)
    for thread, _ in waiting:
        thread.join(0.2)
        assert thread.is_alive()
    session.close()
    for one in waiting:
        assert isinstance(finish(one), tf.errors.OpError)
