"""tfdbg over two tasks, ours and genuine: each task dumps the nodes that run on it, whichever task
is the master."""

import pytest
from tensorflow.python.debug.lib import debug_data, debug_utils

from clusters import tf, tf1

IDENTITY = "DebugIdentity"


def plain():
    config = tf1.ConfigProto()
    config.graph_options.optimizer_options.opt_level = tf1.OptimizerOptions.L0
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return config


def dump_of(target, root):
    with tf.device("/job:ps/task:0"):
        weight = tf1.get_variable("weight", initializer=[2.0, 3.0], use_resource=False)
    with tf.device("/job:worker/task:0"):
        x = tf1.placeholder(tf.float32, [2], name="x")
        y = tf.multiply(x, weight, name="y")
    with tf.device("/job:ps/task:0"):
        update = tf1.assign_add(weight, y, name="update")
    options = tf1.RunOptions(output_partition_graphs=True)
    metadata = tf1.RunMetadata()
    debug_utils.watch_graph(options, tf1.get_default_graph(), debug_urls=f"file://{root}")
    with tf1.Session(target, config=plain()) as session:
        session.run(weight.initializer)
        value = session.run(update, {x: [1, 10]}, options=options, run_metadata=metadata)
    assert value.tolist() == [4, 33]
    return debug_data.DebugDumpDir(str(root), partition_graphs=metadata.partition_graphs)


@pytest.mark.parametrize("makes", [("downpour", "downpour"), ("tensorflow", "tensorflow"),
                                   ("downpour", "tensorflow"), ("tensorflow", "downpour")])
def test_each_task_dumps_its_share(cluster, tmp_path, makes):
    made = cluster({"ps": 1, "worker": 1}, dict(zip(("ps", "worker"), makes)))
    dump = dump_of(made.target("worker", 0), tmp_path)
    ps, worker = (f"/job:{job}/replica:0/task:0/device:CPU:0" for job in ("ps", "worker"))
    assert sorted(dump.devices()) == [ps, worker]
    assert {name: dump.node_device(name) for name in ("weight", "y", "update")} == {
        "weight": ps, "y": worker, "update": ps}
    assert dump.get_tensors("weight", 0, IDENTITY, ps)[0].tolist() == [2, 3]
    assert dump.get_tensors("y", 0, IDENTITY, worker)[0].tolist() == [2, 30]
    assert dump.get_tensors("update", 0, IDENTITY, ps)[0].tolist() == [4, 33]
    assert dump.node_inputs("update", device_name=ps)[0] == "weight"
    assert dump.core_metadata.output_names == ["update:0"]
