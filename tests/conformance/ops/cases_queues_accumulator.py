"""Conditional accumulators, dense and sparse: sums, means, stale gradients, and what they refuse."""
import numpy as np
import tensorflow as tf
from fixtures import fresh
from runner import Case, feed

R = tf.raw_ops
CASES = []
rng = np.random.RandomState(9)


def name():
    return fresh("accumulator")


class Dense:
    """An accumulator with handles of either form."""

    def __init__(self, dtype=np.float32, shape=None, resource=False, reduction="MEAN"):
        make = R.ResourceConditionalAccumulator if resource else R.ConditionalAccumulator
        self.prefix = "Resource" if resource else ""
        self.dtype = tf.as_dtype(dtype)
        self.handle = make(dtype=self.dtype, shape=shape, shared_name=name(),
                           reduction_type=reduction)

    def op(self, text):
        return getattr(R, self.prefix + "Accumulator" + text)

    def add(self, value, step=99):
        return [self.op("ApplyGradient")(handle=self.handle, local_step=feed(np.int64(step)),
                                         gradient=feed(np.asarray(value, self.dtype.as_numpy_dtype)))]

    def take(self, count):
        return [self.op("TakeGradient")(handle=self.handle, num_required=feed(count),
                                        dtype=self.dtype)]

    def count(self):
        return [self.op("NumAccumulated")(handle=self.handle)]

    def step(self, step):
        return [self.op("SetGlobalStep")(handle=self.handle, new_global_step=feed(np.int64(step)))]


class Sparse(Dense):
    def __init__(self, dtype=np.float32, shape=None, reduction="MEAN"):
        self.prefix = ""
        self.dtype = tf.as_dtype(dtype)
        self.handle = R.SparseConditionalAccumulator(dtype=self.dtype, shape=shape,
                                                     shared_name=name(), reduction_type=reduction)

    def add(self, indices, values, shape=None, step=99):
        return [R.SparseAccumulatorApplyGradient(
            handle=self.handle, local_step=feed(np.int64(step)),
            gradient_indices=feed(np.array(indices, np.int64)),
            gradient_values=feed(np.asarray(values, self.dtype.as_numpy_dtype)),
            gradient_shape=feed(np.array([] if shape is None else shape, np.int64)),
            has_known_shape=shape is not None)]

    def take(self, count):
        return list(R.SparseAccumulatorTakeGradient(handle=self.handle, num_required=feed(count),
                                                    dtype=self.dtype))


def case(op, text, build):
    CASES.append(Case(op, build=lambda: ({}, build()), name=f"{op} {text}"))


def mean(dtype, reduction, resource):
    def build():
        a = Dense(dtype, [3], resource, reduction)
        values = [rng.randint(0, 100, 3) / 8 for _ in range(6)]
        return [a.count()] + [a.add(v) for v in values[:3]] + [a.count(), a.take(2), a.count()] + [
            a.add(v) for v in values[3:]] + [a.take(3), a.take(0), a.take(-1)]
    return build


for resource in [False, True]:
    op = ("Resource" if resource else "") + "ConditionalAccumulator"
    for dtype in [np.float32, np.float64, np.float16]:
        for reduction in ["MEAN", "SUM"]:
            case(op, f"{np.dtype(dtype).name} {reduction}", mean(dtype, reduction, resource))


def stale(resource=False):
    a = Dense(shape=[], resource=resource)
    return [a.step(3), a.add(1., 2), a.count(), a.add(2., 3), a.add(4., 9), a.count(), a.take(1),
            a.add(8., 3), a.count(), a.add(8., 4), a.count(), a.step(1), a.add(1., 1), a.count()]


def shapes():
    a = Dense(shape=[None, 2])
    return [a.add([[1., 2.]]), a.add([[1., 2.], [3., 4.]]), a.add([1., 2.]), a.add([[1., 2., 3.]]),
            a.count(), a.take(1), a.add([[1., 2.], [3., 4.]]), a.take(1)]


def any_shape():
    a = Dense()
    return [a.add(1.), a.add([1.]), a.take(1), a.add([1., 2.]), a.take(1)]


def large():
    a = Dense(shape=[1000, 100])
    return [a.add(rng.rand(1000, 100)), a.add(rng.rand(1000, 100)), a.add(rng.rand(1000, 100)),
            a.take(3)]


def bad_step(resource):
    a = Dense(shape=[], resource=resource)
    return [a.step(-5), a.add(1., -6), a.add(1., -5), a.add(1., 0), a.count()]


for resource in [False, True]:
    op = ("ResourceA" if resource else "A") + "ccumulatorSetGlobalStep"
    case(op, "drops what is stale", lambda resource=resource: stale(resource))
    case(op, "odd steps", lambda resource=resource: bad_step(resource))
case("ConditionalAccumulator", "shapes", shapes)
case("ConditionalAccumulator", "any shape", any_shape)
case("ConditionalAccumulator", "large", large)


def rows(dtype, reduction):
    def build():
        a = Sparse(dtype, [None, 2], reduction)
        return [a.add([0, 2], [[1, 2], [3, 4]]), a.add([1, 2, 5], [[1, 1], [2, 2], [3, 3]]),
                a.add([2], [[10, 20]]), a.count(), a.take(3), a.count(),
                a.add([7], [[1, 1]], step=99), a.add([7], [[2, 4]], step=99), a.take(2)]
    return build


for dtype in [np.float32, np.float64, np.float16]:
    for reduction in ["MEAN", "SUM"]:
        case("SparseConditionalAccumulator", f"{np.dtype(dtype).name} {reduction}",
             rows(dtype, reduction))


def repeated_rows():
    a = Sparse()
    return [a.add([1, 1, 0], [[1.], [2.], [4.]]), a.add([1, 3], [[8.], [16.]]), a.take(2)]


def sparse_vectors():
    a = Sparse(shape=[5])
    return [a.add([1, 3], [1., 2.], [5]), a.add([3, 4], [4., 8.], [5]), a.take(2)]


def no_rows():
    a = Sparse(shape=[None, 2])
    return [a.add([], np.zeros((0, 2))), a.add([1], [[1., 2.]]), a.take(2)]


def sparse_refuses():
    a = Sparse(shape=[4, None])
    return [a.add([4], [[1.]]), a.add([[1]], [[1.]]), a.add([1], 1.), a.add([1, 2], [[1.]]),
            a.add([1], [[1.]], [5, 1]), a.add([1], [[1.]], [4]), a.add([1], [1.]), a.count(),
            a.add([1], [[1., 2.]], [4, 2]), a.add([1], [[1.]]), a.add([1], [[[1., 2.]]]), a.count(),
            a.take(1), a.take(0)]


for build in [repeated_rows, sparse_vectors, no_rows, sparse_refuses]:
    case("SparseConditionalAccumulator", build.__name__, build)
