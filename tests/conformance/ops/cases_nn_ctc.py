"""Cases of connectionist temporal classification."""
import numpy as np

from runner import Case
from cases_math import values

CASES = []


def add(op, inputs, attrs=None, **more):
    # TensorFlow adds logarithms in float, whatever the dtype.
    tolerance = (1e-4, 1e-5) if np.asarray(inputs[0]).dtype == np.float32 else (1e-6, 1e-6)
    CASES.append(Case(op, inputs, attrs, tolerance=tolerance, **more))


def ix(rows):
    return np.array(rows, np.int64).reshape(-1, 2)


INDICES = ix([[0, 0], [0, 1], [0, 2], [1, 0], [2, 0], [2, 1]])
LABELS = np.array([0, 0, 3, 2, 1, 4], np.int32)
LENGTHS = np.array([7, 4, 6], np.int32)
for dtype in (np.float32, np.float64):
    x = values(dtype, (7, 3, 6))
    for collapse in (False, True):
        for merge in (False, True):
            add("CTCLoss", [x, INDICES, LABELS, LENGTHS],
                {"preprocess_collapse_repeated": collapse, "ctc_merge_repeated": merge},
                name=f"CTCLoss({collapse},{merge},{dtype.__name__})")
    add("CTCLoss", [x, INDICES, LABELS, np.array([7, 0, 1], np.int32)],
        {"ignore_longer_outputs_than_inputs": True}, name=f"CTCLoss(longer ignored,{dtype.__name__})")
    for merge in (False, True):
        add("CTCGreedyDecoder", [x, LENGTHS], {"merge_repeated": merge})
        add("CTCGreedyDecoder", [np.repeat(x, 2, 0), np.array([14, 0, 9], np.int32)],
            {"merge_repeated": merge})
x = values(np.float32, (7, 3, 6))
add("CTCLoss", [values(np.float32, (40, 2, 30)), ix([[0, i] for i in range(12)] + [[1, i] for i in range(20)]),
                np.arange(32, dtype=np.int32) % 29, np.array([40, 33], np.int32)], name="CTCLoss(larger)")
add("CTCLoss", [x, INDICES, np.array([0, 0, 5, 2, 1, 5], np.int32), LENGTHS], name="CTCLoss(nulls at the end)")
for label, inputs in {
        "not enough time": [x, INDICES, LABELS, np.array([2, 4, 6], np.int32)],
        "null inside": [x, INDICES, np.array([0, 5, 3, 2, 1, 4], np.int32), LENGTHS],
        "negative label": [x, INDICES, np.array([0, -1, 3, 2, 1, 4], np.int32), LENGTHS],
        "length": [x, INDICES, LABELS, np.array([8, 4, 6], np.int32)],
        "lengths": [x, INDICES, LABELS, np.array([7, 4], np.int32)],
        "order": [x, INDICES[::-1], LABELS, LENGTHS],
        "batch index": [x, ix([[0, 0], [1, 0], [3, 0]]), LABELS[:3], LENGTHS],
        "counts": [x, INDICES, LABELS[:5], LENGTHS],
        "matrix": [x[0], INDICES, LABELS, LENGTHS],
        "no time": [x[:0], INDICES, LABELS, np.zeros(3, np.int32)]}.items():
    add("CTCLoss", inputs, name=f"CTCLoss({label})")
for label, inputs in {"length": [x, np.array([8, 4, 6], np.int32)], "lengths": [x, np.array([7], np.int32)],
                      "matrix": [x[0], LENGTHS], "no time": [x[:0], np.zeros(3, np.int32)]}.items():
    add("CTCGreedyDecoder", inputs, name=f"CTCGreedyDecoder({label})")
for blank in (0, 2, -2):
    add("CTCGreedyDecoder", [x, LENGTHS], {"blank_index": blank})
add("CTCGreedyDecoder", [x, LENGTHS], {"blank_index": 6}, name="CTCGreedyDecoder(blank)")

# ---- CTCBeamSearchDecoder ----
for dtype in (np.float32, np.float64):
    x = values(dtype, (9, 3, 6))
    lengths = np.array([9, 4, 0], np.int32)
    for width, top, merge in ((1, 1, True), (3, 1, False), (8, 4, True), (100, 20, False), (5, 5, True)):
        add("CTCBeamSearchDecoder", [x[:, :2], lengths[:2]],
            {"beam_width": width, "top_paths": top, "merge_repeated": merge})
    add("CTCBeamSearchDecoder", [x, lengths], {"beam_width": 4, "top_paths": 1})
    add("CTCBeamSearchDecoder", [values(dtype, (40, 2, 30)), np.array([40, 31], np.int32)],
        {"beam_width": 25, "top_paths": 3}, name=f"CTCBeamSearchDecoder(larger,{dtype.__name__})")
    peaked = np.full((6, 1, 4), -np.inf, dtype)
    peaked[[0, 1, 2, 3, 4, 5], 0, [1, 3, 1, 1, 3, 2]] = 0
    add("CTCBeamSearchDecoder", [peaked, np.array([6], np.int32)], {"beam_width": 10, "top_paths": 1},
        name=f"CTCBeamSearchDecoder(certain,{dtype.__name__})")
x = values(np.float32, (7, 3, 6))
for label, inputs, attrs in (
        ("length", [x, np.array([8, 4, 6], np.int32)], {}), ("lengths", [x, np.array([7], np.int32)], {}),
        ("matrix", [x[0], LENGTHS], {}), ("no time", [x[:0], np.zeros(3, np.int32)], {}),
        ("no classes", [x[:, :, :0], LENGTHS], {}),
        ("paths", [x, LENGTHS], {"top_paths": 5, "beam_width": 3}),
        ("leaves", [x[:1], np.ones(3, np.int32)], {"top_paths": 7, "beam_width": 10})):
    add("CTCBeamSearchDecoder", inputs, {"beam_width": 4, "top_paths": 1, **attrs},
        name=f"CTCBeamSearchDecoder({label})")
