"""Clusters for the tests of collectives. Each task is ours or genuine TensorFlow's, and any task may be the leader.

A genuine server is told its leader when it starts. A task of ours is told by the session's configuration.
"""

import ctypes
import itertools
import threading

from clusters import SLOWNESS, Cluster, Genuine, Task, tf, tf1, wait_until

R = tf.raw_ops
# Genuine TensorFlow never forgets an instance key, so each use takes a new one.
INSTANCES = itertools.count(1)
GROUPS = itertools.count(1)


def task_name(index):
    return f"/job:worker/replica:0/task:{index}"


def configuration(leader, devices=1, **more):
    config = tf1.ConfigProto(device_count={"CPU": devices}, operation_timeout_in_ms=60000 * SLOWNESS, **more)
    config.experimental.collective_group_leader = leader
    return config


def serve(say, cluster, index, leader, devices):
    """Runs a genuine server that is started with its leader."""
    server = tf1.train.Server(cluster, job_name="worker", task_index=index, config=configuration(leader, devices))
    say("ready", server.target)
    server.join()


def keep_for_ever(session):
    """Keeps Python from collecting a session. Collecting closes it, and after an error closing would wait for a dead task,
    in whatever thread happens to collect, perhaps a client of the next test."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(session))


class LedGenuine(Genuine):
    make = "tensorflow"

    def wait_until_ready(self):
        self.target = self.expect("ready")

    def stop(self):
        self.kill()


class Ring(Cluster):
    """Workers of the given makes ("downpour" or "tensorflow")."""

    def __init__(self, makes, leader=0, devices=1):
        self.leader = leader
        self.devices = devices
        super().__init__({"worker": len(makes)}, {"worker": makes})

    def start(self, job, index):
        if self.make_of(job, index) == "downpour":
            task = Task.of(self.spec, job, index, "--cpu-devices", str(self.devices))
        else:
            task = LedGenuine(serve, self.spec, index, task_name(self.leader), self.devices)
        self.tasks[job, index] = task
        return task

    @property
    def size(self):
        return len(self.spec["worker"]) * self.devices

    def config(self, **more):
        return configuration(task_name(self.leader), **more)

    def devices_in_order(self):
        return [f"{task_name(index)}/device:CPU:{device}" for index in range(len(self.spec["worker"]))
                for device in range(self.devices)]

    def on_devices(self, make):
        """[make(rank, instance) on each device], with a new instance key."""
        instance, results = next(INSTANCES), []
        for rank, device in enumerate(self.devices_in_order()):
            with tf.device(device):
                results.append(make(rank, instance))
        return results

    def run(self, fetches, master=0, steps=1):
        with tf1.Session(self.target("worker", master), config=self.config()) as session:
            for _ in range(steps):
                results = session.run(fetches)
        return results

    def start_between(self, client, tasks=None):
        """Runs client(session, index) in one thread per task, each with its own graph and with a session that sees no other
        task. Returns a dictionary at once; each client's result or error is put into it later, by index."""
        outcomes = {}

        def run_client(index):
            config = self.config(device_filters=[f"/job:worker/task:{index}"])
            try:
                with tf.Graph().as_default() as graph, tf.device(task_name(index)):
                    session = tf1.Session(self.target("worker", index), graph, config)
                    keep_for_ever(session)
                    outcome = client(session, index)
                    session.close()  # but not after an error: a dead task would not answer
            except (tf.errors.OpError, AssertionError) as error:
                outcome = error
            outcomes[index] = outcome
        for index in range(len(self.spec["worker"])) if tasks is None else tasks:
            threading.Thread(target=run_client, args=(index,), daemon=True).start()
        return outcomes

    def run_between(self, client, tasks=None):
        """As start_between, but waits for all clients and gives a list of their results."""
        tasks = list(range(len(self.spec["worker"])) if tasks is None else tasks)
        outcomes = self.start_between(client, tasks)
        wait_until(lambda: len(outcomes) == len(tasks), "every client has ended", 60)
        return [outcomes[index] for index in tasks]
