"""Collectives in which a member dies, never comes, or fails. The other members get an error that names the missing one,
nothing hangs, and new sessions work afterwards."""

import re
import threading
import time

import numpy as np
import pytest

from collective_tasks import R, Ring, task_name
from clusters import SLOWNESS, tf, tf1, wait_until

OURS, THEIRS = "downpour", "tensorflow"


@pytest.fixture
def ring():
    """Starts rings; they are stopped at the end of the test."""
    made = []

    def make(makes, **more):
        made.append(Ring(makes, **more))
        return made[-1]
    yield make
    for one in made:
        one.stop()


def reduce(size, fed, instance=1, **more):
    return R.CollectiveReduce(input=fed, group_size=size, group_key=1, instance_key=instance, merge_op="Add", final_op="Id",
                              subdiv_offsets=[0], **more)


class Clients:
    """One client per task, in the background. Each runs sums until an error, and keeps the error."""

    def __init__(self, ring, count=1000):
        self.steps = {}

        def client(session, index):
            total = reduce(ring.size, tf.fill([count], float(index)))
            while True:
                session.run(total.op)
                self.steps[index] = self.steps.get(index, 0) + 1
        self.outcomes = ring.start_between(client)
        wait_until(lambda: self.outcomes or all(self.steps.get(index, 0) >= 3 for index in range(ring.size)), "three steps")
        assert not self.outcomes, self.outcomes

    def errors(self, of):
        """The errors of these tasks' clients. The client of a killed task is left out: it waits for the task."""
        wait_until(lambda: all(index in self.outcomes for index in of), "the survivors have an error", 30)
        return [self.outcomes[index] for index in of]


def is_gone(error):
    return isinstance(error, (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError,
                              tf.errors.FailedPreconditionError, tf.errors.InternalError))


@pytest.mark.parametrize("makes,victim", [([OURS] * 2, 1), ([OURS] * 3, 2), ([OURS] * 3, 0), ([OURS, THEIRS, OURS], 1),
                                          ([THEIRS, OURS], 1)], ids=str)
def test_a_member_dies(ring, makes, victim):
    tasks = ring(makes, leader=0 if victim else 1)
    clients = Clients(tasks)
    tasks.tasks["worker", victim].kill()
    survivors = [index for index in range(len(makes)) if index != victim]
    errors = clients.errors(survivors)
    assert all(is_gone(error) for error in errors), errors
    ours = [error.message for index, error in zip(survivors, errors) if makes[index] == OURS]
    for message in ours:
        assert re.search(f"{task_name(victim)}|aborted by|has failed", message), message
    assert not ours or any(task_name(victim) in message for message in ours), ours
    for index in survivors:
        if makes[index] == OURS:
            wait_until(lambda: "collectives under way" not in tasks.tasks["worker", index].status(), "nothing is left")


def test_a_member_dies_in_a_step_of_one_client(ring):
    tasks = ring([OURS] * 3)
    with tf1.Session(tasks.target("worker", 0), config=tasks.config()) as session:
        fetches = []
        for index in range(3):
            with tf.device(task_name(index)):
                held = tf1.FIFOQueue(1, [tf.float32], [[4]], shared_name="held").dequeue() if index == 2 else tf.ones([4])
                fetches.append(reduce(3, held).op)
        outcome = []
        thread = threading.Thread(target=lambda: outcome.append(pytest.raises(tf.errors.OpError, session.run, fetches)))
        thread.start()
        wait_until(lambda: "collectives under way" in tasks.tasks["worker", 0].status(), "a member waits")
        tasks.tasks["worker", 1].kill()
        thread.join(60 * SLOWNESS)
        # Not UNAVAILABLE: a client would send the step again by itself.
        assert isinstance(outcome[0].value, tf.errors.AbortedError), outcome
        assert task_name(1) in str(outcome[0].value)


