"""Variables, optimizers, scatter updates, queues, accumulators, lists, stacks, control flow."""

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_registry
from table import (F, I, R, V, Builder, Case, given, handle_of, raw, read, reference_of, tf1, untimed)

N, M = 1000, 1 << 20


def stateful(op, sizes, build, covers=(), repeats=None):
    Case(op, sizes, build, covers=covers, repeats=repeats)


# ---- Variables ----
def variable_op(op, make):
    def build(n):
        return make(handle_of(F(n)) if "Variable" in op else reference_of(F(n)), given(F(n)))
    stateful(op, {"small": N, "large": M}, build)


for name in ("Assign", "AssignAdd", "AssignSub"):
    variable_op(name, lambda ref, value, op=name: lambda: getattr(R, op)(ref=ref, value=value))
for name in ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"):
    variable_op(name, lambda ref, value, op=name: lambda: getattr(R, op)(resource=ref, value=value))
variable_op("ReadVariableOp", lambda ref, value: lambda: R.ReadVariableOp(resource=ref, dtype=tf.float32))
stateful("VariableShape", {"small": N}, lambda n: (
    lambda ref: lambda: R.VariableShape(input=ref))(handle_of(F(n))))
stateful("VarIsInitializedOp", {"small": N}, lambda n: (
    lambda ref: lambda: R.VarIsInitializedOp(resource=ref))(handle_of(F(n))))
stateful("IsVariableInitialized", {"small": N}, lambda n: (
    lambda ref: lambda: R.IsVariableInitialized(ref=ref))(reference_of(F(n))))
stateful("DisableCopyOnRead", {"small": N}, lambda n: (
    lambda ref: lambda: R.DisableCopyOnRead(resource=ref))(handle_of(F(n))))
stateful("RefIdentity", {"small": N}, lambda n: (
    lambda ref: lambda: R.RefIdentity(input=ref))(reference_of(F(n))))
stateful("VarHandleOp", {"small": 0}, lambda n: lambda: R.VarHandleOp(dtype=tf.float32, shape=[3]))
stateful("VariableV2", {"small": 0}, lambda n: lambda: R.VariableV2(dtype=tf.float32, shape=[3]))


def temporary(n):
    value = given(F(n))

    def unit():
        ref = R.TemporaryVariable(shape=[n], dtype=tf.float32, var_name="temporary")
        assigned = R.Assign(ref=ref, value=value)
        return R.DestroyTemporaryVariable(ref=assigned, var_name="temporary")
    return unit


stateful("TemporaryVariable", {"small": N, "large": M}, temporary, covers=("DestroyTemporaryVariable",))


def destroyed(n):
    value = given(F(n))
    handle = R.VarHandleOp(dtype=tf.float32, shape=[n], shared_name="destroyed")

    def unit():
        with tf.control_dependencies([R.AssignVariableOp(resource=handle, value=value)]):
            return R.DestroyResourceOp(resource=handle)
    return unit


stateful("DestroyResourceOp", {"small": N}, destroyed)

# ---- Scatter updates, gathers ----
ROWS = {"small": (50, 20, 30), "large": (10000, 64, 4096)}  # rows, width, indices
for name in ("ScatterAdd", "ScatterSub", "ScatterUpdate"):
    def scatter(size, op=name):
        rows, width, count = size
        ref, indices, updates = reference_of(F(rows, width)), given(I(count, high=rows)), given(F(count, width))
        return lambda: getattr(R, op)(ref=ref, indices=indices, updates=updates)

    def resource_scatter(size, op="Resource" + name):
        rows, width, count = size
        ref, indices, updates = handle_of(F(rows, width)), given(I(count, high=rows)), given(F(count, width))
        return lambda: getattr(R, op)(resource=ref, indices=indices, updates=updates)
    stateful(name, ROWS, scatter)
    stateful("Resource" + name, ROWS, resource_scatter)


def scatter_nd(size):
    rows, width, count = size
    ref, indices, updates = reference_of(F(rows, width)), given(I(count, 1, high=rows)), given(F(count, width))
    return lambda: R.ScatterNdUpdate(ref=ref, indices=indices, updates=updates)


