"""Whole models (model_zoo.py): twenty training steps from one seed on our server give the losses of
genuine TensorFlow."""

import numpy as np
import pytest
import tensorflow as tf

import model_zoo

tf1 = tf.compat.v1
tf1.disable_eager_execution()


def losses_of(target, build, use_resource):
    graph = tf.Graph()
    with graph.as_default(), tf1.variable_scope("", use_resource=use_resource):
        tf1.set_random_seed(1234)
        losses, trains, feeds = build()
        initialize = tf1.global_variables_initializer()
    config = tf1.ConfigProto(operation_timeout_in_ms=300000)
    with tf1.Session(target, graph=graph, config=config) as session:
        session.run(initialize)
        phases = list(zip(losses, trains)) if isinstance(losses, list) else [(losses, trains)]
        return np.array([[session.run(phase, feed_dict=feed)[0] for phase in phases] for feed in feeds])


@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
@pytest.mark.parametrize("name", model_zoo.MODELS)
def test_model(server, name, use_resource):
    build = model_zoo.MODELS[name]
    want, got = losses_of("", build, use_resource), losses_of(server, build, use_resource)
    assert want.shape[0] == 20 and np.all(np.isfinite(want))
    assert np.abs(want[-1] - want[0]).max() > 1e-3, "the model does not learn: nothing is compared"
    np.testing.assert_allclose(got, want, rtol=1e-4)
    tf1.Session.reset(server)
