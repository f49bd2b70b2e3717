"""Replicas of a model, each a genuine TensorFlow client of its own worker task.

`run_replicas` runs them as threads; `Replica` is a process of its own, which can be killed. Both
give up at a deadline and then say who was late.
"""

import faulthandler
import threading
import time
import traceback

from clusters import SLOWNESS, Genuine, tf, tf1

DEADLINE = 300


def run_replicas(count, body, seconds=DEADLINE):
    """Runs body(index) in `count` threads, each in a graph of its own; their results in order.
    The first exception of any is raised here."""
    results, failures = [None] * count, []
    seconds *= SLOWNESS

    def replica(index):
        try:
            with tf.Graph().as_default():
                results[index] = body(index)
        except BaseException as error:
            failures.append((error, f"replica {index}:\n{traceback.format_exc()}"))

    threads = [threading.Thread(target=replica, args=[index], name=f"replica {index}", daemon=True)
               for index in range(count)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    late = [thread.name for thread in threads if thread.is_alive()]
    if late:
        faulthandler.dump_traceback()
    assert not late, f"no end after {seconds} s: {', '.join(late)}" + "".join(t for _, t in failures)
    if failures:
        raise AssertionError("\n".join(text for _, text in failures)) from failures[0][0]
    return results


def between_graph(cluster, index, strategy=None):
    """The device function of the replica `index`: variables go to the parameter servers."""
    return tf1.train.replica_device_setter(
        cluster=tf1.train.ClusterSpec(cluster.spec), worker_device=f"/job:worker/task:{index}",
        ps_strategy=strategy)


def own_tasks(index):
    """A replica's session sees the parameter servers and its own worker: another worker's death
    does not stop it."""
    return tf1.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{index}"])


def monitored(cluster, index, ready, hooks=(), **options):
    """A MonitoredTrainingSession. Replica 0 is the chief; the others wait for `ready`, which it
    sets when the model is there (TensorFlow's own wait sleeps 30 s between two looks). The chief's
    queue runner may stand in an accumulator for good when the last step is done: at the end
    TensorFlow leaves it after the grace period, by default 120 s."""
    if index > 0:
        assert ready.wait(DEADLINE), "the chief never came"
    session = tf1.train.MonitoredTrainingSession(
        cluster.target("worker", index), is_chief=index == 0, hooks=list(hooks),
        config=own_tasks(index), stop_grace_period_secs=2, **options)
    ready.set()
    return session


class Replica(Genuine):
    """A program (programs.py) as a process of its own, which can be killed. What it says is
    collected as it comes."""

    def __init__(self, function, *arguments):
        super().__init__(function, *arguments)
        self.said = []
        self.is_over = False
        self.news = threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        try:
            while True:
                said = self.pipe.recv()
                with self.news:
                    self.said.append((time.monotonic(), *said))
                    self.news.notify_all()
        except (EOFError, OSError):
            with self.news:
                self.is_over = True
                self.news.notify_all()

    def wait_for(self, kinds, wanted=lambda value: True, after=0.0, seconds=DEADLINE):
        """(when, value) of the first thing of one of the kinds (words of a string) that is said
        later than `after` and is wanted."""
        seconds *= SLOWNESS
        end = time.monotonic() + seconds
        seen = 0
        with self.news:
            while True:
                for when, said, value in self.said[seen:]:
                    if said in kinds.split() and when > after and wanted(value):
                        return when, value
                seen = len(self.said)
                assert not self.is_over, f"{self.name} ended before it said {kinds!r}"
                left = end - time.monotonic()
                assert left > 0, f"{self.name} did not say {kinds!r} in {seconds} s"
                self.news.wait(left)

    def all_said(self, seconds=20):
        """(kind, value) of everything that a process said which is dead now."""
        with self.news:
            assert self.news.wait_for(lambda: self.is_over, seconds * SLOWNESS)
            return [(kind, value) for _, kind, value in self.said]


class ByBytes:
    """A placement strategy: each variable goes to the parameter server with the fewest bytes."""

    def __init__(self, count):
        self.loads = [0] * count

    def __call__(self, op):
        output = op.outputs[0]
        shape = output.shape if output.dtype != tf.resource else op.get_attr("shape")
        shape = tf.TensorShape(shape)
        dtype = output.dtype if output.dtype != tf.resource else op.get_attr("dtype")
        task = self.loads.index(min(self.loads))
        self.loads[task] += shape.num_elements() * tf.as_dtype(dtype).base_dtype.size
        return task
