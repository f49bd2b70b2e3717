"""tfdbg: the dump of a debugged run, read with TensorFlow's own DebugDumpDir. The dump of our server
must be equal to the dump of a genuine server for the same run."""

import builtins
import json

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2
from tensorflow.core.util import event_pb2
from tensorflow.python.debug.lib import debug_data, debug_utils
from tensorflow.python.debug.wrappers import dumping_wrapper, hooks, local_cli_wrapper
from tensorflow.python.framework import op_def_registry
from tensorflow.python.ops import control_flow_util

from conftest import Server, tf1

IDENTITY = "DebugIdentity"


def plain():
    """A configuration in which TensorFlow's optimizers remove no node before it is watched."""
    config = tf1.ConfigProto()
    config.graph_options.optimizer_options.opt_level = tf1.OptimizerOptions.L0
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return config


def watched(root, ops=IDENTITY, graph=None, **more):
    options = tf1.RunOptions(output_partition_graphs=True)
    debug_utils.watch_graph(options, graph or tf1.get_default_graph(), debug_ops=ops,
                            debug_urls=f"file://{root}", **more)
    return options


def watching(*watches):
    """RunOptions with these watches: (node, slot, ops, urls[, tolerates failures])."""
    options = tf1.RunOptions()
    for node, slot, ops, urls, *tolerates in watches:
        options.debug_options.debug_tensor_watch_opts.add(
            node_name=node, output_slot=slot, debug_ops=ops, debug_urls=urls,
            tolerate_debug_op_creation_failures=bool(tolerates))
    return options


def take(session, root, fetches, feeds=None, **more):
    """Runs with all nodes watched; gives the values and the dump."""
    metadata = tf1.RunMetadata()
    values = session.run(fetches, feeds, options=watched(root, **more), run_metadata=metadata)
    return values, load(root, metadata.partition_graphs)


def load(root, partition_graphs=None):
    return debug_data.DebugDumpDir(str(root), partition_graphs=partition_graphs)


def names_in(root):
    """The names of the dumped files, without times and hashes."""
    return sorted(str(file.relative_to(root)).rsplit("_", 1)[0].split("_hash")[0]
                  for file in root.glob("**/*") if file.is_file())


@pytest.fixture
def targets(genuine, server):
    """The genuine server and ours, in this order."""
    for target in (genuine.target, server.target):
        tf1.Session.reset(target)
    return {"theirs": genuine.target, "ours": server.target}


def text_of(value):
    """A dumped value in a form that can be compared."""
    if isinstance(value, debug_data.InconvertibleTensorProto):
        proto = value._tensor_proto
        return proto.dtype, str(proto.tensor_shape), value.initialized
    return value.dtype.str, value.shape, repr(value.tolist())  # a NaN is not equal to itself


def dumped(dump):
    """{(watch key, device): values in the order in which they were written}"""
    found = {}
    for data in sorted(dump.dumped_tensor_data, key=lambda data: data.extended_timestamp):
        found.setdefault((data.watch_key, data.device_name), []).append(text_of(data.get_tensor()))
    return found


def edges(dump):
    """Op, inputs and readers of each node in the dump, without debug nodes."""
    return {(device, node): (dump.node_op_type(node, device),
                             dump.node_inputs(node, device_name=device),
                             sorted(dump.node_inputs(node, True, device_name=device)),
                             sorted(dump.node_recipients(node, device_name=device)),
                             sorted(dump.node_recipients(node, True, device_name=device)))
            for device in dump.devices() for node in dump.nodes(device)}


def assert_same(theirs, ours):
    assert dumped(ours) == dumped(theirs)
    assert ours.devices() == theirs.devices()
    assert edges(ours) == edges(theirs)
    assert ours.core_metadata == theirs.core_metadata
    assert len(ours.partition_graphs()) == len(theirs.partition_graphs())


def take_both(targets, tmp_path, before, fetches, feeds=None, **more):
    dumps = {}
    for who, target in targets.items():
        with tf1.Session(target, config=plain()) as session:
            session.run(before)
            dumps[who] = take(session, tmp_path / who, fetches, feeds, **more)
    np.testing.assert_equal(dumps["ours"][0], dumps["theirs"][0])
    assert_same(dumps["theirs"][1], dumps["ours"][1])
    return dumps["ours"][1]


