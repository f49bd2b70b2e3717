"""Readers of all kinds: keys and values of files from a queue, counts, state, and what they refuse."""
import gzip
import os
import zlib

import tensorflow as tf
from fixtures import fresh, scratch_folder
from runner import Case, make_op

R = tf.raw_ops
tf1 = tf.compat.v1
CASES = []
FOLDER = scratch_folder("readers")


def write(name, data):
    path = os.path.join(FOLDER, name)
    with open(path, "wb") as file:
        file.write(data)
    return path


def write_records(name, records, compression=None):
    path = os.path.join(FOLDER, name)
    options = tf1.python_io.TFRecordOptions(compression) if compression is not None else None
    with tf1.python_io.TFRecordWriter(path, options=options) as writer:
        for record in records:
            writer.write(record)
    return path


def queue_of(paths, dtype=tf.string, components=1, shape=()):
    """(handle, runs that fill and close it)"""
    queue = R.FIFOQueueV2(component_types=[dtype] * components, shapes=[list(shape)] * components,
                          shared_name=fresh("files"))
    runs = [[R.QueueEnqueueManyV2(handle=queue, components=[tf.constant(paths, dtype)] * components)]] \
        if len(paths) else []
    return queue, runs + [[R.QueueCloseV2(handle=queue)]]


def counts(reader):
    return [R.ReaderNumRecordsProducedV2(reader_handle=reader),
            R.ReaderNumWorkUnitsCompletedV2(reader_handle=reader)]


def read(reader, queue):
    return list(R.ReaderReadV2(reader_handle=reader, queue_handle=queue))


def read_up_to(reader, queue, number):
    return list(R.ReaderReadUpToV2(reader_handle=reader, queue_handle=queue,
                                   num_records=tf.constant(number, tf.int64)))


def case(op, build, text):
    CASES.append(Case(op, build=lambda: ({}, build()), name=f"{op} {text}"))


def through(op, make, paths, reads, text):
    """All records, one by one past the end; then some at a time; then after a reset."""
    def build():
        reader = make()
        queue, runs = queue_of(paths)
        one = read(reader, queue)
        return runs + [counts(reader)] + [one] * reads + [counts(reader)] + \
            [[R.ReaderResetV2(reader_handle=reader)], counts(reader)]
    case(op, build, text)

    def build_many():
        reader = make()
        queue, runs = queue_of(paths)
        return runs + [read_up_to(reader, queue, 2), counts(reader), read_up_to(reader, queue, 0),
                       read_up_to(reader, queue, 100), read_up_to(reader, queue, 100),
                       read_up_to(reader, queue, 100), counts(reader)]
    case(op, build_many, text + " many")


LINES = write("lines.txt", b"one\ntwo\r\nthree, with more\n\nlast without end")
SHORT = write("short.txt", b"only\n")
EMPTY = write("empty.txt", b"")
ABSENT = os.path.join(FOLDER, "absent.txt")
NUMBER = [0]


def shared():
    NUMBER[0] += 1
    return f"reader{NUMBER[0]}"


for skipped in [0, 1, 3, 10]:
    through("TextLineReaderV2",
            lambda skipped=skipped: R.TextLineReaderV2(skip_header_lines=skipped, shared_name=shared()),
            [LINES, EMPTY, SHORT], 8, f"skips {skipped}")
through("TextLineReaderV2", lambda: R.TextLineReaderV2(shared_name=shared()), [ABSENT, SHORT], 4, "absent file")
through("TextLineReaderV2", lambda: R.TextLineReaderV2(shared_name=shared()), [], 1, "no file")
case("TextLineReaderV2", lambda: [read(R.TextLineReaderV2(skip_header_lines=-1, shared_name=shared()),
                                       queue_of([LINES])[0])], "negative skip")

BYTES = write("bytes.bin", bytes(range(50)))
PACKED = {"GZIP": write("bytes.gz", gzip.compress(bytes(range(50)))),
          "ZLIB": write("bytes.z", zlib.compress(bytes(range(50))))}
for header, record, footer, hop in [(0, 10, 0, 0), (5, 10, 5, 0), (3, 7, 2, 0), (0, 10, 0, 5), (2, 4, 1, 9),
                                    (0, 60, 0, 0), (60, 5, 0, 0), (0, 25, 1, 3), (1, 1, 0, 20)]:
    text = f"{header} {record} {footer} {hop}"
    for encoding in ["", "GZIP", "ZLIB"]:
        through("FixedLengthRecordReaderV2",
                lambda h=header, r=record, f=footer, o=hop, e=encoding: R.FixedLengthRecordReaderV2(
                    header_bytes=h, record_bytes=r, footer_bytes=f, hop_bytes=o, encoding=e,
                    shared_name=shared()),
                [PACKED.get(encoding, BYTES)] * 2, 8, text + " " + encoding)
