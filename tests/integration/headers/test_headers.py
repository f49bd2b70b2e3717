"""The public headers in C11 and C++17 programs, with all warnings as errors, by gcc and clang.

usage: test_headers.py BUILD_FOLDER

Each header compiles alone; program.c and program.cpp compile, link, run and agree; every example
and the program in docs/c_api.md compile; and no header switches off a warning in the file that
includes it. A compiler that is not installed fails the test: tools/packages.txt has them all.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop() if len(sys.argv) > 1 else "build").resolve()
HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[2]
SANITIZED = any(name in os.environ for name in ("ASAN_OPTIONS", "TSAN_OPTIONS"))
FLAGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{SOURCE}/include", f"-I{BUILD}/include"]
C = [["gcc", "-std=c11"], ["clang", "-std=c11"]]
CPP = [["g++", "-std=c++17"], ["clang++", "-std=c++17"], ["g++", "-std=c++20"],
       ["clang++", "-std=c++20"]]
HEADERS = ["downpour.h", "downpour_options.h", "downpour_ops.h", "downpour_train.h"]
EXPECTED = """graphs: MatMul: a struct of options without its size; make it with DP_OPTIONS
tensors: the tensor is uint8 [3]; a tensor of float with 3 elements was asked for
training: w = 1.000 after 20 steps, 1 variable
"""


def check_syntax(compiler, text):
    """What the compiler says about the text; the return code and the messages."""
    language = "c++" if "++" in compiler[0] else "c"
    done = subprocess.run([*compiler, *FLAGS, "-fsyntax-only", "-x", language, "-"], input=text,
                          capture_output=True, text=True, timeout=120)
    return done.returncode, done.stderr


class HeadersTest(unittest.TestCase):
    def assert_compiles(self, compiler, text):
        code, errors = check_syntax(compiler, text)
        self.assertEqual(code, 0, f"{compiler}: {errors}")

    def test_each_header_alone(self):
        folder = SOURCE / "include"
        names = HEADERS + sorted(str(path.relative_to(folder))
                                 for path in folder.glob("tensorflow/c/*.h"))
        self.assertGreater(len(names), len(HEADERS))
        for name in names:
            for compiler in C + CPP[:2]:
                with self.subTest(header=name, compiler=compiler[0]):
                    self.assert_compiles(compiler, f"#include <{name}>\nextern int not_empty;\n")

    def test_all_headers_twice_in_any_order(self):
        text = "".join(f"#include <{name}>\n" for name in [*reversed(HEADERS), *HEADERS])
        for compiler in C + CPP[:2]:
            self.assert_compiles(compiler, text + "extern int not_empty;\n")

    def test_examples(self):
        examples = sorted((SOURCE / "examples").glob("*.c"))
        self.assertGreater(len(examples), 4)
        for path in examples:
            for compiler in C:
                with self.subTest(example=path.name, compiler=compiler[0]):
                    self.assert_compiles([*compiler, f"-I{path.parent}"],
                                         path.read_text(encoding="utf-8"))

    def test_no_warning_is_switched_off(self):
        """A field that is initialized twice, after the headers and after a macro with defaults."""
        text = ("#include <downpour_train.h>\nstruct twice { int a; };\n"
                "TF_Output made(dp_scope *scope, TF_Output x);\n"
                "TF_Output made(dp_scope *scope, TF_Output x) {\n"
                "  return dp_lrn(scope, x, .bias = 2, .depth_radius = 3);\n}\n%s\n")
        for compiler in C:
            self.assert_compiles(compiler, text % "struct twice once = {.a = 1};")
            code, errors = check_syntax(compiler, text % "struct twice bad = {.a = 1, .a = 2};")
            self.assertNotEqual(code, 0, compiler)
            self.assertRegex(errors, "override-init|initializer-overrides")

    def test_pragmas_are_balanced(self):
        """A push has its pop in the same header, and nothing is ignored outside of the two."""
        paths = [*(SOURCE / "include").rglob("*.h"), BUILD / "include" / "downpour_ops.h"]
        for path in paths:
            depth = 0
            for line in path.read_text(encoding="utf-8").splitlines():
                for word in re.findall(r"diagnostic (push|pop|ignored)", line):
                    depth += {"push": 1, "pop": -1, "ignored": 0}[word]
                    self.assertGreaterEqual(depth, word == "ignored", f"{path}: {line}")
                self.assertNotIn("system_header", line, path)
            self.assertEqual(depth, 0, path)

    def test_wrong_calls_do_not_compile(self):
        call = ("#include <downpour.h>\nTF_Output f(dp_scope *scope, TF_Output x);\n"
                "TF_Output f(dp_scope *scope, TF_Output x) { return %s; }\n")
        for compiler in C + CPP[:2]:
            self.assert_compiles(compiler, call % "dp_mat_mul(scope, x, x)")
            for wrong in ("dp_mat_mul(scope, x)", "dp_mat_mul(scope, x, x, .transposed = true)",
                          "dp_mat_mul(scope, x, x, x)", "dp_mat_mul(scope, x, 1)"):
                code, _ = check_syntax(compiler, call % wrong)
                self.assertNotEqual(code, 0, f"{compiler}: {wrong}")


@unittest.skipIf(SANITIZED, "a program without a sanitizer cannot use a library with one")
class ProgramsTest(unittest.TestCase):
    def run_program(self, compiler, source):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "program"
            built = subprocess.run([*compiler, *FLAGS, source, "-o", program, f"-L{BUILD}",
                                    "-ldownpour"], capture_output=True, text=True, timeout=120)
            self.assertEqual(built.returncode, 0, built.stderr)
            done = subprocess.run([program], capture_output=True, text=True, timeout=120,
                                  env={**os.environ, "LD_LIBRARY_PATH": str(BUILD)})
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout

    def test_program_in_c(self):
        for compiler in C:
            with self.subTest(compiler=compiler):
                self.assertEqual(self.run_program(compiler, HERE / "program.c"), EXPECTED)

    def test_program_in_cpp(self):
        for compiler in CPP:
            with self.subTest(compiler=compiler):
                self.assertEqual(self.run_program(compiler, HERE / "program.cpp"), EXPECTED)

    def test_program_of_the_documentation(self):
        page = (SOURCE / "docs" / "c_api.md").read_text(encoding="utf-8")
        programs = re.findall(r"```c\n(.*?)```", page, re.DOTALL)
        self.assertEqual(len(programs), 1)
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "page.c"
            source.write_text(programs[0], encoding="utf-8")
            for compiler in C:
                self.assertEqual(self.run_program(compiler, source), "6\n")


if __name__ == "__main__":
    unittest.main()
