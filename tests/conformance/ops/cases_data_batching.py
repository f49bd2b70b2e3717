"""Batching with one caller: what comes out, padded and split, and what is refused. Batches of many
callers are tested through sessions (session/test_batching.py)."""
import numpy as np
import tensorflow as tf
from fixtures import fresh
from runner import case_decorator, feed

R = tf.raw_ops
tf1 = tf.compat.v1
CASES = []
case = case_decorator(CASES)


def name():
    return fresh("batcher")


def options(**changed):
    return {"num_batch_threads": 1, "max_batch_size": 8, "batch_timeout_micros": 1000,
            "shared_name": name(), **changed}


def function(f, *types):
    concrete = tf.function(f).get_concrete_function(*[tf.TensorSpec(None, t) for t in types])
    concrete.add_to_graph(tf1.get_default_graph())
    return concrete


def call(f, inputs, captured=(), out=(tf.float32,), **changed):
    f = function(f, *[t.dtype for t in [*inputs, *captured]])
    return list(R.BatchFunction(in_tensors=inputs, captured_tensors=list(captured), f=f,
                                Tout=list(out), **options(**changed)))


def double(x):
    return x * 2


ROWS = np.arange(10, dtype=np.float32).reshape(5, 2)


# ---- BatchFunction ----
@case("BatchFunction")
def rows():
    return call(double, [feed(ROWS)])


@case("BatchFunction")
def no_timeout():
    return call(double, [feed(ROWS)], batch_timeout_micros=0)


@case("BatchFunction")
def several_inputs_and_outputs():
    return call(lambda x, s, n: (tf.strings.join([s, s]), x + n, n), [feed(ROWS), feed(["a", "b"] * 2 + [
        "a text that is longer than what lies inside"]), feed([[1.], [2.], [3.], [4.], [5.]])],
                out=[tf.string, tf.float32, tf.float32])


@case("BatchFunction")
def captured_inputs():
    return call(lambda x, y, z: x * y + tf.cast(z, tf.float32), [feed(ROWS)],
                [feed(3.), feed([7, 8])])


@case("BatchFunction")
def captured_variable():
    variable = tf1.get_variable(name(), initializer=[2., 3.], use_resource=True)
    f = tf.function(lambda x: x * variable).get_concrete_function(tf.TensorSpec(None, tf.float32))
    f.add_to_graph(tf1.get_default_graph())
    out = R.BatchFunction(in_tensors=[feed(ROWS)], captured_tensors=f.captured_inputs, f=f,
                          Tout=[tf.float32], **options())
    return [[variable.initializer], list(out)]


@case("BatchFunction")
def padding():
    """The function sees the padding: the first row again."""
    return call(lambda x: x + tf.reduce_sum(x), [feed(ROWS)], allowed_batch_sizes=[2, 6, 8])


@case("BatchFunction")
def no_padding_needed():
    return call(lambda x: x + tf.reduce_sum(x), [feed(ROWS)], allowed_batch_sizes=[5, 8])


@case("BatchFunction")
def no_rows():
    return call(lambda x: (x, x), [feed(np.zeros((0, 3), np.float32))], out=[tf.float32] * 2)


@case("BatchFunction")
def rows_without_elements():
    return call(double, [feed(np.zeros((3, 0), np.float32))], allowed_batch_sizes=[4, 8])


@case("BatchFunction")
def full_batch():
    return call(double, [feed(np.ones(8, np.float32))], batch_timeout_micros=10 ** 8)


@case("BatchFunction")
def split():
    return call(lambda x: x + tf.reduce_sum(x), [feed(np.arange(8.), np.float32)],
                allowed_batch_sizes=[1, 3], enable_large_batch_splitting=True)


@case("BatchFunction")
def split_evenly():
    return call(lambda x, s: (x + tf.reduce_sum(x), s), [feed(ROWS[:4]), feed(list("abcd"))],
                out=[tf.float32, tf.string], allowed_batch_sizes=[2],
                enable_large_batch_splitting=True)


@case("BatchFunction")
def split_more_than_wait():
    return call(double, [feed(np.ones(8, np.float32))], allowed_batch_sizes=[2],
                max_enqueued_batches=3, enable_large_batch_splitting=True)


@case("BatchFunction")
def split_unpadded():
    return call(double, [feed(np.ones(8, np.float32))], enable_large_batch_splitting=True)


@case("BatchFunction")
def twice_in_one_step():
    shared = name()
    a = call(double, [feed(ROWS)], shared_name=shared)
    b = call(double, [feed(ROWS[:1])], shared_name=shared, batching_queue="other")
    return a + b


@case("BatchFunction")
def chosen_number_of_threads():
    return call(double, [feed(ROWS)], num_batch_threads=0, max_batch_size=5)


@case("BatchFunction")
def too_many_rows():
    return call(double, [feed(np.ones((9, 1), np.float32))])


@case("BatchFunction")
def too_many_rows_to_split():
    return call(double, [feed(np.ones(9, np.float32))], enable_large_batch_splitting=True)


@case("BatchFunction")
def scalar():
    return call(double, [feed(3.)])


@case("BatchFunction")
def different_rows():
    return call(lambda x, y: x, [feed(ROWS), feed([1., 2.])])


@case("BatchFunction")
def allowed_sizes_fall():
    return call(double, [feed(ROWS)], allowed_batch_sizes=[4, 2, 8])


@case("BatchFunction")
def allowed_sizes_end_early():
    return call(double, [feed(ROWS)], allowed_batch_sizes=[2, 4])


@case("BatchFunction")
def allowed_sizes_end_late():
    return call(double, [feed(ROWS)], allowed_batch_sizes=[2, 16],
                enable_large_batch_splitting=True)


