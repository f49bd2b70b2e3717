"""KMeans: nearest centers, and first centers chosen at random with TensorFlow's own random numbers."""
import numpy as np
from runner import Case

CASES = []
RANDOM = np.random.RandomState(5)


def add(op, inputs, name="", tolerance=None):
    CASES.append(Case(op, inputs, name=f"{len(CASES)}:{op}({name})", tolerance=tolerance))


def floats(*shape):
    return RANDOM.randn(*shape).astype(np.float32)


# ---- NearestNeighbors ----
for points, centers, width in ((1, 1, 1), (7, 3, 2), (50, 20, 17), (30, 1500, 4), (3, 4, 0)):
    for k in (0, 1, 2, 5, 1000):  # of more than 1024, TensorFlow forgets to write some
        add("NearestNeighbors", [floats(points, width), floats(centers, width), np.int64(k)],
            f"{points} {centers} {width} {k}", tolerance=(1e-4, 1e-4))
add("NearestNeighbors", [floats(3, 2), floats(0, 2), np.int64(2)], "no centers")
add("NearestNeighbors", [np.ones((3, 2), np.float32), np.ones((5, 2), np.float32), np.int64(3)], "equal")
for name, points, centers, k in (("no points", floats(0, 2), floats(3, 2), 1), ("widths", floats(3, 2), floats(3,
        3), 1),
                                 ("points", floats(3), floats(3, 2), 1), ("centers", floats(3, 2), floats(3), 1),
                                 ("k", floats(3, 2), floats(3, 2), [1])):
    add("NearestNeighbors", [points, centers, np.array(k, np.int64)], f"wrong {name}")

# ---- KmeansPlusPlusInitialization ----
for count, wanted in ((1, 1), (10, 1), (10, 3), (40, 10), (9, 9), (16, 4)):
    for retries in (-1, 0, 1, 3):
        for seed in (0, 1, 2**40 + 7, -3):
            add("KmeansPlusPlusInitialization", [floats(count, 3), np.int64(wanted), np.int64(seed), np.int64(retries)],
                f"{wanted} of {count} {retries} {seed}")
GOOD = [floats(5, 2), np.int64(2), np.int64(1), np.int64(0)]
for slot in range(4):
    wrong = list(GOOD)
    wrong[slot] = wrong[slot][None]
    add("KmeansPlusPlusInitialization", wrong, f"wrong rank {slot}")
for name, points, wanted in (("none", 5, 0), ("more", 5, 6), ("no points", 0, 1)):
    add("KmeansPlusPlusInitialization", [floats(points, 2), np.int64(wanted), np.int64(1), np.int64(0)],
            f"wrong {name}")

# ---- KMC2ChainInitialization ----
for count in (1, 2, 10, 100):
    for seed in (0, 5, -9, 2**50):
        add("KMC2ChainInitialization", [np.abs(floats(count)), np.int64(seed)], f"{count} {seed}")
for name, distances, seed in (("rank", floats(2, 2), 1), ("seed", floats(2), [1]), ("nothing", floats(0), 1)):
    add("KMC2ChainInitialization", [distances, np.array(seed, np.int64)], f"wrong {name}")
