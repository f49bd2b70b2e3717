"""The same mistake gives the same error on our server and on a genuine one, and the error names the
node and the op."""

import numpy as np
import pytest
import tensorflow as tf

from conftest import tf1


def test_failing_node_is_named(session):
    fed = tf1.placeholder(tf.int32, [None])
    bad = tf.reshape(fed, [2, 2], name="bad_reshape")
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        session.run(bad, {fed: [1, 2, 3]})
    assert caught.value.op is not None and caught.value.op.name == "bad_reshape"
    assert caught.value.node_def.name == "bad_reshape"
    assert "bad_reshape" in caught.value.message
    assert "3 values" in caught.value.message and "4" in caught.value.message


def test_incompatible_shapes(session):
    a = tf1.placeholder(tf.float32, None)
    b = tf1.placeholder(tf.float32, None)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Incompatible shapes: \[2\] vs. \[3\]"):
        session.run(tf.add(a, b, name="sum"), {a: [1, 2], b: [1, 2, 3]})


def test_assertion(session):
    fed = tf1.placeholder(tf.int32, [])
    check = tf1.assert_equal(fed, tf.constant(2), message="they differ", name="check")
    session.run(check, {fed: 2})
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        session.run(check, {fed: 1})
    assert "they differ" in str(caught.value)


def test_division_by_zero(session):
    zero = tf1.placeholder(tf.int32, [])
    with pytest.raises(tf.errors.InvalidArgumentError, match="division by zero"):
        session.run(tf.constant(1) // zero, {zero: 0})


def test_index_out_of_range(session):
    index = tf1.placeholder(tf.int32, [])
    with pytest.raises(tf.errors.InvalidArgumentError, match="not in"):
        session.run(tf.gather([1, 2, 3], index), {index: 5})


def test_placeholder_without_feed(session):
    fed = tf1.placeholder(tf.float32, [2], name="fed")
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match="You must feed a value for placeholder tensor 'fed'"):
        session.run(fed + 1.0)


def test_first_error_wins_and_the_session_lives_on(session):
    fed = tf1.placeholder(tf.int32, [None])
    bad = tf.reshape(fed, [2, 2])
    for _ in range(5):
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(bad, {fed: [1, 2, 3]})
        np.testing.assert_array_equal(session.run(bad, {fed: [1, 2, 3, 4]}), [[1, 2], [3, 4]])


def test_fused_nodes_go_by_the_names_of_the_graph(server):
    """An error in nodes that the server fused names one of the client's nodes."""
    images = tf1.placeholder(tf.float32, [None, None, None, None])
    kernels = tf1.placeholder(tf.float32, [None, None, None, None])
    biases = tf1.placeholder(tf.float32, [None])
    y = tf.nn.conv2d(images, kernels, 1, "SAME", name="conv")
    y = tf.nn.relu(tf1.nn.bias_add(y, biases, name="shifted"), name="active")
    fed = {images: np.ones([1, 4, 4, 3]), kernels: np.ones([2, 2, 3, 5]), biases: np.ones(5)}
    with tf1.Session(server.target) as session:
        for wrong in [{kernels: np.ones([2, 2, 2, 5])}, {biases: np.ones(4)}]:
            with pytest.raises(tf.errors.InvalidArgumentError) as caught:
                session.run(y, {**fed, **wrong})
            assert caught.value.op.name in ["conv", "shifted", "active"]
        session.run(y, fed)


def test_unknown_device(target):
    with tf.device("/job:nowhere/task:7"):
        a = tf.constant(1.0, name="lost")
    with tf1.Session(target) as session:
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            session.run(a)
    assert "lost" in str(caught.value) and "/job:nowhere" in str(caught.value)
    assert caught.value.message.endswith("\n\t [[lost]]")
    assert str(caught.value).count("/job:nowhere/task:7 but available devices") == 1
    assert caught.value.op is None


def test_soft_placement(target):
    with tf.device("/device:GPU:0"):
        a = tf.constant(1.0, name="on_gpu")
    with tf1.Session(target, config=tf1.ConfigProto(allow_soft_placement=False)) as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match="on_gpu"):
            session.run(a)
    with tf1.Session(target, config=tf1.ConfigProto(allow_soft_placement=True)) as session:
        assert session.run(a) == 1.0


def test_long_messages_arrive_whole(session):
    fed = tf1.placeholder(tf.string, [])
    check = tf1.Assert(tf.constant(False), [fed], summarize=1)
    text = "x" * 20000
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        session.run(check, {fed: text})
    assert len(str(caught.value)) > 3000


def test_run_after_close(target):
    session = tf1.Session(target)
    a = tf.constant(1)
    session.run(a)
    session.close()
    with pytest.raises(RuntimeError):
        session.run(a)


def test_op_without_a_kernel(server):
    """The step is refused with the op's name before anything runs, even fetches that do not need it."""
    variable = tf1.get_variable("untouched", initializer=1.0)
    size = tf.raw_ops.CudnnRNNParamsSize(num_layers=1, num_units=1, input_size=1, T=tf.float32,
                                         S=tf.int32, name="needs_a_gpu")
    with tf1.Session(server.target) as session:
        session.run(variable.initializer)
        with pytest.raises(tf.errors.UnimplementedError,
                           match="CudnnRNNParamsSize.*needs_a_gpu") as caught:
            session.run([variable.assign(2.0), size])
        assert "Registered devices: [CPU]" in str(caught.value)
        assert session.run(variable) == 1.0
