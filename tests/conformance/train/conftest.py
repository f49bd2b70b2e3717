"""Tests of the training library in C next to genuine TensorFlow."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
