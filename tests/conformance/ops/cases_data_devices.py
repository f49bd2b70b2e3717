"""Iterators that several devices share, whose elements go to them in turn; and datasets that a
function generates from a state, which carry the elements to the devices."""
import tensorflow as tf
from fixtures import fresh
from runner import Case

R = tf.raw_ops
tf1 = tf.compat.v1
D = tf1.data.Dataset
CASES = []


def case(op, build, text, **more):
    CASES.append(Case(op, build=lambda: ({}, build()), name=f"{op} {text}", **more))


class Shared:
    """An iterator for `shards` devices over a dataset, and the ops on it."""

    def __init__(self, dataset, shards, room=2, types=None):
        self.types = types or [tf.int64]
        shape = dict(output_types=self.types, output_shapes=[tf.TensorShape(None)] * len(self.types))
        self.handle = R.MultiDeviceIterator(devices=["/cpu:0"] * shards, shared_name=fresh("shared"),
                                            container="", **shape)
        self.start = R.MultiDeviceIteratorInit(dataset=dataset._variant_tensor,
                                               multi_device_iterator=self.handle, max_buffer_size=room)
        self.shape = shape

    def take(self, shard, incarnation=1, handle=None):
        return R.MultiDeviceIteratorGetNextFromShard(
            multi_device_iterator=self.handle if handle is None else handle, shard_num=shard,
            incarnation_id=tf.constant(incarnation, tf.int64), **self.shape)


def turns(count, shards, order, text, room=2):
    def build():
        shared = Shared(D.range(count), shards, room)
        return [[shared.start]] + [list(shared.take(shard)) for shard in order]
    case("MultiDeviceIteratorGetNextFromShard", build, text)


turns(7, 2, [0, 1, 0, 1, 0, 1, 0, 1, 0, 1], "in order, and beyond the end")
turns(7, 2, [1, 0, 1, 0], "the second first")
turns(9, 3, [2, 2, 0, 0, 1, 1, 2, 1, 0, 0], "out of order, within the room")
turns(8, 2, [1, 1, 1, 0, 0, 0], "three of one shard before the other", room=4)
turns(5, 1, [0] * 7, "a single shard")
turns(0, 2, [1, 0], "nothing to share")
turns(4, 2, [0, 1, 0, 1], "a buffer of nothing", room=1)


def two_components():
    dataset = D.from_tensor_slices(([1, 2, 3, 4], ["a", "b", "c", "d"]))
    shared = Shared(dataset, 2, types=[tf.int32, tf.string])
    return [[shared.start]] + [list(shared.take(shard)) for shard in (1, 0, 1, 0, 0)]


case("MultiDeviceIteratorGetNextFromShard", two_components, "elements of two components")


def again():
    shared = Shared(D.range(6), 2)
    first, second = list(shared.take(0)), list(shared.take(0, 2))
    return [[shared.start], first, [shared.start], first, second, second, list(shared.take(1, 2))]


case("MultiDeviceIteratorInit", again, "again: a new incarnation, the old one is refused")


def other_types():
    shared = Shared(D.range(3), 2, types=[tf.int32])
    return [[shared.start]]


def other_count():
    shared = Shared(D.zip((D.range(3), D.range(3))), 2)
    return [[shared.start]]


case("MultiDeviceIteratorInit", other_types, "of another type", says=True)
case("MultiDeviceIteratorInit", other_count, "of more components", says=True)


def by_text(**attrs):
    def build():
        shared = Shared(D.range(4), 2)
        text = R.MultiDeviceIteratorToStringHandle(multi_device_iterator=shared.handle)
        handle = R.MultiDeviceIteratorFromStringHandle(string_handle=text, **attrs)
        return [[shared.start], list(shared.take(0)), list(shared.take(0, handle=handle)),
                list(shared.take(1, handle=handle))]
    return build


case("MultiDeviceIteratorFromStringHandle", by_text(), "back to a handle")
case("MultiDeviceIteratorFromStringHandle", by_text(output_types=[tf.int64], output_shapes=[[]]),
     "with its components")
