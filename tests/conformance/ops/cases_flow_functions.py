"""Calls of functions, and loops of both generations with their gradients: values, and what they refuse."""
import numpy as np
import tensorflow as tf
from runner import Case, case_decorator, feed

R = tf.raw_ops
tf1 = tf.compat.v1
CASES = []
case = case_decorator(CASES)
rng = np.random.RandomState(3)


def sample(shape, dtype=np.float32):
    values = rng.randint(0, 20, size=shape)
    return np.asarray(values).astype(dtype)


@tf.function
def square_and_sum(x, y):
    return x * x, x + y


def call(op, name, *args, **attrs):
    f = square_and_sum.get_concrete_function(tf.TensorSpec([None], tf.float32),
                                             tf.TensorSpec([None], tf.float32))
    f.add_to_graph(tf1.get_default_graph())
    return op(args=list(args), Tout=[tf.float32, tf.float32], f=f, **attrs)


for kind in [R.PartitionedCall, R.StatefulPartitionedCall]:
    @case(kind.__name__, "two results")
    def two_results(kind=kind):
        return list(call(kind, "", feed([1., 2.]), feed([3., 4.])))

    @case(kind.__name__, "an error inside")
    def error_inside(kind=kind):
        return list(call(kind, "", feed([1., 2.]), feed([3., 4., 5.])))


@case("RemoteCall")
def remote_call():
    f = square_and_sum.get_concrete_function(tf.TensorSpec([None], tf.float32),
                                             tf.TensorSpec([None], tf.float32))
    f.add_to_graph(tf1.get_default_graph())
    return list(R.RemoteCall(target=feed("/device:CPU:0"), args=[feed([1.]), feed([2.])],
                             Tout=[tf.float32, tf.float32], f=f))


def old_style(name, depth):
    from tensorflow.python.framework import function

    @function.Defun(tf.float32, func_name=f"deep_{name}_0")
    def inner(x):
        return x + 1.
    for i in range(depth):
        def make(before, i=i):
            @function.Defun(tf.float32, func_name=f"deep_{name}_{i + 1}")
            def outer(x):
                return before(x) * 2.
            return outer
        inner = make(inner)
    return inner


@case("function", "called by its name")
def called_by_name():
    return [old_style("a", 0)(feed(3.))]


@case("function", "deep calls")
def deep_calls():
    return [old_style("b", 8)(feed(3.))]


def branches(condition):
    @tf.function
    def then(x, y):
        return x + y, tf.shape(x)

    @tf.function
    def otherwise(x, y):
        return x - y, tf.shape(y) * 2
    spec = [tf.TensorSpec(None, tf.float32)] * 2
    return [f.get_concrete_function(*spec) for f in (then, otherwise)]


def add_functions(functions):
    for f in functions:
        f.add_to_graph(tf1.get_default_graph())
    return functions


for kind in [R.If, R.StatelessIf]:
    for value, dtype in [(True, None), (False, None), (0, np.int32), (3, np.int64), (0.5, np.float32),
                         (0., np.float64), ("", None), ("x", None), ([], np.float32), ([0.], None),
                         (2, np.int8), (1, np.uint8), (1, np.int16)]:
        @case(kind.__name__, repr(value))
        def choose(kind=kind, value=value, dtype=dtype):
            then, otherwise = add_functions(branches(value))
            return list(kind(cond=feed(value, dtype), input=[feed([1., 2.]), feed([3., 4.])],
                             Tout=[tf.float32, tf.int32], then_branch=then, else_branch=otherwise))

for kind in [R.Case, R.StatelessCase]:
    for index in [0, 1, 2, -1, 7]:
        @case(kind.__name__, str(index))
        def choose_case(kind=kind, index=index):
            then, otherwise = add_functions(branches(True))
            return list(kind(branch_index=feed(index, np.int32),
                             input=[feed([1., 2.]), feed([3., 4.])],
                             Tout=[tf.float32, tf.int32], branches=[then, otherwise, then]))

    @case(kind.__name__, "index of rank 1")
    def bad_index(kind=kind):
        then, otherwise = add_functions(branches(True))
        return list(kind(branch_index=feed([1], np.int32), input=[feed([1.]), feed([3.])],
                         Tout=[tf.float32, tf.int32], branches=[then, otherwise]))


def loop_functions(limit):
    @tf.function
    def condition(i, x):
        return i < limit

    @tf.function
    def body(i, x):
        return i + 1, x * 1.5
    spec = [tf.TensorSpec([], tf.int32), tf.TensorSpec(None, tf.float32)]
    return add_functions([f.get_concrete_function(*spec) for f in (condition, body)])


