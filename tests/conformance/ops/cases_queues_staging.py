"""Staging areas and barriers: what goes in and comes out, by turn and by key, and what they refuse.
What waits is tested through sessions (train/test_pipelines.py)."""
import numpy as np
import tensorflow as tf
from fixtures import fresh
from runner import Case, case_decorator, feed

R = tf.raw_ops
CASES = []
case = case_decorator(CASES)


def name():
    return fresh("area")


class Area:
    """The ops of one area; its kind is "", "Map" or "OrderedMap"."""

    def __init__(self, kind, types, **attrs):
        self.kind, self.types = kind, types
        self.attrs = dict(attrs, shared_name=name())

    def op(self, verb, **inputs):
        prefix = self.kind if self.kind or verb.startswith("Un") else "Stage"
        verb = verb if self.kind or verb.startswith("Un") else verb.removeprefix("Stage")
        return getattr(R, prefix + verb)(**inputs, **self.attrs)

    def put(self, *values):
        return [R.Stage(values=[feed(v) for v in values], **self.attrs)]

    def take(self):
        return list(R.Unstage(dtypes=self.types, **self.attrs))

    def peek(self, index):
        return list(R.StagePeek(index=feed(index), dtypes=self.types, **self.attrs))

    def put_key(self, key, indices, *values):
        return [self.op("Stage", key=feed(key, tf.int64), indices=feed(indices, tf.int32),
                        values=[feed(v) for v in values], dtypes=self.types)]

    def take_key(self, key, indices):
        return list(self.op("Unstage", key=feed(key, tf.int64), indices=feed(indices, tf.int32),
                            dtypes=[self.types[i] for i in indices]))

    def peek_key(self, key, indices):
        return list(self.op("Peek", key=feed(key, tf.int64), indices=feed(indices, tf.int32),
                            dtypes=[self.types[i] for i in indices]))

    def take_any(self, indices):
        out = self.op("UnstageNoKey", indices=feed(indices, tf.int32),
                      dtypes=[self.types[i] for i in indices])
        return [out.key, *out.values]

    def size(self):
        return [self.op("Size", dtypes=self.types)]

    def incomplete(self):
        return [self.op("IncompleteSize", dtypes=self.types)]

    def clear(self):
        return [self.op("Clear", dtypes=self.types)]


@case("Stage")
def by_turn():
    area = Area("", [tf.float32, tf.string])
    return [area.size(), area.put([1., 2.], "a"), area.put(3., ["b", "c"]), area.size(),
            area.peek(1), area.peek(0), area.take(), area.size(), area.take(), area.size()]


@case("Stage")
def every_dtype():
    types = [tf.float16, tf.float64, tf.int8, tf.uint16, tf.int64, tf.bool, tf.complex64]
    area = Area("", types)
    return [area.put(*[np.array([0, 1, 2]).astype(t.as_numpy_dtype) for t in types]), area.take()]


@case("StageClear")
def cleared():
    area = Area("", [tf.int32], capacity=2)
    return [area.put(1), area.put(2), area.clear(), area.size(), area.put(3), area.take()]


@case("Stage")
def too_large_for_the_memory_limit():
    area = Area("", [tf.float32], memory_limit=16)
    return [area.put([1., 2., 3., 4., 5.]), area.put([1., 2.]), area.put([3., 4.]), area.size(),
            area.take(), area.take()]


for kind in ["Map", "OrderedMap"]:
    def whole_tuples(kind=kind):
        area = Area(kind, [tf.float32, tf.string])
        return [area.put_key(7, [0, 1], 7., "seven"), area.put_key(3, [0, 1], 3., "three"),
                area.size(), area.peek_key(7, [1]), area.take_key(7, [0, 1]), area.size(),
                area.take_key(3, [0]), area.size(), area.take_key(3, [1]), area.size()]

    def in_parts(kind=kind):
        area = Area(kind, [tf.float32, tf.string, tf.int32])
        return [area.put_key(1, [1], "one"), area.incomplete(), area.size(),
                area.put_key(1, [1], "again"), area.put_key(1, [0, 2], 1., 11), area.incomplete(),
                area.size(), area.take_any([0, 1, 2]), area.size()]

    def refused(kind=kind):
        area = Area(kind, [tf.float32, tf.string])
        return [area.put_key(1, [1, 0], "a", 1.), area.put_key(1, [2], 1.),
                area.put_key(2, [0, 1], 1., "a"), area.take_key(2, [0]), area.take_key(2, [0]),
                area.peek_key(2, [1, 0]), area.clear(), area.size(), area.incomplete()]

    for build in [whole_tuples, in_parts, refused]:
        CASES.append(Case(f"{kind}Stage", build=lambda f=build: ({}, f()),
                          name=f"{kind}Stage {build.__name__}"))


@case("OrderedMapStage")
def smallest_key_first():
    area = Area("OrderedMap", [tf.int32])
    puts = [area.put_key(key, [0], key * 10) for key in [5, -3, 9, 0]]
    return puts + [area.take_any([0]) for _ in range(4)] + [area.size()]


# ---- Barriers ----
def barrier(types, shapes):
    return R.Barrier(component_types=types, shapes=shapes, shared_name=name())


def insert(handle, component, keys, values):
    return [R.BarrierInsertMany(handle=handle, keys=feed(keys), values=feed(values),
                                component_index=component)]


