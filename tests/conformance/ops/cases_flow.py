"""Functions, tensor arrays and stacks: values, gradients, and what they refuse."""
import numpy as np
import tensorflow as tf
from runner import Case, bfloat16, case_decorator, feed

R = tf.raw_ops
tf1 = tf.compat.v1
CASES = []
case = case_decorator(CASES)
rng = np.random.RandomState(3)
NUMBERS = [np.float32, np.float64, np.float16, bfloat16, np.int8, np.int16, np.int32, np.int64,
           np.uint8, np.uint16, np.complex64, np.complex128]


def sample(shape, dtype=np.float32):
    values = rng.randint(0, 20, size=shape)
    return np.asarray(values).astype(dtype)


# ---- Functions ----
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


# ---- Tensor arrays ----
def array(size, dtype=np.float32, **attrs):
    return R.TensorArrayV3(size=feed(size, np.int32), dtype=tf.as_dtype(dtype), **attrs)


def write(handle, index, value, flow):
    return R.TensorArrayWriteV3(handle=handle, index=feed(index, np.int32), value=value, flow_in=flow)


def read(handle, index, flow, dtype=np.float32):
    return R.TensorArrayReadV3(handle=handle, index=feed(index, np.int32), flow_in=flow,
                               dtype=tf.as_dtype(dtype))


def gather(handle, indices, flow, dtype=np.float32, element_shape=None):
    return R.TensorArrayGatherV3(handle=handle, indices=feed(np.array(indices, np.int32)),
                                 flow_in=flow, dtype=tf.as_dtype(dtype), element_shape=element_shape)


def concat(handle, flow, dtype=np.float32, element_shape_except0=None):
    return R.TensorArrayConcatV3(handle=handle, flow_in=flow, dtype=tf.as_dtype(dtype),
                                 element_shape_except0=element_shape_except0)


for dtype in NUMBERS + [np.bool_]:
    @case("TensorArrayV3", f"gather {dtype}")
    def gather_dtype(dtype=dtype):
        handle, flow = array(3, dtype)
        for i in range(3):
            flow = write(handle, i, feed(sample((2,), dtype)), flow)
        return [gather(handle, [2, 0, 1], flow, dtype), flow]


@case("TensorArrayV3", "strings")
def array_of_strings():
    handle, flow = array(2, np.str_, clear_after_read=False)
    flow = write(handle, 0, feed(["a", "b"]), flow)
    flow = write(handle, 1, feed(["c" * 50, ""]), flow)
    return [gather(handle, [0, 1], flow, np.str_), concat(handle, flow, np.str_)[0]]


@case("TensorArrayV3", "unwritten strings")
def array_of_unwritten_strings():
    handle, flow = array(2, np.str_, element_shape=[1])
    return [read(handle, 1, flow, np.str_)]


@case("TensorArrayV3", "scatter and concat")
def scatter_concat():
    handle, flow = array(4)
    flow = R.TensorArrayScatterV3(handle=handle, indices=feed([3, 1, 0, 2]),
                                  value=feed(sample((4, 2, 3))), flow_in=flow)
    value, lengths = concat(handle, flow)
    return [value, lengths]


@case("TensorArrayV3", "split")
def split_read():
    handle, flow = array(3, clear_after_read=False)
    flow = R.TensorArraySplitV3(handle=handle, value=feed(sample((6, 16))),
                                lengths=feed(np.array([1, 0, 5])), flow_in=flow)
    value, lengths = concat(handle, flow)
    return [value, lengths, read(handle, 0, flow), read(handle, 1, flow), read(handle, 2, flow)]


@case("TensorArrayV3", "grows")
def grows():
    handle, flow = array(0, dynamic_size=True)
    flow = write(handle, 5, feed([1., 2.]), flow)
    with tf.control_dependencies([flow]):
        return [R.TensorArraySizeV3(handle=handle, flow_in=flow)]


@case("TensorArrayV3", "zeros for what nobody wrote")
def unwritten():
    handle, flow = array(3, element_shape=[2, 2])
    return [read(handle, 1, flow), gather(handle, [0, 2], flow)]


@case("TensorArrayV3", "sum in a gradient array")
def gradient_sum():
    handle, flow = array(2, clear_after_read=False)
    flow = write(handle, 0, feed([1., 2.]), flow)
    flow = write(handle, 1, feed([3., 4.]), flow)
    grad, gflow = R.TensorArrayGradV3(handle=handle, flow_in=flow, source="g")
    for _ in range(3):
        gflow = write(grad, 0, feed([1., 1.]), gflow)
    return [gather(grad, [0, 1], gflow)]


@case("TensorArrayV3", "gradient with another shape")
def gradient_shape():
    handle, flow = array(2)
    flow = write(handle, 0, feed([1., 2.]), flow)
    grad, gflow = R.TensorArrayGradWithShape(handle=handle, flow_in=flow, source="g",
                                             shape_to_prepend=feed([3]))
    return [read(grad, 0, gflow)]


def refuses(name):
    return case("TensorArrayV3", "refuses " + name)


@refuses("a second write")
def second_write():
    handle, flow = array(2)
    return [write(handle, 0, feed(2.), write(handle, 0, feed(1.), flow))]


@refuses("a second read")
def second_read():
    handle, flow = array(2)
    flow = write(handle, 0, feed(1.), flow)
    first = read(handle, 0, flow)
    with tf.control_dependencies([first]):
        return [read(handle, 0, tf.identity(flow))]


