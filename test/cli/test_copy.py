"""cp: trees with everything a file system can hold, into a volume, out of it, between two."""
import os
import shutil
import stat
import subprocess

import harness
from harness import IS_ROOT, VOLUME, CliTest, allocated, make_tree, snapshot


class RoundTrip(CliTest):
    maxDiff = 4000

    def assert_same(self, before, after):
        self.assertEqual(set(before), set(after))
        for name, entry in before.items():
            self.assertEqual(entry, after[name], name)

    def test_tree(self):
        make_tree(self.path("tree"))
        before = snapshot(self.path("tree"))
        self.ok("cp", "-r", "tree", f"{VOLUME}:/")
        self.check()
        self.assertEqual(self.ok("ls", f"{VOLUME}:/").lines, ["tree"])
        self.ok("cp", "-r", f"{VOLUME}:/tree", "out")
        self.assert_same(before, snapshot(self.path("out")))
        os.mkdir(self.path("into"))
        self.ok("cp", "-r", f"{VOLUME}:/tree", "into")
        self.assert_same(before, snapshot(self.path("into", "tree")))

    def test_other_programs_agree(self):
        make_tree(self.path("tree"), seed=2)
        shutil.rmtree(self.path("tree", "special"))  # diff does not compare FIFOs
        self.ok("cp", "-r", "tree", f"{VOLUME}:/")
        self.ok("cp", "-r", f"{VOLUME}:/", "out")
        done = subprocess.run(["diff", "-r", "--no-dereference", "tree", "out/tree"], cwd=self.dir,
                              capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, b""))
        # Sizes of directories are the file system's own affair.
        form = r"%P\t%y\t%m\t%U:%G\t%T@\t%l\0"
        lists = [sorted(subprocess.run(["find", top, "-printf", form], cwd=self.dir,
                                       capture_output=True, check=True).stdout.split(b"\0"))
                 for top in ("tree", "out/tree")]
        self.assertEqual(lists[0], lists[1])

    def test_holes(self):
        make_tree(self.path("tree"))
        self.ok("cp", "-r", "tree", f"{VOLUME}:/")
        stats = self.ok("stats", "--json", VOLUME).json
        self.assertLess(stats["live_bytes"], 6 << 20)
        self.ok("cp", "-r", f"{VOLUME}:/tree", "out")
        for name in ("sparse", "only hole"):
            self.assertLessEqual(allocated(self.path("out", name)),
                                 allocated(self.path("tree", name)) + 65536, name)

    def test_within_and_between(self):
        make_tree(self.path("tree"))
        before = snapshot(self.path("tree"))
        self.ok("cp", "-r", "tree", f"{VOLUME}:/")
        self.ok("cp", "-r", f"{VOLUME}:/tree", f"{VOLUME}:/again")
        self.ok("mkfs", "w.img", "--size", "32M", "-q")
        self.ok("cp", "-r", f"{VOLUME}:/again", "w.img:/there")
        self.ok("check", "w.img")
        self.check()
        self.ok("cp", "-r", "w.img:/there", "out")
        self.assert_same(before, snapshot(self.path("out")))

    @harness.unittest.skipUnless(IS_ROOT, "needs root to become somebody else")
    def test_as_somebody_else(self):
        os.chmod(self.dir, 0o777)
        os.mkdir(self.path("tree"), 0o755)
        self.write("tree/suid", b"x", 0o6755)
        self.write("tree/plain", b"x", 0o640)
        self.ok("cp", "-r", "tree", f"{VOLUME}:/")
        os.chmod(self.path(VOLUME), 0o666)
        done = subprocess.run([harness.PROGRAM, "cp", "-r", f"{VOLUME}:/tree", "out"],
                              cwd=self.dir, user=12345, group=12345, extra_groups=[],
                              capture_output=True, check=False)
        if done.returncode == 126 or b"Permission denied" in done.stderr:
            self.skipTest("the program is not readable for others")
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        found = [os.lstat(self.path("out", name)) for name in ("suid", "plain")]
        self.assertEqual([(s.st_uid, oct(stat.S_IMODE(s.st_mode))) for s in found],
                         [(12345, "0o755"), (12345, "0o640")])


