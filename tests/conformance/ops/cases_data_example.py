"""Examples: sparse, dense and ragged features of batches and of one, defaults, and damaged messages."""
import numpy as np
import tensorflow as tf
from runner import Case, feed

R = tf.raw_ops
tf1 = tf.compat.v1
CASES = []
rng = np.random.RandomState(5)


def feature(values):
    if values is None:
        return tf.train.Feature()
    if isinstance(values, (list, tuple)) and values and isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    values = np.asarray(values)
    if values.dtype.kind in "iu":
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values.ravel()))
    return tf.train.Feature(float_list=tf.train.FloatList(value=values.ravel()))


def example(**features):
    return tf.train.Example(features=tf.train.Features(
        feature={key: feature(values) for key, values in features.items()})).SerializeToString()


def in_order(*features):
    """An example whose (key, values) come in this order: maps have none."""
    entries = b"".join(tf.train.Features(feature={key: feature(values)}).SerializeToString()
                       for key, values in features)
    assert len(entries) < 128
    return b"\x0a" + bytes([len(entries)]) + entries


def strings(*items):
    return np.array(items, object) if items else np.zeros((0,), object)


def parse(serialized, sparse=(), dense=(), ragged=(), names=(), text="", form=2):
    """sparse: (key, dtype); dense: (key, shape, default array); ragged: (key, dtype, splits dtype)."""
    def build():
        defaults = [feed(default) for _, _, default in dense]
        common = dict(serialized=tf1.placeholder_with_default(tf.constant(serialized, tf.string), None),
                      dense_defaults=defaults, sparse_types=[dtype for _, dtype in sparse],
                      dense_shapes=[shape for _, shape, _ in dense])
        if form == 1:
            out = R.ParseExample(names=feed(strings(*names)), sparse_keys=[feed(key) for key, _ in sparse],
                                 dense_keys=[feed(key) for key, _, _ in dense], **common)
        elif form == 2:
            out = R.ParseExampleV2(names=feed(strings(*names)), num_sparse=len(sparse),
                                   sparse_keys=feed(strings(*[key for key, _ in sparse])),
                                   dense_keys=feed(strings(*[key for key, _, _ in dense])),
                                   ragged_keys=feed(strings(*[key for key, _, _ in ragged])),
                                   ragged_value_types=[dtype for _, dtype, _ in ragged],
                                   ragged_split_types=[dtype for _, _, dtype in ragged], **common)
        else:
            out = R.ParseSingleExample(num_sparse=len(sparse), sparse_keys=[key for key, _ in sparse],
                                       dense_keys=[key for key, _, _ in dense], **common)
        return {}, [tf.nest.flatten(out)]
    op = {1: "ParseExample", 2: "ParseExampleV2", 3: "ParseSingleExample"}[form]
    CASES.append(Case(op, build=build, name=f"{op} {len(CASES)} {text}"))


def both(serialized, sparse=(), dense=(), ragged=(), names=(), text=""):
    parse(serialized, sparse, dense, ragged, names, text, 2)
    if not ragged:
        parse(serialized, sparse, dense, (), names, text, 1)
    if len(serialized) > 0:
        parse(serialized[0], sparse, dense, ragged, (), text + " scalar", 2)
        if not ragged:
            parse(serialized[0], sparse, dense, (), (), text + " single", 3)


FULL = example(i=[1, -2, 1 << 40], f=[.5, 1.5], s=[b"a", b"", b"long" * 20], m=np.arange(6) * 1.)
LESS = example(i=[7, 8, 9], s=[b"b"], unknown=[3], m=np.arange(12) * 1.)
NONE = example()
SPARSE = [("i", tf.int64), ("f", tf.float32), ("s", tf.string), ("absent", tf.int64)]
RAGGED = [("i", tf.int64, tf.int32), ("f", tf.float32, tf.int64), ("s", tf.string, tf.int32), ("no", tf.string, tf.int64)]

# Which one counts, and which one is wrong first, is a matter of the order in the message.
WRONG = [("i", [.5]), ("f", [b"x"]), ("s", [1])]
for order in (WRONG, WRONG[::-1], [("i", [1]), ("f", [2]), ("f", [.5])],
              [("i", [1]), ("f", [.5]), ("f", [2])], [("i", [1]), ("i", None), ("i", [2, 3])],
              [("i", [1]), ("i", [2, 3]), ("i", None)], [("f", []), ("i", []), ("s", [])]):
    both([in_order(*order)], sparse=SPARSE, text="in order")
    both([in_order(*order)], ragged=RAGGED, text="in order")
    both([in_order(*order)], dense=[("i", [1], np.zeros([1], np.int64))], text="in order")
