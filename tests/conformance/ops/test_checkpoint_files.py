"""Checkpoint files must be equal to genuine TensorFlow's, byte for byte."""
import os
import pathlib
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import runner  # noqa: E402
import tensorflow as tf  # noqa: E402

tf1 = tf.compat.v1
MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)
NUMBERS = [np.float32, np.float64, np.int32, np.uint8, np.int16, np.int8, np.complex64, np.int64,
           np.bool_, runner.bfloat16, np.uint16, np.complex128, np.float16, np.uint32, np.uint64]
CONTENTS = {
    "plain": (["x", "y"], ["", ""], [MATRIX, np.array([b"abc", b"", b"z" * 300], object)]),
    "dtypes": ([f"t{i}" for i in range(len(NUMBERS))], [""] * len(NUMBERS),
               [np.arange(10).astype(d) for d in NUMBERS]),
    "shapes": (["a", "b", "c", "d"], [""] * 4,
               [np.float32(1), np.zeros([0, 3]), np.zeros([0], object),
                np.ones([1, 2, 1, 3, 1], np.int8)]),
    "many": ([f"layer_{i // 7}/weights/part_{i}" for i in range(9000)], [""] * 9000,
             [np.float32(i) for i in range(9000)]),
    "slices": (["x", "x", "w\0v\xff"], ["400 3 100,2:-", "400 3 7,2:-", "9 9 1,2:4,3"],
               [MATRIX, MATRIX, MATRIX]),
    "far": (["x"], ["9000000000 3 8000000000,2:-"], [MATRIX]),
    "large": (["x", "s", "y"], ["", "", ""],
              [np.arange(3000001, dtype=np.int32), np.array([b"q" * 100000] * 50, object),
               np.arange(1000001, dtype=np.float64)]),
}


def constant(value):
    value = np.asarray(value)
    return tf.constant(value, tf.string if value.dtype.kind in "OSU" or value.size == 0 and
                       value.dtype.kind == "f" and value.ndim == 1 else None)


def save(prefix, names, specs, tensors):
    return tf.raw_ops.SaveV2(prefix=prefix, tensor_names=tf.constant(names, tf.string, [len(names)]),
                             shape_and_slices=tf.constant(specs, tf.string, [len(specs)]),
                             tensors=[constant(t) for t in tensors])


def run_both(build, folder):
    """The same graph with a folder of its own on both sides."""
    for name in ("genuine", "ours"):
        os.mkdir(folder / name)
        graph = tf.Graph()
        with graph.as_default():
            ops = build(str(folder / name))
        backend = runner.SessionBackend(graph) if name == "genuine" else \
            runner.make_candidate(graph, *candidate())
        for result in backend.run(runner.Built(None, {}, [[op] for op in ops])):
            assert not isinstance(result, runner.Failure), result
        backend.close()


def candidate():
    target = os.environ.get("DOWNPOUR_TARGET")
    return (None, target) if target else (runner.find_run_graph(), None)


def assert_same_files(folder):
    files = [sorted(p.relative_to(folder / side) for p in (folder / side).rglob("*") if p.is_file())
             for side in ("genuine", "ours")]
    assert files[0] == files[1]
    for file in files[0]:
        assert (folder / "genuine" / file).read_bytes() == (folder / "ours" / file).read_bytes(), file


@pytest.mark.parametrize("name", CONTENTS)
def test_save(name, tmp_path):
    run_both(lambda folder: [save(f"{folder}/model", *CONTENTS[name])], tmp_path)
    assert_same_files(tmp_path)


def test_merge(tmp_path):
    def build(folder):
        parts = [save(f"{folder}/tmp/part{i}", ["p", f"own{i}"], [f"6 3 {2 * i},2:-", ""],
                      [MATRIX + i, np.arange(i + 1)]) for i in range(3)]
        return parts + [tf.raw_ops.MergeV2Checkpoints(
            checkpoint_prefixes=[f"{folder}/tmp/part{i}" for i in range(3)],
            destination_prefix=f"{folder}/model")]
    run_both(build, tmp_path)
    for side in ("genuine", "ours"):
        assert not (tmp_path / side / "tmp").exists()
        # The order of shards is a hash table's in genuine TensorFlow.
        reader = tf1.train.NewCheckpointReader(str(tmp_path / side / "model"))
        assert reader.get_variable_to_shape_map()["p"] == [6, 3]
        assert (reader.get_tensor("own2") == np.arange(3)).all()
        assert (reader.get_tensor("p")[4:] == MATRIX + 2).all()


def test_genuine_reads_ours(tmp_path):
    run_both(lambda folder: [save(f"{folder}/model", *CONTENTS["large"])], tmp_path)
    reader = tf1.train.NewCheckpointReader(str(tmp_path / "ours" / "model"))
    for name, _, value in zip(*CONTENTS["large"]):
        assert (reader.get_tensor(name) == value).all()


def test_version_1(tmp_path):
    def build(folder):
        return [tf.raw_ops.Save(filename=f"{folder}/v1", tensor_names=["b", "a"],
                                data=[constant(np.arange(5)), constant(MATRIX)])]
    run_both(build, tmp_path)
    assert_same_files(tmp_path)
