"""Flow along reference edges, ops that pass a value on, printing, gradients of functions, and the
ops that other sides of TensorFlow put into graphs themselves."""
import os

import numpy as np
import tensorflow as tf
from fixtures import fresh, scratch_folder
from runner import Case, bfloat16, case_decorator, feed, make_op
from tensorflow.python.framework import function

R = tf.raw_ops
tf1 = tf.compat.v1
CASES = []
case = case_decorator(CASES)
FOLDER = scratch_folder("flow")
NUMBERS = [np.float32, np.float64, np.float16, bfloat16, np.int8, np.int16, np.int32, np.int64,
           np.uint8, np.uint16, np.uint32, np.uint64, np.complex64, np.complex128, np.bool_]


def variable(value):
    """(reference, the run that sets it)"""
    value = np.asarray(value, np.float32 if isinstance(value, list) and not isinstance(
        value[0], str) else None)
    dtype = tf.string if value.dtype.kind in "SUO" else tf.as_dtype(value.dtype)
    ref = R.VariableV2(shape=value.shape, dtype=dtype, shared_name=fresh("variable"))
    return ref, [R.Assign(ref=ref, value=tf.constant(value, dtype))]


# ---- One reference in, the same one out ----
PASSES = {"RefIdentity": "input", "DebugGradientRefIdentity": "input"}
for op, argument in PASSES.items():
    for dtype in NUMBERS:
        @case(op, np.dtype(dtype).name)
        def passed(op=op, argument=argument, dtype=dtype):
            ref, start = variable(np.array([[0, 1], [1, 0]]).astype(dtype))
            return [start, [make_op(op, **{argument: ref})]]

    @case(op, "strings")
    def passed_strings(op=op, argument=argument):
        ref, start = variable(["a", "b" * 40])
        same = make_op(op, **{argument: ref})
        return [start, [same], [R.Assign(ref=same, value=["c", ""])], [ref]]

    @case(op, "writing through it")
    def written(op=op, argument=argument):
        ref, start = variable([1., 2.])
        same = make_op(op, **{argument: ref})
        return [start, [R.AssignAdd(ref=same, value=feed([10., 20.]))], [ref],
                [R.ScatterUpdate(ref=same, indices=feed([1]), updates=feed([7.]))], [ref, same]]

    @case(op, "before a value is there")
    def unset(op=op, argument=argument):
        ref, start = variable([1., 2.])
        same = make_op(op, **{argument: ref})
        return [[same], [R.AssignAdd(ref=same, value=feed([1., 1.]))],
                [R.IsVariableInitialized(ref=same)],
                [R.Assign(ref=same, value=feed([5., 6.]))], [same],
                [R.IsVariableInitialized(ref=same)]]

    @case(op, "changing the shape")
    def reshaped(op=op, argument=argument):
        ref, start = variable([1., 2.])
        same = make_op(op, **{argument: ref})
        return [start, [R.Assign(ref=same, value=feed([1., 2., 3.]), validate_shape=False)], [ref],
                [R.Assign(ref=same, value=feed([1., 2.]))], [ref]]


# ---- Choices ----
def choose(ref, flag):
    false, true = R.RefSwitch(data=ref, pred=flag)
    return [R.AssignAdd(ref=false, value=[1., 1.]), R.AssignAdd(ref=true, value=[10., 10.])]


for flag in [False, True]:
    @case("RefSwitch", f"{flag}")
    def switched(flag=flag):
        ref, start = variable([1., 2.])
        false, true = choose(ref, feed(flag))
        merged, index = R.RefMerge(inputs=[false, true])
        return [start, [merged, index], [ref], [R.AssignSub(ref=merged, value=feed([100., 0.]))],
                [ref]]

    @case("RefSwitch", f"as a plain value {flag}")
    def plain(flag=flag):
        ref, start = variable([1., 2.])
        false, true = R.RefSwitch(data=ref, pred=feed(flag))
        output, index = R.Merge(inputs=[tf.identity(false) * 2., true + 5.])
        return [start, [output, index]]

    @case("RefMerge", f"two variables {flag}")
    def two_variables(flag=flag):
        (a, start_a), (b, start_b) = variable([1., 2.]), variable([3., 4., 5.])
        merged, index = R.RefMerge(inputs=[R.RefSwitch(data=a, pred=feed(flag))[0],
                                           R.RefSwitch(data=b, pred=feed(flag))[1]])
        return [start_a, start_b, [merged, index], [R.AssignAdd(ref=merged, value=feed(
            [1., 1., 1.] if flag else [1., 1.]))], [a], [b]]