@refuses("a write after a read")
def write_after_read():
    handle, flow = array(2, clear_after_read=False)
    flow = write(handle, 0, feed(1.), flow)
    first = read(handle, 0, flow)
    with tf.control_dependencies([first]):
        return [write(handle, 0, feed(1.), tf.identity(flow))]


for index in [2, -1, 100]:
    @refuses(f"a write to {index}")
    def write_outside(index=index):
        handle, flow = array(2)
        return [write(handle, index, feed(1.), flow)]

    @refuses(f"a read of {index}")
    def read_outside(index=index):
        handle, flow = array(2)
        return [read(handle, index, flow)]


@refuses("other shapes")
def other_shape():
    handle, flow = array(2, element_shape=[2])
    return [write(handle, 0, feed([1., 2., 3.]), flow)]


@refuses("shapes that differ")
def identical_shapes():
    handle, flow = array(2, identical_element_shapes=True)
    flow = write(handle, 0, feed([1., 2.]), flow)
    return [write(handle, 1, feed([1.]), flow)]


@refuses("another dtype to write")
def write_dtype():
    handle, flow = array(2)
    return [write(handle, 0, feed(1), flow)]


@refuses("another dtype to read")
def read_dtype():
    handle, flow = array(2)
    return [read(handle, 0, write(handle, 0, feed(1.), flow), np.int32)]


@refuses("a read without shape")
def read_unknown():
    handle, flow = array(2)
    return [read(handle, 0, flow)]


@refuses("what is closed")
def closed():
    handle, flow = array(2)
    with tf.control_dependencies([R.TensorArrayCloseV3(handle=handle)]):
        return [write(handle, 0, feed(1.), tf.identity(flow))]


@refuses("negative sizes")
def negative_size():
    handle, flow = array(-1)
    return [flow]


@refuses("sizes of rank 1")
def vector_size():
    handle, flow = R.TensorArrayV3(size=feed([1]), dtype=tf.float32)
    return [flow]


@refuses("elements of different shapes to stack")
def inconsistent():
    handle, flow = array(2)
    flow = write(handle, 0, feed([1.]), flow)
    flow = write(handle, 1, feed([1., 2.]), flow)
    return [gather(handle, [0, 1], flow)]


@refuses("scalars to concat")
def concat_scalars():
    handle, flow = array(1)
    return list(concat(handle, write(handle, 0, feed(1.), flow)))


@refuses("empty arrays of unknown shape")
def empty_unknown():
    handle, flow = array(0)
    return [gather(handle, [], flow)]


@case("TensorArrayV3", "empty arrays of known shape")
def empty_known():
    handle, flow = array(0)
    value, lengths = concat(handle, flow, element_shape_except0=[3])
    return [gather(handle, [], flow, element_shape=[2]), value, lengths]


for lengths, rows in [([1, 2], 4), ([1, 2, 3], 6), ([[1, 3]], 4)]:
    @refuses(f"split {lengths} of {rows}")
    def bad_split(lengths=lengths, rows=rows):
        handle, flow = array(2)
        return [R.TensorArraySplitV3(handle=handle, value=feed(sample((rows, 2))),
                                     lengths=feed(np.array(lengths, np.int64)), flow_in=flow)]

for indices in [[0, 2], [0, 1, 0], [0], [[0, 1]]]:
    @refuses(f"scatter to {indices}")
    def bad_scatter(indices=indices):
        handle, flow = array(2)
        return [R.TensorArrayScatterV3(handle=handle, indices=feed(np.array(indices, np.int32)),
                                       value=feed(sample((2, 2))), flow_in=flow)]


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


# ---- Stacks ----
@case("StackV2")
def push_and_pop():
    handle = R.StackV2(max_size=feed(-1), elem_type=tf.float32)
    one = R.StackPushV2(handle=handle, elem=feed([1., 2.]))
    with tf.control_dependencies([one]):
        two = R.StackPushV2(handle=handle, elem=feed([3.]))
    with tf.control_dependencies([two]):
        last = R.StackPopV2(handle=handle, elem_type=tf.float32)
    with tf.control_dependencies([last]):
        first = R.StackPopV2(handle=handle, elem_type=tf.float32)
    return [one, two, last, first]


@case("StackV2", "overflow")
def stack_overflow():
    handle = R.StackV2(max_size=feed(1), elem_type=tf.float32)
    with tf.control_dependencies([R.StackPushV2(handle=handle, elem=feed([1.]))]):
        return [R.StackPushV2(handle=handle, elem=feed([1.]))]


@case("StackV2", "pop of nothing")
def stack_empty():
    return [R.StackPopV2(handle=R.StackV2(max_size=feed(1), elem_type=tf.int32), elem_type=tf.int32)]


@case("StackV2", "wrong dtype")
def stack_dtype():
    handle = R.StackV2(max_size=feed(1), elem_type=tf.int32)
    return [R.StackPushV2(handle=handle, elem=feed([1.]))]


@case("StackV2", "closed")
def stack_closed():
    handle = R.StackV2(max_size=feed(1), elem_type=tf.int32)
    with tf.control_dependencies([R.StackCloseV2(handle=handle)]):
        return [R.StackPushV2(handle=handle, elem=feed([1]))]
