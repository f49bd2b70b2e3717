"""Examples with lists of features: sparse, dense and ragged ones, of batches and alone, and what is missing."""
import numpy as np
import tensorflow as tf
from cases_data_example import feature
from runner import Case, feed

R = tf.raw_ops
tf1 = tf.compat.v1
CASES = []


def sequence(context=None, **lists):
    return tf.train.SequenceExample(
        context=tf.train.Features(feature={key: feature(value) for key, value in (context or {}).items()}),
        feature_lists=tf.train.FeatureLists(feature_list={
            key: tf.train.FeatureList(feature=[feature(value) for value in values]) for key, values in lists.items()}),
    ).SerializeToString()


def strings(items):
    return feed(np.array(list(items), object) if len(items) else np.zeros((0,), object))


def types(wanted):
    return [item[1] for item in wanted]


def keys(wanted):
    return [item[0] for item in wanted]


def parse(serialized, text, sparse=(), dense=(), ragged=(), list_sparse=(), list_dense=(), list_ragged=(), lacking=(),
          forms=(1, 2, 3)):
    """sparse: (key, dtype); dense: (key, dtype, shape, default); ragged: (key, dtype, splits dtype); list_dense: (key,
    dtype, shape); lacking: names of dense lists that may lack."""
    defaults = [np.asarray(default) for _, _, _, default in dense]
    common = dict(context_sparse_types=types(sparse), context_dense_shapes=[d[2] for d in dense],
                  feature_list_sparse_types=types(list_sparse), feature_list_dense_types=types(list_dense),
                  feature_list_dense_shapes=[d[2] for d in list_dense])

    def build(form):
        value = tf1.placeholder_with_default(tf.constant(serialized, tf.string), None)
        inputs = dict(context_dense_defaults=[feed(d) for d in defaults])
        if form == 1:
            out = R.ParseSequenceExample(
                serialized=value, debug_name=strings([]), feature_list_dense_missing_assumed_empty=list(lacking),
                context_sparse_keys=keys(sparse), context_dense_keys=keys(dense), feature_list_sparse_keys=keys(list_sparse),
                feature_list_dense_keys=keys(list_dense), Ncontext_sparse=len(sparse), Ncontext_dense=len(dense),
                Nfeature_list_sparse=len(list_sparse), Nfeature_list_dense=len(list_dense), **common, **inputs)
        elif form == 2:
            out = R.ParseSequenceExampleV2(
                serialized=value, debug_name=strings([]), context_sparse_keys=strings(keys(sparse)),
                context_dense_keys=strings(keys(dense)), context_ragged_keys=strings(keys(ragged)),
                feature_list_sparse_keys=strings(keys(list_sparse)), feature_list_dense_keys=strings(keys(list_dense)),
                feature_list_ragged_keys=strings(keys(list_ragged)),
                feature_list_dense_missing_assumed_empty=feed([d[0] in lacking for d in list_dense], tf.bool),
                Ncontext_sparse=len(sparse), Nfeature_list_sparse=len(list_sparse), Nfeature_list_dense=len(list_dense),
                context_ragged_value_types=types(ragged), context_ragged_split_types=[r[2] for r in ragged],
                feature_list_ragged_value_types=types(list_ragged),
                feature_list_ragged_split_types=[r[2] for r in list_ragged], **common, **inputs)
        else:
            out = R.ParseSingleSequenceExample(
                serialized=value, feature_list_dense_missing_assumed_empty=strings(list(lacking)),
                context_sparse_keys=[feed(k) for k in keys(sparse)], context_dense_keys=[feed(k) for k in keys(dense)],
                feature_list_sparse_keys=[feed(k) for k in keys(list_sparse)],
                feature_list_dense_keys=[feed(k) for k in keys(list_dense)], debug_name=feed(""), **common, **inputs)
        # One example alone has no splits: what TensorFlow gives then is memory that nobody wrote.
        unset = ("context_ragged_row_splits", "feature_list_ragged_outer_splits") if isinstance(serialized, bytes) else ()
        return {}, [tf.nest.flatten([part for name, part in out._asdict().items() if name not in unset])]
    for form in forms:
        if form != 2 and (ragged or list_ragged):
            continue
        op = {1: "ParseSequenceExample", 2: "ParseSequenceExampleV2", 3: "ParseSingleSequenceExample"}[form]
        CASES.append(Case(op, build=lambda form=form: build(form), name=f"{op} {text}"))


