"""`meson install` into an empty folder: the command works, the manual pages are there, command and
library keep to their budget of 10 MB, and a program builds with the installed files only.

usage: test_install.py BUILD_FOLDER
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop() if len(sys.argv) > 1 else "build").resolve()
SOURCE = pathlib.Path(__file__).resolve().parents[3]
SANITIZED = any(name in os.environ for name in ("ASAN_OPTIONS", "TSAN_OPTIONS"))


@unittest.skipIf(SANITIZED, "a program without a sanitizer cannot use a library with one")
class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.root = pathlib.Path(cls.folder.name)
        subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", cls.root],
                       check=True, stdout=subprocess.DEVNULL, timeout=120)

    def find(self, name):
        found = list(self.root.rglob(name))
        self.assertEqual(len(found), 1, f"{name}: {found}")
        return found[0]

    def command(self):
        return self.find("downpour.1").parents[3] / "bin" / "downpour"

    def test_command_and_its_pages(self):
        version = subprocess.run([self.command(), "version"], capture_output=True, text=True,
                                 timeout=60)
        self.assertEqual(version.returncode, 0)
        for name in ("serve", "launch", "status", "stop", "ops"):
            page = self.find(f"downpour-{name}.1").read_text(encoding="utf-8")
            self.assertIn(".SH SYNOPSIS", page)

    def test_size(self):
        for file in (self.command(), self.find("libdownpour.so.0.*")):
            stripped = self.root / "stripped"
            subprocess.run(["strip", "-o", stripped, file], check=True, timeout=60)
            self.assertLess(stripped.stat().st_size, 10_000_000, f"{file}: the budget is 10 MB")

    def test_program_with_the_installed_files_only(self):
        settings = {**os.environ, "PKG_CONFIG_PATH": str(self.find("downpour.pc").parent),
                    "PKG_CONFIG_SYSROOT_DIR": str(self.root)}
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "downpour"], env=settings,
                               check=True, capture_output=True, text=True, timeout=60).stdout
        program = self.root / "linreg"
        subprocess.run(["cc", "-std=gnu11", "-Wall", "-Werror",
                        SOURCE / "examples" / "linreg.c", "-o", program, *flags.split()],
                       check=True, timeout=120)
        folder = self.find("libdownpour.so.0").parent
        done = subprocess.run([program, "--steps", "1000"], capture_output=True, text=True,
                              timeout=60, env={**os.environ, "LD_LIBRARY_PATH": str(folder)})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("W = 0.100, b = 0.300", done.stdout)


if __name__ == "__main__":
    unittest.main()
