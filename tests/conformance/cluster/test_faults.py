"""One round of every fault: each kind of process is killed or stopped in each phase of a step
(tests/faults/rounds.py). `make test-faults` runs two hundred rounds per survivor."""

import pathlib
import signal
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "faults"))

from rounds import PHASES, VICTIMS, run_rounds


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
@pytest.mark.parametrize("victim", VICTIMS)
def test_fault(victim, sign, tmp_path):
    # The step must reach its phase within this time. A test with a stopped process waits all of it.
    timeout_ms = 30000 if sign == signal.SIGKILL or victim == "client" else 5000
    run_rounds(tmp_path, [(victim, phase, sign) for phase in PHASES], timeout_ms=timeout_ms)
