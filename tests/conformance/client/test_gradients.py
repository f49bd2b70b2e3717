"""Gradients of Downpour's TF_AddGradients against those of tf.gradients. Both add gradients to the
same graph, genuine TensorFlow runs both graphs, and the values are compared."""
import inspect
import os
import pathlib
import subprocess
import sys
import unittest.mock

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import ops as tf_ops

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import gradient_flow_cases  # noqa: E402,F401
import gradient_network_cases  # noqa: E402,F401
from gradient_cases import CASES  # noqa: E402
from gradient_matrix_cases import OLD_CASES, lstm_of  # noqa: E402

tf1 = tf.compat.v1
tf1.disable_eager_execution()
tf1.disable_control_flow_v2()
ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("DOWNPOUR_BUILD", ROOT / "build"))
TARGET = "tests/unit/client/client_add_gradients"


def build_all(builds, producer=None):
    """One graph with all cases, and {name: (ys, xs)}. A graph of an old `producer` version may hold
    ops that newer versions have removed."""
    graph, cases = tf1.Graph(), {}
    with graph.as_default():
        if producer:
            old = tf1.GraphDef(versions={"producer": producer})
            tf1.import_graph_def(old, name="")
        for name, build in builds.items():
            with tf1.name_scope(name):
                cases[name] = build()
    return graph, cases


def add_ours(graph_def, cases, folder):
    """The GraphDef with our gradients added, and {name: the line that add_gradients.c printed}."""
    subprocess.run(["ninja", "-C", str(BUILD), TARGET], check=True, stdout=subprocess.DEVNULL)
    (folder / "in.pb").write_bytes(graph_def.SerializeToString())
    lines = [",".join(y.name for y in ys) + " " + ",".join(x.name for x in xs)
             for ys, xs in cases.values()]
    done = subprocess.run([BUILD / TARGET, folder / "in.pb", folder / "out.pb"], timeout=300,
                          input="\n".join(lines), text=True, stdout=subprocess.PIPE)
    assert done.returncode == 0
    grown = tf1.GraphDef()
    grown.ParseFromString((folder / "out.pb").read_bytes())
    return grown, dict(zip(cases, done.stdout.splitlines()))


def add_both(builds, folder, producer=None):
    """(values of our gradients, values of tf.gradients, lines of our program, names of tf.gradients
    or the error), each by the name of the case."""
    graph, cases = build_all(builds, producer)
    grown, lines = add_ours(graph.as_graph_def(), cases, folder)
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
    ours = run_all(copy, {name: [None if g == "-" else g for g in line.split()]
                          for name, line in lines.items() if not line.startswith("error")})
    theirs = run_all(graph, {name: names for name, names in oracle.items()
                             if isinstance(names, list)})
    return ours, theirs, lines, oracle


def run_all(graph, names):
    """{case: values}. One step runs all cases, which is far quicker than one step per case. If it
    fails, each case gets a step of its own, and an error stands for a case that fails."""
    wanted = {case: [g for g in gradients if g] for case, gradients in names.items()}
    with tf1.Session(graph=graph) as session:
        try:
            return session.run(wanted)
        except tf.errors.OpError:
            return {case: run_one(session, gradients) for case, gradients in wanted.items()}


def run_one(session, gradients):
    try:
        return session.run(gradients)
    except tf.errors.OpError as error:
        return error


@pytest.fixture(scope="module")
def added(tmp_path_factory):
    return add_both(CASES, tmp_path_factory.mktemp("gradients"))


@pytest.fixture(scope="module")
def added_to_old(tmp_path_factory):
    return add_both(OLD_CASES, tmp_path_factory.mktemp("old_gradients"), producer=8)


@pytest.mark.parametrize("name", CASES)
def test_gradients_agree(added, name):
    check(added, name)


@pytest.mark.parametrize("name", OLD_CASES)
def test_old_gradients_agree(added_to_old, name):
    check(added_to_old, name)


def test_gradient_of_the_second_lstm(tmp_path):
    ours = add_both({"lstm": lambda: lstm_of(2)}, tmp_path)[0]
    theirs = add_both({"lstm": lambda: lstm_of(1)}, tmp_path)[1]
    for mine, value in zip(ours["lstm"], theirs["lstm"], strict=True):
        np.testing.assert_allclose(mine, value, rtol=2e-4, atol=2e-5)


def check(added, name):
    ours, theirs, lines, oracle = added
    assert not lines[name].startswith("error"), lines[name]
    assert isinstance(oracle[name], list), oracle[name]
    names = lines[name].split()
    assert [g == "-" for g in names] == [g is None for g in oracle[name]]
    for run in (ours, theirs):
        assert isinstance(run[name], list), run[name]
    for mine, value in zip(ours[name], theirs[name]):
        assert mine.shape == value.shape and mine.dtype == value.dtype
        np.testing.assert_allclose(mine, value, rtol=2e-4, atol=2e-5)


def test_every_gradient_is_there():
    """An op that has a kernel here has a gradient here if it has one in TensorFlow's registry."""
    listed = subprocess.run([BUILD / "downpour", "ops", "--gradients"], check=True, text=True,
                            stdout=subprocess.PIPE).stdout.split("\n")
    ours = dict(line.split("\t") for line in listed if line)
    lost = {}
    for op in ours:
        if op not in tf_ops.gradient_registry.list() or op in LEFT_OUT:
            continue
        theirs = tf_ops.gradient_registry.lookup(op)
        wanted = "none" if theirs is None or gives_nothing(theirs) else "yes"
        if ours[op] != wanted:
            lost[op] = f"{ours[op]}, in TensorFlow {wanted}"
    assert not lost, " ".join(f"{op}: {what};" for op, what in lost.items())
    assert not [op for op in LEFT_OUT if ours.get(op) != "missing"], "no longer left out"


# Ops with a kernel here whose gradient TensorFlow registers but cannot compute. The gradients of the
# first three always raise. The gradients of the debugger's ops only report. The gradients of the old
# tensor arrays, which no new graph may hold, accept only handles of the newest version.
LEFT_OUT = set("""
SparseDenseCwiseAdd SparseSparseMaximum SparseSparseMinimum
DebugGradientIdentity DebugGradientRefIdentity
TensorArrayConcat TensorArrayConcatV2 TensorArrayGather TensorArrayGatherV2 TensorArrayRead
TensorArrayReadV2 TensorArrayScatter TensorArrayScatterV2 TensorArraySplit TensorArraySplitV2
TensorArrayWrite TensorArrayWriteV2
""".split())


def gives_nothing(function):
    """Whether a registered gradient function returns only None, which means no gradient."""
    any_value = unittest.mock.MagicMock()
    try:
        takes_gradient = len(inspect.signature(function).parameters) > 1
        below = function(any_value, any_value) if takes_gradient else function(any_value)
    except Exception:  # pylint: disable=broad-except
        return False
    return below is None or (isinstance(below, (list, tuple)) and len(below) > 0
                             and all(g is None for g in below))
