"""Dual coordinate ascent. Examples are visited in a random order, so the ones of a batch share no
feature here, or there is only one of them."""
import numpy as np
import tensorflow as tf
from fixtures import fresh
from runner import Case, feed, make_op

CASES = []
RANDOM = np.random.RandomState(23)
LOSSES = ["logistic_loss", "squared_loss", "hinge_loss", "smooth_hinge_loss", "poisson_loss"]


def floats(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def optimize(op, label, sparse=(), dense=(), weights=None, labels=None, state=None, loss="squared_loss", adaptive=False,
             l1=0.1, l2=1.5, partitions=1, iterations=1):
    """`sparse` has (examples, features, values or None, indices, weights), `dense` (rows, weights); groups
    with values come first."""
    count = len(weights)
    state = np.zeros((count, 4), np.float32) if state is None else np.float32(state)

    def build():
        def ints(values):
            return [feed(value, tf.int64) for value in values]

        def reals(values):
            return [feed(value, tf.float32) for value in values]
        with_values = [group[2] for group in sparse if group[2] is not None]
        result = make_op(
            op, sparse_example_indices=ints(group[0] for group in sparse),
            sparse_feature_indices=ints(group[1] for group in sparse), sparse_feature_values=reals(with_values),
            dense_features=reals(group[0] for group in dense), example_weights=feed(weights, tf.float32),
            example_labels=feed(labels, tf.float32), sparse_indices=ints(group[3] for group in sparse),
            sparse_weights=reals(group[4] for group in sparse), dense_weights=reals(group[1] for group in dense),
            example_state_data=feed(state, tf.float32), loss_type=loss, l1=l1, l2=l2, num_loss_partitions=partitions,
            num_inner_iterations=iterations, **{"adaptative" if op == "SdcaOptimizer" else "adaptive": adaptive})
        return {}, tf.nest.flatten(result)
    CASES.append(Case(op, build=build, name=f"{op} {label}"))


# Four examples: features of group 0 are 10 to 16, of group 1 (without values) 0 to 3; of dense ones each example
# has a column to itself.
GROUPS = [([0, 0, 1, 3, 3], [10, 12, 11, 16, 14], floats(5), [10, 11, 12, 14, 16], floats(5)),
          ([1, 2, 3], [2, 0, 1], None, [0, 1, 2, 3], floats(4))]
DENSE = [(np.diag(floats(4)), floats(4))]
ONE = [([0, 0], [4, 2], floats(2), [2, 4], floats(2))], [(floats(1, 6), floats(6)), (floats(1, 1), floats(1))]
for op in ["SdcaOptimizer", "SdcaOptimizerV2"]:
    for loss in LOSSES:
        labels = [3, 0, 1.5, 7] if loss == "poisson_loss" else [1.5, -2, 0, 3] if loss == "squared_loss" else [0, 1, 1, 0]
        duals = {"squared_loss": [0.5, -1, 2, 0.1], "poisson_loss": [0.5, -1, 1.5, 8]}.get(loss, [-0.5, 1, 0.25, 0.5])
        state = np.column_stack([duals, np.zeros((4, 3))])
        for l1, l2, partitions in [(0.0, 1.0, 1), (0.3, 2.5, 3)]:
            text = f"{loss} {l1} {l2} {partitions}"
            options = dict(loss=loss, l1=l1, l2=l2, partitions=partitions, weights=[1, 2, 0.5, 0.25], labels=labels)
            optimize(op, f"sparse {text}", GROUPS, state=state, **options)
            optimize(op, f"dense {text}", (), DENSE, state=state, **options)
            optimize(op, f"both {text}", GROUPS, DENSE, **options)
            options.update(weights=[0.75], labels=labels[:1])
            for adaptive in [False, True]:
                optimize(op, f"one {text} {adaptive}", *ONE, state=state[:1], adaptive=adaptive, **options)
    optimize(op, "no example", GROUPS[:1], weights=[], labels=[])
    optimize(op, "no feature", weights=[1], labels=[1])
    for loss, label in [("logistic_loss", 2), ("hinge_loss", -1), ("smooth_hinge_loss", 0.5), ("poisson_loss", -1)]:
        optimize(op, f"{loss} label {label}", *ONE, weights=[1], labels=[label], loss=loss)

OPTIONS = {"weights": [1, 1, 1, 1], "labels": [1, 2, 3, 4]}
V2 = "SdcaOptimizerV2"
optimize(V2, "labels", GROUPS, weights=[1, 1, 1, 1], labels=[1, 2, 3])
optimize(V2, "dense rank", (), [(floats(4), floats(4))], **OPTIONS)
optimize(V2, "dense width", (), [(floats(4, 5), floats(4))], **OPTIONS)
optimize(V2, "state rank", GROUPS, state=[0, 0, 0, 0], **OPTIONS)
optimize(V2, "state shape", GROUPS, state=np.zeros((4, 3)), **OPTIONS)
optimize(V2, "unknown feature", [([0, 1], [1, 5], None, [1, 2], [0, 0])], **OPTIONS)
optimize(V2, "feature twice", [([0, 0], [1, 1], None, [1, 2], [0, 0])], **OPTIONS)
optimize(V2, "examples out of order are none", [([2, 0, 1], [1, 2, 3], None, [1, 2, 3], [1, 1, 1])], **OPTIONS)


def shrink(label, weights, l1, l2, initialized=True):
    def build():
        refs = [make_op("VariableV2", dtype=tf.float32, shape=tf.TensorShape(None), shared_name=fresh("weights"))
                for _ in weights]
        sets = [make_op("Assign", ref=ref, value=tf.constant(value, tf.float32), validate_shape=False).op
                for ref, value in zip(refs, weights)]
        op = make_op("SdcaShrinkL1", weights=refs, l1=l1, l2=l2)
        return {}, ([sets] if initialized and sets else []) + [[op]] + \
            ([[tf.identity(ref) for ref in refs]] if initialized and refs else [])
    CASES.append(Case("SdcaShrinkL1", build=build, name=f"SdcaShrinkL1 {label}"))


VALUES = np.float32([0.0, -0.0, 0.1, -0.1, 0.5, -0.5, 2, -3, 1e-30, np.inf, -np.inf])
shrink("one", [VALUES], 0.5, 1.0)
shrink("three", [VALUES, floats(3, 4), np.float32(7)], 1.0, 4.0)
shrink("nothing to shrink", [VALUES], 0.0, 1.0)
shrink("empty", [np.zeros(0, np.float32)], 1.0, 1.0)
shrink("none", [], 1.0, 1.0)
shrink("uninitialized", [VALUES], 1.0, 1.0, initialized=False)

TEXTS = [bytes(RANDOM.randint(0, 256, size=length).astype(np.uint8)) for length in
         list(range(40)) + [47, 48, 49, 63, 64, 65, 79, 80, 81, 127, 128, 129, 143, 144, 145, 159, 160, 175, 176, 177, 200, 271,
                            272, 273, 300, 400, 1000, 4096]]
CASES.append(Case("SdcaFprint", [np.array(TEXTS, object)], name="SdcaFprint of many lengths"))
CASES.append(Case("SdcaFprint", [np.array([], object)], name="SdcaFprint of none"))
CASES.append(Case("SdcaFprint", [np.array([[b"a"]], object)], name="SdcaFprint of rank 2"))
