"""Ragged tensors in variants, row by row or whole; crosses of ragged columns; empty rows filled."""
import numpy as np
import tensorflow as tf
from runner import Case, bfloat16, make_op, tf1

CASES = []


def feed(feeds, value):
    value = np.asarray(value)
    tensor = tf1.placeholder(tf.string if value.dtype.kind in "SUO" else tf.as_dtype(value.dtype), shape=None)
    feeds[tensor] = value
    return tensor


def add_graph(op, name, build, since=None):
    CASES.append(Case(op, build=build, name=f"{len(CASES)}:{op}({name})", since=since))


def i64(*numbers):
    return np.array(numbers, np.int64)


VALUES = np.arange(1, 10, dtype=np.float32)
ROWS = i64(0, 2, 2, 5, 9)
OUTER = i64(0, 3, 3, 4)
TEXTS = np.array([f"text {i} that is not short at all" for i in range(9)], object)


# ---- There and back ----
def round_trip(splits, values, name, batched=True, shape=None, input_rank=-1, output_rank=None, change=None,
               op="RaggedTensorFromVariant", wanted=None, wanted_splits=None, since=None):
    """Into variants, perhaps reshaped, and back with other ranks."""
    def build():
        feeds = {}
        kind = tf.as_dtype(np.asarray(splits[0]).dtype) if splits else tf.int64
        nested, dense = [feed(feeds, s) for s in splits], feed(feeds, values)
        encoded = make_op("RaggedTensorToVariant", rt_nested_splits=nested, rt_dense_values=dense,
                          batched_input=batched)
        sizes = tf.shape(encoded)
        if shape is not None:
            encoded = tf.reshape(encoded, feed(feeds, np.array(shape, np.int32)))
        if change:
            encoded = change(encoded)
        encoded = tf1.placeholder_with_default(encoded, shape=None)  # hides what the graph knows
        rank = len(splits) if output_rank is None else output_rank
        result = make_op("RaggedTensorFromVariant", encoded_ragged=encoded, input_ragged_rank=input_rank,
                         output_ragged_rank=rank, Tvalues=wanted or dense.dtype, Tsplits=wanted_splits or kind)
        return feeds, [sizes] + tf.nest.flatten(result)
    add_graph(op, name, build, since)


for dtype in (np.float32, np.float64, np.float16, bfloat16, np.int8, np.int64, np.uint16, np.uint64, np.bool_,
              np.complex64):
    round_trip([ROWS], VALUES.astype(dtype), f"{np.dtype(dtype).name}")
for values in (VALUES, TEXTS, np.stack([VALUES, -VALUES], 1), np.zeros((9, 0), np.float32)):
    for kind in (np.int32, np.int64):
        one, two = [ROWS.astype(kind)], [OUTER.astype(kind), ROWS.astype(kind)]
        label = f"{values.dtype.name}{list(values.shape)} {np.dtype(kind).name}"
        round_trip(one, values, f"rows {label}", op="RaggedTensorToVariant")
        round_trip(two, values, f"nested {label}", op="RaggedTensorToVariant")
        round_trip([np.array([0, 2, 3], kind)] + two, values, f"three levels {label}", op="RaggedTensorToVariant")
        round_trip(one, values, f"whole {label}", batched=False)
        round_trip(two, values, f"whole nested {label}", batched=False)
        round_trip(one, values, f"square {label}", shape=[2, 2], output_rank=2)
        round_trip(two, values, f"cube {label}", shape=[1, 3, 1], output_rank=4)
        round_trip(two, values, f"one row {label}", change=lambda x: x[1], output_rank=1)
        round_trip(one, values, f"no rows {label}", change=lambda x: x[4:])
        round_trip(two, values, f"no rows of rows {label}", change=lambda x: x[3:])
        round_trip(two, values, f"turned {label}", change=lambda x: x[::-1])
        if values is TEXTS:
            continue
        round_trip(one, values, f"zeros {label}", batched=False, change=tf1.zeros_like)
        round_trip(two, values, f"sum {label}", batched=False, change=lambda x: tf1.add_n([x, x, x]))