for kind in [R.While, R.StatelessWhile]:
    for limit in [0, 1, 20, 3000]:
        @case(kind.__name__, str(limit))
        def turns(kind=kind, limit=limit):
            condition, body = loop_functions(limit)
            return list(kind(input=[feed(0), feed([1e-30, 2.])], cond=condition, body=body))

    @case(kind.__name__, "an error in the body")
    def bad_body(kind=kind):
        @tf.function
        def condition(i):
            return tf.size(i) < 10

        @tf.function
        def body(i):
            return tf.reshape(i, [7])
        spec = tf.TensorSpec(None, tf.int32)
        condition, body = add_functions([condition.get_concrete_function(spec),
                                         body.get_concrete_function(spec)])
        return [kind(input=[feed(0)], cond=condition, body=body)]


for start, limit, delta in [(0, 5, 1), (0, 0, 1), (5, 0, -2), (3, 3, 0), (0, 5, -1), (0, 5, 0)]:
    @case("For", f"{start} {limit} {delta}")
    def for_loop(start=start, limit=limit, delta=delta):
        @tf.function
        def body(i, x):
            return x + tf.cast(i, tf.float32)
        f, = add_functions([body.get_concrete_function(tf.TensorSpec([], tf.int32),
                                                       tf.TensorSpec([], tf.float32))])
        return [R.For(start=feed(start), limit=feed(limit), delta=feed(delta), input=[feed(0.)],
                      body=f)]

for value, dtype in [(1., np.float32), (0., np.float64), (7, np.int64), ("", None), ("a", None),
                     ([1, 2], np.int32), (True, None), (1 + 2j, np.complex64), (3, np.uint16)]:
    @case("ToBool", repr(value))
    def to_bool(value=value, dtype=dtype):
        return [R.ToBool(input=feed(value, dtype))]

for shape in [[2, 3], [None, 3], None, []]:
    @case("FakeParam", str(shape))
    def fake_param(shape=shape):
        return [tf.shape(R.FakeParam(dtype=tf.float32, shape=shape))]


@case("DeviceIndex")
def device_index():
    return [R.DeviceIndex(device_names=["GPU", "CPU"]), R.DeviceIndex(device_names=["GPU"])]


# ---- Loops ----
def v1_while(control_flow):
    """Loops of either generation, with gradients."""
    def decorate(build):
        def run():
            (tf1.enable_control_flow_v2 if control_flow == 2 else tf1.disable_control_flow_v2)()
            try:
                return build()
            finally:
                tf1.disable_control_flow_v2()
        CASES.append(Case("loops", build=lambda: ({}, run()),
                          name=f"loops {build.__name__} of generation {control_flow}"))
        return build
    return decorate


for generation in [1, 2]:
    @v1_while(generation)
    def scan_gradient():
        x = feed(sample((5, 3)))
        x.set_shape([5, 3])
        y = tf.scan(lambda a, b: a * 0.5 + b * b, x)
        return [y] + tf.gradients(y, x)

    @v1_while(generation)
    def map_gradient():
        x = feed(sample((4, 2)))
        x.set_shape([4, 2])
        y = tf.map_fn(lambda row: tf.reduce_sum(row * row), x)
        return [y] + tf.gradients(y, x)

    @v1_while(generation)
    def nested():
        def outer(i, x):
            _, x = tf.while_loop(lambda j, _: j < i, lambda j, x: (j + 1, x * 1.1), [0, x])
            return i + 1, x
        x = feed(2.)
        x.set_shape([])
        _, y = tf.while_loop(lambda i, _: i < 4, outer, [0, x])
        return [y] + tf.gradients(y, x)

    @v1_while(generation)
    def branch_in_loop():
        x = feed(2.)
        x.set_shape([])
        _, y = tf.while_loop(
            lambda i, _: i < 6,
            lambda i, v: (i + 1, tf1.cond(tf.equal(i % 2, 0), lambda: v * x, lambda: v + x)), [0, x])
        return [y] + tf.gradients(y, x)

    @v1_while(generation)
    def array_gradient():
        x = feed(sample((6, 4)))
        x.set_shape([6, 4])
        source = tf.TensorArray(tf.float32, 6, clear_after_read=False).unstack(x)
        target = tf.TensorArray(tf.float32, 0, dynamic_size=True, infer_shape=False)
        _, target = tf.while_loop(
            lambda i, _: i < 5,
            lambda i, t: (i + 1, t.write(i, source.read(i) * source.read(i + 1))), [0, target])
        y = target.concat()
        return [y] + tf.gradients(y, x)
