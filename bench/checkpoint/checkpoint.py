#!/usr/bin/env python3
"""Saving 400 MB from a parameter server: TensorFlow's server and ours, side by side.

usage: bench/checkpoint/checkpoint.py [BUILD_DIR] [FOLDER]      (with a python that has TensorFlow)

Each server is one process with its own defaults: TensorFlow leaves the bytes in the system's cache,
ours writes a large file past it and syncs right behind the save. The two save by turns into the same
folder, each a checkpoint with the same variables; before each turn the disk has written all that was
there before (sync). A rate is bytes by what the client waited; `with sync` adds the time until the
disk has it, for both. The figures are medians of the rounds; the limit is the fastest of as many
plain files of the same size, written by turns with them, past the cache, in the same folder. They go
to BUILD_DIR/bench/results.json too. Ends with 1 when what the client waits is not BAR times shorter
than with TensorFlow.
"""

import concurrent.futures
import mmap
import os
import pathlib
import shutil
import statistics
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import tensorflow as tf

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import results
from servers import GENUINE, start

tf1 = tf.compat.v1
tf1.disable_eager_execution()

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROUNDS = 5
BAR = 5.0
VARIABLES, ROWS = 10, 10_000_000  # 40 MB each


class Contestant:
    """A server with the variables, and a session that saves them."""

    def __init__(self, command, folder):
        self.process, target = start(command)
        self.folder = folder
        folder.mkdir()
        with tf.Graph().as_default() as graph:
            variables = [tf1.get_variable(f"v{i}", initializer=tf.random.normal([ROWS], seed=i))
                         for i in range(VARIABLES)]
            self.saver = tf1.train.Saver(max_to_keep=1)
            self.session = tf1.Session(target, graph=graph)
            self.session.run([v.initializer for v in variables])

    def save(self, step):
        """(seconds for the client, seconds until the disk has it)"""
        os.sync()
        begin = time.monotonic()
        self.saver.save(self.session, str(self.folder / "model"), global_step=step,
                        write_meta_graph=False, write_state=False)
        told = time.monotonic()
        os.sync()
        return told - begin, time.monotonic() - begin

    def end(self):
        self.session.close()
        self.process.kill()
        self.process.wait()


def write_plainly(path):
    """Seconds until the disk has a plain file of a checkpoint's size. Its room is reserved first, and
    four threads write at once and past the system's cache, where the file system can do that: the
    fastest way."""
    block = mmap.mmap(-1, 4 << 20)  # aligned, as O_DIRECT wants it
    block.write(os.urandom(len(block)))
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    os.sync()
    begin = time.monotonic()
    try:
        file = os.open(path, flags | os.O_DIRECT)
    except OSError:
        file = os.open(path, flags)
    os.posix_fallocate(file, 0, VARIABLES * ROWS * 4)
    places = range(0, VARIABLES * ROWS * 4 - len(block), len(block))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda place: os.pwrite(file, block, place), places))
    os.fsync(file)
    os.close(file)
    return time.monotonic() - begin


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build")
    folder = pathlib.Path(tempfile.mkdtemp(dir=sys.argv[2] if len(sys.argv) > 2 else None))
    commands = {"tensorflow": [sys.executable, "-c", GENUINE],
                "downpour": [str(build / "downpour"), "serve", "--port", "0"]}
    contestants = {}
    try:
        for name, command in commands.items():
            contestants[name] = Contestant(command, folder / name)
        times = {name: [] for name in contestants}
        plain = []
        for step in range(ROUNDS + 1):
            for name, contestant in contestants.items():
                times[name].append(contestant.save(step))
            plain.append(write_plainly(folder / f"plain-{step}"))
        limit = min(plain)
    finally:
        for contestant in contestants.values():
            contestant.end()
        shutil.rmtree(folder)
    megabytes = VARIABLES * ROWS * 4 / 1e6
    medians = {name: [statistics.median(column) for column in zip(*rounds[1:])]
               for name, rounds in times.items()}
    for name, (told, synced) in medians.items():
        print(f"{name:10}  save {megabytes / told:7.0f} MB/s   with sync {megabytes / synced:7.0f} MB/s")
    (theirs, theirs_synced), (ours, ours_synced) = medians["tensorflow"], medians["downpour"]
    print(f"ratio       save {theirs / ours:7.2f}        with sync {theirs_synced / ours_synced:7.2f}"
          f"   (bar {BAR}: {'reached' if theirs >= BAR * ours else 'missed'})")
    results.add(build, "checkpoint: save of 400 MB", "MB/s", megabytes / ours, megabytes / theirs)
    results.add(build, "checkpoint: save of 400 MB, until the disk has it", "MB/s",
                megabytes / ours_synced, megabytes / theirs_synced, limit=megabytes / limit)
    return 0 if theirs >= BAR * ours else 1


if __name__ == "__main__":
    sys.exit(main())
