"""BatchFunction and Batch: concurrent steps share one call of a function. Batches are padded and
split, queues may be full, and steps may be cancelled while they wait. The batched function counts
its calls, and can wait for a queue, so that a test sees when a batch runs and holds it there."""

import uuid

import numpy as np
import pytest
import tensorflow as tf

from conftest import Server, tf1, wait_until
from test_queues import Background

R = tf.raw_ops
LONG = 100 * 1000 * 1000  # microseconds; so a batch runs only when it is full


def unique():
    """A name that no other test uses: batchers and queues are shared by all sessions of a server."""
    return uuid.uuid4().hex


class Batched:
    """f(x) = 2 x in batches. Each call adds 1 to `calls` and its number of rows to `rows`. With
    `gate` the call then waits for an element of a queue."""

    def __init__(self, gate=False, **options):
        self.calls, self.rows = (tf1.get_variable(name + unique(), [], tf.int32, use_resource=True,
                                                  initializer=tf1.zeros_initializer())
                                 for name in ("calls", "rows"))
        self.gate = tf1.FIFOQueue(100, [tf.float32], [[]], shared_name=unique())
        self.x = tf1.placeholder(tf.float32, [None, 2])
        body = tf.function(lambda x: self.body(x, gate))
        f = body.get_concrete_function(tf.TensorSpec([None, 2], tf.float32))
        f.add_to_graph(tf1.get_default_graph())
        options = {"num_batch_threads": 1, "batch_timeout_micros": LONG,
                   "shared_name": unique(), **options}
        self.y = R.BatchFunction(in_tensors=[self.x], captured_tensors=f.captured_inputs, f=f,
                                 Tout=[tf.float32], **options)[0]
        self.open_gate = self.gate.enqueue([0.])

    def body(self, x, gate):
        counted = [self.calls.assign_add(1), self.rows.assign_add(tf.shape(x)[0])]
        with tf.control_dependencies(counted):
            held = [self.gate.dequeue()] if gate else []
        with tf.control_dependencies(counted + held):
            return x * 2

    def start(self, session):
        session.run([self.calls.initializer, self.rows.initializer])

    def counts(self, session):
        return tuple(session.run([self.calls, self.rows]))

    def call(self, session, number, rows=1, **options):
        """Runs a step in the background. `ends` of the result waits for the value and checks it."""
        value = np.full([rows, 2], number, np.float32)
        options = tf1.RunOptions(**options) if options else None

        def run():
            result = session.run(self.y, {self.x: value}, options=options)
            np.testing.assert_array_equal(result, value * 2)
            return result
        return Background(run)

    def wait_for_calls(self, session, count):
        wait_until(lambda: session.run(self.calls) == count, f"{count} calls have begun")


def test_calls_become_one(session):
    batched = Batched(max_batch_size=8)
    batched.start(session)
    for caller in [batched.call(session, i) for i in range(8)]:
        caller.ends()
    assert batched.counts(session) == (1, 8)


def test_calls_of_several_rows(session):
    batched = Batched(max_batch_size=6)
    batched.start(session)
    callers = [batched.call(session, i, rows=i) for i in (1, 2, 3)]
    assert [len(caller.ends()) for caller in callers] == [1, 2, 3]
    assert batched.counts(session) == (1, 6)


def test_timeout_and_padding(session):
    batched = Batched(max_batch_size=16, batch_timeout_micros=400 * 1000,
                      allowed_batch_sizes=[10, 16])
    batched.start(session)
    for caller in [batched.call(session, i) for i in range(3)]:
        caller.ends()
    calls, rows = batched.counts(session)
    assert calls in (1, 2) and rows == 10 * calls  # two on a machine that is very busy


def test_many_calls_in_many_batches(session):
    batched = Batched(max_batch_size=4, batch_timeout_micros=2000, num_batch_threads=2,
                      max_enqueued_batches=1000)
    batched.start(session)

    def run(first):
        for i in range(first, first + 20):
            batched.call(session, i).ends()
    threads = [Background(lambda i=i: run(100 * i)) for i in range(10)]
    for thread in threads:
        thread.ends()
    calls, rows = batched.counts(session)
    assert rows == 200 and 50 <= calls < 200