def test_a_killed_member_comes_back(ring):
    """After the killed member is back, new sessions work with the same keys."""
    tasks = ring([OURS] * 3, leader=1)

    def client(session, index):
        total = reduce(3, tf.fill([100], float(index)))
        for attempt in range(20):
            try:
                return session.run(total)
            except (tf.errors.AbortedError, tf.errors.UnavailableError, tf.errors.FailedPreconditionError):
                time.sleep(.2)
        return None
    for victim in [2, 1]:
        clients = Clients(tasks)
        tasks.tasks["worker", victim].kill()
        clients.errors([index for index in range(3) if index != victim])
        tasks.start("worker", victim).wait_until_ready()
        for outcome in tasks.run_between(client):
            np.testing.assert_array_equal(outcome, np.full(100, 3.0))


def test_a_member_that_never_comes(ring):
    tasks = ring([OURS] * 3)

    def client(session, index):
        total = reduce(3, tf.ones([10]), timeout_seconds=3.0)
        with pytest.raises(tf.errors.DeadlineExceededError) as caught:
            session.run(total)
        return str(caught.value)
    thread = threading.Thread(target=lambda: outcomes.extend(tasks.run_between(client, [0, 1])))
    outcomes = []
    thread.start()
    line = wait_until(lambda: re.search(r"collectives under way\n(.*)", tasks.tasks["worker", 0].status()), "the line")
    assert "instance 1 of group 1: " in line.group(1) and "of 3 members of group 1 are here: " in line.group(1)
    theirs = wait_until(lambda: re.search(r"collectives under way\n(.*)", tasks.tasks["worker", 1].status()), "the line")
    assert f"the leader {task_name(0)}" in theirs.group(1)
    thread.join(60 * SLOWNESS)
    assert "2 of 3 members of group 1 are here: " in outcomes[0] or "1 of 3" in outcomes[0]
    assert "timed out waiting for other workers" in outcomes[1]


def test_a_member_that_is_late(ring):
    """The members of the group are known, so the error names the missing one."""
    tasks = ring([OURS] * 2)

    def client(session, index):
        total = reduce(2, tf.ones([10]), timeout_seconds=2.0)
        session.run(total)
        if index == 1:
            return ""
        with pytest.raises(tf.errors.DeadlineExceededError) as caught:
            session.run(total)
        return str(caught.value)
    first = tasks.run_between(client)[0]
    assert f"from {task_name(1)}/device:CPU:0" in first and "timed out during execution" in first


def test_a_cancelled_step_leaves_nothing(ring):
    tasks = ring([OURS] * 2)
    config = tasks.config()
    with tf1.Session(tasks.target("worker", 0), config=config) as session:
        with tf.device(task_name(0)):
            alone = reduce(2, tf.ones([10]), instance=7)
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(alone, options=tf1.RunOptions(timeout_in_ms=1000))
        for index in range(2):
            status = wait_until(lambda: re.search(r" 0 steps", tasks.tasks["worker", index].status()), "no step is left")
            assert status
            assert "collectives under way" not in tasks.tasks["worker", index].status()
        with tf.device(task_name(1)):
            other = reduce(2, tf.ones([10]), instance=7)
        np.testing.assert_array_equal(session.run([alone, other]), np.full((2, 10), 2.0))


def test_an_error_of_one_task_reaches_the_others(ring):
    """One client per task: the step of one client fails before it comes to its collective."""
    tasks = ring([OURS] * 3)

    def client(session, index):
        total = reduce(3, tf.ones([10]))
        session.run(total)
        with tf1.control_dependencies([tf1.Assert(tf.constant(index != 1), ["mine alone"])]):
            fails = reduce(3, tf.identity(tf.ones([10])))
        session.run(fails)
    errors = tasks.run_between(client)
    assert isinstance(errors[1], tf.errors.InvalidArgumentError) and "mine alone" in errors[1].message
    for index in [0, 2]:
        assert isinstance(errors[index], tf.errors.AbortedError), errors[index]
        assert "failed on " + task_name(1) in errors[index].message, errors[index].message