@case("BatchFunction")
def negative_timeout():
    return call(double, [feed(ROWS)], batch_timeout_micros=-1)


@case("BatchFunction")
def no_batch_may_wait():
    return call(double, [feed(ROWS)], max_enqueued_batches=0)


@case("BatchFunction")
def no_part_may_wait():
    return call(double, [feed(ROWS)], max_enqueued_batches=0, enable_large_batch_splitting=True)


@case("BatchFunction")
def no_size():
    return call(double, [feed(ROWS)], max_batch_size=0)


@case("BatchFunction")
def scalar_result():
    return call(tf.reduce_sum, [feed(ROWS)])


@case("BatchFunction")
def fewer_rows_in_result():
    return call(lambda x: x[1:], [feed(ROWS)])


@case("BatchFunction")
def error_inside():
    return call(lambda x, y: tf.reshape(x, [7, 7]), [feed(ROWS), feed(ROWS)])


# ---- Batch, Unbatch ----
def batch(inputs, **changed):
    return R.Batch(in_tensors=inputs, grad_timeout_micros=0, **options(**changed))


@case("Batch")
def batched():
    out = batch([feed(ROWS), feed(list("abcde"))])
    index = out.batch_index
    return [*out.batched_tensors, index[:, 1:], tf.equal(index[0, 0], out.id), tf.shape(index)]


@case("Batch")
def batched_and_padded():
    out = batch([feed(ROWS)], allowed_batch_sizes=[4, 7, 8])
    return [*out.batched_tensors, out.batch_index[:, 1:]]


@case("Batch")
def batched_nothing():
    out = batch([feed(ROWS[:0])])
    return [*out.batched_tensors, out.batch_index, out.id]


for what, changed in [("allowed_sizes", {"allowed_batch_sizes": [2, 4]}),
                      ("threads", {"num_batch_threads": 0}), ("size", {"max_batch_size": 4}),
                      ("timeout", {"batch_timeout_micros": -3})]:
    def wrong(changed=changed):
        return [batch([feed(ROWS)], **changed).id]
    wrong.__name__ = f"wrong_{what}"
    case("Batch")(wrong)


@case("Unbatch")
def there_and_back():
    out = batch([feed(ROWS)], allowed_batch_sizes=[7, 8])
    return [R.Unbatch(batched_tensor=out.batched_tensors[0] * 2, batch_index=out.batch_index,
                      id=out.id, timeout_micros=10 ** 7, shared_name=name())]


def unbatch(data, index, key, shared, timeout=10 ** 7):
    return R.Unbatch(batched_tensor=feed(data), batch_index=feed(index, tf.int64),
                     id=feed(key, tf.int64), timeout_micros=timeout, shared_name=shared)


NOTHING = np.zeros((0, 3))


@case("Unbatch")
def rows_of_three():
    """One after the other: what the first brings is kept for the others."""
    shared = name()
    index = [[5, 0, 2], [6, 2, 3], [7, 3, 5]]
    return [[unbatch(ROWS, index, 6, shared)], [unbatch(ROWS[:0], NOTHING, 7, shared)],
            [unbatch(ROWS[:0], NOTHING, 5, shared)]]


@case("Unbatch")
def nobody_brings_it():
    return [unbatch(ROWS[:0], NOTHING, 7, name(), timeout=1000)]


@case("Unbatch")
def kept_for_a_while():
    shared = name()
    return [[unbatch(ROWS, [[5, 0, 2], [6, 2, 5]], 5, shared, 1)],
            [unbatch(ROWS[:0], NOTHING, 8, shared, 20000)],
            [unbatch(ROWS[:0], NOTHING, 6, shared, 20000)]]


@case("Unbatch")
def more_entries_than_rows():
    return [unbatch(ROWS[:1], [[1, 0, 1], [2, 1, 1]], 1, name())]


@case("Unbatch")
def entries_of_two():
    return [unbatch(ROWS, [[1, 0]], 1, name())]


@case("Unbatch")
def entries_beyond_the_rows():
    return [unbatch(ROWS, [[1, 0, 4], [2, 4, 9]], 1, name())]


@case("Unbatch")
def key_of_rank_one():
    return [unbatch(ROWS, [[1, 0, 5]], [1], name())]


# ---- UnbatchGrad ----
def gradient(data, index, grad, key, shared):
    return R.UnbatchGrad(original_input=feed(data, tf.float32), batch_index=feed(index, tf.int64),
                         grad=feed(grad, tf.float32), id=feed(key, tf.int64), shared_name=shared)


@case("UnbatchGrad")
def gradients_of_three():
    shared = name()
    index = [[5, 0, 2], [6, 2, 3], [7, 3, 5]]
    return [[gradient([], NOTHING, ROWS[:2], 5, shared)], [gradient([], NOTHING, ROWS[2:3], 6, shared)],
            [gradient(ROWS, index, ROWS[3:], 7, shared)]]


@case("UnbatchGrad")
def the_same_key_twice():
    shared = name()
    return [[gradient([], NOTHING, ROWS, 5, shared)], [gradient([], NOTHING, ROWS, 5, shared)]]


@case("UnbatchGrad")
def without_an_index():
    return [gradient(ROWS, NOTHING, ROWS, 5, name())]


@case("UnbatchGrad")
def index_of_two():
    return [gradient(ROWS, [[5, 0]], ROWS, 5, name())]


@case("UnbatchGrad")
def gradients_of_other_shapes():
    shared = name()
    return [[gradient([], NOTHING, ROWS[:2], 5, shared)],
            [gradient(ROWS, [[5, 0, 2], [6, 2, 5]], ROWS[:, :1], 6, shared)]]


@case("UnbatchGrad")
def key_of_rank_one_too():
    return [gradient(ROWS, [[5, 0, 5]], ROWS, [5], name())]
