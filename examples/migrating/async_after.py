"""Asynchronous training over parameter servers, between-graph, with Downpour's server.
usage: async_after.py ps|worker TASK PS_ADDRESSES WORKER_ADDRESSES"""
import sys

import downpour
import tensorflow.compat.v1 as tf

from data import batches

tf.disable_v2_behavior()
job, task = sys.argv[1], int(sys.argv[2])
cluster = tf.train.ClusterSpec({"ps": sys.argv[3].split(","), "worker": sys.argv[4].split(",")})
server = downpour.Server(cluster, job_name=job, task_index=task)
if job == "ps":
    server.join()

with tf.device(tf.train.replica_device_setter(worker_device="/job:worker/task:%d" % task,
                                              cluster=cluster)):
    x = tf.placeholder(tf.float32, [None, 3])
    y = tf.placeholder(tf.float32, [None])
    w = tf.get_variable("w", [3, 1], initializer=tf.zeros_initializer())
    b = tf.get_variable("b", [], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean(tf.square(tf.squeeze(tf.matmul(x, w), 1) + b - y))
    step = tf.train.get_or_create_global_step()
    train = tf.train.AdamOptimizer(0.05).minimize(loss, global_step=step)

hooks = [tf.train.StopAtStepHook(last_step=400)]
own_devices = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % task])
with tf.train.MonitoredTrainingSession(master=server.target, is_chief=task == 0, hooks=hooks,
                                       config=own_devices) as session:
    for points, values in batches(400, seed=task):
        if session.should_stop():
            break
        _, now = session.run([train, loss], {x: points, y: values})
print("worker %d: loss %.6f" % (task, now))