def take(handle, count, types, small=False):
    out = R.BarrierTakeMany(handle=handle, num_elements=feed(count), component_types=types,
                            allow_small_batch=small)
    return [out.indices, out.keys, *out.values]


def sizes(handle):
    return [R.BarrierReadySize(handle=handle), R.BarrierIncompleteSize(handle=handle)]


def close(handle, cancel=False):
    return [R.BarrierClose(handle=handle, cancel_pending_enqueues=cancel)]


TWO = [tf.float32, tf.int32]


@case("BarrierTakeMany")
def components_come_together():
    b = barrier(TWO, [[], [2]])
    return [insert(b, 0, ["a", "b", "c"], [1., 2., 3.]), sizes(b),
            insert(b, 1, ["c", "a"], [[5, 6], [7, 8]]), sizes(b),
            insert(b, 0, ["d"], [4.]), insert(b, 1, ["d", "b"], [[1, 2], [3, 4]]), sizes(b),
            take(b, 2, TWO), take(b, 2, TWO), sizes(b)]


@case("BarrierTakeMany")
def the_first_key_first():
    b = barrier([tf.string, tf.int64], [[], []])
    new = [insert(b, 0, [key], [key * 2]) for key in ["x", "y", "z"]]
    return new + [insert(b, 1, ["z", "y", "x"], np.array([3, 2, 1])),
                  take(b, 3, [tf.string, tf.int64])]


@case("BarrierInsertMany")
def refusals():
    b = barrier(TWO, [[], []])
    return [insert(b, 0, ["a", "b"], [1., 2.]), insert(b, 0, ["b"], [3.]), sizes(b),
            insert(b, 1, ["a"], [1]), insert(b, 0, ["a"], [9.]), sizes(b)]


@case("BarrierClose")
def closed_with_incomplete_ones():
    b = barrier(TWO, [[], []])
    return [insert(b, 0, ["a", "b"], [1., 2.]), insert(b, 1, ["a"], [1]), close(b), close(b),
            insert(b, 0, ["new"], [1.]), take(b, 3, TWO), insert(b, 1, ["b"], [2]),
            insert(b, 0, ["new"], [1.]), take(b, 2, TWO), take(b, 1, TWO), sizes(b)]


@case("BarrierClose")
def closed_and_cancelled():
    b = barrier(TWO, [[], []])
    return [insert(b, 0, ["a", "b"], [1., 2.]), insert(b, 1, ["a"], [1]), close(b, True),
            insert(b, 1, ["b"], [2]), sizes(b), take(b, 5, TWO, small=True),
            take(b, 5, TWO, small=True), close(b, True)]


@case("BarrierTakeMany")
def closed_with_two_ready_and_two_incomplete():
    b = barrier(TWO, [[], []])
    keys, first, second = ["a", "b", "c", "d"], np.float32([1, 2, 3, 4]), [10, 20, 30, 40]
    return [insert(b, 0, keys, first), insert(b, 1, keys[:2], second[:2]), close(b), sizes(b),
            take(b, 3, TWO, small=True), take(b, 3, TWO, small=True),
            insert(b, 1, keys[2:3], second[2:3]), sizes(b), take(b, 3, TWO, small=True),
            insert(b, 0, np.array([], object), np.array([], np.float32)), insert(b, 0, ["a"], [1.]),
            close(b, True), insert(b, 1, keys[3:], second[3:]), take(b, 3, TWO, small=True)]


@case("Barrier")
def unknown_shapes_are_scalars():
    b = barrier(TWO, [None, None])
    empty = np.zeros([3, 0], np.float32)
    return [sizes(b), insert(b, 0, ["a", "b", "c"], empty), insert(b, 0, ["a", "b"], [1., 2.]),
            insert(b, 1, ["a"], [1]), insert(b, 1, ["b"], [[1, 2]]), sizes(b), take(b, 1, TWO)]


@case("BarrierInsertMany")
def shapes_are_checked_when_complete():
    b = barrier(TWO, [[2], []])
    return [insert(b, 0, ["a"], [1.]), insert(b, 0, ["a"], [[1., 2.]]), insert(b, 3, ["a"], [1]),
            insert(b, 1, ["a"], [1, 2]), insert(b, 1, "a", [5]), insert(b, 1, [["a"]], [5]),
            insert(b, 1, ["a"], [1.5]), insert(b, 1, ["b"], np.zeros([1, 0], np.int32)),
            insert(b, 1, ["b"], 7), insert(b, 0, [["b"]], [[1., 2.]]), take(b, 1, TWO), sizes(b)]


for title, attrs in [("too few shapes", {"shapes": []}), ("a partial shape", {"shapes": [[None, 2], []]}),
                     ("a capacity", {"shapes": [[], []], "capacity": 3})]:
    CASES.append(Case("Barrier", name=f"Barrier {title}", build=lambda attrs=attrs: (
        {}, sizes(R.Barrier(component_types=TWO, shared_name=name(), **attrs)))))


@case("Barrier")
def one_name_other_attributes():
    shared = name()

    def again(types, shapes):
        return sizes(R.Barrier(component_types=types, shapes=shapes, shared_name=shared))
    return [again(TWO, [[], [2]]), again([tf.int32], [[]]), again(TWO, [[], [3]]),
            again(TWO, [None, [2]])]
