"""Our graph import accepts the graphs that TensorFlow accepts, and refuses the others with the same
code and message."""
import re

import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.framework import graph_pb2

from bad_graphs import BAD, GOOD
from graph_compare import Failure

NEWEST = tf.__version__.startswith("2.21")


def parse(text):
    return text_format.Parse(text, graph_pb2.GraphDef())


def import_with_tensorflow(graph_def):
    with tf.Graph().as_default():
        tf.graph_util.import_graph_def(graph_def, name="")


def normal(message):
    """The message without parts that may differ: versions, advice about contrib, order of a set."""
    message = re.sub(r"version \d+ for TensorFlow [\d.]+", "version", message)
    message = re.sub(r" Note that if you are loading a saved graph.*", "", message, flags=re.S)
    names = re.search(r"missing attrs '(.*)' from", message)
    if names:
        message = message.replace(names[1], "', '".join(sorted(names[1].split("', '"))))
    return message


@pytest.mark.parametrize("name", BAD)
def test_refused_alike(name, import_graphs):
    graph_def = parse(BAD[name])
    with pytest.raises(Exception) as theirs:
        import_with_tensorflow(graph_def)
    with pytest.raises(Failure) as ours:
        import_graphs(graph_def)
    if NEWEST:
        assert normal(ours.value.message) == normal(str(theirs.value))
    wanted = "NOT_FOUND" if isinstance(theirs.value, tf.errors.NotFoundError) else "INVALID_ARGUMENT"
    assert ours.value.code == wanted


@pytest.mark.parametrize("name", GOOD)
def test_accepted_alike(name, import_graphs):
    graph_def = parse(GOOD[name])
    if NEWEST or name != "unknown_attr":
        import_with_tensorflow(graph_def)
    import_graphs(graph_def)


def test_nothing_is_added_twice(import_graphs):
    graph_def = parse('node { name: "x" op: "NoOp" }')
    with pytest.raises(Failure, match="was created by a previous call to Create or Extend"):
        import_graphs(graph_def, graph_def)


def test_summaries(import_graphs):
    """Our summary of a node is the text that TensorFlow writes into its messages."""
    text = ('node { name: "a" op: "Const" device: "/cpu:0" '
            'attr { key: "dtype" value { type: DT_FLOAT } } '
            'attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 5 } } '
            'float_val: 1.5 float_val: 2 } } } } '
            'node { name: "b" op: "Squeeze" input: "a" input: "^a" '
            'attr { key: "T" value { type: DT_FLOAT } } '
            'attr { key: "_x" value { f: 0.1234567 } } '
            'attr { key: "squeeze_dims" value { list { i: 0 i: -1 } } } }')
    assert import_graphs(parse(text), verb="print").splitlines() == [
        '{{node a}} = Const[dtype=DT_FLOAT, value=Tensor<type: float shape: [5] values: 1.5 2 2...>,'
        ' _device="/cpu:0"]()',
        '{{node b}} = Squeeze[T=DT_FLOAT, _x=0.123456702, squeeze_dims=[0, -1]](a, ^a)']
