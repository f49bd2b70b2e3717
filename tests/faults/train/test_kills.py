"""Fifty training runs in each of which a worker, a parameter server or the chief dies at a random
step and comes back: every run ends trained, and none stands still for long."""

import random

import pytest

from kills import Run

LAST_STEP = 1500
VICTIMS = ["worker", "ps", "chief"]


@pytest.mark.parametrize("number", range(50))
def test_a_run_survives(tmp_path, capsys, number):
    chance = random.Random(number)
    victim = VICTIMS[number % len(VICTIMS)]
    run = Run(tmp_path, LAST_STEP)
    try:
        step = chance.randint(1, LAST_STEP // 2)
        seconds = run.kill(victim, step)
        with capsys.disabled():
            print(f"\n{victim} killed at step {step}: {seconds:.1f} s until the next step")
        run.check_trained()
    finally:
        run.end()
