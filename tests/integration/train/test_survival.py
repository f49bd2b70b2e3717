"""Trainings that lose tasks and connections, and how they go on: nothing is rolled back while every
parameter server has its values, and no update is counted twice.

usage: test_survival.py COUNTING_PROGRAM
"""

import tempfile
import time
import unittest

from surviving import Job, rollbacks


TASKS = [("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1)]  # the token queues are on ps 0
GONE = {"DOWNPOUR_GONE_SECONDS": "2"}


class JobTest(unittest.TestCase):
    def make(self, *arguments, servers=2, workers=2, **options):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        job = Job(servers, workers, ["--dir", folder.name, *arguments], **options)
        self.addCleanup(job.close)
        return job

    def job(self, *arguments, **options):
        job = self.make(*arguments, **options)
        job.wait_for_step(120)
        return job

    def check(self, job, steps, failures):
        """A step that failed may be half applied, so a variable may be ahead of the global step, by
        one for each failure; it is never behind."""
        step, first, second = job.end()
        self.assertGreaterEqual(step, steps)
        for count in (first, second):
            self.assertGreaterEqual(count, step, job.describe())
            self.assertLessEqual(count, step + failures, job.describe())


class SurvivalTest(JobTest):
    def check_connection(self, *options):
        """A reset of the chief's connection to a healthy server costs a step and no more."""
        for server in (0, 1):
            with self.subTest(server=server):
                job = self.job("--steps", "1500", "--save", "100", *options, through=(server,))
                for _ in range(5):
                    self.assertGreater(job.proxies[server].reset(), 0)
                    job.wait_for_more(30)
                self.check(job, 1500, 6)
                self.assertEqual(rollbacks(job.chief), 0, job.describe())

    def test_reset_of_a_connection(self):
        self.check_connection()

    def test_reset_of_a_connection_sync(self):
        self.check_connection("--sync")

    def check_kills(self, *options):
        """Each kind of task dies once and comes back: the job ends, and no update counts twice."""
        job = self.job("--steps", "1500", "--save", "50", *options, workers=3, **GONE)
        for task in TASKS:
            job.restart(*task, after=0.2)
            job.wait_for_more(60)
        self.check(job, 1500, 3 * len(TASKS))

    def test_kills(self):
        self.check_kills()

    def test_kills_sync(self):
        self.check_kills("--sync")

    def check_no_rollback(self, *options):
        """A server that is stopped for longer than it takes to be gone, and workers that are started
        again: the servers have their values, and the step never goes back."""
        job = self.job("--steps", "2500", "--save", "100", *options, **GONE)
        job.stop_for("ps", 1, 4)
        job.wait_for_more(60)
        for index in (0, 1):
            job.restart("worker", index)
            job.wait_for_more(60)
        self.check(job, 2500, 8)
        for index in (0, 1):
            lives = [task for task in [*job.past, job["worker", index]]
                     if task.name == f"worker {index}"]
            self.assertEqual(len(lives), 2)
            self.assertEqual(rollbacks(*lives), 0, job.describe())

    def test_stop_and_new_workers(self):
        self.check_no_rollback()

    def test_stop_and_new_workers_sync(self):
        self.check_no_rollback("--sync")


class EndTest(JobTest):
    """Parameter servers leave when no worker needs them any more, and not before."""

    def stays(self, task, seconds=2.0):
        time.sleep(seconds)
        self.assertIsNone(task.process.poll(), task.output)

    def test_a_worker_that_ends_twice_is_one_worker(self):
        job = self.make("--steps", "50", missing=[("worker", 1)])
        for _ in range(2):
            self.assertEqual(job.chief.end(), 0, job.describe())
            job.start("worker", 0)
        self.assertEqual(job.chief.end(), 0, job.describe())
        self.stays(job["ps", 0])
        job.start("worker", 1)
        job.end()

    def test_a_worker_that_is_gone_for_good(self):
        job = self.job("--steps", "400", DOWNPOUR_RESTART_SECONDS="3")
        job.kill("worker", 1)
        self.assertEqual(job.chief.end(), 0, job.describe())
        for index in (0, 1):
            self.assertEqual(job["ps", index].end(20), 0, job.describe())
        self.assertIn("1 of 2 workers are done", job["ps", 0].output)

    def test_a_server_that_comes_after_the_end(self):
        job = self.job("--steps", "400", DOWNPOUR_RESTART_SECONDS="1")
        job.end()
        self.assertEqual(job.start("ps", 0).end(20), 0)
        self.assertIn("0 of 2 workers are done", job["ps", 0].output)

    def test_one_dead_server_keeps_the_end_from_no_other(self):
        job = self.job("--steps", "300", servers=3)
        job.kill("ps", 1)  # it has no variables
        self.assertEqual(job.chief.end(), 0, job.describe())
        for index in (0, 2):
            self.assertEqual(job["ps", index].end(20), 0, job.describe())


class WaitingTest(JobTest):
    def test_waits_end_and_say_for_whom(self):
        """After 10 s on standard error, at the default log level; `recovery_seconds` ends them."""
        alone = self.make("--recovery", "13", missing=[("ps", 1)])
        chief_away = self.make("--recovery", "13", missing=[("worker", 0)])
        sync = self.make("--recovery", "13", "--sync", "--steps", "1000000")
        sync.wait_for_step(20)
        sync.kill("worker", 1)
        for job, worker, whom in ((alone, 0, "/job:ps/replica:0/task:1"),
                                  (chief_away, 1, "the chief, worker 0 at localhost:"),
                                  (sync, 0, "worker 1 at localhost:")):
            task = job["worker", worker]
            self.assertEqual(task.end(30), 1, job.describe())
            self.assertRegex(task.output, rf"W train: .*waiting.*{whom}")
            self.assertRegex(task.output, r"training failed: .*(waited 13|silent for 1\d) seconds")


if __name__ == "__main__":
    unittest.main()
