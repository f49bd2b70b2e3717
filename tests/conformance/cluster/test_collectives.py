"""Collective ops between tasks: rings of our tasks, and mixed rings with genuine servers, with each kind as the leader."""

import itertools

import numpy as np
import pytest

from collective_tasks import GROUPS, INSTANCES, R, Ring
from clusters import tf, tf1

OURS, THEIRS = "downpour", "tensorflow"
RINGS = {
    "two-ours": ([OURS, OURS], 0, 1),
    "three-ours-led-by-1": ([OURS] * 3, 1, 1),
    "two-ours-of-two-devices": ([OURS] * 2, 0, 2),
    "ours-leads-theirs": ([OURS, THEIRS], 0, 1),
    "theirs-leads-ours": ([THEIRS, OURS], 0, 1),
    "ours-between-theirs": ([THEIRS, OURS, THEIRS], 1, 1),
    "theirs-between-ours": ([OURS, THEIRS, OURS], 1, 1),
    "mixed-of-two-devices": ([OURS, THEIRS], 1, 2),
    "all-theirs": ([THEIRS, THEIRS, THEIRS], 0, 1),
}


@pytest.fixture(scope="module", params=RINGS, ids=str)
def ring(request):
    made = Ring(*RINGS[request.param])
    made.group = next(GROUPS)
    yield made
    made.stop()


@pytest.fixture(params=["first", "last"])
def master(request, ring):
    return 0 if request.param == "first" else len(ring.spec["worker"]) - 1


def values(rank, count, dtype=tf.float32):
    return ((np.arange(count) % 7) * (rank + 1) + rank).astype(dtype.as_numpy_dtype)


def reduced(ring, count, dtype, merge, final):
    every = np.stack([values(rank, count, dtype) for rank in range(ring.size)]).astype(np.float64)
    whole = {"Add": np.sum, "Mul": np.prod, "Min": np.min, "Max": np.max}[merge](every, axis=0)
    if final == "Div":
        whole = np.trunc(whole / ring.size) if dtype.is_integer else whole / ring.size
    return whole.astype(dtype.as_numpy_dtype)


DTYPES = [tf.float32, tf.float64, tf.float16, tf.int32, tf.int64]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("merge,final", [("Add", "Id"), ("Add", "Div"), ("Max", "Id")])
def test_reduce(ring, dtype, merge, final):
    fetches = ring.on_devices(lambda rank, instance: R.CollectiveReduce(
        input=values(rank, 101, dtype), group_size=ring.size, group_key=ring.group, instance_key=instance, merge_op=merge,
        final_op=final, subdiv_offsets=[0]))
    for result in ring.run(fetches, steps=2):
        np.testing.assert_allclose(result, reduced(ring, 101, dtype, merge, final), rtol=1e-3)


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 1000, 100003])
def test_reduce_of_any_length(ring, master, count):
    fetches = ring.on_devices(lambda rank, instance: R.CollectiveReduce(
        input=values(rank, count), group_size=ring.size, group_key=ring.group, instance_key=instance, merge_op="Add",
        final_op="Id", subdiv_offsets=[0]))
    for result in ring.run(fetches, master):
        np.testing.assert_array_equal(result, reduced(ring, count, tf.float32, "Add", "Id"))


@pytest.mark.parametrize("offsets", [[], [0, 0], [0, -1], [1, -2, 0]], ids=str)
def test_reduce_over_several_rings(ring, offsets):
    fetches = ring.on_devices(lambda rank, instance: R.CollectiveReduce(
        input=values(rank, 1001), group_size=ring.size, group_key=ring.group, instance_key=instance, merge_op="Add",
        final_op="Id", subdiv_offsets=offsets))
    for result in ring.run(fetches):
        np.testing.assert_array_equal(result, reduced(ring, 1001, tf.float32, "Add", "Id"))


@pytest.mark.parametrize("rings", [-1, 0, 3])
def test_reduce_large_with_keys_as_inputs(ring, rings):
    if rings != -1 and ring.make_of("worker", ring.leader) == THEIRS:
        pytest.skip("a genuine leader knows nothing of the limit when another member asks it first")
    count = 5 << 20  # 20 MB: more than one ring when that is allowed
    fetches = ring.on_devices(lambda rank, instance: tf.reduce_sum(tf.cast(R.CollectiveReduceV2(
        input=tf.cast(tf.range(count) % 7 * (rank + 1) + rank, tf.float32), group_size=ring.size, group_key=ring.group,
        instance_key=instance, merge_op="Add", final_op="Id", ordering_token=[], max_subdivs_per_device=rings), tf.float64)
        * tf.cast(tf.range(count) % 13, tf.float64)))
    want = np.sum(reduced(ring, count, tf.float32, "Add", "Id").astype(np.float64) * (np.arange(count) % 13))
    for result in ring.run(fetches):
        assert result == want


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("with_inputs", [False, True], ids=["attributes", "inputs"])
def test_gather(ring, dtype, with_inputs):
    def member(rank, instance):
        mine = values(rank, 10, dtype).reshape(2, 5)
        keys = dict(group_size=ring.size, group_key=ring.group, instance_key=instance)
        if with_inputs:
            return R.CollectiveGatherV2(input=mine, ordering_token=[], **keys)
        return R.CollectiveGather(input=mine, shape=[2 * ring.size, 5], **keys)
    want = np.concatenate([values(rank, 10, dtype).reshape(2, 5) for rank in range(ring.size)])
    for result in ring.run(ring.on_devices(member), steps=2):
        np.testing.assert_array_equal(result, want)


