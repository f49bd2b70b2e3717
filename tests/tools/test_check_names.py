"""The check of names must find one name for two things."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"


class CheckNames(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        self.write("include/downpour.h", "typedef struct dp_model dp_model;\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def check(self):
        done = subprocess.run([sys.executable, str(TOOLS / "check-names"), str(self.root)],
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout

    def assert_complains(self, *lines):
        code, text = self.check()
        self.assertEqual(code, 1, text)
        self.assertEqual(text.splitlines(), list(lines))

    def assert_passes(self):
        code, text = self.check()
        self.assertEqual(code, 0, text)

    def test_declarations_and_uses_pass(self):
        self.write("src/train/model.c", "struct dp_model {\n  struct dp_model *next;\n};\n"
                                        "static struct dp_model models[] = {{0}};\n")
        self.write("src/train/layer.c", "typedef struct dp_model dp_model;\n"
                                        "/* struct dp_model { */\n"
                                        'const char *text = "struct dp_model {";\n')
        self.assert_passes()

    def test_a_tag_with_our_prefix_in_two_rooms_fails(self):
        self.write("src/runtime/executor_internal.h", "\ntypedef struct dp_worker {\n} dp_worker;\n")
        self.write("src/worker/worker_internal.h", "struct dp_worker {\n};\n")
        self.assert_complains("src/worker/worker_internal.h:1: dp_worker is defined twice: "
                              "src/runtime/executor_internal.h:2")

    def test_unions_and_enums_count(self):
        self.write("src/base/map.h", "typedef enum dp_kind { A } dp_kind;\n")
        self.write("src/graph/graph.c", "union dp_kind { int a; };\n")
        self.assert_complains("src/graph/graph.c:1: dp_kind is defined twice: src/base/map.h:1")

    def test_a_typedef_of_a_struct_without_tag_counts(self):
        self.write("src/base/map.h", "typedef struct {\n  struct { int a; } inner;\n} dp_row;\n")
        self.write("src/graph/graph.c", "struct dp_row { int a; };\n")
        self.assert_complains("src/graph/graph.c:1: dp_row is defined twice: src/base/map.h:1")

    def test_a_typedef_under_another_name_counts(self):
        self.write("src/base/map.h", "typedef struct row_tag { int a; } dp_row;\n")
        self.write("src/graph/graph.c", "struct dp_row { int a; };\n")
        self.assert_complains("src/graph/graph.c:1: dp_row is defined twice: src/base/map.h:1")

    def test_names_of_sources_may_repeat_in_other_folders_only(self):
        self.write("src/planner/prune.c", "struct row { int a; };\n")
        self.write("src/storage/table.c", "struct row { int a; };\n")
        self.assert_passes()
        self.write("src/storage/block.c", "struct row { int a; };\n")
        self.assert_complains("src/storage/table.c:1: row is defined twice in its folder: "
                              "src/storage/block.c:1")

    def test_a_source_must_not_hide_a_name_of_a_header_below(self):
        self.write("src/graph/graph.h", "struct row { int a; };\n")
        self.write("src/tensor/tensor.c", "struct row { int a; };\n")
        self.assert_passes()
        self.write("src/planner/prune.c", "struct row { int a; };\n")
        self.assert_complains("src/planner/prune.c:1: row hides a name of a header that may be "
                              "included: src/graph/graph.h:1")

    def test_internal_headers_of_other_folders_are_hidden(self):
        self.write("src/graph/graph_internal.h", "struct row { int a; };\n")
        self.write("src/planner/prune.c", "struct row { int a; };\n")
        self.assert_passes()


if __name__ == "__main__":
    unittest.main()
