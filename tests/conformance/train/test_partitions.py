"""Partitioned variables of the C library: the parts are those that TensorFlow's partitioners give,
and each side goes on with the other's checkpoint."""

import subprocess

import numpy as np
import pytest
import tensorflow as tf

from clusters import BUILD, tf1

PROGRAM = BUILD / "tests/unit/train/train_partitions"
# name: (the C side's kind, axis, most, bytes), TensorFlow's partitioner, the shape
VARIABLES = {
    "fixed": ((0, 0, 3, 0), tf1.fixed_size_partitioner(3), [7, 2]),
    "columns": ((0, 1, 2, 0), tf1.fixed_size_partitioner(2, axis=1), [3, 5, 2]),
    "more_than_rows": ((0, 0, 9, 0), tf1.fixed_size_partitioner(9), [4]),
    "by_bytes": ((1, 0, 0, 40), tf1.variable_axis_size_partitioner(40), [11, 4]),
    "by_bytes_at_most": ((1, 1, 2, 16), tf1.variable_axis_size_partitioner(16, axis=1, max_shards=2),
                         [2, 9]),
    "one_row_is_more": ((1, 0, 0, 8), tf1.variable_axis_size_partitioner(8), [3, 5]),
    "min_max": ((2, 0, 5, 64), tf1.min_max_variable_partitioner(5, min_slice_size=64), [12, 4]),
    "min_max_small": ((2, 0, 5, 4096), tf1.min_max_variable_partitioner(5, min_slice_size=4096),
                      [12, 4]),
    "min_max_axis": ((2, 2, 4, 16), tf1.min_max_variable_partitioner(4, axis=2, min_slice_size=16),
                     [2, 2, 6]),
}
LINES = "\n".join(" ".join(map(str, (name, *how, *shape)))
                  for name, (how, _, shape) in VARIABLES.items())


def run(folder):
    done = subprocess.run([PROGRAM, folder], input=LINES, capture_output=True, text=True,
                          timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(zip(VARIABLES, map(float, done.stdout.split())))


def make_all():
    return {name: tf1.get_variable(name, shape, partitioner=partitioner, use_resource=False,
                                   initializer=tf1.random_normal_initializer())
            for name, (_, partitioner, shape) in VARIABLES.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("partitions")
    return path, run(path)


def test_parts_are_the_same(folder):
    path, _ = folder
    meta = tf1.MetaGraphDef.FromString(next(path.glob("*.meta")).read_bytes())
    ours = {node.name: [d.size for d in node.attr["shape"].shape.dim]
            for node in meta.graph_def.node if node.op == "VariableV2" and "/part_" in node.name}
    with tf.Graph().as_default():
        theirs = {part.op.name: part.shape.as_list() for variable in make_all().values()
                  for part in (variable if hasattr(variable, "__iter__") else [variable])}
    assert ours == {name: shape for name, shape in theirs.items() if "/part_" in name}


def test_they_read_ours(folder):
    path, sums = folder
    reader = tf.train.load_checkpoint(str(path))
    with tf.Graph().as_default():
        variables = make_all()
        wholes = {name: tf.convert_to_tensor(variable) for name, variable in variables.items()}
        with tf1.Session() as session:
            tf1.train.Saver().restore(session, tf.train.latest_checkpoint(str(path)))
            values = session.run(wholes)
    for name, (_, _, shape) in VARIABLES.items():
        np.testing.assert_array_equal(values[name], reader.get_tensor(name))
        assert values[name].shape == tuple(shape)
        assert values[name].sum() == pytest.approx(sums[name] + np.prod(shape), abs=1e-3)


def test_ours_reads_theirs(tmp_path):
    with tf.Graph().as_default():
        variables = make_all()
        totals = {name: tf.reduce_sum(tf.convert_to_tensor(variable))
                  for name, variable in variables.items()}
        step = tf1.train.get_or_create_global_step()
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            expected = session.run(totals)
            tf1.train.Saver().save(session, str(tmp_path / "model.ckpt"), global_step=step)
    got = run(tmp_path)
    for name, total in expected.items():
        assert got[name] == pytest.approx(total, abs=1e-3)
