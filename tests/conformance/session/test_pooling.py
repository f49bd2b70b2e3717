"""On our server MaxPool hands its gradient the places of the maxima, so that they are searched once.
Values and errors must be those of the ops one by one, whatever a client feeds, fetches or turns off.
"""

import numpy as np
import pytest
import tensorflow as tf

from conftest import tf1

R = tf.raw_ops
# image, ksize, strides, padding (a name, or explicit padding at the top, bottom, left and right)
WINDOWS = [((2, 8, 8, 32), (2, 2), (2, 2), "SAME"), ((2, 7, 9, 20), (2, 2), (2, 2), "SAME"),
           ((1, 9, 8, 17), (2, 2), (2, 2), "VALID"), ((2, 8, 7, 16), (3, 3), (2, 2), "SAME"),
           ((1, 9, 9, 5), (3, 3), (2, 2), "VALID"), ((1, 6, 5, 3), (3, 3), (1, 1), "SAME"),
           ((1, 9, 10, 18), (2, 2), (3, 3), "SAME"), ((1, 12, 11, 4), (5, 4), (3, 2), "SAME"),
           ((2, 3, 2, 7), (9, 5), (4, 2), "SAME"), ((1, 17, 17, 2), (16, 16), (1, 1), "VALID"),
           ((1, 18, 18, 2), (17, 16), (1, 1), "VALID"),
           ((2, 7, 8, 19), (3, 3), (2, 2), (1, 2, 2, 1)), ((1, 5, 6, 9), (4, 3), (2, 1), (3, 3, 0, 2))]
DTYPES = [tf.float32, tf.float64, tf.float16, tf.bfloat16]


def attributes(window):
    """The attributes of MaxPool and MaxPoolGrad."""
    _, sizes, strides, padding = window
    attrs = dict(ksize=[1, *sizes, 1], strides=[1, *strides, 1])
    if isinstance(padding, str):
        return dict(attrs, padding=padding)
    return dict(attrs, padding="EXPLICIT", explicit_paddings=[0, 0, *padding, 0, 0])


def few_values(shape, dtype):
    """Only 7 different values, so that many maxima occur twice and the first of them matters."""
    return np.random.default_rng(5).integers(-3, 4, shape).astype(dtype.as_numpy_dtype)


def expected(image, gradient, window):
    """(the maxima, the gradient of the image): the first maximum of each window gets the gradient."""
    _, sizes, strides, padding = window
    before = [0, 0]
    for i in range(2):
        if padding == "SAME":
            total = (gradient.shape[i + 1] - 1) * strides[i] + sizes[i] - image.shape[i + 1]
            before[i] = max(total, 0) // 2
        elif padding != "VALID":
            before[i] = padding[2 * i]
    pooled, result = np.zeros(gradient.shape), np.zeros(image.shape)
    for n, y, x, c in np.ndindex(*gradient.shape):
        rows, columns = (slice(max(at * stride - first, 0), max(at * stride - first + size, 0))
                         for at, stride, first, size in zip((y, x), strides, before, sizes))
        part = image[n, rows, columns, c].astype(np.float64)
        pooled[n, y, x, c] = part.max()
        place = np.unravel_index(part.argmax(), part.shape)
        result[n, rows.start + place[0], columns.start + place[1], c] += gradient[n, y, x, c]
    return pooled, result


def without_rewriting():
    config = tf1.ConfigProto()
    config.graph_options.optimizer_options.opt_level = -1
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return config


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_values(target, server, window, dtype):
    if target != server.target and dtype.size == 2 and np.prod(window[1]) > 100:
        pytest.skip("oneDNN finds other places for 16-bit floats in large windows")
    x, g = tf1.placeholder(dtype, None), tf1.placeholder(dtype, None)
    pooled = R.MaxPool(input=x, **attributes(window))
    result = R.MaxPoolGrad(orig_input=x, orig_output=pooled, grad=g, **attributes(window))
    image = few_values(window[0], dtype)
    with tf1.Session(target) as session, tf1.Session(target, config=without_rewriting()) as plain:
        largest = session.run(pooled, {x: image})
        feeds = {x: image, g: few_values(largest.shape, dtype)}
        both = [one.run([pooled, result], feeds) for one in (session, plain)]
        alone = session.run(result, feeds)
    wanted = expected(image, feeds[g], window)
    np.testing.assert_array_equal(largest.astype(np.float64), wanted[0])
    np.testing.assert_array_equal(alone.astype(np.float64), wanted[1])
    for found in both:
        for one, other in zip(found, wanted):
            assert one.dtype == dtype.as_numpy_dtype
            np.testing.assert_array_equal(one.astype(np.float64), other)


def test_windows_that_are_inputs(session):
    window = WINDOWS[3]
    image = few_values(window[0], tf.float32)
    x, attrs = tf1.placeholder(tf.float32, None), attributes(window)
    pooled = R.MaxPoolV2(input=x, **attrs)
    result, = tf1.gradients(pooled * pooled, x)
    found = session.run([pooled, result], {x: image})
    for one, other in zip(found, expected(image, 2 * found[0], window)):
        np.testing.assert_array_equal(one, other)


def small_pair():
    x = tf1.placeholder(tf.float32, None, name="x")
    pooled = tf.nn.max_pool2d(x, 2, 2, "SAME", name="pooled")
    return x, pooled, tf1.gradients(pooled, x)[0]


