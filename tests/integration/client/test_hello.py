"""The example hello.c with a session on a server, with a session in its own process, and with a
target that is not valid.

usage: test_hello.py HELLO
"""

import os
import signal
import subprocess
import sys
import unittest

HELLO = sys.argv.pop() if len(sys.argv) > 1 else "build/examples/hello"
DOWNPOUR = os.environ.get("DOWNPOUR", "build/downpour")
SUMS = "".join(f"hello, world: {number} + 40 = {number + 40}\n" for number in range(3))


def hello(*arguments):
    """Runs the example; gives its exit code, standard output and standard error."""
    run = subprocess.run([HELLO, *arguments], capture_output=True, text=True, timeout=60,
                         check=False)
    return run.returncode, run.stdout, run.stderr


class HelloTest(unittest.TestCase):
    def test_on_a_server(self):
        server = subprocess.Popen([DOWNPOUR, "serve", "--port", "0"], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True)
        try:
            line = server.stdout.readline()
            self.assertTrue(line.startswith("Started server with target: grpc://"), line)
            target = line.split()[-1]
            for _ in range(2):
                code, output, errors = hello(target)
                self.assertEqual(code, 0, errors)
                self.assertEqual(output,
                                 "device: /job:local/replica:0/task:0/device:CPU:0\n" + SUMS)
            server.send_signal(signal.SIGTERM)
            self.assertEqual(server.wait(timeout=30), 0)
        finally:
            server.kill()
            server.wait()
            server.stdout.close()

    def test_in_its_own_process(self):
        code, output, errors = hello()
        self.assertEqual(code, 0, errors)
        self.assertEqual(output,
                         "device: /job:localhost/replica:0/task:0/device:CPU:0\n" + SUMS)

    def test_target_that_is_none(self):
        code, output, errors = hello("nowhere")
        self.assertEqual((code, output, errors), (2, "", "usage: hello [grpc://HOST:PORT]\n"))


if __name__ == "__main__":
    unittest.main()
