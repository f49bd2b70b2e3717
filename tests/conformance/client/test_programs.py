"""C programs together with genuine TensorFlow: a model built in C trains on a genuine server; graphs
and SavedModels of genuine TensorFlow run with our C API; unit tests of the C API pass with either
library."""
import os
import pathlib
import subprocess

import pytest
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()
ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("DOWNPOUR_BUILD", ROOT / "build"))


def program(name):
    target = f"tests/unit/client/client_{name}"
    subprocess.run(["ninja", "-C", str(BUILD), target], check=True, stdout=subprocess.DEVNULL)
    return BUILD / target


def run(*command, **environment):
    done = subprocess.run(list(map(str, command)), timeout=300, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env={**os.environ, **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def numbers(text):
    return [float(word) for word in text.split()]


def test_built_in_c_on_their_server():
    server = tf.distribute.Server.create_local_server()
    run_model = program("run_model")
    here = numbers(run(run_model, "build", ""))
    there = numbers(run(run_model, "build", server.target))
    assert len(here) == 5 and here[-1] < here[0]
    assert there == pytest.approx(here, rel=1e-4)


def test_their_graph(tmp_path):
    with tf1.Graph().as_default() as graph:
        x = tf.constant([[1., 2.], [3., 4.]])
        p = tf1.cond(tf.reduce_sum(x) > 3, lambda: x * 2, lambda: -x)
        _, w = tf1.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, tf.matmul(v, x)),
                              [tf.constant(0), p])
        y = tf.nn.softmax(w / 100, name="y")
        with tf1.Session() as session:
            expected = session.run(y)
    (tmp_path / "graph.pb").write_bytes(graph.as_graph_def().SerializeToString())
    got = numbers(run(program("run_model"), "import", tmp_path / "graph.pb"))
    assert got == pytest.approx(list(expected.flatten()), rel=1e-4)


def test_their_saved_model(tmp_path):
    with tf1.Graph().as_default(), tf1.Session() as session:
        x = tf1.placeholder(tf.float32, [3], name="x")
        w = tf1.get_variable("w", initializer=[2., 3., 4.], use_resource=True)
        b = tf1.get_variable("b", initializer=1.5, use_resource=False)
        y = tf.add(x * w, b, name="y")
        session.run(tf1.global_variables_initializer())
        session.run(tf1.assign(b, 10.0))
        tf1.saved_model.simple_save(session, str(tmp_path / "model"), {"x": x}, {"y": y})
    assert numbers(run(program("run_model"), "load", tmp_path / "model")) == [12, 16, 22]


@pytest.mark.parametrize("name,count", [("function", 5), ("shape", 4), ("deprecated", 3)])
def test_one_program_two_libraries(tmp_path, name, count):
    test = program(name)
    assert run(test).count("  OK ]") == count
    folder = pathlib.Path(tf.sysconfig.get_lib())
    # The program loads libdownpour.so.0; under that name it finds genuine TensorFlow's library.
    (tmp_path / "libdownpour.so.0").symlink_to(folder / "libtensorflow_cc.so.2")
    theirs = run(test, LD_LIBRARY_PATH=f"{tmp_path}:{folder}", TF_CPP_MIN_LOG_LEVEL="3")
    assert theirs.count("  OK ]") == count