case("MultiDeviceIteratorFromStringHandle", by_text(output_types=[tf.int32]), "with another type", says=True)
case("MultiDeviceIteratorFromStringHandle",
     lambda: [[R.MultiDeviceIteratorFromStringHandle(string_handle="nonsense")]], "of nonsense", says=True)


def anonymous(version):
    def build():
        shape = dict(output_types=[tf.int64], output_shapes=[[]])
        make = getattr(R, "AnonymousMultiDeviceIterator" + version)(devices=["/cpu:0", "/cpu:0"], **shape)
        handle = make if version else make.handle
        start = R.MultiDeviceIteratorInit(dataset=D.range(4)._variant_tensor, multi_device_iterator=handle,
                                          max_buffer_size=2)
        first = R.MultiDeviceIteratorGetNextFromShard(multi_device_iterator=handle, shard_num=1,
                                                      incarnation_id=start, **shape)
        if version:
            return [list(first)]
        with tf.control_dependencies(first):
            end = R.DeleteMultiDeviceIterator(multi_device_iterator=handle, iterators=[],
                                              deleter=make.deleter)
        return [[*first, end]]
    return build


case("AnonymousMultiDeviceIterator", anonymous(""), "within one step")
case("AnonymousMultiDeviceIteratorV3", anonymous("V3"), "within one step")


# ---- Generators ----
def generator(build_next, count, text, state=(10,), element=tf.int64):
    """A walk through a generator to its end and beyond, then what its last function left."""
    def build():
        ended = tf1.get_variable(fresh("ended"), initializer=tf.constant(0, tf.int64),
                                 use_resource=True, trainable=False)
        initializers, following = build_next()
        states = [tf.TensorSpec([], tf.int64)] * len(state)
        functions = [tf.function(function, input_signature=signature).get_concrete_function()
                     for function, signature in [
                         (lambda: tuple(tf.constant(one, tf.int64) for one in state), []),
                         (lambda *given: tf.cast(following() + sum(given), element), states),
                         (lambda *given: ended.assign_add(sum(given)), states)]]
        arguments = {f"{name}_func_other_args": function.captured_inputs
                     for name, function in zip(("init", "next", "finalize"), functions)}
        dataset = R.GeneratorDataset(init_func=functions[0], next_func=functions[1],
                                     finalize_func=functions[2], output_types=[element],
                                     output_shapes=[[]], **arguments)
        iterator = tf1.data.make_initializable_iterator(
            tf.data.experimental.from_variant(dataset, tf.TensorSpec([], element)))
        get = iterator.get_next()
        return ([[ended.initializer, *initializers], [iterator.initializer]] + [[get]] * (count + 2)
                + [[ended.read_value()], [iterator.initializer], [get]])
    case("GeneratorDataset", build, text)


def from_iterator(count):
    """The function asks another iterator, whose end is its own."""
    def build():
        source = tf1.data.make_initializable_iterator(D.range(count), shared_name=fresh("source"))
        handle = source.string_handle()

        def following():
            shape = dict(output_types=[tf.int64], output_shapes=[[]])
            inner = R.IteratorFromStringHandleV2(string_handle=handle, **shape)
            return R.IteratorGetNext(iterator=inner, **shape)[0]
        return [source.initializer], following
    return build


def failing(count):
    """The function fails with another error than the one that means the end."""
    def build():
        counter = tf1.get_variable(fresh("counter"), initializer=tf.constant(0), use_resource=True,
                                   trainable=False)

        def following():
            return tf.gather(tf.range(count, dtype=tf.int64), counter.assign_add(1) - 1)
        return [counter.initializer], following
    return build


generator(from_iterator(3), 3, "that ends with another iterator")
generator(from_iterator(0), 0, "that ends at once")
generator(from_iterator(2), 2, "with a state of two", state=(5, 7))
generator(from_iterator(2), 2, "of another type", element=tf.float32)
generator(failing(3), 3, "that fails behind its third element")
