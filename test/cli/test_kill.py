"""Commands that change a volume, killed at random moments: all of it is there, or nothing.

KILLS (environment): how often each command is killed; 50 if not set. SEED: of the moments.
"""
import os
import random
import shutil
import subprocess
import time

import harness
from harness import VOLUME, CliTest, make_tree, snapshot

KILLS = int(os.environ.get("KILLS") or 50)
SEED = int(os.environ.get("SEED") or time.time_ns() % 10**9)


class Kill(CliTest):
    SIZE = "48M"

    def setUp(self):
        super().setUp()
        self.rng = random.Random(SEED)
        make_tree(self.path("tree"), seed=3)
        for i in range(4):
            self.write(f"tree/large{i}", self.rng.randbytes(2 << 20))
        self.ok("mkdir", f"{VOLUME}:/base")
        self.ok("put", "-", f"{VOLUME}:/base/old", data=b"precious")

    def restore(self, base):
        subprocess.run(["cp", "--sparse=always", self.path(base), self.path(VOLUME)], check=True)

    def contents(self):
        """What a copy of the volume holds; and it is clean."""
        self.check()
        shutil.rmtree(self.path("out"), ignore_errors=True)
        self.ok("cp", "-r", f"{VOLUME}:/", "out")
        return snapshot(self.path("out"), with_times=False, with_top=False)

    def time_of(self, words):
        begin = time.monotonic()
        self.ok(*words)
        return time.monotonic() - begin

    def kill_many(self, *words):
        os.rename(self.path(VOLUME), self.path("base.img"))
        self.restore("base.img")
        before = self.contents()
        seconds = self.time_of(words)
        after = self.contents()
        self.assertNotEqual(before, after)
        seen = {"before": 0, "after": 0}
        for turn in range(KILLS):
            self.restore("base.img")
            process = self.start(*words)
            time.sleep(self.rng.random() * seconds * 1.1)
            process.kill()
            process.communicate()
            found = self.contents()
            place = f"SEED={SEED} turn {turn} of {words}"
            self.assertTrue(found in (before, after), place)
            if process.returncode == 0:
                self.assertTrue(found == after, place)
            seen["after" if found == after else "before"] += 1
        print(f"{words[0]}: {seen}", flush=True)

    def test_cp(self):
        self.kill_many("cp", "-r", "tree", f"{VOLUME}:/")

    def test_cp_over(self):
        self.ok("cp", "-r", "tree", f"{VOLUME}:/")
        for i in range(4):
            self.write(f"tree/large{i}", self.rng.randbytes((1 << 20) + i))
        self.kill_many("cp", "-r", "tree", f"{VOLUME}:/")

    def test_rm(self):
        self.ok("cp", "-r", "tree", f"{VOLUME}:/")
        self.kill_many("rm", "-r", f"{VOLUME}:/tree")


if __name__ == "__main__":
    harness.main()