for dtype in NUMBERS + [np.str_]:
    @case("RefSwitch", f"dtype {dtype}")
    def switched_dtype(dtype=dtype):
        ref, start = variable(np.array([0, 1, 1]).astype(dtype))
        merged, index = R.RefMerge(inputs=list(R.RefSwitch(data=ref, pred=feed(True))))
        return [start, [merged, index]]

    @case("RefSelect", f"dtype {dtype}")
    def selected_dtype(dtype=dtype):
        (a, start_a), (b, start_b) = (variable(np.array(v).astype(dtype)) for v in ([0, 1], [1, 1]))
        return [start_a, start_b, [R.RefSelect(index=feed(1), inputs=[a, b])]]


@case("RefSwitch", "before a value is there")
def unset_switch():
    ref, _ = variable([1., 2.])
    false, true = R.RefSwitch(data=ref, pred=feed(True))
    return [[true], [R.Assign(ref=true, value=feed([3., 4.]))], [ref]]


@case("RefSwitch", "a condition of rank 1")
def switch_vector():
    ref, start = variable([1., 2.])
    return [start, [R.RefSwitch(data=ref, pred=feed([True, False]))[0]],
            [R.RefSwitch(data=ref, pred=feed([True]))[1]]]


for index in [0, 1, 2, 3, -1]:
    @case("RefSelect", f"{index}")
    def selected(index=index):
        made = [variable([float(i), 2.]) for i in range(3)]
        ref = R.RefSelect(index=feed(index), inputs=[v for v, _ in made])
        return [start for _, start in made] + [[ref], [R.AssignAdd(ref=ref, value=feed([7., 7.]))],
                                               [v for v, _ in made]]


@case("RefSelect", "an index of rank 1")
def select_vector():
    ref, start = variable([1., 2.])
    return [start, [R.RefSelect(index=feed([0, 0]), inputs=[ref, ref])],
            [R.RefSelect(index=feed([0]), inputs=[ref, ref])]]


@case("RefSelect", "one that has no value")
def select_unset():
    (a, start), (b, _) = variable([1., 2.]), variable([1., 2.])
    return [start, [R.RefSelect(index=feed(0), inputs=[a, b])],
            [R.RefSelect(index=feed(1), inputs=[a, b])]]


# ---- Loops ----
def loop(ref, limit, body, parallel=10):
    """(count, reference) after `limit` turns of body(reference) on a reference that goes round."""
    frame = fresh("frame")

    def enter(value, constant=False):
        return R.Enter(data=value, frame_name=frame, is_constant=constant,
                       parallel_iterations=parallel)
    first = R.RefEnter(data=ref, frame_name=frame, is_constant=False, parallel_iterations=parallel)
    zero = enter(feed(0))
    count, around = R.Merge(inputs=[zero, zero]).output, R.RefMerge(inputs=[first, first]).output
    go = R.LoopCond(input=R.Less(x=count, y=enter(feed(limit), True)))
    count_end, count_on = R.Switch(data=count, pred=go)
    end, on = R.RefSwitch(data=around, pred=go)
    following = R.NextIteration(data=R.AddV2(x=count_on, y=enter(feed(1), True)))
    count.op._update_input(1, following)
    around.op._update_input(1, R.RefNextIteration(data=body(on, enter)))
    return [R.Exit(data=count_end), R.RefExit(data=end)]


