"""The C examples on small local clusters: async and sync, restarted, with tasks killed.

usage: test_examples.py EXAMPLES_FOLDER
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

EXAMPLES = pathlib.Path(sys.argv.pop() if len(sys.argv) > 1 else "build/examples")
COMMAND = os.environ.get("DOWNPOUR", "build/downpour")
SOURCE = pathlib.Path(__file__).resolve().parents[3]
LIMIT = 150


def launch(*command, ps=1, workers=2, options=()):
    return subprocess.run([COMMAND, "launch", "--ps", str(ps), "--workers", str(workers), *options,
                           "--", *map(str, command)],
                          capture_output=True, text=True, timeout=LIMIT, check=False)


def task_of(pid):
    """Which task a process is, by its TF_CONFIG: "ps 0"; None if it is none."""
    try:
        environment = pathlib.Path(f"/proc/{pid}/environ").read_text(encoding="utf-8")
    except OSError:
        return None
    match = re.search(r'"type": "(\w+)", "index": (\d+)', environment)
    return match and " ".join(match.groups())


def children(pid):
    return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()


class ExampleTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def check(self, result, pattern):
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertRegex(result.stdout, pattern)

    def test_linreg_alone(self):
        result = subprocess.run([EXAMPLES / "linreg"], capture_output=True, text=True,
                                timeout=LIMIT, check=False)
        self.check(result, r"\nW = 0\.100, b = 0\.300 after 1000 steps\n\Z")

    def test_linreg_async(self):
        result = launch(EXAMPLES / "linreg", "--dir", self.folder)
        self.check(result, r"worker 0 \| W = 0\.100, b = 0\.300 after 100\d steps\n")
        self.assertRegex(result.stdout, r"worker 1 \| W = 0\.100")
        self.assertTrue((self.folder / "checkpoint").exists())
        self.assertEqual(len(list(self.folder.glob("model.ckpt-*.index"))), 5)
        self.assertEqual(len(list(self.folder.glob("events.out.tfevents.*"))), 1)

    def test_linreg_sync(self):
        result = launch(EXAMPLES / "linreg", "--sync", ps=2, workers=3)
        self.check(result, r"worker 0 \| W = 0\.100, b = 0\.300 after 1000 steps\n")

    def test_started_again_it_goes_on(self):
        first = launch(EXAMPLES / "linreg", "--dir", self.folder, "--steps", "300", workers=1)
        self.check(first, r"after 300 steps")
        second = launch(EXAMPLES / "linreg", "--dir", self.folder, "--steps", "1000", workers=1)
        self.check(second, r"W = 0\.100, b = 0\.300 after 1000 steps")
        self.assertNotIn("step 100:", second.stdout)
        self.assertIn("step 400:", second.stdout)

    def test_softmax(self):
        for options in ([], ["--sync"]):
            with self.subTest(options=options):
                result = launch(EXAMPLES / "mnist_softmax", "--data", SOURCE / "data" / "mnist",
                                "--steps", "400", *options)
                self.check(result, r"worker 0 \| test accuracy 9[01]\.\d+ %")

    def test_other_models(self):
        data = SOURCE / "data" / "mnist"
        cnn = launch(EXAMPLES / "mnist_cnn", "--data", data, "--steps", "60", "--batch", "32",
                     "--dir", self.folder, ps=2)
        self.check(cnn, r"worker 0 \| test accuracy [789]\d\.\d+ % after 6\d steps")
        lstm = launch(EXAMPLES / "lstm", "--data", data, "--steps", "60", "--sync")
        self.check(lstm, r"worker 0 \| test accuracy [3-9]\d\.\d+ % after 60 steps")
        words = launch(EXAMPLES / "word2vec", "--data", SOURCE / "CONTRIBUTING.md", "--steps",
                       "600", ps=2)
        self.check(words, r"worker 0 \| tests:( \w+){5}\n")

    def kill_one(self, victim, *arguments):
        """Kills a task with steps done; the job must end well all the same."""
        process = subprocess.Popen([COMMAND, "launch", "--ps", "1", "--workers", "2", "--restart",
                                    "--", EXAMPLES / "linreg", "--dir", self.folder, *arguments],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        guard = threading.Timer(LIMIT, process.kill)
        guard.start()
        lines = []
        try:
            for line in process.stdout:
                lines.append(line)
                if victim and re.search(r"step [3-9]\d\d: ", line):
                    for pid in children(process.pid):
                        if task_of(pid) == victim:
                            os.kill(int(pid), signal.SIGKILL)
                    self.assertIn("step", line)
                    killed, victim = victim, None
            code = process.wait(timeout=30)
        finally:
            guard.cancel()
            process.kill()
            process.wait()
            process.stdout.close()
        output = "".join(lines)
        self.assertEqual(code, 0, output)
        self.assertIn(f"{killed} was ended by a signal (Killed); starting it again", output)
        self.assertRegex(output, r"worker 0 \| W = 0\.100, b = 0\.300 after")

    def test_killed_worker(self):
        self.kill_one("worker 1", "--steps", "6000")

    def test_killed_server(self):
        self.kill_one("ps 0", "--steps", "6000")

    def test_killed_chief(self):
        self.kill_one("worker 0", "--steps", "6000")

    def test_mistakes(self):
        for arguments, code, expected in [
            (["linreg", "--step", "3"], 2, "there is no option --step"),
            (["linreg", "--steps"], 2, "a value is missing after --steps"),
            (["linreg", "--steps", "x"], 2, "give a number above 0 after --steps"),
            (["mnist_softmax", "--data", "/no/such/folder"], 1, "/no/such/folder"),
        ]:
            with self.subTest(arguments=arguments):
                result = subprocess.run([EXAMPLES / arguments[0], *arguments[1:]], text=True,
                                        capture_output=True, timeout=LIMIT, check=False)
                self.assertEqual((result.returncode, result.stdout), (code, ""))
                self.assertRegex(result.stderr, r"\A[^\n]+\n\Z")
                self.assertIn(expected, result.stderr)
        result = subprocess.run([EXAMPLES / "linreg"], text=True, capture_output=True,
                                timeout=LIMIT, check=False,
                                env={**os.environ, "TF_CONFIG": '{"cluster": {"ps": 3}}'})
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"\A[^\n]*TF_CONFIG[^\n]+\n\Z")


if __name__ == "__main__":
    unittest.main()
