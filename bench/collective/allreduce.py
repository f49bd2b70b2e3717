"""Ring all-reduce of one large tensor over several tasks: ours and genuine TensorFlow's, by turns.

usage: python bench/collective/allreduce.py [--build build] [--megabytes 64] [--rounds 10] [--tasks 2,3]

Every task holds a variable of that size on its CPU; a step sums them all over the ring and keeps the results where they are.
Both clusters run at the same time on this machine, one step of each by turns, so that what else happens hits both alike. Prints the
median and the best time of a step, and the bandwidth that the ring had: each task sends and receives 2 (n - 1) / n of the tensor.
The medians go to BUILD/bench/results.json too.
"""

import argparse
import json
import os
import socket
import statistics
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import results  # noqa: E402
from servers import start  # noqa: E402

LEADER = "/job:worker/replica:0/task:0"
GENUINE = """
import json, sys
import tensorflow as tf
config = tf.compat.v1.ConfigProto()
config.experimental.collective_group_leader = "%s"
server = tf.compat.v1.train.Server(json.loads(sys.argv[1]), job_name="worker", task_index=int(sys.argv[2]), config=config)
target = server.target
print("Started server with target:", target.decode() if isinstance(target, bytes) else target, flush=True)
server.join()
""" % LEADER


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("localhost", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def start_cluster(command, tasks):
    """command(spec, index) for each task; the processes and the first one's target."""
    spec = json.dumps({"worker": [f"localhost:{port}" for port in free_ports(tasks)]})
    started = [start(command(spec, index)) for index in range(tasks)]
    return [process for process, _ in started], started[0][1]


class Run:
    """A session whose step is one all-reduce."""

    def __init__(self, target, tasks, megabytes):
        import tensorflow as tf
        tf1 = tf.compat.v1
        config = tf1.ConfigProto(operation_timeout_in_ms=120000)
        config.experimental.collective_group_leader = LEADER
        graph = tf.Graph()
        with graph.as_default():
            reduced, variables = [], []
            for index in range(tasks):
                with tf.device(f"/job:worker/task:{index}"):
                    variables.append(tf1.get_variable(f"v{index}", [megabytes << 18], use_resource=True,
                                                      initializer=tf1.constant_initializer(index + 1)))
                    reduced.append(tf.raw_ops.CollectiveReduce(
                        input=variables[-1], group_size=tasks, group_key=1, instance_key=1, merge_op="Add", final_op="Id",
                        subdiv_offsets=[0]))
            self.step = [tensor.op for tensor in reduced]
            self.probes = [tensor[-1] for tensor in reduced]
        self.session = tf1.Session(target, graph=graph, config=config)
        self.session.run([variable.initializer for variable in variables])
        assert self.session.run(self.probes) == [tasks * (tasks + 1) / 2] * tasks
        self.session.run(self.step)
        self.times = []

    def measure(self):
        begin = time.perf_counter()
        self.session.run(self.step)
        self.times.append(time.perf_counter() - begin)


    def close(self):
        """Before its servers end: a client whose servers are gone waits for them without end."""
        self.session.close()


def report(build, tasks, megabytes, runs):
    for name, run in runs.items():
        median, best = statistics.median(run.times), min(run.times)
        rate = 2 * (tasks - 1) / tasks * megabytes / median / 1024
        print(f"{tasks} tasks, {megabytes} MB, {name:10}  median {median * 1e3:7.1f} ms   best {best * 1e3:7.1f} ms   "
              f"{rate:5.2f} GB/s a task", flush=True)
    ours, theirs = (statistics.median(runs[name].times) * 1e3 for name in ("ours", "genuine"))
    results.add(build, f"all-reduce of {megabytes} MiB over {tasks} tasks", "ms", ours, theirs)
    print(f"{tasks} tasks, {megabytes} MB: ours takes "
          f"{ours / theirs:.2f} of genuine's time", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--tasks", default="2,3")
    options = parser.parse_args()
    makes = {"ours": lambda spec, index: [os.path.join(options.build, "downpour"), "serve", "--cluster", spec, "--job", "worker",
                                          "--task", str(index)],
             "genuine": lambda spec, index: [sys.executable, "-c", GENUINE, spec, str(index)]}
    for tasks in map(int, options.tasks.split(",")):
        processes, runs = [], {}
        try:
            for name, command in makes.items():
                started, target = start_cluster(command, tasks)
                processes += started
                runs[name] = Run(target, tasks, options.megabytes)
            for _ in range(options.rounds):
                for run in runs.values():
                    run.measure()
            for run in runs.values():
                run.close()
        finally:
            for process in processes:
                process.kill()
                process.wait()
        report(options.build, tasks, options.megabytes, runs)


if __name__ == "__main__":
    main()
