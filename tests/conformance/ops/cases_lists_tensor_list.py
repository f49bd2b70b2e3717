"""Tensor lists: values, and what they refuse."""
import numpy as np
import tensorflow as tf
from cases_lists_tensor_array import NUMBERS, sample
from runner import Case, case_decorator, feed

R = tf.raw_ops
CASES = []
case = case_decorator(CASES)


def empty(shape=-1, dtype=tf.float32, limit=-1):
    return R.EmptyTensorList(element_shape=feed(shape, np.int32), max_num_elements=feed(limit),
                             element_dtype=dtype)


def push(items, handle=None, **attrs):
    handle = empty(**attrs) if handle is None else handle
    for item in items:
        handle = R.TensorListPushBack(input_handle=handle, tensor=feed(item))
    return handle


def stack(handle, shape=-1, dtype=tf.float32, count=-1):
    return R.TensorListStack(input_handle=handle, element_shape=feed(shape, np.int32),
                             element_dtype=dtype, num_elements=count)


def reserve(count, shape=-1, dtype=tf.float32):
    return R.TensorListReserve(element_shape=feed(shape, np.int32), num_elements=feed(count),
                               element_dtype=dtype)


def from_tensor(tensor, shape=-1):
    return R.TensorListFromTensor(tensor=feed(tensor), element_shape=feed(shape, np.int32))


def get(handle, index, shape=-1, dtype=tf.float32):
    return R.TensorListGetItem(input_handle=handle, index=feed(index),
                               element_shape=feed(shape, np.int32), element_dtype=dtype)


def set_item(handle, index, value):
    return R.TensorListSetItem(input_handle=handle, index=feed(index), item=feed(value))


def lists(name):
    return case("TensorList", name)


for dtype in NUMBERS + [np.bool_]:
    @lists(f"rows of {dtype}")
    def rows_of(dtype=dtype):
        handle = from_tensor(sample((3, 2), dtype), [2])
        return [stack(handle, dtype=tf.as_dtype(dtype)), R.TensorListLength(input_handle=handle)]

    @lists(f"zeros of {dtype}")
    def zeros_of(dtype=dtype):
        return [stack(reserve(3, [2], tf.as_dtype(dtype)), dtype=tf.as_dtype(dtype))]


@lists("strings")
def strings():
    return [stack(push(["a", "b" * 40], dtype=tf.string), [], tf.string),
            get(reserve(2, [2], tf.string), 1, dtype=tf.string)]


@lists("push and pop")
def push_pop():
    handle = push([[1., 2.], [3., 4.]])
    shorter, last = R.TensorListPopBack(input_handle=handle, element_shape=feed(-1, np.int32),
                                        element_dtype=tf.float32)
    return [last, stack(shorter), stack(handle), R.TensorListLength(input_handle=shorter)]


@lists("pop of what is unset")
def pop_unset():
    shorter, last = R.TensorListPopBack(input_handle=reserve(2), element_shape=feed([3]),
                                        element_dtype=tf.float32)
    return [last]


@lists("a list that two change")
def shared():
    handle = push([[1.], [2.]])
    return [stack(set_item(handle, 0, [7.])), stack(set_item(handle, 1, [8.])), stack(handle)]


@lists("nested")
def nested_lists():
    inner = push([[1.], [2.]])
    outer = push([], dtype=tf.variant)
    outer = R.TensorListPushBack(input_handle=outer, tensor=inner)
    item = get(outer, 0, dtype=tf.variant)
    zero = get(tf.zeros_like(outer), 0, dtype=tf.variant)
    both = get(R.AddN(inputs=[outer, outer]), 0, dtype=tf.variant)
    return [stack(item), stack(zero), stack(both)]


@lists("sums and zeros")
def sums():
    a = set_item(reserve(3, [2]), 1, [1., 2.])
    b = set_item(set_item(reserve(3, [2]), 1, [10., 20.]), 2, [5., 5.])
    return [stack(tf.add_n([a, b, b])), stack(tf.zeros_like(b))]


@lists("gather and scatter")
def gather_scatter():
    handle = R.TensorListScatterV2(tensor=feed(sample((2, 3))), indices=feed([3, 1]),
                                   element_shape=feed([3]), num_elements=feed(5))
    more = R.TensorListScatterIntoExistingList(input_handle=handle, tensor=feed(sample((1, 3))),
                                               indices=feed([5]))
    return [stack(handle), stack(more),
            R.TensorListGather(input_handle=handle, indices=feed([1, 1, 4]),
                               element_shape=feed(-1, np.int32), element_dtype=tf.float32),
            stack(R.TensorListScatter(tensor=feed(sample((2, 3))), indices=feed([2, 0]),
                                      element_shape=feed([3])))]


