"""`downpour status` and `downpour stop` on a running server: what they print and how they end."""

import subprocess
import threading

import pytest
import tensorflow as tf

from conftest import BUILD, PATIENCE, Server, tf1, wait_until


def command(*arguments):
    return subprocess.run([str(BUILD / "downpour"), *arguments], capture_output=True, text=True,
                          timeout=PATIENCE)


def test_status_names_what_waits():
    server = Server("--port", "0")
    with tf1.Session(server.target) as session:
        queue = tf1.FIFOQueue(1, [tf.int32], name="empty")
        never = queue.dequeue(name="take_from_empty")
        thread = threading.Thread(
            target=lambda: pytest.raises(tf.errors.OpError, session.run, never))
        thread.start()

        def shows_both():
            shown = command("status", "--target", server.target)
            assert shown.returncode == 0
            return ("take_from_empty" in shown.stdout
                    and "waits for /job:local/replica:0/task:0" in shown.stdout)
        wait_until(shows_both, "the status names the step and the node that wait")
    thread.join(PATIENCE)
    assert not thread.is_alive()
    server.stop()


def test_stop_ends_a_server_cleanly():
    server = Server("--port", "0")
    assert command("stop", "--target", server.target).returncode == 0
    assert server.process.wait(PATIENCE) == 0


def test_nobody_there_is_one_clear_line():
    shown = command("status", "--target", "grpc://localhost:1", "--timeout", "2s")
    assert shown.returncode == 1
    assert "localhost:1" in shown.stderr and shown.stderr.count("\n") == 1


def test_usage_errors():
    assert command("status").returncode == 2
    assert command("stop", "--target", "nonsense").returncode == 2
