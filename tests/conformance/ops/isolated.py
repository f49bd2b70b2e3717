"""Runs the cases of an op in a process of their own: a kernel of genuine TensorFlow that aborts takes
that process with it, not the tests.

A case that the process dies of is left out, and the op is run again with the others: what TensorFlow
does not live to answer has nothing to compare with. `deaths` lists them, for the end of the tests.
A case that hangs fails: the process is killed, for the next op a new one is made.
"""
import faulthandler
import importlib
import multiprocessing
import os
import signal
import tempfile

import runner

DEATHS_OF_AN_OP = 3  # more than that are no accidents
LAST_WORDS = 2000    # characters of what a dead process said
PATIENCE = 300       # seconds for one case: one of the two hangs


class Died(Exception):
    """The process ended while it ran a case, or while it built the graph (case None)."""

    def __init__(self, case, text):
        super().__init__(f"TensorFlow died in case {case}: {text}")
        self.case = case


def cases_of(module, op):
    cases = runner.usable(importlib.import_module(module).CASES)
    return [case for case in cases if case.op == op]


def run_cases(module, op, skip, program, target, tell):
    """Builds one graph of an op's cases and tells each case's name before, its outcome after."""
    graph, built = runner.build_cases(cases_of(module, op))
    oracle = runner.SessionBackend(graph)
    candidate = runner.make_candidate(graph, program, target)
    try:
        for index, one in enumerate(built):
            if index not in skip:
                tell(("starts", index, one.case.name))
                tell(("ended", one.case.name, *runner.run_case(one, oracle, candidate)))
    finally:
        candidate.close()
        oracle.close()
    tell(("done",))


def serve(pipe, log):
    """The process: runs what it is asked for until the pipe ends."""
    with open(log, "w", encoding="utf-8") as file:
        os.dup2(file.fileno(), 2)
    faulthandler.enable(all_threads=False)
    while True:
        try:
            request = pipe.recv()
        except EOFError:
            return
        try:
            run_cases(*request, pipe.send)
        except Exception as error:  # pylint: disable=broad-except
            pipe.send(("failed", f"{type(error).__name__}: {error}"))


class Isolated:
    """A process that runs cases, and the next one when that died."""

    def __init__(self, program, target):
        self.program = program
        self.target = target
        self.deaths = []
        self.process = None
        self.log = tempfile.NamedTemporaryFile("r", suffix=".log", errors="replace")

    def start(self):
        context = multiprocessing.get_context("spawn")
        self.pipe, end = context.Pipe()
        self.process = context.Process(target=serve, args=(end, self.log.name), daemon=True)
        self.process.start()
        end.close()

    def run(self, module, op):
        """[(case, problem or None, was it skipped)] of all cases that TensorFlow survived."""
        if any(case.first for case in cases_of(module, op)):
            self.end()
        skip = []
        while True:
            try:
                return self.run_once(module, op, skip)
            except Died as death:
                self.deaths.append(f"{op}: {death}")
                if death.case is None or len(skip) == DEATHS_OF_AN_OP:
                    raise
                skip.append(death.case)

    def run_once(self, module, op, skip):
        if self.process is None:
            self.start()
        outcomes, running = [], None
        try:
            self.pipe.send((module, op, skip, self.program, self.target))
            while True:
                kind, *rest = self.receive(running)
                if kind == "done":
                    return outcomes
                assert kind != "failed", rest[0]
                if kind == "starts":
                    running = rest
                else:
                    outcomes.append(tuple(rest))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise self.bury(running) from None

    def receive(self, running):
        if not self.pipe.poll(PATIENCE):
            self.process.kill()
            raise AssertionError(f"no answer within {PATIENCE} s: {self.bury(running)}")
        return self.pipe.recv()

    def bury(self, running):
        self.process.join()
        code = self.process.exitcode
        self.process = None
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        index, name = running or (None, "no case yet")
        with open(self.log.name, encoding="utf-8", errors="replace") as file:
            words = file.read().partition("\nExtension modules:")[0]
        return Died(index, f"{name}, {how}\n{words[-LAST_WORDS:]}")

    def end(self):
        """Ends the process; the next op gets a new one."""
        if self.process:
            self.pipe.close()
            self.process.join()
            self.process = None

    def close(self):
        self.end()
        self.log.close()