for limit in [0, 1, 7, 500]:
    for parallel in [1, 10]:
        @case("RefEnter", f"a sum of {limit}, {parallel} at once")
        def sum_in_loop(limit=limit, parallel=parallel):
            ref, start = variable([1., 2.])
            step = feed([1., .5])
            done = loop(ref, limit, lambda r, enter: R.AssignAdd(ref=r, value=enter(step, True)),
                        parallel)
            return [start, done, [ref], [R.AssignAdd(ref=done[1], value=feed([1000., 0.]))], [ref]]

for dtype in NUMBERS + [np.str_]:
    @case("RefEnter", f"dtype {dtype}")
    def loop_dtype(dtype=dtype):
        ref, start = variable(np.array([0, 1]).astype(dtype))
        return [start, loop(ref, 3, lambda r, enter: R.RefIdentity(input=r))]


@case("RefEnter", "an error inside")
def loop_error():
    ref, start = variable([1., 2.])
    wrong = feed([1., 2., 3.])
    return [start, loop(ref, 3, lambda r, enter: R.AssignAdd(ref=r, value=enter(wrong, True))),
            [ref]]


@case("RefEnter", "before a value is there")
def loop_unset():
    ref, start = variable([1., 2.])
    value = feed([3., 4.])
    return [loop(ref, 2, lambda r, enter: R.RefIdentity(input=r)),
            loop(ref, 2, lambda r, enter: R.Assign(ref=r, value=enter(value, True))), [ref]]


@case("RefEnter", "the same in every turn")
def loop_constant():
    ref, start = variable([1., 2.])
    other, start_other = variable([1., 1.])

    def body(r, enter):
        constant = R.RefEnter(data=other, frame_name=enter(feed(0)).op.get_attr("frame_name"),
                              is_constant=True, parallel_iterations=10)
        return R.AssignAdd(ref=r, value=constant)
    return [start, start_other, loop(ref, 5, body), [ref], [other]]


# ---- Values passed on ----
for op in ["GuaranteeConst", "PreventGradient", "Snapshot", "DebugGradientIdentity"]:
    for dtype in NUMBERS:
        CASES.append(Case(op, [np.array([[0, 1], [1, 0]]).astype(dtype)]))
    CASES += [Case(op, [np.array([b"a", b"b" * 40], object)]), Case(op, [np.float32(3)]),
              Case(op, [np.zeros((0, 3), np.int32)])]

    @case(op, "a handle")
    def passes_handle(op=op):
        handle = R.VarHandleOp(dtype=tf.float32, shape=[2], shared_name=fresh("handle"))
        same = make_op(op, input=handle)
        return [[R.AssignVariableOp(resource=same, value=feed([1., 2.]))],
                [R.ReadVariableOp(resource=handle, dtype=tf.float32)]]

    @case(op, "the value of before")
    def passes_value(op=op):
        ref, start = variable([1., 2.])
        value = make_op(op, input=ref)
        with tf.control_dependencies([value]):
            changed = R.AssignAdd(ref=ref, value=feed([1., 1.]))
        return [start, [changed], [value], [ref]]
CASES.append(Case("PreventGradient", [np.float32([1, 2])], {"message": "no gradient"}))

for value in [np.float32([[1, 2], [3, 4]]), np.int64(-7), np.array([b"a", b""], object),
              np.zeros((2, 0), np.float16), np.array([True, False]), np.complex64([1 + 2j]),
              np.full((100,), 5, np.uint8)]:
    @case("HostConst", f"{value.dtype} {value.shape}")
    def constant(value=value):
        proto = tf.make_tensor_proto(value)
        return [make_op("HostConst", value=proto, dtype=proto.dtype)]


@case("HostConst", "another dtype")
def constant_of_another():
    return [make_op("HostConst", value=tf.make_tensor_proto([1.]), dtype=tf.int32)]


