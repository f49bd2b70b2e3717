"""Every wait ends. A task that is stopped or cut off is gone after --gone; whatever waits for it fails
soon after, with ABORTED to the client, and names it. A task that is only busy is not gone."""

import contextlib
import subprocess
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

import networks
from clusters import SLOWNESS, Task, free_ports, tf1, wait_until

GONE = 2.0
LATEST = GONE + 5  # after which nobody may wait any more
PS = "/job:ps/replica:0/task:{}"


class Job:
    """Two parameter servers and a worker, each with --gone; the second parameter server may be on an
    island."""

    def __init__(self, island=None):
        self.island = island
        ports = free_ports(3)
        near = island.here if island else "localhost"
        hosts = [near, island.there if island else near, near]
        addresses = [f"{host}:{port}" for host, port in zip(hosts, ports)]
        self.spec = {"ps": addresses[:2], "worker": addresses[2:]}
        self.tasks = {}
        for key in [("ps", 0), ("ps", 1), ("worker", 0)]:
            self.start(*key)
        self.target = self.tasks["worker", 0].target

    def start(self, job, index):
        island = self.island if (job, index) == ("ps", 1) else None

        class Placed(Task):
            def command(self, arguments):
                plain = super().command(arguments)
                return island.command(*plain) if island else plain
        task = Placed.of(self.spec, job, index, "--gone", f"{int(GONE * 1000)}ms")
        task.wait_until_ready()
        self.tasks[job, index] = task
        return task

    def stop(self):
        for task in self.tasks.values():
            task.stop()

    @contextlib.contextmanager
    def lost(self, how):
        """The second parameter server is stopped or cut off meanwhile."""
        if how == "stopped":
            with self.tasks["ps", 1].stopped():
                yield
        else:
            with self.island.cut_off():
                yield


@pytest.fixture
def job():
    started = Job()
    yield started
    started.stop()


@pytest.fixture(params=["stopped", "cut"])
def fault(request):
    """(job, how its second parameter server is lost)"""
    if request.param == "cut" and not networks.are_possible():
        pytest.skip("no network namespaces here")
    island = networks.Island() if request.param == "cut" else None
    started = Job(island)
    yield started, request.param
    started.stop()
    if island:
        island.remove()


def failure(run):
    """(the error of run(), how long it took)"""
    begun = time.monotonic()
    with pytest.raises(tf.errors.AbortedError) as caught:
        run()
    return str(caught.value), time.monotonic() - begun


def check(error, seconds):
    assert f"{PS.format(1)} (" in error and "is gone: silent for" in error, error
    assert seconds < LATEST * SLOWNESS, f"it took {seconds:.1f} s"


def variable_on(index, name="v", value=1.0):
    with tf.device(f"/job:ps/task:{index}"):
        return tf1.get_variable(name, initializer=value, use_resource=True)


def queue_on(index, name):
    with tf.device(f"/job:ps/task:{index}"):
        queue = tf1.FIFOQueue(10, [tf.float32], shared_name=name)
        return queue.dequeue(), queue.enqueue(1.0)


def in_background(run):
    """Starts run(); returns a function that gives (its error, seconds from now to its end)."""
    ended = []

    def call():
        try:
            run()
            ended.append((None, time.monotonic()))
        except tf.errors.OpError as error:
            ended.append((error, time.monotonic()))
    thread = threading.Thread(target=call)
    thread.start()
    begun = time.monotonic()

    def result():
        thread.join(60 * SLOWNESS)
        assert ended, "the step did not end in a minute"
        return ended[0][0], ended[0][1] - begun
    return result


def test_a_step_under_way(fault):
    job, how = fault
    take, put = queue_on(1, "waiting")
    with tf1.Session(job.target) as session:
        session.run(put)
        session.run(take)
        result = in_background(lambda: session.run(take))
        wait_until(lambda: "waits for" in job.tasks["worker", 0].status(), "the step waits")
        with job.lost(how):
            error, seconds = result()
            assert isinstance(error, tf.errors.AbortedError), error
            check(str(error), seconds)
            assert PS.format(0) not in str(error) or "answer" in str(error)
            shown = job.tasks["worker", 0].status()
            line = next(line for line in shown.split("\n") if line.strip().startswith(PS.format(1)))
            assert " gone " in line and "connected" not in line.replace("(connected", ""), line
        wait_until(lambda: "is back after" in job.tasks["worker", 0].log(), "it is back")
        session.run(put)
        assert session.run(take) == 1.0


