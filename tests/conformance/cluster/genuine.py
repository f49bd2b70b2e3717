"""Scripts as users write them, each run in a process of genuine TensorFlow (clusters.Genuine).

A script whose `target` is None starts its task's server itself, as users do. Else it is the client
of a task of ours.
"""

import threading

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()


def serve_alone(say, port):
    """Runs a server that is a cluster of one task."""
    server = tf1.train.Server({"local": [f"localhost:{port}"]}, job_name="local", task_index=0)
    say("ready", server.target)
    server.join()


def _master(say, cluster, job, index, target):
    if target is None:
        server = tf1.train.Server(cluster, job_name=job, task_index=index)
        say("ready", server.target)
        return server, server.target
    return None, target


def hello(say, cluster, index, target, text, device, go):
    """One of two tasks that greet each other: says the greeting and the device that computed it."""
    server, target = _master(say, cluster, "local", index, target)
    if not go.wait(60):
        return
    with tf.device(device):
        greeting = tf.constant(text)
        name = tf1.placeholder(tf.string, [])
        length = tf.strings.length(name)  # a constant may be copied elsewhere; this op runs on `device`
    options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
    metadata = tf1.RunMetadata()
    say("connecting", target)
    with tf1.Session(target, config=tf1.ConfigProto(log_device_placement=True)) as session:
        value, _ = session.run([greeting, length], {name: text}, options, metadata)
    places = [one.device for one in metadata.step_stats.dev_stats
              for node in one.node_stats if node.node_name == length.op.name]
    say("done", (value, places))
    if server:
        server.join()


class Regression:
    """Linear regression by between-graph replication, as worker `index` builds it."""

    def __init__(self, cluster, index):
        with tf1.device(tf1.train.replica_device_setter(worker_device=f"/job:worker/task:{index}",
                                                        cluster=cluster)):
            self.x = tf1.placeholder(tf.float32, [100])
            self.y = tf1.placeholder(tf.float32, [100])
            self.weight = tf1.Variable(tf1.random_uniform([1], -1.0, 1.0))
            self.bias = tf1.Variable(tf.zeros([1]))
            loss = tf.reduce_mean(tf.square(self.weight * self.x + self.bias - self.y))
            self.step = tf1.Variable(0, name="global_step", trainable=False,
                                     collections=[tf1.GraphKeys.GLOBAL_VARIABLES,
                                                  tf1.GraphKeys.GLOBAL_STEP])
            optimizer = tf1.train.GradientDescentOptimizer(0.1)
            self.train = optimizer.minimize(loss, global_step=self.step)
            tf1.summary.scalar("cost", loss)


def regression(say, cluster, index, target, last_step, folder, initialized):
    """The client of one worker. All but the chief wait until the chief has initialized, because a
    MonitoredSession that comes too early sleeps for 30 s."""
    server, target = _master(say, cluster, "worker", index, target)
    model = Regression(cluster, index)
    if index > 0 and not initialized.wait(60):
        return
    random = np.random.RandomState(index)
    steps = 0
    with tf1.train.MonitoredTrainingSession(
            master=target, is_chief=index == 0, checkpoint_dir=folder, save_checkpoint_secs=None,
            hooks=[tf1.train.StopAtStepHook(last_step=last_step)]) as session:
        initialized.set()
        while not session.should_stop():
            x = random.rand(100).astype(np.float32)
            session.run(model.train, {model.x: x, model.y: x * 0.1 + 0.3})
            steps += 1
    say("done", steps)
    if server:
        server.join()


def open_session(say, target):
    """Opens a session and never closes it."""
    session = tf1.Session(target)
    session.run(tf.constant(1))
    say("open", None)
    threading.Event().wait()


def wait_for_ever(say, target, filters, name):
    """Runs a step that never ends, because a queue's element, gradients or a task are missing."""
    with tf.device("/job:ps/task:0"):
        queue = tf1.FIFOQueue(10, [tf.float32], shared_name="batches")
        batch = queue.dequeue(name="next_batch")
        gradients = tf1.ConditionalAccumulator(tf.float32, shape=[], shared_name="gradients")
        gradients.take_grad(2, name="mean_gradient")
    with tf.device("/job:worker/task:1"):
        tf.multiply(batch, 2.0, name="doubled")
    with tf1.Session(target, config=tf1.ConfigProto(device_filters=filters)) as session:
        session.run(name)
