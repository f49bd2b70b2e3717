"""What a client may cost: threads, depth of calls and memory are bounded, and the server lives on."""

import grpc
import pytest
import tensorflow as tf

from conftest import Server, tf1

LIMIT = 1 << 30


@pytest.fixture(scope="module")
def limited():
    """A server that may take 1 GiB of address space."""
    server = Server("--port", "0", prefix=["prlimit", f"--as={LIMIT}"])
    yield server
    server.stop()


def threads_of(server):
    with open(f"/proc/{server.process.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("Threads:"))


def good_answer(target):
    with tf.Graph().as_default(), tf1.Session(target) as session:
        return session.run(tf.constant(20) + 22)


@pytest.mark.parametrize("number", [-1, 0, 1, 2_000_000])
def test_threads_of_a_session(server, number):
    """Any number works, and none costs a thread each."""
    before = threads_of(server)
    config = tf1.ConfigProto()
    config.session_inter_op_thread_pool.add(num_threads=number)
    with tf1.Session(server.target, config=config) as session:
        assert session.run(tf.constant(1) + 1) == 2
        assert threads_of(server) - before < 300


def name_function(call):
    call.attr["Tin"].list.type.append(tf.float32.as_datatype_enum)
    call.attr["Tout"].list.type.append(tf.float32.as_datatype_enum)
    call.attr["f"].func.name = "Endless"


def endless():
    """A graph whose function calls itself for ever."""
    graph = tf1.GraphDef()
    function = graph.library.function.add()
    function.signature.name = "Endless"
    function.signature.input_arg.add(name="x", type=tf.float32.as_datatype_enum)
    function.signature.output_arg.add(name="y", type=tf.float32.as_datatype_enum)
    again = function.node_def.add(name="again", op="StatefulPartitionedCall", input=["x"])
    name_function(again)
    function.ret["y"] = "again:output:0"
    constant = graph.node.add(name="c", op="Const")
    constant.attr["dtype"].type = tf.float32.as_datatype_enum
    constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(1.0))
    name_function(graph.node.add(name="call", op="StatefulPartitionedCall", input=["c"]))
    return graph


def field(number, contents):
    """A field of a message as protobuf writes it; TensorFlow's wheels lack the master's messages."""
    size, head = len(contents), bytes([number << 3 | 2])
    while size > 127:
        head += bytes([size & 127 | 128])
        size >>= 7
    return head + bytes([size]) + contents


def ask(target, method, request):
    with grpc.insecure_channel(target.removeprefix("grpc://")) as channel:
        return channel.unary_unary(f"/tensorflow.MasterService/{method}")(request, timeout=60)


def test_a_function_that_calls_itself(server):
    """TensorFlow's own client falls over such a graph, so the calls are made by hand."""
    created = ask(server.target, "CreateSession", field(1, endless().SerializeToString()))
    session = created[2:2 + created[1]]  # the answer's first field is the handle
    with pytest.raises(grpc.RpcError, match="Endless.*calls are nested more than") as raised:
        ask(server.target, "RunStep", field(1, session) + field(3, b"call:0"))
    assert raised.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    ask(server.target, "CloseSession", field(1, session))
    assert good_answer(server.target) == 42


def large_constant():
    graph = tf1.GraphDef()
    node = graph.node.add(name="c", op="Const")
    node.attr["dtype"].type = tf.float32.as_datatype_enum
    value = node.attr["value"].tensor
    value.dtype = tf.float32.as_datatype_enum
    value.tensor_shape.dim.add(size=1 << 28)
    value.float_val.append(1)
    graph.node.add(name="sum", op="NoOp", input=["^c"])
    return graph


def test_a_constant_that_does_not_fit(limited):
    """A GiB from some hundred bytes, twice: refused, and the server answers others."""
    for _ in range(2):
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(large_constant(), name="")
            with tf1.Session(limited.target, graph=graph) as session:
                with pytest.raises(tf.errors.ResourceExhaustedError, match="OOM|memory"):
                    session.run("sum")
        assert good_answer(limited.target) == 42


def test_values_fill_the_memory_and_no_more(limited):
    """Tensors of 64 MiB each are kept until the limit refuses one."""
    with tf1.Session(limited.target) as session:
        kept = tf1.get_session_handle(tf.zeros([1 << 24], tf.float32) + 1.)
        with pytest.raises(tf.errors.ResourceExhaustedError):
            for _ in range(16):
                session.run(kept)
        assert good_answer(limited.target) == 42
    assert good_answer(limited.target) == 42
