"""The suite driver must count honestly: a crash, a lost report or an empty suite is a failure."""

import importlib.machinery
import importlib.util
import json
import pathlib
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"


def load(name):
    """Imports a script of tools/ as a module."""
    sys.path.insert(0, str(TOOLS))
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(TOOLS / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


run_tests = load("run-tests")

CASES_OK = "[==========] Running 2 test(s).\n[       OK ] a\n[       OK ] b\n[  PASSED  ] 2 test(s).\n"
ONE_LOST = "[       OK ] a\n[  FAILED  ] b\n[  PASSED  ] 1 test(s).\n[  FAILED  ] 1 test(s), listed below:\n[  FAILED  ] b\n"


class Counting(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.report = pathlib.Path(self.folder.name) / "report"
        self.outcome = run_tests.Outcome()

    def read_meson(self, *tests):
        self.report.write_text("\n".join(json.dumps(test) for test in tests), encoding="utf-8")
        run_tests.read_meson_report("unit", self.report, self.outcome)
        return self.outcome.passed, self.outcome.failed

    def read_pytest(self, code, xml, only=None):
        if xml is not None:
            self.report.write_text(xml, encoding="utf-8")
        runner = run_tests.Runner(pathlib.Path(self.folder.name), only, None, [])
        runner.read_pytest_report("conformance-2.12", self.report, code, self.outcome)
        return self.outcome.passed, self.outcome.failed

    def test_cmocka_cases_are_counted(self):
        self.assertEqual(self.read_meson({"name": "base map", "result": "OK", "stdout": CASES_OK},
                                         {"name": "plain", "result": "OK"}), (3, 0))

    def test_failed_cases_are_counted_once(self):
        self.assertEqual(self.read_meson({"name": "x", "result": "FAIL", "stderr": ONE_LOST}),
                         (1, 1))

    def test_crash_and_timeout_fail(self):
        self.assertEqual(self.read_meson({"name": "x", "result": "FAIL", "stdout": CASES_OK},
                                         {"name": "y", "result": "TIMEOUT"}), (2, 2))

    def test_skipped_is_neither(self):
        self.assertEqual(self.read_meson({"name": "x", "result": "SKIP"}), (0, 0))
        self.assertEqual(self.outcome.skipped, 1)

    def test_pytest_report(self):
        xml = ('<testsuites><testsuite><testcase classname="m" name="a"/>'
               '<testcase classname="m" name="b"><failure>assert 1 == 2</failure></testcase>'
               '<testcase classname="m" name="c"><skipped/></testcase></testsuite></testsuites>')
        self.assertEqual(self.read_pytest(1, xml), (1, 1))
        self.assertEqual(self.outcome.texts, {"conformance-2.12 m.b": "assert 1 == 2"})

    def test_pytest_that_was_stopped_fails_the_test_it_was_at(self):
        xml = ('<testsuites><testsuite><testcase classname="m" name="a"/>'
               '<testcase classname="m" name="b"/></testsuite></testsuites>')
        self.assertEqual(self.read_pytest(2, xml), (1, 1))

    def test_pytest_without_report_fails(self):
        self.assertEqual(self.read_pytest(-11, None), (0, 1))

    def test_pytest_that_found_nothing_fails_unless_it_was_asked_to(self):
        empty = "<testsuites><testsuite/></testsuites>"
        self.assertEqual(self.read_pytest(5, empty, only="x"), (0, 0))
        self.assertEqual(self.read_pytest(5, empty), (0, 1))


if __name__ == "__main__":
    unittest.main()
