"""Typical graphs of TensorFlow 1 clients, one function per graph, for test_graph_roundtrip.py."""
import tensorflow as tf

tf1 = tf.compat.v1


def dense(x, units, name, resource):
    with tf1.variable_scope(name, use_resource=resource):
        weights = tf1.get_variable("weights", [x.shape[-1], units],
                                   initializer=tf1.truncated_normal_initializer(stddev=0.1))
        bias = tf1.get_variable("bias", [units], initializer=tf1.zeros_initializer())
        return tf.matmul(x, weights) + bias


def mlp(optimizer, resource):
    x = tf1.placeholder(tf.float32, [None, 12], name="x")
    y = tf1.placeholder(tf.int64, [None], name="y")
    with tf1.device("/job:ps/task:0"):
        hidden = tf.nn.relu(dense(x, 8, "hidden", resource))
        logits = dense(hidden, 3, "logits", resource)
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    step = tf1.train.get_or_create_global_step()
    optimizer.minimize(loss, global_step=step)
    tf1.summary.scalar("loss", loss)
    tf1.summary.merge_all()
    tf1.train.Saver()
    tf1.global_variables_initializer()


def mlp_sgd():
    mlp(tf1.train.GradientDescentOptimizer(0.1), resource=False)


def mlp_adam_resource():
    mlp(tf1.train.AdamOptimizer(0.01), resource=True)


def mlp_momentum():
    mlp(tf1.train.MomentumOptimizer(0.01, 0.9, use_nesterov=True), resource=False)


def convolution():
    x = tf1.placeholder(tf.float32, [None, 16, 16, 3])
    kernel = tf1.get_variable("kernel", [3, 3, 3, 4])
    y = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "SAME")), 2, 2, "VALID")
    y, _, _ = tf1.nn.fused_batch_norm(y, tf.ones([4]), tf.zeros([4]))
    tf1.train.RMSPropOptimizer(0.1).minimize(tf.reduce_sum(y))


def loop(v2):
    (tf1.enable_control_flow_v2 if v2 else tf1.disable_control_flow_v2)()
    x = tf1.placeholder(tf.float32, [], name="x")
    array = tf.TensorArray(tf.float32, size=5)

    def body(i, value, array):
        value = tf.cond(value > 10.0, lambda: value / 2.0, lambda: value * x)
        return i + 1, value, array.write(i, value)

    _, value, array = tf.while_loop(lambda i, *_: i < 5, body, [0, x, array],
                                    parallel_iterations=3)
    tf1.gradients([value, array.stack()], x)


def loop_v1():
    loop(False)


def loop_v2():
    loop(True)


def nested_loops_v1():
    tf1.disable_control_flow_v2()
    x = tf1.placeholder(tf.float32, [3])

    def inner(i, v):
        return tf.while_loop(lambda j, w: j < i, lambda j, w: (j + 1, w * x), [0, v])[1]

    result = tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, inner(i, v)), [0, x])
    tf1.gradients(result[1], x)


def conditions_v1():
    tf1.disable_control_flow_v2()
    flag = tf1.placeholder(tf.bool, [])
    variable = tf1.get_variable("v", initializer=1.0, use_resource=False)
    tf.cond(flag, lambda: tf1.assign_add(variable, 1.0), lambda: tf1.assign(variable, 0.0))
    tf1.case([(flag, lambda: 1.0), (tf.logical_not(flag), lambda: 2.0)])


def functions():
    tf1.enable_control_flow_v2()

    @tf.function
    def square(x):
        return x * x + tf.cond(tf.reduce_sum(x) > 0.0, lambda: 1.0, lambda: -1.0)

    @tf.function(autograph=False)
    def twice(x, y):
        tf1.print("twice", x)
        return square(x) + square(y), {"sum": x + y}

    x = tf1.placeholder(tf.float32, [None, 2])
    result, _ = twice(x, x + 1.0)
    tf1.gradients(result, x)
    tf.map_fn(lambda v: v * 2.0, x)


def defuns():
    from tensorflow.python.framework import function

    @function.Defun(tf.float32, tf.float32, func_name="AddOneGrad")
    def backward(x, dy):
        return dy * x

    @function.Defun(tf.float32, grad_func=backward, func_name="AddOne")
    def forward(x):
        return x + 1.0

    x = tf1.placeholder(tf.float32, [])
    tf1.gradients(forward(x), x)


def queues_and_data():
    queue = tf1.FIFOQueue(10, [tf.float32, tf.int32], shapes=[[2], []], names=["a", "b"])
    queue.enqueue({"a": [1.0, 2.0], "b": 3})
    queue.dequeue_many(4)
    data = tf.data.Dataset.range(10).map(lambda v: v * 2).shuffle(4).batch(2).repeat()
    tf1.data.make_initializable_iterator(data).get_next()
    tf1.train.string_input_producer(["a", "b\0c", "\xff"])
    tf1.py_func(lambda v: v, [tf.constant(1)], tf.int32)
    tf1.string_split(["a b"], " ")
    tf.io.parse_example(tf1.placeholder(tf.string, [None]),
                        {"x": tf.io.FixedLenFeature([2], tf.float32, [1.0, 2.0]),
                         "y": tf.io.VarLenFeature(tf.int64)})


def constants():
    import numpy
    for dtype in (tf.half, tf.bfloat16, tf.float64, tf.int8, tf.uint16, tf.uint64, tf.complex64,
                  tf.complex128, tf.bool):
        tf.constant(numpy.ones([2, 3]), dtype)
    tf.constant(["a", "long " * 100, ""])
    tf.constant([], tf.float32)
    tf.constant(numpy.arange(10000, dtype=numpy.int32).reshape(100, 100))
    tf.zeros([2, 0, 3])
    tf.quantization.quantize(tf.constant([1.0]), 0.0, 2.0, tf.quint8)


def devices_and_controls():
    with tf1.device("/job:worker/replica:0/task:1/device:CPU:0"):
        a = tf.constant(1.0, name="a")
    with tf1.device("/gpu:0"), tf1.colocate_with(a):
        b = tf.identity(a, name="b")
    with tf.control_dependencies([a.op, b.op, tf.no_op("n")]):
        c = tf.add(a, b, name="scope/c")
        tf.identity_n([a, b, c])
    tf1.get_variable("part", [10, 3], partitioner=tf1.fixed_size_partitioner(3))
    tf1.get_default_graph().get_operation_by_name("a")._set_attr(
        "_custom", tf1.AttrValue(s=b"bytes\0\xff"))


def synchronous_replicas():
    optimizer = tf1.train.SyncReplicasOptimizer(tf1.train.AdagradOptimizer(0.1), 2, 3)
    x = tf1.get_variable("x", [4], use_resource=False)
    table = tf1.get_variable("table", [8, 4], use_resource=False)
    rows = tf1.nn.embedding_lookup(table, [1, 2, 3])
    optimizer.minimize(tf.reduce_sum(x * rows), global_step=tf1.train.get_or_create_global_step())
    optimizer.get_init_tokens_op()


ALL = [mlp_sgd, mlp_adam_resource, mlp_momentum, convolution, loop_v1, loop_v2, nested_loops_v1,
       conditions_v1, functions, defuns, queues_and_data, constants, devices_and_controls,
       synchronous_replicas]


def build_graph(model):
    tf1.enable_resource_variables()
    tf1.disable_control_flow_v2()
    graph = tf1.Graph()
    with graph.as_default():
        model()
    return graph


def build(model):
    return build_graph(model).as_graph_def()
