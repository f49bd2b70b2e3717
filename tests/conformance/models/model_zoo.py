"""Small models as people wrote them for TensorFlow 1. Each function makes a graph and returns (loss,
training op, feeds by step). A model whose steps have several phases returns a list of losses and a
list of training ops, which run one after the other. Initial values and noise come from ops with
seeds."""

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1


def variable(name, shape, scale=None, partitioner=None):
    fan = shape[0] if len(shape) < 3 else int(np.prod(shape[:-1]))
    deviation = scale if scale is not None else 1. / np.sqrt(max(fan, 1))
    return tf1.get_variable(name, shape, tf.float32, tf1.truncated_normal_initializer(stddev=deviation, seed=11),
                            partitioner=partitioner)


def dense(x, size, name, activation=None):
    with tf1.variable_scope(name):
        weights = variable("weights", [int(x.shape[-1]), size])
        biases = tf1.get_variable("biases", [size], initializer=tf1.zeros_initializer())
        y = tf1.nn.bias_add(tf.matmul(x, weights), biases)
        return activation(y) if activation else y


def classification(logits, labels):
    return tf.reduce_mean(tf1.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


def batches(make):
    """Feeds for twenty steps from one seed."""
    random = np.random.RandomState(3)
    return [make(random) for _ in range(20)]


def mlp():
    x, labels = tf1.placeholder(tf.float32, [16, 20]), tf1.placeholder(tf.int64, [16])
    hidden = dense(dense(x, 32, "first", tf.nn.relu), 32, "second", tf.tanh)
    hidden = tf1.nn.dropout(hidden, rate=.2, seed=5)
    loss = classification(dense(hidden, 10, "logits"), labels)
    rate = tf1.train.exponential_decay(.1, tf1.train.get_or_create_global_step(), 5, .9)
    train = tf1.train.MomentumOptimizer(rate, .9).minimize(loss, global_step=tf1.train.get_global_step())
    return loss, train, batches(lambda r: {x: r.rand(16, 20), labels: r.randint(0, 10, 16)})


def batch_norm(x, name):
    size = int(x.shape[-1])
    with tf1.variable_scope(name):
        scale = tf1.get_variable("scale", [size], initializer=tf1.ones_initializer())
        offset = tf1.get_variable("offset", [size], initializer=tf1.zeros_initializer())
        mean = tf1.get_variable("mean", [size], initializer=tf1.zeros_initializer(), trainable=False)
        y, batch_mean, _ = tf1.nn.fused_batch_norm(x, scale, offset)
        tf1.add_to_collection(tf1.GraphKeys.UPDATE_OPS, tf1.assign_sub(mean, .1 * (mean - batch_mean)))
    return y


def cnn():
    x, labels = tf1.placeholder(tf.float32, [8, 12, 12, 3]), tf1.placeholder(tf.int64, [8])
    y = tf1.nn.conv2d(x, variable("filter1", [3, 3, 3, 8]), [1, 1, 1, 1], "SAME")
    y = tf1.nn.max_pool(tf.nn.relu(batch_norm(y, "norm1")), [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    y = tf1.nn.conv2d(y, variable("filter2", [3, 3, 8, 16]), [1, 2, 2, 1], "VALID")
    y = tf1.nn.avg_pool(tf.nn.relu(batch_norm(y, "norm2")), [1, 2, 2, 1], [1, 1, 1, 1], "VALID")
    loss = classification(dense(tf.reshape(y, [8, -1]), 5, "logits"), labels)
    with tf1.control_dependencies(tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)):
        train = tf1.train.AdamOptimizer(.01).minimize(loss)
    return loss, train, batches(lambda r: {x: r.rand(8, 12, 12, 3), labels: r.randint(0, 5, 8)})


def lstm_step(x, c, h, size, name):
    gates = dense(tf.concat([x, h], 1), 4 * size, name)
    i, j, f, o = tf.split(gates, 4, 1)
    c = c * tf.sigmoid(f + 1.) + tf.sigmoid(i) * tf.tanh(j)
    return c, tf.tanh(c) * tf.sigmoid(o)


class LSTMCell:
    """A cell with what dynamic_rnn needs."""

    def __init__(self, size):
        self.state_size, self.output_size = (size, size), size

    def zero_state(self, batch_size, dtype):
        return tuple(tf.zeros([batch_size, size], dtype) for size in self.state_size)

    def __call__(self, x, state, scope=None):
        with tf1.variable_scope("lstm", reuse=tf1.AUTO_REUSE):
            c, h = lstm_step(x, *state, self.output_size, "gates")
        return h, (c, h)


class GRUCell:
    def __init__(self, size):
        self.state_size = self.output_size = size

    def zero_state(self, batch_size, dtype):
        return tf.zeros([batch_size, self.state_size], dtype)

    def __call__(self, x, h, scope=None):
        with tf1.variable_scope("gru", reuse=tf1.AUTO_REUSE):
            r, u = tf.split(tf.sigmoid(dense(tf.concat([x, h], 1), 2 * self.state_size, "gates")), 2, 1)
            c = tf.tanh(dense(tf.concat([x, r * h], 1), self.state_size, "candidate"))
        h = u * h + (1. - u) * c
        return h, h


def lstm_while_loop():
    x, y = tf1.placeholder(tf.float32, [6, 4, 3]), tf1.placeholder(tf.float32, [4, 2])
    inputs = tf.TensorArray(tf.float32, 6).unstack(x)
    with tf1.variable_scope("loop"):
        lstm_step(tf.zeros([4, 3]), tf.zeros([4, 8]), tf.zeros([4, 8]), 8, "gates")

    def body(step, c, h, outputs):
        with tf1.variable_scope("loop", reuse=True):
            c, h = lstm_step(inputs.read(step), c, h, 8, "gates")
        return step + 1, c, h, outputs.write(step, h)
    start = (0, tf.zeros([4, 8]), tf.zeros([4, 8]), tf.TensorArray(tf.float32, 6))
    _, _, h, outputs = tf1.while_loop(lambda step, *_: step < 6, body, start)
    loss = tf.reduce_mean(tf1.squared_difference(dense(h, 2, "out"), y)) + \
        .01 * tf.reduce_mean(tf.square(outputs.stack()))
    train = tf1.train.RMSPropOptimizer(.01, momentum=.5).minimize(loss)
    return loss, train, batches(lambda r: {x: r.rand(6, 4, 3), y: r.rand(4, 2)})


def recurrent(cell):
    def build():
        x, labels = tf1.placeholder(tf.float32, [4, 7, 5]), tf1.placeholder(tf.int64, [4])
        lengths = tf1.placeholder(tf.int32, [4])
        outputs, _ = tf1.nn.dynamic_rnn(cell(10), x, sequence_length=lengths, dtype=tf.float32)
        loss = classification(dense(tf.reduce_max(outputs, 1), 3, "logits"), labels)
        optimizer = tf1.train.AdagradOptimizer(.1)
        gradients, variables = zip(*optimizer.compute_gradients(loss))
        gradients, _ = tf1.clip_by_global_norm(gradients, .5)
        return loss, optimizer.apply_gradients(zip(gradients, variables)), batches(
            lambda r: {x: r.rand(4, 7, 5), labels: r.randint(0, 3, 4), lengths: r.randint(1, 8, 4)})
    return build


def word2vec():
    words, contexts = tf1.placeholder(tf.int64, [12]), tf1.placeholder(tf.int64, [12, 1])
    embeddings = variable("embeddings", [50, 8], 1.)
    weights, biases = variable("nce_weights", [50, 8]), tf1.get_variable("nce_biases", [50],
                                                                          initializer=tf1.zeros_initializer())
    samples = tf1.random.log_uniform_candidate_sampler(contexts, 1, 6, True, 50, seed=9)
    loss = tf.reduce_mean(tf1.nn.nce_loss(weights, biases, contexts, tf1.nn.embedding_lookup(embeddings, words), 6,
                                          50, sampled_values=samples))
    train = tf1.train.GradientDescentOptimizer(.5).minimize(loss)
    return loss, train, batches(lambda r: {words: r.randint(0, 50, 12), contexts: r.randint(0, 50, (12, 1))})


def wide_and_deep():
    ids = tf1.sparse_placeholder(tf.int64, [8, 5])
    numbers, labels = tf1.placeholder(tf.float32, [8, 4]), tf1.placeholder(tf.float32, [8])
    parts = tf1.fixed_size_partitioner(3)
    deep = variable("deep", [30, 6], .5, parts)
    wide = variable("wide", [30, 1], .5, parts)
    embedded = tf1.nn.embedding_lookup_sparse(deep, ids, None, combiner="mean")
    linear = tf1.nn.embedding_lookup_sparse(wide, ids, None, combiner="sum")
    hidden = dense(tf.concat([embedded, numbers], 1), 10, "hidden", tf.nn.relu)
    logits = tf.squeeze(dense(hidden, 1, "out") + linear, 1)
    loss = tf.reduce_mean(tf1.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    wide_variables = [v for v in tf1.trainable_variables() if v.name.startswith("wide")]
    deep_variables = [v for v in tf1.trainable_variables() if not v.name.startswith("wide")]
    train = tf.group(tf1.train.FtrlOptimizer(.1, l1_regularization_strength=.001).minimize(loss, var_list=wide_variables),
                     tf1.train.AdagradOptimizer(.1).minimize(loss, var_list=deep_variables))

    def feeds(r):
        indices = [[row, column] for row in range(8) for column in range(r.randint(1, 6))]
        return {ids: tf1.SparseTensorValue(indices, r.randint(0, 30, len(indices)), [8, 5]),
                numbers: r.rand(8, 4), labels: r.randint(0, 2, 8)}
    return loss, train, batches(feeds)


def layer_norm(x, name):
    with tf1.variable_scope(name):
        scale = tf1.get_variable("scale", [int(x.shape[-1])], initializer=tf1.ones_initializer())
        offset = tf1.get_variable("offset", [int(x.shape[-1])], initializer=tf1.zeros_initializer())
        mean, variance = tf1.nn.moments(x, [-1], keep_dims=True)
        return (x - mean) * tf1.rsqrt(variance + 1e-6) * scale + offset


def transformer():
    tokens, labels = tf1.placeholder(tf.int32, [4, 6]), tf1.placeholder(tf.int64, [4, 6])
    x = tf1.nn.embedding_lookup(variable("tokens", [20, 16], .5), tokens) + variable("positions", [6, 16], .5)
    flat = tf.reshape(layer_norm(x, "norm1"), [24, 16])
    q, k, v = (tf.transpose(tf.reshape(dense(flat, 16, name), [4, 6, 2, 8]), [0, 2, 1, 3]) for name in "qkv")
    mask = tf1.matrix_band_part(tf.ones([6, 6]), -1, 0)
    scores = tf.matmul(q, k, transpose_b=True) / np.sqrt(8.) + (1. - mask) * -1e9
    attended = tf.reshape(tf.transpose(tf.matmul(tf.nn.softmax(scores), v), [0, 2, 1, 3]), [24, 16])
    x = tf.reshape(x, [24, 16]) + dense(attended, 16, "project")
    hidden = dense(layer_norm(x, "norm2"), 32, "expand", lambda y: .5 * y * (1. + tf1.erf(y / np.sqrt(2.))))
    logits = dense(x + dense(hidden, 16, "shrink"), 20, "logits")
    loss = classification(tf.reshape(logits, [4, 6, 20]), labels)
    train = tf1.train.AdamOptimizer(.005, beta2=.98).minimize(loss)
    return loss, train, batches(lambda r: {tokens: r.randint(0, 20, (4, 6)), labels: r.randint(0, 20, (4, 6))})


def gan():
    real = tf1.placeholder(tf.float32, [8, 6])
    noise = tf1.random_normal([8, 4], seed=21)
    with tf1.variable_scope("generator"):
        fake = dense(dense(noise, 12, "hidden", tf.nn.leaky_relu), 6, "out", tf.tanh)

    def discriminate(x):
        with tf1.variable_scope("discriminator", reuse=tf1.AUTO_REUSE):
            return dense(dense(x, 12, "hidden", tf.nn.leaky_relu), 1, "out")
    on_real, on_fake = discriminate(real), discriminate(fake)
    cross = tf1.nn.sigmoid_cross_entropy_with_logits
    critic = tf.reduce_mean(cross(labels=tf.ones_like(on_real), logits=on_real)) + \
        tf.reduce_mean(cross(labels=tf.zeros_like(on_fake), logits=on_fake))
    forger = tf.reduce_mean(cross(labels=tf.ones_like(on_fake), logits=on_fake))

    def part(name):
        return tf1.get_collection(tf1.GraphKeys.TRAINABLE_VARIABLES, name)
    train = [tf1.train.AdamOptimizer(.01, beta1=.5).minimize(loss, var_list=part(name))
             for loss, name in [(critic, "discriminator"), (forger, "generator")]]
    return [critic, forger], train, batches(lambda r: {real: np.tanh(r.randn(8, 6))})


MODELS = {
    "mlp": mlp,
    "cnn": cnn,
    "lstm_while_loop": lstm_while_loop,
    "lstm_dynamic_rnn": recurrent(LSTMCell),
    "gru_dynamic_rnn": recurrent(GRUCell),
    "word2vec": word2vec,
    "wide_and_deep": wide_and_deep,
    "transformer": transformer,
    "gan": gan,
}