def test_a_step_that_begins_meanwhile(fault):
    job, how = fault
    v = variable_on(1)
    with tf1.Session(job.target) as session:
        session.run(v.initializer)
        add = v.assign_add(1.0)
        session.run(add)
        with job.lost(how):
            check(*failure(lambda: session.run(add)))
        wait_until(lambda: "is back after" in job.tasks["worker", 0].log(), "it is back")
        assert session.run(v) in (2.0, 3.0)  # the failed step may be half done, but never twice


def test_a_graph_that_is_registered_meanwhile(fault):
    job, how = fault
    v = variable_on(1)
    with tf1.Session(job.target) as session:
        session.run(v.initializer)
        with job.lost(how):
            check(*failure(lambda: session.run(v + 1.0)))


def test_a_session_that_is_created_meanwhile(fault):
    job, how = fault
    v = variable_on(1)
    with tf1.Session(job.target) as session:
        session.run(v.initializer)
    with job.lost(how):
        def create():
            with tf1.Session(job.target) as session:
                session.run(v)
        check(*failure(create))


def test_a_session_with_a_task_that_was_stopped_from_the_beginning(job):
    """Nobody has heard of the task yet: it takes a connection and says nothing."""
    v = variable_on(1)
    with job.tasks["ps", 1].stopped():
        def create():
            with tf1.Session(job.target) as session:
                session.run(v)
        check(*failure(create))


@pytest.mark.parametrize("how", ["restarted", "stopped"])
def test_a_step_that_waits_elsewhere(job, how):
    """The step waits in a queue of a healthy task; another task of the session is lost."""
    v = variable_on(1)
    take, put = queue_on(0, "tokens")
    with tf1.Session(job.target) as session:
        session.run([v.initializer, put])
        session.run(take)
        result = in_background(lambda: session.run(take))
        wait_until(lambda: "waits for" in job.tasks["worker", 0].status(), "the step waits")
        if how == "restarted":
            job.tasks["ps", 1].kill()
            job.start("ps", 1)
            error, seconds = result()
            assert "has restarted" in str(error)
        else:
            with job.tasks["ps", 1].stopped():
                error, seconds = result()
        assert isinstance(error, tf.errors.AbortedError) and PS.format(1) in str(error), error
        assert seconds < LATEST * SLOWNESS
        if how == "restarted":  # the session knows that it lost a task: no step waits for ever
            session.run(put)
            assert session.run(take) == 1.0
            error, seconds = failure(lambda: session.run(take))
            assert PS.format(1) in error and seconds < LATEST * SLOWNESS


def test_a_session_goes_on_without_a_task_that_it_does_not_use(job):
    take, put = queue_on(0, "tokens")
    with tf1.Session(job.target) as session:
        session.run(put)
        session.run(take)
        result = in_background(lambda: session.run(take))
        wait_until(lambda: "waits for" in job.tasks["worker", 0].status(), "the step waits")
        job.tasks["ps", 1].kill()
        time.sleep(GONE * 2)
        session.run(put)
        assert result()[0] is None


def test_a_stopped_worker_loses_its_steps_but_not_its_sessions(job):
    """The steps of a master that is silent end on the other tasks, so that they take nothing from a
    queue that nobody would see."""
    take, put = queue_on(0, "tokens")
    size = tf1.FIFOQueue(10, [tf.float32], shared_name="tokens")
    with tf1.Session(job.target) as session:
        session.run(put)
        session.run(take)
        result = in_background(lambda: session.run(take))
        wait_until(lambda: "wait to dequeue" in job.tasks["ps", 0].status(), "the step waits")
        with job.tasks["worker", 0].stopped():
            wait_until(lambda: "0 of 10 elements, 1 wait to dequeue" not in
                       job.tasks["ps", 0].status(), "its step ends", LATEST)
        error, _ = result()
        assert isinstance(error, tf.errors.AbortedError), error
        session.run(put)
        assert session.run(take) == 1.0
    del size


@contextlib.contextmanager
def busy_neighbours(count):
    running = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(count)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


def test_a_busy_task_is_not_gone(job, tmp_path):
    """It saves, restores and receives hundreds of megabytes beside eight busy neighbours."""
    v = variable_on(1, value=np.zeros(32 << 20, np.float32))
    saver = tf1.train.Saver([v])
    fed = tf1.placeholder(tf.float32, v.shape)
    with tf.device("/job:ps/task:1"):
        total = tf.reduce_sum(v + fed)
    with tf1.Session(job.target) as session, busy_neighbours(8):
        session.run(v.initializer)
        for _ in range(2):
            path = saver.save(session, str(tmp_path / "model"), write_meta_graph=False)
            saver.restore(session, path)
            session.run(total, {fed: np.zeros(v.shape, np.float32)})
    for task in job.tasks.values():
        assert "is gone" not in task.log(), task.log()
