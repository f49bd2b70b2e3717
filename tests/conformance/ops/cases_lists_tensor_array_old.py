"""Tensor arrays of the first two generations, whose handles are strings: along reference edges in the
first, as values in the second. Graphs of newer versions have the third (cases_lists_tensor_array.py)."""
import numpy as np
import tensorflow as tf
from runner import Case, bfloat16, feed, make_op

CASES = []
COUNT = [0]
# The last versions of graphs that may hold them.
LAST_VERSION = {"": 15, "V2": 25}
NUMBERS = [np.float32, np.float64, np.float16, bfloat16, np.int8, np.int16, np.int32, np.int64,
           np.uint8, np.uint16, np.complex64, np.complex128]


def rows(dtype, *shape):
    return (np.arange(np.prod(shape)) % 7).reshape(shape).astype(dtype)


class Array:
    """The ops of one array. Each write waits for the one before it."""

    def __init__(self, generation, size, dtype=tf.float32, handle=None, flow=None, **attrs):
        self.generation, self.dtype = generation, tf.as_dtype(dtype)
        COUNT[0] += 1
        self.handle = handle if handle is not None else self.op(
            "", size=feed(size, tf.int32 if np.size(size) else None), dtype=self.dtype,
            tensor_array_name=f"array{COUNT[0]}", **attrs)
        self.flow = flow if flow is not None else feed(0.)

    def op(self, verb, **arguments):
        return make_op(f"TensorArray{verb}{self.generation}", **arguments)

    def change(self, verb, **arguments):
        self.flow = self.op(verb, handle=self.handle, flow_in=self.flow, **arguments)
        return self

    def write(self, index, value):
        return self.change("Write", index=feed(index, tf.int32), value=feed(value))

    def scatter(self, indices, value):
        return self.change("Scatter", indices=feed(np.array(indices, np.int32)), value=feed(value))

    def split(self, lengths, value):
        return self.change("Split", lengths=feed(np.array(lengths, np.int64)), value=feed(value))

    def look(self, verb, **arguments):
        return self.op(verb, handle=self.handle, flow_in=self.flow, **arguments)

    def read(self, index, dtype=None):
        return self.look("Read", index=feed(index, tf.int32), dtype=dtype or self.dtype)

    def gather(self, indices, shape=None):
        return self.look("Gather", indices=feed(np.array(indices, np.int32)), dtype=self.dtype,
                         element_shape=shape)

    def concat(self, shape=None):
        return list(self.look("Concat", dtype=self.dtype, element_shape_except0=shape))

    def size(self):
        return self.look("Size")

    def after(self, *nodes):
        """The same array, used after these nodes."""
        with tf.control_dependencies(nodes):
            self.flow = tf.identity(self.flow)
        return self

    def gradient(self, source="g"):
        # In the first generation this op takes the handle as a value and gives a reference.
        handle = self.op("Grad", handle=self.handle, flow_in=self.flow, source=source)
        return Array(self.generation, 0, self.dtype, handle, self.flow)


def case(name, build, only=("", "V2")):
    for generation in only:
        CASES.append(Case(f"TensorArray{generation}", producer=LAST_VERSION[generation],
                          build=lambda g=generation: ({}, build(g)),
                          name=f"TensorArray{generation} {name}"))


# ---- Elements in and out ----
def every_dtype(dtype):
    def build(generation):
        a = Array(generation, 3, dtype, clear_after_read=False)
        for i in range(3):
            a.write(i, rows(dtype, 2) + rows(dtype, 1))
        return [a.read(1), a.gather([2, 0, 1]), *a.concat(), a.size(), a.flow]
    return build


for number in NUMBERS:
    case(f"{np.dtype(number).name}", every_dtype(number))


def strings(generation):
    a = Array(generation, 2, tf.string, clear_after_read=False)
    a.write(0, ["a", "b"]).write(1, ["c" * 50, ""])
    return [a.read(0), a.gather([0, 1]), *a.concat()]


def bools(generation):
    a = Array(generation, 2, tf.bool, clear_after_read=False).write(0, True).write(1, False)
    return [a.read(0), a.gather([1, 0])]


def scattered(generation):
    a = Array(generation, 4, clear_after_read=False)
    a.scatter([3, 1, 0, 2], rows(np.float32, 4, 2, 3))
    return [*a.concat(), a.gather([0, 3]), a.size()]


def divided(generation):
    a = Array(generation, 3, clear_after_read=False).split([1, 0, 5], rows(np.float32, 6, 16))
    return [*a.concat(), a.read(0), a.read(1), a.read(2)]


def packed(generation):
    a = Array(generation, 3, clear_after_read=False)
    a.change("Unpack", value=feed(rows(np.float32, 3, 2, 2)))
    return [a.look("Pack", dtype=tf.float32, element_shape=None), a.read(2),
            a.look("Pack", dtype=tf.float32, element_shape=[2, 2]), a.size()]


def grows(generation):
    a = Array(generation, 0, dynamic_size=True).write(5, [1., 2.])
    return [a.size(), a.read(5)]


def grows_by_scattering(generation):
    a = Array(generation, 1, dynamic_size=True).scatter([4, 2], rows(np.float32, 2, 3))
    return [a.size(), a.gather([2, 4])]


def zeros(generation):
    a = Array(generation, 3, element_shape=[2, 2])
    return [a.read(1), a.gather([0, 2])]


def empty(generation):
    a = Array(generation, 0)
    return [a.gather([], [2]), *a.concat([3]), a.size()]


def two_arrays(generation):
    a, b = Array(generation, 1).write(0, [1.]), Array(generation, 1).write(0, [2.])
    return [a.read(0), b.read(0)]


