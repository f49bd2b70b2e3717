"""Tensors that a session keeps between steps (GetSessionHandle) stay on the task that made them."""

import numpy as np
import pytest
import tensorflow as tf

from clusters import tf1


def test_a_tensor_stays_on_its_task(cluster):
    tasks = cluster({"local": 2}, {"local": ["downpour", "downpour"]})
    handles = []
    with tf1.Session(tasks.target("local", 0)) as session:
        for task in range(2):
            with tf.device(f"/job:local/task:{task}"):
                value = tf.range(3.) + float(task)
            handles.append(session.run(tf1.get_session_handle(value)))
            assert handles[task].handle.endswith(f"/job:local/replica:0/task:{task}/device:CPU:0")
        holders, tensors = zip(*(tf1.get_session_tensor(one.handle, tf.float32) for one in handles))
        feeds = {holder: one.handle for holder, one in zip(holders, handles)}
        np.testing.assert_array_equal(session.run(tf.add(*tensors), feeds), [1., 3., 5.])
        holder, deleter = tf1.delete_session_tensor(handles[1].handle)
        session.run(deleter, {holder: handles[1].get_raw_handle()})
        np.testing.assert_array_equal(session.run(tensors[0], feeds), [0., 1., 2.])
        with pytest.raises(tf.errors.InvalidArgumentError, match="is not in the session store"):
            session.run(tensors[1], feeds)
