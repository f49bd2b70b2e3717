"""What the benchmarks found, in one file: BUILD/bench/results.json, a list with a row per figure.

A benchmark adds a row with `add`; that is all it has to do for its figure to be in the file and in
the tables of README.md and docs/performance.md (tools/bench-table). A row is {"name", "unit", "ours",
"tensorflow", "peers": {NAME: figure}, "limit", "ratio"}. What there is none of is left out. All
figures of a row have the row's unit. `peers` are other systems, `limit` is what the machine itself
allows. `ratio` is how many times better ours is than TensorFlow's: above 1, ours is faster or smaller.
"""

import json
import os
import pathlib

MORE_IS_BETTER = ("GB/s", "MB/s", "steps/s")
LESS_IS_BETTER = ("us", "ms", "s", "MiB")


def path_in(build):
    return pathlib.Path(build) / "bench" / "results.json"


def read(build):
    path = path_in(build)
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def add(build, name, unit, ours, tensorflow=None, peers=None, limit=None):
    """Adds a row, or replaces the one of that name where it stands."""
    if unit not in MORE_IS_BETTER + LESS_IS_BETTER:
        raise ValueError(f"{name}: bench/results.py does not know whether more {unit} is better")
    row = {"name": name, "unit": unit, "ours": rounded(ours)}
    if tensorflow is not None:
        row["tensorflow"] = rounded(tensorflow)
    if peers:
        row["peers"] = {peer: rounded(figure) for peer, figure in peers.items()}
    if limit is not None:
        row["limit"] = rounded(limit)
    if tensorflow is not None:
        better, worse = (ours, tensorflow) if unit in MORE_IS_BETTER else (tensorflow, ours)
        row["ratio"] = rounded(better / max(worse, 1e-9))
    rows = read(build)
    places = [i for i, one in enumerate(rows) if one["name"] == name] or [len(rows)]
    rows[places[0]:places[0] + 1] = [row]
    write(build, rows)


def write(build, rows):
    path = path_in(build)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text("[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n",
                    encoding="utf-8")
    os.replace(part, path)


def rounded(figure):
    """Three digits are all that a measurement on a shared machine means."""
    return float(f"{figure:.3g}")
