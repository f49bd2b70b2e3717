"""Gradients of functions: given, derived, and as tf.gradients makes them."""
import tensorflow as tf
from runner import case_decorator, feed
from tensorflow.python.framework import function

R = tf.raw_ops
tf1 = tf.compat.v1
CASES = []
case = case_decorator(CASES)


@function.Defun(tf.float32, tf.float32, tf.float32, func_name="gradient_of_product")
def product_gradient(x, y, dz):
    return dz * y * 2., dz * x * 3.


@function.Defun(tf.float32, tf.float32, func_name="product", grad_func=product_gradient)
def product(x, y):
    return x * y


def gradient(inputs, types, f):
    return list(R.SymbolicGradient(input=inputs, Tout=types, f=f))


@case("SymbolicGradient", "a gradient that is given")
def given():
    z = product(feed([1., 2.]), feed([3., 4.]))
    f = z.op.op_def.name if z.op.type == "product" else "product"
    attribute = tf1.AttrValue().func
    attribute.name = f
    return [z] + gradient([feed([1., 2.]), feed([3., 4.]), feed([1., 10.])], [tf.float32] * 2,
                          attribute)


@case("SymbolicGradient", "as tf.gradients makes it")
def by_gradients():
    x, y = feed([1., 2.]), feed([3., 4.])
    z = product(x, y)
    return [z] + tf1.gradients(z, [x, y])


@function.Defun(tf.float32, tf.float32)
def plain(x, y):
    return tf.sin(x) * y + tf.reduce_sum(tf.nn.relu(y))


@function.Defun(tf.float32, tf.float32)
def nested(x, y):
    return plain(x, y) * 2., plain(y, x)


@function.Defun(tf.float32, tf.int32)
def shaped(x, shape):
    return tf.square(tf.reshape(x, shape))


@function.Defun(tf.float32, tf.float32)
def of_product(x, y):
    return product(x, y) * x


def function_attribute(f):
    f(*[feed(0, t) for t in f.declared_input_types])
    attribute = tf1.AttrValue().func
    attribute.name = f.name
    return attribute


@case("SymbolicGradient", "of a plain function")
def derived():
    return gradient([feed([1., 2.]), feed([3., -4.]), feed([1., 10.])], [tf.float32] * 2,
                    function_attribute(plain))


@case("SymbolicGradient", "of a function that calls another twice")
def derived_twice():
    return gradient([feed([1., 2.]), feed([3., -4.]), feed([1., 10.]), feed([2., 1.])],
                    [tf.float32] * 2, function_attribute(nested))


@case("SymbolicGradient", "of a function with an integer")
def derived_integer():
    return gradient([feed([[1., 2.]]), feed([2, 1]), feed([[1.], [10.]])], [tf.float32, tf.int32],
                    function_attribute(shaped))


@case("SymbolicGradient", "of a function that calls one with a given gradient")
def derived_given():
    return gradient([feed([1., 2.]), feed([3., 4.]), feed([1., 10.])], [tf.float32] * 2,
                    function_attribute(of_product))


@case("SymbolicGradient", "as tf.gradients makes it for a plain function")
def derived_by_gradients():
    x, y = feed([1., 2.]), feed([3., 4.])
    z = plain(x * 2., y)
    return [z] + tf1.gradients(z, [x, y])
