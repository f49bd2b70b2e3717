"""Variables of both kinds: making, assigning, counting, rows by index, parts by coordinates.

Each case is a small graph run step after step; every step's results are compared.
"""
import numpy as np
import tensorflow as tf
from runner import Case, bfloat16

R = tf.raw_ops
tf1 = tf.compat.v1
RNG = np.random.RandomState(7)
FLOATS = [np.float32, np.float64, np.float16, bfloat16]
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
COMPLEX = [np.complex64, np.complex128]
NUMBERS = FLOATS + INTEGERS + COMPLEX


def sample(dtype, shape, low=1, high=9):
    values = RNG.randint(low, high, size=shape)
    if np.dtype(dtype).kind == "c":
        return (values + 1j * RNG.randint(low, high, size=shape)).astype(dtype)
    if dtype in FLOATS:
        return (values + 0.25 * RNG.randint(0, 4, size=shape)).astype(dtype)
    return np.asarray(values).astype(dtype)


def feed(value):
    return tf1.placeholder_with_default(value, shape=None)


def reference(value, shape=None, **attrs):
    """A variable on a reference edge and the op that initializes it."""
    value = np.asarray(value)
    ref = R.VariableV2(shape=value.shape if shape is None else shape, dtype=value.dtype, **attrs)
    return ref, R.Assign(ref=ref, value=feed(value))


COUNTER = [0]


def resource(value, name=None):
    value = np.asarray(value)
    COUNTER[0] += 1
    handle = R.VarHandleOp(dtype=value.dtype, shape=value.shape,
                           shared_name=name or f"resource{COUNTER[0]}")
    return handle, R.AssignVariableOp(resource=handle, value=feed(value))


def read(handle, dtype):
    return R.ReadVariableOp(resource=handle, dtype=dtype)


CASES = []


def case(op, build, name=""):
    CASES.append(Case(op, build=lambda: ({}, build()), name=f"{op} {name}"))


# ---- Whole variables ----
def assign_steps(dtype, shape):
    def build():
        ref, start = reference(sample(dtype, shape))
        return [[start], [R.AssignAdd(ref=ref, value=feed(sample(dtype, shape)))],
                [R.AssignSub(ref=ref, value=feed(sample(dtype, shape)))], [ref],
                [R.Assign(ref=ref, value=feed(sample(dtype, shape)))]]
    return build


def resource_steps(dtype, shape):
    def build():
        handle, start = resource(sample(dtype, shape))
        return [[start], [R.AssignAddVariableOp(resource=handle, value=feed(sample(dtype, shape)))],
                [read(handle, dtype)],
                [R.AssignSubVariableOp(resource=handle, value=feed(sample(dtype, shape)))],
                [read(handle, dtype), R.VariableShape(input=handle),
                 R.VariableShape(input=handle, out_type=tf.int64),
                 R.VarIsInitializedOp(resource=handle)]]
    return build


for number in NUMBERS:
    for size in [(), (3,), (2, 5), (0, 4), (70000,)]:
        if size == (70000,) and number not in (np.float32, np.int64):
            continue
        label = f"{np.dtype(number).name}{list(size)}"
        case("AssignAdd", assign_steps(number, size), label)
        case("AssignAddVariableOp", resource_steps(number, size), label)


def build_strings():
    ref = R.VariableV2(shape=[2], dtype=tf.string)
    first = R.Assign(ref=ref, value=feed(np.array([b"a", b"b" * 50])))
    return [[first], [ref], [R.ScatterUpdate(ref=ref, indices=feed(np.int32([1])),
                                             updates=feed(np.array([b"new" * 30])))],
            [R.ScatterNdUpdate(ref=ref, indices=feed(np.int32([[0]])),
                               updates=feed(np.array([b"x"])))], [ref]]


case("Assign", build_strings, "strings")


def build_resource_strings():
    handle = R.VarHandleOp(dtype=tf.string, shape=[2], shared_name="strings")
    return [[R.AssignVariableOp(resource=handle, value=feed(np.array([b"a", b"b" * 50])))],
            [read(handle, tf.string),
             R.ResourceGather(resource=handle, indices=feed(np.int64([1, 0, 1])), dtype=tf.string),
             R.ResourceGatherNd(resource=handle, indices=feed(np.int32([[1]])), dtype=tf.string)],
            [R.ResourceScatterUpdate(resource=handle, indices=feed(np.int32([1])),
                                     updates=feed(np.array([b"new"])))],
            [read(handle, tf.string)],
            [R.ResourceScatterNdUpdate(ref=handle, indices=feed(np.int32([[0]])),
                                       updates=feed(np.array([b"other"])))],
            [read(handle, tf.string)]]