def large(generation):
    a = Array(generation, 50, clear_after_read=False)
    a.split([20] * 50, rows(np.float32, 1000, 30))
    return [a.concat()[0], a.gather(list(range(49, -1, -1)))]


for build in [strings, bools, scattered, divided, grows, grows_by_scattering, zeros, empty,
              two_arrays, large]:
    case(build.__name__.replace("_", " "), build)
case("packed", packed, only=[""])


# ---- Gradients ----
def summed(generation):
    a = Array(generation, 2, clear_after_read=False).write(0, [1., 2.]).write(1, [3., 4.])
    g = a.gradient()
    for _ in range(3):
        g.write(0, [1., 1.])
    return [g.gather([0, 1]), g.size()]


def two_sources(generation):
    a = Array(generation, 1, clear_after_read=False).write(0, [1., 2.])
    g, h = a.gradient("g").write(0, [1., 1.]), a.gradient("h").write(0, [5., 5.])
    return [g.read(0), h.read(0), a.read(0)]


def same_source(generation):
    a = Array(generation, 1, clear_after_read=False).write(0, [1., 2.])
    g = a.gradient("g").write(0, [1., 1.])
    h = a.after(g.flow).gradient("g").write(0, [5., 5.])
    return [h.read(0)]


def gradient_before_growth(generation):
    a = Array(generation, 1, dynamic_size=True, clear_after_read=False).write(0, [1.])
    g = a.gradient()
    g.write(0, [1.])
    a.after(g.flow).write(3, [4.])
    return [a.size()]


def gradient_after_reading(generation):
    a = Array(generation, 1).write(0, [1., 2.])
    first = a.read(0)
    return [first, a.after(first).gradient().write(0, [1., 1.]).read(0)]


for build in [summed, two_sources, same_source, gradient_before_growth, gradient_after_reading]:
    case(build.__name__.replace("_", " "), build)


# ---- What they refuse ----
def refuse(name, build, only=("", "V2")):
    case("refuses " + name, build, only)


def second_read(generation):
    a = Array(generation, 2).write(0, 1.)
    first = a.read(0)
    return [a.after(first).read(0)]


def write_after_read(generation):
    a = Array(generation, 2, clear_after_read=False).write(0, 1.)
    first = a.read(0)
    return [a.after(first).write(0, 2.).flow]


def closed(generation):
    a = Array(generation, 2)
    return [a.after(a.op("Close", handle=a.handle)).write(0, 1.).flow]


def closed_twice(generation):
    a = Array(generation, 2)
    with tf.control_dependencies([a.op("Close", handle=a.handle)]):
        return [a.op("Close", handle=a.handle)]


refuse("a second write", lambda g: [Array(g, 2).write(0, 1.).write(0, 2.).flow])
refuse("a second read", second_read)
refuse("a write after a read", write_after_read)
refuse("what is closed", closed)
case("closed twice", closed_twice)
for index in [2, -1, 100]:
    refuse(f"a write to {index}", lambda g, i=index: [Array(g, 2).write(i, 1.).flow])
    refuse(f"a read of {index}", lambda g, i=index: [Array(g, 2).read(i)])
    refuse(f"a gather of {index}", lambda g, i=index: [Array(g, 2).write(0, 1.).gather([0, i])])
refuse("other shapes", lambda g: [Array(g, 2, element_shape=[2]).write(0, [1., 2., 3.]).flow])
refuse("another dtype to write", lambda g: [Array(g, 2).write(0, 1).flow])
refuse("another dtype to read", lambda g: [Array(g, 2).write(0, 1.).read(0, tf.int32)])
refuse("a read without shape", lambda g: [Array(g, 2).read(0)])
refuse("a negative size", lambda g: [Array(g, -1).size()])
refuse("a size of rank 1", lambda g: [Array(g, [1]).size()])
refuse("different shapes to stack",
       lambda g: [Array(g, 2).write(0, [1.]).write(1, [1., 2.]).gather([0, 1])])
refuse("scalars to concat", lambda g: Array(g, 1).write(0, 1.).concat())
refuse("different rows to concat",
       lambda g: Array(g, 2).write(0, [[1.]]).write(1, [[1., 2.]]).concat())
refuse("empty ones of unknown shape", lambda g: [Array(g, 0).gather([])])
refuse("an index of rank 1", lambda g: [Array(g, 2).change(
    "Write", index=feed([0, 1]), value=feed(1.)).flow])
for lengths, count in [([1, 2], 4), ([1, 2, 3], 6), ([[1, 3]], 4)]:
    refuse(f"split {lengths} of {count}",
           lambda g, n=lengths, c=count: [Array(g, 2).split(n, rows(np.float32, c, 2)).flow])
for indices in [[0, 2], [0, 1, 0], [0], [[0, 1]]]:
    refuse(f"scatter to {indices}",
           lambda g, i=indices: [Array(g, 2).scatter(i, rows(np.float32, 2, 2)).flow])
refuse("scalars to scatter", lambda g: [Array(g, 2).scatter([0], np.float32(1)).flow])
refuse("another count to unpack", lambda g: [Array(g, 2).change(
    "Unpack", value=feed(rows(np.float32, 3, 2))).flow], only=[""])
refuse("a scalar to unpack", lambda g: [Array(g, 2).change("Unpack", value=feed(1.)).flow],
       only=[""])
refuse("a gradient of strings", lambda g: [Array(g, 1, tf.string).write(0, "a").gradient().size()])
refuse("handles of two elements", lambda g: [make_op(
    "TensorArraySizeV2", handle=feed(["a", "b", "c"]), flow_in=feed(0.))], only=["V2"])
refuse("handles that are none", lambda g: [make_op(
    "TensorArraySizeV2", handle=feed(["_tensor_arrays", "nothing"]), flow_in=feed(0.))], only=["V2"])