for shape in [[2], [], [None, 2], None]:
    def placeholder_case(shape=shape):
        held = make_op("PlaceholderV2", dtype=tf.float32, shape=shape)
        return {held: np.ones([2 if n is None else n for n in shape or []], np.float32)}, [held * 2.]
    CASES.append(Case("PlaceholderV2", build=placeholder_case, name=f"PlaceholderV2 fed {shape}"))

    @case("PlaceholderV2", f"unfed {shape}", producer=22)
    def unfed(shape=shape):
        return [make_op("PlaceholderV2", dtype=tf.float32, shape=shape)]


# ---- Printing ----
def printed(name, values, **attrs):
    path = os.path.join(FOLDER, name)

    @case("PrintV2", name)
    def build():
        prints = [[R.PrintV2(input=feed(value), output_stream="file://" + path, **attrs)]
                  for value in values]
        return [[R.WriteFile(filename=path, contents="")]] + prints + [[R.ReadFile(filename=path)]]


printed("lines", ["one", "", "two\nthree"])
printed("other end", ["one", "two"], end=", ")
printed("no end", ["one", "two"], end="")
printed("bytes", [b"a\0b\xff"], end="\n\n")
printed("a vector", [["a", "b"], ["a"], [[""]]])


@case("PrintV2", "a file that cannot be")
def unwritable():
    return [R.PrintV2(input=feed("x"), output_stream="file:///nonexistent/folder/file")]


for stream in ["stderr", "log(info)", "nowhere", "", "stdout ", "file:/x", "log(fatal)"]:
    @case("PrintV2", f"to {stream!r}")
    def print_to(stream=stream):
        return [R.PrintV2(input=feed(""), output_stream=stream, end="")]


# ---- Gradients of functions ----
@function.Defun(tf.float32, tf.float32, tf.float32, func_name="gradient_of_product")
def product_gradient(x, y, dz):
    return dz * y * 2., dz * x * 3.


@function.Defun(tf.float32, tf.float32, func_name="product", grad_func=product_gradient)
def product(x, y):
    return x * y


def gradient(inputs, types, f):
    return list(R.SymbolicGradient(input=inputs, Tout=types, f=f))


@case("SymbolicGradient", "a gradient that is given")
def given():
    z = product(feed([1., 2.]), feed([3., 4.]))
    f = z.op.op_def.name if z.op.type == "product" else "product"
    attribute = tf1.AttrValue().func
    attribute.name = f
    return [z] + gradient([feed([1., 2.]), feed([3., 4.]), feed([1., 10.])], [tf.float32] * 2,
                          attribute)


@case("SymbolicGradient", "as tf.gradients makes it")
def by_gradients():
    x, y = feed([1., 2.]), feed([3., 4.])
    z = product(x, y)
    return [z] + tf1.gradients(z, [x, y])


@function.Defun(tf.float32, tf.float32)
def plain(x, y):
    return tf.sin(x) * y + tf.reduce_sum(tf.nn.relu(y))


@function.Defun(tf.float32, tf.float32)
def nested(x, y):
    return plain(x, y) * 2., plain(y, x)


@function.Defun(tf.float32, tf.int32)
def shaped(x, shape):
    return tf.square(tf.reshape(x, shape))


@function.Defun(tf.float32, tf.float32)
def of_product(x, y):
    return product(x, y) * x


def function_attribute(f):
    f(*[feed(0, t) for t in f.declared_input_types])
    attribute = tf1.AttrValue().func
    attribute.name = f.name
    return attribute


@case("SymbolicGradient", "of a plain function")
def derived():
    return gradient([feed([1., 2.]), feed([3., -4.]), feed([1., 10.])], [tf.float32] * 2,
                    function_attribute(plain))


@case("SymbolicGradient", "of a function that calls another twice")
def derived_twice():
    return gradient([feed([1., 2.]), feed([3., -4.]), feed([1., 10.]), feed([2., 1.])],
                    [tf.float32] * 2, function_attribute(nested))


@case("SymbolicGradient", "of a function with an integer")
def derived_integer():
    return gradient([feed([[1., 2.]]), feed([2, 1]), feed([[1.], [10.]])], [tf.float32, tf.int32],
                    function_attribute(shaped))


