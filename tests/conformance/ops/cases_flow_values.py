"""Ops that pass a value on, and the ops that other sides of TensorFlow put into graphs themselves."""
import numpy as np
import tensorflow as tf
from fixtures import fresh
from runner import Case, bfloat16, case_decorator, feed, make_op

R = tf.raw_ops
tf1 = tf.compat.v1
CASES = []
case = case_decorator(CASES)
NUMBERS = [np.float32, np.float64, np.float16, bfloat16, np.int8, np.int16, np.int32, np.int64,
           np.uint8, np.uint16, np.uint32, np.uint64, np.complex64, np.complex128, np.bool_]


def variable(value):
    """(reference, the run that sets it)"""
    value = np.asarray(value, np.float32 if isinstance(value, list) and not isinstance(
        value[0], str) else None)
    dtype = tf.string if value.dtype.kind in "SUO" else tf.as_dtype(value.dtype)
    ref = R.VariableV2(shape=value.shape, dtype=dtype, shared_name=fresh("variable"))
    return ref, [R.Assign(ref=ref, value=tf.constant(value, dtype))]


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
