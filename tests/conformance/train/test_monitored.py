"""Monitored training: sessions, hooks, supervisors and estimators of genuine TensorFlow on our tasks."""

import json
import threading

import numpy as np
import pytest

from clusters import Cluster, tf, tf1
from programs import estimate
from replicas import DEADLINE, Replica, between_graph, own_tasks, run_replicas


def regression(cluster, index, use_resource=False):
    """(train, loss, step, weight) of a model that learns weight 2."""
    with tf1.device(between_graph(cluster, index)), tf1.variable_scope("",
                                                                       use_resource=use_resource):
        weight = tf1.get_variable("weight", [], initializer=tf1.zeros_initializer())
        step = tf1.train.get_or_create_global_step()
        x = tf.random.uniform([20], seed=1)
        loss = tf.reduce_mean(tf.square(weight * x - 2.0 * x), name="loss")
        tf1.summary.scalar("cost", loss)
        tf1.summary.histogram("errors", weight * x - 2.0 * x)
        train = tf1.train.GradientDescentOptimizer(0.5).minimize(loss, global_step=step)
    return train, loss, step, weight


class Seen(tf1.train.SessionRunHook):
    """Counts the calls that a hook gets."""

    def __init__(self):
        self.calls = []

    def begin(self):
        self.calls.append("begin")

    def after_create_session(self, session, coord):
        self.calls.append("created")

    def before_run(self, run_context):
        self.calls.append("before")

    def after_run(self, run_context, run_values):
        self.calls.append("after")

    def end(self, session):
        self.calls.append("end")


def test_every_stock_hook(fresh, tmp_path):
    train, loss, step, weight = regression(fresh, 0)
    seen = Seen()
    logged = tf1.train.LoggingTensorHook({"loss": loss}, every_n_iter=10)
    final = tf1.train.FinalOpsHook(weight)
    hooks = [
        tf1.train.StopAtStepHook(last_step=60),
        tf1.train.CheckpointSaverHook(str(tmp_path), save_steps=20),
        tf1.train.SummarySaverHook(save_steps=10, output_dir=str(tmp_path),
                                   summary_op=tf1.summary.merge_all()),
        tf1.train.StepCounterHook(every_n_steps=15, output_dir=str(tmp_path)),
        logged,
        tf1.train.NanTensorHook(loss),
        final,
        tf1.train.ProfilerHook(save_steps=30, output_dir=str(tmp_path)),
        tf1.train.GlobalStepWaiterHook(0),
        seen,
    ]
    with tf1.train.MonitoredSession(tf1.train.ChiefSessionCreator(
            master=fresh.target("worker", 0)), hooks=hooks) as session:
        while not session.should_stop():
            session.run(train)
    assert abs(final.final_ops_values - 2.0) < 0.01
    assert seen.calls[:2] == ["begin", "created"] and seen.calls[-1] == "end"
    assert seen.calls.count("after") == 60
    assert tf1.train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-60")
    tags = [value.tag for path in tmp_path.glob("events.out.tfevents.*")
            for event in tf1.train.summary_iterator(str(path)) for value in event.summary.value]
    # Step 1, then each tenth; the hook reads the step beside its update, or just before.
    assert 6 <= tags.count("cost") == tags.count("errors") <= 8
    assert "global_step/sec" in tags
    timelines = list(tmp_path.glob("timeline-*.json"))
    assert timelines
    for path in timelines:
        devices = {event["args"]["name"] for event in json.loads(path.read_text())["traceEvents"]
                   if event.get("name") == "process_name"}
        assert any("/job:ps" in name for name in devices), devices


def test_a_nan_stops_training(fresh):
    with tf1.device(between_graph(fresh, 0)):
        v = tf1.get_variable("v", [], initializer=tf1.zeros_initializer())
        tf1.train.get_or_create_global_step()
        loss = tf1.log(v - 1.0)
    with pytest.raises(tf1.train.NanLossDuringTrainingError):
        with tf1.train.MonitoredTrainingSession(
                fresh.target("worker", 0), hooks=[tf1.train.NanTensorHook(loss)]) as session:
            session.run(loss)


def test_a_session_goes_on_from_its_checkpoint(fresh, tmp_path):
    """The second run restores, though the parameter servers were emptied in between."""
    for last in [30, 50]:
        with tf.Graph().as_default():
            train, _, step, _ = regression(fresh, 0)
            hooks = [tf1.train.StopAtStepHook(last_step=last)]
            with tf1.train.MonitoredTrainingSession(
                    fresh.target("worker", 0), checkpoint_dir=str(tmp_path), hooks=hooks,
                    save_checkpoint_steps=10, save_summaries_steps=5, log_step_count_steps=5
                    ) as session:
                first = session.run(step)
                while not session.should_stop():
                    session.run(train)
        assert first == (0 if last == 30 else 30)
        tf1.Session.reset(fresh.target("worker", 0))
    assert tf1.train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-50")


