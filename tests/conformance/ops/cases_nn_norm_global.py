"""The first batch normalization: with means and variances that are given."""
import numpy as np
from runner import Case

CASES = []
RANDOM = np.random.RandomState(7)


def add(op, inputs, name="", tolerance=None, **attrs):
    CASES.append(Case(op, inputs, attrs, name=f"{len(CASES)}:{op}({name})", tolerance=tolerance))


for dtype in (np.float32, np.float64, np.float16):
    for shape in ((2, 3, 4, 5), (1, 1, 1, 1), (0, 3, 3, 2)):
        for scales in (True, False):
            depth = shape[3]
            image, gradient = (RANDOM.randn(*shape).astype(dtype) for _ in range(2))
            mean, beta, gamma = (RANDOM.randn(depth).astype(dtype) for _ in range(3))
            variance = RANDOM.rand(depth).astype(dtype) + dtype(0.25)
            attrs = dict(variance_epsilon=0.01, scale_after_normalization=scales)
            tolerance = (1e-2, 2e-2) if dtype == np.float16 else (1e-4, 1e-5) if dtype == np.float32 else None
            label = f"{np.dtype(dtype).name}{list(shape)} {scales}"
            add("BatchNormWithGlobalNormalization", [image, mean, variance, beta, gamma], label,
                    tolerance=tolerance, **attrs)
            add("BatchNormWithGlobalNormalizationGrad", [image, mean, variance, gamma, gradient], label,
                tolerance=tolerance, **attrs)
IMAGE, VECTOR = np.ones((2, 2, 2, 3), np.float32), np.ones(3, np.float32)
attrs = dict(variance_epsilon=0.01, scale_after_normalization=True)
for wrong in range(5):
    inputs = [IMAGE, VECTOR, VECTOR, VECTOR, VECTOR]
    inputs[wrong] = inputs[wrong][None]
    add("BatchNormWithGlobalNormalization", inputs, f"rank of {wrong}", **attrs)
    inputs = [IMAGE, VECTOR, VECTOR, VECTOR, IMAGE]
    inputs[wrong] = inputs[wrong][None]
    add("BatchNormWithGlobalNormalizationGrad", inputs, f"rank of {wrong}", **attrs)
