"""Feeds and fetches of every dtype and of unusual shapes, on our server and on a genuine one."""

import numpy as np
import pytest
import tensorflow as tf

from conftest import tf1

NUMBERS = [tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int8, tf.int16, tf.int32, tf.int64,
           tf.uint8, tf.uint16, tf.uint32, tf.uint64, tf.complex64, tf.complex128, tf.bool]
SHAPES = [(), (0,), (1,), (3,), (2, 3), (2, 0, 3), (1, 2, 3, 2), (1, 1, 2, 1, 1, 3)]


def values(dtype, shape):
    count = int(np.prod(shape))
    numbers = np.arange(count) % 5
    if dtype == tf.bool:
        numbers = numbers % 2
    made = numbers.reshape(shape).astype(dtype.as_numpy_dtype)
    if dtype.is_complex:
        made = made * dtype.as_numpy_dtype(1 + 2j)
    return made


@pytest.mark.parametrize("dtype", NUMBERS, ids=lambda dtype: dtype.name)
def test_numbers_round_trip(session, dtype):
    for shape in SHAPES:
        fed = tf1.placeholder(dtype, shape)
        back = tf.identity(fed)
        sent = values(dtype, shape)
        got = session.run(back, {fed: sent})
        assert got.dtype == sent.dtype
        assert got.shape == shape
        np.testing.assert_array_equal(got, sent)


@pytest.mark.parametrize("dtype", NUMBERS, ids=lambda dtype: dtype.name)
def test_constants_of_every_dtype(session, dtype):
    for shape in SHAPES:
        sent = values(dtype, shape)
        np.testing.assert_array_equal(session.run(tf.constant(sent)), sent)


@pytest.mark.parametrize("dtype", [tf.qint8, tf.quint8, tf.qint32, tf.qint16, tf.quint16],
                         ids=lambda dtype: dtype.name)
def test_quantized_round_trip(session, dtype):
    fed = tf1.placeholder(dtype, [3])
    sent = np.array([1, 2, 3], dtype=dtype.as_numpy_dtype)
    got = session.run(tf.identity(fed), {fed: sent})
    assert got.tobytes() == sent.tobytes()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_strings_round_trip(session, shape):
    fed = tf1.placeholder(tf.string, shape)
    count = int(np.prod(shape))
    texts = [b"", b"short", b"x" * 22, b"y" * 23, b"\x00\xff\x00", b"z" * 100000]
    sent = np.array([texts[i % len(texts)] for i in range(count)], dtype=object).reshape(shape)
    got = session.run(tf.identity(fed), {fed: sent})
    if shape == ():
        assert got == sent.item()
    else:
        np.testing.assert_array_equal(got, sent)


def test_feed_replaces_any_tensor(server):
    """On ours only: the master of TensorFlow 2.21 folds b into a constant in the first run and ignores
    later feeds of it."""
    a = tf.constant(1.0)
    b = a + 1.0
    c = b * 10.0
    with tf1.Session(server.target) as session:
        assert session.run(c) == 20.0
        assert session.run(c, {b: 5.0}) == 50.0
        assert session.run([a, b], {b: 7.0}) == [1.0, 7.0]


def test_feed_one_output_of_several(session):
    parts = tf.split(tf.constant([1, 2, 3, 4]), 2)
    total = parts[0] + parts[1]
    np.testing.assert_array_equal(session.run(total, {parts[0]: [10, 20]}), [13, 24])


def test_fetch_the_same_tensor_twice(session):
    a = tf.constant(4)
    assert session.run([a, a, {"x": a}]) == [4, 4, {"x": 4}]


def test_fetch_an_operation_returns_none(session):
    assert session.run(tf.no_op()) is None
    assert session.run([tf.no_op(), tf.constant(1)]) == [None, 1]


def test_large_feed_and_fetch(session):
    fed = tf1.placeholder(tf.float32, [None])
    sent = np.arange(8 << 20, dtype=np.float32)
    got = session.run(fed + 1.0, {fed: sent})
    np.testing.assert_array_equal(got, sent + 1.0)


def test_unaligned_views_are_fed_by_value(session):
    fed = tf1.placeholder(tf.float64, [None, None])
    sent = np.arange(24.0).reshape(4, 6)[1::2, ::3]
    np.testing.assert_array_equal(session.run(tf.identity(fed), {fed: sent}), sent)


def test_feed_values_with_one_client_graph_and_many_shapes(session):
    fed = tf1.placeholder(tf.int32)
    total = tf.reduce_sum(fed)
    for shape in [(), (5,), (2, 3), (0,)]:
        assert session.run(total, {fed: np.ones(shape, np.int32)}) == int(np.prod(shape))