no_float, no_int = np.zeros((0,), np.float32), np.zeros((0,), np.int64)

for batch, text in [([FULL, LESS, NONE], "all"), ([LESS], "one"), ([NONE, NONE], "nothing"), ([], "empty")]:
    both(batch, SPARSE, text=f"sparse {text}")
    both(batch, (), (), RAGGED, text=f"ragged {text}")
    both(batch, (), [("i", [3], np.int64([-1, -2, -3])), ("f", [2], np.float32([9, 8])),
                     ("s", [1], strings(b"default"))], text=f"dense with defaults {text}")
    both(batch, SPARSE[1:2], [("i", [3], np.int64([-1, -2, -3])), ("m", [None, 2, 3], np.float32([7]))],
         [("s", tf.string, tf.int32)], text=f"mixed {text}")
    both(batch, SPARSE[2:], [("i", [3], np.int64([-1, -2, -3])), ("m", [None, 2, 3], np.float32([7]))],
         text=f"sparse and dense {text}")
both([FULL, LESS], (), [("i", [3], no_int)], text="required")
both([FULL, NONE], (), [("i", [3], no_int)], names=[b"first", b"second"], text="required and absent")
both([NONE, FULL], (), [("i", [3], no_int)], text="required and absent at first")
both([FULL, LESS], (), [("i", [3, 1], no_int), ("f", [], np.float32(4))], text="shapes")
both([LESS, LESS], (), [("f", [], np.float32(4)), ("f", [1, 1], np.float32([[3]]))], text="scalar default")
both([FULL, LESS], (), [("i", [2], no_int)], text="wrong size")
both([LESS], (), [("m", [None, 5], np.float32([0]))], text="no multiple")
both([FULL], [("i", tf.float32)], text="wrong dtype")
both([FULL], (), [("f", [2], no_int)], text="wrong dense dtype")
both([FULL], (), (), [("s", tf.int64, tf.int64)], text="wrong ragged dtype")
both([FULL], (), [("f", [2], np.float32([1, 2, 3]))], text="default does not fit")
both([FULL], (), [("m", [None], np.float32([1, 2]))], text="padding of two")
both([FULL, LESS], SPARSE, names=[b"one"], text="too few names")
both([FULL, example(s=[b"abc", b"d"])[:-3]], SPARSE, text="cut off")
both([FULL + LESS], SPARSE, text="two in one")
parse([[FULL]], SPARSE, text="matrix", form=2)
parse([[FULL]], SPARSE, text="matrix", form=1)
parse(FULL, SPARSE, text="scalar", form=1)
parse([FULL], SPARSE, text="vector", form=3)

# Numbers that are not packed, features without a kind, an empty list of the wrong kind.
UNPACKED_INTS = b"\x0a\x0f\x0a\x0d\x0a\x01i\x12\x08\x1a\x06\x08\x01\x08\x02\x08\x03"
UNPACKED_FLOATS = b"\x0a\x13\x0a\x11\x0a\x01f\x12\x0c\x12\x0a\x0d\x00\x00\x80\x3f\x0d\x00\x00\x00\x40"
both([UNPACKED_INTS, FULL], [("i", tf.int64)], text="not packed")
both([UNPACKED_FLOATS, FULL], (), [("f", [2], no_float)], text="floats not packed")
both([example(i=None), FULL], [("s", tf.string)], [("i", [3], np.int64([4, 5, 6]))], text="no kind")
both([example(f=np.zeros((0,)))], [("f", tf.int64)], text="empty list of floats")
both([example(f=np.zeros((0,)))], [("f", tf.float32)], text="empty list")
LARGE = [example(i=rng.randint(-5, 1 << 50, rng.randint(0, 40)), s=[b"x" * rng.randint(40)] * rng.randint(1, 5),
                 f=rng.rand(7)) for _ in range(500)]
both(LARGE, SPARSE[3:], [("f", [7], no_float), ("i", [None], np.int64([-1]))], [("s", tf.string, tf.int64)], text="large")
both(LARGE, SPARSE, text="large sparse")


# As Python's functions call them.
def build_python():
    features = {"i": tf1.VarLenFeature(tf.int64), "f": tf1.FixedLenFeature([2], tf.float32, [0., 1.]),
                "s": tf1.FixedLenSequenceFeature([], tf.string, allow_missing=True)}
    serialized = tf.constant([example(i=[3, 1], m=[1., 2.], s=[b"a", b"b"]), example(f=[5., 6.])])
    return {}, [tf.nest.flatten(tf1.parse_example(serialized, features), expand_composites=True)]


CASES.append(Case("ParseExampleV2", build=build_python, name="ParseExampleV2 from Python"))
