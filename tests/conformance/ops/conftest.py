"""What the tests of ops share: the process that runs the cases."""
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import isolated  # noqa: E402
import runner  # noqa: E402

DEATHS = []  # of genuine TensorFlow, told at the end


@pytest.fixture(scope="session")
def cases():
    target = os.environ.get("DOWNPOUR_TARGET")
    process = isolated.Isolated(None if target else runner.find_run_graph(), target)
    yield process
    DEATHS.extend(process.deaths)
    process.close()


def pytest_terminal_summary(terminalreporter):
    for death in DEATHS:
        terminalreporter.write_line(f"genuine TensorFlow died, the case was left out: {death}")
