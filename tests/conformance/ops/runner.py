"""Runs op cases on genuine TensorFlow and on Downpour and compares what comes out.

A case file (cases_<room>_<topic>.py) has a list CASES of Case objects: one op with attributes and inputs,
or a graph of several nodes. Cases become v1 graphs with a placeholder for every input, many in
one graph. The oracle is an in-process session; the candidate is `run_graph` (kernels and executor
alone, over pipes) or a server, `Session("grpc://...")`.

Results must have the oracle's dtype and shape; integers, bools and strings must be equal, floats
within the dtype's tolerance. Where the oracle fails, the candidate must fail with the same code, and
with the same words when the oracle is of the version that messages follow (words.py).

  python runner.py cases_math [--run-graph PATH | --target grpc://HOST:PORT] [--only TEXT] [-v]
  python runner.py --list-ops cases_*.py > tested_ops.txt    (what docs/ops.md calls tested)
"""

import argparse
import importlib
import os
import pathlib
import struct
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
# On by default on some processors only; there it crashes on empty convolutions.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import words  # noqa: E402
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # noqa: E402
from tensorflow.core.protobuf import named_tensor_pb2  # noqa: E402,F401
from tensorflow.python.framework import op_def_library, op_def_registry  # noqa: E402

tf1 = tf.compat.v1
tf1.disable_eager_execution()
ROOT = pathlib.Path(__file__).resolve().parents[3]

# Relative and absolute tolerance by dtype.
TOLERANCE = {
    "float16": (4e-3, 1e-3),
    "bfloat16": (3e-2, 1e-2),
    "float32": (2e-5, 1e-6),
    "float64": (1e-11, 1e-12),
    "complex64": (5e-5, 5e-6),
    "complex128": (1e-11, 1e-12),
}
bfloat16 = tf.bfloat16.as_numpy_dtype
# The TensorFlow whose messages ours are worded after; older ones say some things in other words.
WORDS_OF = (2, 21)


class Case:
    """One op (`inputs` in the op's order; a list input is a Python list of arrays), or any graph
    when `build` is given: a function that makes nodes and returns (feeds {tensor: value},
    fetches, or a list of fetch lists that are run one after the other)."""

    def __init__(self, op, inputs=(), attrs=None, name=None, build=None, tolerance=None,
                 outputs=None, unordered=False, since=None, check=None, producer=None,
                 says=False, seen=None, first=False):
        self.op = op
        self.inputs = list(inputs)
        self.attrs = dict(attrs or {})
        self.build = build
        self.tolerance = tolerance  # (relative, absolute) instead of the dtype's
        self.outputs = outputs      # indices of the outputs that are compared; None: all
        self.unordered = unordered  # compare sorted
        self.since = since          # first TensorFlow version whose behaviour is the wanted one
        self.check = check          # check(results) instead of comparing (random ops)
        self.seen = seen            # seen(result) is compared instead of the result
        self.says = says            # an error's words are compared with every version's
        self.first = first          # the op's cases begin in a new process: results show what it counts
        self.producer = producer or last_version_with(op)  # version of the graph; None: today's
        self.name = name or self.describe()

    def describe(self):
        def text(value):
            if isinstance(value, list):
                return "(" + ",".join(map(text, value)) + ")"
            array = np.asarray(value)
            return f"{array.dtype.name}{list(array.shape)}".replace(" ", "")
        attrs = "".join(f",{k}={v}" for k, v in sorted(self.attrs.items())
                        if not isinstance(v, np.ndarray))
        return f"{self.op}({','.join(text(i) for i in self.inputs)}{attrs})".replace("<dtype: ", "")


def case_decorator(cases):
    """What makes a case of a function that builds nodes and returns fetches, or lists of fetches;
    it is named after the function unless told otherwise."""
    def case(op, name="", **options):
        def wrap(build):
            cases.append(Case(op, build=lambda: ({}, build()), name=f"{op} {name or build.__name__}",
                              **options))
            return build
        return wrap
    return case


