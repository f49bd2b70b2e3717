"""A genuine TensorFlow client on a Downpour server: python examples/hello.py grpc://localhost:2222

Builds a graph with a variable, runs it on the server and prints what came back.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
import tensorflow.compat.v1 as tf  # noqa: E402


def main():
    target = sys.argv[1] if len(sys.argv) > 1 else "grpc://localhost:2222"
    with tf.Graph().as_default():
        matrix = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        total = tf.get_variable("total", initializer=tf.zeros([2, 2]), use_resource=False)
        step = tf.assign_add(total, tf.matmul(matrix, matrix))
        with tf.Session(target) as session:
            print("devices:", ", ".join(device.name for device in session.list_devices()))
            session.run(tf.global_variables_initializer())
            for number in range(3):
                print(f"step {number}: total = {session.run(step).tolist()}")


if __name__ == "__main__":
    main()
