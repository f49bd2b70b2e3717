"""Cases of sets, edit distances, feature crosses and serialized sparse tensors."""
import numpy as np
import tensorflow as tf

from runner import Case
from cases_math import SIGNED
from cases_sparse import ALL, BAD, DIMS, L, MIXED, ROWS, ix, scattered, shape, some

CASES = []
MEMBERS = SIGNED + [np.uint8, np.uint16, np.bytes_]


def add(op, inputs, attrs=None, **more):
    CASES.append(Case(op, inputs, attrs, **more))


def members(dtype, rows):
    """Small numbers of the dtype; as strings, texts that sort unlike the numbers."""
    array = np.array(rows)
    if dtype is np.bytes_:
        return np.array([f"{v}" for v in array.flat], object).reshape(array.shape)
    return array.astype(dtype)


# ---- Sets ----
LEFT = [[[1, 2, 2, 9]], [[5, 5, 5, 5]], [[3, 10, 1, 0]]]
RIGHT = [[[9, 2]], [[4, 6]], [[0, 10]]]
S1 = ix([[0, 0, 0], [0, 0, 2], [2, 0, 1], [2, 0, 3], [2, 0, 4]], 3)
S2 = ix([[0, 0, 1], [1, 0, 0], [1, 0, 1], [2, 0, 0], [2, 0, 4]], 3)
V1, V2 = [7, 3, 2, 10, 2], [3, 5, 5, 10, 1]
THREE = shape(3, 1, 5)
for operation in ("a-b", "b-a", "intersection", "union", "UNION"):
    attrs = {"set_operation": operation}
    for dtype in MEMBERS if operation in ("union", "a-b") else [np.int32, np.bytes_]:
        add("DenseToDenseSetOperation", [members(dtype, LEFT), members(dtype, RIGHT)], attrs)
        add("DenseToSparseSetOperation",
            [members(dtype, LEFT), S2, members(dtype, V2), THREE], attrs)
        add("SparseToSparseSetOperation",
            [S1, members(dtype, V1), THREE, S2, members(dtype, V2), THREE], attrs)
    add("DenseToDenseSetOperation", [np.zeros((2, 0), np.int32), np.zeros((2, 3), np.int32)], attrs,
        name=f"DenseToDenseSetOperation(empty set,{operation})")
    add("DenseToDenseSetOperation", [np.zeros((0, 2), np.int32), np.zeros((0, 3), np.int32)], attrs,
        name=f"DenseToDenseSetOperation(no sets,{operation})")
    add("SparseToSparseSetOperation",
        [ix([], 3), np.zeros(0, np.int32), THREE, S2, members(np.int32, V2), THREE], attrs,
        name=f"SparseToSparseSetOperation(empty,{operation})")
union = {"set_operation": "union"}
add("DenseToDenseSetOperation", [np.zeros((2, 3), np.int32), np.zeros((3, 3), np.int32)], union,
    name="DenseToDenseSetOperation(groups)")
add("DenseToDenseSetOperation", [np.zeros(3, np.int32), np.zeros(3, np.int32)], union,
    name="DenseToDenseSetOperation(vectors)")
add("DenseToSparseSetOperation", [np.zeros((2, 3), np.int32), S2, members(np.int32, V2), THREE],
    union, name="DenseToSparseSetOperation(groups)")
add("SparseToSparseSetOperation", [S1[::-1], members(np.int32, V1), THREE, S2,
                                   members(np.int32, V2), THREE], union,
    name="SparseToSparseSetOperation(not in order)")
add("SparseToSparseSetOperation", [S1, members(np.int32, V1), shape(3, 1, 4), S2,
                                   members(np.int32, V2), THREE], union,
    name="SparseToSparseSetOperation(out of bounds)")
for dtype in MEMBERS:
    add("SetSize", [S1, members(dtype, V1), THREE])
add("SetSize", [ROWS, members(np.int32, [1, 1, 2, 3, 4]), DIMS])
add("SetSize", [ix([]), np.zeros(0, np.int32), DIMS], name="SetSize(empty)")
add("SetSize", [MIXED, members(np.int32, V1), DIMS], name="SetSize(not in order)")
add("SetSize", [ix([[1]], 1), np.zeros(1, np.int32), shape(3)], name="SetSize(vector)")

# ---- EditDistance ----
H = ix([[0, 0], [0, 1], [0, 2], [1, 0], [3, 0], [3, 1]])
T = ix([[0, 0], [0, 1], [2, 0], [3, 0], [3, 1], [3, 2]])
HV, TV = [1, 2, 3, 4, 1, 1], [1, 3, 9, 1, 2, 1]
for dtype in ALL:
    if dtype is np.bool_:
        pair = [np.array(HV) > 1, np.array(TV) > 1]
    else:
        pair = [members(dtype, HV), members(dtype, TV)]
    for normalize in (True, False):
        add("EditDistance", [H, pair[0], shape(4, 3), T, pair[1], shape(4, 4)],
            {"normalize": normalize})
