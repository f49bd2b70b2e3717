"""Placement: the same random graphs on a cluster of ours and on a genuine one. Every node must be
placed on the same device. A graph that one cluster refuses, the other must refuse with the same
words."""

import random
import re

import pytest
import tensorflow as tf

from conftest import tf1

DEVICES = ["", "", "", "/job:ps", "/job:ps/task:1", "/job:worker", "/job:worker/task:1", "/cpu:0",
           "/job:ps/task:0/cpu:0", "/job:worker/task:0/device:CPU:1"]
WRONG = ["/gpu:0", "/job:ps/task:1/gpu:0", "/job:ps/task:7", "/job:nowhere"]


def random_graph(seed, mistakes):
    """A graph, and the names of the fetches."""
    rng = random.Random(seed)
    graph = tf.Graph()
    values, colocatable = [], []

    def device():
        return rng.choice(WRONG) if rng.random() < mistakes else rng.choice(DEVICES)

    def group():
        if not colocatable or rng.random() < 0.7:
            return graph.device(None)
        return graph._attr_scope({"_class": tf1.AttrValue(list=tf1.AttrValue.ListValue(
            s=[b"loc:@" + rng.choice(colocatable).encode()]))})

    with graph.as_default():
        for i in range(rng.randint(4, 25)):
            kind = rng.random() if values else 0
            with graph.device(device()), group():
                if kind < 0.2:
                    made = tf.raw_ops.Fill(dims=[2], value=float(i), name=f"n{i}")
                elif kind < 0.3:
                    made = tf.constant([float(i), 1.0], name=f"n{i}")
                elif kind < 0.4:
                    v = tf.raw_ops.VariableV2(shape=[2], dtype=tf.float32, name=f"v{i}")
                    with graph.device(device()):
                        made = tf.raw_ops.Assign(ref=v, value=rng.choice(values), name=f"n{i}")
                elif kind < 0.5:
                    h = tf.raw_ops.VarHandleOp(shape=[2], dtype=tf.float32, name=f"v{i}",
                                               shared_name=f"s{seed}_{i}")
                    with graph.device(device()):
                        put = tf.raw_ops.AssignVariableOp(resource=h, value=rng.choice(values))
                    with graph.device(device()), graph.control_dependencies([put]):
                        made = tf.raw_ops.ReadVariableOp(resource=h, dtype=tf.float32,
                                                         name=f"n{i}")
                elif kind < 0.6:
                    shape = tf.raw_ops.Shape(input=rng.choice(values), name=f"s{i}")
                    made = tf.raw_ops.Reshape(tensor=rng.choice(values), shape=shape, name=f"n{i}")
                elif kind < 0.8:
                    made = tf.raw_ops.AddV2(x=rng.choice(values), y=rng.choice(values),
                                            name=f"n{i}")
                else:
                    made = tf.raw_ops.Neg(x=rng.choice(values), name=f"n{i}")
            values.append(made)
            colocatable.append(made.op.name)
        # Everything is fetched, because ours does not refuse nodes that no step needs.
        total = tf.raw_ops.AddN(inputs=values, name="total")
    return graph, total.name


def clean(message):
    """The server's own message, without what the client adds."""
    match = re.search(r"(Cannot|Could not|Malformed|Nodes were)[^\n]*", message)
    if match and "All available devices" in match.group(0):  # in no particular order
        return match.group(0).split("All available devices")[0]
    return re.sub(r"\[\[.*?\]\]|\{\{\S+ (\S+?)\}\}", r"\1", match.group(0)) if match else message


def place(target, graph, fetch, soft):
    """The device of each node, or the message of the error."""
    config = tf1.ConfigProto(allow_soft_placement=soft)
    config.graph_options.optimizer_options.opt_level = -1
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    metadata = tf1.RunMetadata()
    try:
        with tf1.Session(target, graph=graph, config=config) as session:
            session.run(fetch, options=tf1.RunOptions(output_partition_graphs=True),
                        run_metadata=metadata)
    except tf.errors.InvalidArgumentError as error:
        return clean(error.message)
    return {node.name: node.device for piece in metadata.partition_graphs for node in piece.node
            if not re.search(r"_[SG]\d+$", node.name)}


def is_same(a, b):
    """Whether the placements are equal. Small constants may differ: newer versions copy them to where
    they are read, whatever the configuration says."""
    if isinstance(a, str) or isinstance(b, str):
        return a == b
    copied = {name.split("/replicate/_")[0] for name in [*a, *b] if "/replicate/_" in name}
    return all(a.get(name) == b.get(name) for name in {*a, *b}
               if name.split("/replicate/_")[0] not in copied)


@pytest.mark.parametrize("soft", [False, True], ids=["hard", "soft"])
@pytest.mark.parametrize("block", range(4))
def test_every_node_is_where_tensorflow_puts_it(ours, genuine, block, soft):
    for seed in range(block * 15, block * 15 + 15):
        graph, fetch = random_graph(seed, mistakes=0.02 if seed % 3 == 0 else 0)
        here, there = place(ours, graph, fetch, soft), place(genuine, graph, fetch, soft)
        assert is_same(here, there), (seed, here, there)
