#!/usr/bin/env python3
"""kill -9 of the daemon in the middle of commits and plain writes, again and again.

What must hold after each: the volume checks clean; all that a transaction changes is as before it or as
after it; a commit or an fsync that was answered is there.

STET_MOUNT_KILLS  how often (20); STET_MOUNT_SEED  for the moments (the time)
"""
import os
import random
import shutil
import threading
import time

from mountlib import Failure, check, equal, main, read, write

KILLS = int(os.environ.get("STET_MOUNT_KILLS", "20"))
SEED = int(os.environ.get("STET_MOUNT_SEED", str(int(time.time()))))
FILES = 5


def content(generation, index):
    size = [10, 3000, 30_000, 300_000, 7][index % 5] + generation % 1000
    return (b"%d/%d " % (generation, index) * (size // 4 + 1))[:size]


def change(root, generation):
    """What a transaction does; all of it depends on the generation."""
    for index in range(FILES):
        write(os.path.join(root, f"f{index}"), content(generation, index))
    os.mkdir(os.path.join(root, f"dir{generation}"))
    write(os.path.join(root, f"dir{generation}", "x"), b"%d" % generation)
    shutil.rmtree(os.path.join(root, f"dir{generation - 1}"))
    os.rename(os.path.join(root, f"name{generation - 1}"), os.path.join(root, f"name{generation}"))


class Writers:
    """Commit and write until the daemon dies; what was begun, and what was answered."""

    def __init__(self, m, generation, plain):
        self.mount = m
        self.begun = self.answered = generation
        self.plain_begun = self.plain_answered = plain
        self.threads = [threading.Thread(target=self.guarded, args=(f,))
                        for f in (self.commit, self.sync)]

    def guarded(self, function):
        try:
            while True:
                function()
        except (OSError, Failure):
            pass  # the daemon is gone

    def commit(self):
        number, root = self.mount.begin()
        change(root, self.begun + 1)
        self.begun += 1
        self.mount.commit(number)
        self.answered = self.begun

    def sync(self):
        fd = os.open(self.mount.path("plain"), os.O_RDWR)
        try:
            self.plain_begun += 1
            os.pwrite(fd, b"%012d" % self.plain_begun, 0)
            os.fsync(fd)
            self.plain_answered = self.plain_begun
        finally:
            os.close(fd)


def verify(m, writers):
    generation = int(read(m.path("f0")).split(b"/")[0])
    check(writers.answered <= generation <= writers.begun,
          f"generation {generation}, answered {writers.answered}, begun {writers.begun}")
    for index in range(FILES):
        equal(read(m.path(f"f{index}")) == content(generation, index), True, f"f{index}")
    equal(sorted(os.listdir(m.dir)), sorted([f"f{i}" for i in range(FILES)] + ["plain"] +
          [f"dir{generation}", f"name{generation}"]), "names")
    equal(read(m.path(f"dir{generation}", "x")), b"%d" % generation, "in the directory")
    plain = int(read(m.path("plain")))
    check(writers.plain_answered <= plain <= writers.plain_begun,
          f"plain {plain}, answered {writers.plain_answered}, begun {writers.plain_begun}")
    return generation, plain


def test_kill(m):
    chance = random.Random(SEED)
    print(f"seed {SEED}, {KILLS} kills", flush=True)
    for index in range(FILES):
        write(m.path(f"f{index}"), content(0, index))
    os.mkdir(m.path("dir0"))
    write(m.path("dir0", "x"), b"0")
    write(m.path("name0"), b"")
    write(m.path("plain"), b"%012d" % 0)
    m.run("sync", m.dir)
    generation = plain = 0
    for _ in range(KILLS):
        writers = Writers(m, generation, plain)
        for thread in writers.threads:
            thread.start()
        time.sleep(chance.uniform(0.02, 0.6))
        m.kill()
        for thread in writers.threads:
            thread.join()
        m.check()
        m.mount()
        generation, plain = verify(m, writers)
    print(f"{generation} commits, {plain} syncs", flush=True)


if __name__ == "__main__":
    main(globals())
