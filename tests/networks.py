"""Networks of their own for tasks, which can be cut off: needs root and `ip`.

An island is a network namespace with one link to this machine. Cutting takes the link down at the
island's end: packets vanish in both directions, and nobody is told.
"""

import contextlib
import os
import random
import subprocess


def run(*arguments):
    subprocess.run(arguments, check=True, capture_output=True)


def are_possible():
    """Whether this process may make network namespaces."""
    name = f"dp-probe-{os.getpid()}"
    try:
        run("ip", "netns", "add", name)
        run("ip", "netns", "del", name)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


class Island:
    """`here` is this machine's address for the island, `there` the island's for this machine."""

    def __init__(self):
        tag = f"{os.getpid() % 100000:05d}{random.randrange(1000):03d}"
        self.name, self.near, self.far = f"dp{tag}", f"dpn{tag}", f"dpf{tag}"
        block = f"10.{random.randrange(200, 250)}.{random.randrange(256)}"
        self.here, self.there = f"{block}.1", f"{block}.2"
        run("ip", "netns", "add", self.name)
        try:
            run("ip", "link", "add", self.near, "type", "veth", "peer", "name", self.far,
                "netns", self.name)
            run("ip", "address", "add", f"{self.here}/30", "dev", self.near)
            run("ip", "link", "set", self.near, "up")
            self.inside("ip", "address", "add", f"{self.there}/30", "dev", self.far)
            self.inside("ip", "link", "set", "lo", "up")
            self.join()
        except BaseException:
            self.remove()
            raise

    def command(self, *arguments):
        return ["ip", "netns", "exec", self.name, *arguments]

    def inside(self, *arguments):
        run(*self.command(*arguments))

    def cut(self):
        self.inside("ip", "link", "set", self.far, "down")

    def join(self):
        self.inside("ip", "link", "set", self.far, "up")

    @contextlib.contextmanager
    def cut_off(self):
        self.cut()
        try:
            yield
        finally:
            self.join()

    def remove(self):
        run("ip", "netns", "del", self.name)
