"""Synchronous replicas: a step needs the gradients of every worker. TF_CONFIG says which task this is.
usage: downpour launch --ps N --workers N -- python sync_after.py"""
import json
import os

import downpour
import tensorflow.compat.v1 as tf

from data import batches

tf.disable_v2_behavior()
config = json.loads(os.environ["TF_CONFIG"])
job, task = config["task"]["type"], config["task"]["index"]
cluster = tf.train.ClusterSpec(config["cluster"])
server = downpour.Server(cluster, job_name=job, task_index=task)
if job == "ps":
    server.join()

workers = cluster.num_tasks("worker")
with tf.device(tf.train.replica_device_setter(worker_device="/job:worker/task:%d" % task,
                                              cluster=cluster)):
    x = tf.placeholder(tf.float32, [None, 3])
    y = tf.placeholder(tf.float32, [None])
    w = tf.get_variable("w", [3, 1], initializer=tf.zeros_initializer())
    b = tf.get_variable("b", [], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean(tf.square(tf.squeeze(tf.matmul(x, w), 1) + b - y))
    step = tf.train.get_or_create_global_step()
    optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.3),
                                               replicas_to_aggregate=workers,
                                               total_num_replicas=workers)
    train = optimizer.minimize(loss, global_step=step)

hooks = [optimizer.make_session_run_hook(task == 0), tf.train.StopAtStepHook(last_step=100)]
own_devices = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % task])
with tf.train.MonitoredTrainingSession(master=server.target, is_chief=task == 0, hooks=hooks,
                                       config=own_devices, stop_grace_period_secs=2) as session:
    for points, values in batches(1000, seed=task):
        if session.should_stop():
            break
        _, now, made = session.run([train, loss, step], {x: points, y: values})
print("worker %d: loss %.6f after %d steps" % (task, now, made))
