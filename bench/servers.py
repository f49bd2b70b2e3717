"""Servers for benchmarks: genuine TensorFlow's and ours, each in a process of its own."""

import re
import subprocess

GENUINE = """
import tensorflow as tf
server = tf.compat.v1.train.Server.create_local_server()
target = server.target
print("Started server with target:", target.decode() if isinstance(target, bytes) else target,
      flush=True)
server.join()
"""


def start(command):
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in process.stdout:
        match = re.search(r"Started server with target: (grpc://\S+)", line)
        if match:
            return process, match.group(1)
    raise SystemExit(f"{command[0]} did not start")
