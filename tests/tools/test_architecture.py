"""docs/architecture.md must be what the source is: ranks, tables of functions, the walk of a step."""

import pathlib
import re
import unittest

from tests.tools.test_run_tests import load

load("check-ranks")  # makes tools/ importable
from ranks import RANKS  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
WAYS_UP = re.compile(r"^## Ways up$.*?^## ", re.DOTALL | re.MULTILINE).search(TEXT).group()
WALK = re.compile(r"^## One training step$.*?^## ", re.DOTALL | re.MULTILINE).search(TEXT).group()
TABLE = re.compile(r"typedef struct (dp_\w+_ops) \{|^struct (dp_\w+_ops) \{", re.MULTILINE)


def code_in(text):
    """The `pieces of code` of a text."""
    return re.findall(r"`([^`]+)`", text)


def public_headers():
    """The headers that several rooms may include."""
    return sorted(path for path in SRC.glob("*/*.h") if not path.name.endswith("_internal.h"))


class Architecture(unittest.TestCase):
    def test_the_picture_has_every_room_at_its_rank(self):
        picture = TEXT.split("```")[1]
        for room, rank in RANKS.items():
            row = next((line for line in picture.splitlines()
                        if re.match(rf"\s*{rank} ", line)), "")
            self.assertIn(room, row.split(), f"{room} is not in the row of rank {rank}")

    def test_every_table_of_functions_is_named(self):
        named = set(code_in(WAYS_UP))
        for path in public_headers():
            for match in TABLE.finditer(path.read_text(encoding="utf-8")):
                name = match.group(1) or match.group(2)
                if name != "dp_file_ops":  # a part of dp_file_system_ops
                    self.assertIn(name, named, f"{path.relative_to(ROOT)} declares {name}")

    def test_rows_of_the_table_are_true(self):
        rows = [line.split("|")[1:4] for line in WAYS_UP.splitlines() if line.startswith("| `")]
        self.assertGreater(len(rows), 10)
        for where, what, filled_by in rows:
            header = (SRC / code_in(where)[0]).read_text(encoding="utf-8")
            for name in code_in(what):
                self.assertTrue(re.search(rf"\b{name}\b", header), f"{where} has no {name}")
            for name in code_in(filled_by):
                if "/" in name or name in RANKS:
                    self.assertTrue((SRC / name).exists(), f"{name} fills {what}")

    def test_the_walk_names_files_and_functions_that_exist(self):
        source = "\n".join(path.read_text(encoding="utf-8")
                           for path in sorted(SRC.rglob("*.[ch]")))
        words = set(re.findall(r"\w+", source))
        files = {path.name for path in SRC.rglob("*.[ch]")}
        for name in code_in(WALK):
            if "/" in name:
                self.assertTrue((SRC / name).exists(), name)
            elif name.endswith((".c", ".h")):
                self.assertTrue(name in files, f"there is no {name}")
            elif re.fullmatch(r"\w+", name):
                self.assertTrue(name in words or name in RANKS, f"there is no {name} in src")

    def test_functions_follow_their_file(self):
        """`room/file.c`: `function` means that the file has the function."""
        pairs = re.findall(r"`(\w+/(?:\w+/)?\w+\.c)`: `(\w+)`", " ".join(WALK.split()))
        self.assertGreater(len(pairs), 15)
        for name, function in pairs:
            text = (SRC / name).read_text(encoding="utf-8")
            self.assertTrue(re.search(rf"\b{function}\(", text), f"{name} has no {function}")


if __name__ == "__main__":
    unittest.main()