def resource_gather(size):
    rows, width, count = size
    ref, indices = handle_of(F(rows, width)), given(I(count, high=rows))
    return lambda: R.ResourceGather(resource=ref, indices=indices, dtype=tf.float32)


stateful("ScatterNdUpdate", ROWS, scatter_nd)
stateful("ResourceGather", ROWS, resource_gather)

# ---- Optimizers ----
SCALARS = {"alpha": 0.01, "lr": 0.01, "l1": 0.001, "l2": 0.001, "momentum": 0.9, "epsilon": 0.01,
           "rho": 0.9, "beta1_power": 0.5, "beta2_power": 0.25, "beta1": 0.9, "beta2": 0.99,
           "lr_power": -0.5, "l2_shrinkage": 0.1}


def optimizer(op):
    def build(size):
        shape, rows = size
        inputs = {}
        for arg in op_def_registry.get(op).input_arg:
            slot = F(*shape) if arg.name in ("var", "m", "mg", "mom", "linear") else F(*shape, low=5.0, high=9.0)
            if arg.is_ref:
                inputs[arg.name] = reference_of(slot)
            elif arg.type == tf.resource.as_datatype_enum:
                inputs[arg.name] = handle_of(slot)
            elif arg.name == "global_step":
                inputs[arg.name] = given(V(np.int64(3)))
            elif arg.name == "indices":
                inputs[arg.name] = given(I(rows, high=shape[0]))
            elif arg.name in ("grad", "delta"):
                inputs[arg.name] = given(F(*(shape if rows is None else (rows, *shape[1:]))))
            else:
                inputs[arg.name] = given(V(np.float32(SCALARS[arg.name])))
        return lambda: getattr(R, op)(**inputs)
    if "Sparse" in op:
        stateful(op, {"small": ((50, 20), 30), "large": ((10000, 64), 4096)}, build)
    else:
        stateful(op, {"small": ((N,), None), "large": ((M,), None)}, build)


DENSE = ["Adadelta", "Adagrad", "AdagradDA", "Adam", "CenteredRMSProp", "Ftrl", "GradientDescent",
         "Momentum", "ProximalAdagrad", "ProximalGradientDescent", "RMSProp"]
SPARSE = ["Adadelta", "Adagrad", "AdagradDA", "CenteredRMSProp", "Ftrl", "Momentum",
          "ProximalAdagrad", "ProximalGradientDescent"]
for name in DENSE:
    optimizer("Apply" + name)
    optimizer("ResourceApply" + name)
for name in ("AdamWithAmsgrad", "KerasMomentum"):
    optimizer("ResourceApply" + name)
for name in SPARSE:
    optimizer("SparseApply" + name)
    optimizer("ResourceSparseApply" + name)


# ---- Queues: each copy puts in what it takes out ----
def queue(make):
    def build(n):
        handle, value = make(), given(F(n))

        def unit():
            with tf.control_dependencies([R.QueueEnqueueV2(handle=handle, components=[value])]):
                return R.QueueDequeueV2(handle=handle, component_types=[tf.float32])
        return unit
    return build


stateful("FIFOQueueV2", {"small": N, "large": M},
         queue(lambda: R.FIFOQueueV2(component_types=[tf.float32], shared_name="fifo")),
         covers=("QueueEnqueueV2", "QueueDequeueV2"))
stateful("RandomShuffleQueueV2", {"small": N},
         queue(lambda: R.RandomShuffleQueueV2(component_types=[tf.float32], shared_name="shuffled", seed=1)))
stateful("PaddingFIFOQueueV2", {"small": N},
         queue(lambda: R.PaddingFIFOQueueV2(component_types=[tf.float32], shapes=[[None]], shared_name="padded")))


def priority_queue(n):
    handle = R.PriorityQueueV2(component_types=[tf.float32], shapes=[[n]], shared_name="priority")
    priority, value = given(V(np.int64(3))), given(F(n))

    def unit():
        with tf.control_dependencies([R.QueueEnqueueV2(handle=handle, components=[priority, value])]):
            return R.QueueDequeueV2(handle=handle, component_types=[tf.int64, tf.float32])
    return unit


stateful("PriorityQueueV2", {"small": N}, priority_queue)


