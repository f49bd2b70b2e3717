"""Graphs for test_gradients.py with layers of networks, and with gradients of gradients. The form is
that of gradient_cases.py."""
import tensorflow as tf
from gradient_cases import CASES, case, random, raw, tf1


# ---- Networks ----

@case
def cross_entropies():
    logits, labels = random(3, 4), tf.nn.softmax(random(3, 4))
    dense = raw.SoftmaxCrossEntropyWithLogits(features=logits, labels=labels)
    sparse = raw.SparseSoftmaxCrossEntropyWithLogits(features=logits, labels=[1, 0, 3])
    return [dense.loss * random(3), sparse.loss * random(3)], [logits, labels]


@case
def convolutions():
    x, w, d = random(2, 5, 6, 3), random(3, 2, 3, 4), random(3, 3, 3, 2)
    return [tf.nn.conv2d(x, w, [1, 2, 1, 1], "SAME") * random(2, 3, 6, 4),
            tf.nn.conv2d(x, w, 1, "VALID"),
            tf1.nn.depthwise_conv2d_native(x, d, [1, 1, 1, 1], "SAME") * random(2, 5, 6, 6)], [
                x, w, d]


@case
def transposed_convolution():
    x, w = random(2, 3, 3, 4), random(3, 3, 2, 4)
    return [tf.nn.conv2d_transpose(x, w, [2, 6, 6, 2], 2) * random(2, 6, 6, 2)], [x, w]


@case
def convolution_3d():
    x, w = random(1, 4, 4, 4, 2), random(2, 2, 2, 2, 3)
    return [tf.nn.conv3d(x, w, [1, 1, 1, 1, 1], "SAME") * random(1, 4, 4, 4, 3)], [x, w]


@case
def pools():
    x = random(2, 6, 6, 3)
    return [tf.nn.max_pool2d(x, 2, 2, "SAME") * random(2, 3, 3, 3),
            tf.nn.max_pool2d(x, 3, 1, "VALID") * random(2, 4, 4, 3),
            tf.nn.avg_pool2d(x, 2, 2, "VALID") * random(2, 3, 3, 3)], [x]


@case
def local_response():
    x = random(2, 2, 2, 5)
    return [tf.nn.lrn(x, 2, 1.0, 0.5, 0.5) * random(2, 2, 2, 5)], [x]


@case
def batch_norms():
    x, scale, offset = random(3, 2, 2, 4), random(4), random(4)
    mean, variance = random(4), random(4, low=0.5)
    training = tf1.nn.fused_batch_norm(x, scale, offset)[0]
    fixed = tf1.nn.fused_batch_norm(x, scale, offset, mean, variance, is_training=False)[0]
    old = raw.FusedBatchNorm(x=x, scale=scale, offset=offset, mean=[], variance=[])
    return [training * random(3, 2, 2, 4), fixed * random(3, 2, 2, 4),
            old.y * random(3, 2, 2, 4)], [x, scale, offset]


@case
def images():
    x = random(1, 3, 3, 2)
    return [tf1.image.resize_bilinear(x, [5, 4]) * random(1, 5, 4, 2),
            tf1.image.resize_nearest_neighbor(x, [6, 6]) * random(1, 6, 6, 2)], [x]


@case
def perceptron():
    x, w1, b1, w2 = random(4, 5), random(5, 6), random(6), random(6, 3)
    hidden = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, w1), b1))
    logits = tf.matmul(hidden, w2)
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[0, 2, 1, 1], logits=logits)
    return [tf.reduce_mean(loss) + 0.01 * tf.nn.l2_loss(w1)], [x, w1, b1, w2]


@case
def recurrent_cell():
    x, h, c, w, b = random(3, 4), random(3, 5), random(3, 5), random(9, 20), random(20)
    for _ in range(3):
        gates = tf.nn.bias_add(tf.matmul(tf.concat([x, h], 1), w), b)
        i, j, f, o = tf.split(gates, 4, 1)
        c = tf.sigmoid(f + 1) * c + tf.sigmoid(i) * tf.tanh(j)
        h = tf.tanh(c) * tf.sigmoid(o)
    return [h, c], [x, w, b]


@case
def gradients_of_gradients():
    x = random(3, 2, low=0.3)
    ys = [tf.tanh(x), tf.sigmoid(x), tf.sqrt(x), 1 / x, tf.math.rsqrt(x), tf.nn.relu(x), x ** 3,
          tf.exp(x), tf.nn.elu(x - 0.6), tf.nn.softplus(x)]
    return tf.gradients(ys, x), [x]


@case
def convolution_twice():
    x, w = random(1, 4, 4, 2), random(2, 2, 2, 3)
    y = tf.nn.max_pool2d(tf.nn.conv2d(x, w, 1, "SAME") ** 2, 2, 2, "SAME")
    return tf.gradients(y, [x, w]), [x, w]