round_trip([], VALUES, "dense rows", output_rank=1, op="RaggedTensorToVariant")
round_trip([], np.stack([VALUES, -VALUES], 1), "dense rows of rows", output_rank=1, op="RaggedTensorToVariant")
round_trip([], VALUES, "dense whole", batched=False)
round_trip([], np.float32(3), "dense scalar", op="RaggedTensorToVariant")
round_trip([i64(0)], VALUES[:0], "nothing", op="RaggedTensorToVariant")
round_trip([i64(0, 0, 0)], VALUES[:0], "empty rows", op="RaggedTensorToVariant")
round_trip([i64(0), i64(0)], VALUES[:0], "nothing nested", op="RaggedTensorToVariant")
for name, splits in (("no splits", [i64()]), ("start", [i64(1, 9)]), ("falling", [i64(0, 4, 2, 9)]),
                     ("beyond", [i64(0, 12)]), ("short", [i64(0, 5)]), ("nested", [i64(0, 3), i64(0, 4, 9)]),
                     ("nested, short", [i64(0, 1), i64(0, 4, 9)]), ("negative", [i64(0, -1)]),
                     ("rank", [i64(0, 9)[None]])):  # the older one reads what is not there
    round_trip(splits, VALUES, f"wrong splits: {name}", op="RaggedTensorToVariant", since=(2, 21))
round_trip([i64(0, 1)], np.float32(1), "over a scalar", op="RaggedTensorToVariant", since=(2, 21))
round_trip([ROWS], VALUES, "input rank", input_rank=0)
for name, more in (("input rank", dict(input_rank=1)), ("output rank", dict(output_rank=0)),
                   ("ragged rank", dict(output_rank=2)), ("dtype", dict(wanted=tf.float64)),
                   ("rank", dict(shape=[2, 2], output_rank=1))):
    round_trip([ROWS], VALUES, f"wrong {name}", **more)
round_trip([OUTER, ROWS], VALUES, "wrong splits type", wanted_splits=tf.int32)
round_trip([ROWS], np.float32(1), "whole over a scalar", batched=False)
round_trip([np.reshape(ROWS, [5, 1])], VALUES, "whole with splits of rank 2", batched=False)


def stack_of(*parts, name, rank=None):
    """Variants of separate ragged tensors, stacked."""
    def build():
        feeds = {}
        encoded = [make_op("RaggedTensorToVariant", rt_nested_splits=[feed(feeds, s) for s in splits],
                           rt_dense_values=feed(feeds, values), batched_input=False)
                   for splits, values in parts]
        return feeds, tf.nest.flatten(make_op(
            "RaggedTensorFromVariant", encoded_ragged=tf1.placeholder_with_default(tf.stack(encoded), None),
            input_ragged_rank=-1, output_ragged_rank=1 + len(parts[0][0]) if rank is None else rank,
            Tvalues=tf.float32, Tsplits=tf.int64))
    add_graph("RaggedTensorFromVariant", name, build)


stack_of(([ROWS], VALUES), ([i64(0, 1)], VALUES[:1]), ([i64(0)], VALUES[:0]), name="stack")
stack_of(([], VALUES), ([], VALUES[:2]), name="stack of dense")
stack_of(([ROWS], VALUES), ([], VALUES[:2]), name="stack of different ragged ranks")
stack_of(([], VALUES), ([], np.stack([VALUES, VALUES])), name="stack of different ranks")
stack_of(([], VALUES), ([], -VALUES), name="stack without splits", rank=0)
stack_of(([], VALUES[0]), ([], VALUES[1]), name="stack of scalars", rank=0)
stack_of(([], VALUES), ([], VALUES[:2]), name="stack without splits of different shapes", rank=0)
stack_of(([], np.stack([VALUES])), ([], np.stack([VALUES[:2]])), name="stack of different inner shapes")


def not_ragged():
    return {}, tf.nest.flatten(make_op(
        "RaggedTensorFromVariant", encoded_ragged=tf.raw_ops.EmptyTensorList(
            element_shape=-1, max_num_elements=-1, element_dtype=tf.float32),
        input_ragged_rank=-1, output_ragged_rank=1, Tvalues=tf.float32, Tsplits=tf.int64))


add_graph("RaggedTensorFromVariant", "a list", not_ragged)


def bad_sum():
    feeds = {}
    a, b = (make_op("RaggedTensorToVariant", rt_nested_splits=[feed(feeds, splits)],
                    rt_dense_values=feed(feeds, VALUES), batched_input=False)
            for splits in (ROWS, i64(0, 9)))
    return feeds, tf.nest.flatten(make_op(
        "RaggedTensorFromVariant", encoded_ragged=tf1.add_n([a, b]), input_ragged_rank=-1,
        output_ragged_rank=1, Tvalues=tf.float32, Tsplits=tf.int64))


