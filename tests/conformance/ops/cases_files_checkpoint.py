"""Checkpoints of both versions: what is saved is restored, whole and in slices, good and bad.

The folder is made anew for each process; both sides write to it and read back, and some files were
written by genuine TensorFlow before. test_checkpoint_files.py compares the files themselves.
"""
import os

import numpy as np
import tensorflow as tf
from fixtures import scratch_folder
from runner import Case, bfloat16

R = tf.raw_ops
tf1 = tf.compat.v1
FOLDER = scratch_folder("checkpoint")
TYPES = [np.float32, np.float64, np.int32, np.uint8, np.int16, np.int8, np.complex64, np.int64,
         np.bool_, bfloat16, np.uint16, np.complex128, np.float16, np.uint32, np.uint64]
MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)
STRINGS = np.array([b"abc", b"", b"z" * 300, b"a\0b\xff"], object)


def path(name):
    return os.path.join(FOLDER, name)


def feed(value):
    value = np.asarray(value)
    return tf1.placeholder_with_default(
        tf.constant(value, tf.string if value.dtype.kind in "OSU" else None), shape=None)


def save(prefix, names, specs, tensors):
    return R.SaveV2(prefix=feed(prefix), tensor_names=feed(names), shape_and_slices=feed(specs),
                    tensors=[feed(t) for t in tensors])


def restore(prefix, names, specs, dtypes):
    return R.RestoreV2(prefix=feed(prefix), tensor_names=feed(names), shape_and_slices=feed(specs),
                       dtypes=dtypes)


def genuine(builder):
    """Runs a graph of genuine TensorFlow now."""
    with tf.Graph().as_default(), tf1.Session() as session:
        session.run(builder())


def make_files():
    genuine(lambda: save(path("plain"), ["x", "y"], ["", ""], [MATRIX, STRINGS]))
    genuine(lambda: save(path("rows"), ["x"], ["4 3 0,2:-"], [MATRIX]))
    genuine(lambda: R.Save(filename=feed(path("v1")), tensor_names=feed(["x", "y"]),
                           data=[feed(MATRIX), feed(STRINGS)]))
    genuine(lambda: R.SaveSlices(filename=feed(path("v1rows")), tensor_names=feed(["x"]),
                                 shapes_and_slices=feed(["4 3 0,2:-"]), data=[feed(MATRIX)]))
    genuine(lambda: R.Save(filename=feed(path("v1long")), tensor_names=feed(["x"]),
                           data=[feed(np.zeros([1000, 100], np.float32))]))
    for part in range(3):
        genuine(lambda p=part: save(path(f"parts/{p}"), ["p", f"own{p}"],
                                    [f"6 3 {2 * p},2:-", ""], [MATRIX + p, np.arange(p + 1)]))
    genuine(lambda: R.MergeV2Checkpoints(checkpoint_prefixes=feed([path(f"parts/{p}")
                                                                   for p in range(3)]),
                                         destination_prefix=feed(path("merged"))))
    index = open(path("plain.index"), "rb").read()
    data = open(path("plain.data-00000-of-00001"), "rb").read()
    for name, new_index, new_data in [
            ("badindex", index[:20] + bytes([index[20] ^ 1]) + index[21:], data),
            ("shortindex", index[:60], data), ("noindex", b"", data),
            ("baddata", index, data[:3] + bytes([data[3] ^ 4]) + data[4:]),
            ("shortdata", index, data[:10]), ("nodata", index, None)]:
        open(path(name + ".index"), "wb").write(new_index)
        if new_data is not None:
            open(path(name + ".data-00000-of-00001"), "wb").write(new_data)
    open(path("garbage"), "wb").write(b"hello" * 100)


make_files()
CASES = []


def case(op, build, name=""):
    CASES.append(Case(op, build=lambda: ({}, build()), name=f"{op} {name}"))


def restored(prefix, names, specs, dtypes, name):
    case("RestoreV2", lambda: list(restore(path(prefix), names, specs, dtypes)), name)