def last_version_with(op):
    """The last version of graphs that may hold an op that is no more; None for all others."""
    definition = op_def_registry.get(op)
    gone = definition is not None and definition.HasField("deprecation")
    return definition.deprecation.version - 1 if gone else None


class Built:
    """A case as nodes of the graph: feeds, and for every run its fetches."""

    def __init__(self, case, feeds, runs):
        self.case = case
        self.feeds = feeds
        self.runs = runs


def feed(value, dtype=None):
    """A value that no shape inference or folding sees."""
    return tf1.placeholder_with_default(tf.constant(value, dtype), shape=None)


def dtype_of(value):
    return tf.as_dtype(np.asarray(value).dtype) if np.asarray(value).dtype.kind not in "SUO" \
        else tf.string


def without_loss(value):
    """An array; as one of bytes a string would lose the zeros at its end."""
    return np.array(value, object) if isinstance(value, bytes) else np.asarray(value)


def default_of(attr):
    """The default of an op's attribute as apply_op takes it."""
    value, kind = attr.default_value, attr.default_value.WhichOneof("value")
    if kind == "list":
        items = value.list
        return list(items.s or items.i or items.f or items.b or items.type or items.shape)
    return getattr(value, kind)


def add_defaults(definition, arguments):
    inferred = {name for arg in definition.input_arg
                for name in (arg.type_attr, arg.number_attr, arg.type_list_attr)}
    for attr in definition.attr:
        if attr.name not in arguments and attr.name not in inferred \
                and attr.HasField("default_value"):
            arguments[attr.name] = default_of(attr)


def make_op(op, **arguments):
    """One node of any op, also of those that tf.raw_ops does not offer."""
    definition = op_def_registry.get(op)
    assert definition is not None, f"TensorFlow has no op {op}"
    add_defaults(definition, arguments)
    return op_def_library.apply_op(op, name=op.lstrip("_"), **arguments)


def build_op(case):
    definition = op_def_registry.get(case.op)
    assert definition is not None, f"TensorFlow has no op {case.op}"
    feeds, arguments = {}, dict(case.attrs)

    def placeholder(value):
        tensor = tf1.placeholder(dtype_of(value), shape=None)
        feeds[tensor] = value
        return tensor
    for arg, value in zip(definition.input_arg, case.inputs):
        arguments[arg.name] = [placeholder(v) for v in value] if isinstance(value, list) \
            else placeholder(value)
    result = make_op(case.op, **arguments)
    if isinstance(result, tf.Operation):
        return feeds, [[result]]
    flat = tf.nest.flatten(result)
    if case.outputs is not None:
        flat = [flat[i] for i in case.outputs]
    return feeds, [flat]


def make_older(version):
    """Gives the default graph an older version: that of what is imported into it."""
    old = tf1.GraphDef()
    old.versions.producer = version
    tf.import_graph_def(old, name="")


def build_cases(cases):
    """One graph with all cases; each under a scope of its own."""
    graph = tf.Graph()
    built = []
    producer = min((case.producer for case in cases if case.producer), default=None)
    with graph.as_default():
        if producer:
            make_older(producer)
        for index, case in enumerate(cases):
            with tf1.name_scope(f"case{index}"):
                if case.build:
                    feeds, runs = case.build()
                    if not runs or not isinstance(runs[0], (list, tuple)):
                        runs = [list(runs)]
                else:
                    feeds, runs = build_op(case)
            built.append(Built(case, feeds, [list(run) for run in runs]))
    return graph, built


# ---- Where cases run ----

class Failure:
    """An error as a result: compared by code and by its words."""

    def __init__(self, code, message):
        self.code = code
        self.message = message

    def words(self):
        return words.without_noise(self.message)

    def __repr__(self):
        # What TensorFlow says itself comes after the places where the nodes were made.
        text = self.message.split("\nNode: ", 1)[-1]
        return f"error {self.code}: {text[:300]}"