@case
def unconnected():
    x, y = random(2), random(2)
    return [x * 2], [x, y]


@case
def middle():
    x = random(2, 2)
    m = tf.exp(x)
    return [m * m + x], [m, x]


@case
def embedding_twice():
    table = random(6, 3)
    first = tf.gather(table, [1, 2, 1]) * random(3, 3)
    second = tf.gather(table, tf.constant([5, 1], tf.int64)) * random(2, 3)
    return [first, second, table[:2] * 3, first], [table]


@case
def depthwise_twice():
    x, w = random(1, 4, 4, 2), random(2, 2, 2, 2)
    y = tf1.nn.depthwise_conv2d_native(x, w, [1, 1, 1, 1], "SAME") ** 3
    return tf.gradients(y, [x, w]), [x, w]


# ---- Normalization, twice ----

def batch_norm_twice(name, **options):
    def build():
        channels = 3 if options.get("data_format", "NHWC")[-1] == "C" else 2
        x, scale, offset = random(4, 2, 2, 3), random(channels), random(channels)
        empty = [] if options.get("is_training", True) else random(channels, low=0.5)
        y = raw.FusedBatchNormV3(x=x, scale=scale, offset=offset, mean=empty, variance=empty,
                                 **options).y
        first = tf.gradients(y * random(4, 2, 2, 3), [x, scale, offset])
        return [first[0] * random(4, 2, 2, 3), first[1] * random(channels)], [x, scale]
    CASES[name] = build


batch_norm_twice("batch_norm_twice")
batch_norm_twice("batch_norm_twice_epsilon", epsilon=0.2)
batch_norm_twice("batch_norm_twice_fixed", is_training=False)


@case
def batch_norm_twice_older():
    x, scale, offset = random(4, 2, 2, 3), random(3), random(3)
    ys = [op(x=x, scale=scale, offset=offset, mean=[], variance=[]).y * random(4, 2, 2, 3)
          for op in (raw.FusedBatchNorm, lambda **k: raw.FusedBatchNormV2(**k))]
    return [g * random(4, 2, 2, 3) for y in ys for g in tf.gradients(y, [x])], [x, scale]


@case
def volumes_twice():
    x, w = random(1, 3, 3, 3, 2), random(2, 2, 2, 2, 2)
    y = tf.nn.conv3d(x, w, [1, 1, 1, 1, 1], "SAME") ** 2
    pooled = tf.nn.avg_pool3d(x * x, 2, 1, "VALID") ** 2
    return tf.gradients(y, [x, w]) + tf.gradients(pooled, [x]), [x, w]


@case
def pool_with_argmax():
    x = random(2, 4, 4, 2)
    return [tf.nn.max_pool_with_argmax(x, 2, 2, "SAME").output * random(2, 2, 2, 2)], [x]


@case
def max_pool_v2_twice():
    x = random(1, 4, 4, 2)
    y = raw.MaxPoolV2(input=x * x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
    return tf.gradients(y ** 2, x), [x]


@case
def quantizations():
    x = random(3, 4, low=-2, high=2)
    low, high = tf.constant(-1.0), tf.constant(1.0)
    lows, highs = random(4, low=-1, high=-0.5), random(4, low=0.5, high=1)
    raw_v4 = raw.QuantizeAndDequantizeV4(input=x, input_min=low, input_max=high, range_given=True)
    return [tf.quantization.fake_quant_with_min_max_args(x, -1, 1) * random(3, 4),
            tf.quantization.fake_quant_with_min_max_vars(x, low, high) * random(3, 4),
            tf.quantization.fake_quant_with_min_max_vars_per_channel(x, lows, highs) * random(3, 4),
            raw.QuantizeAndDequantizeV2(input=x, input_min=low, input_max=high) * random(3, 4),
            raw.QuantizeAndDequantizeV3(input=x, input_min=low, input_max=high,
                                        num_bits=8) * random(3, 4),
            raw_v4 * random(3, 4)], [x, low, high, lows, highs]


@case
def temporal_loss():
    logits = random(5, 2, 4)
    labels = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [1, 2, 0], [2, 2])
    return [tf1.nn.ctc_loss(labels, logits, [5, 4]) * random(2)], [logits]


@case
def more_images():
    x, boxes = random(2, 5, 5, 1), tf.constant([[0.1, 0.2, 0.8, 0.9], [0.0, 0.0, 1.0, 0.7]])
    crop = tf.image.crop_and_resize(x, boxes, [0, 1], [3, 4])
    return [tf1.image.resize_bicubic(x, [7, 4]) * random(2, 7, 4, 1),
            crop * random(2, 3, 4, 1)], [x, boxes]