@case("SymbolicGradient", "of a function that calls one with a given gradient")
def derived_given():
    return gradient([feed([1., 2.]), feed([3., 4.]), feed([1., 10.])], [tf.float32] * 2,
                    function_attribute(of_product))


@case("SymbolicGradient", "as tf.gradients makes it for a plain function")
def derived_by_gradients():
    x, y = feed([1., 2.]), feed([3., 4.])
    z = plain(x * 2., y)
    return [z] + tf1.gradients(z, [x, y])


# ---- Ops that no client writes, but graphs of functions hold ----
for dtype in [tf.float32, tf.string, tf.int64, tf.bool]:
    @case("_ArrayToList", dtype.name)
    def lists(dtype=dtype):
        values = [tf.cast(feed(v), dtype) if dtype != tf.string else feed(str(v))
                  for v in ([1, 0], 3, [[1]])]
        items = make_op("_ListToArray", input=values, T=dtype, N=3)
        return list(make_op("_ArrayToList", input=items, out_types=[dtype] * 3)) + items

for index in [0, 1, 2, 3, -1, 9]:
    @case("_SwitchN", f"{index}")
    def many_ways(index=index):
        ways = make_op("_SwitchN", data=feed([1., 2.]), output_index=feed(index), num_outs=3)
        output, which = R.Merge(inputs=[way * (i + 2.) for i, way in enumerate(ways)])
        return [output, which]


@case("_SwitchN", "an index of rank 1")
def ways_of_vector():
    return [make_op("_SwitchN", data=feed(1.), output_index=feed([0, 0]), num_outs=2)[0]]


def functions(spec, *bodies):
    made = [tf.function(body, autograph=False).get_concrete_function(*spec) for body in bodies]
    for f in made:
        f.add_to_graph(tf1.get_default_graph())
    return made


for value, dtype in [(True, None), (False, None), (0, np.int32), (2., np.float32), ("", None),
                     ("x", None), ([], np.float32), ([0.], None)]:
    @case("_If", repr(value))
    def old_if(value=value, dtype=dtype):
        then, otherwise = functions([tf.TensorSpec(None, tf.float32)] * 2,
                                    lambda x, y: (x + y, tf.shape(x)),
                                    lambda x, y: (x - y, tf.shape(y) * 2))
        return list(make_op("_If", cond=feed(value, dtype), input=[feed([1., 2.]), feed([3., 4.])],
                            Tout=[tf.float32, tf.int32], then_branch=then, else_branch=otherwise))

for limit in [0, 1, 20]:
    @case("_While", str(limit))
    def old_while(limit=limit):
        condition, body = functions(
            [tf.TensorSpec([], tf.int32), tf.TensorSpec(None, tf.float32)],
            lambda i, x: i < limit, lambda i, x: (i + 1, x * 1.5))
        return list(make_op("_While", input=[feed(0), feed([1., 2.])], cond=condition, body=body))


@case("_VarHandlesOp", "several variables at once")
def several_variables():
    names = [fresh("many") for _ in range(3)]
    handles = make_op("_VarHandlesOp", containers=[""] * 3, shared_names=names, N=3,
                      dtypes=[tf.float32, tf.int64, tf.string], shapes=[[2], [], None])
    values = [feed([1., 2.]), feed(np.int64(7)), feed(["a", "b"])]
    one = R.VarHandleOp(dtype=tf.float32, shape=[2], shared_name=names[0])
    read = make_op("_ReadVariablesOp", resources=handles, dtypes=[tf.float32, tf.int64, tf.string])
    return [list(read), [R.AssignVariableOp(resource=h, value=v) for h, v in zip(handles, values)],
            list(read), [R.ReadVariableOp(resource=one, dtype=tf.float32)],
            [R.AssignAddVariableOp(resource=one, value=feed([1., 1.]))], list(read)]


HERE = "/job:local/replica:0/task:0/device:CPU:0"


