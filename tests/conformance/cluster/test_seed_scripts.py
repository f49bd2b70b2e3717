"""The scripts of the seed documents, with tasks of ours and genuine ones in every mix: two tasks
that greet each other, the same with the second task late, and linear regression by between-graph
replication on 2 parameter servers and 3 workers.

A genuine task is a script that starts its own server. A task of ours is a server and a script that
is its client.
"""

import re

import pytest

from clusters import FORKS, Task, tf1, wait_until
import genuine

PAIRS = ["downpour-downpour", "downpour-tensorflow", "tensorflow-downpour",
         "tensorflow-tensorflow"]


CPU = "/job:local/replica:0/task:{}/device:CPU:0"


class Greeting:
    """The script of one of the two tasks, and our server if the script does not start its own."""

    def __init__(self, script, make, spec, index, device, go):
        self.server, target = None, None
        if make == "downpour":
            self.server = Task.of(spec, "local", index)
            self.server.wait_until_ready()
            target = self.server.target
        self.script = script(genuine.hello, spec, index, target, f"Hello from {index}", device, go)
        if not self.server:
            self.script.expect("ready")

    def stop(self):
        if self.server:
            self.server.stop()


@pytest.fixture
def greet(request, cluster, script):
    """Starts task 0 or 1 of a pair of these makes. Its client begins when the event `go` is set."""
    makes = request.param.split("-")
    spec = cluster({"local": 2}, {"local": None}).spec
    started = []
    now = FORKS.Event()
    now.set()

    def start(index, device=None, go=now):
        started.append(Greeting(script, makes[index], spec, index, device, go))
        return started[-1]
    yield start
    for one in started:
        one.script.kill()
    for one in started:
        one.stop()


@pytest.mark.parametrize("greet", PAIRS, indirect=True)
def test_two_tasks_and_the_second_is_late(greet):
    first = greet(0)
    first.script.expect("connecting")
    missing = "/job:local/replica:0/task:1"
    if first.server:
        wait_until(lambda: f"waiting for response from worker: {missing}" in first.server.status(),
                   "the status names the missing task")
    assert first.script.has_said_nothing_more()
    second = greet(1)
    # An op without a device runs on the task that the client talks to.
    assert second.script.expect("done") == (b"Hello from 1", [CPU.format(1)])
    assert first.script.expect("done") == (b"Hello from 0", [CPU.format(0)])


@pytest.mark.parametrize("greet", PAIRS, indirect=True)
def test_pinned_greetings(greet):
    go = FORKS.Event()
    first = greet(0, "/job:local/task:1", go)
    second = greet(1, "/job:local/task:0", go)
    go.set()
    assert first.script.expect("done") == (b"Hello from 0", [CPU.format(1)])
    assert second.script.expect("done") == (b"Hello from 1", [CPU.format(0)])
    if first.server:
        assert "Const: (Const): " + CPU.format(1) in first.server.log()


# Not with a genuine first task: when it finds no second task it pauses before it tries again, and
# fails the first step of the second task.
@pytest.mark.parametrize("greet", [pair for pair in PAIRS if pair.startswith("downpour")],
                         indirect=True)
def test_a_late_task_is_found_at_once(greet):
    first = greet(0, "/job:local/task:1")
    first.script.expect("connecting")
    wait_until(lambda: "refused" in first.server.status(), "the first one has tried in vain")
    second = greet(1, "/job:local/task:0")
    assert second.script.expect("done") == (b"Hello from 1", [CPU.format(0)])
    assert first.script.expect("done") == (b"Hello from 0", [CPU.format(1)])


def test_the_log_names_the_missing_task(cluster, script):
    one = cluster({"local": 2}, {"local": ["downpour", None]})
    server = one.tasks["local", 0]
    go = FORKS.Event()
    go.set()
    script(genuine.hello, one.spec, 0, server.target, "nobody hears this", None, go)
    line = r"still waiting for response from worker: /job:local/replica:0/task:1 \(.*refused.*\)"
    wait_until(lambda: re.search(line, server.log()), "the log names the missing task")


# ---- Linear regression ----

MIXES = {
    "ours": dict(ps="downpour", worker="downpour"),
    "our_ps_genuine_workers": dict(ps="downpour", worker=None),
    "genuine_ps_our_workers": dict(ps="tensorflow", worker="downpour"),
    "our_master_over_genuine_tasks": dict(ps="tensorflow", worker="tensorflow", master="downpour"),
    "genuine_master_over_our_tasks": dict(ps="downpour", worker="downpour", master="tensorflow"),
}
LAST_STEP = 600


@pytest.mark.parametrize("mix", MIXES)
def test_linear_regression(mix, cluster, script, tmp_path):
    makes = MIXES[mix]
    sizes = {"ps": 2, "worker": 3, "master": 1}
    one = cluster({job: sizes[job] for job in makes}, makes)
    initialized = FORKS.Event()
    workers = []
    for index in range(3):
        target = None
        if "master" in makes:
            target = one.target("master", 0)
        elif makes["worker"]:
            target = one.target("worker", index)
        workers.append(script(genuine.regression, one.spec, index, target, LAST_STEP,
                              str(tmp_path), initialized))
    total = sum(worker.expect("done", 600) for worker in workers)
    model = genuine.Regression(one.spec, 0)
    assert [variable.device for variable in (model.weight, model.bias, model.step)] == [
        "/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:0"]
    with tf1.Session(one.target("master" if "master" in makes else "worker", 0)) as session:
        weight, bias, step = session.run([model.weight, model.bias, model.step])
    assert abs(weight[0] - 0.1) < 0.02 and abs(bias[0] - 0.3) < 0.02
    # Every update of every worker counts once.
    assert step == total >= LAST_STEP