def both(batch, text, **wanted):
    parse(batch, text, forms=(1, 2), **wanted)
    parse(batch[0], text + " alone", forms=(2, 3), **wanted)


FULL = sequence({"i": [1, 2, 3], "f": [.5], "s": [b"a", b"b"]}, ints=[[1, 2], [3], []], floats=[[1., 2.], [3., 4.]],
                words=[[b"x"], [b"yy"], [b"z"]])
LESS = sequence({"i": [4], "f": [1.5]}, ints=[[5]], floats=[[5., 6.]])
NONE = sequence()
SPARSE = [("i", tf.int64), ("s", tf.string)]
DENSE = [("f", tf.float32, [1], np.float32([9]))]
LIST_SPARSE = [("ints", tf.int64), ("words", tf.string), ("absent", tf.float32)]
LIST_DENSE = [("floats", tf.float32, [2]), ("words", tf.string, [])]
RAGGED = [("i", tf.int64, tf.int32), ("s", tf.string, tf.int64)]
LIST_RAGGED = [("ints", tf.int64, tf.int64), ("words", tf.string, tf.int32), ("absent", tf.float32, tf.int64)]
for batch, text in [([FULL, LESS, NONE], "all"), ([LESS], "one"), ([NONE, FULL], "nothing first")]:
    both(batch, f"sparse {text}", sparse=SPARSE)
    both(batch, f"dense {text}", dense=DENSE)
    both(batch, f"ragged {text}", ragged=RAGGED)
    both(batch, f"sparse lists {text}", list_sparse=LIST_SPARSE)
    both(batch, f"dense lists {text}", list_dense=LIST_DENSE, lacking=["floats", "words"])
    both(batch, f"ragged lists {text}", list_ragged=LIST_RAGGED)
    both(batch, f"mixed {text}", sparse=SPARSE, dense=DENSE, list_sparse=LIST_SPARSE[:1], list_dense=LIST_DENSE[:1],
         lacking=["floats"])
both([FULL, NONE], "list is required", list_dense=LIST_DENSE)
both([NONE, FULL], "first list is required", list_dense=LIST_DENSE)
both([NONE], "context is required", dense=[("f", tf.float32, [1], np.zeros((0,), np.float32))])
both([FULL], "wrong size", list_dense=[("floats", tf.float32, [3])])
both([FULL], "wrong dtype", list_dense=[("floats", tf.int64, [2])])
both([FULL], "wrong sparse dtype", list_sparse=[("ints", tf.float32)])
both([FULL], "wrong context", sparse=[("i", tf.float32)])
both([FULL], "default does not fit", dense=[("f", tf.float32, [1], np.float32([1, 2]))])
parse([FULL], "vector", sparse=SPARSE, forms=(3,))


def build_python():
    context = {"i": tf1.VarLenFeature(tf.int64), "f": tf1.FixedLenFeature([], tf.float32, 0.)}
    lists = {"ints": tf1.VarLenFeature(tf.int64), "floats": tf1.FixedLenSequenceFeature([2], tf.float32)}
    single = tf1.io.parse_single_sequence_example(tf.constant(FULL), context, lists)
    several = tf1.io.parse_sequence_example(tf.constant([FULL, LESS]), context, lists)
    return {}, [tf.nest.flatten(single, expand_composites=True), tf.nest.flatten(several, expand_composites=True)]


CASES.append(Case("ParseSequenceExampleV2", build=build_python, name="ParseSequenceExampleV2 from Python"))
