"""Every case of the case files, grouped by op, on genuine TensorFlow and on Downpour.

By default the kernels run in the program run_graph; DOWNPOUR_TARGET=grpc://HOST:PORT sends the same
cases to a server.
"""
import importlib
import pathlib
import sys

import pytest

FOLDER = pathlib.Path(__file__).parent
sys.path.insert(0, str(FOLDER))
import runner  # noqa: E402

MODULES = sorted(path.stem for path in FOLDER.glob("cases_*.py"))
CASES = {module: runner.usable(importlib.import_module(module).CASES) for module in MODULES}
GROUPS = [(module, op) for module in MODULES
          for op in sorted({case.op for case in CASES[module]})]


@pytest.mark.parametrize("module,op", GROUPS, ids=lambda value: value.replace("cases_", ""))
def test_op(module, op, cases):
    outcomes = cases.run(module, op)
    problems = [f"{name}: {problem}" for name, problem, _ in outcomes if problem]
    assert not problems, "\n".join(problems)
    if all(skipped for _, _, skipped in outcomes):
        pytest.skip(f"this TensorFlow has no kernel for {op}")
