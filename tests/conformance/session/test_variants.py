"""Ops with variant tensors as clients use them: optionals in gradients, datasets that are written as
graphs."""

import pytest
import tensorflow as tf
from tensorflow.python.data.ops import optional_ops

from conftest import tf1


def optional(*values):
    return optional_ops.Optional.from_value(values)


def values_of(variant, dtypes):
    return tf.raw_ops.OptionalGetValue(optional=variant, output_types=dtypes,
                                       output_shapes=[None] * len(dtypes))


def test_zeros_like_an_optional(session):
    one = optional(tf.constant([1.0, 2.0]), tf.constant(3))._variant_tensor
    zeros = values_of(tf1.zeros_like(one), [tf.float32, tf.int32])
    numbers, number = session.run(zeros)
    assert numbers.tolist() == [0.0, 0.0] and number == 0
    nothing = tf1.zeros_like(tf.raw_ops.OptionalNone())
    assert not session.run(tf.raw_ops.OptionalHasValue(optional=nothing))


def test_sum_of_optionals(session):
    terms = [optional(tf.constant([1.0, 2.0]) * i)._variant_tensor for i in range(1, 4)]
    total = values_of(tf.raw_ops.AddN(inputs=terms), [tf.float32])[0]
    assert session.run(total).tolist() == [6.0, 12.0]
    mixed = tf.raw_ops.AddN(inputs=[terms[0], tf.raw_ops.OptionalNone()])
    with pytest.raises(tf.errors.InvalidArgumentError, match="one has a value"):
        session.run(tf.raw_ops.OptionalHasValue(optional=mixed))


def test_gradient_of_nested_conditions(session):
    tf1.enable_control_flow_v2()
    try:
        outer, inner = tf1.placeholder(tf.bool, []), tf1.placeholder(tf.bool, [])
        x = tf1.placeholder(tf.float32, [])
        y = tf.cond(outer, lambda: tf.cond(inner, lambda: tf.exp(x) * x, lambda: x * x * x),
                    lambda: tf.sin(x))
        first = tf.gradients(y, x)[0]
        second = tf.gradients(first, x)[0]
    finally:
        tf1.disable_control_flow_v2()
    assert session.run([first, second], {outer: True, inner: False, x: 2.0}) == [12.0, 12.0]
    assert session.run([first, second], {outer: False, inner: False, x: 0.0}) == [1.0, 0.0]
    assert session.run([first, second], {outer: True, inner: True, x: 0.0}) == [1.0, 2.0]


@pytest.mark.parametrize("op", [
    lambda dataset: tf.raw_ops.DatasetToGraph(input_dataset=dataset, allow_stateful=True),
    lambda dataset: tf.raw_ops.DatasetToGraphV2(input_dataset=dataset, external_state_policy=1)],
    ids=["first", "second"])
def test_dataset_as_a_graph(session, op):
    data = tf1.data.Dataset
    numbers = data.range(10).map(lambda n: n * 2).shuffle(4).repeat(2).batch(3)
    both = data.zip((numbers, data.from_tensors([1.0, 2.0]).repeat()))
    graph = tf1.GraphDef.FromString(session.run(op(both._variant_tensor)))
    ops = {node.op for node in graph.node if node.op.endswith("Dataset") or "DatasetV" in node.op}
    assert {"RangeDataset", "MapDataset", "RepeatDataset", "BatchDatasetV2", "ZipDataset",
            "TensorDataset"} <= ops
    assert any(op.startswith("ShuffleDataset") for op in ops)
    result = [node for node in graph.node if node.op == "_Retval"]
    assert [node.name for node in result] == ["dataset"]
    root = next(node for node in graph.node if node.name == result[0].input[0].split(":")[0])
    assert root.op == "ZipDataset"
    names = {function.signature.name for function in graph.library.function}
    mapped = next(node for node in graph.node if node.op == "MapDataset")
    assert mapped.attr["f"].func.name in names
