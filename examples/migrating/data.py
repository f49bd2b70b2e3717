"""Points on a plane with noise, the same in every process: what the scripts in this folder learn."""
import numpy as np

WEIGHTS, BIAS = np.float32([1.0, -2.0, 3.0]), np.float32(0.5)


def batches(count, size=64, seed=7):
    random = np.random.RandomState(seed)
    for _ in range(count):
        x = random.uniform(-1, 1, (size, 3)).astype(np.float32)
        noise = random.normal(0, 0.01, size).astype(np.float32)
        yield x, x @ WEIGHTS + BIAS + noise
