"""Waiting for tasks. A wait with a deadline ends with an error that names the task and says why. A
task that comes late, restarts or moves is found. When a task dies, the steps on it end."""

import threading

import pytest
import tensorflow as tf

from clusters import Task, free_ports, tf1, wait_until

MISSING = "/job:local/replica:0/task:1"


def create_error(task, seconds=3):
    """The error of a client whose session is not created in time."""
    config = tf1.ConfigProto(operation_timeout_in_ms=seconds * 1000)
    with pytest.raises((tf.errors.DeadlineExceededError, tf.errors.UnavailableError)) as caught:
        with tf1.Session(task.target, config=config) as session:
            session.run(tf.constant(1))
    return str(caught.value)


@pytest.fixture
def serve():
    """Starts servers of ours; they are stopped at the end of the test."""
    started = []

    def start(*arguments):
        started.append(Task(*arguments))
        started[-1].wait_until_ready()
        return started[-1]
    yield start
    for one in started:
        one.stop()


def first_of(serve, second):
    """Task 0 of a cluster of two, whose task 1 is expected at that address."""
    own = f"localhost:{free_ports(1)[0]}"
    return serve("--cluster", f'{{"local": ["{own}", "{second}"]}}', "--job", "local")


def test_a_task_that_is_not_there(serve):
    error = create_error(first_of(serve, f"localhost:{free_ports(1)[0]}"))
    assert MISSING in error and "refused" in error


def test_a_name_that_is_not_there(serve):
    error = create_error(first_of(serve, "no-such-host.invalid:2222"), 25)  # some resolvers ask twice
    assert MISSING in error and "DNS" in error


def test_somebody_else_is_there(serve):
    other = serve("--port", "0")
    error = create_error(first_of(serve, other.target[len("grpc://"):]))
    assert MISSING in error and "/job:local/replica:0/task:0 answers there" in error


def test_a_task_that_does_not_answer(cluster):
    one = cluster({"local": 2}, {"local": "downpour"})
    with one.tasks["local", 1].stopped():
        error = create_error(one.tasks["local", 0])
    assert MISSING in error and "does not answer" in error


def queue_on(task):
    with tf.device(task):
        queue = tf1.FIFOQueue(1, [tf.int32], shared_name="waiting")
        return queue, queue.dequeue(name="take"), queue.enqueue(7)


def test_a_step_that_waits_names_the_task(cluster):
    one = cluster({"local": 2}, {"local": "downpour"})
    _, take, _ = queue_on("/job:local/task:1")
    with tf1.Session(one.target("local", 0)) as session:
        with pytest.raises(tf.errors.DeadlineExceededError) as caught:
            session.run(take, options=tf1.RunOptions(timeout_in_ms=2000))
        assert MISSING in str(caught.value)
        session.run(tf.constant(1))


def test_a_graph_that_is_not_registered_in_time_names_the_task(cluster):
    one = cluster({"local": 2}, {"local": "downpour"})
    _, _, put = queue_on("/job:local/task:1")
    with tf1.Session(one.target("local", 0)) as session:
        session.run(tf.constant(1))
        with one.tasks["local", 1].stopped():
            with pytest.raises(tf.errors.DeadlineExceededError) as caught:
                session.run(put, options=tf1.RunOptions(timeout_in_ms=2000))
            assert "not registered" in str(caught.value) and MISSING in str(caught.value)
        session.run(put)


PAIRS = ["downpour-downpour", "downpour-tensorflow", "tensorflow-downpour"]


@pytest.mark.parametrize("makes", PAIRS)
def test_a_task_that_died_ends_its_steps(cluster, makes):
    """While the task is away, steps fail with UNAVAILABLE and its name. When it is back without its
    state, they fail with ABORTED."""
    one = cluster({"local": 2}, {"local": makes.split("-")})
    with tf.device("/job:local/task:1"):
        v = tf1.get_variable("v", initializer=1.0, use_resource=True)
        twice = v * 2.0
    with tf1.Session(one.target("local", 0)) as session:
        session.run(v.initializer)
        assert session.run(twice) == 2.0
        one.tasks["local", 1].kill()
        with pytest.raises((tf.errors.UnavailableError, tf.errors.AbortedError)) as caught:
            session.run(twice)
        assert MISSING in str(caught.value)
        one.start("local", 1).wait_until_ready()

        def run():
            try:
                session.run(twice)
            except tf.errors.UnavailableError:
                return None
            except tf.errors.AbortedError as error:
                return error
            except tf.errors.CancelledError as error:  # from a genuine master; the ABORTED is in its text
                assert makes.startswith("tensorflow") and "ABORTED: From" in str(error)
                return error
            raise AssertionError("a step ran on a task that had lost its graph")
        wait_until(run, "steps on the restarted task are aborted")
    with tf1.Session(one.target("local", 0)) as session:
        session.run(v.initializer)
        assert session.run(twice) == 2.0


# Not with a genuine master: it ends the step too, but closing its session waits for the dead task.
@pytest.mark.parametrize("makes", [pair for pair in PAIRS if pair.startswith("downpour")])
def test_a_step_under_way_ends_when_its_task_dies(cluster, makes):
    one = cluster({"local": 2}, {"local": makes.split("-")})
    _, take, put = queue_on("/job:local/task:1")
    caught = []

    def wait_for_it():
        with pytest.raises((tf.errors.UnavailableError, tf.errors.AbortedError)) as error:
            session.run(take)
        caught.append(str(error.value))
    with tf1.Session(one.target("local", 0)) as session:
        session.run(put)
        assert session.run(take) == 7
        waiting = threading.Thread(target=wait_for_it)
        waiting.start()
        wait_until(lambda: f"waits for {MISSING}" in one.tasks["local", 0].status(),
                   "the step is under way")
        one.tasks["local", 1].kill()
        waiting.join(60)
        assert len(caught) == 1 and MISSING in caught[0]
