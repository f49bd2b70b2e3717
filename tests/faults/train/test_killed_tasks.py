"""Every kind of task of a training in C, killed on the way, async and sync.

usage: test_killed_tasks.py EXAMPLES_FOLDER
"""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration" / "train"))
from killing import run_and_kill  # noqa: E402


class KilledTaskTest(unittest.TestCase):
    def test_all_kinds(self):
        for options in ([], ["--sync"]):
            for victim in ("ps 0", "worker 0", "worker 1"):
                with self.subTest(victim=victim, options=options), \
                        tempfile.TemporaryDirectory() as folder:
                    run_and_kill(victim, folder, "--steps", "4000", *options)


if __name__ == "__main__":
    unittest.main()
