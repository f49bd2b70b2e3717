"""The ops of the word2vec tutorial. Words of the texts differ in frequency, because TensorFlow leaves
the order of equally frequent ones open; what NegTrain draws is made certain by weights of zero."""
import os

import numpy as np
import tensorflow as tf
from fixtures import fresh, scratch_folder
from runner import Case, feed, make_op

tf1 = tf.compat.v1
CASES = []
FOLDER = scratch_folder("word2vec")


def write(name, text):
    path = os.path.join(FOLDER, name)
    with open(path, "wb") as file:
        file.write(text)
    return path


def mixed(counts):
    """Each word as often as wanted, well mixed."""
    words = [word for word, count in counts.items() for _ in range(count)]
    return [words[i] for i in np.random.RandomState(5).permutation(len(words))]


SMALL = write("small.txt", b" ".join(mixed({b"a": 120, b"b": 43, b"c": 40, b"d": 6, b"e": 3, b"f": 2})))
SPACED = write("spaced.txt", b"\n\t" + b" \r\n\v\f".join(mixed({b"x\0y": 30, b"\xc3\xa4": 20, b"z": 7})) + b"  ")
LARGE = write("large.txt", b" ".join(mixed({b"w%d" % i: 3 * i + 1 for i in range(80)})))
EMPTY = write("empty.txt", b" \n ")


def skipgram(text, runs=3, **attributes):
    def build():
        return {}, [list(make_op("Skipgram", **{"filename": SMALL, "batch_size": 4, **attributes}))] * runs
    CASES.append(Case("Skipgram", build=build, name=f"Skipgram {text}"))


skipgram("small")
skipgram("large", filename=LARGE, batch_size=100)
skipgram("more pairs than are drawn at once", filename=LARGE, batch_size=2999, runs=4)
skipgram("many at once", filename=LARGE, batch_size=10000, runs=2)
skipgram("space", filename=SPACED, batch_size=50)
skipgram("nothing", batch_size=0)
for window in [0, 1, 2, 4, 7, 20]:
    skipgram(f"window {window}", window_size=window, batch_size=200)
for least in [-1, 0, 1, 3, 41, 1000]:
    skipgram(f"at least {least}", min_count=least, batch_size=200)
for share in [-1.0, 0.0, 1e-5, 1e-2, 1.0, 100.0, float("inf"), float("nan")]:
    skipgram(f"subsample {share}", filename=LARGE, subsample=share, batch_size=200)
skipgram("too little", window_size=22)
skipgram("empty", filename=EMPTY)
skipgram("absent", filename=os.path.join(FOLDER, "absent"))
skipgram("too large a batch", batch_size=2**40)
skipgram("too large a window", window_size=2**33 + 1)
skipgram("too large a count", min_count=-2**31 - 1)

RANDOM = np.random.RandomState(3)
W_IN = RANDOM.normal(size=(4, 9)).astype(np.float32)
W_OUT = RANDOM.normal(size=(4, 9)).astype(np.float32)


def variable(value):
    ref = make_op("VariableV2", dtype=tf.float32, shape=tf.TensorShape(None), shared_name=fresh("words"))
    return ref, make_op("Assign", ref=ref, value=tf.constant(value, tf.float32), validate_shape=False)


def train(text, w_in=W_IN, w_out=W_OUT, examples=(0, 1, 3, 0), labels=(1, 2, 2, 3), rate=0.5, counts=(0, 0, 5, 0),
          samples=3, runs=2, shared=False, initialized=True):
    def build():
        first, set_first = variable(w_in)
        second, set_second = (first, set_first) if shared else variable(w_out)
        op = make_op("NegTrain", w_in=first, w_out=second, examples=feed(examples, tf.int32),
                     labels=feed(labels, tf.int32), lr=feed(rate, tf.float32), vocab_count=list(counts),
                     num_negative_samples=samples)
        set_all = [set_first.op, set_second.op] if initialized else [tf.no_op()]
        contents = [[tf.identity(first), tf.identity(second)]] if initialized else []
        return {}, [set_all] + ([[op]] + contents) * runs
    CASES.append(Case("NegTrain", build=build, name=f"NegTrain {text}"))


train("plain")
train("the first word is drawn", counts=(7, 0, 0, 0))
train("no samples", samples=0)
train("fewer than no samples", samples=-1)
train("no weight at all keeps what is drawn", counts=(0, 0, 0, 0), samples=0)
train("one word", w_in=W_IN[:1], w_out=W_OUT[:1], examples=[0, 0], labels=[0, 0], counts=[3], samples=5)
train("both in one variable", shared=True)
train("no example", examples=np.zeros(0, np.int32), labels=np.zeros(0, np.int32))
train("no dimension", w_in=np.zeros((4, 0)), w_out=np.zeros((4, 0)))
train("large numbers", w_in=W_IN * 30, w_out=W_OUT * 30, runs=1)
train("not a number", w_in=W_IN * np.nan)
train("rate 0", rate=0)
for text, options in {
        "not a matrix": {"w_in": W_IN[0]}, "of two shapes": {"w_out": W_OUT[:3]},
        "examples of rank 2": {"examples": [[1]]}, "more labels": {"labels": [1, 2, 3]},
        "rate of rank 1": {"rate": [0.5]}, "counts for fewer": {"counts": [1, 2]}, "no counts": {"counts": []},
        "too many samples": {"samples": 2**40}, "uninitialized": {"initialized": False}}.items():
    train(text, runs=1, **options)
