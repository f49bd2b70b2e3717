"""Graphs that genuine TensorFlow built are imported into our graph and exported again. They must be
the same, with default attributes filled in."""
import pytest
import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.python.framework import function_def_to_graph

import graph_models as models
from graph_compare import check_graph, check_node


@pytest.mark.parametrize("model", models.ALL, ids=lambda model: model.__name__)
def test_import_and_export(model, import_graphs):
    theirs = models.build(model)
    ours = import_graphs(theirs)
    check_graph(theirs, ours)
    again = import_graphs(ours)
    assert again == ours


@pytest.mark.parametrize("model", models.ALL, ids=lambda model: model.__name__)
def test_order_does_not_matter(model, import_graphs):
    theirs = models.build(model)
    nodes = list(theirs.node)[::-1]
    del theirs.node[:]
    theirs.node.extend(nodes)
    check_graph(theirs, import_graphs(theirs))


@pytest.mark.parametrize("model", models.ALL, ids=lambda model: model.__name__)
def test_tensorflow_takes_what_we_export(model, import_graphs):
    """TensorFlow of this version accepts our export: it has no attribute that the version lacks."""
    theirs = models.build(model)
    ours = import_graphs(theirs, verb="given")
    for left, right in zip(theirs.node, ours.node):
        assert set(left.attr) == set(right.attr)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(ours, name="")
    assert len(graph.get_operations()) == len(ours.node)


def test_extension(import_graphs):
    """The second message refers to nodes of the first."""
    whole = models.build(models.mlp_sgd)
    first, second = graph_pb2.GraphDef(), graph_pb2.GraphDef()
    first.CopyFrom(whole)
    second.CopyFrom(whole)
    half = len(whole.node) // 2
    del first.node[half:]
    del second.node[:half]
    check_graph(whole, import_graphs(first, second))


@pytest.mark.parametrize("model", [models.functions, models.loop_v2, models.queues_and_data],
                         ids=lambda model: model.__name__)
def test_function_bodies(model, import_graphs):
    python_graph = models.build_graph(model)
    graph = python_graph.as_graph_def()
    assert graph.library.function
    for function in graph.library.function:
        with python_graph.as_default():
            flat, names = function_def_to_graph.function_def_to_graph_def(function)
        if any(attr.type for attr in function.signature.attr):
            continue
        ours = import_graphs(graph, verb="instantiate", name=function.signature.name)
        check_body(function, flat, names, ours, graph.library)


def check_body(function, flat, names, ours, library):
    functions = {other.signature.name for other in library.function}
    bodies = {node.name: node for node in ours.node}
    arguments = [arg.name for arg in function.signature.input_arg]
    for number, arg in enumerate(function.signature.input_arg):
        node = bodies[arg.name]
        assert (node.op, node.attr["index"].i) == ("_Arg", number)
        assert node.attr["T"].type == arg.type
        for key, value in function.arg_attr[number].attr.items():
            assert node.attr[key] == value
    for node in flat.node:
        if node.name not in arguments:
            check_node(node, bodies[node.name], functions)
    for number, arg in enumerate(function.signature.output_arg):
        node = bodies[arg.name + "_RetVal"]
        assert (node.op, node.attr["index"].i) == ("_Retval", number)
        flat_name = names[function.ret[arg.name]]
        assert node.input[0] in (flat_name, flat_name[:-2] if flat_name.endswith(":0") else None)
    assert len(ours.node) == (len(function.signature.input_arg) + len(function.node_def) +
                              len(function.signature.output_arg))
