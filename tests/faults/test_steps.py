"""kill -9 and SIGSTOP of every kind of process in every phase of a step: two hundred rounds that one
task lives through while the others and the clients die and stand still around it."""

import pytest

from rounds import TASKS, every_fault, run_rounds

ROUNDS = 200


@pytest.mark.parametrize("survivor", TASKS)
def test_survivor(survivor, tmp_path):
    run_rounds(tmp_path, every_fault(survivor, ROUNDS), [survivor])
