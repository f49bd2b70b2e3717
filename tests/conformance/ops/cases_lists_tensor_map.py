"""Maps of tensors in variants."""
import numpy as np
import tensorflow as tf
from runner import Case, make_op, tf1

CASES = []


class Maps:
    """Makes a graph of map ops over fed keys and values."""

    def __init__(self):
        self.feeds = {}

    def feed(self, value):
        value = np.asarray(value)
        tensor = tf1.placeholder(tf.string if value.dtype.kind in "SUO" else tf.as_dtype(value.dtype), shape=None)
        self.feeds[tensor] = value
        return tensor

    def filled(self, *pairs):
        handle = make_op("EmptyTensorMap")
        for key, value in pairs:
            handle = self.insert(handle, key, value)
        return handle

    def insert(self, handle, key, value):
        return make_op("TensorMapInsert", input_handle=handle, key=self.feed(key), value=self.feed(value))

    def erase(self, handle, key):
        return make_op("TensorMapErase", input_handle=handle, key=self.feed(key), value_dtype=tf.float32)

    def lookup(self, handle, key, dtype=tf.float32):
        return make_op("TensorMapLookup", input_handle=handle, key=self.feed(key), value_dtype=dtype)

    def has(self, handle, key):
        return make_op("TensorMapHasKey", input_handle=handle, key=self.feed(key))

    def keys(self, handle, dtype):
        return make_op("TensorMapStackKeys", input_handle=handle, key_dtype=dtype)


def size(handle):
    return make_op("TensorMapSize", input_handle=handle)


def add(op, name, make, unordered=False):
    def build():
        maps = Maps()
        results = make(maps)
        return maps.feeds, list(results)
    CASES.append(Case(op, build=build, name=f"{len(CASES)}:{op}({name})", unordered=unordered))


ONE, TWO = np.array([1, 2, 3], np.float32), np.float32(7)
for name, first, second in (("float", np.float32(1.5), np.float32(2.5)), ("int", np.int64(1), np.int64(2)),
                            ("shape", np.array([1], np.int32), np.int32(1)), ("dtype", np.int32(1), np.int64(1)),
                            ("text", np.array("a", object), np.array("a longer key that is not inside", object)),
                            ("vector", np.array([1, 2, 3], np.int32), np.array([1, 2, 4], np.int32)),
                            ("texts", np.array(["ab", "c"], object), np.array(["a", "bc"], object)),
                            ("nothing", np.zeros(0, np.int32), np.zeros((0, 1), np.int32)),
                            ("bool", np.bool_(True), np.bool_(False)), ("zeros", np.float32(0.0), np.float32(-0.0))):
    def two(maps, first=first, second=second):
        handle = maps.filled((first, ONE), (second, TWO))
        return (size(handle), maps.lookup(handle, first), maps.lookup(handle, second), maps.has(handle, first),
                maps.has(handle, np.int8(9)))
    add("TensorMapLookup", name, two)

    def less(maps, first=first, second=second):
        whole = maps.filled((first, ONE), (second, TWO))
        handle = maps.erase(whole, first)
        return size(handle), maps.has(handle, first), maps.lookup(handle, second), size(whole), maps.has(whole, first)
    add("TensorMapErase", name, less)
add("TensorMapInsert", "replaces", lambda m: (
    lambda h: (size(h), m.lookup(h, np.int32(1))))(m.filled((np.int32(1), ONE), (np.int32(2), ONE), (np.int32(1),
            TWO))))
add("TensorMapInsert", "both stay", lambda m: (lambda h: (
    size(h), size(m.insert(h, np.int32(2), TWO)), size(m.insert(h, np.int32(3), TWO)), m.lookup(
        m.insert(h, np.int32(1), TWO), np.int32(1)), m.lookup(h, np.int32(1))))(m.filled((np.int32(1), ONE))))
add("TensorMapInsert", "text value", lambda m: (m.lookup(m.filled(
    (np.int32(1), np.array(["x", "a text that is not short at all"], object))), np.int32(1), tf.string),))
add("TensorMapSize", "empty", lambda m: (size(m.filled()), m.has(m.filled(), np.int32(1))))
add("TensorMapSize", "many", lambda m: (size(m.filled(*((np.int32(i % 20), ONE) for i in range(40)))),))
for dtype in (np.float32, np.int64, np.bool_):
    add("TensorMapStackKeys", np.dtype(dtype).name, lambda m, t=dtype: (m.keys(m.filled(
        (np.array([1, 0], t), ONE), (np.array([0, 1], t), TWO), (np.array([0, 0], t), TWO)), tf.as_dtype(t))[..., 0],),
        unordered=True)
add("TensorMapStackKeys", "text", lambda m: (m.keys(m.filled(*(
    (np.array(f"a key that is not short at all {i}", object), ONE) for i in range(9))), tf.string),), unordered=True)
add("TensorMapStackKeys", "one", lambda m: (m.keys(m.filled((np.ones((2, 3), np.int32), ONE)), tf.int32),))
add("TensorMapStackKeys", "none", lambda m: (m.keys(m.filled(), tf.int32),))
add("TensorMapStackKeys", "dtype", lambda m: (m.keys(m.filled((np.int32(1), ONE)), tf.int64),))
add("TensorMapStackKeys", "shapes", lambda m: (
    m.keys(m.filled((np.int32(1), ONE), (np.array([1], np.int32), ONE)), tf.int32),))
add("TensorMapLookup", "missing", lambda m: (m.lookup(m.filled((np.int32(1), ONE)), np.int32(2)),))
add("TensorMapErase", "missing", lambda m: (size(m.erase(m.filled((np.int32(1), ONE)), np.int64(1))),))


def a_list():
    return tf.raw_ops.EmptyTensorList(element_shape=-1, max_num_elements=-1, element_dtype=tf.float32)


def hidden_stack(maps):
    return tf1.placeholder_with_default(tf.stack([maps.filled(), maps.filled()]), shape=None)


for op, call in (("TensorMapSize", lambda m, h: size(h)), ("TensorMapHasKey", lambda m, h: m.has(h, ONE)),
                 ("TensorMapLookup", lambda m, h: m.lookup(h, ONE)), ("TensorMapErase", lambda m, h: m.erase(h, ONE)),
                 ("TensorMapInsert", lambda m, h: size(m.insert(h, ONE, ONE))),
                 ("TensorMapStackKeys", lambda m, h: m.keys(h, tf.float32))):
    add(op, "a list", lambda m, f=call: (f(m, a_list()),))
    add(op, "a vector", lambda m, f=call: (f(m, hidden_stack(m)),))
for name, other in (("same keys", [1, 2]), ("other keys", [2, 3]), ("no keys", [])):
    def added(maps, other=other):
        total = tf1.add_n([maps.filled((np.int32(1), ONE), (np.int32(2), 2 * ONE)),
                           maps.filled(*((np.int32(k), k * ONE) for k in other))])
        return [size(total)] + [maps.lookup(total, np.int32(k)) for k in sorted({1, 2, *other})]
    add("EmptyTensorMap", f"sum, {name}", added)
add("EmptyTensorMap", "zeros", lambda m: (size(tf1.zeros_like(m.filled((np.int32(1), ONE)))),))
