"""Datasets of the records of CSV files, and of the names of files that match patterns."""
import gzip
import os
import zlib

import numpy as np
import tensorflow as tf
from fixtures import fresh, quiet, scratch_folder, start_and_next
from runner import Case, feed, make_op

tf1 = tf.compat.v1
FOLDER = scratch_folder("dataset-csv")
CASES = []


def write(content, pack=None):
    path = os.path.join(FOLDER, fresh("csv"))
    with open(path, "wb") as file:
        file.write(pack(content) if pack else content)
    return path


def walk(op, make, types, steps, text):
    types, shapes = list(types), [[]] * len(types)

    def build():
        start, element = start_and_next(make(), types, shapes)
        return {}, [[start]] + [element] * steps
    CASES.append(Case(op, build=build, name=f"{op} {text} {len(CASES)}"))


NAMES = ["CSVDataset", "CSVDatasetV2", "ExperimentalCSVDataset"]


def csv(op, contents, types, text="", steps=5, defaults=None, select=(), exclude=(), buffer=1 << 16,
        header=False, delimiter=",", quotes=True, missing="", compression="", pack=None, files=None):
    """The files `contents`, whose columns have no defaults unless told."""
    def build():
        paths = [write(one, pack) for one in contents] if files is None else files
        arguments = dict(
            filenames=feed(np.array(paths, object) if not isinstance(paths, str) else paths, tf.string),
            compression_type=feed(compression), buffer_size=feed(buffer, tf.int64),
            header=feed(header), field_delim=feed(delimiter), use_quote_delim=feed(quotes),
            na_value=feed(missing), select_cols=feed(np.array(select, np.int64)),
            record_defaults=[feed(d, t) for d, t in zip(defaults or [[]] * len(types), types)],
            output_shapes=[[]] * len(types))
        if op.endswith("V2"):
            arguments["exclude_cols"] = feed(np.array(exclude, np.int64))
        return make_op(op, **arguments)
    walk(op, build, types, steps, text)


I, L, F, X, S = tf.int32, tf.int64, tf.float32, tf.float64, tf.string
for op in NAMES:
    csv(op, [b"1,2,3.5,4.5,abc\n-6,7,8,9,\"q\"\n"], [I, L, F, X, S], "all types")
    csv(op, [b"1,2\n3,4\n", b"5,6", b"", b"7,8\n"], [I, S], "several files", 6)
    csv(op, [b"1,2\r\n3,4\r5,6\n"], [I, S], "line ends")
    csv(op, [b"1,\n,2\n"], [I, I], "missing")
    csv(op, [b"1,\n,2\n,\n"], [I, I], "missing with defaults", defaults=[[7], 8])
    csv(op, [b"a,h\n1,2\n", b"b,\"q\n\",c\n3,4\n"], [I, I], "header", header=True)
    csv(op, [b"", b"a\n1\n"], [I], "header of an empty file", header=True)
    csv(op, [b"\"a\n1\n", b"a\n1\n"], [S], "header with an open quote", header=True)
    for size in [1, 2, 3, 7]:
        csv(op, [b"12,\"a \"\"b\"\" c\",xyz\r\n345,\"\",\"q\"\n"], [I, S, S], f"buffer {size}", buffer=size,
            defaults=[[], [""], []])
    csv(op, [b"1,2,3\n4,5,6\n"], [I, I], "selected", select=[0, 2])
    csv(op, [b"1,2,3\n4\n7,8,9"], [I, I], "too few for the selected", select=[0, 2])
    csv(op, [b"1,2,3\n4,5\n6,7\n"], [I, I], "one too many")
    csv(op, [b"1\n4,5\n"], [I, I], "one too few")
    csv(op, [b"1,x\n4,5\n"], [I, I], "no number")
for text, content in {
        "quote in a plain field": b"1,a\"b\n2,c\n",
        "quote not doubled": b"1,\"a\"b\"\n2,c\n3,d\n",
        "open at the end": b"1,b\n2,\"c\n",
        "quoted number": b"\"1\",\"b\"\n\"-2\",\"\"\n",
        "delimiters inside": b"1,\"a,b\nc\r\nd\"\n2,\"\"\"\"\n",
        "quoted at the end of the file": b"1,\"b\"",
        "delimiter at the end of the file": b"1,",
        "empty lines": b"1,b\n\n2,c\n",
        "only a line end": b"\n",
        "white space": b" 1 , b \n2\t,\tc\n",
        "zero bytes": b"1,a\0b\n\0,c\n2,d\n",
        "quote behind white space": b"1, \"b\"\n2,c\n",
        "a \"\\r\" at the end": b"1,b\r",
        "a quoted field before \"\\r\\n\"": b"1,\"b\"\r\n2,\"c\"\r3,\"d\"\r\n",
}.items():
    for quotes in [True, False]:
        csv("CSVDatasetV2", [content], [I, S], f"{text} {quotes}", quotes=quotes, defaults=[[], ["d"]])
        csv("CSVDatasetV2", [content], [I], f"{text} {quotes} one column", quotes=quotes, select=[0])
for types, values in {
        (I, L): [b"2147483647,9223372036854775807", b"2147483648,1", b"1,9223372036854775808", b"1,-0",
                 b"1.0,1", b"0x10,1", b"1e3,1", b"007,-9"],
        (F, X): [b"1e3,-1.5e-300", b"inf,nan", b"-inf,inf", b"1e50,1e400", b".5,5.",
                 b"1 2,1", b"1,1f", b"-0,1e-400", b"3.4028236e38,0.1"]}.items():
    for value in values:
        csv("CSVDatasetV2", [value + b"\n1,1\n"], types, f"number {value}", 3)
