"""A few rounds of tests/faults: a process dies or stands still in each phase of a step."""

import pathlib
import signal
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "faults"))

from rounds import VICTIMS, run_rounds


@pytest.mark.parametrize("victim", VICTIMS)
def test_killed(victim, tmp_path):
    run_rounds(tmp_path, victim, signal.SIGKILL, 0, timeout_ms=2500)


@pytest.mark.parametrize("victim", ["worker", "client"])
def test_stopped(victim, tmp_path):
    run_rounds(tmp_path, victim, signal.SIGSTOP, 0, timeout_ms=2500)
