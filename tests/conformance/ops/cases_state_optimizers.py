"""The optimizers' updates: dense and sparse, on reference and resource variables, three steps each.
"""
import numpy as np
import tensorflow as tf
from runner import Case, bfloat16
from tensorflow.python.framework import op_def_registry

R = tf.raw_ops
tf1 = tf.compat.v1
RNG = np.random.RandomState(11)
WIDE = [np.float32, np.float64]
FLOATS = WIDE + [np.float16, bfloat16]
ALL = FLOATS + [np.complex64, np.complex128]
# 16-bit floats are rounded once here, after every operation in TensorFlow.
TOLERANCE = {"float16": (5e-2, 5e-2), "bfloat16": (2e-1, 5e-1), "float32": (2e-5, 2e-5),
             "complex64": (1e-4, 1e-4)}
SCALARS = {"alpha": 0.1, "lr": 0.1, "l1": 0.05, "l2": 0.01, "momentum": 0.9, "epsilon": 0.01,
           "rho": 0.8, "beta1_power": 0.5, "beta2_power": 0.25, "beta1": 0.5, "beta2": 0.75,
           "lr_power": -0.5, "l2_shrinkage": 0.1, "sign_decay": 0.5, "logbase": 0.7, "beta": 0.75}
COUNTER = [0]
CASES = []


def feed(value):
    return tf1.placeholder_with_default(value, shape=None)


