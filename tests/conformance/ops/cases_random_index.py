"""Places in a random permutation, without the permutation itself."""
import numpy as np
from runner import Case

CASES = []


def add(op, inputs, name="", since=None, **attrs):
    CASES.append(Case(op, inputs, attrs, name=f"{len(CASES)}:{op}({name})", since=since))


for dtype in (np.int32, np.uint32, np.int64, np.uint64):
    for seed in (np.array([1, 2, 3], np.int32), np.array([-1, 2**40 + 5, 77], np.int64)):
        for most in (0, 1, 9, 100, 65535, 65536, 65537, 2**20, 2**31 - 1):
            for rounds in (4, 6, 8):
                index = np.array(sorted({0, most // 3, most}), dtype)
                add("RandomIndexShuffle", [index, seed, np.array(most, dtype)], f"{index.dtype.name} {most} {rounds}",
                    rounds=rounds)
for most in (2**32, 2**40 + 3, 2**54 + 1, 2**62):
    add("RandomIndexShuffle", [np.array([0, most // 7, most - 1]), np.array([9, 8, 7], np.uint32), np.array(most)],
        f"{most}", rounds=4)
SEED = np.array([5, 6, 7], np.int32)
add("RandomIndexShuffle", [np.int32(3), SEED, np.int32(10)], "scalar", rounds=4)
add("RandomIndexShuffle", [np.int32(3), np.stack([SEED, SEED + 1]), np.int32(10)], "seeds", rounds=4)
add("RandomIndexShuffle", [np.int32(3), SEED, np.array([10, 11], np.int32)], "limits", rounds=4)
add("RandomIndexShuffle", [np.array([1, 2], np.int32), np.stack([SEED, SEED + 1]), np.array([10, 11], np.int32)], "all",
    rounds=4)
for name, index, seed, most in (("no index", np.zeros(0, np.int32), SEED, np.int32(10)),
                                ("index rank", np.ones((1, 1), np.int32), SEED, np.int32(10)),
                                ("seed", np.int32(1), SEED[:2], np.int32(10)),
                                ("seed rank", np.int32(1), SEED[None, None], np.int32(10)),
                                ("limit", np.array([1, 2, 3], np.int32), SEED, np.array([10, 11], np.int32))):
    add("RandomIndexShuffle", [index, seed, most], name, rounds=4)
for name, index, most in (("above", 11, 10), ("negative", -1, 10), ("negative limit", 0, -1)):
    add("RandomIndexShuffle", [np.int32(index), SEED, np.int32(most)], name, rounds=4, since=(2, 21))
