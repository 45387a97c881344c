"""Arguments and volumes made to break the command: it refuses in one line, and never crashes.

TURNS (environment): how many random command lines and damaged images; 150 if not set. SEED: of
them.
"""
import os
import random
import time

import harness
from harness import VOLUME, CliTest

TURNS = int(os.environ.get("TURNS") or 150)
SEED = int(os.environ.get("SEED") or time.time_ns() % 10**9)

COMMANDS = ("mkfs sync begin commit abort diff txns ls tree cat find cp put mv ln chmod rm mkdir "
            "stat check clean stats version help").split()
# umount, mount and run are left out: they reach outside of the test's directory.
WORDS = [b"v.img:/", b"v.img:/f", b"v.img:/d", b"v.img:/d/../d/./", b"v.img://", b":/", b"x:/",
         b"v.img:/" + b"n" * 256, b"v.img:/" + b"n/" * 3000, b"v.img:/\xff\xfe", b"v.img:/a\nb",
         b"v.img", b".", b"..", b"", b"-", b"--", b"---", b"-l", b"-r", b"-R", b"-f", b"-p",
         b"--json",
         b"--size", b"16M", b"0", b"-1", b"18446744073709551616", b"--name=[", b"-name", b"[a-",
         b"%s%n%s", b"644", b"u+x", b"-rwx", b"in", b"in/..", b"/dev/null", b"/dev/full",
         b"-type", b"f", b"--=", b"--help=x", b"-o", b"v.img:/loop", b"v.img:/.stet", b"w.img:/x",
         b"\x1b[2J"]


class Hostile(CliTest):
    SIZE = "16M"

    def setUp(self):
        super().setUp()
        self.rng = random.Random(SEED)
        self.write("in", b"input")
        self.ok("put", "in", f"{VOLUME}:/f")
        self.ok("mkdir", f"{VOLUME}:/d")
        self.ok("ln", "-s", "loop", f"{VOLUME}:/loop")

    def assert_orderly(self, done, words):
        note = (SEED, words, done.code, done.err)
        self.assertIn(done.code, (0, 1, 2, 4, 8, 16), note)
        if done.code and done.code != 4:
            self.assertTrue(done.err, note)
        for line in done.err.splitlines():
            self.assertRegex(line, rb"^stetfs: .*: .", note)
        self.assertFalse(any(byte < 32 and byte != 10 for byte in done.err), note)

    def test_random_command_lines(self):
        for _ in range(TURNS * 4):
            words = [self.rng.choice(COMMANDS).encode()]
            words += self.rng.choices(WORDS, k=self.rng.randrange(5))
            self.assert_orderly(self.run_program(*words), words)
        self.assertIn(self.run_program("check", VOLUME).code, (0, 8))

    def test_reserved_name(self):
        for words in (["mkdir"], ["put", "-"], ["cp", "in"], ["ln", "-s", "x"]):
            self.fails(*words, f"{VOLUME}:/.stet", says="not permitted")
        self.ok("mkdir", f"{VOLUME}:/d/.stet")

    def test_long_paths(self):
        self.ok("mkdir", f"{VOLUME}:/" + "n" * 255)
        self.fails("mkdir", f"{VOLUME}:/" + "n" * 256, says="File name too long")
        self.fails("mkdir", "-p", f"{VOLUME}:/" + "n/" * 2100, says="File name too long")
        self.ok("mkdir", "-p", f"{VOLUME}:/" + "/".join(["d"] * 1900))
        self.fails("cat", f"{VOLUME}:/loop", says="symbolic links")
        self.fails("ls", f"{VOLUME}:/loop/x", says="symbolic links")

    def damage(self, clean):
        image = bytearray(clean)
        for _ in range(self.rng.choice((1, 1, 10, 1000))):
            at = self.rng.randrange(len(image)) if self.rng.random() < 0.3 else \
                self.rng.randrange(1 << 20)
            size = self.rng.choice((1, 8, 512, 4096))
            noise = self.rng.randbytes(size)
            image[at:at + size] = noise if self.rng.random() < 0.5 else bytes(size)
        return image[:len(clean)]

    def test_damaged_images(self):
        with open(self.path(VOLUME), "rb") as file:
            clean = file.read()
        for _ in range(TURNS // 3):
            self.write(VOLUME, self.damage(clean))
            for words in (["check", VOLUME], ["ls", "-lR", f"{VOLUME}:/"], ["cat", f"{VOLUME}:/f"],
                          ["cp", "-r", f"{VOLUME}:/", "out"], ["put", "in", f"{VOLUME}:/new"],
                          ["rm", "-r", f"{VOLUME}:/d"], ["stats", VOLUME]):
                self.assert_orderly(self.run_program(*words), words)
            self.remove(self.path("out"))

    def test_short_images(self):
        for size in (0, 1, 511, 4095, 4096, 8192, 65536, 1 << 20, (16 << 20) - 1):
            os.truncate(self.path(VOLUME), min(size, os.path.getsize(self.path(VOLUME))))
            self.write("short.img")
            with open(self.path("short.img"), "wb") as file:
                file.truncate(size)
            for name in (VOLUME, "short.img"):
                for words in (["check", name], ["ls", f"{name}:/"], ["stats", name]):
                    done = self.run_program(*words)
                    self.assertNotEqual(done.code, 0)
                    self.assert_orderly(done, words)


class Deep(CliTest):
    SIZE = "64M"

    def test_deep_tree(self):
        """Deeper than any path can name: made by moving trees into trees."""
        deep = "/".join(["d"] * 1000)
        for top in "abc":
            self.ok("mkdir", "-p", f"{VOLUME}:/{top}/{deep}")
        self.ok("mv", f"{VOLUME}:/b", f"{VOLUME}:/a/{deep}")
        self.ok("mv", f"{VOLUME}:/c", f"{VOLUME}:/a/{deep}/b/{'/'.join(['d'] * 900)}")
        self.ok("ls", "-R", f"{VOLUME}:/a")
        self.ok("tree", "--json", f"{VOLUME}:/a")
        self.ok("chmod", "-R", "700", f"{VOLUME}:/a")
        self.ok("cp", "-r", f"{VOLUME}:/a", f"{VOLUME}:/copy")
        self.ok("rm", "-r", f"{VOLUME}:/a", f"{VOLUME}:/copy")
        self.assertEqual(self.ok("ls", f"{VOLUME}:/").lines, [])
        self.ok("check", VOLUME)


if __name__ == "__main__":
    harness.main()
