"""The scripts that code points belong to."""
import numpy as np
from runner import Case

CASES = []


def add(op, inputs, name="", **attrs):
    CASES.append(Case(op, inputs, attrs, name=f"{len(CASES)}:{op}({name})"))


add("UnicodeScript", [np.arange(-3, 0x110003, dtype=np.int32)], "all")
add("UnicodeScript", [np.array([[65, 0x3b1], [0x5d0, 0x4e00], [0x7fffffff, -0x80000000]], np.int32)], "matrix")
add("UnicodeScript", [np.int32(0x3042)], "scalar")
add("UnicodeScript", [np.zeros((0, 2), np.int32)], "nothing")
