"""Our table of ops (ops.def) against genuine TensorFlow's list, op by op."""
import pytest
import tensorflow as tf
from tensorflow.core.framework import op_def_pb2
from tensorflow.python.client import pywrap_tf_session

from graph_compare import plain_attr

# Ops that only our planner makes; graphs of clients do not have them.
OWN_OPS = {"_FusedElementwise", "_MaxPool3DGradFromMarks", "_MaxPool3DWithMarks", "_MaxPoolGradFromPlaces",
           "_MaxPoolWithPlaces"}


def stripped(op):
    """The OpDef without documentation and other parts that do not decide whether a graph is valid."""
    op.ClearField("summary")
    op.ClearField("description")
    op.ClearField("deprecation")
    op.ClearField("is_distributed_communication")
    for arg in [*op.input_arg, *op.output_arg]:
        arg.ClearField("description")
        arg.ClearField("experimental_full_type")
    for attr in op.attr:
        attr.ClearField("description")
        if attr.HasField("default_value"):
            attr.default_value.CopyFrom(plain_attr(attr.default_value))
    return op


def by_name(data):
    ops = op_def_pb2.OpList()
    ops.ParseFromString(data)
    return {op.name: stripped(op) for op in ops.op}


@pytest.fixture(scope="module")
def tables(run):
    theirs = by_name(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList()))
    return theirs, by_name(run("dump_ops"))


@pytest.mark.skipif(not tf.__version__.startswith("2.21"), reason="the table is that of 2.21")
def test_table_is_the_same(tables):
    theirs, ours = tables
    assert set(ours) - OWN_OPS == set(theirs)
    assert [name for name in theirs if theirs[name] != ours[name]] == []


def test_table_accepts_what_this_version_makes(tables):
    """Public ops that this version and our table share have the same defaults in both."""
    theirs, ours = tables
    for name, op in theirs.items():
        if name.startswith("_") or name not in ours:
            continue
        newer = {attr.name: attr for attr in ours[name].attr}
        for attr in op.attr:
            if attr.name in newer and attr.HasField("default_value"):
                if name != "XlaCallModule":
                    assert newer[attr.name].default_value == attr.default_value, (name, attr.name)
