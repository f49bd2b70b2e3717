"""Servers that were started without a cluster are made one by a client's session, whose
ConfigProto.cluster_def lists them. In every mix of our tasks and genuine ones."""

import pytest
import tensorflow as tf

from clusters import Genuine, Task, free_ports, tf1
import genuine

MIXES = ["downpour-downpour", "downpour-tensorflow", "tensorflow-downpour", "tensorflow-tensorflow"]


class Alone:
    """A server that is started as a cluster of one task."""

    def __init__(self, make):
        if make == "downpour":
            self.server = Task("--port", "0")
            self.server.wait_until_ready()
            self.target = self.server.target
        else:
            self.server = Genuine(genuine.serve_alone, free_ports(1)[0])
            self.target = self.server.expect("ready")
        self.address = self.target[len("grpc://"):]

    def stop(self):
        if isinstance(self.server, Task):
            self.server.stop()
        else:
            self.server.kill()


@pytest.fixture(scope="module", params=MIXES)
def servers(request):
    """Two servers; the client talks to the first."""
    started = [Alone(make) for make in request.param.split("-")]
    yield started
    for one in started:
        one.stop()


def config_of(servers, share=False):
    cluster = tf1.train.ClusterSpec({"worker": {3: servers[0].address},
                                     "ps": [servers[1].address]})
    config = tf1.ConfigProto(cluster_def=cluster.as_cluster_def())
    config.experimental.share_session_state_in_clusterspec_propagation = share
    return config


def test_devices_have_the_names_that_the_client_gives(servers):
    with tf1.Session(servers[0].target, config=config_of(servers)) as session:
        names = [device.name for device in session.list_devices() if ":CPU:" in device.name]
    assert sorted(names) == ["/job:ps/replica:0/task:0/device:CPU:0",
                             "/job:worker/replica:0/task:3/device:CPU:0"]


def test_steps_cross_such_a_cluster(servers):
    fed = tf1.placeholder(tf.float32, [2])
    with tf.device("/job:ps/task:0"):
        there = fed + 1.0
    with tf.device("/job:worker/task:3"):
        back = there * 2.0
    metadata = tf1.RunMetadata()
    with tf1.Session(servers[0].target, config=config_of(servers)) as session:
        for scale in (1.0, 5.0):
            value = session.run(back, {fed: [scale, 0.0]},
                                tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE), metadata)
            assert list(value) == [2 * (scale + 1), 2.0]
    places = {node.node_name: one.device for one in metadata.step_stats.dev_stats
              for node in one.node_stats}
    assert places[there.op.name] == "/job:ps/replica:0/task:0/device:CPU:0"
    assert places[back.op.name] == "/job:worker/replica:0/task:3/device:CPU:0"


def test_two_sessions_share_nothing(servers):
    with tf.device("/job:ps/task:0"):
        v = tf1.get_variable("alone", initializer=1.0, use_resource=False)
    with tf1.Session(servers[0].target, config=config_of(servers)) as session:
        session.run(v.initializer)
        assert session.run(v.assign_add(1.0)) == 2.0
        with tf1.Session(servers[0].target, config=config_of(servers)) as other:
            with pytest.raises(tf.errors.FailedPreconditionError):
                other.run(v)


def test_two_sessions_share_variables_when_asked_to(servers):
    with tf.device("/job:ps/task:0"):
        v = tf1.get_variable("shared", initializer=1.0, use_resource=False)
    with tf1.Session(servers[0].target, config=config_of(servers, share=True)) as session:
        session.run(v.initializer)
        assert session.run(v.assign_add(1.0)) == 2.0
        with tf1.Session(servers[0].target, config=config_of(servers, share=True)) as other:
            assert other.run(v) == 2.0
    tf1.Session.reset(servers[0].target)


def failure(servers, cluster):
    config = tf1.ConfigProto(cluster_def=tf1.train.ClusterSpec(cluster).as_cluster_def())
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        with tf1.Session(servers[0].target, config=config) as session:
            session.run(tf.constant(1))
    return str(caught.value)


def test_a_cluster_without_the_master(servers):
    assert "is not included in the provided cluster_def" in failure(
        servers, {"ps": [servers[1].address]})


def test_the_master_twice(servers):
    assert "Found multiple matching tasks" in failure(
        servers, {"ps": [servers[0].address], "worker": [servers[0].address]})


def test_the_name_that_the_server_has_already(servers):
    assert "provided when the server booted" in failure(
        servers, {"local": [servers[0].address, servers[1].address]})