def saved(names, specs, tensors, name, prefix="saved"):
    def build():
        dtypes = [tf.as_dtype(np.asarray(t).dtype) if np.asarray(t).dtype.kind not in "OSU"
                  else tf.string for t in tensors]
        return [[save(path(prefix), names, specs, tensors)],
                list(restore(path(prefix), names[:len(tensors)], specs[:len(tensors)], dtypes))]
    case("SaveV2", build, name)


# ---- V2 ----
for dtype in TYPES:
    saved(["t"], [""], [np.arange(10).astype(dtype)], f"{np.dtype(dtype).name}")
    saved(["t"], ["8 5 2,2:-"], [np.arange(10).reshape(2, 5).astype(dtype)],
          f"slice {np.dtype(dtype).name}")
saved(["s", "e", "f", "g"], [""] * 4,
      [STRINGS, np.zeros([0, 3], np.float32), np.float32(3), np.zeros([0], object)], "mixed")
saved([f"layer{i // 7}/part{i}" for i in range(400)], [""] * 400,
      [np.float32(i) for i in range(400)], "many")
saved(["x"], [""], [np.arange(3000000, dtype=np.int64)], "large")
saved(["x", "y", "z"], [""] * 3, [np.arange(1300001, dtype=np.int32), np.ones([7], np.int8),
                                  np.arange(1000003, dtype=np.float64)], "large unaligned")
saved(["x", "x"], ["4 3 0,2:-", "4 3 2,2:-"], [MATRIX, MATRIX + 6], "two slices")
saved(["x", "x"], ["", ""], [MATRIX, MATRIX], "duplicate")
saved(["x"], [""], [MATRIX], "no folder", "no/such/folder")
saved(["x"], [""], [MATRIX], "new folder", "made/x")
for spec in ["4 3", "4 3 0,3:-", "4 3 3,2:-", "x 3 0,2:-", "4 3 0,2", "4 3 0:2:-", " ",
             "4 3 0,2:-:-", "4 3 0,0:-", "4 3 -1,2:-", "4 3 4,2:-", "4 3 0,2,1:-", "2 3 -:-",
             "2 3 0,2:0,3"]:
    saved(["x"], [spec], [MATRIX], f"spec '{spec}'")
case("SaveV2", lambda: [save([path("a"), path("b")], ["x"], [""], [MATRIX])], "two prefixes")
case("SaveV2", lambda: [save(path("a"), ["x", "y"], ["", ""], [MATRIX])], "two names")
case("SaveV2", lambda: [save(path("a"), [["x"]], [[""]], [MATRIX])], "matrix of names")
case("SaveV2", lambda: [save(path("a"), ["x"], ["", ""], [MATRIX])], "two specs")

restored("plain", ["x", "y"], ["", ""], [tf.float32, tf.string], "genuine")
restored("plain", ["y", "x"], ["", ""], [tf.string, tf.float32], "genuine, other order")
restored("plain", ["x"], ["2 3 1,1:-"], [tf.float32], "row")
restored("plain", ["x"], ["2 3 0,1:1,2"], [tf.float32], "part of a row")
restored("plain", ["x"], ["2 4 1,1:-"], [tf.float32], "wrong shape")
restored("plain", ["q"], [""], [tf.float32], "no such name")
restored("nowhere", ["q"], [""], [tf.float32], "no file")
restored("plain", ["x", "y"], ["", ""], [tf.int32, tf.float32], "wrong dtypes")
restored("plain", ["y"], ["3 0,2"], [tf.string], "slice of strings")
restored("rows", ["x"], ["4 3 0,2:-"], [tf.float32], "stored slice")
restored("rows", ["x"], [""], [tf.float32], "not covered")
restored("rows", ["x"], ["4 3 1,1:1,2"], [tf.float32], "within a slice")
restored("merged", ["p", "own2", "own0"], ["", "", ""], [tf.float32, tf.int64, tf.int64], "merged")
restored("merged", ["p"], ["6 3 1,4:1,2"], [tf.float32], "across slices")
for name in ["badindex", "shortindex", "noindex", "baddata", "shortdata", "nodata", "garbage"]:
    restored(name, ["x"], [""], [tf.float32], name)
restored("shortdata", ["y"], [""], [tf.string], "short strings")
restored("v1", ["x", "y"], ["", ""], [tf.float32, tf.string], "version 1")
restored("v1rows", ["x"], ["4 3 1,1:-"], [tf.float32], "version 1 row")