def queue_many(take):
    def build(size):
        rows, width = size
        handle = R.FIFOQueueV2(component_types=[tf.float32], shapes=[[width]], shared_name=f"many{rows}")
        value, count = given(F(rows, width)), tf.constant(rows)

        def unit():
            with tf.control_dependencies([R.QueueEnqueueManyV2(handle=handle, components=[value])]):
                return take(handle=handle, n=count, component_types=[tf.float32])
        return unit
    return build


stateful("QueueDequeueManyV2", {"small": (20, 50), "large": (256, 1024)}, queue_many(R.QueueDequeueManyV2),
         covers=("QueueEnqueueManyV2",))
stateful("QueueDequeueUpToV2", {"small": (20, 50), "large": (256, 1024)}, queue_many(R.QueueDequeueUpToV2))


def asked_queue(op):
    def build(_):
        handle = R.FIFOQueueV2(component_types=[tf.float32], shared_name="asked")
        return lambda: getattr(R, op)(handle=handle)
    stateful(op, {"small": 0}, build)


for name in ("QueueSizeV2", "QueueIsClosedV2"):
    asked_queue(name)


# ---- Accumulators ----
def accumulator(prefix):
    def build(n):
        make = getattr(R, prefix + "ConditionalAccumulator")
        handle = make(dtype=tf.float32, shape=[n], shared_name=f"accumulator{n}")
        step, value, one = tf.constant(np.int64(1 << 40)), given(F(n)), tf.constant(1)

        def unit():
            with tf.control_dependencies([getattr(R, prefix + "AccumulatorApplyGradient")(
                    handle=handle, local_step=step, gradient=value)]):
                return getattr(R, prefix + "AccumulatorTakeGradient")(
                    handle=handle, num_required=one, dtype=tf.float32)
        return unit
    stateful(prefix + "ConditionalAccumulator", {"small": N, "large": M}, build,
             covers=(prefix + "AccumulatorApplyGradient", prefix + "AccumulatorTakeGradient"))

    def build_step(_):
        make = getattr(R, prefix + "ConditionalAccumulator")
        handle, step = make(dtype=tf.float32, shape=[2], shared_name="stepped"), tf.constant(np.int64(0))
        return lambda: getattr(R, prefix + "AccumulatorSetGlobalStep")(handle=handle, new_global_step=step)
    stateful(prefix + "AccumulatorSetGlobalStep", {"small": 0}, build_step)

    def build_count(_):
        make = getattr(R, prefix + "ConditionalAccumulator")
        handle = make(dtype=tf.float32, shape=[2], shared_name="counted")
        return lambda: getattr(R, prefix + "AccumulatorNumAccumulated")(handle=handle)
    stateful(prefix + "AccumulatorNumAccumulated", {"small": 0}, build_count)


accumulator("")
accumulator("Resource")


def sparse_accumulator(size):
    rows, width, count = size
    handle = R.SparseConditionalAccumulator(dtype=tf.float32, shape=[rows, width], shared_name=f"sparse{rows}")
    indices = given(V(np.arange(count, dtype=np.int64)))
    step, values, shape, one = (tf.constant(np.int64(1 << 40)), given(F(count, width)),
                                tf.constant(np.int64([rows, width])), tf.constant(1))

    def unit():
        with tf.control_dependencies([R.SparseAccumulatorApplyGradient(
                handle=handle, local_step=step, gradient_indices=indices, gradient_values=values,
                gradient_shape=shape, has_known_shape=True)]):
            return R.SparseAccumulatorTakeGradient(handle=handle, num_required=one, dtype=tf.float32)
    return unit


stateful("SparseConditionalAccumulator", ROWS, sparse_accumulator,
         covers=("SparseAccumulatorApplyGradient", "SparseAccumulatorTakeGradient"))


# ---- Stacks, tensor arrays, tensor lists: each copy makes, fills and reads one ----
def stack(n):
    value, size = given(F(n)), tf.constant(10)

    def unit():
        handle = R.StackV2(max_size=size, elem_type=tf.float32)
        with tf.control_dependencies([R.StackPushV2(handle=handle, elem=value)]):
            return R.StackPopV2(handle=handle, elem_type=tf.float32)
    return unit


stateful("StackV2", {"small": N}, stack, covers=("StackPushV2", "StackPopV2"))