case("AssignVariableOp", build_resource_strings, "strings")


def build_shapes():
    ref, start = reference(np.float32([1, 2]))
    three = feed(np.float32([1, 2, 3]))
    return [[R.IsVariableInitialized(ref=ref)], [R.AssignAdd(ref=ref, value=three)], [ref], [start],
            [R.IsVariableInitialized(ref=ref)], [R.Assign(ref=ref, value=three)], [ref],
            [R.Assign(ref=ref, value=three, validate_shape=False)], [ref],
            [R.AssignSub(ref=ref, value=three)], [R.AssignAdd(ref=ref, value=feed(np.float32(1)))]]


case("Assign", build_shapes, "shapes")


def build_unknown():
    ref = R.VariableV2(shape=tf.TensorShape(None), dtype=tf.float32)
    partial = R.VariableV2(shape=tf.TensorShape([None, 2]), dtype=tf.float32)
    value = feed(np.float32([1, 2]))
    return [[R.Assign(ref=ref, value=value)],
            [R.Assign(ref=ref, value=value, validate_shape=False)], [ref],
            [R.Assign(ref=partial, value=value, validate_shape=False)]]


case("VariableV2", build_unknown, "unknown shape")


def build_names():
    a = R.VariableV2(shape=[], dtype=tf.float32, shared_name="shared", container="")
    b = R.VariableV2(shape=[], dtype=tf.float32, shared_name="shared")
    c = R.VariableV2(shape=[], dtype=tf.float32, shared_name="shared", container="other")
    return [[R.Assign(ref=a, value=feed(np.float32(1)))], [b], [c],
            [R.Assign(ref=c, value=feed(np.float32(5)))], [a, b, c],
            [R.AssignAdd(ref=b, value=feed(np.float32(5)))], [a]]


case("VariableV2", build_names, "shared names")


def build_bad_names():
    return [[R.Assign(ref=R.VariableV2(shape=[], dtype=tf.float32, shared_name="_hidden"),
                      value=feed(np.float32(1)))],
            [R.Assign(ref=R.VariableV2(shape=[], dtype=tf.float32, container="a b"),
                      value=feed(np.float32(1)))]]


case("VariableV2", build_bad_names, "bad names")


def build_resource_names():
    first = R.VarHandleOp(dtype=tf.float32, shape=[], shared_name="twice")
    second = R.VarHandleOp(dtype=tf.float32, shape=[], shared_name="twice")
    third = R.VarHandleOp(dtype=tf.float32, shape=[], shared_name="twice", container="elsewhere")
    nameless, other = (R.VarHandleOp(dtype=tf.float32, shape=[]) for _ in range(2))
    one = feed(np.float32(1))
    return [[R.AssignVariableOp(resource=first, value=one)], [read(second, tf.float32)],
            [read(third, tf.float32)], [R.AssignVariableOp(resource=nameless, value=one)],
            [R.VarIsInitializedOp(resource=other)],
            [R.DestroyResourceOp(resource=second, ignore_lookup_error=False)],
            [read(first, tf.float32)], [R.VarIsInitializedOp(resource=first)],
            [R.DestroyResourceOp(resource=second, ignore_lookup_error=False)],
            [R.DestroyResourceOp(resource=second, ignore_lookup_error=True)]]


case("VarHandleOp", build_resource_names, "names")


def build_missing():
    def handle(dtype=tf.float32):
        COUNTER[0] += 1
        return R.VarHandleOp(dtype=dtype, shape=None, shared_name=f"missing{COUNTER[0]}")
    one, index = feed(np.float32([1])), feed(np.int32([0]))
    return [[read(handle(), tf.float32)], [R.AssignAddVariableOp(resource=handle(), value=one)],
            [R.VariableShape(input=handle())], [R.VarIsInitializedOp(resource=handle())],
            [R.ResourceGather(resource=handle(), indices=index, dtype=tf.float32)],
            [R.ResourceGatherNd(resource=handle(), indices=feed(np.int32([[0]])),
                                dtype=tf.float32)],
            [R.ResourceScatterAdd(resource=handle(), indices=index, updates=one)],
            [R.ResourceScatterNdAdd(ref=handle(), indices=feed(np.int32([[0]])), updates=one)],
            [R.ResourceCountUpTo(resource=handle(tf.int32), limit=3, T=tf.int32)],
            [R.DestroyResourceOp(resource=handle(), ignore_lookup_error=False)],
            [R.DisableCopyOnRead(resource=handle())]]


