"""Every case of the case files, grouped by op, on genuine TensorFlow and on Downpour.

By default the kernels run in the program run_graph; DOWNPOUR_TARGET=grpc://HOST:PORT sends the same
cases to a server.
"""
import importlib
import os
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


@pytest.fixture(scope="session")
def program():
    return None if os.environ.get("DOWNPOUR_TARGET") else runner.find_run_graph()


@pytest.mark.parametrize("module,op", GROUPS, ids=lambda value: value.replace("cases_", ""))
def test_op(module, op, program):
    graph, built = runner.build_cases([case for case in CASES[module] if case.op == op])
    oracle = runner.SessionBackend(graph)
    candidate = runner.make_candidate(graph, program, os.environ.get("DOWNPOUR_TARGET"))
    try:
        outcomes = [(one.case.name, *runner.run_case(one, oracle, candidate)) for one in built]
    finally:
        candidate.close()
        oracle.close()
    problems = [f"{name}: {problem}" for name, problem, _ in outcomes if problem]
    assert not problems, "\n".join(problems)
    if all(skipped for _, _, skipped in outcomes):
        pytest.skip(f"this TensorFlow has no kernel for {op}")