class Semantics(CliTest):
    """Where things go: as with cp(1)."""

    def setUp(self):
        super().setUp()
        os.makedirs(self.path("d", "sub"))
        self.write("d/f", b"f")
        self.write("d/sub/g", b"g")
        self.write("file", b"file")

    def test_into_volume(self):
        self.ok("cp", "-r", "d", f"{VOLUME}:/")
        self.ok("cp", "-r", "d/", f"{VOLUME}:/new")
        self.ok("cp", "-r", "d/.", f"{VOLUME}:/")
        self.ok("cp", "file", f"{VOLUME}:/copy")
        self.ok("cp", "file", f"{VOLUME}:/d/sub")
        self.assertEqual(sorted(self.listing()),
                         ["/copy", "/d", "/d/f", "/d/sub", "/d/sub/file", "/d/sub/g", "/f", "/new",
                          "/new/f", "/new/sub", "/new/sub/g", "/sub", "/sub/g"])

    def test_out_of_volume(self):
        self.ok("cp", "-r", "d", "file", f"{VOLUME}:/")
        self.ok("cp", "-r", f"{VOLUME}:/", "new")
        self.assertEqual(sorted(os.listdir(self.path("new"))), ["d", "file"])
        os.mkdir(self.path("old"))
        self.ok("cp", "-r", f"{VOLUME}:/", "old")
        self.assertEqual(sorted(os.listdir(self.path("old"))), ["d", "file"])
        self.ok("cp", "-r", f"{VOLUME}:/d", "old")
        self.ok("cp", "-r", f"{VOLUME}:/d/sub", "old/name")
        self.assertEqual(sorted(os.listdir(self.path("old"))), ["d", "file", "name"])
        self.ok("cp", f"{VOLUME}:/file", f"{VOLUME}:/d/f", "old/name")
        self.assertEqual(sorted(os.listdir(self.path("old/name"))), ["f", "file", "g"])

    def test_existing_target_directory_keeps_its_attributes(self):
        self.ok("cp", "-r", "d", f"{VOLUME}:/")
        os.mkdir(self.path("old"))
        os.chmod(self.path("old"), 0o711)
        self.ok("cp", "-r", f"{VOLUME}:/", "old")
        self.assertEqual(stat.S_IMODE(os.stat(self.path("old")).st_mode), 0o711)

    def test_overwriting(self):
        self.ok("cp", "-r", "d", f"{VOLUME}:/")
        self.ok("ln", f"{VOLUME}:/d/f", f"{VOLUME}:/other name")
        self.write("d/f", b"a much longer file")
        self.ok("cp", "-r", "d", f"{VOLUME}:/")
        self.assertEqual(self.ok("cat", f"{VOLUME}:/d/f").out, b"a much longer file")
        self.assertEqual(self.ok("cat", f"{VOLUME}:/other name").out, b"f")
        self.fails("cp", "-r", "d", f"{VOLUME}:/d/f", says="not a directory")
        self.ok("mkdir", f"{VOLUME}:/x", f"{VOLUME}:/x/file")
        self.fails("cp", "file", f"{VOLUME}:/x", says="is a directory")
        self.fails("cp", "-r", f"{VOLUME}:/d", "file", says="not a directory")

    def test_links(self):
        os.symlink("file", self.path("link"))
        self.ok("cp", "link", f"{VOLUME}:/followed")
        self.ok("cp", "-r", "link", f"{VOLUME}:/link")
        self.assertEqual(self.ok("cat", f"{VOLUME}:/followed").out, b"file")
        self.assertEqual(self.ok("stat", "--json", f"{VOLUME}:/link").json[0]["target"], "file")
        # A link that is named is written through; one that is met is replaced.
        self.ok("cp", "file", f"{VOLUME}:/file")
        self.write("file", b"changed")
        self.ok("cp", "file", f"{VOLUME}:/link")
        self.assertEqual(self.ok("cat", f"{VOLUME}:/file").out, b"changed")
        self.ok("cp", f"{VOLUME}:/link", "plain")
        self.assertFalse(os.path.islink(self.path("plain")))

    def test_a_volume_cannot_write_elsewhere(self):
        """A link in the way of a file is replaced, not followed."""
        self.write("victim", b"precious")
        os.mkdir(self.path("out"))
        os.symlink("../victim", self.path("out", "f"))
        self.ok("cp", "-r", "d/.", f"{VOLUME}:/")
        self.ok("cp", "-r", f"{VOLUME}:/", "out")
        with open(self.path("victim"), "rb") as victim:
            self.assertEqual(victim.read(), b"precious")
        os.mkdir(self.path("evil"))
        os.symlink(self.path("evil"), self.path("out2"))
        os.mkdir(self.path("out3"))
        os.symlink(self.path("evil"), self.path("out3", "sub"))
        self.fails("cp", "-r", f"{VOLUME}:/", "out3", says="not a directory")
        self.assertEqual(os.listdir(self.path("evil")), [])

    def test_errors(self):
        self.fails("cp", "d", f"{VOLUME}:/", says="-r")
        self.fails("cp", f"{VOLUME}:/", "out", says="-r")
        self.fails("cp", "file", "elsewhere", code=2)
        self.fails("cp", "file", code=2)
        self.fails("cp", "file", "d", f"{VOLUME}:/nowhere", says="Not a directory")
        self.fails("cp", "missing", f"{VOLUME}:/", says="missing: No such file")
        self.fails("cp", f"{VOLUME}:/missing", "x", says=f"{VOLUME}:/missing: No such file")
        self.fails("cp", "file", f"{VOLUME}:/no/such", says="No such file")
        self.fails("cp", "file", "no.img:/", says="no.img: No such file")
        self.assertEqual(self.listing(), [])

    def test_not_into_itself(self):
        self.ok("cp", "-r", "d", f"{VOLUME}:/")
        self.fails("cp", "-r", f"{VOLUME}:/d", f"{VOLUME}:/d/sub", says="into itself")
        self.fails("cp", "-r", f"{VOLUME}:/d", f"{VOLUME}:/d/new", says="into itself")
        self.fails("cp", "-r", f"{VOLUME}:/", f"{VOLUME}:/d/new", says="into itself")
        self.fails("cp", f"{VOLUME}:/d/f", f"{VOLUME}:/d/f", says="same file")
        self.fails("cp", "-r", ".", f"{VOLUME}:/here", says="is the volume itself")
        self.fails("cp", f"{VOLUME}:/d/f", VOLUME, says="is the volume itself")
        self.assertEqual(sorted(self.listing()), ["/d", "/d/f", "/d/sub", "/d/sub/g"])
        self.check()

    def test_devices_are_not_replaced(self):
        os.mkfifo(self.path("fifo"))
        self.ok("cp", "file", f"{VOLUME}:/")
        self.fails("cp", f"{VOLUME}:/file", "fifo", says="not replaced")
        self.assertTrue(stat.S_ISFIFO(os.lstat(self.path("fifo")).st_mode))
        if IS_ROOT:
            os.mknod(self.path("null"), stat.S_IFCHR | 0o666, os.makedev(1, 3))
            self.fails("cp", f"{VOLUME}:/file", "null", says="not replaced")
            self.assertTrue(stat.S_ISCHR(os.lstat(self.path("null")).st_mode))

    def test_same_name_twice(self):
        os.mkdir(self.path("e"))
        self.write("e/f", b"another")
        self.fails("cp", "d/f", "e/f", f"{VOLUME}:/", says="was just made")
        self.assertEqual(self.listing(), [])

    def test_failing_leaves_nothing(self):
        os.mkfifo(self.path("d", "zz"))
        self.ok("cp", "-r", "d", f"{VOLUME}:/first")
        before = self.listing()
        self.write("d/zzz", os.urandom(40 << 20))
        self.fails("cp", "-r", "d", "file", f"{VOLUME}:/", says="No space")
        self.fails("cp", "-r", "d/f", "missing", f"{VOLUME}:/", says="missing")
        self.assertEqual(self.listing(), before)
        self.check()

    def test_going_on_out_of_a_volume(self):
        self.ok("cp", "-r", "d", f"{VOLUME}:/")
        os.makedirs(self.path("out", "d", "f"))
        self.fails("cp", "-r", f"{VOLUME}:/d", "out", says="out/d/f")
        with open(self.path("out/d/sub/g"), "rb") as file:
            self.assertEqual(file.read(), b"g")

    def test_large(self):
        data = os.urandom(5 << 20) + bytes(3 << 20) + os.urandom(1234567)
        self.write("large", data)
        self.ok("cp", "large", f"{VOLUME}:/")
        self.assertEqual(self.ok("cat", f"{VOLUME}:/large").out, data)
        self.ok("cp", f"{VOLUME}:/large", "back")
        with open(self.path("back"), "rb") as file:
            self.assertEqual(file.read(), data)


if __name__ == "__main__":
    harness.main()
