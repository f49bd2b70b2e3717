"""A training run of two parameter servers, the chief and another worker, whose tasks can be killed
and come back. Used by test_recovery.py and the faults suite."""

import time

from clusters import Cluster
from programs import linear
from replicas import Replica


class Run:
    """Starts the cluster and both programs; checkpoints are made every 50 steps."""

    def __init__(self, folder, last_step):
        self.folder, self.last_step = str(folder), last_step
        self.cluster = Cluster({"ps": 2, "worker": 2}, {"ps": "downpour", "worker": "downpour"})
        self.programs = {}
        try:
            self.start_program(0)
            self.programs[0].wait_for("ready")
            self.start_program(1)
            self.programs[1].wait_for("ready")
        except BaseException:
            self.end()
            raise

    def start_program(self, index):
        self.programs[index] = Replica(linear, self.cluster.spec, index, self.folder,
                                       self.last_step, 50)

    def restart_task(self, job, index):
        self.cluster.tasks[job, index].kill()
        self.cluster.start(job, index).wait_until_ready()

    def restart_worker(self, index):
        """A worker's task and its program die together and come back together."""
        self.programs[index].kill()
        self.restart_task("worker", index)
        self.start_program(index)

    def kill(self, victim, step):
        """Kills a "worker", a "ps" or the "chief" when the chief has passed `step`. Returns how
        long it took until whoever was stopped by that made a step again."""
        self.programs[0].wait_for("step", lambda at: at >= step)
        died = time.monotonic()
        if victim == "ps":
            self.restart_task("ps", step % 2)
            waiting = self.programs[0]
        else:
            index = 0 if victim == "chief" else 1
            self.restart_worker(index)
            waiting = self.programs[index]
            if victim == "worker":
                self.programs[0].wait_for("step finished", after=died)  # the chief never stops
        when = waiting.wait_for("step finished", after=time.monotonic())[0]
        return when - died

    def check_trained(self):
        for program in self.programs.values():
            _, (step, weight, bias) = program.wait_for("finished")
            assert step >= self.last_step
            assert abs(weight - 0.1) < 0.02 and abs(bias - 0.3) < 0.02, (weight, bias)

    def end(self):
        for program in self.programs.values():
            program.kill()
        self.cluster.stop()