add_graph("RaggedTensorFromVariant", "sum of different rows", bad_sum)


# ---- The gradient ----
def gradient(splits, values, picked, name):
    """Of a sum over some rows; what is not picked gets zeros."""
    def build():
        feeds = {}
        nested, dense = [feed(feeds, s) for s in splits], feed(feeds, values)
        ragged = tf.RaggedTensor.from_nested_row_splits(dense, nested, validate=False)
        rows = tf.raw_ops.RaggedTensorToVariant(rt_nested_splits=ragged.nested_row_splits,
                                                rt_dense_values=ragged.flat_values, batched_input=True)
        total = 0.0
        for row in picked:
            *_, back = tf.nest.flatten(tf.raw_ops.RaggedTensorFromVariant(
                encoded_ragged=rows[row], input_ragged_rank=-1, output_ragged_rank=len(splits) - 1,
                Tvalues=tf.float32, Tsplits=tf.int64))
            total += tf.reduce_sum(back * back) * (row + 1)
        return feeds, [total] + tf1.gradients(total, [dense])
    add_graph("RaggedTensorToVariantGradient", name, build)


for picked in ([0], [2, 3], [0, 1, 2, 3]):
    gradient([ROWS], VALUES, picked, f"rows {picked}")
    gradient([ROWS], np.stack([VALUES, -VALUES], 1), picked, f"inner {picked}")
gradient([OUTER, ROWS], VALUES, [0, 1, 2], "nested")  # of some rows only, the end is not defined
gradient([i64(0, 9)], VALUES, [0], "one row")


def mapped(function, name, signature, *inputs):
    def build():
        feeds = {}
        ragged = [tf.RaggedTensor.from_row_splits(feed(feeds, values), feed(feeds, splits), validate=False)
                  for values, splits in inputs]
        result = tf.map_fn(function, ragged[0] if len(ragged) == 1 else tuple(ragged), fn_output_signature=signature)
        return feeds, tf.nest.flatten(result, expand_composites=True)
    add_graph("RaggedTensorToVariant", name, build)


mapped(tf.reduce_sum, "map_fn to dense", tf.TensorSpec([], tf.float32), (VALUES, ROWS))
mapped(lambda x: x * x[0:1], "map_fn to ragged", tf.RaggedTensorSpec([None], tf.float32, 0), (VALUES, ROWS))
mapped(lambda pair: tf.concat(pair, 0), "map_fn over two", tf.RaggedTensorSpec([None], tf.float32, 0),
       (VALUES, ROWS), (VALUES, ROWS))


# ---- RaggedCross ----
def cross(order, ragged=(), sparse=(), dense=(), hashed=False, buckets=0, key=956888297470, splits=tf.int64, name="",
          since=None):
    out = tf.int64 if hashed else tf.string
    CASES.append(Case("RaggedCross", [[v for v, _ in ragged], [s for _, s in ragged], [i for i, _, _ in sparse],
                                      [v for _, v, _ in sparse], [s for _, _, s in sparse], list(dense)],
                      dict(input_order=order, hashed_output=hashed, num_buckets=buckets, hash_key=key,
                           out_values_type=out, out_row_splits_type=splits),
                      name=f"{len(CASES)}:RaggedCross({order} {name} {buckets if hashed else 'text'})", since=since))


WORDS = np.array(["a", "bc", "def", "a long feature that is not inside", "", "e", "fg"], object)
R1 = (WORDS, i64(0, 2, 2, 5, 7))
R2 = (i64(5, -3, 7, 11, 2, 2), i64(0, 3, 4, 6, 6))
S1 = (np.array([[0, 0], [0, 3], [2, 1], [3, 0]], np.int64), WORDS[:4], i64(4, 4))
S2 = (np.array([[1, 0], [2, 0], [2, 1]], np.int64), i64(9, 8, 7), i64(4, 2))
D1 = np.array([["x", "y"], ["z", ""], ["u", "v"], ["w", "w"]], object)
D2 = np.arange(12, dtype=np.int64).reshape(4, 3)
for hashed, buckets in ((False, 0), (True, 0), (True, 100)):
    cross("R", [R1], hashed=hashed, buckets=buckets)
    cross("RR", [R1, R2], hashed=hashed, buckets=buckets)
    cross("RS", [R1], [S1], hashed=hashed, buckets=buckets)
    cross("SR", [R2], [S1], hashed=hashed, buckets=buckets)
    cross("DD", dense=[D1, D2], hashed=hashed, buckets=buckets)
    cross("SS", sparse=[S1, S2], hashed=hashed, buckets=buckets)
    cross("DSRDSR", [R1, R2], [S1, S2], [D1, D2], hashed=hashed, buckets=buckets)
    cross("RRSSDD", [R1, R2], [S1, S2], [D1, D2], hashed=hashed, buckets=buckets, key=1)
