"""Snapshots of datasets: what lies in the files, who reads it, and when it is written anew."""
import pathlib
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import runner  # noqa: E402
import tensorflow as tf  # noqa: E402
from cases_data_saved import SOURCES, in_order, numbers, taken  # noqa: E402
from cases_data_snapshot import concrete, to_one  # noqa: E402
from fixtures import quiet  # noqa: E402
from tensorflow.core.protobuf import snapshot_pb2  # noqa: E402
from tensorflow.python.data.ops import dataset_ops  # noqa: E402
from test_saved_datasets import SIDES, files_of, run  # noqa: E402

D = tf.data.Dataset


def walk(side, make, folder, count, compression=None):
    """The elements that a new process gives, and what ended it."""
    def build():
        source = make().with_options(quiet())
        return taken(source.snapshot(str(folder), compression, in_order, to_one), count)
    results = run(side, build)
    assert not isinstance(results[0], runner.Failure), results[0]
    elements = [result for result in results[1:] if not isinstance(result, runner.Failure)]
    return [element[0] if len(element) == 1 else element for element in elements], results[-1]


def folders(path):
    return sorted(folder.name for folder in path.iterdir())


def runs(path):
    """The folders of runs in all snapshots below the path."""
    return [folder for folder in path.glob("*/*") if folder.is_dir()]


def metadata(path):
    (file,) = path.glob("*/snapshot.metadata")
    message = snapshot_pb2.SnapshotMetadataRecord()
    message.ParseFromString(file.read_bytes())
    return message


# ---- Who reads ----

def test_another_process_reads(tmp_path):
    """The input has changed since, which only the first one saw."""
    lines = tmp_path / "lines"
    lines.write_text("a\nb\n")
    kept = tmp_path / "kept"
    for _ in range(2):
        elements, end = walk("ours", lambda: tf.data.TextLineDataset(str(lines)), kept, 3)
        assert elements == [b"a", b"b"] and end.code == 11
        lines.write_text("c\n")
    assert len(folders(kept)) == 1 and len(runs(kept)) == 1


def test_reads_what_ended_early_nowhere(tmp_path):
    for count in (2, 4, 6):  # six reach the end
        elements, _ = walk("ours", numbers, tmp_path, count)
        assert elements == list(range(min(count, 5)))
        assert metadata(tmp_path).finalized == (count == 6)
    assert len(runs(tmp_path)) == 3
    walk("ours", numbers, tmp_path, 6)
    assert len(runs(tmp_path)) == 3


def test_killed_writer(tmp_path):
    graph = tf.Graph()
    with graph.as_default():
        steps = taken(numbers().snapshot(str(tmp_path), None, in_order, to_one), 2)
    backend = runner.RunGraphBackend(graph, runner.find_run_graph())
    assert backend.run(runner.Built(None, {}, steps))[-1] == [1]
    backend.process.kill()
    backend.process.wait()
    assert not metadata(tmp_path).finalized
    assert walk("ours", numbers, tmp_path, 6)[0] == list(range(5))
    assert metadata(tmp_path).finalized and len(runs(tmp_path)) == 2


def test_files_are_the_same(tmp_path):
    for side in SIDES:
        walk(side, numbers, tmp_path / side, 6)
    ours, genuine = (metadata(tmp_path / side) for side in ("ours", "genuine"))
    for message in (ours, genuine):
        message.ClearField("graph_hash")
        message.ClearField("run_id")
        message.ClearField("creation_timestamp")
    assert ours == genuine
    assert files_of(tmp_path / "ours") == files_of(tmp_path / "genuine") != {}


def named(source, folder, **attributes):
    """A snapshot in a folder of this name."""
    shard = concrete(lambda *element: to_one(), *source.element_spec) \
        if isinstance(source.element_spec, tuple) else concrete(to_one, source.element_spec)
    inner = concrete(lambda shard: shard, tf.TensorSpec(None, tf.variant))
    types = {"output_types": tf.nest.flatten(dataset_ops.get_legacy_output_types(source)),
             "output_shapes": tf.nest.flatten(dataset_ops.get_legacy_output_shapes(source))}
    reader = concrete(lambda shards: tf.raw_ops.FlatMapDataset(
        input_dataset=shards, other_arguments=[], f=inner, **types), tf.TensorSpec([], tf.variant))
    variant = tf.raw_ops.SnapshotDatasetV2(
        input_dataset=source._variant_tensor, path=folder, reader_func_other_args=[],
        reader_func=reader, shard_func_other_args=[], shard_func=shard, **types, **attributes)
    return dataset_ops._VariantDataset(variant, source.element_spec)


@pytest.mark.parametrize("compression", ["", "GZIP", "SNAPPY"])
@pytest.mark.parametrize("name", ["numbers", "ragged"])
@pytest.mark.parametrize("writer", SIDES)
def test_the_other_reads(writer, name, compression, tmp_path):
    """A node may say itself what its folder is called."""
    make, count = SOURCES[name]
    results = []
    for side in (writer, SIDES[1 - SIDES.index(writer)]):
        results.append(run(side, lambda: taken(named(
            make(), str(tmp_path), hash_valid=True, hash=-5, compression=compression), count + 1)))
    assert folders(tmp_path) == [str(2**64 - 5)] and len(runs(tmp_path)) == 1
    assert isinstance(results[0][-1], runner.Failure) and isinstance(results[1][-1], runner.Failure)
    for one, other in zip(results[0][1:-1], results[1][1:-1], strict=True):
        np.testing.assert_array_equal(one[0], other[0])


