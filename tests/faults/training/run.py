#!/usr/bin/env python3
"""Runs one of this folder's test files with genuine TensorFlow: run.py test_kills.py [pytest option]..."""

import os
import pathlib
import subprocess
import sys

here = pathlib.Path(__file__).resolve().parent
venv = subprocess.run([str(here.parents[2] / "tools" / "venv"), "2.21"], check=True, text=True,
                      stdout=subprocess.PIPE).stdout.strip()
python = venv + "/bin/python"
os.execv(python, [python, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--disable-warnings",
                  str(here / sys.argv[1]), *sys.argv[2:]])
