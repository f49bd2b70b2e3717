"""A job of tf.estimator whose servers are Downpour's: the estimator starts a server, and drops it.
usage: TF_CONFIG=... estimator_v1.py MODEL_FOLDER"""
import sys

import downpour
import numpy as np
import tensorflow as tf
from tensorflow.python.training import server_lib

server_lib.Server = downpour.Server
POINTS = np.random.RandomState(5).uniform(-1, 1, (64, 3)).astype(np.float32)


def input_fn():
    values = POINTS @ np.float32([[1], [-2], [3]])
    return tf.data.Dataset.from_tensor_slices(({"x": POINTS}, values)).repeat().batch(64)


config = tf.estimator.RunConfig(model_dir=sys.argv[1], save_checkpoints_steps=20, log_step_count_steps=10)
estimator = tf.estimator.LinearRegressor([tf.feature_column.numeric_column("x", [3])], config=config)
tf.estimator.train_and_evaluate(estimator, tf.estimator.TrainSpec(input_fn, max_steps=40),
                                tf.estimator.EvalSpec(input_fn, steps=1))
print("trained until", estimator.get_variable_value("global_step"), flush=True)