for delimiter in ["\t", ";", "\"", "\n", " ", ",,", ""]:
    csv("CSVDatasetV2", [b"1\t2\n1;2\n1\"2\"\n1 2\n"], [S, S], f"delimiter {delimiter!r}",
        delimiter=delimiter, defaults=[["-"], ["-"]])
csv("CSVDatasetV2", [b"NA,NA\n1,NA\nNAN,na\n"], [F, S], "missing text", missing="NA", defaults=[[0.5], ["-"]])
csv("CSVDatasetV2", [b"NA,1\n1,NA\n"], [F, S], "missing text without defaults", missing="NA")
for exclude in [[0], [1], [2], [0, 2], [5], [1, 0], [-1, 0], [1, 1]]:
    csv("CSVDatasetV2", [b"1,2,3\n4,5,6\n7,8\n"], [I, I], f"excluded {exclude}", exclude=exclude)
for select in [[0], [1, 0], [-1, 0], [1, 1], [0, 9]]:
    csv("CSVDatasetV2", [b"1,2,3\n4,5,6\n"], [I, I], f"selected {select}", select=select)
csv("CSVDatasetV2", [b"1,2,3\n"], [I, I], "selected and excluded", select=[0, 1], exclude=[2])
csv("CSVDatasetV2", [b"1,2,3\n"], [I, I], "columns of rank 2", select=[[0, 1]])
csv("CSVDatasetV2", [b"1,2,3\n"], [I, I], "excluded of rank 2", exclude=[[0]])
for buffer in [0, -1]:
    csv("CSVDatasetV2", [b"1\n"], [I], f"buffer {buffer}", buffer=buffer)
csv("CSVDatasetV2", [b"1\n"], [I], "two defaults", defaults=[[1, 2]])
csv("CSVDatasetV2", [b"1\n"], [I], "default of rank 2", defaults=[[[1]]])
csv("CSVDatasetV2", [], [I], "file that is not there", files=[os.path.join(FOLDER, "nowhere")])
csv("CSVDatasetV2", [], [I], "no files", files=[])
csv("CSVDatasetV2", [], [I], "files of rank 2", files=[["a"]])
csv("CSVDatasetV2", [b"1,2\n3,4\n" * 3], [I, I], "zlib", 7, compression="ZLIB", pack=zlib.compress)
csv("CSVDatasetV2", [b"h,i\n1,2\n3,4\n"], [I, I], "gzip", compression="GZIP", pack=gzip.compress, header=True)
csv("CSVDatasetV2", [b"1,2\n"], [I, I], "not packed", 2, compression="GZIP")
csv("CSVDatasetV2", [b"1,2\n"], [I, I], "unknown packing", 2, compression="LZ")
LONG = b"".join(b"%d,\"%s\",%s\n" % (i, b"x\"\"y" * (i % 50), b"z" * (i * 31 % 777)) for i in range(400))
csv("CSVDatasetV2", [LONG], [I, S, S], "long", 402, defaults=[[], [""], [""]])
csv("CSVDatasetV2", [b"1,\"" + b"a\nb" * 50000 + b"\"\n2,b\n"], [I, S], "larger than a window")


def through(op, make, steps, name):
    def build():
        iterator = tf1.data.make_initializable_iterator(make().with_options(quiet()))
        element = tf.nest.flatten(iterator.get_next(), expand_composites=True)
        return {}, [[iterator.initializer]] + [element] * steps
    CASES.append(Case(op, build=build, name=f"{op} of tf.data {name}"))


through("CSVDatasetV2", lambda: tf1.data.experimental.CsvDataset(
    write(b"a,b,c\n1,x,2.5\n3,,4\n"), [tf.int32, tf.constant(["none"]), tf.float32], header=True), 3, "CsvDataset")
through("CSVDatasetV2", lambda: tf1.data.experimental.make_csv_dataset(
    write(b"a,b,c\n" + b"".join(b"%d,x%d,%f\n" % (i, i, i / 3) for i in range(10))), 4, num_epochs=1,
    label_name="c", shuffle=False), 4, "make_csv_dataset")


# ---- Names of files ----
for name in ["a.txt", "b.txt", "c.py", "d/a.txt", "d/e/a.txt", "d/e/f.py", "g/a.txt", "da.txt", "d.txt", "h/i/j/k"]:
    path = os.path.join(FOLDER, "tree", name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").close()
os.makedirs(os.path.join(FOLDER, "tree", "empty"))
os.symlink("nowhere", os.path.join(FOLDER, "tree", "broken.txt"))


def matching(op, patterns, steps):
    full = [os.path.join(FOLDER, "tree", pattern) for pattern in patterns]
    walk(op, lambda: make_op(op, patterns=feed(np.array(full, object), tf.string)), [S], steps, f"{patterns}")


for op in ["MatchingFilesDataset", "ExperimentalMatchingFilesDataset"]:
    for patterns in [["*.txt"], ["*"], ["*/*"], ["*/*.txt"], ["d/*", "*.py"], ["?.txt"], ["[ab].txt"], ["d*"],
                     ["d*/*"], ["a.txt"], ["*.none"], ["*.none", "*.py"], ["empty/*"], ["nowhere/*"],
                     ["*.py", "nowhere/*"], ["nowhere/*", "*.py"], ["a.txt", "a.txt"], ["*/*/*"], ["d/"],
                     ["*/e/*.py"], ["[!a-c]*"], ["**/a.txt"], ["{a,b}.txt"], ["d\\*"], ["", "*.py"]]:
        matching(op, patterns, 9)
    walk(op, lambda op=op: make_op(op, patterns=feed(os.path.join(FOLDER, "tree", "?.txt"))), [S], 3, "scalar")
through("MatchingFilesDataset", lambda: tf1.data.Dataset.list_files(
    os.path.join(FOLDER, "tree", "*.txt"), shuffle=False), 5, "list_files")