@pytest.mark.parametrize("side", SIDES)
def test_prefixes(side, tmp_path):
    prefixes = {"reader_prefix": str(tmp_path), "writer_prefix": f"{tmp_path}/"}
    for _ in range(2):
        run(side, lambda: taken(named(numbers(), "/in", hash_valid=True, hash=7, **prefixes), 6))
    assert folders(tmp_path) == ["in"] and folders(tmp_path / "in") == ["7"]
    assert len(runs(tmp_path / "in")) == 1


# ---- What a snapshot is named after ----

def plus(n):
    return lambda: numbers().map(lambda x: x + n)


def nested(n):
    return lambda: numbers().flat_map(lambda x: D.range(2).map(lambda y: x + y * n))


def branch(n):
    return lambda: numbers().map(lambda x: tf.cond(x > 1, lambda: x * n, lambda: x))


def loop(n):
    return lambda: numbers().map(lambda x: tf.while_loop(
        lambda i: i < 3, lambda i: i + n, [x])[0])


DIFFERENT = {
    "shorter": lambda: numbers(4), "plus 1": plus(1), "plus 2": plus(2), "nested 1": nested(1),
    "nested 2": nested(2), "branch 2": branch(2), "branch 3": branch(3), "loop 1": loop(1),
    "loop 2": loop(2), "batches": lambda: numbers().batch(2), "whole": lambda: numbers().batch(
        2, drop_remainder=True), "two maps": lambda: plus(1)().map(lambda x: x * x),
    "filtered": lambda: numbers().filter(lambda x: x > 1), "values": lambda:
    D.from_tensor_slices(np.arange(5)), "value": lambda: D.from_tensor_slices(np.arange(5) ** 2),
    "strings": lambda: D.from_tensor_slices([b"a", b"b"]), "string": lambda:
    D.from_tensor_slices([b"a", b"c"]), "zip": lambda: D.zip((numbers(), numbers(4))),
    "other zip": lambda: D.zip((numbers(4), numbers())), "shuffled": lambda: numbers().shuffle(9)}


def test_each_pipeline_has_its_own(tmp_path):
    for number, make in enumerate(DIFFERENT.values()):
        walk("ours", make, tmp_path, 1)
        assert len(folders(tmp_path)) == number + 1


@pytest.mark.parametrize("name", ["plus 2", "nested 2", "branch 3", "loop 2", "zip", "strings"])
def test_names_do_not_count(name, tmp_path):
    """Other functions before give those of the pipeline other names."""
    def make():
        for n in range(3):
            nested(n + 7)()
        return DIFFERENT[name]()
    walk("ours", DIFFERENT[name], tmp_path, 1)
    walk("ours", make, tmp_path, 1)
    assert len(folders(tmp_path)) == 1


@pytest.mark.parametrize("side", SIDES)
def test_seeds_do_not_count(side, tmp_path):
    first = walk(side, lambda: numbers(20).shuffle(20, seed=1), tmp_path, 21)
    again = walk(side, lambda: numbers(20).shuffle(20, seed=2), tmp_path, 21)
    assert len(folders(tmp_path)) == 1 and first[0] == again[0] and len(again[0]) == 20


# ---- What is damaged ----

def pairs():
    return D.zip((numbers(), numbers().map(lambda x: -x)))


def cut(size):
    return lambda data: data[:size]


DAMAGES = {"torn metadata": ("*/snapshot.metadata", lambda data: b"\xff\xff no message"),
           "cut record": ("*/*/*/*.snapshot", cut(-5)),
           "another byte": ("*/*/*/*.snapshot", lambda data: data[:20] + b"~" + data[21:])}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_told(damage, tmp_path):
    pattern, change = DAMAGES[damage]
    codes = []
    for side in SIDES:
        walk(side, numbers, tmp_path / side, 6)
        (file,) = (tmp_path / side).glob(pattern)
        file.write_bytes(change(file.read_bytes()))
        elements, end = walk(side, numbers, tmp_path / side, 6)
        assert len(elements) < 5 and isinstance(end, runner.Failure)
        codes.append(end.code)
    assert codes[0] == codes[1] != 11


def test_element_cut_in_two(tmp_path):
    """TensorFlow takes it for the end."""
    walk("ours", pairs, tmp_path, 6)
    (file,) = tmp_path.glob("*/*/*/*.snapshot")
    data = file.read_bytes()
    file.write_bytes(data[:len(data) // 10 * 9])
    elements, end = walk("ours", pairs, tmp_path, 5)
    assert len(elements) == 4 and end.code == 15
    assert "ends with 1 of 2 components of an element" in end.message


def test_missing_file(tmp_path):
    codes = []
    for side in SIDES:
        walk(side, numbers, tmp_path / side, 6)
        (file,) = (tmp_path / side).glob("*/*/*/*.snapshot")
        file.unlink()
        codes.append(walk(side, numbers, tmp_path / side, 1)[1].code)
    assert codes[0] == codes[1] == 5


def test_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("no folder")
    assert isinstance(walk("ours", numbers, tmp_path / "file", 1)[1], runner.Failure)
