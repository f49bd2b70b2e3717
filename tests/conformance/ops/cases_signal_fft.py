"""Cases of the Fourier transforms: lengths with small and large factors, crops, errors."""
import numpy as np

from runner import Case
from cases_math import values

CASES = []
TOLERANCE = {"complex64": (1e-4, 2e-4), "float32": (1e-4, 2e-4), "complex128": (1e-10, 1e-10),
             "float64": (1e-10, 1e-10)}


def add(op, inputs, attrs=None, **more):
    if attrs:  # the type of the input is inferred
        attrs = {key: value for key, value in attrs.items() if value != np.asarray(inputs[0]).dtype}
    name = np.asarray(inputs[0]).dtype.name
    CASES.append(Case(op, inputs, attrs, tolerance=TOLERANCE.get(name), **more))


LENGTHS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 26, 31, 60, 64, 97, 100, 128, 131, 169, 243]
for dtype in (np.complex64, np.complex128):
    for op in ("FFT", "IFFT"):
        for length in LENGTHS:
            add(op, [values(dtype, (2, length))])
        add(op, [values(dtype, (5,))])
        add(op, [values(dtype, (2, 3, 2, 10))])
        add(op, [values(dtype, (0, 4))])
        add(op, [values(dtype, (3, 0))])
        add(op, [values(dtype, ())], name=f"{op}(scalar,{dtype.__name__})")
        for shape in [(4, 6), (2, 5, 7), (2, 2, 3, 34), (1, 8), (8, 1), (0, 3, 3)]:
            add(op + "2D", [values(dtype, shape)])
        add(op + "2D", [values(dtype, (4,))], name=f"{op}2D(vector,{dtype.__name__})")
        for shape in [(4, 3, 5), (2, 2, 19, 4), (1, 1, 1)]:
            add(op + "3D", [values(dtype, shape)])


def length(*sizes):
    return np.array(sizes, np.int32)


for real, whole in ((np.float32, np.complex64), (np.float64, np.complex128)):
    attrs = {"Treal": real, "Tcomplex": whole}
    for n in (1, 2, 3, 4, 7, 8, 10, 17, 23, 32):
        add("RFFT", [values(real, (2, n)), length(n)], attrs)
        add("IRFFT", [values(whole, (2, n // 2 + 1)), length(n)], attrs)
    add("RFFT", [values(real, (2, 9)), length(6)], attrs, name=f"RFFT(crop,{real.__name__})")
    add("IRFFT", [values(whole, (2, 9)), length(6)], attrs, name=f"IRFFT(crop,{real.__name__})")
    add("RFFT2D", [values(real, (2, 5, 6)), length(5, 6)], attrs)
    add("RFFT2D", [values(real, (2, 5, 7)), length(4, 5)], attrs)
    add("IRFFT2D", [values(whole, (2, 5, 4)), length(5, 6)], attrs)
    add("IRFFT2D", [values(whole, (2, 5, 4)), length(3, 5)], attrs)
    add("RFFT3D", [values(real, (2, 3, 4, 5)), length(3, 4, 5)], attrs)
    add("IRFFT3D", [values(whole, (2, 3, 4, 3)), length(3, 4, 5)], attrs)
    add("RFFT", [values(real, (0, 8)), length(8)], attrs, name=f"RFFT(empty,{real.__name__})")
    add("RFFT", [values(real, (2, 8)), length(9)], attrs, name=f"RFFT(long,{real.__name__})")
    add("RFFT", [values(real, (2, 8)), length(-1)], attrs, name=f"RFFT(negative,{real.__name__})")
    add("RFFT", [values(real, (2, 8)), length(8, 8)], attrs, name=f"RFFT(lengths,{real.__name__})")
    add("IRFFT", [values(whole, (2, 4)), length(8)], attrs, name=f"IRFFT(long,{real.__name__})")
