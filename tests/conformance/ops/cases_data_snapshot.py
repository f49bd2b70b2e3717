"""Datasets that write what passes through them and read it the next time: Dataset.snapshot.

Both sides write below the same path; as each names its folders itself, neither sees the other's."""
import tensorflow as tf
from cases_data_saved import SOURCES, in_order, numbers, path, taken
from fixtures import quiet
from runner import Case

R = tf.raw_ops
tf1 = tf.compat.v1
D = tf.data.Dataset
CASES = []


def add(name, build, **options):
    CASES.append(Case("SnapshotDatasetV2", build=build, name=f"SnapshotDatasetV2 {name}", **options))


def to_one(*element):
    """The shard of everything."""
    return tf.constant(0, tf.int64)


def snapshot(dataset, folder, compression="AUTO", shard_func=to_one, reader_func=in_order):
    return dataset.with_options(quiet()).snapshot(path(folder), compression, reader_func, shard_func)


def epochs(dataset, steps, count=2):
    return taken(dataset, steps) * count


def twice(name, compression):
    make, count = SOURCES[name]

    def build():
        kept = snapshot(make(), f"snapshot-{name}-{compression}", compression)
        return {}, epochs(kept, count + 2) + [[kept.cardinality()]]
    return build


for source in ("numbers", "mixed", "ragged", "none"):
    add(source, twice(source, "AUTO"))
for kind in ("", None, "GZIP", "ZLIB", "SNAPPY", "OTHER"):
    add(f"{kind} compression", twice("mixed", kind))
add("large GZIP", twice("large", "GZIP"))


def sharded(shard_func, reader_func=in_order, count=9):
    folder = f"sharded-{len(CASES)}"
    return lambda: ({}, epochs(snapshot(numbers(count), folder, None, shard_func, reader_func),
                               2 * count + 1))


def shards_in_turn(shards):
    return shards.interleave(lambda shard: shard, cycle_length=2, num_parallel_calls=None)


def twice_each(shards):
    return shards.flat_map(lambda shard: shard.map(lambda x: x * 100).repeat(2))


add("in shards", sharded(lambda x: x % 3))
add("in far shards", sharded(lambda x: -x * 1000000007))
add("with shards in turn", sharded(lambda x: x % 2, shards_in_turn))
add("changed by its reader", sharded(lambda x: x // 4, twice_each))
add("with functions by default", sharded(None, None))


def captured():
    two = tf1.placeholder_with_default(tf.constant(2, tf.int64), [])
    source = numbers(6).map(lambda x: x * two)
    kept = snapshot(source, "captured snapshot", None, lambda x: x % two, lambda shards:
                    in_order(shards).map(lambda x: x + two))
    return {}, epochs(kept, 7)


def interrupted():
    """What was begun is not read; the next walk begins anew."""
    walk = taken(snapshot(numbers(), "interrupted"), 6)
    return {}, walk[:3] + walk[:6] + walk * 2


def behind(name, change, count=2):
    """A snapshot within a pipeline."""
    return lambda: ({}, epochs(change(snapshot(numbers(4), name)), 9, count))


def changed():
    """Each pipeline has its own snapshot below the path."""
    def more(n):
        return numbers(3).map(lambda x: x + n)
    kept = [snapshot(dataset, "changed") for dataset in (numbers(3), numbers(4), more(1), more(2))]
    walks = [taken(dataset, 5) for dataset in kept]
    return {}, sum(walks + walks, [])


def shuffled():
    """The order of the first epoch stays."""
    return {}, epochs(snapshot(numbers(20).shuffle(20, seed=3), "shuffled"), 21, 3)


def in_function():
    """Snapshots that a function makes."""
    def inner(x):
        return snapshot(D.range(x + 1).map(lambda y: y * 10), "inner")
    return {}, epochs(numbers(3).flat_map(inner), 7)


add("with captures", captured)
add("interrupted", interrupted)
add("repeated", behind("repeated", lambda kept: kept.repeat(2)))
add("batched", behind("batched", lambda kept: kept.batch(3)))
add("ahead", behind("ahead", lambda kept: kept.prefetch(2)))
add("cut short", behind("cut short", lambda kept: kept.take(3), 3))
add("of a snapshot", behind("outer", lambda kept: snapshot(kept.map(lambda x: -x), "outer 2")))
add("of changed pipelines", changed)
add("of a shuffled dataset", shuffled)
add("in a function", in_function)


# ---- What goes wrong ----

def failing(name, source, shard_func=to_one):
    """Who walks on behind an element that fails has the rest, then and later."""
    return lambda: ({}, epochs(snapshot(source(), name, None, shard_func), 7))


def concrete(function, *specs):
    return tf.function(function).get_concrete_function(*specs)


def raw(shard_func, reader_func=lambda shards: shards, folder=None):
    """The op by itself, which Python would refuse to make like that."""
    name = f"raw-{len(CASES)}"

    def build():
        types = {"output_types": [tf.int64], "output_shapes": [[]]}
        where = path(name) if folder is None else tf1.placeholder_with_default(
            tf.constant([path("vector")]), None)
        variant = R.SnapshotDatasetV2(
            input_dataset=numbers()._variant_tensor, path=where, reader_func_other_args=[],
            reader_func=concrete(reader_func, tf.TensorSpec([], tf.variant)),
            shard_func_other_args=[], shard_func=concrete(shard_func, tf.TensorSpec([], tf.int64)),
            **types)
        iterator = R.IteratorV2(shared_name=name, container="", **types)
        element = list(R.IteratorGetNext(iterator=iterator, **types))
        return {}, ([[R.MakeIterator(dataset=variant, iterator=iterator)]] + [element] * 6) * 2
    return build


add("element that fails", failing("fails", lambda: numbers().map(lambda x: 6 // (x - 2))))
add("shard that fails", failing("shard fails", numbers, lambda x: 0 * (6 // (x - 2))))
add("shard of another type", raw(lambda x: tf.cast(x, tf.int32)))
add("two shards", raw(lambda x: tf.stack([x, x])))
add("reader with two results", raw(lambda x: x * 0, lambda shards: (shards, shards)))
add("vector of paths", raw(lambda x: x, folder="vector"))