# ---- What is dumped ----

def test_values_of_all_kinds(targets, tmp_path):
    x = tf1.placeholder(tf.float32, [2], name="x")
    old = tf1.get_variable("old", initializer=[1.0, 2.0], use_resource=False)
    new = tf1.get_variable("new", initializer=3.0, use_resource=True)
    empty = tf1.get_variable("empty", [3], use_resource=False)
    y = tf.add(x * old, new, name="y")
    texts = tf.strings.as_string(y, name="texts")
    parts = tf.split(y, 2, name="parts")
    large = tf.fill([300, 100], y[0], name="large")
    nothing = tf.zeros([0, 4], name="nothing") + tf.reduce_sum(y)
    update = tf1.assign(old, y, name="update")
    dump = take_both(targets, tmp_path, [old.initializer, new.initializer],
                     [texts, parts, tf.reduce_sum(large), nothing, update,
                      tf1.is_variable_initialized(empty)], {x: [1, 2]})
    assert dump.get_tensors("y", 0, IDENTITY)[0].tolist() == [4, 7]
    assert dump.get_tensors("parts", 1, IDENTITY)[0].tolist() == [7]
    assert dump.get_tensors("texts", 0, IDENTITY)[0].tolist() == [b"4.000000", b"7.000000"]
    assert dump.get_tensors("update", 0, IDENTITY)[0].tolist() == [4, 7]
    assert dump.get_tensors("large", 0, IDENTITY)[0].shape == (300, 100)
    assert not dump.get_tensors("empty", 0, IDENTITY)[0].initialized
    assert dump.get_tensors("new", 0, IDENTITY)[0].initialized


def test_a_reference_is_dumped_as_it_is_read(targets, tmp_path):
    """The dump has the value before the update and the value after it."""
    count = tf1.get_variable("count", initializer=5, use_resource=False)
    update = tf1.assign_add(count, 2, name="update")
    with tf.control_dependencies([update]):
        after = tf.identity(count._ref(), name="after")
    dump = take_both(targets, tmp_path, count.initializer, after)
    assert [dump.get_tensors(name, 0, IDENTITY)[0] for name in ("update", "after")] == [7, 7]


def test_loops_and_branches(targets, tmp_path, monkeypatch):
    monkeypatch.setattr(control_flow_util, "ENABLE_CONTROL_FLOW_V2", False)
    x = tf1.placeholder(tf.float32, [], name="x")
    _, total = tf1.while_loop(lambda i, t: i < 4, lambda i, t: (i + 1, t + tf.square(x)),
                              [0, 0.0], name="loop", parallel_iterations=3)
    chosen = tf1.cond(total > 10, lambda: total * 2, lambda: total * 3, name="choice")
    # A loop in a branch that is not taken never runs.
    skipped = tf1.cond(total > 1000, lambda: tf1.while_loop(
        lambda i: i < 2, lambda i: i + 1, [0], name="inner") + 1, lambda: tf.constant(7))
    loop = take_both(targets, tmp_path, [], chosen, {x: 2.0})
    assert [v.tolist() for v in loop.get_tensors("loop/add", 0, IDENTITY)] == [1, 2, 3, 4]
    with tf1.Session(targets["ours"], config=plain()) as session:
        values, dump = take(session, tmp_path / "skipped", skipped, {x: 2.0})
    assert values == 7
    assert not dump.debug_watch_keys("inner/add")


def test_whatever_is_watched_is_there(targets, tmp_path):
    """By default TensorFlow's optimizers remove nodes before they are watched. Ours leave a debugged
    run alone."""
    x = tf1.placeholder(tf.float32, [4, 4], name="x")
    hidden = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, tf.ones([4, 4]), name="product"),
                                       tf.constant([1.0, -1, 2, -2]) * 2.0), name="hidden")
    y = tf.reduce_sum(hidden + hidden, name="y")
    dumps = {}
    for who, target in targets.items():
        with tf1.Session(target) as session:
            _, dumps[who] = take(session, tmp_path / who, y, {x: np.eye(4)})
    ours, theirs = dumped(dumps["ours"]), dumped(dumps["theirs"])
    own = {op.name for op in tf1.get_default_graph().get_operations() if op.outputs} - {"x"}
    assert own <= {key.rsplit(":", 2)[0] for key, _ in ours}
    shared = {key: value for key, value in theirs.items() if key[0].rsplit(":", 2)[0] in own}
    assert shared and shared == {key: ours[key] for key in shared}


