"""Cases of FakeQuantWithMinMax*."""
import numpy as np

from runner import Case
from cases_math import values

CASES = []
F32 = np.float32
RANGES = [(-6, 6), (0, 6), (-3, 0.1), (1, 5), (-7, -2), (-0.1, 12.75), (0, 0)]


def add(op, inputs, attrs=None, **more):
    CASES.append(Case(op, inputs, attrs, tolerance=(1e-5, 1e-5), **more))


x, g = values(F32, (5, 7), -9, 9), values(F32, (5, 7))
for low, high in RANGES:
    for bits, narrow in [(8, False), (8, True), (2, False), (16, True), (4, False)]:
        attrs = {"num_bits": bits, "narrow_range": narrow}
        bounds = [np.array(low, F32), np.array(high, F32)]
        if low < high:
            given = dict(attrs, min=float(low), max=float(high))
            add("FakeQuantWithMinMaxArgs", [x], given)
            add("FakeQuantWithMinMaxArgsGradient", [g, x], given)
        add("FakeQuantWithMinMaxVars", [x] + bounds, attrs, name=f"FakeQuantWithMinMaxVars({low},{high},{bits},{narrow})")
        add("FakeQuantWithMinMaxVarsGradient", [g, x] + bounds, attrs,
            name=f"FakeQuantWithMinMaxVarsGradient({low},{high},{bits},{narrow})")
LOW, HIGH = (np.array(side, F32) for side in zip(*RANGES))
for shape in [(7,), (5, 7), (2, 3, 4, 7), (0, 7)]:
    add("FakeQuantWithMinMaxVarsPerChannel", [values(F32, shape, -9, 9), LOW, HIGH])
    if len(shape) != 3:
        add("FakeQuantWithMinMaxVarsPerChannelGradient",
            [values(F32, shape), values(F32, shape, -9, 9), LOW, HIGH])
add("FakeQuantWithMinMaxVars", [values(F32, ()), LOW[0], HIGH[0]], name="FakeQuantWithMinMaxVars(scalar)")
add("FakeQuantWithMinMaxVarsPerChannel", [x, LOW[:3], HIGH], name="FakeQuantWithMinMaxVarsPerChannel(size)")
add("FakeQuantWithMinMaxVarsPerChannel", [x, LOW[0], HIGH], name="FakeQuantWithMinMaxVarsPerChannel(rank)")
add("FakeQuantWithMinMaxVarsGradient", [g[:2], x, LOW[0], HIGH[0]],
    name="FakeQuantWithMinMaxVarsGradient(shapes)")
