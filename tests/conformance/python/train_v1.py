"""A parameter-server job of TensorFlow 1, as people wrote them: linear regression with one ps and
one worker. usage: train_v1.py JOB PS_ADDRESS WORKER_ADDRESS"""
import sys

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()
job, ps, worker = sys.argv[1:]
cluster = tf.train.ClusterSpec({"ps": [ps], "worker": [worker]})
server = tf.distribute.Server(cluster, job_name=job, task_index=0)
if job == "ps":
    server.join()

with tf1.device(tf1.train.replica_device_setter(cluster=cluster)):
    x = tf1.placeholder(tf.float32, [None, 3])
    y = tf1.placeholder(tf.float32, [None])
    w = tf1.get_variable("w", [3, 1], initializer=tf1.zeros_initializer(), use_resource=False)
    b = tf1.get_variable("b", [], initializer=tf1.zeros_initializer(), use_resource=True)
    step = tf1.train.get_or_create_global_step()
    loss = tf.reduce_mean(tf.square(tf.squeeze(tf.matmul(x, w), 1) + b - y))
    train = tf1.train.AdamOptimizer(0.1).minimize(loss, global_step=step)

random = np.random.RandomState(5)
points = random.uniform(-1, 1, (64, 3)).astype(np.float32)
values = points @ np.float32([1, -2, 3]) + np.float32(0.5)
with tf1.train.MonitoredTrainingSession(master=server.target, is_chief=True,
                                        hooks=[tf1.train.StopAtStepHook(40)]) as session:
    made = 0
    while not session.should_stop():
        _, now = session.run([train, loss], {x: points, y: values})
        made += 1
        print("step %d loss %.6f" % (made, now), flush=True)