def test_outputs_that_are_fed(session):
    """The gradient goes to the maxima of the input, even if another output is fed."""
    x, pooled, result = small_pair()
    image = few_values((1, 4, 4, 3), tf.float32)
    wanted = session.run(result, {x: image})
    fed = session.run(result, {x: image, pooled: np.zeros((1, 2, 2, 3), np.float32)})
    np.testing.assert_array_equal(fed, wanted)


def test_functions_and_loops(session):
    image = few_values((1, 6, 6, 18), tf.float32)
    x, _, result = small_pair()
    wanted = session.run(result, {x: image})

    @tf.function
    def gradient(value):
        return tf1.gradients(tf.nn.max_pool2d(value, 2, 2, "SAME"), value)[0]

    def again(count, value):
        inside = x + value * 0
        return count + 1, inside + gradient(inside) * 0 + tf1.gradients(
            tf.nn.max_pool2d(inside, 2, 2, "SAME"), inside)[0]
    looped = tf.while_loop(lambda count, _: count < 3, again, [0, x])[1]
    branch = tf.cond(tf.reduce_sum(x) < 1e9, lambda: gradient(x), lambda: x)
    found = session.run([gradient(x), looped, branch], {x: image})
    np.testing.assert_array_equal(found[0], wanted)
    np.testing.assert_array_equal(found[1], image + wanted)
    np.testing.assert_array_equal(found[2], wanted)


def test_variables_that_change_in_between(server):
    """The gradient reads a reference variable again, as genuine TensorFlow does without oneDNN."""
    first, second = (few_values((1, 4, 4, 2), tf.float32) for _ in range(2))
    second = second[:, ::-1, ::-1].copy()
    variable = tf1.get_variable("v", initializer=first, use_resource=False)
    pooled = R.MaxPool(input=variable.op.outputs[0], **attributes(WINDOWS[0]))
    with tf.control_dependencies([pooled]):
        change = tf1.assign(variable, second)
    with tf.control_dependencies([change]):
        result = R.MaxPoolGrad(orig_input=variable.op.outputs[0], orig_output=pooled,
                               grad=tf.ones((1, 2, 2, 2)), **attributes(WINDOWS[0]))
    tf1.Session.reset(server.target)
    with tf1.Session(server.target, config=without_rewriting()) as session:
        session.run(variable.initializer)
        found = session.run(result)
    np.testing.assert_array_equal(found, expected(second, np.ones((1, 2, 2, 2)), WINDOWS[0])[1])


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_what_is_not_a_number(server, window):
    """The pair gives the same bits as the ops one by one. These are compared with genuine TensorFlow
    in the tests of ops."""
    image = few_values(window[0], tf.float32)
    image[image == 3] = np.nan
    image[image == -3] = -np.inf
    x, g = tf1.placeholder(tf.float32, None), tf1.placeholder(tf.float32, None)
    pooled = R.MaxPool(input=x, **attributes(window))
    result = R.MaxPoolGrad(orig_input=x, orig_output=pooled, grad=g, **attributes(window))
    with tf1.Session(server.target) as session:
        largest = session.run(pooled, {x: image})
        feeds = {x: image, g: np.random.default_rng(6).standard_normal(largest.shape, np.float32)}
        found, paired = session.run([pooled, result], feeds)
        apart = session.run(result, {**feeds, pooled: largest})
    assert found.tobytes() == largest.tobytes() and paired.tobytes() == apart.tobytes()


def ops_that_ran(target, fetches, feeds):
    options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
    metadata = tf1.RunMetadata()
    with tf1.Session(target, config=without_rewriting()) as session:
        session.run(fetches, feeds, options, metadata)
    return " ".join(stats.timeline_label for device in metadata.step_stats.dev_stats
                    for stats in device.node_stats)


def test_what_runs(server):
    x, pooled, result = small_pair()
    image = few_values((1, 4, 4, 3), tf.float32)
    labels = ops_that_ran(server.target, result, {x: image})
    assert "pooled = _MaxPoolWithPlaces(" in labels and "= _MaxPoolGradFromPlaces(" in labels
    assert "= MaxPool(" in ops_that_ran(server.target, pooled, {x: image})
    labels = ops_that_ran(server.target, result, {x: image, pooled: image[:, ::2, ::2]})
    assert "= MaxPoolGrad(" in labels


def test_errors(server):
    """The errors are those of MaxPool and MaxPoolGrad. Not compared with genuine TensorFlow, whose
    oneDNN kernels check less."""
    x, g = tf1.placeholder(tf.float32, None), tf1.placeholder(tf.float32, None)
    pooled = R.MaxPool(input=x, name="pooled", **attributes(WINDOWS[0]))
    result = R.MaxPoolGrad(orig_input=x, orig_output=pooled, grad=g, name="back",
                           **attributes(WINDOWS[0]))
    for image, culprit in ((np.ones((1, 4, 4, 2)), "back"), (np.ones((4, 4, 2)), "pooled")):
        with tf1.Session(server.target) as session, \
                pytest.raises(tf.errors.InvalidArgumentError) as caught:
            session.run(result, {x: image, g: np.ones((1, 4, 4, 2))})
        assert caught.value.op is not None and caught.value.op.name == culprit
