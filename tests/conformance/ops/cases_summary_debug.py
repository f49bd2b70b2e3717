"""The ops of TensorFlow's debugger, as nodes of a graph. What they write to files is compared in
session/test_debug.py."""
import numpy as np
import tensorflow as tf
from fixtures import scratch_folder
from runner import Case, bfloat16, case_decorator, make_op

tf1 = tf.compat.v1
RNG = np.random.RandomState(7)
FOLDER = scratch_folder("debug")
URL = [f"file://{FOLDER}"]
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
FLOATS = [np.float32, np.float64, np.float16, bfloat16]
ODD = np.array([[1.5, -2, 0], [np.nan, np.inf, -np.inf]])
CASES = []
case = case_decorator(CASES)



def debug_case(op, value, **attrs):
    CASES.append(Case(op, [value], {"tensor_name": "x:0", **attrs}))


# ---- Copies ----
VALUES = [np.float32(3), RNG.normal(size=[3, 5]), np.zeros([0, 4], np.int32), np.array([True, False]),
          np.array(["a", "bc"], object), np.complex64([1 + 2j]), np.float16([1, 2])]
for value in VALUES:
    CASES += [Case(op, [value]) for op in ("Copy", "CopyHost", "DebugIdentity")]
    debug_case("DebugIdentity", value)
CASES += [
    Case("Copy", [np.float32(1)], {"tensor_name": "a:0", "debug_ops_spec": ["DebugIdentity;x;0"]}),
    Case("CopyHost", [np.float32(1)], {"debug_ops_spec": ["DebugIdentity;grpc://x:1;1", "A;b;c"]}),
    Case("Copy", [np.float32(1)], {"debug_ops_spec": ["DebugIdentity;x"]}),
    Case("Copy", [np.float32(1)], {"debug_ops_spec": ["a;b;c", "a;b;c;d"]}),
    Case("CopyHost", [np.float32(1)], {"debug_ops_spec": [""]}),
]


@case("Copy")
def copy_of_a_variable():
    variable = tf1.Variable([1.0, 2.0], use_resource=False)
    copied = make_op("Copy", input=variable._ref())
    update = tf1.assign(variable, [5.0, 6.0])
    return [[variable.initializer], [copied], [update], [copied + 1]]


@case("Copy")
def copy_of_no_value():
    variable = tf1.Variable([1.0, 2.0], use_resource=False)
    return [[make_op("DebugNanCount", tensor_name="x", input=make_op("Copy", input=variable._ref())),
             make_op("DebugNumericSummary", tensor_name="x", input=make_op("Copy", input=variable._ref()))]]


# ---- Numbers ----
NUMBERS = [np.float32(2.5), np.zeros([0], np.float32), np.zeros([3, 0, 2]), np.float32([np.nan]),
           np.float32([np.inf, -np.inf]), RNG.normal(size=[1000]), np.int32([-1, -5, 7]),
           np.float32([0, -0.0]), np.array(["a"], object), np.complex64([1])]
NUMBERS += [ODD.astype(dtype) for dtype in FLOATS]
NUMBERS += [RNG.randint(0, 3, [4, 2]).astype(dtype) for dtype in INTEGERS + [np.bool_]]
for number in NUMBERS:
    debug_case("DebugNanCount", number)
    debug_case("DebugNumericSummary", number)
for bounds in ({"lower_bound": -1.0}, {"upper_bound": 1.0}, {"lower_bound": 0.0, "upper_bound": 0.0},
               {"lower_bound": 2.0, "upper_bound": -2.0}, {"lower_bound": float("nan")}):
    debug_case("DebugNumericSummary", np.float32([-2, -1, -0.5, 0, 0.5, 1, 2]), **bounds)

# ---- Names and URLs ----
PAIR = np.float32([1, 2])
for op in ("DebugIdentity", "DebugNanCount", "DebugNumericSummary"):
    for text in ("", "y:1:2", "y:one", "y:", "y:99999999999", "scope/y", "y:-1"):
        debug_case(op, PAIR, tensor_name=text)
    debug_case(op, PAIR, debug_urls=URL, device_name="/job:a/task:0")
    debug_case(op, PAIR, debug_urls=URL, gated_grpc=True, tensor_name="gated:1")
    debug_case(op, PAIR, debug_urls=["http://nowhere"])
    debug_case(op, PAIR, debug_urls=["file:///proc/nothing"], device_name="/cpu:0")
    debug_case(op, PAIR, debug_urls=URL + ["file:///proc/no/thing"], tensor_name="b")
    debug_case(op, PAIR, debug_urls=["grpc://localhost:1"], gated_grpc=True)
    debug_case(op, PAIR, gated_grpc=True)
debug_case("DebugNumericSummary", PAIR, debug_urls=["file:///proc/nothing"], mute_if_healthy=True)
debug_case("DebugNumericSummary", np.float32([np.nan]), debug_urls=["file:///proc/nothing"],
           mute_if_healthy=True)
