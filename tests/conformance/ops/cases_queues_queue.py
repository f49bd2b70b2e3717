"""Queues in all four orders: what goes in and comes out, closing, and what they refuse. What blocks is
tested through sessions."""
import numpy as np
import tensorflow as tf
from fixtures import fresh
from runner import Case, bfloat16, case_decorator, feed

R = tf.raw_ops
CASES = []
case = case_decorator(CASES)
rng = np.random.RandomState(5)


def name():
    return fresh("queue")


def fifo(types=(tf.float32,), shapes=(), shared=None, **attrs):
    return R.FIFOQueueV2(component_types=list(types), shapes=list(shapes),
                         shared_name=shared or name(), **attrs)


def padding(types=(tf.float32,), shapes=([None],), **attrs):
    return R.PaddingFIFOQueueV2(component_types=list(types), shapes=list(shapes), shared_name=name(),
                                **attrs)


def shuffle(types=(tf.float32,), shapes=((),), seed=7, **attrs):
    return R.RandomShuffleQueueV2(component_types=list(types), shapes=list(shapes),
                                  shared_name=name(), seed=seed, seed2=11, **attrs)


def priority(types=(tf.string,), shapes=((),), **attrs):
    return R.PriorityQueueV2(component_types=list(types), shapes=list(shapes), shared_name=name(),
                             **attrs)


def put(queue, *values):
    return R.QueueEnqueueV2(handle=queue, components=[feed(v) for v in values])


def put_many(queue, *values):
    return R.QueueEnqueueManyV2(handle=queue, components=[feed(v) for v in values])


def take(queue, *types):
    return list(R.QueueDequeueV2(handle=queue, component_types=list(types) or [tf.float32]))


def take_many(queue, count, *types):
    return list(R.QueueDequeueManyV2(handle=queue, n=feed(count),
                                     component_types=list(types) or [tf.float32]))


def take_up_to(queue, count, *types):
    return list(R.QueueDequeueUpToV2(handle=queue, n=feed(count),
                                     component_types=list(types) or [tf.float32]))


def size(queue):
    return [R.QueueSizeV2(handle=queue)]


def close(queue, cancel=False):
    return [R.QueueCloseV2(handle=queue, cancel_pending_enqueues=cancel)]


def closed(queue):
    return [R.QueueIsClosedV2(handle=queue)]


for dtype in [np.float32, np.float64, np.float16, bfloat16, np.int8, np.int32, np.int64, np.uint8,
              np.complex64, np.bool_]:
    def one_of(dtype=dtype):
        kind = tf.as_dtype(dtype)
        queue = fifo([kind], [[2]])
        values = rng.randint(0, 2, (3, 2)).astype(dtype)
        return [[put(queue, values[0])], [put_many(queue, values)], size(queue), take(queue, kind),
                take_many(queue, 3, kind), size(queue)]
    CASES.append(Case("FIFOQueueV2", build=lambda f=one_of: ({}, f()), name=f"FIFOQueueV2 {dtype}"))


@case("FIFOQueueV2")
def strings_and_numbers():
    queue = fifo([tf.string, tf.int64], [[], [2]])
    return [[put(queue, "a" * 50, np.array([1, 2]))],
            [put_many(queue, ["b", "c"], np.array([[3, 4], [5, 6]]))],
            take_many(queue, 2, tf.string, tf.int64), take(queue, tf.string, tf.int64)]


@case("FIFOQueueV2")
def shapes_unspecified():
    queue = fifo()
    return [[put(queue, [1., 2.])], [put(queue, 3.)], take(queue), take(queue), [put(queue, 1.)],
            take_many(queue, 1)]


@case("FIFOQueueV2")
def nothing_at_all():
    queue = fifo(shapes=[[2]])
    return [[put_many(queue, np.zeros((0, 2), np.float32))], size(queue), take_many(queue, 0)]


@case("FIFOQueueV2")
def closing():
    queue = fifo(shapes=[[]])
    return [closed(queue), [put_many(queue, [1., 2., 3.])], close(queue), closed(queue),
            [put(queue, 1.)], [put_many(queue, [1.])], take(queue), take_many(queue, 3),
            size(queue), take_up_to(queue, 5), take_up_to(queue, 5), take(queue), close(queue),
            close(queue, True)]


@case("FIFOQueueV2")
def wrong_values():
    queue = fifo([tf.float32, tf.int32], [[2], []])
    return [[put(queue, [1., 2., 3.], 1)], [put(queue, [1., 2.], 1.)], [put(queue, [1., 2.])],
            [put_many(queue, [[1., 2.]], [1, 2])], [put_many(queue, [1., 2.], [1])],
            take(queue, tf.float32), take(queue, tf.int32, tf.float32),
            take_many(queue, -1, tf.float32, tf.int32)]


@case("FIFOQueueV2")
def batches_of_different_length():
    queue = fifo([tf.float32, tf.int32])
    return [[put_many(queue, [1., 2.], [1])], size(queue)]


