"""The C examples on small local clusters: asynchronous and synchronous training, continued from a
checkpoint, with the parameter server killed, and with mistakes on the command line.

usage: test_examples.py EXAMPLES_FOLDER
"""

import gzip
import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import ports  # noqa: E402
from killing import COMMAND, EXAMPLES, LIMIT, SANITIZED, run_and_kill  # noqa: E402

SOURCE = pathlib.Path(__file__).resolve().parents[3]


def launch(*command, ps=1, workers=2, options=()):
    return subprocess.run([COMMAND, "launch", "--ps", str(ps), "--workers", str(workers), *options,
                           "--", *map(str, command)],
                          capture_output=True, text=True, timeout=LIMIT, check=False)


def write_digits(folder, count):
    """Writes the four files of MNIST with only `count` black images each."""
    for name in ("train", "t10k"):
        with gzip.open(folder / f"{name}-images-idx3-ubyte.gz", "wb", 1) as file:
            file.write(struct.pack(">IIII", 0x803, count, 28, 28) + bytes(count * 28 * 28))
        with gzip.open(folder / f"{name}-labels-idx1-ubyte.gz", "wb", 1) as file:
            file.write(struct.pack(">II", 0x801, count) + bytes(i % 10 for i in range(count)))


class ExampleTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def check(self, result, pattern):
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertRegex(result.stdout, pattern)
        self.assertNotIn("Sanitizer", result.stdout + result.stderr)

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
                self.check(result, r"worker 0 \| test accuracy (8[89]|9\d)\.\d+ %")

    def test_other_models(self):
        data = SOURCE / "data" / "mnist"
        cnn = launch(EXAMPLES / "mnist_cnn", "--data", data, "--steps", "60", "--batch", "32",
                     "--dir", self.folder, ps=2)
        self.check(cnn, r"worker 0 \| test accuracy [789]\d\.\d+ % after 6\d steps")
        lstm = launch(EXAMPLES / "lstm", "--data", data, "--steps", "60", "--sync")
        self.check(lstm, r"worker 0 \| test accuracy [3-9]\d\.\d+ % after 60 steps")
        words = launch(EXAMPLES / "word2vec", "--data", SOURCE / "CONTRIBUTING.md", "--steps",
                       "600", ps=2)
        self.check(words, r"worker 0 \| \w+:( \w+){5}\n")

    @unittest.skipUnless(SANITIZED, "only a sanitizer sees it")
    def test_every_model_leaves_no_memory_behind(self):
        write_digits(self.folder, 1000)
        data = ["--data", self.folder]
        models = {"linreg": [], "mnist_softmax": data, "mnist_cnn": [*data, "--batch", "8"],
                  "lstm": [*data, "--batch", "8"],
                  "word2vec": ["--data", SOURCE / "CONTRIBUTING.md"]}
        for model, options in models.items():
            for sync in ([], ["--sync"]):
                with self.subTest(model=model, sync=sync):
                    folder = self.folder / "-".join([model, *sync])
                    result = launch(EXAMPLES / model, "--steps", "4", "--dir", folder, *options,
                                    *sync)
                    self.check(result, r"worker 0 \| .")

    def test_make_run(self):
        result = subprocess.run([SOURCE / "tools" / "run-mnist", EXAMPLES.parent],
                                capture_output=True, text=True, timeout=LIMIT, check=False,
                                env={**os.environ, "STEPS": "20"})
        self.check(result, r"worker 0 \| test accuracy \d+\.\d+ % after 2\d steps\n")
        self.assertRegex(result.stdout, r"progress \| step 20 of 20  100 %.*accuracy.*staleness")
        self.assertIn("What to type next", result.stdout)
        self.assertTrue((EXAMPLES.parent / "run" / "mnist" / "checkpoint").exists())

    def test_killed_server(self):
        run_and_kill("ps 0", self.folder, "--steps", "6000")

    def test_checkpoint_of_another_model(self):
        first = launch(EXAMPLES / "linreg", "--dir", self.folder, "--steps", "10")
        self.check(first, r"after 1\d steps")
        second = launch(EXAMPLES / "mnist_softmax", "--data", SOURCE / "data" / "mnist", "--dir",
                        self.folder)
        self.assertEqual(second.returncode, 1, second)
        failure, = [line for line in second.stderr.splitlines() if "failed" in line]
        self.assertRegex(failure, r"worker 0 \| training failed: .*softmax/\w+ not found")

    def test_mistakes(self):
        for arguments, code, expected in [
            (["linreg", "--step", "3"], 2, "there is no option --step"),
            (["linreg", "--steps"], 2, "a value is missing after --steps"),
            (["linreg", "--steps", "x"], 2, "give a number above 0 after --steps"),
            (["linreg", "--replicas", "0"], 2, "give a number above 0 after --replicas"),
            (["linreg", "extra"], 2, "there is no option extra"),
            (["linreg", "--dir", "/etc/passwd"], 1, "/etc/passwd"),
            (["mnist_softmax", "--data", "/no/such/folder"], 1, "/no/such/folder"),
            (["mnist_cnn", "--data", "/no/such/folder"], 1, "/no/such/folder"),
            (["lstm", "--data", "/no/such/folder"], 1, "/no/such/folder"),
            (["word2vec", "--data", "/no/such/file"], 1, "/no/such/file"),
            (["word2vec", "--data", "/tmp"], 1, "/tmp: Is a directory"),
            (["hello", "--help"], 2, "usage: hello [grpc://HOST:PORT]"),
            (["hello", "grpc://localhost:1"], 1, "localhost:1"),
        ]:
            with self.subTest(arguments=arguments):
                result = subprocess.run([EXAMPLES / arguments[0], *arguments[1:]], text=True,
                                        capture_output=True, timeout=LIMIT, check=False)
                self.assertEqual((result.returncode, result.stdout), (code, ""))
                self.assertRegex(result.stderr, r"\A[^\n]+\n\Z")
                self.assertIn(expected, result.stderr)

    def test_mistakes_in_the_cluster(self):
        port = ports.free_port()
        with socket.socket() as other:
            other.bind(("127.0.0.1", port))
            other.listen()
            cluster = {"worker": [f"localhost:{port}"]}
            for config, expected in [
                ('{"cluster": {"ps": 3}}', "TF_CONFIG"),
                ("{bad", "TF_CONFIG: not JSON at line 1"),
                (json.dumps({"cluster": cluster}), '"task" is missing'),
                (json.dumps({"cluster": cluster, "task": {"type": "wroker", "index": 0}}),
                 'no job "wroker" (it has: worker)'),
                (json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 7}}),
                 "no task 7"),
                (json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}}),
                 f"{port}: Address already in use"),
            ]:
                with self.subTest(config=config):
                    result = subprocess.run([EXAMPLES / "linreg"], text=True, capture_output=True,
                                            timeout=LIMIT, check=False,
                                            env={**os.environ, "TF_CONFIG": config})
                    self.assertEqual((result.returncode, result.stdout), (1, ""))
                    self.assertRegex(result.stderr, r"\A[^\n]+\n\Z")
                    self.assertIn(expected, result.stderr)
                    self.assertNotIn("TF_CONFIG: TF_CONFIG", result.stderr)


if __name__ == "__main__":
    unittest.main()
