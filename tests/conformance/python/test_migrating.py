"""The scripts of docs/migrating.md (examples/migrating): what stands there before and after is run as
it is, before with genuine TensorFlow alone and after with Downpour, and what the document shows of
them is what they differ in."""
import difflib
import io
import os
import pathlib
import re
import runpy
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "conformance"), str(ROOT / "tests")]
from clusters import BUILD, SLOWNESS, Genuine, Task  # noqa: E402
from ports import free_port  # noqa: E402

SCRIPTS = ROOT / "examples" / "migrating"
NAMES = ["session", "async", "sync"]


def run_script(say, name, arguments):
    """One script as its user runs it, in a process that has imported TensorFlow already."""
    os.environ["DOWNPOUR_LIBRARY"] = str(BUILD / "libdownpour.so")
    sys.path[:0] = [str(SCRIPTS), str(ROOT / "python")]
    sys.argv = [name, *arguments]
    sys.stdout = io.StringIO()
    runpy.run_path(str(SCRIPTS / name), run_name="__main__")
    say("output", sys.stdout.getvalue())


def loss_in(output):
    return float(re.search(r"loss (\S+)", output).group(1))


def run_cluster(name):
    """A parameter server and two workers of one script; what the workers print."""
    addresses = [f"localhost:{free_port()}" for _ in range(3)]
    tasks = [("ps", 0), ("worker", 0), ("worker", 1)]
    running = []
    try:
        for job, task in tasks:
            running.append(Genuine(run_script, name, [job, str(task), addresses[0],
                                                      ",".join(addresses[1:])]))
            time.sleep(2)  # a worker that finds no variables looks again after half a minute
        return [worker.expect("output", seconds=240) for worker in running[1:]]
    finally:
        for process in running:
            process.kill()


def test_session(tmp_path):
    before = Genuine(run_script, "session_before.py", [str(tmp_path)])
    server = Task("--port", "0")
    try:
        server.wait_until_ready()
        after = Genuine(run_script, "session_after.py", [str(tmp_path), server.target])
        outputs = [process.expect("output", seconds=240) for process in (before, after)]
    finally:
        server.stop()
    assert loss_in(outputs[1]) == pytest.approx(loss_in(outputs[0]), rel=1e-3)
    assert (tmp_path / "model.index").exists()


@pytest.mark.parametrize("name", ["async_before.py", "async_after.py", "sync_before.py"])
def test_cluster(name):
    for output in run_cluster(name):
        assert loss_in(output) < 0.05


def test_launched():
    """The last script has no addresses of its own: the launcher gives them."""
    environment = {**os.environ, "DOWNPOUR_LIBRARY": str(BUILD / "libdownpour.so"),
                   "PYTHONPATH": str(ROOT / "python"), "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run([str(BUILD / "downpour"), "launch", "--ps", "1", "--workers", "2", "--",
                           sys.executable, str(SCRIPTS / "sync_after.py")], env=environment,
                          capture_output=True, text=True, timeout=300 * SLOWNESS)
    assert done.returncode == 0, done.stdout + done.stderr
    losses = re.findall(r"worker \d: loss (\S+) after \d+ steps", done.stdout)
    assert len(losses) == 2 and all(float(loss) < 0.05 for loss in losses), done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_the_document_shows_what_differs(name):
    before, after = ((SCRIPTS / f"{name}_{when}.py").read_text().splitlines()
                     for when in ("before", "after"))
    changed = [line for line in difflib.ndiff(before, after)
               if line[0] in "+-" and not line[2:].startswith(('"""', "usage:", "import", "from"))]
    shown = (ROOT / "docs" / "migrating.md").read_text()
    missing = [line for line in changed if f"{line[0]} {line[2:]}" not in shown]
    assert changed and not missing
