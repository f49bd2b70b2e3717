"""Fault tests of training with genuine TensorFlow's clients: they use the training tests' modules."""

import pathlib
import sys

CONFORMANCE = pathlib.Path(__file__).resolve().parents[2] / "conformance"
sys.path[:0] = [str(CONFORMANCE), str(CONFORMANCE / "train")]