@case("FIFOQueueV2")
def shared_differently():
    first = fifo([tf.float32], [[2]], shared="taken", capacity=5)
    return [size(first), size(fifo([tf.float32], [[2]], shared="taken", capacity=6)),
            size(fifo([tf.int32], [[2]], shared="taken", capacity=5)),
            size(fifo([tf.float32], [[3]], shared="taken", capacity=5)),
            size(R.PaddingFIFOQueueV2(component_types=[tf.float32], shapes=[[2]], capacity=5,
                                      shared_name="taken")),
            size(fifo([tf.float32], [[2]], shared="taken", capacity=5))]


@case("FIFOQueueV2")
def shapes_for_other_types():
    return [size(fifo([tf.float32, tf.int32], [[2]]))]


@case("FIFOQueue")
def handle_of_strings():
    queue = R.FIFOQueue(component_types=[tf.float32], shapes=[[]], shared_name=name())
    return [[R.QueueEnqueue(handle=queue, components=[feed(1.)])],
            [R.QueueEnqueueMany(handle=queue, components=[feed([2., 3., 4.])])],
            [R.QueueSize(handle=queue)],
            list(R.QueueDequeue(handle=queue, component_types=[tf.float32])),
            list(R.QueueDequeueMany(handle=queue, n=feed(2), component_types=[tf.float32])),
            [R.QueueClose(handle=queue)], [R.QueueIsClosed(handle=queue)],
            list(R.QueueDequeueUpTo(handle=queue, n=feed(9), component_types=[tf.float32]))]


@case("FakeQueue")
def old_handle_of_new_queue():
    queue = fifo(shapes=[[]])
    return [[put(queue, 1.)], [R.QueueSize(handle=R.FakeQueue(resource=queue))]]


@case("PaddingFIFOQueueV2")
def pads():
    queue = padding([tf.float32, tf.string], [[None, 2], [None]])
    return [[put(queue, np.ones((1, 2), np.float32), ["a"])],
            [put(queue, np.ones((3, 2), np.float32), ["b", "c"])],
            [put(queue, np.ones((0, 2), np.float32), np.zeros((0,), object))],
            take_many(queue, 3, tf.float32, tf.string)]


@case("PaddingFIFOQueueV2")
def pads_inner_dimensions():
    queue = padding([tf.int32], [[None, 2, None]])
    shapes = [(2, 2, 1), (1, 2, 3), (3, 2, 2)]
    return [[put(queue, rng.randint(1, 9, shape).astype(np.int32))] for shape in shapes] + [
        take_many(queue, 3, tf.int32), take_many(queue, 0, tf.int32)]


@case("PaddingFIFOQueueV2")
def padding_refuses():
    queue = padding([tf.float32], [[None, 2]])
    return [[put(queue, [1.])], [put(queue, np.ones((1, 3), np.float32))], size(queue)]


@case("PaddingFIFOQueueV2")
def unknown_rank():
    return [size(padding([tf.float32], [None]))]


@case("PaddingFIFOQueueV2")
def padding_closes():
    queue = padding()
    return [[put(queue, [1.])], [put(queue, [1., 2.])], close(queue), take_many(queue, 3),
            take_up_to(queue, 3), take_up_to(queue, 3)]


@case("RandomShuffleQueueV2")
def shuffles():
    queue = shuffle(min_after_dequeue=0)
    return [[put_many(queue, np.arange(20, dtype=np.float32))], take(queue), take(queue),
            take_many(queue, 10), take_many(queue, 8)]


@case("RandomShuffleQueueV2")
def shuffle_keeps_some():
    queue = shuffle(min_after_dequeue=3, capacity=50)
    return [[put_many(queue, np.arange(9, dtype=np.float32))], take_many(queue, 6), size(queue),
            close(queue), take(queue), take_many(queue, 5), take_up_to(queue, 5), take(queue)]


@case("RandomShuffleQueueV2")
def shuffle_refuses():
    return [size(shuffle(min_after_dequeue=-1)), size(shuffle(min_after_dequeue=5, capacity=5))]


@case("PriorityQueueV2")
def priorities():
    queue = priority()
    order = np.array([5, 1, 3, 1, 5, 5, 2, 3, 1, 0], np.int64)
    texts = [f"v{i}" for i in range(10)]
    return [[put(queue, np.int64(4), "first")], [put_many(queue, order, texts)],
            take(queue, tf.int64, tf.string), take_many(queue, 4, tf.int64, tf.string),
            take_many(queue, 6, tf.int64, tf.string)]


@case("PriorityQueueV2")
def priority_closes():
    queue = priority()
    return [[put(queue, np.int64(4), "a")], [put(queue, np.int64(3), "b")], close(queue),
            take_many(queue, 3, tf.int64, tf.string), take(queue, tf.int64, tf.string),
            take(queue, tf.int64, tf.string), take(queue, tf.int64, tf.string)]


@case("PriorityQueueV2")
def priority_refuses():
    queue = priority()
    return [[put(queue, np.array([4]), "a")], [put(queue, np.int32(4), "a")], size(queue)]
