"""Tasks die in the middle of training and come back; training goes on and ends well. How long it
stood still is printed. tests/faults/train does this many times, at random steps."""

import random

import pytest

from kills import Run

LAST_STEP = 1500


@pytest.fixture
def run(tmp_path):
    started = Run(tmp_path, LAST_STEP)
    yield started
    started.end()


@pytest.mark.parametrize("victim", ["worker", "ps", "chief"])
def test_training_survives(run, victim, capsys):
    seconds = run.kill(victim, random.Random(len(victim)).randint(100, 300))
    with capsys.disabled():
        print(f"\ntraining stood still for {seconds:.1f} s after the death of a {victim}")
    run.check_trained()
