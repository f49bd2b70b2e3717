"""Flow along reference edges: references passed on, chosen, and taken around loops."""
import numpy as np
import tensorflow as tf
from fixtures import fresh
from runner import bfloat16, case_decorator, feed, make_op

R = tf.raw_ops
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
