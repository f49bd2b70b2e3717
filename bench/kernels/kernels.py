#!/usr/bin/env python3
"""Every op of the core list on TensorFlow's CPU kernels and on ours, side by side, as ratios.

usage: bench/kernels/kernels.py [--build DIR] [--only OP,...] [--threads 1,2] [--size small|large]
                                [--part 1/4] [--rounds N] [--json FILE] [--list]
(with a python that has TensorFlow)

Each side is a process that runs the same graphs through the same C API with the same number of
threads (driver.py); table.py says what a graph looks like and cases_*.py which ops and shapes there
are. The sides take turns in short rounds, so that whatever else the machine does hits both; a time
is the best of its rounds, a ratio is theirs divided by ours (above 1: ours is faster). A case below
its bar, or just above it, gets six times as many rounds, on both sides, before it counts: however
they go. The bar is 1.5 for small shapes, where
overhead rules, and 1 for the others.
"""

import argparse
import json
import math
import os
import pathlib
import pickle
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import tensorflow as tf

import table
import cases_array
import cases_data
import cases_math
import cases_nn
import cases_state

tf.compat.v1.disable_eager_execution()

HERE = pathlib.Path(__file__).resolve().parent
BARS = {table.SMALL: 1.5, table.LARGE: 1.0}
CLOSE, EVEN = 1.05, 0.97  # times the bar
SLICE_SECONDS = 0.004  # of one side's turn
LEAST_STEPS, MOST_STEPS = 2, 20


class Side:
    def __init__(self, name, libraries, threads):
        self.name, self.threads = name, threads
        self.process = subprocess.Popen([sys.executable, str(HERE / "driver.py"), *libraries],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL)
        config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=threads,
                                          inter_op_parallelism_threads=threads,
                                          use_per_session_threads=True)
        config.graph_options.optimizer_options.opt_level = -1
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        self.config = config.SerializeToString()

    def call(self, *command):
        pickle.dump(command, self.process.stdin)
        self.process.stdin.flush()
        try:
            error, result = pickle.load(self.process.stdout)
        except EOFError:
            raise RuntimeError(f"{self.name} died") from None
        if error:
            raise RuntimeError(f"{self.name}: {error}")
        return result

    def open(self, graph, starts):
        self.call("open", graph, self.config)
        for name in starts:
            self.call("run", name, 1)

    def steps_for(self, target):
        """How many steps make a slice."""
        seconds = min(self.call("run", target, 2))
        return max(LEAST_STEPS, min(MOST_STEPS, math.ceil(SLICE_SECONDS / max(seconds, 1e-6))))

    def end(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)


class Measurement:
    """One size of one case on one pair of sides."""

    def __init__(self, case, label, threads, pair, step):
        self.case, self.label, self.threads, self.pair = case, label, threads, pair
        self.plain, self.chained, self.copies = step
        self.best = {(side, target): math.inf for side in pair for target in step[:2]}
        self.steps = {key: key[0].steps_for(key[1]) for key in self.best}
        self.round_number = 0

    def round(self):
        self.round_number += 1
        for side in self.pair if self.round_number % 2 else reversed(self.pair):
            if self.case.writes:
                os.sync()
            for target in (self.plain, self.chained):
                key = side, target
                self.best[key] = min(self.best[key], *side.call("run", target, self.steps[key]))

    def micros(self, side):
        spent = self.best[side, self.chained] - self.best[side, self.plain]
        return max(spent / self.copies * 1e6, 1e-3)

    @property
    def bar(self):
        return BARS[self.label.split(" ")[0]]

    @property
    def ratio(self):
        theirs, ours = (self.micros(side) for side in self.pair)
        return theirs / ours

    def line(self):
        theirs, ours = (self.micros(side) for side in self.pair)
        mark = "" if self.ratio >= self.bar else "  below"
        return (f"{self.case.op:42}{self.label:16}{self.threads:>3}{theirs:12.2f}{ours:12.2f}"
                f"{self.ratio:8.2f}{mark}")


