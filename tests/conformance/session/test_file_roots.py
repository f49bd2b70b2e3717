"""A server with --file-roots: ops may not read, write or list files outside of these folders, whichever way a path is
written. Shown with readers, writers, patterns and checkpoints."""

import os

import pytest
import tensorflow as tf

from conftest import Server, tf1

R = tf.raw_ops


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """(first root, second root, a folder outside), each with a file and a folder in it"""
    base = tmp_path_factory.mktemp("roots")
    made = [base / name for name in ["first", "second", "first_but_longer"]]
    for folder in made:
        (folder / "inner").mkdir(parents=True)
        (folder / "file").write_text("line\n")
    (made[0] / "out").symlink_to(made[2])
    return made


@pytest.fixture(scope="module")
def confined(folders):
    server = Server("--port", "0", "--file-roots", f"{folders[0]},{folders[1]}")
    yield server
    server.stop()


def next_of(dataset):
    return tf1.data.make_one_shot_iterator(dataset).get_next()


def saved(path):
    return R.SaveV2(prefix=path, tensor_names=["a"], shape_and_slices=[""], tensors=[tf.constant(1.0)])


def written_summary(path):
    writer = R.SummaryWriter(shared_name=path)
    with tf.control_dependencies([R.CreateSummaryFileWriter(writer=writer, logdir=path, max_queue=1, flush_millis=1,
                                                            filename_suffix="")]):
        return R.FlushSummaryWriter(writer=writer)


def first_record(path):
    queue = tf1.FIFOQueue(1, [tf.string], [[]])
    with tf.control_dependencies([queue.enqueue([path])]):
        return tf1.TextLineReader().read(queue)[1]


def table_from(path):
    table = tf1.lookup.StaticHashTable(tf.lookup.TextFileInitializer(
        path, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER), -1)
    with tf.control_dependencies([table.initializer]):
        return table.lookup(tf.constant("line"))


# Ops that read a file, by name; each function takes the file's path.
READS = {
    "ReadFile": tf.io.read_file,
    "TextLineReader": first_record,
    "TextLineDataset": lambda path: next_of(tf.data.TextLineDataset(path)),
    "FixedLengthRecordDataset": lambda path: next_of(tf.data.FixedLengthRecordDataset(path, 5)),
    "InitializeTableFromTextFile": table_from,
}
# Ops that create a file or a folder; each function takes a path that does not exist yet.
WRITES = {
    "WriteFile": lambda path: tf.io.write_file(path, "text"),
    "SaveV2": saved,
    "Save": lambda path: R.Save(filename=path, tensor_names=["a"], data=[tf.constant(1.0)]),
    "CreateSummaryFileWriter": written_summary,
    "CacheDataset": lambda path: next_of(tf.data.Dataset.range(1).cache(path).repeat(2).skip(1)),
}


def run(server, make):
    with tf.Graph().as_default(), tf1.Session(server.target) as session:
        return session.run(make())


def under(folder):
    return sorted(os.path.relpath(os.path.join(at, name), folder) for at, inner, files in os.walk(folder) for name in inner + files)


@pytest.mark.parametrize("op", READS)
def test_reading(confined, folders, op):
    first, second, outside = folders
    for path in [first / "file", second / "file", f"file://{first}/file", f"{first}/inner/../file"]:
        run(confined, lambda: READS[op](str(path)))
    for path in [outside / "file", first / "out" / "file", f"file://{outside}/file", f"{first}/../{outside.name}/file", "/etc/passwd"]:
        with pytest.raises(tf.errors.PermissionDeniedError, match="outside of the folders that this server may use"):
            run(confined, lambda: READS[op](str(path)))


@pytest.mark.parametrize("op", WRITES)
def test_writing(confined, folders, op):
    first, second, outside = folders
    before = under(outside)
    run(confined, lambda: WRITES[op](str(second / "inner" / ("new_" + op))))
    assert any("new_" + op in name for name in under(second))
    for path in [outside / "new", first / "out" / "new", f"{first}/../{outside.name}/new", f"{first}/missing/../../new"]:
        with pytest.raises(tf.errors.PermissionDeniedError, match="outside of the folders that this server may use"):
            run(confined, lambda: WRITES[op](str(path)))
    assert under(outside) == before
    assert not (first.parent / "new").exists()


def test_patterns_do_not_tell_what_is_outside(confined, folders):
    first, _, outside = folders
    assert list(run(confined, lambda: R.MatchingFiles(pattern=f"{first}/fi*"))) == [os.fsencode(first / "file")]
    for pattern in [f"{outside}/*", f"{first.parent}/*/file", "/etc/pass*"]:
        with pytest.raises(tf.errors.PermissionDeniedError):
            run(confined, lambda: R.MatchingFiles(pattern=pattern))


def test_restoring_and_merging(confined, folders):
    first, _, outside = folders
    inside = str(first / "inner" / "checkpoint")
    run(confined, lambda: saved(inside))
    restored = run(confined, lambda: R.RestoreV2(prefix=inside, tensor_names=["a"], shape_and_slices=[""], dtypes=[tf.float32]))
    assert restored == [1.0]
    for make in [lambda: R.RestoreV2(prefix=str(outside / "any"), tensor_names=["a"], shape_and_slices=[""], dtypes=[tf.float32]),
                 lambda: R.MergeV2Checkpoints(checkpoint_prefixes=[inside], destination_prefix=str(outside / "any"))]:
        with pytest.raises(tf.errors.PermissionDeniedError):
            run(confined, make)
    assert (first / "inner" / "checkpoint.index").exists()


def test_a_root_that_is_no_folder(tmp_path):
    with pytest.raises(AssertionError, match="file root .*missing is not a folder that can be reached"):
        Server("--port", "0", "--file-roots", f"{tmp_path},{tmp_path}/missing")


@pytest.mark.parametrize("roots", [[], ["--file-roots", "/tmp"]])
def test_a_server_that_others_reach_says_so(roots):
    server = Server("--port", "0", "--bind", "0.0.0.0", *roots)
    server.stop()
    assert ("can read and write every file" in server.log()) == (not roots)
