"""`downpour serve` from the command line: what it prints, on which addresses it listens, how it ends
and with which exit code, and the messages for mistakes, --help and the manual pages."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from ports import free_port  # noqa: E402

COMMAND = os.environ.get("DOWNPOUR", "build/downpour")
READY = re.compile(r"^Started server with target: grpc://(\S+):(\d+)$")
SANITIZED = any(name in os.environ for name in ("ASAN_OPTIONS", "TSAN_OPTIONS"))


def run(*arguments, **environment):
    variables = {key: value for key, value in os.environ.items() if key != "TF_CONFIG"}
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, timeout=60,
                          env={**variables, **environment})


class Server:
    """A running `downpour serve` that has printed its ready line."""

    def __init__(self, *arguments, **environment):
        variables = {key: value for key, value in os.environ.items() if key != "TF_CONFIG"}
        self.process = subprocess.Popen([COMMAND, "serve", *arguments], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env={**variables, **environment})
        line = self.process.stdout.readline()
        match = READY.match(line)
        if not match:
            self.process.kill()
            raise AssertionError(f"not ready: {line!r} {self.process.communicate()!r}")
        self.host, self.port = match.group(1), int(match.group(2))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def end(self, number=signal.SIGTERM):
        """Sends a signal and gives the exit code."""
        self.process.send_signal(number)
        self.output, self.errors = self.process.communicate(timeout=60)
        return self.process.returncode


class ServeTest(unittest.TestCase):
    def test_alone_on_a_free_port(self):
        with Server("--port", "0") as server:
            self.assertEqual(server.host, "127.0.0.1")
            socket.create_connection((server.host, server.port), timeout=10).close()
            self.assertEqual(server.end(), 0)
            self.assertEqual(server.output, "")

    def test_interrupt_ends_it_too(self):
        with Server("--port", "0") as server:
            self.assertEqual(server.end(signal.SIGINT), 0)

    def test_the_same_port_again_at_once(self):
        port = free_port()
        with Server("--port", str(port)) as server:
            socket.create_connection(("127.0.0.1", port), timeout=10).close()
            self.assertEqual(server.end(), 0)
        with Server("--port", str(port)) as server:
            self.assertEqual(server.port, port)
            self.assertEqual(server.end(), 0)

    def test_loopback_only_unless_told(self):
        with Server("--port", "0") as server:
            hosts = []
            for table in ("tcp", "tcp6"):
                with open(f"/proc/{server.process.pid}/net/{table}", encoding="ascii") as lines:
                    for _, local, _, state, *_ in map(str.split, lines):
                        if state == "0A" and int(local.split(":")[1], 16) == server.port:
                            hosts.append(local.split(":")[0])
            # 127.0.0.1, or the same as an IPv6 address
            self.assertIn(hosts, [["0100007F"], ["0000000000000000FFFF00000100007F"]])

    def test_bind(self):
        with Server("--port", "0", "--bind", "0.0.0.0") as server:
            self.assertEqual(server.host, "localhost")
            self.assertEqual(server.end(), 0)

    def test_task_of_a_cluster(self):
        ports = free_port(), free_port()
        cluster = '{"ps": ["localhost:%d"], "worker": {"3": "127.0.0.1:%d"}}' % ports
        with Server("--cluster", cluster, "--job", "ps") as ps:
            with Server("--cluster", cluster, "--job", "worker", "--task", "3") as worker:
                self.assertEqual((ps.host, ps.port), ("localhost", ports[0]))
                self.assertEqual((worker.host, worker.port), ("127.0.0.1", ports[1]))
                self.assertEqual(worker.end(), 0)
            self.assertEqual(ps.end(), 0)
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(cluster)
            file.flush()
            with Server("--cluster", "@" + file.name, "--job", "ps", "--port", "0") as ps:
                self.assertNotEqual(ps.port, 0)
                self.assertEqual(ps.end(), 0)

    def test_tf_config(self):
        config = '{"cluster": {"ps": ["localhost:%d"]}, "task": {"type": "ps", "index": 0}}'
        port = free_port()
        with Server(TF_CONFIG=config % port) as server:
            self.assertEqual(server.port, port)
            self.assertEqual(server.end(), 0)
        with Server("--port", "0", TF_CONFIG="not even JSON") as server:
            self.assertEqual(server.end(), 0)

    def test_description_on_a_signal(self):
        with Server("--port", "0") as server:
            server.process.send_signal(signal.SIGUSR1)
            line = server.process.stderr.readline()
            self.assertIn("/job:local/replica:0/task:0 at grpc://127.0.0.1:", line)
            self.assertEqual(server.end(), 0)

    @unittest.skipIf(SANITIZED, "sanitizers need memory of their own")
    def test_memory_at_rest(self):
        with Server("--port", "0") as server:
            with open(f"/proc/{server.process.pid}/status", encoding="ascii") as status:
                resident = int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))
            self.assertLess(resident, 20 * 1024)


class FailureTest(unittest.TestCase):
    def check(self, result, code, expected):
        self.assertEqual(result.returncode, code, result)
        self.assertEqual(result.stdout, "")
        self.assertRegex(result.stderr, r"\Adownpour: [^\n]+\n\Z")
        self.assertIn(expected, result.stderr)

    def test_port_in_use(self):
        with Server("--port", "0") as server:
            self.check(run("serve", "--port", str(server.port)), 1, "Address already in use")

    def test_address_of_another_machine(self):
        cluster = '{"ps": ["192.0.2.1:2222"]}'
        self.check(run("serve", "--cluster", cluster, "--job", "ps"), 1, "--bind")

    def test_usage(self):
        cluster = '{"ps": ["localhost:2222"]}'
        for arguments, expected in [
            (["serve"], "TF_CONFIG"),
            (["serve", "--port", "x"], "--port"),
            (["serve", "--port", "70000"], "--port"),
            (["serve", "--prt", "1"], "--port"),
            (["serve", "more", "--port", "0"], '"more"'),
            (["serve", "--job", "ps"], "--cluster"),
            (["serve", "--cluster", cluster], "--job"),
            (["serve", "--cluster", cluster, "--job", "sp"], "it has: ps"),
            (["serve", "--cluster", cluster, "--job", "ps", "--task", "1"], "no task 1"),
            (["serve", "--cluster", "{", "--job", "ps"], "not JSON"),
            (["serve", "--cluster", "@/no/such/file", "--job", "ps"], "/no/such/file"),
            (["serve", "--port", "0", "--log", "loud"], "loud"),
            (["serve", "--port", "0", "--fault", "x"], "fault"),
            (["srve"], "srve"),
            (["help", "srve"], "srve"),
            (["manual", "srve"], "srve"),
            (["version", "--long"], "--long"),
            (["ops", "--mising"], "--missing"),
            (["ops", "more"], '"more"'),
            (["launch"], "which program?"),
            (["launch", "--workers", "0", "--", "true"], "--workers"),
            (["launch", "--", "/no/such/program"], "/no/such/program"),
            (["status"], "--target"),
            (["status", "--target", "http://localhost:80"], "grpc://HOST:PORT"),
            (["status", "--target", "localhost"], "grpc://HOST:PORT"),
            (["stop", "--target", "grpc://localhost:99999"], "grpc://HOST:PORT"),
        ]:
            with self.subTest(arguments=arguments):
                self.check(run(*arguments), 2, expected)
        with self.subTest("TF_CONFIG"):
            self.check(run("serve", TF_CONFIG="{}"), 2, "cluster")

    def test_nobody_there(self):
        for command in ("status", "stop"):
            result = run(command, "--target", f"grpc://localhost:{free_port()}")
            self.check(result, 1, "refused")

    def test_nothing_to_do(self):
        result = run()
        self.assertEqual(result.returncode, 2)
        self.assertIn("serve", result.stderr)


class HelpTest(unittest.TestCase):
    def test_version(self):
        for name in ("version", "--version"):
            self.assertRegex(run(name).stdout, r"\Adownpour \d+\.\d+\.\d+\n\Z")

    def test_help(self):
        self.assertIn("serve", run("help").stdout)
        self.assertEqual(run("--help").stdout, run("help").stdout)
        explained = run("help", "serve")
        self.assertEqual(explained.returncode, 0)
        self.assertIn("--cluster", explained.stdout)
        self.assertEqual(run("serve", "--help").stdout, explained.stdout)

    def test_manual(self):
        names = [line.split()[0] for line in run("help").stdout.splitlines() if line[:2] == "  "]
        everything = run("manual").stdout
        for name in names:
            with self.subTest(name):
                page = run("manual", name)
                self.assertEqual(page.returncode, 0)
                self.assertIn(f"downpour\\-{name} \\-", page.stdout)
                self.assertIn(f".B {name}\n", everything)
        for option in re.findall(r"^  --([a-z-]+)", run("help", "launch").stdout, re.MULTILINE):
            self.assertIn(f".B \\-\\-{option}".replace("-", "\\-").replace("\\\\-", "\\-"),
                          run("manual", "launch").stdout)


if __name__ == "__main__":
    unittest.main()
