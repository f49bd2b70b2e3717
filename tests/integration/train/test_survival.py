"""Trainings that lose tasks and connections, and how they go on: nothing is rolled back while every
parameter server has its values, and no update is counted twice.

usage: test_survival.py COUNTING_PROGRAM
"""

import tempfile
import time
import unittest

from surviving import Job, rollbacks


class SurvivalTest(unittest.TestCase):
    def job(self, *arguments, servers=2, workers=2, through=(), **environment):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        job = Job(servers, workers, ["--dir", folder.name, *arguments], through, **environment)
        self.addCleanup(job.close)
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


if __name__ == "__main__":
    unittest.main()