@lists("split and concat")
def split_concat():
    handle = R.TensorListSplit(tensor=feed(sample((6, 2))), element_shape=feed([-1, 2]),
                               lengths=feed(np.array([1, 0, 5])))
    value, lengths = R.TensorListConcatV2(input_handle=handle, element_shape=feed([-1, 2]),
                                          leading_dims=feed(np.array([], np.int64)),
                                          element_dtype=tf.float32)
    old, old_lengths = R.TensorListConcat(input_handle=handle, element_dtype=tf.float32)
    return [value, lengths, old, old_lengths]


@lists("concat with holes")
def concat_holes():
    handle = set_item(reserve(3, [-1, 2]), 1, sample((2, 2)))
    value, lengths = R.TensorListConcatV2(input_handle=handle, element_shape=feed([-1, 2]),
                                          leading_dims=feed(np.array([1, 5, 3], np.int64)),
                                          element_dtype=tf.float32)
    same, same_lengths = R.TensorListConcatV2(input_handle=handle, element_shape=feed([-1, 2]),
                                              leading_dims=feed(np.array([], np.int64)),
                                              element_dtype=tf.float32)
    return [value, lengths, same, same_lengths]


@lists("lengths and shapes")
def shapes():
    handle = reserve(4, [-1, 3])
    return [R.TensorListElementShape(input_handle=handle, shape_type=tf.int32),
            R.TensorListElementShape(input_handle=empty(), shape_type=tf.int64),
            R.TensorListLength(input_handle=R.TensorListResize(input_handle=handle, size=feed(9))),
            R.TensorListLength(input_handle=R.TensorListResize(input_handle=handle, size=feed(1)))]


@lists("concat of lists")
def concat_lists():
    a, b = push([[1.], [2.]]), push([[3.]])
    return [stack(R.TensorListConcatLists(input_a=a, input_b=b, element_dtype=tf.float32))]


@lists("push to a batch")
def push_batch():
    handles = tf.stack([push([[1.]]), push([[2.]])])
    longer = R.TensorListPushBackBatch(input_handles=handles, tensor=feed(sample((2, 1))))
    return [stack(longer[0]), stack(longer[1])]


@lists("an unset element takes its shape from others")
def inferred_item():
    return [get(set_item(reserve(3), 1, [1., 2., 3.]), 0)]


for name, build in {
        "push of another shape": lambda: push([[1.]], shape=[2]),
        "push into a full list": lambda: push([1., 2.], limit=1),
        "an element outside": lambda: get(push([1.]), 1),
        "setting outside": lambda: set_item(push([1.]), 3, 2.),
        "setting another shape": lambda: set_item(reserve(2, [2]), 0, [1.]),
        "stack of another count": lambda: stack(push([1.]), count=2),
        "stack of different shapes": lambda: stack(push([[1.], [1., 2.]])),
        "stack of nothing": lambda: stack(empty()),
        "stack of unset elements": lambda: stack(reserve(2)),
        "stack with another shape": lambda: stack(push([[1.]]), [2]),
        "pop of nothing": lambda: R.TensorListPopBack(
            input_handle=empty(), element_shape=feed(-1, np.int32), element_dtype=tf.float32)[1],
        "a negative count": lambda: R.TensorListLength(input_handle=reserve(-1)),
        "a negative size": lambda: R.TensorListLength(
            input_handle=R.TensorListResize(input_handle=empty(), size=feed(-1))),
        "a scalar shape": lambda: R.TensorListLength(input_handle=empty(shape=3)),
        "rows of a scalar": lambda: R.TensorListLength(input_handle=from_tensor(np.float32(1))),
        "rows of another shape": lambda: R.TensorListLength(
            input_handle=from_tensor(sample((2, 2)), [3])),
        "negative indices": lambda: R.TensorListLength(input_handle=R.TensorListScatter(
            tensor=feed(sample((1, 3))), indices=feed([-2]), element_shape=feed([3]))),
        "lengths too short": lambda: R.TensorListLength(input_handle=R.TensorListSplit(
            tensor=feed(sample((4, 2))), element_shape=feed([-1, 2]), lengths=feed(np.array([1])))),
        "lengths too long": lambda: R.TensorListLength(input_handle=R.TensorListSplit(
            tensor=feed(sample((4, 2))), element_shape=feed([-1, 2]), lengths=feed(np.array([5])))),
        "sums of different lengths": lambda: stack(tf.add_n([push([1.]), push([1., 2.])])),
}.items():
    CASES.append(Case("TensorList", build=lambda build=build: ({}, [build()]),
                      name=f"TensorList refuses {name}"))
