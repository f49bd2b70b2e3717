"""A case that genuine TensorFlow dies of is left out and told; the other cases of its op are run."""
import sys

import isolated
import pytest
import runner

DEADLY = """
import os
import time
import numpy as np
from runner import Case, tf, tf1


def die():
    return {}, [tf1.py_func(os.abort, [], tf.float32)]


def hang():
    return {}, [tf1.py_func(lambda: time.sleep(60), [], tf.float32)]


CASES = [Case("Neg", [np.float32(2)]), Case("Neg", build=die, name="deadly"),
         Case("Neg", [np.int32(3)]),
         *[Case("Abs", build=die, name=f"deadly {i}") for i in range(5)],
         Case("Sign", build=hang, name="endless"), Case("Sqrt", [np.float32(4)]),
         Case("Rsqrt", [np.float32(4)], first=True)]
"""


@pytest.fixture
def process(tmp_path, monkeypatch):
    (tmp_path / "cases_deadly.py").write_text(DEADLY, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    one = isolated.Isolated(runner.find_run_graph(), None)
    yield one
    one.close()


def test_the_other_cases_of_the_op_are_run(process):
    outcomes = process.run("cases_deadly", "Neg")
    assert [(problem, skipped) for _, problem, skipped in outcomes] == [(None, False)] * 2
    (death,) = process.deaths
    assert "deadly, SIGABRT" in death and "Fatal Python error: Aborted" in death


def test_an_op_that_must_be_the_first_gets_a_new_process(process):
    process.run("cases_deadly", "Sqrt")
    before = process.process.pid
    process.run("cases_deadly", "Sqrt")
    assert process.process.pid == before
    ((_, problem, skipped),) = process.run("cases_deadly", "Rsqrt")
    assert problem is None and not skipped and process.process.pid != before


def test_an_op_that_dies_again_and_again_fails(process):
    with pytest.raises(isolated.Died, match="deadly 3, SIGABRT"):
        process.run("cases_deadly", "Abs")
    assert len(process.deaths) == isolated.DEATHS_OF_AN_OP + 1


def test_a_case_that_hangs_fails_and_the_next_op_is_run(process, monkeypatch):
    process.run("cases_deadly", "Sqrt")  # the process is there: patience is for the case alone
    with monkeypatch.context() as patch:
        patch.setattr(isolated, "PATIENCE", 3)
        with pytest.raises(AssertionError, match="no answer within 3 s.*endless, SIGKILL"):
            process.run("cases_deadly", "Sign")
    ((_, problem, skipped),) = process.run("cases_deadly", "Sqrt")
    assert problem is None and not skipped and not process.deaths