case("ReadVariableOp", build_missing, "missing")


def build_resource_shapes():
    handle, start = resource(np.float32([1, 2, 3]))
    two, three = feed(np.float32([1, 2])), feed(np.float32([4, 5, 6]))
    return [[start], [R.AssignVariableOp(resource=handle, value=two, validate_shape=True)],
            [R.AssignVariableOp(resource=handle, value=three, validate_shape=True)],
            [read(handle, tf.float32)], [R.AssignAddVariableOp(resource=handle, value=two)],
            [R.AssignSubVariableOp(resource=handle, value=two)],
            [R.AssignVariableOp(resource=handle, value=two)], [read(handle, tf.float32)],
            [R.DisableCopyOnRead(resource=handle)],
            [R.AssignAddVariableOp(resource=handle, value=two)], [read(handle, tf.float32)]]


case("AssignVariableOp", build_resource_shapes, "shapes")


def build_count(dtype):
    def build():
        ref, start = reference(dtype(0))
        handle, begin = resource(dtype(0))
        count = R.CountUpTo(ref=ref, limit=2)
        resource_count = R.ResourceCountUpTo(resource=handle, limit=2, T=dtype)
        return [[start], [count], [count], [count], [ref], [begin], [resource_count],
                [resource_count], [resource_count], [read(handle, dtype)]]
    return build


case("CountUpTo", build_count(np.int32), "int32")
case("CountUpTo", build_count(np.int64), "int64")


def build_count_vector():
    handle = R.VarHandleOp(dtype=tf.int32, shape=None, shared_name="vector counter")
    return [[R.AssignVariableOp(resource=handle, value=feed(np.int32([0])))],
            [R.ResourceCountUpTo(resource=handle, limit=2, T=tf.int32)]]


case("ResourceCountUpTo", build_count_vector, "of a vector")


def build_temporary():
    def sum_of(name, end):
        ref = R.TemporaryVariable(shape=[2], dtype=tf.float32, var_name=name)
        filled = R.Assign(ref=ref, value=feed(np.float32([1, 2])))
        added = R.AssignAdd(ref=filled, value=feed(np.float32([10, 20])))
        return R.DestroyTemporaryVariable(ref=added, var_name=end)
    good = sum_of("temporary", "temporary")
    return [[good], [good], [sum_of("other", "wrong")]]


case("TemporaryVariable", build_temporary)


# ---- Snapshots ----
def build_snapshot():
    handle, start = resource(np.float32([1, 2, 3]))
    before = read(handle, tf.float32)
    with tf.control_dependencies([before]):
        update = R.AssignAddVariableOp(resource=handle, value=feed(np.float32([1, 1, 1])))
    with tf.control_dependencies([update]):
        after = read(handle, tf.float32)
    return [[start], [before, after], [before, after]]


case("ReadVariableOp", build_snapshot, "before and after an update")


# ---- Rows ----
SCATTERS = ["Update", "Add", "Sub", "Mul", "Div", "Min", "Max"]


def scatter_steps(suffix, dtype, index_type):
    def build():
        start_value = sample(dtype, (5, 3), 20, 60)
        indices = np.array([[4, 0], [4, 1]], index_type)
        updates = sample(dtype, (2, 2, 3), 1, 4)
        ref, start = reference(start_value)
        handle, begin = resource(start_value)
        scatter = getattr(R, "Scatter" + suffix)
        resource_scatter = getattr(R, "ResourceScatter" + suffix)
        empty = feed(np.zeros((0,), index_type))
        return [[start], [begin], [scatter(ref=ref, indices=feed(indices), updates=feed(updates))],
                [scatter(ref=ref, indices=feed(index_type(2)), updates=feed(updates[0, 0]))],
                [scatter(ref=ref, indices=feed(indices), updates=feed(updates[0, 0, 0]))],
                [scatter(ref=ref, indices=empty, updates=feed(np.zeros((0, 3), dtype)))], [ref],
                [resource_scatter(resource=handle, indices=feed(indices), updates=feed(updates))],
                [read(handle, dtype)],
                [resource_scatter(resource=handle, indices=feed(indices),
                                  updates=feed(updates[0, 0, 0]))],
                [resource_scatter(resource=handle, indices=empty,
                                  updates=feed(np.zeros((0, 3), dtype)))],
                [read(handle, dtype)]]
    return build