def tensor_array(n):
    value, size, index, flow = given(F(n)), tf.constant(1), tf.constant(0), tf.constant(0.0)

    def unit():
        handle, flow_out = R.TensorArrayV3(size=size, dtype=tf.float32)
        flow_in = R.TensorArrayWriteV3(handle=handle, index=index, value=value, flow_in=flow_out)
        return R.TensorArrayReadV3(handle=handle, index=index, flow_in=flow_in, dtype=tf.float32)
    return unit


def tensor_array_rows(size):
    rows, width = size
    value, count, indices = given(F(rows, width)), tf.constant(rows), tf.constant(np.arange(rows, dtype=np.int32))

    def unit():
        handle, flow_out = R.TensorArrayV3(size=count, dtype=tf.float32)
        flow_in = R.TensorArrayScatterV3(handle=handle, indices=indices, value=value, flow_in=flow_out)
        return R.TensorArrayGatherV3(handle=handle, indices=indices, flow_in=flow_in, dtype=tf.float32)
    return unit


def tensor_array_gradient(n):
    value, size, index = given(F(n)), tf.constant(1), tf.constant(0)

    def unit():
        handle, flow_out = R.TensorArrayV3(size=size, dtype=tf.float32)
        flow_in = R.TensorArrayWriteV3(handle=handle, index=index, value=value, flow_in=flow_out)
        return R.TensorArrayGradV3(handle=handle, flow_in=flow_in, source="gradients")
    return unit


stateful("TensorArrayV3", {"small": N}, tensor_array, covers=("TensorArrayWriteV3", "TensorArrayReadV3"))
stateful("TensorArrayScatterV3", {"small": (20, 50), "large": (64, 4096)}, tensor_array_rows,
         covers=("TensorArrayGatherV3",))
stateful("TensorArrayGradV3", {"small": N}, tensor_array_gradient)


def list_op(op, make):
    stateful(op, {"small": (20, 50)}, make)


def of_rows(size):
    rows, width = size
    shape = tf.constant([width])
    handle = R.TensorListFromTensor(tensor=given(F(rows, width)), element_shape=shape)
    return handle, shape, tf.constant(3), given(F(width)), rows


def with_list(make):
    return lambda size: (lambda parts: lambda: make(*parts))(of_rows(size))


list_op("TensorListLength", with_list(lambda l, shape, i, item, n: R.TensorListLength(input_handle=l)))
list_op("TensorListElementShape", with_list(
    lambda l, shape, i, item, n: R.TensorListElementShape(input_handle=l, shape_type=tf.int32)))
list_op("TensorListGetItem", with_list(lambda l, shape, i, item, n: R.TensorListGetItem(
    input_handle=l, index=i, element_shape=shape, element_dtype=tf.float32)))
list_op("TensorListSetItem", with_list(
    lambda l, shape, i, item, n: R.TensorListSetItem(input_handle=l, index=i, item=item)))
list_op("TensorListPushBack", with_list(
    lambda l, shape, i, item, n: R.TensorListPushBack(input_handle=l, tensor=item)))
list_op("TensorListPopBack", with_list(lambda l, shape, i, item, n: R.TensorListPopBack(
    input_handle=l, element_shape=shape, element_dtype=tf.float32)))
list_op("EmptyTensorList", with_list(lambda l, shape, i, item, n: R.EmptyTensorList(
    element_shape=shape, max_num_elements=i, element_dtype=tf.float32)))
list_op("TensorListReserve", with_list(lambda l, shape, i, item, n: R.TensorListReserve(
    element_shape=shape, num_elements=i, element_dtype=tf.float32)))


def list_stack(size):
    rows, width = size
    handle = R.TensorListFromTensor(tensor=given(F(rows, width)), element_shape=tf.constant([width]))
    shape = tf.constant([width])
    return lambda: R.TensorListStack(input_handle=handle, element_shape=shape, element_dtype=tf.float32)


def list_from(size):
    value, shape = given(F(*size)), tf.constant([size[1]])
    return lambda: R.TensorListFromTensor(tensor=value, element_shape=shape)


stateful("TensorListStack", {"small": (20, 50), "large": (64, 4096)}, list_stack)
stateful("TensorListFromTensor", {"small": (20, 50), "large": (64, 4096)}, list_from)


