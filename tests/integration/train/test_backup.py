"""Synchronous training with a backup worker. Each update takes the first two gradients that arrive
from three workers, so that training goes on when one worker is stopped or killed.

usage: test_backup.py EXAMPLES_FOLDER
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import ports  # noqa: E402
from killing import EXAMPLES, LIMIT  # noqa: E402

STEPS = 2000


class Task:
    """One process of the cluster, with its output."""

    def __init__(self, cluster, job, index):
        config = {"cluster": cluster, "task": {"type": job, "index": index}}
        self.process = subprocess.Popen(
            [EXAMPLES / "linreg", "--sync", "--replicas", "2", "--steps", str(STEPS)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "TF_CONFIG": json.dumps(config)})
        self.lines, self.has_trained = [], threading.Event()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line)
            if line.startswith("step "):
                self.has_trained.set()

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        """The exit code and all the output."""
        code = self.process.wait(timeout=LIMIT)
        self.reader.join()
        return code, "".join(self.lines)

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()


class BackupTest(unittest.TestCase):
    def setUp(self):
        addresses = [f"localhost:{port}" for port in ports.free_ports(4)]
        cluster = {"ps": addresses[:1], "worker": addresses[1:]}
        self.server = Task(cluster, "ps", 0)
        self.workers = [Task(cluster, "worker", i) for i in range(3)]
        for task in [self.server, *self.workers]:
            self.addCleanup(task.stop)
        for worker in self.workers:
            self.assertTrue(worker.has_trained.wait(LIMIT), worker.lines)

    def check_answer(self, worker):
        code, output = worker.end()
        self.assertEqual(code, 0, output)
        self.assertIn("W = 0.100, b = 0.300 after", output)

    def test_a_worker_that_stands_still(self):
        self.workers[2].signal(signal.SIGSTOP)
        self.check_answer(self.workers[0])
        self.check_answer(self.workers[1])
        # The worker finds that training is done and ends, and then the parameter server ends.
        self.workers[2].signal(signal.SIGCONT)
        code, output = self.workers[2].end()
        self.assertEqual(code, 0, output)
        self.assertEqual(self.server.end()[0], 0)

    def test_a_worker_that_dies(self):
        self.workers[2].signal(signal.SIGKILL)
        self.assertEqual(self.workers[2].end()[0], -signal.SIGKILL)
        self.check_answer(self.workers[0])
        self.check_answer(self.workers[1])


if __name__ == "__main__":
    unittest.main()
