#!/usr/bin/env python3
"""Every op of the core list on TensorFlow's CPU kernels and on ours, side by side, as ratios.

usage: bench/kernels/kernels.py [--build DIR] [--only OP,...] [--threads 1,2] [--size small|large]
                                [--part 1/4] [--rounds N] [--json FILE] [--list]
(with a python that has TensorFlow)

Each side is a process that runs the same graphs through the same C API with the same number of
threads (driver.py); table.py says what a graph looks like and cases_*.py which ops and shapes there
are. The bar is 1.5 for small shapes, where overhead rules, and 1 for the others. How a verdict comes
about, by rules that do not ask which side they help:

- The sides take turns in short rounds, so that whatever else the machine does hits both. The time of
  a step is the best of its rounds: what disturbs only adds. An op's time is the difference of two
  such steps, divided by the copies; a ratio is theirs divided by ours (above 1: ours is faster).
- Waking a thread makes a step longer or shorter by a few microseconds, as it happens. A chain whose
  copies take the slower side less than CHAIN_SECONDS is made anew with as many as that needs.
- Every third round, taken alone, gives a ratio of its own. The lowest and the highest of those three
  and of all rounds together are what is known of the ratio.
- A case is settled when all of that lies on one side of the bar, farther from it than the thirds
  are from each other, and after the first sitting by a good margin. What is not settled gets
  further sittings, when all cases have had theirs: a bad time of the machine is over by then. They
  are new sessions, so that a lucky place in memory does not decide, and their rounds add to those
  before.
- What SITTINGS did not settle is reported as it is: "close" when the thirds do not agree on which
  side of the bar they are, else above or below.
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
ABOVE, CLOSE, BELOW = "", "close", "below"
SLICE_SECONDS = 0.002  # of one side's turn
LEAST_STEPS, MOST_STEPS = 2, 20
CHAIN_SECONDS, MOST_COPIES = 8e-5, 2000
SITTINGS = 4
FIRST_MARGIN, LATER_MARGIN = 1.3, 1.03
THIRDS = 3


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
        self.ask(*command)
        return self.answer()

    def ask(self, *command):
        pickle.dump(command, self.process.stdin)
        self.process.stdin.flush()

    def answer(self):
        try:
            error, result = pickle.load(self.process.stdout)
        except EOFError:
            raise RuntimeError(f"{self.name} died") from None
        if error:
            raise RuntimeError(f"{self.name}: {error}")
        return result

    def steps_for(self, target):
        """How many steps make a slice."""
        seconds = min(self.call("run", target, 2))
        return max(LEAST_STEPS, min(MOST_STEPS, math.ceil(SLICE_SECONDS / max(seconds, 1e-6))))

    def end(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)


class Measurement:
    """One size of one case on one pair of sides."""

    def __init__(self, case, label, pair):
        self.case, self.label, self.pair = case, label, pair
        self.threads = pair[0].threads
        self.copies = self.rounds = self.sittings = 0
        self.bests = {}  # (side, whether with the copies) -> best seconds of each third

    @property
    def bar(self):
        return BARS[self.label.split(" ")[0]]

    def sit(self, step):
        """Goes on in new sessions; times of fewer copies are worth nothing any more."""
        *self.targets, copies = step
        if copies != self.copies:
            self.bests = {(side, chained): [math.inf] * THIRDS
                          for side in self.pair for chained in (False, True)}
            self.copies, self.rounds = copies, 0
        self.steps = {(side, chained): side.steps_for(self.targets[chained])
                      for side, chained in self.bests}

    def round(self):
        for side in self.pair if self.rounds % 2 else reversed(self.pair):
            if self.case.writes:
                os.sync()
            for chained in (False, True):
                best = self.bests[side, chained]
                times = side.call("run", self.targets[chained], self.steps[side, chained])
                best[self.rounds % THIRDS] = min(best[self.rounds % THIRDS], *times)
        self.rounds += 1

    def spent(self, side, third=None):
        """Seconds of all copies together, by all rounds or by a third of them."""
        plain, chained = (min(best) if third is None else best[third]
                          for best in (self.bests[side, False], self.bests[side, True]))
        return max(chained - plain, 1e-9)

    def micros(self, side):
        return self.spent(side) / self.copies * 1e6

    def copies_wanted(self):
        """As many as make the chain long enough, when it is far from that."""
        slower = max(self.spent(side) for side in self.pair)
        if slower > CHAIN_SECONDS / 2:
            return self.copies
        return min(MOST_COPIES, math.ceil(self.copies * CHAIN_SECONDS / slower))

    def ratio(self, third=None):
        theirs, ours = (self.spent(side, third) for side in self.pair)
        return theirs / ours

    def known(self):
        """The lowest and the highest that the ratio may be."""
        ratios = [self.ratio(), *(self.ratio(third) for third in range(THIRDS))]
        return min(ratios), max(ratios)

    def settled(self):
        if not self.sittings:
            return False
        low, high = self.known()
        margin = max(high / low, FIRST_MARGIN if self.sittings == 1 else LATER_MARGIN)
        return low >= self.bar * margin or high < self.bar / margin

    def verdict(self):
        low, high = self.known()
        return ABOVE if low >= self.bar else BELOW if high < self.bar else CLOSE

    def line(self):
        theirs, ours = (self.micros(side) for side in self.pair)
        low, high = self.known()
        return (f"{self.case.op:42}{self.label:16}{self.threads:>3}{theirs:12.3f}{ours:12.3f}"
                f"{self.ratio():9.2f}{low:9.2f} -{high:8.2f}  {self.verdict()}").rstrip()


def open_all(sides, graph, starts):
    """Sessions on all sides, at the same time: nothing is measured yet."""
    for side in sides:
        side.ask("open", graph, side.config, starts)
    errors = []
    for side in sides:
        try:
            side.answer()
        except RuntimeError as error:
            errors.append(error)
    if errors:
        raise errors[0]


class Trial:
    """A case with all its measurements."""

    def __init__(self, case, pairs):
        self.case, self.error = case, None
        self.results = [Measurement(case, label, pair) for label in case.sizes for pair in pairs]
        self.copies = {label: case.repeats_of(label) for label in case.sizes}

    def open_results(self):
        return [] if self.error else [one for one in self.results if not one.settled()]

    def sit(self, rounds):
        """One sitting of what is not settled; returns what is by then."""
        chosen = self.open_results()
        try:
            while not self.rounds_of(chosen, rounds):
                pass
        except (RuntimeError, ValueError, TypeError) as error:
            self.error = str(error).splitlines()[0]
            self.results = []
        for one in chosen:
            one.sittings += 1
        return [one for one in chosen if self.results and one.settled()]

    def rounds_of(self, chosen, rounds):
        """False, and more copies the next time, when the first round finds them too few."""
        copies = {label: self.copies[label] for label in dict.fromkeys(one.label for one in chosen)}
        graph, starts, steps = table.graph_of(self.case, copies)
        sides = [side for pair in {one.pair for one in chosen} for side in pair]
        try:
            open_all(sides, graph, starts)
            for number in range(rounds):
                for one in chosen:
                    if number == 0:
                        one.sit(steps[one.label])
                    one.round()
                if number == 0:
                    for one in chosen:
                        self.copies[one.label] = max(self.copies[one.label], one.copies_wanted())
                    if any(self.copies[label] != count for label, count in copies.items()):
                        return False
        finally:
            for side in sides:
                if side.process.poll() is None:
                    side.call("close")
        return True


def measure(cases, pairs, options):
    """Trials of the cases. What is settled is shown at once, the rest at the end."""
    trials = [Trial(case, pairs) for case in cases]
    for _ in range(SITTINGS):
        for trial in trials:
            if trial.open_results():
                for one in trial.sit(options.rounds):
                    print(one.line(), flush=True)
    for one in [one for trial in trials for one in trial.open_results()]:
        print(one.line(), flush=True)
    return trials


def summarize(results, errors):
    def mean(chosen):
        return math.exp(sum(math.log(one.ratio()) for one in chosen) / len(chosen)) if chosen else 0
    print()
    for size in BARS:
        for threads in sorted({one.threads for one in results}):
            chosen = [one for one in results
                      if one.label.startswith(size) and one.threads == threads]
            verdicts = [one.verdict() for one in chosen]
            print(f"{size}, threads {threads}: {len(chosen)} measured, geometric mean "
                  f"{mean(chosen):.2f}, {verdicts.count(BELOW)} below {BARS[size]}, "
                  f"{verdicts.count(CLOSE)} too close to it to tell")
    doubtful = sorted((one for one in results if one.verdict() != ABOVE),
                      key=lambda one: one.ratio() / one.bar)
    if doubtful:
        print("\nNot above the bar, worst first:")
        for one in doubtful:
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
    parser.add_argument("--rounds", type=int, default=6, help="of a sitting")
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
    print(f"{'microseconds an op':42}{'':13}threads{'TensorFlow':>11}{'Downpour':>12}{'ratio':>9}"
          f"{'between':>19}")
    begin = time.perf_counter()
    trials = measure(chosen_cases(options), pairs, options)
    results = [one for trial in trials for one in trial.results]
    summarize(results, {trial.case.op: trial.error for trial in trials if trial.error})
    print(f"{time.perf_counter() - begin:.0f} s")
    if options.json:
        rows = [dict(op=one.case.op, size=one.label, threads=one.threads, ratio=one.ratio(),
                     known=one.known(), verdict=one.verdict() or "above",
                     theirs=one.micros(one.pair[0]), ours=one.micros(one.pair[1]))
                for one in results]
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1))
    for pair in pairs:
        for side in pair:
            side.end()


if __name__ == "__main__":
    main()