# ---- Control flow and functions ----
def loop(turns):
    limit = given(V(np.int32(turns)))

    def unit():
        tf1.disable_control_flow_v2()
        result = tf1.while_loop(lambda i: i < limit, lambda i: i + 1, [tf.constant(0)])
        tf1.enable_control_flow_v2()
        return result
    return unit


stateful("Enter", {"small": 20}, loop, repeats={"small": 5},
         covers=("Exit", "LoopCond", "Merge", "NextIteration", "Switch"))


def function_graph(n):
    @tf.function
    def halve(x):
        return x * 0.5
    return halve.get_concrete_function(tf.TensorSpec([n], tf.float32))


def called(op):
    """Each copy works on what the one before gave, and an Assert takes the result: a side that puts
    the body in the call's place would otherwise leave out what nobody wants."""
    def build(n):
        function, value, condition = function_graph(n), given(F(n)), given(V(np.bool_(True)))
        function.add_to_graph()

        def unit():
            nonlocal value
            [value] = getattr(R, op)(args=[value], Tout=[tf.float32], f=function)
            return R.Assert(condition=condition, data=[value])
        return unit
    stateful(op, {"small": N, "large": M}, build)


called("PartitionedCall")
called("StatefulPartitionedCall")


def branch(op):
    def build(n):
        then, other = function_graph(n), function_graph(n)
        then.add_to_graph()
        other.add_to_graph()
        condition, value = given(V(np.bool_(True))), given(F(n))
        return lambda: getattr(R, op)(cond=condition, input=[value], Tout=[tf.float32],
                                      then_branch=then, else_branch=other)
    stateful(op, {"small": N}, build)


branch("If")
branch("StatelessIf")


def function_loop(op):
    def build(turns):
        @tf.function
        def condition(i):
            return i < turns

        @tf.function
        def body(i):
            return i + 1
        spec = tf.TensorSpec([], tf.int32)
        condition, body = condition.get_concrete_function(spec), body.get_concrete_function(spec)
        condition.add_to_graph()
        body.add_to_graph()
        start = given(V(np.int32(0)))
        return lambda: getattr(R, op)(input=[start], cond=condition, body=body)
    stateful(op, {"small": 20}, build, repeats={"small": 5})


function_loop("While")
function_loop("StatelessWhile")
stateful("NoOp", {"small": 0}, lambda n: R.NoOp)
stateful("ControlTrigger", {"small": 0}, lambda n: R.ControlTrigger)


def switched(n):
    value, choice = given(F(n)), given(V(np.bool_(True)))

    def unit():
        off, on = R.Switch(data=value, pred=choice)
        return R.Merge(inputs=[off, on])
    return unit


stateful("Switch", {"small": N}, switched, covers=("Merge",))


def ref_switched(n):
    ref, choice = reference_of(F(n)), given(V(np.bool_(True)))

    def unit():
        off, on = R.RefSwitch(data=ref, pred=choice)
        return R.RefMerge(inputs=[off, on])
    return unit


stateful("RefSwitch", {"small": N}, ref_switched, covers=("RefMerge",))


def ref_selected(n):
    refs, index = [reference_of(F(n)), reference_of(F(n))], given(V(np.int32(1)))
    return lambda: R.RefSelect(index=index, inputs=refs)


stateful("RefSelect", {"small": N}, ref_selected)


def asserted(n):
    condition, value = given(V(np.bool_(True))), given(F(n))
    return lambda: R.Assert(condition=condition, data=[value])


stateful("Assert", {"small": N}, asserted)

untimed("the frame ops of reference edges do what Enter, Exit and NextIteration do", "RefEnter", "RefExit",
        "RefNextIteration")
untimed("writes to standard error, whose speed is that of its reader", "Print", "PrintV2")
untimed("needs several tasks; measured by the benchmarks of clusters", "CollectiveBcastRecv",
        "CollectiveBcastSend", "CollectiveGather", "CollectiveReduce", "_HostRecv", "_HostSend", "_Recv", "_Send")
untimed("happens once in a queue's life", "QueueCloseV2")
untimed("expands into other ops when a function is built", "SymbolicGradient")
