"""A server of ours for the tests of this folder."""

import os
import pathlib
import re
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("DOWNPOUR_BUILD", ROOT / "build"))


@pytest.fixture(scope="session")
def server():
    """The target of one server that all tests share."""
    process = subprocess.Popen([str(BUILD / "downpour"), "serve", "--port", "0"], stdout=subprocess.PIPE,
                               text=True)
    match = re.search(r"Started server with target: (grpc://\S+)", process.stdout.readline())
    assert match, "the server did not start"
    yield match.group(1)
    process.terminate()
    try:
        assert process.wait(60) == 0
    finally:
        process.kill()
