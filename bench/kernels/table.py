"""What a case is, and the graph that it becomes.

A case is an op at some sizes. For each size the graph has one chain of copies of the op, ordered by
control edges, all with the same inputs; and one step without the copies. A step of the chain less a
step without it, divided by the copies, is the time of one op: its kernel, its memory and the
executor's share. REPEATS copies are where a measurement begins; it takes more for ops that take next
to no time.

Inputs come from variables that are filled before the measurement, so that nothing can be folded, and
the ops' outputs cannot take over their memory; axes, shapes and the like are constants, as in
models. Both sides get the same bytes of graph. Graph rewriting is off on both, since it would remove
copies; the choice of kernels is not touched by that.
"""

import numpy as np
import tensorflow as tf

R = tf.raw_ops
tf1 = tf.compat.v1

SMALL, LARGE = "small", "large"
REPEATS = {SMALL: 50, LARGE: 4}
CASES = []
UNTIMED = {}


class Case:
    """build(size's value) gives a function that makes one copy and returns its last op(s)."""

    def __init__(self, op, sizes, build, covers=(), repeats=None, writes=False):
        self.op = op
        self.sizes = sizes  # label -> what build takes; a label starts with SMALL or LARGE
        self.build = build
        self.covers = (op.split(" ")[0], *covers)
        self.repeats = repeats or {}
        self.writes = writes  # files: what one side leaves to the disk must not slow the other
        CASES.append(self)

    def repeats_of(self, label):
        return self.repeats.get(label, REPEATS[label.split(" ")[0]])


class Spec:
    """An input held in a variable."""

    def __init__(self, make, shape, dtype):
        self.make, self.shape, self.dtype = make, tuple(shape), tf.as_dtype(dtype)


def F(*shape, low=-1.0, high=1.0, dtype=tf.float32):
    """Uniform floats, made by the graph itself: large ones would swell it."""
    def make():
        value = tf.random.stateless_uniform(shape, seed=(3, len(shape)), dtype=tf.float32)
        return tf.cast(value * (high - low) + low, dtype)
    return Spec(make, shape, dtype)


def I(*shape, low=0, high=100, dtype=tf.int32):
    return V(np.random.RandomState(5).randint(low, high, shape).astype(tf.as_dtype(dtype).as_numpy_dtype))


def B(*shape):
    return V(np.random.RandomState(6).rand(*shape) < 0.5)


def V(value):
    value = np.asarray(value)
    dtype = tf.string if value.dtype.kind in "OSU" else value.dtype
    return Spec(lambda: tf.constant(value, dtype=dtype), value.shape, dtype)


class Builder:
    """The graph of one case, while it is made."""

    current = None

    def __init__(self):
        self.starts = []

    @staticmethod
    def start(*ops):
        """Ops that run once, in this order, before the measurement."""
        Builder.current.starts.extend(ops)


def handle_of(spec):
    """A resource variable that holds the spec."""
    name = f"input{len(Builder.current.starts)}"
    handle = R.VarHandleOp(dtype=spec.dtype, shape=spec.shape, shared_name=name)
    Builder.start(R.AssignVariableOp(resource=handle, value=spec.make()))
    return handle


def reference_of(spec):
    """A reference variable that holds the spec."""
    reference = R.VariableV2(shape=spec.shape, dtype=spec.dtype)
    Builder.start(R.Assign(ref=reference, value=spec.make()))
    return reference


def read(spec):
    return R.ReadVariableOp(resource=handle_of(spec), dtype=spec.dtype)


def given(value):
    """An input of an op: specs become variables, lists of specs lists, the rest constants."""
    if isinstance(value, Spec):
        return read(value)
    if isinstance(value, list) and value and all(isinstance(one, (Spec, tf.Tensor)) for one in value):
        return [given(one) for one in value]
    if value is None or isinstance(value, tf.Tensor):
        return value
    return tf.constant(value)


def raw(op, sizes, attrs=None, name=None, repeats=None, covers=()):
    """A case of one op: sizes are {label: {input: spec or constant}}."""
    def build(inputs):
        tensors = {key: given(value) for key, value in inputs.items()}
        return lambda: getattr(R, op)(**tensors, **(attrs or {}))
    return Case(name or op, sizes, build, repeats=repeats, covers=(op, *covers))


def untimed(why, *ops):
    for op in ops:
        UNTIMED[op] = why


def ops_of(value):
    """The ops behind whatever a raw op returned."""
    if isinstance(value, tf.Operation):
        return [value]
    if isinstance(value, tf.Tensor):
        return [value.op]
    return list({op.name: op for one in value for op in ops_of(one)}.values())


class Chain:
    """The copies of one size: the first of them built by TensorFlow, the rest nodes copied from those."""

    def __init__(self, graph, unit, plain):
        self.graph, self.unit = graph, unit
        self.plain = plain.name
        self.last, self.last_before = [plain], None

    def build(self):
        """One more copy, behind those before."""
        before = set(self.graph.get_operations())
        with tf.control_dependencies(self.last):
            self.last_before, self.last = self.last, ops_of(self.unit())
        self.nodes = [op.name for op in self.graph.get_operations() if op not in before]

    def lengthen(self, graph_def, count):
        """Copies the last copy's nodes; the names of the ops that end the chain then."""
        template = [node for node in graph_def.node if node.name in set(self.nodes)]
        ends = [op.name for op in self.last]
        behind = [op.name for op in self.last_before], ends
        for number in range(count):
            names = {name: f"{name}/again{number}" for name in self.nodes}
            controls = {f"^{old}": f"^{new}" for old, new in (*zip(*behind), *names.items())}
            for node in template:
                copy = graph_def.node.add()
                copy.CopyFrom(node)
                copy.name = names[node.name]
                for place, source in enumerate(node.input):
                    name, *output = source.split(":")
                    copy.input[place] = ":".join([controls.get(name) or names.get(name, name), *output])
            behind = behind[0], [names[name] for name in ends]
        return behind[1]

    def finish(self, graph_def, count):
        """The step of the whole chain."""
        ends = self.lengthen(graph_def, count)
        return graph_def.node.add(op="NoOp", name=f"{self.plain}/chained",
                                  input=[f"^{name}" for name in ends]).name


def graph_of(case, copies):
    """(graph bytes, [names of start ops], {label: (plain step, chained step, copies)}).

    copies of a label that are beyond the case's own are cheap to make: nodes without TensorFlow's
    work for an op, which takes a thousand times as long as what is measured.
    """
    chains = {}
    with tf.Graph().as_default() as graph:
        builder = Builder.current = Builder()
        for label, count in copies.items():
            before = set(graph.get_operations())
            unit = case.build(case.sizes[label])
            ready = [op for op in graph.get_operations()
                     if op not in before and op.type == "ReadVariableOp"]
            chain = chains[label] = Chain(graph, unit, tf.group(*ready, name="plain"))
            for _ in range(min(count, case.repeats_of(label))):
                chain.build()
        starts = [op.name for start in builder.starts for op in ops_of(start)]
        graph_def = graph.as_graph_def()
    steps = {label: (chain.plain,
                     chain.finish(graph_def, max(0, copies[label] - case.repeats_of(label))),
                     copies[label])
             for label, chain in chains.items()}
    return graph_def.SerializeToString(), starts, steps
