"""RecordInput: the order where TensorFlow's does not depend on its threads (or on that of names in a
folder, which a pattern of several matches does), all records of an epoch where it does, and what is
wrong with files and attributes."""
import os

import numpy as np
import tensorflow as tf
from fixtures import scratch_folder
from runner import Case, tf_version

R = tf.raw_ops
CASES = []
FOLDER = scratch_folder("record-input")


def path(name):
    return os.path.join(FOLDER, name)


def write(name, count, compression=""):
    with tf.io.TFRecordWriter(path(name), compression) as writer:
        for i in range(count):
            writer.write(b"%s.%d" % (name.encode(), i))


COUNTS = {"a0": 4, "a1": 0, "a2": 17, "a3": 1, "a4": 33, "a5": 16, "b7": 3, "b1": 2}
for name, count in COUNTS.items():
    write(name, count)
for compression in ["ZLIB", "GZIP"]:
    write(compression, 20, compression)
with open(path("damaged"), "wb") as file:
    file.write(bytes(range(80)))
with open(path("a2"), "rb") as whole, open(path("cut"), "wb") as file:
    file.write(whole.read()[:-3])
os.mkdir(path("folder"))
for name in ["part1", "part2"]:
    os.mkdir(path(name))
    write(name + "/x", 5)
A = ",".join(name for name in COUNTS if name[0] == "a")
ALL = sum(count for name, count in COUNTS.items() if name[0] == "a")


def case(text, pattern, runs=1, check=None, seen=None, **attributes):
    """One shard and a large buffer unless told otherwise: the first epoch has one order."""
    attributes = {"file_parallelism": 1, "file_buffer_size": 10000, **attributes}
    pattern = ",".join(path(part) for part in pattern.split(","))

    def build():
        return {}, [[R.RecordInput(file_pattern=pattern, **attributes)]] * runs
    CASES.append(Case("RecordInput", build=build, name=f"RecordInput {text}", check=check, seen=seen))


def sort(array):
    return np.sort(array.astype("S"))


for seed in [301, 0, 7, -3, 2**62 + 5]:
    case(f"seed {seed}", A, file_random_seed=seed, batch_size=ALL)
for ratio in [0.0, 0.2, 0.5, 0.99, 1.0, -0.5]:
    case(f"shift {ratio}", A, file_shuffle_shift_ratio=ratio, batch_size=ALL)
case("part of an epoch", A, runs=4, batch_size=ALL // 4)
case("several patterns", "b7,b[1],a?,a[02],none*", seen=sort, batch_size=5 + ALL + 21)
case("one match each", "b[7],?2,b1*,none*,b7", batch_size=25)
case("one file twice", "b1,b1", batch_size=4)
case("files of several folders", "part?/*", seen=sort, batch_size=10)
case("no batch", "a*", batch_size=0)
case("a negative buffer is endless", A, file_buffer_size=-5, batch_size=ALL)
for compression in ["ZLIB", "GZIP"]:
    case(compression, compression, compression_type=compression, batch_size=20)
    case(compression + " untold", compression, batch_size=20)
    case(compression + " wrongly told", "a2", compression_type=compression, batch_size=20)
case("unknown compression", "a2", compression_type="QQQ", batch_size=17)

# Whole epochs, in any order; the batch ends where they do.
for shards in [1, 2, 3, 16]:
    case(f"epochs of {shards} shards", "a*", runs=3, seen=sort, file_parallelism=shards,
         batch_size=ALL)
    for size in [1, 4, 30]:
        case(f"epochs of {shards} shards, buffer {size}", "a*", runs=3, seen=sort,
             file_parallelism=shards, file_buffer_size=size, batch_size=ALL)

for batch in [0, 1]:
    case(f"no file, batch {batch}", "none*", runs=2, batch_size=batch)
case("a file that is not there is no file", "b1,none", batch_size=2)
case("damaged", "damaged", runs=2, batch_size=1)
case("damaged among others", "a0,damaged,a2", batch_size=1)
case("cut", "cut", batch_size=17)
case("a folder", "folder", batch_size=1)
if tf_version() >= (2, 21):  # older ones abort
    case("negative batch", "a*", batch_size=-4)
    case("negative parallelism", "a*", batch_size=1, file_parallelism=-1)
