"""An example under `downpour launch --restart` with one of its tasks killed on the way."""

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
    """Which task a process is, by its TF_CONFIG: "ps 0"; None if it is none."""
    try:
        environment = pathlib.Path(f"/proc/{pid}/environ").read_text(encoding="utf-8")
    except OSError:
        return None
    match = re.search(r'"type": "(\w+)", "index": (\d+)', environment)
    return match and " ".join(match.groups())


def kill_task(launcher, task):
    """Kills a task of a launcher."""
    children = pathlib.Path(f"/proc/{launcher}/task/{launcher}/children")
    for pid in children.read_text(encoding="ascii").split():
        if task_of(pid) == task:
            os.kill(int(pid), signal.SIGKILL)


def run_and_kill(victim, folder, *arguments):
    """Kills the task once a few hundred steps are done; the job must end well all the same."""
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
