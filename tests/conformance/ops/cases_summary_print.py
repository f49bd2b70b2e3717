"""Printing to files, to streams, and to what is none."""
import os

import tensorflow as tf
from fixtures import scratch_folder
from runner import case_decorator, feed

R = tf.raw_ops
CASES = []
case = case_decorator(CASES)
FOLDER = scratch_folder("print")


def printed(name, values, **attrs):
    path = os.path.join(FOLDER, name)

    @case("PrintV2", name)
    def build():
        prints = [[R.PrintV2(input=feed(value), output_stream="file://" + path, **attrs)]
                  for value in values]
        return [[R.WriteFile(filename=path, contents="")]] + prints + [[R.ReadFile(filename=path)]]


printed("lines", ["one", "", "two\nthree"])
printed("other end", ["one", "two"], end=", ")
printed("no end", ["one", "two"], end="")
printed("bytes", [b"a\0b\xff"], end="\n\n")
printed("a vector", [["a", "b"], ["a"], [[""]]])


@case("PrintV2", "a file that cannot be")
def unwritable():
    return [R.PrintV2(input=feed("x"), output_stream="file:///nonexistent/folder/file")]


for stream in ["stderr", "log(info)", "nowhere", "", "stdout ", "file:/x", "log(fatal)"]:
    @case("PrintV2", f"to {stream!r}")
    def print_to(stream=stream):
        return [R.PrintV2(input=feed(""), output_stream=stream, end="")]