for header, record, footer, hop in [(-1, 5, 0, 0), (0, -5, 0, 0), (0, 5, -1, 0), (0, 5, 0, -1)]:
    case("FixedLengthRecordReaderV2",
         lambda h=header, r=record, f=footer, o=hop: [read(R.FixedLengthRecordReaderV2(
             header_bytes=h, record_bytes=r, footer_bytes=f, hop_bytes=o, shared_name=shared()),
             queue_of([BYTES])[0])], f"refused {header} {record} {footer} {hop}")

RECORDS = [b"first", b"", b"x" * 1000, bytes(range(256))]
for compression in ["", "GZIP", "ZLIB"]:
    path = write_records(f"records{compression}", RECORDS, compression)
    through("TFRecordReaderV2",
            lambda c=compression: R.TFRecordReaderV2(compression_type=c, shared_name=shared()),
            [path, EMPTY, path] if not compression else [path, path], 9, compression or "plain")
with open(write_records("damaged", RECORDS), "r+b") as file:
    file.seek(30)
    file.write(b"!!!")
through("TFRecordReaderV2", lambda: R.TFRecordReaderV2(shared_name=shared()), [file.name], 4, "damaged")
through("TFRecordReaderV2", lambda: R.TFRecordReaderV2(shared_name=shared()), [ABSENT], 2, "absent")

through("WholeFileReaderV2", lambda: R.WholeFileReaderV2(shared_name=shared()), [LINES, EMPTY, BYTES], 4, "files")
through("WholeFileReaderV2", lambda: R.WholeFileReaderV2(shared_name=shared()), [ABSENT, SHORT], 4, "absent file")
through("IdentityReaderV2", lambda: R.IdentityReaderV2(shared_name=shared()), ["a", "", "b\0c", "d" * 100], 5,
        "names")


# ---- State ----
def save(reader):
    return [R.ReaderSerializeStateV2(reader_handle=reader)]


def restore(reader, state):
    return [R.ReaderRestoreStateV2(reader_handle=reader, state=tf1.placeholder_with_default(state, None))]


