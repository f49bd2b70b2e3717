"""Rounds of a fault: a step is brought to a phase, one process dies or stands still, the client
must hear of it in time, the cluster must work again afterwards, and the survivors must end up with
what they had.

The cluster is a master, a worker and a parameter server, each one `downpour serve`; the step goes
master -> ps -> worker -> ps -> master. Named fault points hold a task at a phase while a file
exists. Clients are processes of genuine TensorFlow, so that one can be killed like any other task.
"""

import itertools
import os
import pathlib
import re
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "conformance"))

from clusters import Genuine, Task, free_ports, stand_still, tf, tf1, wait_until

TASKS = ["master", "worker", "ps"]
VICTIMS = TASKS + ["client"]
PHASES = {"register": "worker.register_graph", "run": "worker.run_graph",
          "receive": "worker.receive_tensor"}
SANITIZED = any(name in os.environ for name in ("ASAN_OPTIONS", "TSAN_OPTIONS"))
FLOATS = 1 << 16
WARM = 9  # rounds before the survivors' memory counts
ALLOWED_GROWTH_KIB = 16 << 10
# A client that stood still may find its step done, or too late; a killed one says nothing.
ENDS = {True: [None, FLOATS * 6.0, "DeadlineExceededError"],
        False: ["UnavailableError", "AbortedError", "DeadlineExceededError", "CancelledError"]}


def step_client(say, target, timeout_ms):
    """One session, one step; says how it ended."""
    fed = tf1.placeholder(tf.float32, [FLOATS])
    with tf.device("/job:ps/task:0"):
        there = fed * 2.0
    with tf.device("/job:worker/task:0"):
        further = there + 1.0
    with tf.device("/job:ps/task:0"):
        back = further * 2.0
    with tf.device("/job:master/task:0"):
        total = tf.reduce_sum(back)
    session = tf1.Session(target)
    options = tf1.RunOptions(timeout_in_ms=timeout_ms)
    try:
        say("ended", float(session.run(total, {fed: [1.0] * FLOATS}, options)))
    except tf.errors.OpError as error:
        say("ended", type(error).__name__)
    session.close()
    say("closed", None)


class Round:
    """A cluster for many rounds."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        ports = free_ports(len(TASKS))
        self.spec = {task: [f"localhost:{port}"] for task, port in zip(TASKS, ports)}
        self.tasks = {}
        for name in TASKS:
            self.start(name)

    # ---- Tasks ----
    def start(self, name):
        points = ",".join(f"{point}=hold:{self.hold_file(name, phase)}"
                          for phase, point in PHASES.items())
        task = Task.of(self.spec, name, 0, "--fault", points, "--session-lost", "200ms")
        task.wait_until_ready()
        self.tasks[name] = task

    def stop(self):
        for task in self.tasks.values():
            task.stop()

    def hold_file(self, name, phase):
        return self.folder / f"{name}-{phase}"

    # ---- One round ----
    def run(self, victim, phase, sign, timeout_ms):
        """Returns how the client's step ended; None when the client was killed."""
        held = victim if victim in ("worker", "ps") else "worker"
        hold = self.hold_file(held, phase)
        says = f"fault point {PHASES[phase]} holds"
        before = self.tasks[held].log().count(says)
        hold.touch()
        client = Genuine(step_client, "grpc://" + self.spec["master"][0], timeout_ms)
        try:
            wait_until(lambda: self.tasks[held].log().count(says) > before,
                       f"{held} is in the phase {phase}")
            pid = client.pid if victim == "client" else self.tasks[victim].pid
            if sign == signal.SIGSTOP:
                stand_still(pid)
            else:
                os.kill(pid, sign)
            if victim == "client":
                return self.lose_client(client, hold, sign)
            hold.unlink()
            return self.lose_task(client, victim, sign, timeout_ms)
        finally:
            hold.unlink(missing_ok=True)
            client.kill()

    def lose_client(self, client, hold, sign):
        if sign == signal.SIGKILL:
            wait_until(lambda: "RunStep" not in self.tasks["master"].status(),
                       "the master notices that its client has gone")
            hold.unlink()
            return None
        hold.unlink()
        wait_until(lambda: "RunStep" not in self.tasks["master"].status(), "the step ends")
        os.kill(client.pid, signal.SIGCONT)
        ended = client.expect("ended")
        client.expect("closed")
        return ended

    def lose_task(self, client, victim, sign, timeout_ms):
        begun = time.monotonic()
        try:
            ended = client.expect("ended", timeout_ms / 1000 + 20)
            late = time.monotonic() - begun - timeout_ms / 1000
            assert late < 10, f"the client waited {late:.1f} s longer than its deadline"
        finally:
            if sign == signal.SIGSTOP:
                self.tasks[victim].process.send_signal(signal.SIGCONT)
            else:
                self.tasks[victim].kill()
                self.start(victim)
        if victim != "master" or sign == signal.SIGSTOP:
            client.expect("closed")
        return ended

    def check_it_works(self):
        """A whole session, from its creation to its end."""
        client = Genuine(step_client, "grpc://" + self.spec["master"][0], 30000)
        try:
            assert client.expect("ended") == FLOATS * 6.0
            client.expect("closed")
        finally:
            client.kill()

    # ---- What is left ----
    def live(self, name):
        """(sessions of clients, sessions of masters, graphs, steps, calls); the last of the calls
        is the question itself."""
        line = re.search(r"^live: (.*)$", self.tasks[name].status(), re.MULTILINE).group(1)
        return [int(number) for number in re.findall(r"\d+", line)]

    def wait_until_clean(self, names):
        for name in names:
            wait_until(lambda: self.live(name) == [0, 0, 0, 0, 1],
                       f"{name} has nothing left; it has {self.live(name)}")

    def resident_kib(self, name):
        text = pathlib.Path(f"/proc/{self.tasks[name].pid}/status").read_text(encoding="ascii")
        return int(re.search(r"VmRSS:\s+(\d+)", text).group(1))


def every_fault(survivor, count):
    """(victim, phase, signal) of everybody but the survivor, in turn."""
    faults = itertools.product((signal.SIGKILL, signal.SIGSTOP), PHASES,
                               [victim for victim in VICTIMS if victim != survivor])
    return [(victim, phase, sign) for sign, phase, victim
            in itertools.islice(itertools.cycle(faults), count)]


def run_rounds(folder, faults, survivors=(), timeout_ms=1500):
    """A round for each of the faults; the survivors end up as they were after the first of them,
    which fill pools and caches."""
    rounds = Round(folder)
    try:
        before = {}
        for number, (victim, phase, sign) in enumerate(faults):
            if number == WARM:
                rounds.check_it_works()
                before = {name: rounds.resident_kib(name) for name in survivors}
            ended = rounds.run(victim, phase, sign, timeout_ms)
            assert ended in ENDS[victim == "client"], f"{victim} {phase} {sign}: {ended}"
        rounds.check_it_works()
        rounds.wait_until_clean(TASKS)
        assert len(before) == len(survivors)
        for name, was in before.items():
            grown = rounds.resident_kib(name) - was
            assert SANITIZED or grown < ALLOWED_GROWTH_KIB, f"{name} has grown by {grown} KiB"
    except BaseException:
        for task in rounds.tasks.values():
            task.process.kill()
        raise
    rounds.stop()