left, right = scattered((3, 4, 9), 40), scattered((3, 4, 9), 45)
add("EditDistance", [left, np.arange(40) % 3, shape(3, 4, 9), right, np.arange(45) % 3,
                     shape(3, 4, 9)])
x = np.array(HV, np.float32)
add("EditDistance", [H, np.array([np.nan] * 6), shape(4, 3), H, np.array([np.nan] * 6), shape(4, 3)],
    name="EditDistance(nan)")
for label, inputs in {"vectors": [ix([[0]], 1), x[:1], shape(3), ix([[0]], 1), x[:1], shape(3)],
                      "ranks": [H, x, shape(4, 3), ix([[0, 0, 0]], 3), x[:1], shape(4, 3, 1)],
                      "no elements": [ix([]), x[:0], shape(0, 3), ix([]), x[:0], shape(0, 3)]}.items():
    add("EditDistance", inputs, name=f"EditDistance({label})")
for label, *inputs in BAD:
    add("EditDistance", inputs + [ROWS, np.ones(5, np.float32), DIMS], name=f"EditDistance({label})")

# ---- SparseCross ----
A = ix([[0, 0], [0, 1], [1, 0], [3, 0]])
B = ix([[0, 0], [1, 0], [1, 1], [2, 0]])
TEXT_A, TEXT_B = (np.array(t, object) for t in (["ab", "c", "long text " * 5, ""], ["x", "y", "z", "w"]))
NUMBER_A, NUMBER_B = np.array([1, -2, 3, 1 << 60], L), np.array([5, 6, 7, 8], L)
DENSE_TEXT = np.array([["p"], ["q"], ["r"], ["s"]], object)
DENSE_NUMBER = np.array([[1, 2], [3, 4], [5, 6], [-7, 8]], L)
FOUR = shape(4, 2)


def types(arrays):
    return [tf.string if a.dtype == object else tf.int64 for a in arrays]


def cross(op, sparse, dense, extra=(), attrs=None, **more):
    """`sparse`: (indices, values, shape) each."""
    def build():
        feeds = {}

        def feed(value):
            value = np.asarray(value)
            tensor = tf.compat.v1.placeholder(
                tf.string if value.dtype == object else tf.as_dtype(value.dtype))
            feeds[tensor] = value
            return tensor
        inputs = {"indices": [feed(s[0]) for s in sparse], "values": [feed(s[1]) for s in sparse],
                  "shapes": [feed(s[2]) for s in sparse], "dense_inputs": [feed(d) for d in dense]}
        inputs.update({name: feed(value) for name, value in extra})
        return feeds, list(getattr(tf.raw_ops, op)(**inputs, **(attrs or {})))
    CASES.append(Case(op, build=build, **more))


MIXES = {
    "texts": ([(A, TEXT_A, FOUR), (B, TEXT_B, FOUR)], []),
    "numbers": ([(A, NUMBER_A, FOUR), (B, NUMBER_B, FOUR)], []),
    "mixed": ([(A, NUMBER_A, FOUR), (B, TEXT_B, FOUR)], [DENSE_TEXT, DENSE_NUMBER]),
    "dense": ([], [DENSE_TEXT, DENSE_NUMBER]),
    "one": ([(A, TEXT_A, FOUR)], []),
    "dense first wide": ([(B, TEXT_B, FOUR)], [DENSE_NUMBER]),
    "empty column": ([(A, TEXT_A, FOUR), (ix([]), TEXT_B[:0], FOUR)], []),
    "no width": ([(A, TEXT_A, FOUR)], [np.zeros((4, 0), L)]),
}
for label, (sparse, dense) in MIXES.items():
    for hashed, buckets in [(True, 0), (True, 100), (False, 0)]:
        texts = all(t == tf.string for t in types([s[1] for s in sparse] + dense))
        cross("SparseCross", sparse, dense, attrs={
            "hashed_output": hashed, "num_buckets": buckets, "hash_key": 956888297470,
            "out_type": tf.int64 if hashed else tf.string,
            "internal_type": tf.string if texts else tf.int64},
            name=f"SparseCross({label},{hashed},{buckets})")
    cross("SparseCrossV2", sparse, dense, [("sep", np.array("-&-", object))],
          name=f"SparseCrossV2({label})")
    for strong in (False, True):
        for buckets in (0, 1000):
            if strong and any(d.dtype == L for d in dense):
                continue  # TensorFlow takes the numbers for strings and crashes
            cross("SparseCrossHashed", sparse, dense,
                  [("num_buckets", np.array(buckets, L)), ("strong_hash", np.array(strong)),
                   ("salt", np.array([137, 173], L))],
                  name=f"SparseCrossHashed({label},{strong},{buckets})")
