"""How a cluster is defined: task numbers with gaps, TF_CONFIG, device_filters, and host names whose
address changes."""

import json
import shutil
import subprocess

import pytest
import tensorflow as tf

from clusters import BUILD, GenuineTask, Task, free_ports, tf1, wait_until


@pytest.fixture
def started():
    """A list of tasks that are stopped at the end of the test."""
    tasks = []
    yield tasks
    for task in tasks:
        task.stop()


def where(task):
    """An op that runs on that device."""
    with tf.device(task):
        return tf.square(tf1.placeholder_with_default(3.0, []))


@pytest.mark.parametrize("make", ["downpour", "tensorflow"])
def test_gaps_between_task_numbers(started, make):
    ports = free_ports(3)
    addresses = [f"localhost:{port}" for port in ports]
    sparse = {"ps": {7: addresses[0]}, "worker": {0: addresses[1], 3: addresses[2]}}
    as_json = {job: {str(index): address for index, address in tasks.items()}
               for job, tasks in sparse.items()}
    started.append(Task("--cluster", json.dumps(as_json), "--job", "worker", "--task", "0"))
    config = {"cluster": as_json, "task": {"type": "ps", "index": 7}}
    started.append(Task(TF_CONFIG=json.dumps(config)))
    started.append(Task("--cluster", json.dumps(as_json), "--job", "worker", "--task", "3")
                   if make == "downpour" else GenuineTask(sparse, "worker", 3))
    for task in started:
        task.wait_until_ready()
    with tf1.Session("grpc://" + addresses[1]) as session:
        names = {device.name for device in session.list_devices() if ":CPU:" in device.name}
        assert names == {"/job:ps/replica:0/task:7/device:CPU:0",
                         "/job:worker/replica:0/task:0/device:CPU:0",
                         "/job:worker/replica:0/task:3/device:CPU:0"}
        assert session.run(where("/job:worker/task:3") + where("/job:ps/task:7")) == 18.0
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(where("/job:worker/task:1"))


@pytest.mark.parametrize("make", ["downpour", "tensorflow"])
def test_device_filters(cluster, make):
    """A session sees its own task and the tasks that its filters name. It does not wait for a missing
    task that they leave out."""
    one = cluster({"ps": 2, "worker": 2}, {"ps": ["downpour", make], "worker": ["downpour", None]})
    filters = ["/job:ps/task:1", "/job:worker/task:0"]
    with tf1.Session(one.target("worker", 0),
                     config=tf1.ConfigProto(device_filters=filters)) as session:
        names = sorted(device.name for device in session.list_devices() if ":CPU:" in device.name)
        assert names == ["/job:ps/replica:0/task:1/device:CPU:0",
                         "/job:worker/replica:0/task:0/device:CPU:0"]
        assert session.run(where("/job:ps/task:1")) == 9.0
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(where("/job:ps/task:0"))


def can_have_own_hosts():
    return shutil.which("unshare") and subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "true"],
        stderr=subprocess.DEVNULL).returncode == 0


class TaskWithHosts(Task):
    """A server that resolves host names with a file that the test writes."""

    def __init__(self, hosts, *arguments):
        self.hosts = hosts
        super().__init__(*arguments)

    def command(self, arguments):
        script = 'mount --bind "$0" /etc/hosts && exec "$@"'
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script,
                str(self.hosts), str(BUILD / "downpour"), "serve", *arguments]


@pytest.mark.skipif(not can_have_own_hosts(), reason="needs the right to mount")
def test_a_name_that_moves_is_looked_up_again(started, tmp_path):
    own, moving = free_ports(2)
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n127.0.0.1 moving-task\n", encoding="ascii")
    spec = {"local": [f"localhost:{own}", f"moving-task:{moving}"]}
    first = TaskWithHosts(hosts, "--cluster", json.dumps(spec), "--job", "local")
    started.append(first)
    first.wait_until_ready()

    def second_at(address):
        task = TaskWithHosts(hosts, "--cluster", json.dumps(spec), "--job", "local", "--task", "1",
                             "--bind", address)
        task.wait_until_ready()
        return task

    def runs():
        config = tf1.ConfigProto(operation_timeout_in_ms=60000)
        with tf1.Session(f"grpc://localhost:{own}", config=config) as session:
            return session.run(where("/job:local/task:1")) == 9.0
    second = second_at("127.0.0.1")
    assert runs()
    second.kill()
    hosts.write_text("127.0.0.1 localhost\n127.0.0.2 moving-task\n", encoding="ascii")
    started.append(second_at("127.0.0.2"))
    assert runs()
    wait_until(lambda: "connected" in first.status(), "the link is there again")
