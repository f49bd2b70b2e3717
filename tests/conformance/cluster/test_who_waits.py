"""`downpour status` on a cluster with a missing task: each task shows the state of its peers, and for
which task, value, node or queue its steps wait."""

import re

import pytest

from clusters import Cluster, Genuine, wait_until
import genuine

WORKER = "/job:worker/replica:0/task:{}"
PS = "/job:ps/replica:0/task:0"


@pytest.fixture(scope="module")
def waiting():
    """A cluster whose worker 2 is missing. A step of worker 0 waits for worker 1, which waits for a
    queue on the parameter server."""
    cluster = Cluster({"ps": 1, "worker": 3}, {"ps": "downpour",
                                               "worker": ["downpour", "downpour", None]})
    known = ["/job:ps", "/job:worker/task:0", "/job:worker/task:1"]
    target = cluster.target("worker", 0)
    clients = [Genuine(genuine.wait_for_ever, target, known, "doubled:0"),
               Genuine(genuine.wait_for_ever, target, known, "mean_gradient:0"),
               Genuine(genuine.wait_for_ever, target, [], "doubled:0")]
    signs = {("ps", 0): ["mean_gradient", "next_batch (", "1 wait to dequeue", "edge"],
             ("worker", 1): ["edge"], ("worker", 0): ["refused", "waits for"]}
    wait_until(lambda: all(sign in text for task in signs for text in [cluster.tasks[task].status()]
                           for sign in signs[task]), "everybody waits")
    yield cluster
    for client in clients:
        client.kill()
    cluster.stop()


def lines(task, heading):
    """The lines of one section."""
    text = task.status()
    assert f"\n{heading}\n" in text, text
    return text.split(f"\n{heading}\n")[1].split("\n\n")[0].rstrip("\n").split("\n")


def test_the_first_lines_say_who_and_how_much(waiting):
    first, live, ever = waiting.tasks["worker", 0].status().split("\n")[:3]
    assert re.fullmatch(WORKER.format(0) + r" at grpc://localhost:\d+, up \d+\.\d s", first)
    assert re.fullmatch(r"live: 2 sessions of clients, 2 of masters, \d+ graphs, \d+ steps, "
                        r"\d+ calls", live)
    assert re.fullmatch(r"ever: \d+ calls, \d+ failed; \d+ bytes in, \d+ bytes out", ever)


def test_peers_and_their_state(waiting):
    peers = lines(waiting.tasks["worker", 0], "peers")
    addresses = [waiting.spec["ps"][0], waiting.spec["worker"][1], waiting.spec["worker"][2]]
    assert [line.split()[:2] for line in peers] == [
        [PS, addresses[0]], [WORKER.format(1), addresses[1]], [WORKER.format(2), addresses[2]]]
    assert re.search(r"connected +for \d+\.\d s, incarnation [0-9a-f]{16}$", peers[0])
    assert re.search(r"Connection refused +for \d+\.\d s$", peers[2])
    assert len({line.index(address) for line, address in zip(peers, addresses)}) == 1  # aligned


def test_who_waits_for_whom(waiting):
    waits = "\n".join(lines(waiting.tasks["worker", 0], "who waits for whom"))
    missing, address = WORKER.format(2), waiting.spec["worker"][2]
    assert f"waiting for response from worker: {missing} ({address}: Connection refused)" in waits
    assert re.search(rf"step [0-9a-f]+ of session [0-9a-f]+ waits for.* {WORKER.format(1)}", waits)


def test_values_by_key_on_both_sides(waiting):
    asker = "\n".join(lines(waiting.tasks["worker", 1], "values that are waited for"))
    assert re.search(rf"\d+\.\d s  step [0-9a-f]+  edge_\d+_next_batch  from {PS}", asker)
    asked = "\n".join(lines(waiting.tasks["ps", 0], "values that are waited for"))
    assert re.search(rf"edge_\d+_next_batch  for {WORKER.format(1)}", asked)


def test_nodes_queues_and_accumulators(waiting):
    nodes = "\n".join(lines(waiting.tasks["ps", 0], "nodes that run or wait"))
    assert "next_batch (QueueDequeueV2)" in nodes
    assert re.search(r"mean_gradient \((Resource)?AccumulatorTakeGradient\)", nodes)
    resources = "\n".join(lines(waiting.tasks["ps", 0], "resources"))
    assert "batches: FIFOQueue with 0 of 10 elements, 1 wait to dequeue" in resources
    assert re.search(r"gradients: .*\b0\b", resources)
