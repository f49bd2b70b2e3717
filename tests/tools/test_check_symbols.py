"""The check of symbols must find calls that includes do not show."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"


class CheckSymbols(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name).resolve()
        self.build = self.root / "build"
        self.build.mkdir()
        self.commands = []
        self.compile("src/base/text.c", "int dp_text_length(void) { return 1; }")

    def compile(self, name, text, output=None):
        """Makes an object as the build would, and a row of compile_commands.json."""
        source = self.root / name
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(text + "\n", encoding="utf-8")
        output = output or name.replace("/", "_") + ".o"
        subprocess.run(["gcc", "-c", str(source), "-o", str(self.build / output)], check=True)
        relative = pathlib.Path("..") / name
        self.commands.append({"directory": str(self.build), "file": str(relative),
                              "output": output})

    def check(self):
        (self.build / "compile_commands.json").write_text(json.dumps(self.commands),
                                                          encoding="utf-8")
        done = subprocess.run([sys.executable, str(TOOLS / "check-symbols"), str(self.build),
                               str(self.root)],
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout

    def assert_complains(self, *lines):
        code, text = self.check()
        self.assertEqual(code, 1, text)
        self.assertEqual(text.splitlines(), list(lines))

    def test_downward_calls_pass(self):
        self.compile("src/graph/graph.c", "extern int dp_text_length(void);\n"
                                          "int dp_graph_size(void) { return dp_text_length(); }")
        self.compile("src/wire/codec.c", "extern int dp_tensor_size(void), printf(const char *, ...);"
                                         "int dp_codec(void) { return dp_tensor_size(); }")
        self.compile("src/tensor/tensor.c", "int dp_tensor_size(void) { return 1; }")
        self.assertEqual(self.check(), (0, "check-symbols: 4 objects ok\n"))

    def test_a_call_upwards_fails_without_any_include(self):
        self.compile("src/train/prepare.c", "int dp_job_target(void) { return 1; }")
        self.compile("src/server/run.c", "extern int dp_job_target(void);\n"
                                         "int dp_server_run(void) { return dp_job_target(); }")
        self.assert_complains("src/server/run.c: dp_job_target is defined in src/train/prepare.c "
                              "(rank 11; server has 10)")

    def test_a_call_to_an_equal_fails(self):
        self.compile("src/rpc/client.c", "int dp_rpc_call(void) { return 1; }")
        self.compile("src/graph/graph.c", "extern int dp_rpc_call(void);\n"
                                          "int dp_graph_size(void) { return dp_rpc_call(); }")
        self.assert_complains("src/graph/graph.c: dp_rpc_call is defined in src/rpc/client.c "
                              "(rank 2; graph has 2)")

    def test_data_counts_as_functions_do(self):
        self.compile("src/runtime/step.c", "int dp_step_count = 1;")
        self.compile("src/base/log.c", "extern int dp_step_count;\n"
                                       "int *dp_log_count(void) { return &dp_step_count; }")
        self.assert_complains("src/base/log.c: dp_step_count is defined in src/runtime/step.c "
                              "(rank 3; base has 0)")

    def test_generated_sources_belong_to_their_room(self):
        self.compile("build/src/client/made.c", "int dp_made(void) { return 1; }", "made.o")
        self.compile("src/master/plan.c", "extern int dp_made(void);\n"
                                          "int dp_plan(void) { return dp_made(); }")
        self.assert_complains("src/master/plan.c: dp_made is defined in src/client/made.c "
                              "(rank 9; master has 7)")

    def test_folders_of_a_divided_room_have_ranks_too(self):
        self.compile("src/kernels/math/sum.c", "int dp_sum(void) { return 1; }")
        self.compile("src/kernels/array/join.c", "extern int dp_sum(void);\n"
                                                 "int dp_join(void) { return dp_sum(); }")
        self.compile("src/kernels/families.c", "extern int dp_join(void);\n"
                                               "int dp_families(void) { return dp_join(); }")
        self.compile("src/kernels/shared/move.c", "extern int dp_families(void);\n"
                                                  "int dp_move(void) { return dp_families(); }")
        self.assert_complains("src/kernels/array/join.c: dp_sum is defined in src/kernels/math/sum.c "
                              "(inner rank 4; kernels/array has 4)",
                              "src/kernels/shared/move.c: dp_families is defined in "
                              "src/kernels/families.c (the top of kernels; kernels/shared is below)")

    def test_programs_around_src_may_call_anything(self):
        self.compile("src/server/run.c", "int dp_server_run(void) { return 1; }")
        self.compile("cli/serve.c", "extern int dp_server_run(void);\n"
                                    "int main(void) { return dp_server_run(); }")
        self.assertEqual(self.check()[0], 0)

    def test_an_object_that_is_not_there_fails(self):
        (self.build / "src_base_text.c.o").unlink()
        code, text = self.check()
        self.assertEqual(code, 1)
        self.assertIn("nm cannot read all objects", text)

    def test_a_room_without_a_rank_fails(self):
        self.compile("src/attic/old.c", "int dp_old(void) { return 1; }")
        code, text = self.check()
        self.assertEqual(code, 1)
        self.assertIn("src/attic has no rank", text)


if __name__ == "__main__":
    unittest.main()