SHORT = [(v, s.astype(np.int32)) for v, s in (R1, R2)]
cross("RDR", SHORT, dense=[D2], splits=tf.int32, name="int32")
cross("RDR", SHORT, dense=[D2], hashed=True, splits=tf.int32, name="int32")
cross("D", dense=[np.zeros((3, 0), np.int64)], name="no features")
cross("D", dense=[np.zeros((0, 3), np.int64)], name="no rows")
cross("R", [(WORDS[:0], i64(0))], name="no rows")
cross("RD", [R1], dense=[D1[:3]], name="batch")
cross("RR", [R1, (R2[0], i64(0, 6))], name="batch of ragged")
cross("RS", [R1], [(S1[0], S1[1], i64(5, 4))], name="batch of sparse")
cross("S", sparse=[(S1[0], S1[1], i64(4, 4, 4))], name="sparse rank")
cross("S", sparse=[(S1[0][0], S1[1], i64(4, 4))], name="sparse indices")
cross("D", dense=[D2[0]], name="dense rank")
cross("R", [(WORDS[None], R1[1])], name="values rank")
cross("R", [(WORDS, R1[1][None])], name="splits rank")
cross("X", [R1], name="order")
cross("S", [R1], name="order of another")
cross("RR", [R1], name="long order")
for name, splits in (("falling", i64(0, 4, 2, 7)), ("start", i64(1, 7)), ("short", i64(0, 3)), ("beyond", i64(0, 8)),
                     ("no", i64())):
    cross("R", [(WORDS, splits)], name=f"{name} splits", since=(2, 21))


# ---- RaggedFillEmptyRows ----
def fill(ids, values, rows, default, name):
    CASES.append(Case("RaggedFillEmptyRows", [np.asarray(ids, np.int64), values, np.asarray(rows, np.int64), default],
                      name=f"{len(CASES)}:RaggedFillEmptyRows({name})", since=(2, 16)))


for dtype in (np.float32, np.int32, np.bool_, np.complex64, np.float16):
    fill([0, 0, 2, 5], np.ones(4, dtype), 7, np.zeros((), dtype), np.dtype(dtype).name)
fill([0, 0, 2, 5], WORDS[:4], 7, np.array("none", object), "strings")
for ids, rows in (([], 3), ([2, 0, 2], 4), ([0, 1, 2], 3), ([2, 1, 0], 3)):
    fill(ids, VALUES[:len(ids)], rows, np.float32(-1), f"{ids} of {rows}")
for name, ids, values, rows, default in (
        ("no rows", [0], VALUES[:1], 0, np.float32(0)), ("beyond", [3], VALUES[:1], 3, np.float32(0)),
        ("negative", [-1], VALUES[:1], 3, np.float32(0)), ("ids rank", [[0]], VALUES[:1], 3, np.float32(0)),
        ("values rank", [0], VALUES[:1, None], 3, np.float32(0)), ("sizes", [0, 1], VALUES[:1], 3, np.float32(0)),
        ("rows rank", [0], VALUES[:1], [3], np.float32(0)), ("default rank", [0], VALUES[:1], 3, VALUES[:1]),
        ("negative rows", [], VALUES[:0], -1, np.float32(0))):
    fill(ids, values, rows, default, name)
for dtype in (np.float32, np.float64, np.float16, np.int64, np.complex128):
    CASES.append(Case("RaggedFillEmptyRowsGrad", [i64(0, 1, 3, 6), np.arange(8).astype(dtype)], since=(2, 16)))
for indices, count in (((8,), 8), ((-1,), 8), ((), 3), ((2, 1, 0), 3)):
    CASES.append(Case("RaggedFillEmptyRowsGrad", [i64(*indices), np.arange(count, dtype=np.float32)], since=(2, 16),
                      name=f"RaggedFillEmptyRowsGrad({indices} of {count})"))
