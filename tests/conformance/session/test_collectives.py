"""Collective ops among the CPU devices of one task, on a server of ours and on a genuine one."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from conftest import Server, tf1

R = tf.raw_ops
DEVICES = 4
# Genuine TensorFlow never forgets an instance key, so each test takes new ones.
INSTANCES = itertools.count(1)


@pytest.fixture(scope="module")
def ours():
    started = Server("--port", "0", "--cpu-devices", str(DEVICES))
    yield started.target
    started.stop()


@pytest.fixture(scope="module")
def theirs():
    config = tf1.ConfigProto(device_count={"CPU": DEVICES})
    return tf1.train.Server.create_local_server(config).target


@pytest.fixture(params=["tensorflow", "downpour"])
def devices(request):
    return request.getfixturevalue({"tensorflow": "theirs", "downpour": "ours"}[request.param])


def on_devices(make, count=DEVICES):
    """[make(rank, instance) on each of the first devices], with a new instance key."""
    instance, results = next(INSTANCES), []
    for rank in range(count):
        with tf.device(f"/device:CPU:{rank}"):
            results.append(make(rank, instance))
    return results


def run(target, fetches, steps=1):
    with tf1.Session(target, config=tf1.ConfigProto(operation_timeout_in_ms=120000)) as session:
        for _ in range(steps):
            results = session.run(fetches)
    return results


def tensor(rank, dtype=tf.float32, shape=(3, 2)):
    return tf.cast(tf.reshape(tf.range(int(np.prod(shape))), shape) * (rank + 1) + rank, dtype)


DTYPES = [tf.float32, tf.float64, tf.float16, tf.int32, tf.int64]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("merge,final", [("Add", "Id"), ("Add", "Div"), ("Mul", "Id"), ("Min", "Id"), ("Max", "Id")])
def test_reduce(devices, dtype, merge, final):
    reduced = on_devices(lambda rank, instance: R.CollectiveReduce(
        input=tensor(rank, dtype), group_size=DEVICES, group_key=1, instance_key=instance, merge_op=merge, final_op=final,
        subdiv_offsets=[0]))
    values = np.stack([np.arange(6).reshape(3, 2) * (rank + 1) + rank for rank in range(DEVICES)])
    want = {"Add": np.sum, "Mul": np.prod, "Min": np.min, "Max": np.max}[merge](values, axis=0)
    if final == "Div":
        want = want // DEVICES if dtype.is_integer else want / DEVICES
    for result in run(devices, reduced, steps=3):
        np.testing.assert_allclose(result, want.astype(dtype.as_numpy_dtype), rtol=1e-3)


def test_reduce_with_keys_as_inputs(devices):
    reduced = on_devices(lambda rank, instance: R.CollectiveReduceV2(
        input=tensor(rank), group_size=2, group_key=7, instance_key=instance, merge_op="Add", final_op="Id",
        ordering_token=[]), 2)
    for result in run(devices, reduced):
        np.testing.assert_allclose(result, np.arange(6).reshape(3, 2) * 3 + 1)


@pytest.mark.parametrize("shape", [(2,), (1, 3), (2, 2, 2)], ids=str)
def test_gather(devices, shape):
    whole = [shape[0] * 3, *shape[1:]]
    gathered = on_devices(lambda rank, instance: R.CollectiveGather(
        input=tensor(rank, shape=shape), group_size=3, group_key=2, instance_key=instance, shape=whole), 3)
    want = np.concatenate([np.arange(np.prod(shape)).reshape(shape) * (rank + 1) + rank for rank in range(3)])
    for result in run(devices, gathered):
        np.testing.assert_allclose(result, want)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("shape", [(2,), (1, 3)], ids=str)
def test_gather_with_keys_as_inputs(devices, dtype, shape):
    gathered = on_devices(lambda rank, instance: R.CollectiveGatherV2(
        input=tensor(rank, dtype, shape), group_size=3, group_key=22, instance_key=instance, ordering_token=[]), 3)
    want = np.concatenate([np.arange(np.prod(shape)).reshape(shape) * (rank + 1) + rank for rank in range(3)])
    for result in run(devices, gathered):
        np.testing.assert_array_equal(result, want.astype(dtype.as_numpy_dtype))


@pytest.mark.parametrize("dtype", [tf.float32, tf.int64, tf.bool], ids=lambda dtype: dtype.name)
def test_broadcast_with_keys_as_inputs(devices, dtype):
    def member(rank, instance):
        keys = dict(group_size=DEVICES, group_key=23, instance_key=instance)
        if rank == 1:
            return R.CollectiveBcastSendV2(input=tensor(rank, dtype), **keys)
        return R.CollectiveBcastRecvV2(T=dtype, shape=[3, 2], **keys)
    want = (np.arange(6).reshape(3, 2) * 2 + 1).astype(dtype.as_numpy_dtype)
    for result in run(devices, on_devices(member)):
        np.testing.assert_array_equal(result, want)


@pytest.mark.parametrize("dtype", [tf.float32, tf.int64, tf.bool], ids=lambda dtype: dtype.name)
def test_broadcast(devices, dtype):
    def member(rank, instance):
        keys = dict(group_size=DEVICES, group_key=3, instance_key=instance, shape=[3, 2])
        if rank == 2:
            return R.CollectiveBcastSend(input=tensor(rank, dtype), **keys)
        return R.CollectiveBcastRecv(T=dtype, **keys)
    want = (np.arange(6).reshape(3, 2) * 3 + 2).astype(dtype.as_numpy_dtype)
    for result in run(devices, on_devices(member)):
        np.testing.assert_array_equal(result, want)


def test_several_groups_and_instances(devices):
    def chain(rank, first):
        value = tensor(rank)
        for step in range(5):
            value = R.CollectiveReduce(input=value, group_size=2, group_key=10 + rank // 2, instance_key=1000 * first + step,
                                       merge_op="Add", final_op="Div", subdiv_offsets=[0])
        return value
    results = run(devices, on_devices(chain))
    for rank, result in enumerate(results):
        first = rank // 2 * 2
        want = np.arange(6).reshape(3, 2) * (first + 1.5) + first + .5
        np.testing.assert_allclose(result, want)


def test_a_member_that_does_not_come(ours):
    alone = on_devices(lambda rank, instance: R.CollectiveReduce(
        input=tensor(rank), group_size=2, group_key=4, instance_key=instance, merge_op="Add", final_op="Id",
        subdiv_offsets=[0], timeout_seconds=.2), 1)
    with pytest.raises(tf.errors.DeadlineExceededError, match="1 of 2 members of group 4"):
        run(ours, alone)


def test_an_error_elsewhere_ends_the_wait(ours):
    instance = next(INSTANCES)
    with tf.device("/device:CPU:0"):
        waits = R.CollectiveReduce(input=tensor(0), group_size=2, group_key=5, instance_key=instance, merge_op="Add",
                                   final_op="Id", subdiv_offsets=[0])
    with tf.device("/device:CPU:1"), tf1.control_dependencies([tf1.Assert(tf.constant(False), ["no"])]):
        fails = R.CollectiveReduce(input=tensor(1), group_size=2, group_key=5, instance_key=instance, merge_op="Add",
                                   final_op="Id", subdiv_offsets=[0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="assertion failed"):
        run(ours, [waits, fails])


def test_members_that_do_not_fit(ours):
    shapes = on_devices(lambda rank, instance: R.CollectiveReduce(
        input=tensor(rank, shape=(rank + 1,)), group_size=2, group_key=6, instance_key=instance, merge_op="Add",
        final_op="Id", subdiv_offsets=[0]), 2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Shape mismatch in the collective instance"):
        run(ours, shapes)


def test_a_group_of_more_than_the_devices(ours):
    large = on_devices(lambda rank, instance: R.CollectiveReduce(
        input=tensor(rank), group_size=DEVICES + 1, group_key=8, instance_key=instance, merge_op="Add", final_op="Id",
        subdiv_offsets=[0]), 1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="no other tasks"):
        run(ours, large)
