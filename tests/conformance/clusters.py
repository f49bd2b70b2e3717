"""Clusters of several tasks, each ours or genuine TensorFlow's, on this machine.

The folders whose tests need one import this module by their conftest.py. A task's start, end and
death each have a deadline; what a task of ours wrote on standard error is kept for the failure's
text. Genuine tasks and users' scripts run in processes forked from one that has imported
TensorFlow, because the import alone takes seconds.
"""

import contextlib
import json
import multiprocessing
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import tensorflow as tf

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from ports import free_ports  # noqa: E402

tf1 = tf.compat.v1
tf1.disable_eager_execution()

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("DOWNPOUR_BUILD", ROOT / "build"))

# A server under a sanitizer takes its time: every deadline is so much later.
SLOWNESS = 6 if "TSAN_OPTIONS" in os.environ else 3 if "ASAN_OPTIONS" in os.environ else 1

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tensorflow"])


def wait_until(condition, what, seconds=60):
    """The first true value of condition()."""
    limit = time.monotonic() + seconds * SLOWNESS
    while time.monotonic() < limit:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds * SLOWNESS} s: {what}")


def stand_still(pid):
    """Stops a process. The signal acts when one of its threads gets to run: until then the others
    go on, so this waits for the last of them."""
    os.kill(pid, signal.SIGSTOP)

    def are_stopped():
        stats = [path.read_text() for path in pathlib.Path(f"/proc/{pid}/task").glob("*/stat")]
        return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)
    wait_until(are_stopped, f"process {pid} stands still")


def command(*arguments):
    return subprocess.run([str(BUILD / "downpour"), *arguments], capture_output=True, text=True,
                          timeout=60 * SLOWNESS)


def _run_function(pipe, function, arguments):
    function(lambda kind, value: pipe.send((kind, value)), *arguments)


class Genuine:
    """A process of genuine TensorFlow that runs function(say, *arguments) of an importable module
    and reports through say(kind, value)."""

    def __init__(self, function, *arguments):
        self.name = f"{function.__name__}{arguments}"
        self.pipe, theirs = FORKS.Pipe(duplex=False)
        self.process = FORKS.Process(target=_run_function, args=(theirs, function, arguments),
                                     daemon=True)
        self.process.start()
        self.pid = self.process.pid
        theirs.close()

    def expect(self, kind, seconds=60):
        """The value that it says with `kind`; what comes before is passed over."""
        limit = time.monotonic() + seconds * SLOWNESS
        while self.pipe.poll(max(0, limit - time.monotonic())):
            try:
                said, value = self.pipe.recv()
            except EOFError:
                raise AssertionError(f"{self.name} ended before it said {kind!r}") from None
            if said == kind:
                return value
        raise AssertionError(f"{self.name} did not say {kind!r} in {seconds * SLOWNESS} s")

    def has_said_nothing_more(self):
        return not self.pipe.poll(0)

    def status(self):
        return ""

    def kill(self):
        self.process.kill()
        self.process.join(60)


def serve(say, cluster, job, index):
    """A server of genuine TensorFlow."""
    server = tf1.train.Server(cluster, job_name=job, task_index=index)
    say("ready", server.target)
    server.join()


class GenuineTask(Genuine):
    make = "tensorflow"

    def __init__(self, cluster, job, index):
        super().__init__(serve, cluster, job, index)

    def wait_until_ready(self):
        self.target = self.expect("ready")

    def stop(self):
        self.kill()


class Task:
    """A `downpour serve`."""
    make = "downpour"

    def __init__(self, *arguments, **environment):
        self.name = " ".join(arguments)
        self.killed = False
        self.process = subprocess.Popen(
            self.command(arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **environment})
        self.pid = self.process.pid
        self.errors = []
        threading.Thread(target=self._drain, daemon=True).start()

    def command(self, arguments):
        return [str(BUILD / "downpour"), "serve", *arguments]

    @classmethod
    def of(cls, cluster, job, index, *more):
        return cls("--cluster", json.dumps(cluster), "--job", job, "--task", str(index), *more)

    def _drain(self):
        for line in self.process.stderr:
            self.errors.append(line)

    def log(self):
        return "".join(self.errors)

    def wait_until_ready(self, seconds=60):
        late = threading.Timer(seconds * SLOWNESS, self.process.kill)
        late.start()
        try:
            for line in self.process.stdout:
                match = re.search(r"Started server with target: (grpc://\S+)", line)
                if match:
                    self.target = match.group(1)
                    return
        finally:
            late.cancel()
        raise AssertionError(f"{self.name} did not start: {self.log()}")

    def status(self):
        """What `downpour status` shows; empty when it fails."""
        shown = command("status", "--target", self.target)
        return shown.stdout if shown.returncode == 0 else ""

    @contextlib.contextmanager
    def stopped(self):
        """Stands still meanwhile: connected, and silent."""
        stand_still(self.pid)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def kill(self):
        """A task that had died before, by a sanitizer's report say, is a failure."""
        self.killed = True
        self.process.kill()
        code = self.process.wait(60 * SLOWNESS)
        assert code in (0, -signal.SIGKILL), f"{self.name} had ended with {code}: {self.log()}"

    def stop(self):
        """Ends the task in order; a task that ended by itself before is a failure."""
        if self.killed:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(60 * SLOWNESS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} did not stop on SIGTERM: {self.log()}")
        assert code == 0, f"{self.name} ended with {code}: {self.log()}"


def start_task(make, cluster, job, index):
    return Task.of(cluster, job, index) if make == "downpour" else GenuineTask(cluster, job, index)


class Cluster:
    """Tasks by (job, index). `makes` says who makes each job's tasks: "downpour" or "tensorflow",
    or one of them for each task; None leaves a task to the test."""

    def __init__(self, sizes, makes):
        ports = iter(free_ports(sum(sizes.values())))
        self.spec = {job: [f"localhost:{next(ports)}" for _ in range(size)]
                     for job, size in sizes.items()}
        self.makes = makes
        self.tasks = {}
        for job, addresses in self.spec.items():
            for index in range(len(addresses)):
                if self.make_of(job, index):
                    self.start(job, index)
        for task in self.tasks.values():
            task.wait_until_ready()

    def make_of(self, job, index):
        make = self.makes[job]
        return make[index] if isinstance(make, (list, tuple)) else make

    def start(self, job, index):
        self.tasks[job, index] = start_task(self.make_of(job, index), self.spec, job, index)
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
