"""A cluster of the program `counting` whose tasks are killed, stopped and cut off. Shared by the
tests of this folder and tests/faults. Tasks are processes of this one: no launcher is needed."""

import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import ports  # noqa: E402

PROGRAM = pathlib.Path(sys.argv.pop() if len(sys.argv) > 1 else "build/tests/integration/train/counting")
COMMAND = os.environ.get("DOWNPOUR", "build/downpour")
SANITIZED = any(name in os.environ for name in ("ASAN_OPTIONS", "TSAN_OPTIONS"))
LIMIT = 600 if SANITIZED else 60  # seconds that a job may take; a hang is a failure
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with a reset


def wait_until(is_true, what, seconds=LIMIT):
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end, f"not in {seconds} s: {what}"
        time.sleep(0.02)


class Proxy:
    """Passes TCP connections on to a port of this machine, and can reset all of them."""

    def __init__(self, port):
        self.target, self.pairs, self.lock = port, [], threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near = self.listener.accept()[0]
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                near.close()
                continue
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.pairs.append((near, far))
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self.copy, args=[source, sink], daemon=True).start()

    @staticmethod
    def copy(source, sink):
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            for end in (source, sink):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def reset(self):
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for ends in pairs:
            for end in ends:
                try:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                    end.shutdown(socket.SHUT_RDWR)
                    end.close()
                except OSError:
                    pass
        return len(pairs)

    def stop(self):
        self.listener.close()
        self.reset()


class Task:
    """One process of the cluster, with its output."""

    def __init__(self, cluster, job, index, arguments, environment):
        config = {"cluster": cluster, "task": {"type": job, "index": index}}
        self.name = f"{job} {index}"
        self.process = subprocess.Popen(
            [PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "TF_CONFIG": json.dumps(config), **environment})
        self.lines, self.step = [], -1
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line)
            if line.startswith("at "):
                self.step = int(line[3:])

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.reader.join(10)
        self.process.stdout.close()

    @property
    def output(self):
        return "".join(self.lines)

    def steps(self):
        return [int(line[3:]) for line in self.lines if line.startswith("at ")]

    def end(self, seconds=LIMIT):
        """The exit code."""
        code = self.process.wait(timeout=seconds)
        self.reader.join(10)
        return code

    def counts(self):
        """(global step, first, second) at the end."""
        match = re.search(r"^end (\d+) (\d+) (\d+)$", self.output, re.MULTILINE)
        assert match, f"{self.name}:\n{self.output[-3000:]}"
        return tuple(map(int, match.groups()))


class Job:
    """All tasks of a job, but those that are `missing`. `through` names parameter servers that the
    chief reaches by a proxy."""

    def __init__(self, servers, workers, arguments, through=(), missing=(), **environment):
        found = ports.free_ports(servers + workers)
        addresses = [f"localhost:{port}" for port in found]
        self.cluster = {"ps": addresses[:servers], "worker": addresses[servers:]}
        self.proxies = {index: Proxy(found[index]) for index in through}
        self.arguments = [str(argument) for argument in arguments]
        self.environment = environment
        self.tasks, self.past = {}, []
        for job, count in (("ps", servers), ("worker", workers)):
            for index in range(count):
                if (job, index) not in missing:
                    self.start(job, index)

    def start(self, job, index, *arguments):
        """Arguments of the task's own come after those of all and prevail."""
        cluster = self.cluster
        if (job, index) == ("worker", 0):
            cluster = {**cluster, "ps": [f"localhost:{self.proxies[i].port}" if i in self.proxies
                                         else address for i, address in enumerate(cluster["ps"])]}
        task = Task(cluster, job, index, [*self.arguments, *arguments], self.environment)
        self.tasks[job, index] = task
        return task

    def __getitem__(self, name):
        return self.tasks[name]

    @property
    def chief(self):
        return self.tasks["worker", 0]

    def wait_for_step(self, step):
        wait_until(lambda: self.chief.step >= step or self.chief.process.poll() is not None,
                   f"step {step}; {self.describe()}")

    def wait_for_more(self, steps=20):
        """The chief makes that number of steps from now on."""
        self.wait_for_step(self.chief.step + steps)

    def kill(self, job, index):
        self.tasks[job, index].kill()
        self.past.append(self.tasks[job, index])

    def restart(self, job, index, after=0.0):
        self.kill(job, index)
        time.sleep(after)
        return self.start(job, index)

    def stop_for(self, job, index, seconds):
        pid = self.tasks[job, index].process.pid
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)

    def end(self, seconds=LIMIT):
        """Every task ends with 0; what the chief counted."""
        until = time.monotonic() + seconds
        for task in self.tasks.values():
            try:
                code = task.end(max(1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise AssertionError(f"{task.name} does not end; {self.describe()}") from None
            assert code == 0, f"{task.name} ended with {code}; {self.describe()}"
        return self.chief.counts()

    def describe(self):
        return "".join(f"\n---- {task.name}, {task.process.poll()}:\n{task.output[-1500:]}"
                       for task in [*self.past, *self.tasks.values()])

    def close(self):
        for task in self.tasks.values():
            if task.process.poll() is None:
                task.process.send_signal(signal.SIGCONT)
            task.kill()
        for proxy in self.proxies.values():
            proxy.stop()


def rollbacks(*tasks):
    """How often the step went back in what these processes printed, one after the other."""
    steps = [step for task in tasks for step in task.steps()]
    return sum(after < before for before, after in zip(steps, steps[1:]))
