"""Recurrent cells: one step and whole sequences of LSTM, GRU, their gradients, and bad shapes."""
import numpy as np

from runner import Case
from cases_math import values

CASES = []
# Half: TensorFlow rounds every intermediate value, sums over the batch among them.
LOOSE = {np.float16: (2e-2, 1e-2), np.float32: (1e-4, 1e-5)}


def add(op, inputs, attrs=None, name=None, **more):
    dtype = np.asarray(inputs[-1]).dtype.type
    CASES.append(Case(op, inputs, attrs, name=name and f"{op}({name})", tolerance=LOOSE[dtype], **more))


def small(dtype, *shape):
    return (values(dtype, shape) * 0.25).astype(dtype)


def step_inputs(dtype, batch, depth, cell):
    return [small(dtype, batch, depth), small(dtype, batch, cell) * dtype(2), small(dtype, batch, cell),
            small(dtype, depth + cell, 4 * cell), small(dtype, cell), small(dtype, cell) * dtype(-1),
            small(dtype, cell) * dtype(0.5), small(dtype, 4 * cell)]


def sequence_inputs(dtype, steps, time, batch, depth, cell):
    x, *rest = step_inputs(dtype, time * batch, depth, cell)
    return [np.int64(steps), x.reshape(time, batch, depth), rest[0][:batch], rest[1][:batch], *rest[2:]]


def gates(dtype, count, *shape):
    """What a forward pass could have given: between -1 and 1."""
    return [np.tanh(small(dtype, *shape) + dtype(0.1 * k)).astype(dtype) for k in range(count)]


for dtype in (np.float32, np.float16):
    for batch, depth, cell in ((3, 4, 5), (1, 1, 1), (2, 33, 20), (4, 3, 64)):
        for peephole in (False, True):
            for clip in (-1.0, 0.2):
                add("LSTMBlockCell", step_inputs(dtype, batch, depth, cell),
                    {"use_peephole": peephole, "cell_clip": clip, "forget_bias": 0.5})
            add("LSTMBlockCellGrad", step_inputs(dtype, batch, depth, cell) + gates(dtype, 8, batch, cell),
                {"use_peephole": peephole})
    for steps, time, batch, depth, cell in ((3, 3, 2, 4, 5), (2, 4, 3, 2, 3), (0, 2, 2, 3, 4), (1, 1, 1, 1, 1),
                                            (6, 6, 3, 17, 24)):
        if dtype == np.float16 and steps > 3:
            continue  # errors of rounding grow with every step
        inputs = sequence_inputs(dtype, steps, time, batch, depth, cell)
        whole = None if steps == time else [1, 6]  # TensorFlow leaves the rest of the others as it was
        for peephole in (False, True):
            add("BlockLSTM", inputs, {"use_peephole": peephole, "cell_clip": 0.3 if peephole else 3.0}, outputs=whole)
            add("BlockLSTMV2", inputs, {"use_peephole": peephole, "cell_clip": 0.0}, outputs=whole)
            for op in ("BlockLSTMGrad", "BlockLSTMGradV2"):
                add(op, inputs + gates(dtype, 9, time, batch, cell), {"use_peephole": peephole})

for batch, depth, cell in ((3, 4, 5), (1, 1, 1), (2, 33, 20), (5, 2, 40)):
    f = np.float32
    inputs = [small(f, batch, depth), small(f, batch, cell), small(f, depth + cell, 2 * cell),
              small(f, depth + cell, cell), small(f, 2 * cell), small(f, cell)]
    add("GRUBlockCell", inputs)
    add("GRUBlockCellGrad", inputs + gates(f, 4, batch, cell))

# Shapes that do not fit: each input in turn has one row more, then one dimension less.
f = np.float32
forward = {"LSTMBlockCell": step_inputs(f, 2, 3, 4), "BlockLSTM": sequence_inputs(f, 2, 3, 2, 3, 4),
           "GRUBlockCell": [small(f, 2, 3), small(f, 2, 4), small(f, 7, 8), small(f, 7, 4), small(f, 8), small(f, 4)]}
for op, inputs in forward.items():
    for slot, value in enumerate(inputs):
        if value.ndim == 0 or (op == "LSTMBlockCell" and slot in (4, 5, 6)):
            continue  # TensorFlow reads beyond the end of a peephole that is too short
        more = np.concatenate([value, value[:1]])
        if not (op == "BlockLSTM" and slot == 1):
            add(op, inputs[:slot] + [more] + inputs[slot + 1:], name=f"rows of input {slot}")
    add(op, inputs[:-1] + [inputs[-1][:-1]], name="bias")
inputs = sequence_inputs(f, 2, 3, 2, 3, 4)
add("BlockLSTM", [np.array([2], np.int64)] + inputs[1:], name="steps of rank 1")
add("BlockLSTM", inputs[:1] + [inputs[1][0]] + inputs[2:], name="x of rank 2")
add("LSTMBlockCell", step_inputs(f, 0, 3, 4), name="empty batch", since=(2, 16))