def test_numbers_about_values(targets, tmp_path):
    x = tf1.placeholder(tf.float32, [2, 3], name="x")
    y = tf.math.log(x, name="y")
    tf.cast(y, tf.float16, name="half")
    z = tf.cast(tf.greater(y, 0), tf.int32, name="z")
    ops = ["DebugNanCount", "DebugNumericSummary(lower_bound=-0.5;upper_bound=1)",
           "DebugNumericSummary(mute_if_healthy=true)", IDENTITY]
    # The same debug op twice writes to one name: two values, in either order.
    kinds = {"first": ops[:2] + ops[3:], "second": ops[2:3]}
    for kind, wanted in kinds.items():
        dump = take_both(targets, tmp_path / kind, [], [z, "half:0"],
                         {x: [[0, 1, 2], [-1, 0.7, np.inf]]}, ops=wanted,
                         tolerate_debug_op_creation_failures=True)
        assert dump.get_tensors("y", 0, "DebugNumericSummary")[0][2] == 1
        with pytest.raises(debug_data.WatchKeyDoesNotExistInDebugDumpDirError):
            dump.get_tensors("half", 0, "DebugNumericSummary")
    with pytest.raises(debug_data.WatchKeyDoesNotExistInDebugDumpDirError):
        dump.get_tensors("z", 0, "DebugNumericSummary")  # healthy


def told_in(file):
    return json.loads(event_pb2.Event.FromString(file.read_bytes()).log_message.message)


def test_each_run_is_told(targets, tmp_path):
    """Runs with the same watches are counted in their metadata. Runs without watches in between are
    not dumped."""
    x = tf1.placeholder(tf.float32, [], name="x")
    y = tf.multiply(x, 3.0, name="y")
    told = {}
    for who, target in targets.items():
        root = tmp_path / who
        with tf1.Session(target, config=plain()) as session:
            options = watched(root)
            for step in range(3):
                options.debug_options.global_step = 10 + step
                assert session.run(y, {x: step}, options=options) == 3 * step
                session.run(y, {x: 100})
        values = [dump.tolist() for dump in load(root).get_tensors("y", 0, IDENTITY)]
        files = sorted(root.glob("_tfdbg_core_metadata_*"))
        told[who] = [values, [file.name.rsplit("_", 1)[0] for file in files],
                     [told_in(file) for file in files],
                     len(list(root.glob("*/_tfdbg_graph_hash*")))]
    assert told["ours"] == told["theirs"]
    assert told["ours"][0] == [0, 3, 6]
    assert [run["global_step"] for run in told["ours"][2]] == [10, 11, 12]


def test_callables(targets, tmp_path):
    """The values of callables are dumped, but no metadata of their runs."""
    x = tf1.placeholder(tf.float32, [], name="x")
    y = tf.multiply(x, 3.0, name="y")
    found = {}
    for who, target in targets.items():
        root = tmp_path / who
        options = config_pb2.CallableOptions(feed=[x.name], fetch=[y.name])
        options.run_options.CopyFrom(watched(root))
        with tf1.Session(target, config=plain()) as session:
            call = session._make_callable_from_options(options)
            assert [call(np.float32(i)) for i in (1, 2)] == [[3.0], [6.0]]
            del call
        found[who] = names_in(root)
    assert found["ours"] == found["theirs"]
    assert sum(name.endswith("CPU_0/y_0_DebugIdentity") for name in found["ours"]) == 2


def test_two_folders_at_once(targets, tmp_path):
    y = tf.add(1.0, 2.0, name="y")
    roots = [f"{tmp_path}/one", f"{tmp_path}/two"]
    with tf1.Session(targets["ours"]) as session:
        session.run(y, options=watching(("y", 0, [IDENTITY], [f"file://{root}" for root in roots])))
    for root in roots:
        assert load(root).get_tensors("y", 0, IDENTITY)[0] == 3


# ---- The debugger's own clients ----

