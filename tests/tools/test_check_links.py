"""Links in documents: a file that is gone and a heading that is not there must be found."""

import pathlib
import tempfile
import unittest

from tests.tools.test_run_tests import load

check_links = load("check-links")


class Links(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        (self.root / "docs").mkdir()
        (self.root / "docs" / "other.md").write_text("# Other\n\n## What `serve` does, and why\n")

    def complaints(self, text):
        (self.root / "README.md").write_text(text)
        return check_links.check(self.root)[0]

    def test_good_links(self):
        self.assertEqual(self.complaints(
            "# Here\n[a](docs/other.md) [b](docs) [c](#here) [d](https://example.org/x)\n"
            '[e](docs/other.md#what-serve-does-and-why) <img src="docs/other.md">\n'), [])

    def test_a_file_that_is_not_there(self):
        self.assertEqual(self.complaints("x\n[a](docs/gone.md)\n"),
                         ["README.md:2: docs/gone.md does not exist"])
        self.assertEqual(self.complaints('<img src="docs/gone.svg">\n'),
                         ["README.md:1: docs/gone.svg does not exist"])

    def test_a_heading_that_is_not_there(self):
        self.assertEqual(self.complaints("[a](docs/other.md#nothing)\n"),
                         ["README.md:1: docs/other.md#nothing: no heading of that name"])

    def test_outside(self):
        self.assertEqual(len(self.complaints("[a](../)\n")), 1)

    def test_code_is_left_alone(self):
        self.assertEqual(self.complaints("`[a](gone.md)`\n```\n[a](gone.md)\n```\n"), [])


if __name__ == "__main__":
    unittest.main()
