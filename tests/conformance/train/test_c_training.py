"""What the training library in C leaves behind, read by genuine TensorFlow, and the other way round;
and a worker in C that trains with a genuine parameter server."""

import json
import os
import subprocess

import numpy as np
import pytest
import tensorflow as tf

from clusters import BUILD, GenuineTask, free_ports, tf1

LINREG = BUILD / "examples" / "linreg"


def run(*arguments, **environment):
    done = subprocess.run([LINREG, *map(str, arguments)], capture_output=True, text=True,
                          timeout=300, env={**os.environ, **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def built():
    subprocess.run(["ninja", "-C", str(BUILD), "examples/linreg"], check=True,
                   stdout=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, built):
    """A finished training's."""
    path = tmp_path_factory.mktemp("linreg")
    run("--dir", path, "--steps", 1000)
    return path


def test_latest_checkpoint(folder):
    assert tf.train.latest_checkpoint(str(folder)) == str(folder / "model.ckpt-1000")
    state = tf.train.get_checkpoint_state(str(folder))
    assert len(state.all_model_checkpoint_paths) == 5


def test_values_in_the_checkpoint(folder):
    reader = tf.train.load_checkpoint(str(folder))
    assert reader.get_variable_to_dtype_map() == {"W": tf.float32, "b": tf.float32,
                                                  "global_step": tf.int64}
    assert reader.get_tensor("global_step") == 1000
    np.testing.assert_allclose(reader.get_tensor("W"), [0.1], atol=1e-3)
    np.testing.assert_allclose(reader.get_tensor("b"), [0.3], atol=1e-3)


def test_graph_beside_the_checkpoint(folder):
    meta = tf1.MetaGraphDef.FromString((folder / "model.ckpt-1000.meta").read_bytes())
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(meta.graph_def, name="")
        assert graph.get_operation_by_name("W").type == "VariableV2"


def test_events(folder):
    path, = folder.glob("events.out.tfevents.*")
    costs, graphs = {}, 0
    for event in tf1.train.summary_iterator(str(path)):
        graphs += bool(event.graph_def)
        for value in event.summary.value:
            if value.tag == "cost":
                costs[event.step] = value.simple_value
    assert graphs == 1
    steps = sorted(costs)
    assert len(steps) >= 10 and steps[0] == 1
    assert costs[steps[-1]] < 1e-6 < costs[steps[0]]


def test_training_goes_on_in_python(folder):
    with tf.Graph().as_default():
        tf1.get_variable("W", [1], use_resource=False)
        tf1.get_variable("b", [1], use_resource=False)
        step = tf1.train.get_or_create_global_step()
        with tf1.Session() as session:
            tf1.train.Saver().restore(session, tf.train.latest_checkpoint(str(folder)))
            assert session.run(step) == 1000


def test_training_goes_on_in_c(tmp_path):
    with tf.Graph().as_default():
        tf1.get_variable("W", initializer=[0.1], use_resource=False)
        tf1.get_variable("b", initializer=[0.3], use_resource=False)
        step = tf1.train.get_or_create_global_step()
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            session.run(tf1.assign(step, 40))
            tf1.train.Saver().save(session, str(tmp_path / "model.ckpt"), global_step=step)
    assert "W = 0.100, b = 0.300 after 41 steps\n" in run("--dir", tmp_path, "--steps", 41)


@pytest.mark.parametrize("options", [[], ["--sync"]], ids=["async", "sync"])
def test_genuine_parameter_server(options):
    ports = free_ports(2)
    cluster = {"ps": [f"localhost:{ports[0]}"], "worker": [f"localhost:{ports[1]}"]}
    server = GenuineTask(cluster, "ps", 0)
    try:
        server.wait_until_ready()
        config = {"cluster": cluster, "task": {"type": "worker", "index": 0}}
        output = run(*options, TF_CONFIG=json.dumps(config))
        assert "W = 0.100, b = 0.300 after 1000 steps\n" in output
    finally:
        server.stop()