for ending in SCATTERS:
    for number in NUMBERS + [np.bool_]:
        if number is np.bool_ and ending != "Update":
            continue
        if ending in ("Min", "Max") and number not in FLOATS + [np.int32, np.int64]:
            continue
        for index in (np.int32, np.int64):
            case("Scatter" + ending, scatter_steps(ending, number, index),
                 f"{np.dtype(number).name} {np.dtype(index).name}")


def build_wide_scatter():
    count = 4000
    handle, start = resource(np.zeros((50, 64), np.float32))
    indices = RNG.randint(0, 50, size=count).astype(np.int64)
    updates = RNG.randint(0, 5, size=(count, 64)).astype(np.float32)
    return [[start], [R.ResourceScatterAdd(resource=handle, indices=feed(indices),
                                           updates=feed(updates))], [read(handle, tf.float32)],
            [R.ResourceScatterUpdate(resource=handle, indices=feed(indices),
                                     updates=feed(updates))],
            [R.ResourceGather(resource=handle, indices=feed(np.sort(indices)[:5]),
                              dtype=tf.float32)]]


# The order of updates of one row is not defined in genuine TensorFlow, so the last step differs.
CASES.append(Case("ResourceScatterAdd", name="ResourceScatterAdd wide",
                  build=lambda: ({}, build_wide_scatter()[:3])))


def build_scatter_errors():
    ref, start = reference(np.float32([1, 2, 3]))
    handle, begin = resource(np.float32([1, 2, 3]))
    scalar, scalar_start = reference(np.float32(1))

    def steps(scatter, key, where):
        one = feed(np.int32([0]))
        return [[scatter(indices=feed(np.int32([3])), updates=feed(np.float32([1])), **{key: where})],
                [scatter(indices=feed(np.int32([-1])), updates=feed(np.float32([1])),
                         **{key: where})],
                [scatter(indices=one, updates=feed(np.float32([1, 2])), **{key: where})],
                [scatter(indices=one, updates=feed(np.float32([[1, 2]])), **{key: where})],
                [scatter(indices=one, updates=feed(np.float32([])), **{key: where})]]
    return ([[start], [begin], [scalar_start]] + steps(R.ScatterAdd, "ref", ref) +
            steps(R.ResourceScatterAdd, "resource", handle) +
            [[R.ScatterAdd(ref=scalar, indices=feed(np.int32([0])),
                           updates=feed(np.float32([1])))],
             [R.ResourceScatterDiv(resource=handle, indices=feed(np.int32([0])),
                                   updates=feed(np.float32([0])))],
             [R.ScatterDiv(ref=ref, indices=feed(np.int32([0])), updates=feed(np.float32([0])))],
             [ref], [read(handle, tf.float32)]])


case("ScatterAdd", build_scatter_errors, "errors")


# ---- Parts by coordinates ----
def scatter_nd_steps(suffix, dtype, index_type):
    def build():
        start_value = sample(dtype, (4, 3, 2), 2, 20)
        ref, start = reference(start_value)
        handle, begin = resource(start_value)
        scatter = getattr(R, "ScatterNd" + suffix)
        resource_scatter = getattr(R, "ResourceScatterNd" + suffix)
        parts = [(np.array([[0], [3], [0]], index_type), sample(dtype, (3, 3, 2))),
                 (np.array([[[1, 2], [2, 0]]], index_type), sample(dtype, (1, 2, 2))),
                 (np.array([[3, 2, 1], [3, 0, 1]], index_type), sample(dtype, (2,))),
                 (np.zeros((0, 2), index_type), np.zeros((0, 2), dtype))]
        runs = [[start], [begin]]
        for indices, updates in parts:
            runs += [[scatter(ref=ref, indices=feed(indices), updates=feed(updates))],
                     [resource_scatter(ref=handle, indices=feed(indices), updates=feed(updates))],
                     [read(handle, dtype)]]
        return runs
    return build


