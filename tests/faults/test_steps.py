"""kill -9 and SIGSTOP of every kind of process in every phase of a step, 200 rounds in all."""

import signal

import pytest

from rounds import VICTIMS, run_rounds

ROUNDS = 25  # for each of 4 victims and 2 signals


@pytest.mark.parametrize("victim", VICTIMS)
def test_killed(victim, tmp_path):
    run_rounds(tmp_path, victim, signal.SIGKILL, ROUNDS, timeout_ms=2500)


@pytest.mark.parametrize("victim", VICTIMS)
def test_stopped(victim, tmp_path):
    run_rounds(tmp_path, victim, signal.SIGSTOP, ROUNDS, timeout_ms=2500)