class SessionBackend:
    """Any tf.Session: the oracle in this process, or a server."""

    def __init__(self, graph, target=""):
        self.target = target
        config = tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = -1
        self.session = tf1.Session(target, graph=graph, config=config)

    def run(self, built):
        results = []
        for fetches in built.runs:
            try:
                results.append(self.session.run(fetches, feed_dict=built.feeds))
            except tf.errors.OpError as error:
                results.append(Failure(error.error_code, error.message))
        return results

    def another(self, graph):
        return SessionBackend(graph, self.target)

    def close(self):
        self.session.close()


def step_messages():
    """RunStepRequest and RunStepResponse with the fields used here; TensorFlow's wheels have no
    master_pb2."""
    file = descriptor_pb2.FileDescriptorProto(
        name="downpour_ops_runner.proto", package="downpour.ops", syntax="proto3",
        dependency=["tensorflow/core/protobuf/named_tensor.proto"])
    field = descriptor_pb2.FieldDescriptorProto
    named = ".tensorflow.NamedTensorProto"
    for name, fields in [
            ("Request", [("feed", 2, field.TYPE_MESSAGE, named), ("fetch", 3, field.TYPE_STRING, "")]),
            ("Response", [("tensor", 1, field.TYPE_MESSAGE, named),
                          ("status_code", 3, field.TYPE_INT32, None),
                          ("status_error_message", 4, field.TYPE_STRING, None)])]:
        message = file.message_type.add(name=name)
        for key, number, kind, repeats in fields:
            message.field.add(name=key, number=number, type=kind, type_name=repeats or None,
                              label=field.LABEL_OPTIONAL if repeats is None
                              else field.LABEL_REPEATED)
    pool = descriptor_pool.Default()
    pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    types = [pool.FindMessageTypeByName(f"downpour.ops.{name}") for name in ("Request", "Response")]
    if hasattr(message_factory, "GetMessageClass"):
        return [message_factory.GetMessageClass(kind) for kind in types]
    return [message_factory.MessageFactory(pool).GetPrototype(kind) for kind in types]


Request, Response = step_messages()