def test_queues_are_apart(session):
    x, shared = tf1.placeholder(tf.float32, [None]), unique()
    f = tf.function(lambda x: x + tf.reduce_sum(x)).get_concrete_function(
        tf.TensorSpec([None], tf.float32))
    f.add_to_graph(tf1.get_default_graph())
    a, b = (R.BatchFunction(in_tensors=[x], captured_tensors=[], f=f, Tout=[tf.float32],
                            num_batch_threads=1, max_batch_size=3, batch_timeout_micros=LONG,
                            shared_name=shared, batching_queue=queue)[0] for queue in "ab")
    first = Background(lambda: session.run(a, {x: [1.]}))
    other = Background(lambda: session.run(b, {x: [10.]}))
    assert first.waits() and other.waits()
    assert session.run(a, {x: [2., 3.]}).tolist() == [8., 9.]
    assert session.run(b, {x: [20., 30.]}).tolist() == [80., 90.]
    assert first.ends().tolist() == [7.]
    assert other.ends().tolist() == [70.]


def test_shapes_that_do_not_fit(session):
    x = tf1.placeholder(tf.float32)
    f = tf.function(lambda x: x).get_concrete_function(tf.TensorSpec(None, tf.float32))
    f.add_to_graph(tf1.get_default_graph())
    y = R.BatchFunction(in_tensors=[x], captured_tensors=[], f=f, Tout=[tf.float32],
                        num_batch_threads=1, max_batch_size=2, batch_timeout_micros=LONG,
                        shared_name=unique())[0]
    callers = [Background(lambda i=i: session.run(y, {x: np.zeros([1, i])})) for i in (2, 3)]
    for caller in callers:
        with pytest.raises(tf.errors.InvalidArgumentError, match="Dimensions of inputs should match"):
            caller.ends()


def test_a_full_queue(session):
    batched = Batched(gate=True, max_batch_size=2, max_enqueued_batches=1)
    batched.start(session)
    running = batched.call(session, 1, rows=2)
    batched.wait_for_calls(session, 1)
    waiting = batched.call(session, 2, rows=2)
    assert waiting.waits()
    with pytest.raises(tf.errors.UnavailableError,
                       match="is full; currently 1 batches enqueued and max_enqueued_batches is 1"):
        batched.call(session, 3).ends()
    session.run([batched.open_gate])
    running.ends()
    session.run([batched.open_gate])
    waiting.ends()
    assert batched.counts(session) == (2, 4)


def test_large_calls_are_split(session):
    batched = Batched(max_batch_size=7, allowed_batch_sizes=[2, 4], batch_timeout_micros=200 * 1000,
                      enable_large_batch_splitting=True)
    batched.start(session)
    callers = [batched.call(session, i, rows=7) for i in (1, 2, 3)]
    for caller in callers:
        assert len(caller.ends()) == 7
    calls, rows = batched.counts(session)
    assert calls >= 6 and rows >= 22


def test_the_function_fails(session):
    x = tf1.placeholder(tf.float32, [None])
    f = tf.function(lambda x: tf.reshape(x, [-1, 2])).get_concrete_function(
        tf.TensorSpec([None], tf.float32))
    f.add_to_graph(tf1.get_default_graph())
    y = R.BatchFunction(in_tensors=[x], captured_tensors=[], f=f, Tout=[tf.float32],
                        num_batch_threads=1, max_batch_size=3, batch_timeout_micros=LONG,
                        shared_name=unique())[0]
    for caller in [Background(lambda: session.run(y, {x: [1.]})) for _ in range(3)]:
        with pytest.raises(tf.errors.InvalidArgumentError, match="multiple of"):
            caller.ends()


def test_python_decorator(session):
    x = tf1.placeholder(tf.float32, [None])

    @tf.nondifferentiable_batch_function(1, 4, LONG)
    def total(x):
        return x + tf.reduce_sum(x), x

    with tf.name_scope(unique()):
        outputs = total(x)
    callers = [Background(lambda i=i: session.run(outputs, {x: [i]})) for i in (1., 2., 3., 4.)]
    for i, caller in zip((1., 2., 3., 4.), callers):
        assert [r.tolist() for r in caller.ends()] == [[10. + i], [i]]


