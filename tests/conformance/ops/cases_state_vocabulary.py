"""Vocabularies of warm starts: where the words of a new one stand in an old one."""
import os

import numpy as np
from fixtures import scratch_folder
from runner import Case

CASES = []
FOLDER = scratch_folder("vocabulary")


def add(op, inputs, name="", **attrs):
    CASES.append(Case(op, inputs, attrs, name=f"{len(CASES)}:{op}({name})"))


def write(name, lines):
    path = os.path.join(FOLDER, name)
    with open(path, "w") as file:
        file.write("".join(line + "\n" for line in lines))
    return path


def text(value):
    return np.array(value, object)


NEW = write("new", ["f4", "f3", "f1", "unknown", "f0", "a word that is longer than a short string"])
OLD = write("old", ["f0", "f1", "f2", "f3", "f4", "a word that is longer than a short string"])
for name, new, old, offset, count, size in (
        ("all", NEW, OLD, 0, 6, -1), ("part", NEW, OLD, 2, 3, -1), ("none", NEW, OLD, 3, 0, -1),
        ("beginning of the old", NEW, OLD, 0, 6, 3), ("too many", NEW, OLD, 2, 5, -1),
        ("old is shorter", NEW, OLD, 0, 6, 9), ("old is of size 0", NEW, OLD, 0, 2, 0),
        ("no new file", os.path.join(FOLDER, "absent"), OLD, 0, 1, -1),
        ("no old file", NEW, os.path.join(FOLDER, "absent"), 0, 1, -1),
        ("no name", "", OLD, 0, 1, -1), ("no old name", NEW, "", 0, 1, -1),
        ("vector", [NEW], OLD, 0, 1, -1), ("old vector", NEW, [OLD], 0, 1, -1),
        ("twice in the old", NEW, write("twice", ["f0", "f1", "f0"]), 0, 6, -1),
        ("twice in the new", write("again", ["f1", "f0", "f1"]), OLD, 0, 3, -1),
        ("empty line", NEW, write("gap", ["f0", "", "f1"]), 0, 6, -1),
        ("empty files", write("empty", []), write("empty", []), 0, 0, -1)):
    add("GenerateVocabRemapping", [text(new), text(old)], name, new_vocab_offset=offset,
        num_new_vocab=count, old_vocab_size=size)