def send_and_receive(prefix, value, **names):
    ends = dict(tensor_name=fresh("sent"), send_device=HERE, send_device_incarnation=1,
                recv_device=HERE) | names
    return (make_op(f"_{prefix}Send", tensor=value, **ends),
            make_op(f"_{prefix}Recv", tensor_type=value.dtype, **ends))


for prefix in ["", "Host"]:
    for value in [[1., 2.], 3, [["a", "b" * 40]], True, np.zeros((0, 3))]:
        @case(f"_{prefix}Send", repr(value))
        def sent(prefix=prefix, value=value):
            return [list(send_and_receive(prefix, feed(value)))] * 2

    @case(f"_{prefix}Send", "a dead value")
    def sent_dead(prefix=prefix):
        no, yes = R.Switch(data=feed(1.), pred=feed(True))
        send, received = send_and_receive(prefix, no)
        return [[send, *R.Merge(inputs=[received, yes + 5.])]]

    for end in ["send_device", "recv_device"]:
        @case(f"_{prefix}Send", f"{end} that is none")
        def sent_nowhere(prefix=prefix, end=end):
            return [list(send_and_receive(prefix, feed(1.), **{end: "nonsense"}))]


# ---- Stacks with handles along reference edges ----
def stack(dtype=tf.float32, **attrs):
    return make_op("Stack", elem_type=dtype, stack_name=fresh("stack"), **attrs)


for dtype in NUMBERS + [np.str_]:
    @case("Stack", f"{dtype}")
    def last_in_first_out(dtype=dtype):
        kind = tf.string if dtype is np.str_ else tf.as_dtype(dtype)
        handle, made = stack(kind), []
        for value in [[0, 1], 1, [[1]]]:
            with tf.control_dependencies(made[-1:]):
                made.append(make_op("StackPush", handle=handle, elem=feed(
                    np.array(value).astype(dtype), kind)))
        for _ in range(3):
            with tf.control_dependencies(made[-1:]):
                made.append(make_op("StackPop", handle=handle, elem_type=kind))
        return made


@case("Stack", "pop of nothing")
def pop_nothing():
    return [make_op("StackPop", handle=stack(), elem_type=tf.float32)]


@case("Stack", "push of another dtype")
def push_another():
    return [make_op("StackPush", handle=stack(), elem=feed(1))]


@case("Stack", "closed")
def push_closed():
    handle = stack()
    with tf.control_dependencies([make_op("StackClose", handle=handle)]):
        return [make_op("StackPush", handle=handle, elem=feed(1.))]


# ---- Handles along reference edges that are none ----
def use_handle(op, strings, slot="handle", **arguments):
    """Runs of an op that takes the strings of a variable for a handle."""
    variable = make_op("VariableV2", shape=tf.TensorShape(None), dtype=tf.string)
    assign = make_op("Assign", ref=variable, value=feed(strings), validate_shape=False)
    return [[assign.op], [make_op(op, **{slot: variable}, **arguments)]]


for op, arguments in [
        ("StackPop", {"elem_type": tf.float32}), ("QueueSize", {}), ("BarrierReadySize", {}),
        ("AccumulatorNumAccumulated", {}), ("LookupTableSize", {"slot": "table_handle"}),
        ("ReaderNumRecordsProduced", {"slot": "reader_handle"})]:
    for strings in (["a"], ["a", "b", "c"], ["nowhere", "nothing"]):
        @case(op, f"handle of {len(strings)}")
        def wrong_handle(op=op, strings=strings, arguments=arguments):
            return use_handle(op, strings, **arguments)


@case("Stack", "swapped memory")
def swapped():
    handle = stack()
    push = make_op("StackPush", handle=handle, elem=feed(np.ones((100, 100), np.float32)),
                   swap_memory=True)
    with tf.control_dependencies([push]):
        pop = make_op("StackPop", handle=handle, elem_type=tf.float32)
    with tf.control_dependencies([pop]):
        return [pop, make_op("StackClose", handle=handle)]
