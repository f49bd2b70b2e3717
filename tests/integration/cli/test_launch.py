"""`downpour launch` with shell scripts as the program. Shows what each task gets in TF_CONFIG, how
output is passed on, when tasks are restarted, and how and with which exit code the job ends."""

import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import ports  # noqa: E402

COMMAND = os.environ.get("DOWNPOUR", "build/downpour")
# Sets $who to the script's own task, "ps 0" or "worker 1".
WHO = r'''
job=${TF_CONFIG#*\"type\": \"}; job=${job%%\"*}
index=${TF_CONFIG#*\"index\": }; index=${index%%\}*}
who="$job $index"
'''


def launch(*options, script="", timeout=60, **environment):
    return subprocess.run([COMMAND, "launch", *options, "--", "sh", "-c", WHO + script, "sh"],
                          capture_output=True, text=True, timeout=timeout,
                          env={**os.environ, **environment})


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("waited in vain")
        time.sleep(0.02)


class LaunchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_ports_are_kept_for_the_tasks(self):
        """No other process gets a task's port while the task is not listening."""
        script = f'echo "$TF_CONFIG" > {self.folder}/config; sleep 60'
        with subprocess.Popen([COMMAND, "launch", "--ps", "0", "--workers", "1", "--", "sh", "-c",
                               script]) as process:
            config = self.folder / "config"
            wait_until(lambda: config.exists() and config.read_text().endswith("\n"))
            address = json.loads(config.read_text())["cluster"]["worker"][0]
            port = int(address.rsplit(":", 1)[1])
            self.assertNotIn(port, ports.system_range())
            self.assertFalse(ports.hold(port))
            process.send_signal(signal.SIGINT)
        self.assertTrue(ports.hold(port))

    def test_every_task_gets_its_own_config(self):
        result = launch("--ps", "2", "--workers", "3", script='echo "$TF_CONFIG"')
        self.assertEqual(result.returncode, 0, result)
        seen, clusters = set(), []
        for line in result.stdout.splitlines():
            name, text = re.fullmatch(r"(\w+ \d) +\| (.*)", line).groups()
            config = json.loads(text)
            self.assertEqual(name, f"{config['task']['type']} {config['task']['index']}")
            seen.add(name)
            clusters.append(config["cluster"])
        self.assertEqual(seen, {"ps 0", "ps 1", "worker 0", "worker 1", "worker 2"})
        self.assertTrue(all(cluster == clusters[0] for cluster in clusters))
        addresses = clusters[0]["ps"] + clusters[0]["worker"]
        self.assertEqual((len(clusters[0]["ps"]), len(set(addresses))), (2, 5))
        self.assertTrue(all(re.fullmatch(r"localhost:\d+", address) for address in addresses))

    def test_no_parameter_servers(self):
        result = launch("--ps", "0", "--workers", "1", script='echo "$TF_CONFIG"')
        config = json.loads(result.stdout.split("| ", 1)[1])
        self.assertEqual(list(config["cluster"]), ["worker"])

    def test_streams_stay_apart_and_lines_whole(self):
        result = launch("--ps", "0", "--workers", "1",
                        script='printf out; printf err >&2; printf "put\\nlast"; echo or >&2')
        self.assertEqual(result.stdout, "worker 0 | output\nworker 0 | last\n")
        self.assertIn("worker 0 | error\n", result.stderr)

    def test_code_of_the_chief(self):
        result = launch("--workers", "1", script='[ $job = ps ] && sleep 60; exit 7')
        self.assertEqual(result.returncode, 7)
        self.assertIn("worker 0, the chief, ended with 7", result.stderr)

    def test_all_end_with_the_chief(self):
        began = time.monotonic()
        result = launch("--ps", "2", "--workers", "2", "--grace", "100ms", script=f'''
            echo $$ >{self.folder}/"$who"
            [ "$who" = "worker 0" ] || {{ sleep 300; exit; }}
            until [ "$(cat {self.folder}/* | wc -l)" = 4 ]; do sleep 0.05; done''')
        self.assertEqual(result.returncode, 0, result)
        self.assertLess(time.monotonic() - began, 60)
        self.assertIn("worker 1 still runs 0.1 s after the chief's end; ending it", result.stderr)
        for file in self.folder.iterdir():
            self.assertFalse(alive(file.read_text().strip()), file.name)

    def test_servers_that_never_end(self):
        began = time.monotonic()
        result = launch("--workers", "2", "--grace", "300s",
                        script="[ $job = ps ] && exec sleep 300; exit 0")
        self.assertEqual(result.returncode, 0, result)
        self.assertLess(time.monotonic() - began, 100)

    def test_others_may_finish(self):
        result = launch("--ps", "0", "--workers", "2", script=f'''
            [ $index = 0 ] && {{ touch {self.folder}/ended; exit; }}
            while [ ! -e {self.folder}/ended ]; do sleep 0.05; done
            sleep 0.3; echo finished''')
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("worker 1 | finished\n", result.stdout)

    def test_failure_of_another_task_ends_all(self):
        result = launch("--workers", "2", script='[ "$who" = "worker 1" ] && exit 5; sleep 300')
        self.assertEqual(result.returncode, 5)
        self.assertIn("worker 1 ended with 5; ending the others", result.stderr)

    def test_restart(self):
        script = f'''
            [ $job = ps ] && exec sleep 300
            if [ "$who" = "worker 1" ] && [ ! -e {self.folder}/again ]; then
              touch {self.folder}/again; kill -9 $$
            fi
            [ "$who" = "worker 1" ] && touch {self.folder}/done
            while [ ! -e {self.folder}/done ]; do sleep 0.05; done'''
        result = launch("--restart", "--grace", "1s", script=script)
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("worker 1 was ended by a signal (Killed); starting it again (1 of 10)",
                      result.stderr)

    def test_restart_limit(self):
        result = launch("--ps", "0", "--workers", "1", "--restart", "--restart-limit", "2",
                        script="echo try; exit 3")
        self.assertEqual(result.returncode, 3)
        self.assertEqual(result.stdout, "worker 0 | try\n" * 3)

    def check_signal(self, number, code):
        process = subprocess.Popen(
            [COMMAND, "launch", "--ps", "1", "--workers", "1", "--", "sh", "-c",
             WHO + f"trap 'exit 9' {int(number)}; touch {self.folder}/${{job}}{int(number)}; "
             "while :; do sleep 0.05; done"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            wait_until(lambda: all((self.folder / f"{job}{int(number)}").exists()
                                   for job in ("ps", "worker")))
            process.send_signal(number)
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, code)
        finally:
            process.kill()
            process.communicate()

    def test_signals_are_passed_on(self):
        self.check_signal(signal.SIGTERM, 9)
        self.check_signal(signal.SIGINT, 9)

    def test_tasks_die_with_the_launcher(self):
        process = subprocess.Popen([COMMAND, "launch", "--workers", "1", "--", "sh", "-c",
                                    WHO + f"echo $$ >{self.folder}/$job; exec sleep 300"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        files = [self.folder / "ps", self.folder / "worker"]
        wait_until(lambda: all(file.exists() and file.read_text().strip() for file in files))
        process.kill()
        process.wait()
        wait_until(lambda: not any(alive(file.read_text().strip()) for file in files))

    def test_quiet(self):
        result = launch("--quiet", "--workers", "1", script='echo "$who"')
        self.assertEqual((result.stdout, result.stderr), ("worker 0 | worker 0\n", ""))


class ProgressTest(unittest.TestCase):
    SCRIPT = 'echo "step=$1 last=200 local=5 loss=0.25 accuracy=0.5" >&$DOWNPOUR_PROGRESS_FD'

    def test_plain_line_at_the_end(self):
        result = launch("--ps", "0", "--workers", "1", script=self.SCRIPT.replace("$1", "200"))
        self.assertRegex(result.stdout, r"\Aprogress \| step 200 of 200  100 %")
        self.assertIn("loss  0.2500  accuracy  50.0 %", result.stdout)

    def test_display_goes_on_after_a_restore(self):
        result = launch("--ps", "0", "--workers", "2", script='''
            record() { echo "step=$1 last=200 local=5" >&$DOWNPOUR_PROGRESS_FD; }
            record 150; sleep 1
            [ $index = 0 ] && { record 60; sleep 0.2; record 61; }; sleep 1''')
        self.assertRegex(result.stdout, r"progress \| step 150 of 200")
        self.assertRegex(result.stdout, r"progress \| step 61 of 200")

    def test_nonsense_is_ignored(self):
        result = launch("--ps", "0", "--workers", "1",
                        script="echo 'step= = x step=abc loss' >&$DOWNPOUR_PROGRESS_FD")
        self.assertEqual((result.returncode, result.stdout), (0, ""))

    def test_panel_on_a_terminal(self):
        controller, terminal = pty.openpty()
        process = subprocess.Popen([COMMAND, "launch", "--ps", "0", "--workers", "1", "--", "sh",
                                    "-c", self.SCRIPT.replace("$1", "50") + "; echo said"],
                                   stdout=terminal, stderr=terminal,
                                   env={**os.environ, "NO_COLOR": "1"})
        os.close(terminal)
        output = b""
        try:
            while chunk := os.read(controller, 4096):
                output += chunk
        except OSError:  # the end of a terminal
            pass
        os.close(controller)
        self.assertEqual(process.wait(timeout=60), 0)
        text = output.decode()
        self.assertIn("███████▌", text)
        self.assertIn("step 50 of 200   25 %", text)
        self.assertIn("worker 0 | said\r\n", text)


class UsageTest(unittest.TestCase):
    def test_mistakes(self):
        for arguments, code, expected in [
            ([], 2, "which program?"),
            (["--workers", "0", "--", "true"], 2, "--workers"),
            (["--ps", "x", "--", "true"], 2, "--ps"),
            (["--worker", "1", "--", "true"], 2, "--workers"),
            (["--color", "red", "--", "true"], 2, "auto, always or never"),
            (["--", "/no/such/program"], 2, "/no/such/program cannot be run"),
        ]:
            with self.subTest(arguments=arguments):
                result = subprocess.run([COMMAND, "launch", *arguments], capture_output=True,
                                        text=True, timeout=60)
                self.assertEqual((result.returncode, result.stdout), (code, ""), result)
                self.assertRegex(result.stderr, r"\Adownpour: [^\n]+\n\Z")
                self.assertIn(expected, result.stderr)

    def test_help(self):
        result = subprocess.run([COMMAND, "launch", "--help"], capture_output=True, text=True,
                                timeout=60)
        self.assertEqual(result.returncode, 0)
        self.assertIn("--restart-limit", result.stdout)


if __name__ == "__main__":
    unittest.main()
