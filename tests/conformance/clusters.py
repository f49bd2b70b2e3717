"""Clusters of several tasks, each ours or genuine TensorFlow's, on this machine.

The folders whose tests need one import this module by their conftest.py. A task's start, end and
death each have a deadline; what a task wrote on standard error is kept for the failure's text.
"""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("DOWNPOUR_BUILD", ROOT / "build"))

GENUINE = """
import sys, json
import tensorflow as tf
tf1 = tf.compat.v1
cluster, job, task = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3])
server = tf1.train.Server(cluster, job_name=job, task_index=task)
print("Started server with target:", server.target.decode() if isinstance(server.target, bytes)
      else server.target, flush=True)
server.join()
"""


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("localhost", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Task:
    """One process of a cluster. `make` is "downpour" or "tensorflow"."""

    def __init__(self, make, cluster, job, index):
        text = json.dumps(cluster)
        self.make, self.job, self.index = make, job, index
        self.killed = False
        if make == "downpour":
            command = [str(BUILD / "downpour"), "serve", "--cluster", text, "--job", job,
                       "--task", str(index)]
        else:
            command = [sys.executable, "-c", GENUINE, text, job, str(index)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True)
        self.errors = []
        threading.Thread(target=self._drain, daemon=True).start()

    def _drain(self):
        for line in self.process.stderr:
            self.errors.append(line)

    def wait_until_ready(self, seconds=60):
        late = threading.Timer(seconds, self.process.kill)
        late.start()
        try:
            for line in self.process.stdout:
                match = re.search(r"Started server with target: (grpc://\S+)", line)
                if match:
                    self.target = match.group(1)
                    return
        finally:
            late.cancel()
        raise AssertionError(f"{self} did not start: " + "".join(self.errors))

    def kill(self):
        self.killed = True
        self.process.kill()
        self.process.wait(10)

    def stop(self):
        """Ends the task in order; a task that ended by itself before is a failure."""
        if self.killed:
            return
        if self.make == "tensorflow":
            self.kill()
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self} did not stop on SIGTERM: {''.join(self.errors)}")
        assert code == 0, f"{self} ended with {code}: {''.join(self.errors)}"

    def __str__(self):
        return f"{self.make} {self.job}:{self.index}"


class Cluster:
    """Tasks by (job, index); `makes` says who makes each job's tasks."""

    def __init__(self, sizes, makes):
        ports = iter(free_ports(sum(sizes.values())))
        self.spec = {job: [f"localhost:{next(ports)}" for _ in range(size)]
                     for job, size in sizes.items()}
        self.makes = makes
        self.tasks = {}
        for job, addresses in self.spec.items():
            for index in range(len(addresses)):
                self.start(job, index)
        for task in self.tasks.values():
            task.wait_until_ready()

    def make_of(self, job, index):
        make = self.makes[job]
        return make if isinstance(make, str) else make[index]

    def start(self, job, index):
        self.tasks[job, index] = Task(self.make_of(job, index), self.spec, job, index)
        return self.tasks[job, index]

    def target(self, job, index):
        return "grpc://" + self.spec[job][index]

    def stop(self):
        """Stops every task, also after one of them fails to."""
        failures = []
        for task in self.tasks.values():
            try:
                task.stop()
            except AssertionError as failure:
                failures.append(str(failure))
        assert not failures, "\n".join(failures)