STATES = [b"", b"\x08\x02\x10\x02\x18\x02\x22\x01b", b"\x08\x02\x10\x01", b"\x10\x03\x18\x01", b"\x08", b"junk",
          b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x2a\x01x\x10\x01"]
for op, make in [("IdentityReaderV2", R.IdentityReaderV2), ("WholeFileReaderV2", R.WholeFileReaderV2)]:
    def build_state(make=make):
        reader = make(shared_name=shared())
        queue, runs = queue_of([LINES, SHORT])
        runs += [save(reader), read(reader, queue), save(reader)]
        for state in STATES:
            runs += [restore(reader, state), save(reader), counts(reader)]
        return runs + [read(reader, queue), counts(reader)]
    case(op, build_state, "state")
for op, make in [("TextLineReaderV2", R.TextLineReaderV2), ("TFRecordReaderV2", R.TFRecordReaderV2)]:
    def build_none(make=make):
        reader = make(shared_name=shared())
        return [save(reader), restore(reader, b""), restore(reader, [b"", b""])]
    case(op, build_none, "has no state")


# ---- Queues that do not fit ----
def build_components():
    reader = R.IdentityReaderV2(shared_name=shared())
    queue, runs = queue_of(["a", "b"], components=2)
    return runs + [read(reader, queue)]


def build_dtype():
    reader = R.IdentityReaderV2(shared_name=shared())
    queue, runs = queue_of([1, 2], tf.int32)
    return runs + [read(reader, queue)]


def build_vector():
    reader = R.IdentityReaderV2(shared_name=shared())
    queue, runs = queue_of([["a", "b"]], shape=[2])
    return runs + [read(reader, queue)]


case("ReaderReadV2", build_components, "two components")
case("ReaderReadV2", build_dtype, "integers")
case("ReaderReadV2", build_vector, "vectors")


def build_training():
    """As the classes of tf.train make them."""
    reader = tf1.TextLineReader(name=shared())
    files = tf1.FIFOQueue(10, [tf.string], shapes=[[]], shared_name=shared())
    key, value = reader.read(files)
    return [[files.enqueue_many([[LINES]])], [key, value], [reader.num_records_produced()], [files.close()],
            list(reader.read_up_to(files, 3)), list(reader.read_up_to(files, 3)), list(reader.read_up_to(files, 3))]


case("ReaderReadV2", build_training, "classes of tf.train")


# ---- Readers whose handles are strings along reference edges ----
def old(verb, **arguments):
    return tf.nest.flatten(make_op("Reader" + verb, **arguments))


def old_case(op, make, build, text):
    """Such readers are in graphs of older versions, as well as those that are still there."""
    CASES.append(Case(op, build=lambda: ({}, build(make())), name=f"{op} {text}", producer=25))


def old_queue(paths):
    queue = R.FIFOQueue(component_types=[tf.string], shapes=[[]], shared_name=shared())
    fill = [[R.QueueEnqueueMany(handle=queue, components=[paths])]] if paths else []
    return queue, fill + [[R.QueueClose(handle=queue)]]


def old_counts(reader):
    return old("NumRecordsProduced", reader_handle=reader) + \
        old("NumWorkUnitsCompleted", reader_handle=reader)


def old_many(reader, queue, number):
    return old("ReadUpTo", reader_handle=reader, queue_handle=queue,
               num_records=tf.constant(number, tf.int64))


def old_through(op, paths, text, **attrs):
    def make():
        return make_op(op, shared_name=shared(), **attrs)

    def one_by_one(reader):
        queue, runs = old_queue(paths)
        one = old("Read", reader_handle=reader, queue_handle=queue)
        return runs + [old_counts(reader)] + [one] * 9 + [
            old_counts(reader), [make_op("ReaderReset", reader_handle=reader)], old_counts(reader)]

    def some_at_once(reader):
        queue, runs = old_queue(paths)
        return runs + [old_many(reader, queue, n) for n in (2, 0, 100, 100)] + [
            old_counts(reader)]
    old_case(op, make, one_by_one, text)
    old_case(op, make, some_at_once, text + " many")


old_through("TextLineReader", [LINES, EMPTY, SHORT], "lines")
old_through("TextLineReader", [LINES], "skips", skip_header_lines=2)
old_through("TextLineReader", [ABSENT, SHORT], "absent file")
old_through("WholeFileReader", [LINES, EMPTY, BYTES], "files")
old_through("WholeFileReader", [ABSENT], "absent file")
old_through("WholeFileReader", [], "no file")
old_through("IdentityReader", ["a", "", "b\0c", "d" * 100], "names")
for compression in ["", "GZIP", "ZLIB"]:
    old_through("TFRecordReader", [os.path.join(FOLDER, f"records{compression}")] * 2,
                compression or "plain", compression_type=compression)
old_through("TFRecordReader", [os.path.join(FOLDER, "damaged")], "damaged")
for header, record, footer, hop in [(0, 10, 0, 0), (5, 10, 5, 0), (3, 7, 2, 0), (0, 10, 0, 5),
                                    (0, 60, 0, 0), (-1, 5, 0, 0), (0, -5, 0, 0), (0, 5, 0, -1)]:
    old_through("FixedLengthRecordReader", [BYTES] * 2, f"{header} {record} {footer} {hop}",
                header_bytes=header, record_bytes=record, footer_bytes=footer, hop_bytes=hop)


def old_state(reader):
    def save():
        return old("SerializeState", reader_handle=reader)
    queue, runs = old_queue([LINES, SHORT])
    one = old("Read", reader_handle=reader, queue_handle=queue)
    runs += [save(), one, save()]
    for state in STATES + [[b"", b""]]:
        runs += [[make_op("ReaderRestoreState", reader_handle=reader,
                          state=tf1.placeholder_with_default(state, None))], save(),
                 old_counts(reader)]
    return runs + [one, old_counts(reader)]


for op in ["IdentityReader", "WholeFileReader", "TextLineReader", "TFRecordReader"]:
    old_case(op, lambda op=op: make_op(op, shared_name=shared()), old_state, "state")


def old_mixed(reader):
    """One reader of a name, by either kind of op."""
    queue, runs = old_queue(["a", "b", "c"])
    other = make_op("IdentityReader", shared_name=reader.op.get_attr("shared_name"))
    return runs + [old("Read", reader_handle=reader, queue_handle=queue),
                   old("Read", reader_handle=other, queue_handle=queue), old_counts(reader)]


old_case("IdentityReader", lambda: make_op("IdentityReader", shared_name=shared()), old_mixed, "shared")