for label, sparse, dense in [
        ("batch", [(A, TEXT_A, FOUR), (B, TEXT_B, shape(5, 2))], []),
        ("columns", [(ix([[0, 0, 0]], 3), TEXT_A[:1], FOUR)], []),
        ("values", [(A, TEXT_A[:2], FOUR)], []),
        ("shape", [(A, TEXT_A, shape(4, 2, 2))], []),
        ("dense batch", [(A, TEXT_A, FOUR)], [DENSE_TEXT[:3]]),
        ("dense vector", [(A, TEXT_A, FOUR)], [DENSE_TEXT[:, 0]])]:
    cross("SparseCrossV2", sparse, dense, [("sep", np.array("_", object))],
          name=f"SparseCrossV2({label})")

# ---- Serialized ----
for dtype in ALL[:-1]:  # strings have two forms on the wire; they are compared after reading back
    add("SerializeSparse", [ROWS, some(dtype, 5), DIMS])
    add("SerializeManySparse", [ROWS, some(dtype, 5), DIMS])
add("SerializeSparse", [ix([]), np.zeros(0, np.float32), DIMS], name="SerializeSparse(empty)")
add("SerializeManySparse", [scattered((3, 4, 5), 20), some(np.float32, 20), shape(3, 4, 5)])
add("SerializeManySparse", [MIXED, some(np.float32, 5), DIMS], name="SerializeManySparse(order)")
add("SerializeManySparse", [ROWS, some(np.float32, 5), shape(3, 5)], name="SerializeManySparse(rows)")
add("SerializeManySparse", [ix([[1]], 1), some(np.float32, 1), shape(3)],
    name="SerializeManySparse(vector)")
for label, *inputs in BAD[:3]:
    add("SerializeSparse", inputs, name=f"SerializeSparse({label})")
for label, *inputs in BAD:
    add("SerializeManySparse", inputs, name=f"SerializeManySparse({label})")


def round_trip(name, many, out_type, stack, dtype=tf.float32, read=None):
    """Serializes and reads back what `stack` makes of the serialized form."""
    def build():
        values = tf.compat.v1.placeholder(dtype, [None])
        indices = tf.compat.v1.placeholder(tf.int64)
        op = tf.raw_ops.SerializeManySparse if many else tf.raw_ops.SerializeSparse
        packed = stack(op(sparse_indices=indices, sparse_values=values, sparse_shape=DIMS,
                          out_type=out_type))
        if read == "many":
            back = tf.raw_ops.DeserializeManySparse(serialized_sparse=packed, dtype=dtype)
        else:
            back = tf.raw_ops.DeserializeSparse(serialized_sparse=packed, dtype=read or dtype)
        return {values: some(dtype.as_numpy_dtype if dtype != tf.string else np.bytes_, 5),
                indices: ROWS}, list(back)
    CASES.append(Case("DeserializeManySparse" if read == "many" else "DeserializeSparse",
                      build=build, name=name))


for kind in (tf.string, tf.variant):
    for dtype in (tf.float32, tf.string, tf.int64, tf.bool):
        round_trip(f"DeserializeSparse({kind.name},{dtype.name})", False, kind, lambda t: t, dtype)
        round_trip(f"DeserializeSparse(rows,{kind.name},{dtype.name})", True, kind, lambda t: t, dtype)
    round_trip(f"DeserializeSparse(one row,{kind.name})", False, kind, lambda t: tf.stack([t]))
    round_trip(f"DeserializeSparse(matrix,{kind.name})", True, kind,
               lambda t: tf.reshape(t, [2, 2, 3]))
    round_trip(f"DeserializeSparse(dtype,{kind.name})", False, kind, lambda t: t, read=tf.int32)
    round_trip(f"DeserializeSparse(mixed up,{kind.name})", False, kind, lambda t: t[::-1])
round_trip("DeserializeManySparse(rows)", True, tf.string, lambda t: t, read="many")
add("DeserializeManySparse", [np.array(["a", "b", "c"], object)], {"dtype": tf.float32},
    name="DeserializeManySparse(vector)")
add("DeserializeSparse", [np.array(["a", "b"], object)], {"dtype": tf.float32},
    name="DeserializeSparse(width)")
add("DeserializeSparse", [np.array(["a", "b", "c"], object)], {"dtype": tf.float32},
    name="DeserializeSparse(garbage)")
add("DeserializeSparse", [np.zeros((0, 3), object)], {"dtype": tf.float32},
    name="DeserializeSparse(nothing)")
