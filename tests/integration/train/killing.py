"""Runs an example under `downpour launch --restart` and kills one of its tasks on the way. Shared by
the tests of this folder and tests/faults."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import threading

EXAMPLES = pathlib.Path(sys.argv.pop() if len(sys.argv) > 1 else "build/examples")
COMMAND = os.environ.get("DOWNPOUR", "build/downpour")
SANITIZED = any(name in os.environ for name in ("ASAN_OPTIONS", "TSAN_OPTIONS"))
LIMIT = 1200 if SANITIZED else 400


def task_of(pid):
    """The task of a process, such as "ps 0", read from its TF_CONFIG; None if it has none."""
    try:
        environment = pathlib.Path(f"/proc/{pid}/environ").read_text(encoding="utf-8")
    except OSError:
        return None
    match = re.search(r'"type": "(\w+)", "index": (\d+)', environment)
    return match and " ".join(match.groups())


def kill_task(launcher, task):
    """Kills the launcher's child process that is this task."""
    children = pathlib.Path(f"/proc/{launcher}/task/{launcher}/children")
    for pid in children.read_text(encoding="ascii").split():
        if task_of(pid) == task:
            os.kill(int(pid), signal.SIGKILL)


def run_and_kill(victim, folder, *arguments):
    """Trains linreg and kills the task after some 300 steps. The launcher must restart the task, and
    the job must end with the right weights."""
    process = subprocess.Popen([COMMAND, "launch", "--ps", "1", "--workers", "2", "--restart",
                                "--", EXAMPLES / "linreg", "--dir", folder, *arguments],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    guard = threading.Timer(LIMIT, process.kill)
    guard.start()
    lines, killed = [], False
    try:
        for line in process.stdout:
            lines.append(line)
            if not killed and re.search(r"step [3-9]\d\d: ", line):
                kill_task(process.pid, victim)
                killed = True
        code = process.wait(timeout=LIMIT)
    finally:
        guard.cancel()
        process.kill()
        process.wait()
        process.stdout.close()
    output = "".join(lines)
    assert code == 0, output
    assert f"{victim} was ended by a signal (Killed); starting it again" in output, output
    assert re.search(r"worker 0 \| W = 0\.100, b = 0\.300 after", output), output
