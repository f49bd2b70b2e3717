"""The session is on a server. usage: session_after.py FOLDER grpc://HOST:PORT"""
import os
import sys

import tensorflow.compat.v1 as tf

from data import batches

tf.disable_v2_behavior()
folder, target = sys.argv[1:]
x = tf.placeholder(tf.float32, [None, 3])
y = tf.placeholder(tf.float32, [None])
w = tf.get_variable("w", [3, 1], initializer=tf.zeros_initializer())
b = tf.get_variable("b", [], initializer=tf.zeros_initializer())
loss = tf.reduce_mean(tf.square(tf.squeeze(tf.matmul(x, w), 1) + b - y))
train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
saver = tf.train.Saver()

with tf.Session(target) as session:
    session.run(tf.global_variables_initializer())
    for points, values in batches(100):
        _, now = session.run([train, loss], {x: points, y: values})
    print("loss %.6f" % now)
    print("saved", saver.save(session, os.path.join(folder, "model")))