def test_dumping_wrapper(targets, tmp_path):
    x = tf1.placeholder(tf.float32, [2], name="x")
    y = tf.multiply(x, 2.0, name="y")
    dumps = {}
    for who, target in targets.items():
        root = tmp_path / who
        root.mkdir()
        with tf1.Session(target, config=plain()) as session:
            wrapped = dumping_wrapper.DumpingDebugWrapperSession(session, str(root))
            for _ in range(2):
                assert wrapped.run(y, {x: [1, 2]}).tolist() == [2, 4]
        dumps[who] = [load(run) for run in sorted(root.iterdir())]
    assert len(dumps["ours"]) == len(dumps["theirs"]) == 2
    for theirs, ours in zip(dumps["theirs"], dumps["ours"]):
        assert_same(theirs, ours)
        assert ours.run_fetches_info == theirs.run_fetches_info
        assert ours.run_feed_keys_info == theirs.run_feed_keys_info


def test_dumping_hook(targets, tmp_path):
    step = tf1.train.get_or_create_global_step()
    train = tf1.assign_add(step, 1, name="train")
    dumps = {}
    for who, target in targets.items():
        root = tmp_path / who
        root.mkdir()
        with tf1.train.MonitoredSession(
                tf1.train.ChiefSessionCreator(master=target, config=plain()),
                hooks=[hooks.DumpingDebugHook(str(root))]) as session:
            assert [session.run(train) for _ in range(2)] == [1, 2]
        dumps[who] = [load(run) for run in sorted(root.iterdir())]
    for theirs, ours in zip(dumps["theirs"], dumps["ours"]):
        assert dumped(theirs) == dumped(ours)
        assert theirs.core_metadata == ours.core_metadata


def test_command_line(target, tmp_path, monkeypatch, capsys):
    """LocalCLIDebugWrapperSession with readline: a user finds the node that made a NaN."""
    x = tf1.placeholder(tf.float32, [2], name="x")
    y = tf.math.log(x, name="y")
    z = tf.multiply(y, 2.0, name="z")
    commands = iter(["run", "lt -f has_inf_or_nan", "pt y:0", "ni z", "run"])
    monkeypatch.setattr(builtins, "input", lambda prompt="": next(commands))
    with tf1.Session(target, config=plain()) as session:
        wrapped = local_cli_wrapper.LocalCLIDebugWrapperSession(
            session, ui_type="readline", dump_root=str(tmp_path / "dump"))
        wrapped.add_tensor_filter("has_inf_or_nan", debug_data.has_inf_or_nan)
        assert np.isnan(wrapped.run(z, {x: [-1, 1]})[0])
    shown = capsys.readouterr().out
    assert '2 dumped tensor(s) passing filter "has_inf_or_nan"' in shown
    assert 'Tensor "y:0:DebugIdentity"' in shown and "array([nan,  0.], dtype=float32)" in shown
    assert "Op: Mul" in shown and "[Log] y" in shown and "__copy" not in shown


# ---- Errors ----

def wrong(root):
    here = [f"file://{root}/dump"]
    return {
        "unknown op": [("y", 0, ["DebugNothing"], here)],
        "op of two inputs": [("y", 0, ["AddV2"], here)],
        "op without inputs": [("y", 0, ["NoOp"], here)],
        "no kernel for strings": [("s", 0, ["DebugNumericSummary"], here)],
        "no count for strings": [("s", 0, ["DebugNanCount"], here)],
        "negative slot": [("y", -1, [IDENTITY], here)],
        "slot of a wildcard": [("*", 0, [IDENTITY], here)],
        "only a bracket": [("y", 0, ["DebugIdentity)"], here)],
        "no name": [("y", 0, ["(a=1)"], here)],
        "no value": [("y", 0, ["DebugIdentity(a)"], here)],
        "empty value": [("y", 0, ["DebugIdentity(a=)"], here)],
        "same attribute twice": [("y", 0, ["DebugIdentity(gated_grpc=1;gated_grpc=0)"], here)],
        "unknown attribute": [("y", 0, ["DebugIdentity(zzz=1)"], here)],
        "not a gate": [("y", 0, ["DebugIdentity(gated_grpc=maybe)"], here)],
        "not a number": [("y", 0, ["DebugNumericSummary(lower_bound=x)"], here)],
        "not a bool": [("y", 0, ["DebugNumericSummary(mute_if_healthy=x)"], here)],
        "list as attribute": [("y", 0, ["DebugNumericSummary(debug_urls=x)"], here)],
        "semicolon in a URL": [("y", 0, [IDENTITY], [here[0] + ";b"])],
        "root is a file": [("y", 0, [IDENTITY], [f"file://{root}/file"])],
        "parent is a file": [("y", 0, [IDENTITY], [f"file://{root}/file/x"])],
        "grandparent is a file": [("y", 0, [IDENTITY], [f"file://{root}/file/x/y"])],
        "system's folder": [("y", 0, [IDENTITY], ["file:///proc/nothing"])],
    }