def test_a_scaffold_with_everything(fresh, tmp_path):
    """Own initializers, tables, a checkpoint to start from, and a saver in shards."""
    with tf1.device(between_graph(fresh, 0)):
        v = tf1.get_variable("v", [3], initializer=tf1.zeros_initializer())
        tf1.get_variable("other", [3], initializer=tf1.zeros_initializer())
        local = tf1.get_local_variable("local", [], initializer=tf1.ones_initializer())
        tf1.train.get_or_create_global_step()
        table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2], tf.string, tf.int64), -1)
        looked = table.lookup(tf.constant(["b", "c"]))
        fed = tf1.placeholder(tf.float32, [3])
        set_v = v.assign(fed)
    scaffold = tf1.train.Scaffold(
        init_op=tf1.global_variables_initializer(), init_fn=lambda scaffold, session: session.run(
            set_v, {fed: [1, 2, 3]}), saver=tf1.train.Saver(sharded=True, max_to_keep=3))
    with tf1.train.MonitoredTrainingSession(
            fresh.target("worker", 0), scaffold=scaffold, checkpoint_dir=str(tmp_path)) as session:
        values = session.run([v, local, looked])
    np.testing.assert_array_equal(values[0], [1, 2, 3])
    assert values[1] == 1.0
    np.testing.assert_array_equal(values[2], [2, -1])
    assert len(list(tmp_path.glob("model.ckpt-0.data-*-of-00002"))) == 2


def test_supervisors_of_chief_and_worker(fresh, tmp_path):
    ready = threading.Event()

    def replica(index):
        train, _, step, weight = regression(fresh, index)
        supervisor = tf1.train.Supervisor(
            is_chief=index == 0, logdir=str(tmp_path), global_step=step, save_model_secs=1,
            save_summaries_secs=1, recovery_wait_secs=1)
        if index > 0:
            assert ready.wait(DEADLINE)
        with supervisor.managed_session(fresh.target("worker", index),
                                        config=own_tasks(index)) as session:
            ready.set()
            while not supervisor.should_stop() and session.run(step) < 200:
                session.run(train)
            if index == 0:
                supervisor.saver.save(session, supervisor.save_path, global_step=step)
            value = session.run(weight)
            supervisor.request_stop()
            return value
    for value in run_replicas(2, replica):
        assert abs(value - 2.0) < 0.01
    assert tf1.train.latest_checkpoint(str(tmp_path))
    assert list(tmp_path.glob("events.out.tfevents.*"))


def test_a_session_manager_waits_for_the_model(fresh):
    train, _, step, weight = regression(fresh, 1)
    manager = tf1.train.SessionManager(
        ready_op=tf1.report_uninitialized_variables(), recovery_wait_secs=1)
    found = []

    def wait():
        session = manager.wait_for_session(fresh.target("worker", 1), config=own_tasks(1),
                                           max_wait_secs=60)
        found.append(session.run(step))
        session.close()
    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    waiter.join(1.5)
    assert waiter.is_alive() and not found
    with tf.Graph().as_default():
        regression(fresh, 0)
        session, restored = tf1.train.SessionManager().recover_session(fresh.target("worker", 0))
        assert not restored
        session.run(tf1.global_variables_initializer())
        session.close()
    waiter.join(30)
    assert found == [0]


@pytest.mark.skipif(not tf.__version__.startswith("2.12"), reason="no estimators any more")
def test_train_and_evaluate_with_our_parameter_servers(tmp_path):
    """The chief, the worker and the evaluator are genuine tasks, told by TF_CONFIG; the parameter
    servers are ours."""
    cluster = Cluster({"chief": 1, "ps": 2, "worker": 1},
                      {"chief": None, "ps": "downpour", "worker": None})
    programs = {}
    try:
        for job in ["chief", "worker", "evaluator"]:
            config = {"cluster": cluster.spec, "task": {"type": job, "index": 0}}
            programs[job] = Replica(estimate, config, str(tmp_path), 1000)
        for program in programs.values():
            program.wait_for("finished")
    finally:
        for program in programs.values():
            program.kill()
        cluster.stop()
    last = int(tf1.train.latest_checkpoint(str(tmp_path)).rsplit("-")[-1])
    assert 1000 <= last <= 1010
    evaluated = [value.simple_value for path in (tmp_path / "eval").glob("events.out.tfevents.*")
                 for event in tf1.train.summary_iterator(str(path))
                 for value in event.summary.value if value.tag == "average_loss"]
    assert evaluated and evaluated[-1] < 0.01, evaluated