# ---- Merging ----
def merge_steps(parts):
    def build():
        steps = [[save(path(f"m/{p}"), ["p", f"own{p}"], [f"{2 * parts} 3 {2 * p},2:-", ""],
                       [MATRIX + p, np.arange(p + 1)])] for p in range(parts)]
        steps.append([R.MergeV2Checkpoints(
            checkpoint_prefixes=feed([path(f"m/{p}") for p in range(parts)]),
            destination_prefix=feed(path("m-all")))])
        steps.append(list(restore(path("m-all"), ["p", f"own{parts - 1}"], ["", ""],
                                  [tf.float32, tf.int64])))
        return steps
    return build


for parts in (1, 2, 5):
    case("MergeV2Checkpoints", merge_steps(parts), f"{parts}")
for name, prefixes in [("twice", ["plain", "plain"]), ("absent", ["nowhere"]), ("none", [])]:
    case("MergeV2Checkpoints", lambda p=prefixes: [R.MergeV2Checkpoints(
        checkpoint_prefixes=feed(np.array([path(n) for n in p], object)),
        destination_prefix=feed(path("mm")))], name)


# ---- V1 ----
def legacy_steps(names, tensors, specs=None):
    def build():
        if specs is None:
            first = R.Save(filename=feed(path("v1saved")), tensor_names=feed(names),
                           data=[feed(t) for t in tensors])
        else:
            first = R.SaveSlices(filename=feed(path("v1saved")), tensor_names=feed(names),
                                 shapes_and_slices=feed(specs), data=[feed(t) for t in tensors])
        dtypes = [tf.string if np.asarray(t).dtype.kind in "OSU" else np.asarray(t).dtype
                  for t in tensors]
        return [[first], [R.RestoreSlice(file_pattern=feed(path("v1saved")), tensor_name=feed(n),
                                         shape_and_slice=feed(s), dt=d)
                          for n, s, d in zip(names, specs or [""] * len(names), dtypes)]]
    return build


for dtype in TYPES:
    case("Save", legacy_steps(["t"], [np.arange(10).astype(dtype)]), np.dtype(dtype).name)
case("Save", legacy_steps(["a", "s", "e"], [-np.arange(5), STRINGS, np.zeros([0], np.int32)]),
     "mixed")
case("SaveSlices", legacy_steps(["x", "y"], [MATRIX, STRINGS], ["4 3 0,2:-", ""]), "slices")
case("SaveSlices", legacy_steps(["x"], [MATRIX], ["4 3 0,3:-"]), "wrong slice")
case("Save", lambda: [R.Save(filename=feed(path("v")), tensor_names=feed(["x", "y"]),
                             data=[feed(MATRIX)])], "too many names")
for name, file, tensor, dtype in [
        ("plain", "v1", "x", tf.float32), ("strings", "v1", "y", tf.string),
        ("compressed", "v1long", "x", tf.float32), ("wrong dtype", "v1", "x", tf.int32),
        ("no such name", "v1", "q", tf.float32), ("no file", "nowhere", "x", tf.float32),
        ("pattern", "v1?ong", "x", tf.float32), ("not covered", "v1rows", "x", tf.float32)]:
    case("Restore", lambda f=file, t=tensor, d=dtype: [R.Restore(
        file_pattern=feed(path(f)), tensor_name=feed(t), dt=d)], name)
for spec in ["4 3 1,1:-", "4 3 0,2:1,1", "", "4 4 0,1:-"]:
    case("RestoreSlice", lambda s=spec: [R.RestoreSlice(
        file_pattern=feed(path("v1rows")), tensor_name=feed("x"), shape_and_slice=feed(s),
        dt=tf.float32)], f"'{spec}'")

# ---- Names ----
CASES.append(Case("ShardedFilename", [b"/m/x", np.int32(3), np.int32(10)]))
CASES.append(Case("ShardedFilename", [b"", np.int32(123456), np.int32(1234567)]))
CASES.append(Case("ShardedFilename", [np.array([b"/m/x", b"y"], object), np.int32(3), np.int32(10)]))
CASES.append(Case("ShardedFilespec", [b"/m/x", np.int32(10)]))