@pytest.mark.parametrize("what", wrong(""))
def test_what_is_wrong_with_a_watch(targets, tmp_path, what):
    x = tf1.placeholder(tf.float32, [2], name="x")
    y = tf.add(x, 1.0, name="y")
    s = tf.strings.as_string(y, name="s")
    (tmp_path / "file").write_text("")
    options = watching(*wrong(tmp_path)[what])
    said = {}
    for who, target in targets.items():
        with tf1.Session(target, config=plain()) as session:
            with pytest.raises(tf.errors.OpError) as caught:
                session.run(s, {x: [1, 2]}, options=options)
            said[who] = caught.value.error_code, caught.value.message
            assert session.run(s, {x: [1, 2]})[0] == b"2.000000"
    assert said["ours"] == said["theirs"]


@pytest.mark.parametrize("watches", [
    [("nothing", 0, [IDENTITY])], [("y", 7, [IDENTITY])], [("*", -1, [IDENTITY])],
    [("y", 0, [])], [("y", 0, ["DebugNothing", "DebugNanCount"], True)], [("y", 0, ["Identity"])],
    [("y", 0, [IDENTITY]), ("y", 0, ["DebugNanCount"])],
    [("y", 0, ["DebugNanCount"]), ("*", -1, [IDENTITY])],
    [("y", 0, ["DebugNumericSummary( lower_bound=-1 ; upper_bound=2;)"])],
    [("y", 0, ["DebugIdentity(gated_grpc=true)"])],
    pytest.param([("y", 0, ["DebugIdentityV3"])], marks=pytest.mark.skipif(
        op_def_registry.get("DebugIdentityV3") is None, reason="this TensorFlow has no such op")),
])
def test_watches_that_find_little(targets, tmp_path, watches):
    x = tf1.placeholder(tf.float32, [2], name="x")
    y = tf.add(x, 1.0, name="y")
    z = tf.multiply(y, 2.0, name="z")
    found = {}
    for who, target in targets.items():
        root = tmp_path / who
        options = watching(*[(node, slot, ops, [f"file://{root}"], *more)
                             for node, slot, ops, *more in watches])
        with tf1.Session(target, config=plain()) as session:
            assert session.run(z, {x: [1, 2]}, options=options).tolist() == [4, 6]
        found[who] = names_in(root)
    assert found["ours"] == found["theirs"]


def test_streams_are_refused(server):
    y = tf.add(1.0, 2.0, name="y")
    with tf1.Session(server.target) as session:
        with pytest.raises(tf.errors.UnimplementedError, match="grpc://localhost:6064"):
            session.run(y, options=watching(("y", 0, [IDENTITY], ["grpc://localhost:6064"])))
        with pytest.raises(tf.errors.InvalidArgumentError, match="names no folder"):
            session.run(y, options=watching(("y", 0, [IDENTITY], ["file://"])))
        assert session.run(y) == 3


def test_disk_limit(tmp_path):
    y = tf.fill([100], 2.0, name="y")
    started = Server("--port", "0", environment={"TFDBG_DISK_BYTES_LIMIT": "1000"})
    with tf1.Session(started.target) as session:
        options = watching(("y", 0, [IDENTITY], [f"file://{tmp_path}"]))
        for _ in range(2):
            session.run(y, options=options)
        with pytest.raises(ValueError) as caught:  # the client cannot read the debug node's name
            session.run(y, options=options)
        why = caught.value.__context__
        assert isinstance(why, tf.errors.ResourceExhaustedError)
        assert "allowance (1000), therefore it cannot dump an additional 400 byte(s)" in str(why)
        options.debug_options.reset_disk_byte_usage = True
        session.run(y, options=options)
    started.stop()
    assert len(list(tmp_path.glob("*/y_0_DebugIdentity_*"))) == 3
