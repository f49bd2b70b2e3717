"""A server of ours that is killed while it saves, and what its checkpoints must then hold. Used by
test_checkpoints.py and the faults suite."""

import random
import time

import numpy as np

from clusters import Task, tf1
from programs import saved_values, save_forever
from replicas import Replica

ROWS = 1 << 20  # 4 MB in each of two variables


def check(prefix, number):
    """Genuine TensorFlow reads the checkpoint whole."""
    reader = tf1.train.load_checkpoint(str(prefix))
    assert reader.get_variable_to_shape_map() == {"a": [ROWS], "b": [ROWS]}
    for name, wanted in zip("ab", saved_values(number, ROWS)):
        np.testing.assert_array_equal(reader.get_tensor(name), wanted)


def kill_while_saving(folder, seed):
    """One round: whatever was said to be saved is there, and what was not is absent or whole.
    Returns how many saves were finished."""
    chance = random.Random(seed)
    task = Task("--port", "0")
    try:
        task.wait_until_ready()
        client = Replica(save_forever, task.target, str(folder), ROWS)
        client.wait_for("started", lambda number: number > 1)
        time.sleep(chance.random() * 0.1)  # the moment of death
    finally:
        task.kill()
    client.kill()
    said = client.all_said()
    started = [value for kind, value in said if kind == "started"]
    finished = [value for kind, value in said if kind == "finished"]
    check(folder / f"model-{finished[-1]}", finished[-1])
    unsure = started[-1]
    if unsure != finished[-1] and (folder / f"model-{unsure}.index").exists():
        check(folder / f"model-{unsure}", unsure)
    latest = tf1.train.latest_checkpoint(str(folder))
    assert latest in [str(folder / f"model-{number}") for number in (finished[-1], unsure)]
    return len(finished)