@pytest.mark.parametrize("dtype", [tf.float32, tf.int64, tf.bool], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("with_inputs", [False, True], ids=["attributes", "inputs"])
def test_broadcast_from_each(ring, dtype, with_inputs):
    for source in range(ring.size):
        def member(rank, instance):
            keys = dict(group_size=ring.size, group_key=ring.group, instance_key=instance)
            if rank == source and with_inputs:
                return R.CollectiveBcastSendV2(input=values(rank, 12, dtype).reshape(3, 4), **keys)
            if rank == source:
                return R.CollectiveBcastSend(input=values(rank, 12, dtype).reshape(3, 4), shape=[3, 4], **keys)
            if with_inputs:
                return R.CollectiveBcastRecvV2(T=dtype, shape=[3, 4], **keys)
            return R.CollectiveBcastRecv(T=dtype, shape=[3, 4], **keys)
        for result in ring.run(ring.on_devices(member), steps=2):
            np.testing.assert_array_equal(result, values(source, 12, dtype).reshape(3, 4))


def test_many_at_once(ring, master):
    fetches = [ring.on_devices(lambda rank, instance: R.CollectiveReduce(
        input=values(rank, 10 + i), group_size=ring.size, group_key=ring.group, instance_key=instance, merge_op="Add",
        final_op="Id", subdiv_offsets=[0])) for i in range(20)]
    for i, results in enumerate(ring.run(fetches, master, steps=3)):
        for result in results:
            np.testing.assert_array_equal(result, reduced(ring, 10 + i, tf.float32, "Add", "Id"))


def between_client(ring, keys, steps):
    """The client of one task: runs a sum that depends on the step, a broadcast from the last task, and a gather."""
    def client(session, index):
        fed = tf1.placeholder(tf.float32, [50])
        common = dict(group_size=len(ring.spec["worker"]), group_key=ring.between)
        total = R.CollectiveReduce(input=fed, instance_key=keys[0], merge_op="Add", final_op="Div", subdiv_offsets=[0],
                                   **common)
        if index == common["group_size"] - 1:
            told = R.CollectiveBcastSend(input=fed[:3], shape=[3], instance_key=keys[1], **common)
        else:
            told = R.CollectiveBcastRecv(T=tf.float32, shape=[3], instance_key=keys[1], **common)
        every = R.CollectiveGather(input=fed[:2], shape=[2 * common["group_size"]], instance_key=keys[2], **common)
        return [session.run([total, told, every], {fed: values(index, 50) + step}) for step in range(steps)]
    return client


def test_one_client_for_each_task(ring):
    """One client and one master per task: the masters agree on step ids."""
    if ring.devices > 1:
        pytest.skip("one device a task is enough")
    ring.between = next(GROUPS)
    size, steps = len(ring.spec["worker"]), 5
    for _ in range(2):  # the second round has new sessions, but the tasks already have step sequences
        results = ring.run_between(between_client(ring, [next(INSTANCES) for _ in range(3)], steps))
        for outcome in results:
            assert not isinstance(outcome, Exception), outcome
            for step, (total, told, every) in enumerate(outcome):
                np.testing.assert_allclose(total, np.mean([values(i, 50) + step for i in range(size)], axis=0), rtol=1e-6)
                np.testing.assert_array_equal(told, values(size - 1, 3) + step)
                np.testing.assert_array_equal(every, np.concatenate([values(i, 2) + step for i in range(size)]))


def test_the_same_keys_in_another_session():
    """A server of ours outlives its clients. A later client may use the same keys for another collective."""
    ring = Ring([OURS, OURS])
    try:
        for source, count in itertools.product(range(2), [4, 9]):
            with tf.Graph().as_default():
                fetches = []
                for rank, device in enumerate(ring.devices_in_order()):
                    with tf.device(device):
                        fetches.append(R.CollectiveReduce(
                            input=values(rank, count), group_size=2, group_key=1, instance_key=1, merge_op="Add",
                            final_op="Id", subdiv_offsets=[0]))
                        keys = dict(group_size=2, group_key=1, instance_key=2, shape=[count])
                        fetches.append(R.CollectiveBcastSend(input=values(rank, count), **keys) if rank == source
                                       else R.CollectiveBcastRecv(T=tf.float32, **keys))
                results = ring.run(fetches, steps=2)
            np.testing.assert_array_equal(results[0], values(0, count) + values(1, count))
            np.testing.assert_array_equal(results[2], results[0])
            np.testing.assert_array_equal(results[1], values(source, count))
            np.testing.assert_array_equal(results[3], values(source, count))
    finally:
        ring.stop()
