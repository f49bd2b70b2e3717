"""The gradients that our TF_AddGradients adds to a graph, run by genuine TensorFlow next to those
that tf.gradients adds to the same graph."""
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from gradient_cases import CASES  # noqa: E402

tf1 = tf.compat.v1
tf1.disable_eager_execution()
tf1.disable_control_flow_v2()
ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("DOWNPOUR_BUILD", ROOT / "build"))
TARGET = "tests/unit/client/client_add_gradients"


def build_all():
    """One graph with all cases; {name: (ys, xs, tf.gradients)}."""
    graph, cases = tf1.Graph(), {}
    with graph.as_default():
        for name, build in CASES.items():
            with tf1.name_scope(name):
                cases[name] = build()
    return graph, cases


def add_ours(graph_def, cases, folder):
    """The grown graph and {name: the program's line}."""
    subprocess.run(["ninja", "-C", str(BUILD), TARGET], check=True, stdout=subprocess.DEVNULL)
    (folder / "in.pb").write_bytes(graph_def.SerializeToString())
    lines = [",".join(y.name for y in ys) + " " + ",".join(x.name for x in xs)
             for ys, xs in cases.values()]
    done = subprocess.run([BUILD / TARGET, folder / "in.pb", folder / "out.pb"], timeout=60,
                          input="\n".join(lines), text=True, stdout=subprocess.PIPE)
    assert done.returncode == 0
    grown = tf1.GraphDef()
    grown.ParseFromString((folder / "out.pb").read_bytes())
    return grown, dict(zip(cases, done.stdout.splitlines()))


@pytest.fixture(scope="module")
def added(tmp_path_factory):
    """Sessions over the grown graph and over one with tf.gradients; the gradients' names in each."""
    graph, cases = build_all()
    grown, lines = add_ours(graph.as_graph_def(), cases, tmp_path_factory.mktemp("gradients"))
    oracle = {}
    with graph.as_default():
        for name, (ys, xs) in cases.items():
            try:
                oracle[name] = [None if g is None else tf.convert_to_tensor(g).name
                                for g in tf1.gradients(ys, xs)]
            except (LookupError, ValueError, TypeError) as error:
                oracle[name] = error
    copy = tf1.Graph()
    with copy.as_default():
        tf1.import_graph_def(grown, name="")
    with tf1.Session(graph=copy) as ours, tf1.Session(graph=graph) as theirs:
        yield ours, theirs, lines, oracle


@pytest.mark.parametrize("name", CASES)
def test_gradients_agree(added, name):
    ours, theirs, lines, oracle = added
    assert not lines[name].startswith("error"), lines[name]
    assert isinstance(oracle[name], list), oracle[name]
    names = lines[name].split()
    assert [g == "-" for g in names] == [g is None for g in oracle[name]]
    wanted = theirs.run([g for g in oracle[name] if g is not None])
    for mine, value in zip(ours.run([g for g in names if g != "-"]), wanted):
        assert mine.shape == value.shape and mine.dtype == value.dtype
        np.testing.assert_allclose(mine, value, rtol=2e-4, atol=2e-5)
