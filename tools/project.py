"""What the checks in tools/ know in common: where the project is and which files are its own C."""

import pathlib
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
C_FOLDERS = ("src", "include", "cli", "examples", "bench", "tests")


def is_generated(path):
    return path.name.endswith((".pb-c.c", ".pb-c.h"))


def c_files(root=ROOT, folders=C_FOLDERS, endings=(".c", ".h")):
    """The hand-written C files under the given folders, sorted."""
    found = []
    for folder in folders:
        found += [path for path in (root / folder).rglob("*")
                  if path.suffix in endings and path.is_file() and not is_generated(path)]
    return sorted(found)


def say_which(program):
    """Stops with advice when a program is not installed."""
    if shutil.which(program) is None:
        sys.exit(f"{program} is not installed; `tools/setup lint build` installs it")