def random(dtype, shape, low=-2.0, high=2.0):
    values = RNG.uniform(low, high, size=shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * RNG.uniform(low, high, size=shape)
    return np.asarray(values).astype(dtype)


def initial(name, dtype, shape):
    """Sums of squares are positive."""
    if name == "m" and dtype not in WIDE:
        return random(dtype, shape, 5.0, 9.0)  # its sign must not depend on rounding
    if name in ("var", "m", "mg", "mom", "linear", "gradient_accumulator"):
        return random(dtype, shape)
    return random(dtype, shape, 5.0, 9.0)


def variable(arg, value, shape):
    if arg.is_ref:
        ref = R.VariableV2(shape=value.shape, dtype=value.dtype)
        return ref, R.Assign(ref=ref, value=feed(value)), ref
    COUNTER[0] += 1
    handle = R.VarHandleOp(dtype=value.dtype, shape=shape, shared_name=f"slot{COUNTER[0]}")
    return (handle, R.AssignVariableOp(resource=handle, value=feed(value)),
            R.ReadVariableOp(resource=handle, dtype=value.dtype))


def build(op, dtype, shape, rows=None, index_type=np.int32, scalars=None, attrs=None, gradient=None,
          slot_shape=None, wrong_slot=1, steps=3):
    definition = op_def_registry.get(op)
    inputs, starts, reads, runs = dict(attrs or {}), [], [], []
    values = {**SCALARS, **(scalars or {})}
    has_wrong_shapes = slot_shape is not None or gradient is not None
    for arg in definition.input_arg:
        if arg.is_ref or arg.type == tf.resource.as_datatype_enum:
            size = slot_shape if slot_shape is not None and len(reads) == wrong_slot else shape
            inputs[arg.name], start, read = variable(
                arg, initial(arg.name, dtype, size), None if has_wrong_shapes else size)
            starts.append(start)
            reads.append(read)
        elif arg.name == "global_step":
            inputs[arg.name] = feed(np.int64(3))
        elif arg.name == "indices":
            inputs[arg.name] = feed(np.array(rows, index_type))
        elif arg.name in ("grad", "delta"):
            wanted = shape if rows is None else (np.size(rows),) + tuple(shape[1:])
            inputs[arg.name] = feed(random(dtype, wanted if gradient is None else gradient))
        else:
            inputs[arg.name] = feed(np.asarray(values[arg.name]).astype(dtype))
    update = getattr(R, op)(**inputs)
    runs = [[start] for start in starts]
    for _ in range(steps):
        runs += [[update], reads]
    return {}, runs


def case(op, dtype, shape, label="", **more):
    CASES.append(Case(op, name=f"{op} {np.dtype(dtype).name}{list(shape)} {label}",
                      tolerance=TOLERANCE.get(np.dtype(dtype).name),
                      build=lambda: build(op, dtype, shape, **more)))


DENSE = {"GradientDescent": ALL, "ProximalGradientDescent": WIDE, "Momentum": ALL, "Adagrad": ALL,
         "AdagradV2": ALL, "AdagradDA": WIDE, "ProximalAdagrad": WIDE, "Adadelta": ALL, "Adam": ALL,
         "AdaMax": [np.float32, np.float64, np.float16], "RMSProp": ALL, "CenteredRMSProp": ALL,
         "Ftrl": FLOATS, "FtrlV2": FLOATS, "AddSign": FLOATS, "PowerSign": FLOATS,
         "KerasMomentum": ALL, "AdamWithAmsgrad": FLOATS}
RESOURCE_ONLY = ("KerasMomentum", "AdamWithAmsgrad")
NO_BFLOAT16 = [dtype for dtype in ALL if dtype is not bfloat16]
SPARSE = {"ProximalGradientDescent": WIDE, "Momentum": ALL, "KerasMomentum": ALL, "Adagrad": ALL,
          "AdagradV2": ALL, "AdagradDA": WIDE, "ProximalAdagrad": WIDE, "Adadelta": ALL,
          "RMSProp": NO_BFLOAT16, "CenteredRMSProp": NO_BFLOAT16, "Ftrl": FLOATS, "FtrlV2": FLOATS}
OPTIONS = {"Momentum": "use_nesterov", "KerasMomentum": "use_nesterov", "Adam": "use_nesterov",
           "Adagrad": "update_slots", "AdagradV2": "update_slots",
           "Ftrl": "multiply_linear_by_lr", "FtrlV2": "multiply_linear_by_lr"}
# Division by differences of squares: complex roots of them are badly conditioned.
SHAPES = [(), (7,), (3, 5), (0, 3), (1100,)]


def forms(name, kind):
    return ["Resource" + kind + name] + ([kind + name] if name not in RESOURCE_ONLY else [])


def scalars_of(op):
    return [arg.name for arg in op_def_registry.get(op).input_arg if arg.name in SCALARS]


# Slots that genuine TensorFlow does not look at: it reads and writes behind their end.
UNCHECKED = {("ResourceApplyAdadelta", 2), ("ResourceApplyAdamWithAmsgrad", 3)}


def wrong_slots(op, shape, wrong, **more):
    handles = [a for a in op_def_registry.get(op).input_arg if a.type == tf.resource.as_datatype_enum]
    for slot in set(range(1, len(handles))) - {slot for name, slot in UNCHECKED if name == op}:
        case(op, np.float32, shape, f"wrong slot {slot}", slot_shape=wrong, wrong_slot=slot, **more)


def options(name):
    return [{OPTIONS[name]: value} for value in (False, True)] if name in OPTIONS else [{}]


for optimizer, dtypes in DENSE.items():
    for full in forms(optimizer, "Apply"):
        for attr in options(optimizer):
            for number in dtypes:
                for size in SHAPES if number is np.float32 else [(3, 5), (1100,)]:
                    case(full, number, size, str(attr), attrs=attr, steps=2)
        case(full, np.float32, (2, 3), "wrong gradient", gradient=(3, 2))
        case(full, np.float32, (2, 3), "scalar gradient", gradient=())
        if full.startswith("Resource"):
            wrong_slots(full, (2, 3), (2,))
        for scalar in scalars_of(full):
            case(full, np.float32, (3,), f"vector {scalar}", scalars={scalar: [0.1]})
    case("ResourceApply" + optimizer, np.float32, (300000,), "large", steps=1)
for optimizer, dtypes in SPARSE.items():
    for full in forms(optimizer, "SparseApply"):
        for attr in options(optimizer):
            for number in dtypes:
                for size, index in [((6,), [4, 0]), ((5, 4), [3, 1, 0])]:
                    case(full, number, size, f"{index} {attr}", rows=index, attrs=attr, steps=2,
                         index_type=np.int64 if len(size) > 1 else np.int32)
        case(full, np.float32, (4, 2, 3), "cubes", rows=[2, 0], index_type=np.int32)
        case(full, np.float32, (5, 4), "no rows", rows=[])
        case(full, np.float32, (5, 3), "repeated", rows=[1, 4, 1, 1])
        case(full, np.float32, (5,), "repeated", rows=[1, 4, 1, 1])
        for bad in ([5], [-1], [[0]]):
            case(full, np.float32, (5, 3), f"bad {bad}", rows=bad)
        case(full, np.float32, (5, 3), "wrong gradient", rows=[0, 1], gradient=(2, 4))
        case(full, np.float32, (5, 3), "short gradient", rows=[0, 1], gradient=(1, 3))
        case(full, np.float32, (5, 0), "no columns", rows=[0, 1])
        for scalar in scalars_of(full):
            case(full, np.float32, (3,), f"vector {scalar}", rows=[0], scalars={scalar: [0.1]}, steps=1)
        if not full.startswith("Resource"):
            continue
        case(full, np.float32, (), "scalar variable", rows=[0], gradient=(1,))
        wrong_slots(full, (5, 3), (5,), rows=[0])
for kind, rows in (("Apply", None), ("SparseApply", [1, 0])):
    for optimizer in ("Ftrl", "FtrlV2"):
        for power in (-0.5, -0.3, -1.0, 0.0):
            for number in FLOATS[:3]:
                for scaled in (False, True):
                    case(f"Resource{kind}{optimizer}", number, (4, 3), f"power {power} {scaled}",
                         rows=rows, scalars={"lr_power": power},
                         attrs={"multiply_linear_by_lr": scaled})
    for optimizer in ("Ftrl", "FtrlV2", "ProximalAdagrad", "AdagradDA", "ProximalGradientDescent"):
        for change in ({"lr": -1.0}, {"lr": 0.0}, {"l1": -1.0}, {"l2": -1.0}, {"lr_power": 0.5},
                       {"l1": 0.0}, {"l2": 0.0}, {"l1": 20.0}, {"l2_shrinkage": -1.0}):
            if list(change)[0] in ("lr_power", "l2_shrinkage") and "Ftrl" not in optimizer:
                continue
            case(f"Resource{kind}{optimizer}", np.float32, (4, 3), f"{change}", rows=rows,
                 scalars=change, steps=1)


def build_missing():
    def handle():
        COUNTER[0] += 1
        return R.VarHandleOp(dtype=tf.float32, shape=None, shared_name=f"missing{COUNTER[0]}")
    one = feed(np.float32(1))
    gradient = feed(np.float32([1]))
    ref = R.VariableV2(shape=[1], dtype=tf.float32)
    return {}, [[R.ResourceApplyGradientDescent(var=handle(), alpha=one, delta=gradient)],
                [R.ResourceApplyMomentum(var=handle(), accum=handle(), lr=one, grad=gradient,
                                         momentum=one)],
                [R.ResourceSparseApplyMomentum(var=handle(), accum=handle(), lr=one, grad=gradient,
                                               indices=feed(np.int32([0])), momentum=one)],
                [R.ApplyGradientDescent(var=ref, alpha=one, delta=gradient)]]


CASES.append(Case("ResourceApplyGradientDescent", build=build_missing,
                  name="ResourceApplyGradientDescent missing"))
