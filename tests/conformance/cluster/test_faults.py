"""A round of every fault: each kind of process is killed or stands still in each phase of a step.
`make test-faults` runs two hundred of them for each survivor."""

import pathlib
import signal
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "faults"))

from rounds import PHASES, VICTIMS, run_rounds


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
@pytest.mark.parametrize("victim", VICTIMS)
def test_fault(victim, sign, tmp_path):
    run_rounds(tmp_path, [(victim, phase, sign) for phase in PHASES], timeout_ms=2500)
