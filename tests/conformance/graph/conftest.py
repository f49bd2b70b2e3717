"""Builds and runs the C programs of this folder (roundtrip.c, dump_ops.c) for the tests."""
import os
import pathlib
import subprocess

import pytest

from graph_compare import Failure

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("DOWNPOUR_BUILD", ROOT / "build"))


@pytest.fixture(scope="session")
def programs():
    targets = [f"tests/unit/graph/graph_{name}" for name in ("dump_ops", "roundtrip")]
    subprocess.run(["ninja", "-C", str(BUILD), *targets], check=True, stdout=subprocess.DEVNULL)
    return BUILD / "tests" / "unit" / "graph"


@pytest.fixture(scope="session")
def run(programs):
    """run(name, *arguments, stdin=b"") runs a program, and gives its output or raises Failure."""

    def call(name, *arguments, stdin=b""):
        done = subprocess.run([programs / f"graph_{name}", *map(str, arguments)], input=stdin,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
        if done.returncode == 2:
            raise Failure(done.stderr.decode())
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    return call


@pytest.fixture
def import_graphs(run, tmp_path):
    """import_graphs(graph_def, ...) imports all of them into one graph and gives its export."""
    from tensorflow.core.framework import graph_pb2

    def call(*graph_defs, verb="import", name=None, stdin=b""):
        paths = []
        for number, graph_def in enumerate(graph_defs):
            paths.append(tmp_path / f"graph-{number}.pb")
            paths[-1].write_bytes(graph_def.SerializeToString())
        output = run("roundtrip", verb, *paths, *([name] if name else []), stdin=stdin)
        if verb == "print":
            return output.decode()
        result = graph_pb2.GraphDef()
        result.ParseFromString(output)
        return result

    return call
