"""The tables of figures: what the tool writes passes its own check, what a hand changed does not."""

import pathlib
import sys
import tempfile
import unittest

from tests.tools.test_run_tests import TOOLS, load

bench_table = load("bench-table")
sys.path.insert(0, str(TOOLS.parent / "bench"))
import results  # noqa: E402

ROWS = [{"name": "session: empty step", "unit": "us", "ours": 150.0, "tensorflow": 1230.0, "ratio": 8.2},
        {"name": "checkpoint: save", "unit": "MB/s", "ours": 1500.0, "limit": 1800.0}]
WHERE = ("2030-01-02", "A Processor", 2, 16)


class Tables(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.path = self.folder / "README.md"

    def written(self, begin="<!-- bench begin -->"):
        self.path.write_text(f"# T\n{begin}\nold\n<!-- bench end -->\nafter\n", encoding="utf-8")
        bench_table.write(self.path, ROWS, WHERE)
        return self.path.read_text(encoding="utf-8")

    def test_what_is_written_passes(self):
        text = self.written()
        self.assertIn("| session: empty step | µs | 150 | 1,230 |  | 8.20 |\n", text)
        self.assertTrue(text.endswith("<!-- bench end -->\nafter\n"))
        self.assertEqual(list(bench_table.check(self.path)), [])

    def test_a_marker_names_rows(self):
        self.assertNotIn("checkpoint", self.written("<!-- bench begin: session -->")
                         .split("-->", 1)[1])
        with self.assertRaises(SystemExit):
            self.written("<!-- bench begin: nothing -->")

    def test_what_a_hand_changed_does_not_pass(self):
        for old, new in (("1,230", "1230 us"), ("| 8.20 |", "|"), ("| 150 |", "|  |"),
                         ("Measured by", "Found by"), ("| what |", "|  what |"), ("---:", "---")):
            text = self.written()
            self.assertIn(old, text)
            self.path.write_text(text.replace(old, new, 1), encoding="utf-8")
            self.assertEqual(len(list(bench_table.check(self.path))), 1, old)

    def test_a_file_without_a_table_does_not_pass(self):
        self.path.write_text("# T\n", encoding="utf-8")
        self.assertEqual(len(list(bench_table.check(self.path))), 1)

    def test_rows(self):
        results.add(self.folder, "time", "us", 2, 10, peers={"other": 3.14159})
        results.add(self.folder, "rate", "GB/s", 2, 10, limit=20)
        results.add(self.folder, "alone", "MiB", 1)
        results.add(self.folder, "time", "us", 4, 10)
        self.assertEqual(results.read(self.folder), [
            {"name": "time", "unit": "us", "ours": 4.0, "tensorflow": 10.0, "ratio": 2.5},
            {"name": "rate", "unit": "GB/s", "ours": 2.0, "tensorflow": 10.0, "limit": 20.0,
             "ratio": 0.2},
            {"name": "alone", "unit": "MiB", "ours": 1.0}])
        with self.assertRaises(ValueError):
            results.add(self.folder, "x", "furlongs", 1)


if __name__ == "__main__":
    unittest.main()