def measure(case, pairs, options):
    graph, starts, steps = table.graph_of(case)
    sides = [side for pair in pairs for side in pair]
    results = []
    try:
        for side in sides:
            side.open(graph, starts)
        for label, step in steps.items():
            results += [Measurement(case, label, pair[0].threads, pair, step) for pair in pairs]
        for _ in range(options.rounds):
            for one in results:
                one.round()
        close = [one for one in results if one.ratio < one.bar * CLOSE]
        for _ in range(6 * options.rounds):
            for one in close:
                one.round()
    finally:
        for side in sides:
            if side.process.poll() is None:
                side.call("close")
    return results


def summarize(results, errors):
    def mean(chosen):
        return math.exp(sum(math.log(one.ratio) for one in chosen) / len(chosen)) if chosen else 0
    print()
    for size in BARS:
        for threads in sorted({one.threads for one in results}):
            chosen = [one for one in results
                      if one.label.startswith(size) and one.threads == threads]
            below = [one for one in chosen if one.ratio < one.bar]
            even = [one for one in below if one.ratio >= one.bar * EVEN]
            print(f"{size}, threads {threads}: {len(chosen)} measured, geometric mean "
                  f"{mean(chosen):.2f}, {len(below)} below {BARS[size]} ({len(even)} of them by less "
                  f"than {1 - EVEN:.0%}, which two runs may see differently)")
    below = sorted((one for one in results if one.ratio < one.bar),
                   key=lambda one: one.ratio / one.bar)
    if below:
        print("\nBelow the bar, worst first:")
        for one in below:
            print(one.line())
    for op, error in errors.items():
        print(f"{op}: not measured: {error}")


def chosen_cases(options):
    wanted = options.only.split(",") if options.only else None
    cases = [case for case in table.CASES if not wanted or set(wanted) & {case.op, *case.covers}]
    if options.size:
        for case in cases:
            case.sizes = {label: value for label, value in case.sizes.items()
                          if label.startswith(options.size)}
    part, parts = map(int, options.part.split("/"))
    return [case for case in cases if case.sizes][part - 1::parts]


def list_cases():
    for case in table.CASES:
        print(f"{case.op}: {', '.join(case.sizes)}")
    print("\nNot timed:")
    for op, why in table.UNTIMED.items():
        print(f"{op}: {why}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=str(HERE.parents[1] / "build"))
    parser.add_argument("--only")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--size", choices=list(BARS))
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--json")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.list:
        list_cases()
        return
    folder = pathlib.Path(tf.__file__).parent
    genuine = [str(folder / "libtensorflow_framework.so.2"), str(folder / "libtensorflow_cc.so.2")]
    ours = [str(pathlib.Path(options.build).resolve() / "libdownpour.so")]
    pairs = [(Side("TensorFlow", genuine, threads), Side("Downpour", ours, threads))
             for threads in map(int, options.threads.split(","))]
    print(f"{'microseconds an op':42}{'':13}threads{'TensorFlow':>11}{'Downpour':>12}{'ratio':>8}")
    results, errors = [], {}
    begin = time.perf_counter()
    for case in chosen_cases(options):
        try:
            for one in measure(case, pairs, options):
                results.append(one)
                print(one.line(), flush=True)
        except (RuntimeError, ValueError, TypeError) as error:
            errors[case.op] = str(error).splitlines()[0]
            print(f"{case.op:42}not measured: {errors[case.op]}", flush=True)
    summarize(results, errors)
    print(f"{time.perf_counter() - begin:.0f} s")
    if options.json:
        rows = [dict(op=one.case.op, size=one.label, threads=one.threads, ratio=one.ratio,
                     theirs=one.micros(one.pair[0]), ours=one.micros(one.pair[1]))
                for one in results]
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1))
    for pair in pairs:
        for side in pair:
            side.end()


if __name__ == "__main__":
    main()
