"""Graphs for test_gradients.py with control flow: conditionals, loops, functions, tensor lists. The
form is that of gradient_cases.py."""
import tensorflow as tf
from gradient_cases import CASES, case, random, raw, tf1


# ---- Conditionals ----

def conditional(name, taken):
    def build():
        x, y = random(2, 2), random(2, 2)
        z = tf1.cond(tf.constant(taken), lambda: x * y + x, lambda: tf.exp(y))
        return [z * random(2, 2)], [x, y]
    CASES[name] = build


conditional("cond_true", True)
conditional("cond_false", False)


@case
def cond_nested():
    x = random(2)
    p = tf.reduce_sum(x) > -100.0
    z = tf1.cond(p, lambda: tf1.cond(p, lambda: x * x, lambda: x), lambda: -x)
    return [z], [x]


# ---- Loops ----

def loop(name, body, count=4, **options):
    def build():
        x, w = random(2, 2), random(2, 2)
        _, y = tf1.while_loop(lambda i, _: i < count, lambda i, v: (i + 1, body(v, w, i)),
                              [tf.constant(0), x], **options)
        return [y * random(2, 2)], [x, w]
    CASES[name] = build


loop("while_mul", lambda v, w, i: v * w + 1.0)
loop("while_mat_mul", lambda v, w, i: tf.tanh(tf.matmul(v, w)))
loop("while_square", lambda v, w, i: v * v)
loop("while_never", lambda v, w, i: v * w, count=0)
loop("while_once", lambda v, w, i: v * w, count=1)
loop("while_serial", lambda v, w, i: tf.exp(v * w) * 0.5, parallel_iterations=1)
loop("while_constants", lambda v, w, i: v * 0.5 + tf.sin(w) * tf.cast(i, tf.float32))
loop("while_cond", lambda v, w, i: tf1.cond(tf.equal(i % 2, 0), lambda: tf.exp(v) * w,
                                           lambda: v * v + w))
loop("while_nested_cond", lambda v, w, i: tf1.cond(
    i > 0, lambda: tf1.cond(i > 1, lambda: v * v * w, lambda: tf.sin(v)), lambda: tf.exp(w) * v))


@case
def while_nested():
    x, w = random(2), random(2)

    def outer(i, v):
        _, inner = tf1.while_loop(lambda j, _: j <= i, lambda j, u: (j + 1, tf.sin(u) * w),
                                  [tf.constant(0), v * v])
        return i + 1, inner + v
    _, y = tf1.while_loop(lambda i, _: i < 3, outer, [tf.constant(0), x])
    return [y], [x, w]


@case
def while_two_variables():
    a, b = random(3), random(3)
    _, p, q = tf1.while_loop(lambda i, p, q: i < 3, lambda i, p, q: (i + 1, p * q, p + q),
                             [tf.constant(0), a, b])
    return [p], [a, b]


@case
def while_and_more():
    x = random(2)
    _, y = tf1.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, v * x), [tf.constant(0), x * 2])
    return [y * x + x], [x]


@case
def dynamic_rnn():
    x, w = random(3, 4, 2), random(7, 20)
    inputs = tf1.transpose(x, [1, 0, 2])
    source = tf1.TensorArray(tf.float32, 4).unstack(inputs)
    target = tf1.TensorArray(tf.float32, 4)

    def body(t, h, c, out):
        gates = tf.matmul(tf.concat([source.read(t), h], 1), w)
        i, j, f, o = tf.split(gates, 4, 1)
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(j)
        h = tf.tanh(c) * tf.sigmoid(o)
        return t + 1, h, c, out.write(t, h)
    zero = tf.zeros([3, 5])
    _, h, _, out = tf1.while_loop(lambda t, *_: t < 4, body, [tf.constant(0), zero, zero, target])
    return [h, out.stack() * random(4, 3, 5)], [x, w]


# ---- Functions ----

@tf.function
def _product(a, b):
    return tf.sin(a) * b + a, tf.exp(b)


@case
def call():
    x, y = random(2, 2), random(2, 2)
    p, q = _product(x, y)
    return [p * random(2, 2), q], [x, y]


@case
def functional_if():
    x, y = random(2), random(2)

    @tf.function
    def either(x, y):
        return tf.cond(tf.reduce_sum(x) > -100.0, lambda: x * y * y, lambda: x + 1.0)
    return [either(x, y)], [x, y]


@case
def functional_while():
    x, w = random(2), random(2)

    @tf.function
    def many(x, w):
        return tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, tf.sin(v) * w),
                             [tf.constant(0), x])[1]
    return [many(x, w)], [x, w]


@case
def tensor_lists():
    x = random(3, 2)
    rows = raw.TensorListFromTensor(tensor=x, element_shape=tf.constant([2]))
    more = raw.TensorListPushBack(input_handle=rows, tensor=x[0] * x[1])
    changed = raw.TensorListSetItem(input_handle=more, index=1, item=tf.exp(x[2]))
    last = raw.TensorListPopBack(input_handle=changed, element_shape=tf.constant([2]),
                                 element_dtype=tf.float32)
    whole = raw.TensorListStack(input_handle=last.output_handle, element_shape=tf.constant([2]),
                                element_dtype=tf.float32)
    one = raw.TensorListGetItem(input_handle=changed, index=2, element_shape=tf.constant([2]),
                                element_dtype=tf.float32)
    return [whole * random(3, 2), last.tensor * random(2), one * random(2)], [x]


@case
def more_tensor_lists():
    x, pair = random(3, 2), tf.constant([2])
    types = {"element_dtype": tf.float32, "element_shape": pair}
    rows = raw.TensorListFromTensor(tensor=x, element_shape=pair)
    chosen = raw.TensorListGather(input_handle=rows, indices=[2, 0], **types)
    wide = raw.TensorListResize(input_handle=rows, size=4)
    changed = raw.TensorListSetItem(input_handle=wide, index=3, item=x[0] * x[1])
    spread = raw.TensorListScatterV2(tensor=x, indices=[2, 0, 1], element_shape=pair,
                                     num_elements=-1)
    over = raw.TensorListScatterIntoExistingList(input_handle=rows, tensor=tf.exp(x[:2]),
                                                 indices=[1, 2])
    parts = raw.TensorListSplit(tensor=x, element_shape=tf.constant([-1, 2]),
                                lengths=tf.constant([1, 2], tf.int64))
    joined = raw.TensorListConcatV2(input_handle=parts, element_dtype=tf.float32,
                                    element_shape=tf.constant([-1, 2]),
                                    leading_dims=tf.constant([], tf.int64))
    stacks = [raw.TensorListStack(input_handle=rows, **types) for rows in (changed, spread, over)]
    return [chosen * random(2, 2), joined.tensor * random(3, 2)] + [
        stack * random(*size) for stack, size in zip(stacks, ((4, 2), (3, 2), (3, 2)))], [x]


@case
def optionals():
    x, y = random(2, 3), random(2)
    pair = raw.OptionalFromValue(components=[x * x, tf.exp(y)])
    values = raw.OptionalGetValue(optional=pair, output_types=[tf.float32, tf.float32],
                                  output_shapes=[[2, 3], [2]])
    return [values[0] * random(2, 3), values[1] * random(2)], [x, y]
