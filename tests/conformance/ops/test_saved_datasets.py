"""Saved datasets: genuine TensorFlow reads what Downpour wrote, and the other way round."""
import os
import pathlib
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import runner  # noqa: E402
import tensorflow as tf  # noqa: E402
from cases_data_saved import SOURCES, in_order, numbers, save, taken  # noqa: E402
from tensorflow.core.protobuf import snapshot_pb2  # noqa: E402

SIDES = ("genuine", "ours")
LOADED = ("numbers", "mixed", "ragged", "none", "large")


def run(side, build):
    """The results of a graph's runs on one side."""
    graph = tf.Graph()
    with graph.as_default():
        runs = build()
    target = os.environ.get("DOWNPOUR_TARGET")
    backend = runner.SessionBackend(graph) if side == "genuine" else runner.make_candidate(
        graph, None if target else runner.find_run_graph(), target)
    results = backend.run(runner.Built(None, {}, runs))
    backend.close()
    return results


def write(side, name, folder, compression):
    results = run(side, lambda: [[save(SOURCES[name][0](), folder, compression=compression)]])
    assert not isinstance(results[0], runner.Failure), results[0]


def read(side, name, folder, compression):
    make, count = SOURCES[name]

    def build():
        back = tf.data.Dataset.load(folder, make().element_spec, compression=compression,
                                    reader_func=in_order)
        return [[back.cardinality()]] + taken(back, count + 1)
    results = run(side, build)
    assert results[0] == [count]
    assert isinstance(results[-1], runner.Failure), "more elements than were written"
    return results[2:-1]


@pytest.mark.parametrize("compression", [None, "GZIP", "ZLIB", "SNAPPY"])
@pytest.mark.parametrize("name", LOADED)
@pytest.mark.parametrize("writer", SIDES)
def test_the_other_reads(writer, name, compression, tmp_path):
    if name == "large" and compression == "SNAPPY":
        pytest.skip("TensorFlow cannot read its own")
    reader = SIDES[1 - SIDES.index(writer)]
    write(writer, name, str(tmp_path), compression)
    elements = read(reader, name, str(tmp_path), compression)
    wanted = read(writer, name, str(tmp_path), compression)
    assert len(elements) == SOURCES[name][1]
    for element, other in zip(elements, wanted, strict=True):
        for value, same in zip(element, other, strict=True):
            np.testing.assert_array_equal(value, same)


def files_of(folder):
    """{path without the run's number: bytes}"""
    return {"/".join(part for part in file.relative_to(folder).parts if not part.isdigit()):
            file.read_bytes() for file in folder.rglob("*.snapshot")}


@pytest.mark.parametrize("name", ["numbers", "ragged", "large"])
def test_files_are_the_same(name, tmp_path):
    for side in SIDES:
        write(side, name, str(tmp_path / side), None)
    assert files_of(tmp_path / "ours") == files_of(tmp_path / "genuine")


def test_large_records_of_snappy(tmp_path):
    write("ours", "large", str(tmp_path), "SNAPPY")
    elements = read("ours", "large", str(tmp_path), "SNAPPY")
    np.testing.assert_array_equal(elements[2][0], np.arange(100000) * 2)


def test_failure_leaves_nothing_whole(tmp_path):
    """TensorFlow would wait for its writers for ever."""
    results = run("ours", lambda: [[save(numbers().map(lambda x: 6 // (x - 3)), str(tmp_path))]])
    assert isinstance(results[0], runner.Failure) and "Integer division by zero" in str(results[0])
    metadata = snapshot_pb2.SnapshotMetadataRecord()
    metadata.ParseFromString((tmp_path / "snapshot.metadata").read_bytes())
    assert not metadata.finalized and metadata.num_elements == 0
