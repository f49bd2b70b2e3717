"""Stacks, with handles of both forms: values, and what they refuse."""
import numpy as np
import tensorflow as tf
from fixtures import fresh
from runner import bfloat16, case_decorator, feed, make_op

R = tf.raw_ops
CASES = []
case = case_decorator(CASES)
NUMBERS = [np.float32, np.float64, np.float16, bfloat16, np.int8, np.int16, np.int32, np.int64,
           np.uint8, np.uint16, np.uint32, np.uint64, np.complex64, np.complex128, np.bool_]


# ---- With resource handles ----
# Messages name a stack with its number among all that the process made.
@case("StackV2", first=True)
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


@case("Stack", "swapped memory")
def swapped():
    handle = stack()
    push = make_op("StackPush", handle=handle, elem=feed(np.ones((100, 100), np.float32)),
                   swap_memory=True)
    with tf.control_dependencies([push]):
        pop = make_op("StackPop", handle=handle, elem_type=tf.float32)
    with tf.control_dependencies([pop]):
        return [pop, make_op("StackClose", handle=handle)]
