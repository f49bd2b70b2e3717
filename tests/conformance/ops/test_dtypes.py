"""Every op that Downpour has takes every dtype for which TensorFlow has a CPU kernel of that op."""
import collections
import itertools
import os
import pathlib
import subprocess

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import tensorflow as tf  # noqa: E402
from tensorflow.python.framework import kernels, op_def_registry  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("DOWNPOUR_BUILD", ROOT / "build"))
NAMES = {"float32": "float", "float64": "double", "float16": "half"}
# What is left out, and why.
EXCEPTIONS = {
    "_FusedConv2D": "an op that TensorFlow's optimizer makes; quantized forms come from no client",
    "QuantizedConv2D": "filters of qint8, which TensorFlow has for oneDNN alone: without it, nothing comes out",
    "Qr": "half, which no gradient and no layer asks for",
}


def our_rows():
    """{op: [{attribute: set of dtypes}, ...]}"""
    listing = subprocess.run([BUILD / "downpour", "ops"], check=True, text=True, stdout=subprocess.PIPE, timeout=300)
    rows = collections.defaultdict(list)
    for line in listing.stdout.splitlines():
        op, *constraints = line.split("\t")
        rows[op].append({attr: set(types.split(","))
                         for attr, types in (constraint.split("=", 1) for constraint in constraints)})
    return rows


def name_of(dtype):
    name = tf.as_dtype(dtype).name
    return NAMES.get(name, name)


def their_choices(op):
    """Each combination of dtypes, {attribute: dtype}, that a CPU kernel of TensorFlow's takes."""
    definition = op_def_registry.get(op)
    if definition is None:
        return
    allowed = {attr.name: {name_of(t) for t in attr.allowed_values.list.type} for attr in definition.attr}
    for kernel in kernels.get_registered_kernels_for_op(op).kernel:
        if kernel.device_type != "CPU" or kernel.label:
            continue
        attrs = [constraint.name for constraint in kernel.constraint]
        sets = [[name_of(t) for t in constraint.allowed_values.list.type] for constraint in kernel.constraint]
        for dtypes in itertools.product(*sets):
            choice = dict(zip(attrs, dtypes))
            if all(not allowed.get(attr) or dtype in allowed[attr] for attr, dtype in choice.items()):
                yield choice


def takes(row, choice):
    return all(attr not in row or "any" in row[attr] or dtype in row[attr] for attr, dtype in choice.items())


def test_dtypes():
    rows = our_rows()
    assert len(rows) > 500
    lacking = {}
    for op in sorted(set(rows) - set(EXCEPTIONS)):
        missing = [choice for choice in their_choices(op) if not any(takes(row, choice) for row in rows[op])]
        if missing:
            lacking[op] = [",".join(f"{attr}={dtype}" for attr, dtype in choice.items()) for choice in missing]
    assert not lacking, "\n".join(f"{op}: {'; '.join(choices)}" for op, choices in lacking.items())
