"""Compares graphs by meaning: the order of maps does not count, tensors are compared by contents, and
default attributes are filled in."""
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.framework import op_def_registry
from tensorflow.python.framework import tensor_util


class Failure(Exception):
    """The error of our program: code and message."""

    def __init__(self, text):
        super().__init__(text)
        self.code, _, self.message = text.strip().partition(": ")


def plain_tensor(proto):
    """The tensor in one fixed form; a TensorProto may have several for the same values."""
    array = tensor_util.MakeNdarray(proto)
    proto.CopyFrom(tensor_util.make_tensor_proto(array, dtype=proto.dtype, shape=array.shape))


def plain_attr(value):
    copy = attr_value_pb2.AttrValue()
    copy.CopyFrom(value)
    if copy.HasField("tensor"):
        plain_tensor(copy.tensor)
    for tensor in copy.list.tensor if copy.HasField("list") else []:
        plain_tensor(tensor)
    if copy.HasField("func"):
        for key in copy.func.attr:
            copy.func.attr[key].CopyFrom(plain_attr(copy.func.attr[key]))
    return copy


def with_defaults(node, functions=()):
    """The node's attributes with the defaults that TensorFlow fills in."""
    attrs = {key: plain_attr(value) for key, value in node.attr.items()}
    if node.op not in functions:
        for attr in op_def_registry.get(node.op).attr:
            if attr.HasField("default_value") and attr.name not in attrs:
                attrs[attr.name] = plain_attr(attr.default_value)
    return attrs


def check_node(theirs, ours, functions=()):
    assert (ours.name, ours.op, ours.device) == (theirs.name, theirs.op, theirs.device)
    split = [[name for name in node.input if name.startswith("^") == control]
             for node in (theirs, ours) for control in (False, True)]
    strip = [name[:-2] if name.endswith(":0") else name for name in split[0]]
    assert split[2] == strip, theirs.name
    assert sorted(split[3]) == sorted(set(split[1])), theirs.name
    wanted = with_defaults(theirs, functions)
    found = {key: plain_attr(value) for key, value in ours.attr.items()}
    known = set() if theirs.op in functions else {
        attr.name for attr in op_def_registry.get(theirs.op).attr}
    for key in found:
        if key in wanted:
            assert found[key] == wanted[key], (theirs.name, key)
        else:  # an attribute that only newer versions of TensorFlow have
            assert key not in known, (theirs.name, key)
    assert set(wanted) <= set(found), theirs.name


def check_graph(theirs, ours):
    functions = {function.signature.name for function in theirs.library.function}
    assert [node.name for node in ours.node] == [node.name for node in theirs.node]
    for left, right in zip(theirs.node, ours.node):
        check_node(left, right, functions)
    assert ours.versions.producer == theirs.versions.producer
    assert ours.versions.min_consumer == theirs.versions.min_consumer
    assert list(ours.library.function) == list(theirs.library.function)
    assert (sorted((g.function_name, g.gradient_func) for g in ours.library.gradient) ==
            sorted((g.function_name, g.gradient_func) for g in theirs.library.gradient))
