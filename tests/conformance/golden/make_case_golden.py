"""Writes src/kernels/text/unicode_case.inc: upper and lower case of every code point as genuine TensorFlow has it.

usage: python make_case_golden.py OUTPUT    (with the python of a TensorFlow environment)
"""
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow as tf  # noqa: E402

HEAD = """/* Made by tests/conformance/golden/make_case_golden.py from what genuine TensorFlow's
 * StringUpper and StringLower answer; included by unicode_case.c alone. A run is every `step`-th
 * code point from `first` to `last`, and what is added to it; an expansion is a code point that
 * becomes two or three. */
"""
POINTS = [point for point in range(1, 0x110000) if not 0xd800 <= point <= 0xdfff]


def ask(op):
    """{code point: the code points that it becomes}, of those that change"""
    texts = op(input=[chr(point).encode() for point in POINTS], encoding="utf-8").numpy()
    changed = {point: [ord(c) for c in text.decode()] for point, text in zip(POINTS, texts)}
    return {point: to for point, to in changed.items() if to != [point]}


def runs_of(deltas):
    """(first, last, step, delta): neighbours one or two apart that change by the same."""
    runs = []
    for point, delta in sorted(deltas.items()):
        last = runs[-1] if runs else None
        step = point - last[1] if last else 0
        if last and last[3] == delta and step in (1, 2) and (last[2] == step or last[0] == last[1]):
            last[1:3] = [point, step]
        else:
            runs.append([point, point, 1, delta])
    return runs


def write(file, kind, name, rows, per_line):
    file.write(f"static const {kind} {name}[] = {{\n")
    for begin in range(0, len(rows), per_line):
        file.write("    " + " ".join(rows[begin:begin + per_line]) + "\n")
    file.write("};\n")


def main():
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(HEAD)
        for name, op in [("upper", tf.raw_ops.StringUpper), ("lower", tf.raw_ops.StringLower)]:
            changed = ask(op)
            deltas = {point: to[0] - point for point, to in changed.items() if len(to) == 1}
            write(file, "case_run", f"{name}_runs",
                  ["{%#x, %#x, %d, %d}," % tuple(run) for run in runs_of(deltas)], 3)
            write(file, "case_expansion", f"{name}_expansions",
                  ["{%#x, {%s}}," % (point, ", ".join(map(hex, to)))
                   for point, to in sorted(changed.items()) if len(to) > 1], 2)


if __name__ == "__main__":
    main()
