"""The build wrapper: few lines where nothing is wrong, every line where something is."""

import io
import os
import pathlib
import subprocess
import tempfile
import unittest

from tests.tools.test_run_tests import TOOLS, load

build = load("build")
ROOT = TOOLS.parent
BUILD = pathlib.Path(os.environ.get("DOWNPOUR_BUILD", ROOT / "build")).resolve()

# Prints a line for each of 100 steps, and in its first line how it was called.
NINJA = """#!/bin/sh
echo "ninja: called with $*"
for i in $(seq 100); do echo "[$i/100] Compiling C object f$i.c.o"; done
"""


def shown(lines, is_terminal=False):
    """What a person sees of ninja's output, what is held back, and the log."""
    screen, log = io.StringIO(), io.StringIO()
    progress = build.Progress(screen, is_terminal)
    held = build.follow(lines, progress, log)
    progress.end(True)
    return screen.getvalue(), held, log.getvalue()


def steps(count):
    return [f"[{i}/{count}] Compiling C object a.p/f{i}.c.o\n" for i in range(1, count + 1)]


class Output(unittest.TestCase):
    def test_without_a_terminal_there_are_few_lines(self):
        screen, _, log = shown(steps(900))
        self.assertLessEqual(len(screen.splitlines()), build.TENTHS)
        self.assertTrue(screen.endswith("Built: 900 steps in 0:00\n"), screen)
        self.assertEqual(len(log.splitlines()), 900)

    def test_on_a_terminal_there_is_one_line(self):
        screen, _, _ = shown(steps(900), is_terminal=True)
        self.assertEqual(screen.count("\n"), 1)
        self.assertIn("\r\033[KBuilding: 450 of 900, 0:00  Compiling C object a.p/f450.c.o", screen)

    def test_errors_are_whole(self):
        error = ["FAILED: a.p/f2.c.o \n", "cc -c f2.c\n", "f2.c:1:1: error: expected ';'\n",
                 "    1 | int x\n", "ninja: build stopped: subcommand failed.\n"]
        screen, _, _ = shown(["ninja: Entering directory `b'\n", *steps(20)[:2], *error])
        self.assertEqual(screen.splitlines()[1:-1], [line.rstrip("\n") for line in error])

    def test_nothing_to_do_says_nothing(self):
        self.assertEqual(shown(["ninja: Entering directory `b'\n", "ninja: no work to do.\n"])[0],
                         "")

    def test_a_new_configuration_is_held_back(self):
        screen, held, _ = shown(["[0/1] Regenerating build files.\n", "meson.build:1:0: ERROR: x\n"])
        self.assertEqual((screen, held), ("", ["meson.build:1:0: ERROR: x\n"]))


class Setup(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = pathlib.Path(folder.name) / "build"
        self.deep = pathlib.Path(folder.name) / "kernels" / "math" / "loops"
        self.build.mkdir()
        self.deep.mkdir(parents=True)
        self.addCleanup(setattr, build, "SEARCHED", build.SEARCHED)
        build.SEARCHED = self.deep.parents[1]

    def test_a_new_folder(self):
        self.assertEqual(build.setup_arguments(self.build, ["a=1"], ["b=2"]), ["-Da=1", "-Db=2"])

    def test_files_that_came_at_any_depth(self):
        made = self.build / "build.ninja"
        made.touch()
        later = made.stat().st_mtime + 10
        os.utime(made, (later, later))
        self.assertIsNone(build.setup_arguments(self.build, ["a=1"], []))
        os.utime(self.deep, (later + 1, later + 1))
        self.assertEqual(build.setup_arguments(self.build, ["a=1"], []), ["--reconfigure"])

    def test_a_needed_option_is_set_where_it_is_another(self):
        (self.build / "build.ninja").touch()
        later = self.deep.stat().st_mtime + 10
        os.utime(self.build / "build.ninja", (later, later))
        self.addCleanup(setattr, build, "values_in", build.values_in)
        build.values_in = lambda folder: {"a": "1", "b": "2"}
        self.assertIsNone(build.setup_arguments(self.build, ["a=2"], ["b=2"]))
        self.assertEqual(build.setup_arguments(self.build, [], ["a=1", "b=3"]),
                         ["--reconfigure", "-Db=3"])


class Verbose(unittest.TestCase):
    """tools/build as a whole, over a ninja that only pretends."""

    def run_build(self, **environment):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "ninja").write_text(NINJA, encoding="utf-8")
            (folder / "ninja").chmod(0o755)
            (folder / "build.ninja").touch()
            environment = dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}", **environment)
            return subprocess.run([TOOLS / "build", folder, "downpour"], env=environment, text=True,
                                  check=True, stdout=subprocess.PIPE).stdout.splitlines()

    def test_a_line_per_step_only_with_v(self):
        self.assertLessEqual(len(self.run_build(V="")), build.TENTHS + 2)
        lines = self.run_build(V="1")
        self.assertEqual(len(lines), 101)
        self.assertRegex(lines[0], r"called with -v -C \S+ downpour$")


class Verbs(unittest.TestCase):
    """What the verbs of the Makefile ask for, and what that takes."""

    def commands_of(self, *arguments):
        text = subprocess.run(["make", "-n", "-C", ROOT, "--no-print-directory", *arguments],
                              env={"PATH": os.environ["PATH"]}, text=True, check=True,
                              stdout=subprocess.PIPE).stdout
        return text.splitlines()

    def targets_of(self, verb):
        """The targets that the verb builds."""
        head = "tools/build -Dinstruction_sets=host build "
        lines = [line for line in self.commands_of(verb) if line.startswith("tools/build")]
        self.assertEqual(len(lines), 1, lines)
        self.assertTrue(lines[0].startswith(head), lines)
        return lines[0][len(head):].split()

    def test_run_builds_what_it_runs(self):
        self.assertEqual(self.targets_of("run"), ["downpour", "examples/mnist_cnn"])
        self.assertEqual(self.targets_of("run-hello"), ["downpour", "examples/hello"])
        self.assertEqual(self.targets_of("build"), ["product"])

    def test_run_needs_no_tests(self):
        if not (BUILD / "build.ninja").exists():
            self.skipTest(f"{BUILD} is not configured")
        done = subprocess.run(["ninja", "-C", BUILD, "-t", "inputs", *self.targets_of("run")],
                              text=True, check=True, stdout=subprocess.PIPE)
        inputs = done.stdout.splitlines()
        self.assertGreater(sum(name.endswith(".o") for name in inputs), 100)
        around = [name for name in inputs
                  if name.removeprefix("../").startswith(("tests/", "bench/", "fuzz"))]
        self.assertEqual(around, [])

    def test_check_is_lint_and_unit_tests(self):
        self.assertEqual(self.commands_of("check")[-1].split(),
                         ["tools/run-tests", "--build", "build", "--suite", "lint,unit"])
        self.assertEqual(self.commands_of("check", "K=map")[-1].split()[-2:], ["--only", "'map'"])


if __name__ == "__main__":
    unittest.main()
