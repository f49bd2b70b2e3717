"""What case files build their graphs with: folders and names of their own, and walks over datasets."""
import atexit
import itertools
import shutil
import tempfile

import tensorflow as tf
from runner import make_op

NUMBERS = itertools.count(1)


def scratch_folder(name):
    """A new folder that is removed at the end."""
    folder = tempfile.mkdtemp(prefix=f"downpour-{name}-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def fresh(kind):
    """A name that nothing has had: the two sides and the cases must not find each other's things."""
    return f"{kind}{next(NUMBERS)}"


def quiet():
    """Options of a dataset: nothing rewritten, nothing tuned."""
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False
    return options


def as_it_is(variant, types, shapes):
    """Kept from the optimizers, which cannot write all ops of datasets into a graph."""
    return make_op("OptionsDataset", input_dataset=variant, output_types=types,
                   output_shapes=shapes,
                   serialized_options=quiet()._to_proto().SerializeToString())


def start_and_next(variant, types, shapes, get_next="IteratorGetNext"):
    """What starts a walk over a dataset, and the parts of its next element."""
    iterator = make_op("IteratorV2", shared_name=fresh("iterator"), container="",
                       output_types=types, output_shapes=shapes)
    element = make_op(get_next, iterator=iterator, output_types=types, output_shapes=shapes)
    return (make_op("MakeIterator", dataset=as_it_is(variant, types, shapes), iterator=iterator),
            tf.nest.flatten(element))