for ending in ["Update", "Add", "Sub", "Min", "Max"]:
    for number in NUMBERS + [np.bool_]:
        if number is np.bool_ and ending != "Update" or number in COMPLEX and ending in ("Min", "Max"):
            continue
        for index in (np.int32, np.int64):
            case("ScatterNd" + ending, scatter_nd_steps(ending, number, index),
                 f"{np.dtype(number).name} {np.dtype(index).name}")


def build_scatter_nd_errors():
    handle, begin = resource(np.float32([[1, 2], [3, 4]]))
    scalar, scalar_start = reference(np.float32(1))
    bad = [([[2]], [[1, 1]]), ([[-1]], [[1, 1]]), ([[0, 0, 0]], [1]), ([[0]], [[1, 2, 3]]),
           ([[0]], [1, 2]), ([[0], [1]], [[1, 2]]), ([1, 1], 1),
           ([1, 1], [1, 2])]
    return [[begin], [scalar_start]] + [
        [R.ResourceScatterNdAdd(ref=handle, indices=feed(np.int32(i)), updates=feed(np.float32(u)))]
        for i, u in bad] + [
        [R.ResourceScatterNdAdd(ref=handle, indices=feed(np.zeros((0, 1), np.int32)),
                                updates=feed(np.zeros((0, 3), np.float32)))],
        [R.ResourceScatterNdAdd(ref=handle, indices=feed(np.int32([[0]])),
                                updates=feed(np.zeros((0, 2), np.float32)))],
        [R.ScatterNdAdd(ref=scalar, indices=feed(np.int32([[0]])), updates=feed(np.float32([1])))],
        [read(handle, tf.float32)]]


case("ScatterNdAdd", build_scatter_nd_errors, "errors")


# ---- Gather ----
def gather_steps(dtype, index_type):
    def build():
        handle, begin = resource(sample(dtype, (3, 4, 2)))

        def gather(indices, **attrs):
            return [R.ResourceGather(resource=handle, indices=feed(np.array(indices, index_type)),
                                     dtype=dtype, **attrs)]

        def gather_nd(indices):
            return [R.ResourceGatherNd(resource=handle, indices=feed(np.array(indices, index_type)),
                                       dtype=dtype)]
        return [[begin], gather([2, 0, 2]), gather(1), gather([[0, 1], [1, 2]]),
                gather(np.zeros((0, 2))), gather([[3, 0], [1, 1], [2, 0]], batch_dims=1),
                gather([3]), gather([[0, -1]]),
                gather_nd([[0], [2]]), gather_nd([[[0, 3], [2, 1]]]), gather_nd([1, 2, 1]),
                gather_nd(np.zeros((2, 0))), gather_nd(np.zeros((0, 2))), gather_nd([[3]]),
                gather_nd([[0, 0, 0, 0]]), gather_nd([[0, -1]])]
    return build


for number in NUMBERS + [np.bool_]:
    for index in (np.int32, np.int64):
        case("ResourceGather", gather_steps(number, index),
             f"{np.dtype(number).name} {np.dtype(index).name}")


def build_gather_scalar():
    handle = R.VarHandleOp(dtype=tf.float32, shape=None, shared_name="scalar")
    begin = R.AssignVariableOp(resource=handle, value=feed(np.float32(1)))
    return [[begin], [R.ResourceGather(resource=handle, indices=feed(np.int32([0])),
                                       dtype=tf.float32)]]


case("ResourceGather", build_gather_scalar, "scalar")


# ---- Locks ----
def build_mutex():
    mutex = R.MutexV2(shared_name="mutex")
    lock = R.MutexLock(mutex=mutex)
    use = R.ConsumeMutexLock(mutex_lock=lock)
    return [[use], [use]]


case("MutexLock", build_mutex)


def build_contended_mutex():
    """Every section adds to a variable under the lock; the sum shows that none was lost."""
    mutex = R.MutexV2(shared_name="contended")
    handle, start = resource(np.int32(0))
    sections = []
    for _ in range(6):
        lock = R.MutexLock(mutex=mutex)
        with tf.control_dependencies([lock]):
            grown = read(handle, tf.int32) + 1
        with tf.control_dependencies([R.AssignVariableOp(resource=handle, value=grown)]):
            sections.append(R.ConsumeMutexLock(mutex_lock=lock))
    return [[start], sections, sections, [read(handle, tf.int32)]]


case("MutexLock", build_contended_mutex, "contended")