def test_batch_and_unbatch(session):
    x = tf1.placeholder(tf.float32, [None])
    batch = R.Batch(in_tensors=[x], num_batch_threads=1, max_batch_size=4, batch_timeout_micros=LONG,
                    grad_timeout_micros=LONG, shared_name=unique())
    total = batch.batched_tensors[0] + tf.reduce_sum(batch.batched_tensors[0])
    y = R.Unbatch(batched_tensor=total, batch_index=batch.batch_index, id=batch.id,
                  timeout_micros=LONG, shared_name=unique())
    gradient = R.UnbatchGrad(original_input=total, batch_index=batch.batch_index, grad=y, id=batch.id,
                             shared_name=unique())
    callers = [Background(lambda i=i: session.run([y, gradient], {x: [i]})) for i in (1., 2., 3., 4.)]
    gradients = []
    for i, caller in zip((1., 2., 3., 4.), callers):
        rows, whole = caller.ends()
        assert rows.tolist() == [10. + i]
        gradients.append(whole.tolist())
    assert sorted(map(len, gradients)) == [0, 0, 0, 4]
    assert sorted(max(gradients, key=len)) == [11., 12., 13., 14.]


# ---- Steps that are cancelled. On ours only: TensorFlow lets them wait for the end of the batch ----
@pytest.fixture
def ours(server):
    with tf1.Session(server.target) as opened:
        yield opened


def test_a_cancelled_step_leaves_its_batch(ours):
    batched = Batched(max_batch_size=4)
    batched.start(ours)
    others = [batched.call(ours, i) for i in (1, 2)]
    with pytest.raises(tf.errors.DeadlineExceededError):
        batched.call(ours, 3, timeout_in_ms=300).ends()
    assert all(other.waits() for other in others)
    last = batched.call(ours, 4, rows=2)
    for caller in [*others, last]:
        caller.ends()
    assert batched.counts(ours) == (1, 4)


def test_the_last_of_a_batch_leaves(ours):
    batched = Batched(max_batch_size=2)
    batched.start(ours)
    for i in range(3):
        with pytest.raises(tf.errors.DeadlineExceededError):
            batched.call(ours, i, timeout_in_ms=100).ends()
    batched.call(ours, 5, rows=2).ends()
    assert batched.counts(ours) == (1, 2)


def test_a_step_leaves_a_batch_that_runs(ours):
    batched = Batched(gate=True, max_batch_size=2)
    batched.start(ours)
    gone = batched.call(ours, 1, timeout_in_ms=1500)
    other = batched.call(ours, 2)
    batched.wait_for_calls(ours, 1)
    with pytest.raises(tf.errors.DeadlineExceededError):
        gone.ends()
    assert other.waits()
    ours.run(batched.open_gate)
    other.ends()
    assert batched.counts(ours) == (1, 2)


def test_all_steps_of_a_batch_that_runs_are_cancelled(ours):
    """When all steps of a batch are cancelled the function is cancelled too, and the next batch runs."""
    batched = Batched(gate=True, max_batch_size=2)
    batched.start(ours)
    for caller in [batched.call(ours, i, timeout_in_ms=500) for i in (1, 2)]:
        with pytest.raises(tf.errors.DeadlineExceededError):
            caller.ends()
    ours.run(batched.open_gate)
    batched.call(ours, 3, rows=2).ends()


def test_a_split_step_is_cancelled(ours):
    """One part of the step is in a batch that runs, two are in batches that wait."""
    batched = Batched(gate=True, max_batch_size=8, allowed_batch_sizes=[3], max_enqueued_batches=9,
                      enable_large_batch_splitting=True)
    batched.start(ours)
    with pytest.raises(tf.errors.DeadlineExceededError):
        batched.call(ours, 1, rows=8, timeout_in_ms=500).ends()
    ours.run(batched.open_gate)
    batched.call(ours, 3, rows=3).ends()


def test_a_session_ends_while_a_batch_waits(server):
    batched = Batched(max_batch_size=4)
    session = tf1.Session(server.target)
    batched.start(session)
    caller = batched.call(session, 1)
    assert caller.waits()
    session.close()
    with pytest.raises((tf.errors.CancelledError, tf.errors.AbortedError)):
        caller.ends()


@pytest.mark.parametrize("gate", [False, True], ids=["waits", "runs"])
def test_a_server_ends_while_a_batch_lives(gate):
    """The client waits for the server to come back, until its own deadline."""
    batched = Batched(gate=gate, max_batch_size=2)
    server = Server("--port", "0")
    config = tf1.ConfigProto(operation_timeout_in_ms=5000)
    session = tf1.Session(server.target, config=config)
    batched.start(session)
    callers = [batched.call(session, i, timeout_in_ms=5000) for i in range(2 if gate else 1)]
    if gate:
        batched.wait_for_calls(session, 1)
    assert callers[0].waits()
    server.stop()
    for caller in callers:
        with pytest.raises(tf.errors.OpError):
            caller.ends()
