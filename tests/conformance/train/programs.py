"""Training programs that run in processes of their own (replicas.Replica): each is a function that
reports through say(kind, value). They are what users write, down to the session's options."""

import json
import os
import time

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1


def look_every_second():
    """A replica that waits for the model looks for it each second; TensorFlow's default is 30."""
    plain = tf1.train.SessionManager.__init__

    def patient(self, *arguments, **options):
        options.setdefault("recovery_wait_secs", 1)
        plain(self, *arguments, **options)
    tf1.train.SessionManager.__init__ = patient


class AtTheEnd(tf1.train.SessionRunHook):
    """What these tensors are when training is over; a step's own fetches are read beside its
    update, or long before it."""

    def __init__(self, tensors):
        self.tensors, self.values = tensors, None

    def end(self, session):
        self.values = session.run(self.tensors)


def linear(say, hosts, task, folder, last_step, save_steps=None):
    """Linear regression with asynchronous replicas, as the textbooks have it."""
    tf1.disable_v2_behavior()
    look_every_second()
    cluster = tf1.train.ClusterSpec(hosts)
    with tf1.device(tf1.train.replica_device_setter(worker_device=f"/job:worker/task:{task}",
                                                    cluster=cluster)):
        x_data = tf1.placeholder(tf.float32, [100])
        y_data = tf1.placeholder(tf.float32, [100])
        weight = tf1.Variable(tf1.random_uniform([1], -1.0, 1.0))
        bias = tf1.Variable(tf.zeros([1]))
        y = weight * x_data + bias
        loss = tf.reduce_mean(tf.square(y - y_data))
        global_step = tf1.Variable(0, name="global_step", trainable=False)
        optimizer = tf1.train.GradientDescentOptimizer(0.1)
        train_op = optimizer.minimize(loss, global_step=global_step)
        tf1.summary.scalar("cost", loss)
    result = AtTheEnd([global_step, weight, bias])
    hooks = [tf1.train.StopAtStepHook(last_step=last_step), result]
    config = tf1.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{task}"])
    with tf1.train.MonitoredTrainingSession(
            master="grpc://" + hosts["worker"][task], is_chief=task == 0, checkpoint_dir=folder,
            save_checkpoint_secs=None, save_checkpoint_steps=save_steps, hooks=hooks,
            config=config) as session:
        say("ready", None)
        told = time.monotonic()
        while not session.should_stop():
            train_x = np.random.rand(100).astype(np.float32)
            train_y = train_x * 0.1 + 0.3
            _, step = session.run([train_op, global_step],
                                  feed_dict={x_data: train_x, y_data: train_y})
            if time.monotonic() - told > 0.01:
                told = time.monotonic()
                say("step", int(step))
    step, w, b = result.values
    say("finished", (int(step), float(w[0]), float(b[0])))


def estimate(say, config, folder, steps):
    """One task of Estimator.train_and_evaluate; TF_CONFIG says which."""
    os.environ["TF_CONFIG"] = json.dumps(config)
    tf1.disable_v2_behavior()

    def examples():
        x = np.random.RandomState(0).rand(1000, 1).astype(np.float32)
        return tf1.data.Dataset.from_tensor_slices(({"x": x}, 2 * x + 1)).repeat().batch(50)
    estimator = tf1.estimator.LinearRegressor(
        [tf1.feature_column.numeric_column("x")], optimizer=lambda: tf1.train.FtrlOptimizer(0.5),
        config=tf1.estimator.RunConfig(model_dir=folder, save_checkpoints_steps=200))
    tf1.estimator.train_and_evaluate(
        estimator, tf1.estimator.TrainSpec(examples, max_steps=steps),
        tf1.estimator.EvalSpec(examples, steps=5, start_delay_secs=0, throttle_secs=0))
    say("finished", None)


def saved_values(number, rows):
    """What save number `number` of save_forever holds."""
    return np.full(rows, number, np.float32), np.arange(number, number + rows, dtype=np.float32)


def save_forever(say, target, folder, rows):
    """Sets two variables to a number's values and saves them, again and again."""
    tf1.disable_eager_execution()
    feeds = [tf1.placeholder(tf.float32, [rows]) for _ in "ab"]
    variables = [tf1.get_variable(name, [rows], initializer=tf1.zeros_initializer())
                 for name in "ab"]
    assign = [v.assign(fed).op for v, fed in zip(variables, feeds)]
    saver = tf1.train.Saver(variables, max_to_keep=2)
    with tf1.Session(target) as session:
        for number in range(1, 1000):
            session.run(assign, dict(zip(feeds, saved_values(number, rows))))
            say("started", number)
            saver.save(session, folder + "/model", global_step=number, write_meta_graph=False)
            say("finished", number)