class RunGraphBackend:
    """The program run_graph: kernels and executor without a server."""

    def __init__(self, graph, program):
        self.graph_def = graph.as_graph_def()
        self.nodes = {node.name: node for node in self.graph_def.node}
        self.program = program
        self.process = None
        self.start()

    def start(self):
        self.process = subprocess.Popen([str(self.program)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def call(self, kind, data=b""):
        self.process.stdin.write(struct.pack("<I", len(data) + 1) + kind + data)
        self.process.stdin.flush()
        header = self.process.stdout.read(4)
        if len(header) < 4:
            code = self.process.wait()
            self.start()
            return None, Failure(13, f"run_graph died with {code}")
        reply = Response.FromString(
            self.process.stdout.read(struct.unpack("<I", header)[0]))
        if reply.status_code:
            return reply, Failure(reply.status_code, reply.status_error_message)
        return reply, None

    def sub_graph(self, feeds, fetches):
        """The nodes that the fetches need, placeholders that are fed as _Arg, fetches as _Retval."""
        fed = {tensor.op.name: index for index, tensor in enumerate(feeds)}
        wanted = [tensor.op.name if isinstance(tensor, tf.Tensor) else tensor.name
                  for tensor in fetches]
        sub = tf1.GraphDef()
        sub.versions.CopyFrom(self.graph_def.versions)
        sub.library.CopyFrom(self.graph_def.library)
        stack, seen = list(wanted), set()
        while stack:
            name = stack.pop()
            if name in seen:
                continue
            seen.add(name)
            node = sub.node.add()
            if name in fed:
                node.name, node.op = name, "_Arg"
                node.attr["T"].type = self.nodes[name].attr["dtype"].type
                node.attr["index"].i = fed[name]
                continue
            node.CopyFrom(self.nodes[name])
            stack += [i.lstrip("^").split(":")[0] for i in node.input]
        count = 0
        for index, tensor in enumerate(fetches):
            if isinstance(tensor, tf.Tensor):
                node = sub.node.add(name=f"_result{index}", op="_Retval", input=[tensor.name])
                node.attr["T"].type = tensor.dtype.base_dtype.as_datatype_enum
                node.attr["index"].i = count
                count += 1
        return sub, count

    def run(self, built):
        results = []
        self.call(b"R")
        for fetches in built.runs:
            sub, count = self.sub_graph(built.feeds, fetches)
            _, failure = self.call(b"L", sub.SerializeToString())
            if failure:
                results.append(failure)
                continue
            request = Request(fetch=[str(i) for i in range(count)])
            for tensor, value in built.feeds.items():
                feed = request.feed.add(name=tensor.name)
                array = without_loss(value)
                feed.tensor.CopyFrom(tf1.make_tensor_proto(
                    array, dtype=tensor.dtype, shape=array.shape))
            reply, failure = self.call(b"S", request.SerializeToString())
            if failure:
                results.append(failure)
                continue
            values = iter([tf.make_ndarray(t.tensor) for t in reply.tensor])
            results.append([next(values) if isinstance(t, tf.Tensor) else None for t in fetches])
        return results

    def another(self, graph):
        return RunGraphBackend(graph, self.program)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


# ---- Comparing ----

def compare_arrays(case, want, got):
    """What differs, as text; None when they agree."""
    want, got = without_loss(want), without_loss(got)
    if want.dtype.kind in "OSU":
        got = got.astype(object)
        want = want.astype(object)
    if want.dtype != got.dtype:
        return f"dtype {got.dtype}, wanted {want.dtype}"
    if want.shape != got.shape:
        return f"shape {got.shape}, wanted {want.shape}"
    if case.unordered:
        want, got = np.sort(want, axis=0), np.sort(got, axis=0)
    name = want.dtype.name
    if name in TOLERANCE:
        relative, absolute = case.tolerance or TOLERANCE[name]
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        with np.errstate(all="ignore"):
            fits = np.isclose(got.astype(wide), want.astype(wide), rtol=relative, atol=absolute,
                              equal_nan=True)
    else:
        fits = np.asarray(want == got)
    if np.all(fits):
        return None
    where = np.argwhere(~np.atleast_1d(fits))[:4]
    parts = [f"{tuple(int(i) for i in w)}: {np.atleast_1d(got)[tuple(w)]!r}, wanted "
             f"{np.atleast_1d(want)[tuple(w)]!r}" for w in where]
    return f"{np.size(fits) - np.count_nonzero(fits)} of {np.size(fits)} differ, " + "; ".join(parts)


def same_words(case, want, got):
    if not case.says and tf_version() < WORDS_OF:
        return True
    return words.agree(want.words(), got.words())


def compare_run(case, want, got):
    if isinstance(want, Failure) or isinstance(got, Failure):
        if isinstance(want, Failure) and isinstance(got, Failure) and want.code == got.code \
                and same_words(case, want, got):
            return None
        return " ".join(f"got {got!r}, wanted {want!r}"[:700].split())
    if case.check:
        return case.check(got)
    for index, (a, b) in enumerate(zip(want, got)):
        if a is None or b is None:
            continue
        if case.seen:
            a, b = case.seen(a), case.seen(b)
        difference = compare_arrays(case, a, b)
        if difference:
            return f"output {index}: {difference}"
    return None


def lacks_kernel(results):
    """Whether this TensorFlow has no such kernel itself, or one that asks for attributes which its
    op does not have: nothing to compare with."""
    signs = ("No OpKernel was registered", "no kernel image", "has constraint on attr",
             "No attr named")
    return any(isinstance(r, Failure) and any(sign in r.message for sign in signs)
               for r in results)


def run_case(built, oracle, candidate):
    """(problem or None, was it skipped)"""
    want = oracle.run(built)
    if lacks_kernel(want):
        return run_alone(built.case, candidate)
    return compare_results(built.case, want, candidate.run(built)), False


def run_alone(case, candidate):
    """One node without a kernel spoils the whole graph for a session: the case in its own graph."""
    graph, (built,) = build_cases([case])
    oracle, alone = SessionBackend(graph), candidate.another(graph)
    try:
        want = oracle.run(built)
        if lacks_kernel(want):
            return None, True
        return compare_results(case, want, alone.run(built)), False
    finally:
        oracle.close()
        alone.close()


def compare_results(case, want, got):
    for step, (a, b) in enumerate(zip(want, got)):
        problem = compare_run(case, a, b)
        if problem:
            return (f"run {step}: " if len(want) > 1 else "") + problem
    return None


def tf_version():
    return tuple(int(part) for part in tf.__version__.split(".")[:2])


def usable(cases):
    return [case for case in cases if case.since is None or tf_version() >= case.since]


def find_run_graph():
    """Brings the program up to date in the build folder and gives its path."""
    build = pathlib.Path(os.environ.get("DOWNPOUR_BUILD", ROOT / "build"))
    target = "tests/unit/kernels/run_graph"
    subprocess.run(["ninja", "-C", str(build), target], check=True, stdout=subprocess.DEVNULL)
    return build / target


def make_candidate(graph, program=None, target=None):
    if target:
        return SessionBackend(graph, target)
    return RunGraphBackend(graph, program)


def split(cases):
    """Into graphs of one version and at most 100 cases: a session looks at its whole graph for each
    new run."""
    for producer in sorted({case.producer or 0 for case in cases}):
        same = [case for case in cases if (case.producer or 0) == producer]
        yield from (same[begin:begin + 100] for begin in range(0, len(same), 100))


def run_module(cases, program, arguments):
    bad = skipped = 0
    for some in split(cases):
        graph, built = build_cases(some)
        oracle = SessionBackend(graph)
        candidate = make_candidate(graph, program, arguments.target)
        for one in built:
            problem, was_skipped = run_case(one, oracle, candidate)
            skipped += was_skipped
            bad += problem is not None
            if problem or arguments.v:
                print(f"{one.case.name}: {problem or ('skipped' if was_skipped else 'ok')}",
                      flush=True)
        candidate.close()
        oracle.close()
    return bad, skipped


def list_ops(cases):
    """The ops that the cases' graphs are made of, those in their functions too."""
    found = set()
    for some in split(cases):
        graph_def = build_cases(some)[0].as_graph_def()
        found.update(node.op for node in graph_def.node)
        for function in graph_def.library.function:
            found.update(node.op for node in function.node_def)
    return {op for op in found if op_def_registry.get(op) is not None}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("modules", nargs="+", type=lambda name: name.removesuffix(".py"))
    parser.add_argument("--run-graph")
    parser.add_argument("--target")
    parser.add_argument("--only", default="")
    parser.add_argument("-v", action="store_true")
    parser.add_argument("--list-ops", action="store_true", help="print the ops that the cases run, and do nothing")
    arguments = parser.parse_args()
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    sys.modules.setdefault("runner", sys.modules["__main__"])
    if arguments.list_ops:
        print("\n".join(sorted(set().union(*(list_ops(usable(importlib.import_module(module).CASES))
                                             for module in arguments.modules)))))
        return 0
    program = None if arguments.target else arguments.run_graph or find_run_graph()
    failed = 0
    for module in arguments.modules:
        cases = [case for case in usable(importlib.import_module(module).CASES)
                 if arguments.only in case.name]
        bad, skipped = run_module(cases, program, arguments)
        print(f"{module}: {len(cases) - bad - skipped} ok, {bad} not ok, {skipped} skipped")
        failed += bad
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
