"""Handles along reference edges that are none, for every kind of resource."""
import tensorflow as tf
from runner import case_decorator, feed, make_op

CASES = []
case = case_decorator(CASES)


def use_handle(op, strings, slot="handle", **arguments):
    """Runs of an op that takes the strings of a variable for a handle."""
    variable = make_op("VariableV2", shape=tf.TensorShape(None), dtype=tf.string)
    assign = make_op("Assign", ref=variable, value=feed(strings), validate_shape=False)
    return [[assign.op], [make_op(op, **{slot: variable}, **arguments)]]


for op, arguments in [
        ("StackPop", {"elem_type": tf.float32}), ("QueueSize", {}), ("BarrierReadySize", {}),
        ("AccumulatorNumAccumulated", {}), ("LookupTableSize", {"slot": "table_handle"}),
        ("ReaderNumRecordsProduced", {"slot": "reader_handle"})]:
    for strings in (["a"], ["a", "b", "c"], ["nowhere", "nothing"]):
        @case(op, f"handle of {len(strings)}")
        def wrong_handle(op=op, strings=strings, arguments=arguments):
            return use_handle(op, strings, **arguments)
