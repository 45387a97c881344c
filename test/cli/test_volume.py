"""mkfs, check and their other names; usage errors; volumes in use."""
import os
import shutil
import subprocess

import harness
from harness import VOLUME, CliTest


class Mkfs(CliTest):
    SIZE = None

    def test_sizes(self):
        self.ok("mkfs", "a.img", "--size", "16M")
        self.assertEqual(os.path.getsize(self.path("a.img")), 16 << 20)
        self.ok("mkfs", "--size=20971520", "b.img", "--quiet")
        self.ok("mkfs", "c.img", "--size", "33M", "--segment-size", "512K", "--meta-copies", "1",
                "--data-copies", "1", "--label", "a label")
        stats = self.ok("stats", "--json", "c.img").json
        self.assertEqual([stats[k] for k in ("segment_bytes", "meta_copies", "data_copies",
                                             "label")], [512 << 10, 1, 1, "a label"])
        info = self.ok("mkfs", "d.img", "-s", "16M", "--json").json
        self.assertRegex(info["uuid"], r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")

    def test_refused_options(self):
        for words in (["--size", "x"], ["--size", "-1"], ["--size", "1X"], ["--size", ""],
                      ["--size", "99999999999999999999"], ["--size", "16777216T"],
                      ["--size"], ["--meta-copies", "3", "--size", "16M"],
                      ["--compress", "lz4", "--size", "16M"], ["--unknown"], ["-z"],
                      ["--size", "16M", "more"], ["--force=1"],
                      ["--size", "16M", "--segment-size", "300K"],
                      ["--size", "16M", "--label", "x" * 65]):
            self.fails("mkfs", "a.img", *words, code=2)
        self.fails("mkfs", code=2)
        for words in (["--size", "1M"], ["--size", "17M", "--segment-size", "16M"],
                      ["--size", "0"], []):
            self.fails("mkfs", "a.img", *words)
        self.assertFalse(os.path.exists(self.path("a.img")))
        self.fails("mkfs", "no/such", "--size", "16M", says="No such file")
        self.fails("mkfs", self.dir, "--size", "16M", says="neither")
        os.mkfifo(self.path("fifo"))
        self.fails("mkfs", "fifo", "--size", "16M", says="neither")

    def test_existing_file(self):
        with open(self.path("a.img"), "wb") as file:
            file.truncate(32 << 20)
        self.ok("mkfs", "a.img")
        self.assertEqual(os.path.getsize(self.path("a.img")), 32 << 20)
        self.fails("mkfs", "a.img", says="holds a StetFS volume; --force overwrites it")
        self.ok("mkdir", "a.img:/d")
        self.ok("mkfs", "a.img", "--force")
        self.assertEqual(self.ok("ls", "a.img:/").out, b"")
        self.ok("mkfs", "a.img", "--force", "--size", "48M")
        self.assertEqual(os.path.getsize(self.path("a.img")), 48 << 20)
        self.write("empty")
        self.fails("mkfs", "empty", says="--size")
        self.ok("mkfs", "empty", "--size", "16M")
        with open(self.path("grow"), "wb") as file:
            file.truncate(1 << 20)
        self.fails("mkfs", "grow")
        self.assertEqual(os.path.getsize(self.path("grow")), 1 << 20)
        self.ok("mkfs", "grow", "--size", "16M")

    def test_other_contents(self):
        self.write("text", b"dear diary" + bytes(32 << 20))
        self.fails("mkfs", "text", says="holds data; --force")
        tail = bytes(20 << 20) + b"x"
        self.write("tail", tail)
        self.fails("mkfs", "tail", says="holds data")
        with open(self.path("tail"), "rb") as file:
            self.assertEqual(file.read(), tail)
        for name, off, mark, says in (("ext", 0x438, b"\x53\xef", "ext4"),
                                      ("xfs", 0, b"XFSB", "XFS"),
                                      ("btrfs", 0x10040, b"_BHRfS_M", "btrfs"),
                                      ("swap", 4086, b"SWAPSPACE2", "swap"),
                                      ("mbr", 510, b"\x55\xaa", "partition")):
            self.write(name, bytes(off) + mark + bytes((16 << 20) - off - len(mark)))
            self.fails("mkfs", name, says=says)
        self.ok("mkfs", "ext", "--force")
        if shutil.which("mkfs.ext4"):
            with open(self.path("real"), "wb") as file:
                file.truncate(32 << 20)
            subprocess.run(["mkfs.ext4", "-q", self.path("real")], check=True)
            self.fails("mkfs", "real", says="ext4")

    def test_failed_mkfs_leaves_the_size(self):
        self.ok("mkfs", "a.img", "--size", "16M", "-q")
        self.fails("mkfs", "a.img", "--force", "--size", "17M", "--segment-size", "16M",
                   says="segments of 16777216 bytes do not fit")
        self.assertEqual(os.path.getsize(self.path("a.img")), 16 << 20)
        self.ok("check", "a.img")


class Check(CliTest):
    def test_clean(self):
        self.assertEqual(self.ok("check", VOLUME).text, f"{VOLUME}: clean\n")
        self.ok("check", "--no-data", VOLUME)
        self.assertEqual(self.ok("check", "--quiet", VOLUME).out, b"")
        found = self.ok("check", "--json", VOLUME).json
        self.assertEqual((found["clean"], found["count"], found["problems"]), (True, 0, []))

    def test_writes_nothing(self):
        self.write("f", os.urandom(1 << 20))
        self.ok("cp", "f", f"{VOLUME}:/")
        with open(self.path(VOLUME), "rb") as file:
            before = file.read()
        self.check()
        self.ok("ls", "-lR", f"{VOLUME}:/")
        self.ok("stats", VOLUME)
        self.ok("cp", "-r", f"{VOLUME}:/", "out")
        with open(self.path(VOLUME), "rb") as file:
            self.assertEqual(file.read(), before)

    def test_damaged_data(self):
        mark = os.urandom(4096)
        self.write("f", mark * 4)
        self.ok("cp", "f", f"{VOLUME}:/")
        with open(self.path(VOLUME), "r+b") as file:
            at = file.read().index(mark)
            file.seek(at + 100)
            file.write(b"damage")
        done = self.run_program("check", VOLUME)
        self.assertEqual(done.code, 4)
        self.assertRegex(done.text, r"^[A-Z_]+: /f: (inode \d+: )?.*\n")
        found = self.run_program("check", "--json", VOLUME)
        self.assertEqual((found.code, found.json["clean"], found.json["count"]), (4, False, 1))
        self.assertEqual(found.json["problems"][0]["path"], "/f")
        self.assertEqual(self.run_program("check", "--no-data", VOLUME).code, 0)
        self.fails("cat", f"{VOLUME}:/f")

    def test_could_not_run(self):
        self.fails("check", "none.img", code=8, says="No such file")
        self.write("text", b"not a volume" * 100000)
        self.fails("check", "text", code=8, says="not a StetFS volume")
        self.fails("check", self.dir, code=8)
        self.fails("check", code=16)
        self.fails("check", VOLUME, "--bad", code=16)
        self.fails("check", VOLUME, "more", code=16)

    def test_wrecked(self):
        with open(self.path(VOLUME), "r+b") as file:
            file.seek(4096)
            size = os.path.getsize(self.path(VOLUME))
            file.write(os.urandom(size - 8192))
        done = self.run_program("check", VOLUME)
        self.assertIn(done.code, (4, 8), done.err)
        self.assertEqual(len(done.err.splitlines()) + len(done.out.splitlines()) > 0, True)
        self.assertNotEqual(self.run_program("ls", f"{VOLUME}:/").code, 0)


class OtherNames(CliTest):
    def named(self, name, *words):
        link = self.path(name)
        if not os.path.lexists(link):
            os.symlink(harness.PROGRAM, link)
        return self.run_program(*words, program=link)

    def test_mkfs(self):
        self.assertEqual(self.named("mkfs.stetfs", "-s", "16M", "-L", "x", "n.img").code, 0)
        self.assertEqual(self.named("mkfs.stetfs", "n.img").code, 1)
        self.assertEqual(self.named("mkfs.stetfs", "-f", "-q", "n.img").code, 0)

    def test_fsck(self):
        for words in ([], ["-a"], ["-p"], ["-n"], ["-y"], ["-a", "-f"], ["-C", "0"], ["-v"]):
            self.assertEqual(self.named("fsck.stetfs", *words, VOLUME).code, 0, words)
        self.assertEqual(self.named("fsck.stetfs", "none.img").code, 8)
        self.assertEqual(self.named("fsck.stetfs", "-a", "none.img").code, 8)
        self.assertEqual(self.named("fsck.stetfs").code, 16)
        self.assertEqual(self.named("fsck.stetfs", "-V").code, 0)

    def test_mount_helpers(self):
        for name in ("mount.stetfs", "mount.fuse.stetfs"):
            self.assertEqual(self.named(name).code, 1)
            self.assertEqual(self.named(name, VOLUME, self.dir, "-o", "no-such-option").code, 1)
            self.assertEqual(self.named(name, VOLUME, self.dir, "-f", "-o", "rw,noatime,nofail",
                                        "-n", "-s", "-t", "stetfs").code, 0)


class Usage(CliTest):
    def test_usage(self):
        self.assertEqual(self.run_program().code, 2)
        self.fails("nonsense", code=2, says="no such command")
        self.fails("help", "nonsense", code=2)
        for words in (["ls"], ["ls", "--bad", f"{VOLUME}:/"], ["ls", "-Z", f"{VOLUME}:/"],
                      ["cat", VOLUME], ["rm", "-r", VOLUME], ["ls", ":/x"], ["ls", "v.img:x"], ["ls", ""],
                      ["cat"], ["put", "x"], ["put", "-", "x"], ["mv", f"{VOLUME}:/a"],
                      ["ln", "-s", "x"], ["chmod", "644"], ["mkdir"], ["tree"], ["find"],
                      ["stat"], ["stats"], ["clean"], ["sync"], ["mount", "x"], ["umount"],
                      ["run"], ["run", "x"], ["begin"], ["commit", "x"], ["abort", "x", "y"],
                      ["diff", "x", "-1"], ["txns"], ["find", f"{VOLUME}:/", "-name"],
                      ["clean", VOLUME, "--segments", "many"], ["version", "x"]):
            self.fails(*words, code=2, says="--help")

    def test_operands_and_options_mix(self):
        self.ok("mkdir", f"{VOLUME}:/d", "-p")
        self.ok("ls", f"{VOLUME}:/", "-l", f"{VOLUME}:/d", "-R")
        self.ok("put", "--", "-", f"{VOLUME}:/-x")
        self.assertEqual(self.ok("ls", "--", f"{VOLUME}:/").lines, ["-x", "d"])

    def test_volume_alone(self):
        """Commands that list take a volume for its root; the others say how to name it."""
        self.ok("mkdir", f"{VOLUME}:/d")
        self.assertEqual(self.ok("ls", VOLUME).lines, ["d"])
        self.assertEqual(self.ok("find", VOLUME).lines, [f"{VOLUME}:/", f"{VOLUME}:/d"])
        self.assertEqual(self.ok("tree", VOLUME).lines[0], f"{VOLUME}:/")
        self.fails("rm", "-r", VOLUME, code=2, says=f"its root is '{VOLUME}:/'")

    def test_volume_names(self):
        """The volume ends at the first ":/"."""
        os.mkdir(self.path("a:"))
        self.ok("mkfs", "x:y.img", "--size", "16M", "-q")
        self.ok("mkdir", "x:y.img:/d", f"{self.dir}/x:y.img:/e:", "x:y.img:/e:/f")
        self.assertEqual(self.ok("ls", "-R", "x:y.img:/e:").lines, ["x:y.img:/e::", "f", "",
                                                                    "x:y.img:/e:/f:"])
        self.assertEqual(self.ok("ls", "x:y.img:/").lines, ["d", "e:"])

    def test_in_use(self):
        reader = self.start("put", "-", f"{VOLUME}:/f", stdin=subprocess.PIPE)
        try:
            for _ in range(200):
                done = self.run_program("ls", f"{VOLUME}:/")
                if done.code:
                    break
            self.assertEqual(done.code, 1)
            self.assertRegex(done.err, rb"^stetfs: v.img: in use by process %d \(.*stetfs put - "
                             % reader.pid)
            self.fails("check", VOLUME, code=8, says="in use")
            self.fails("mkfs", VOLUME, "--force", says="in use")
            self.fails("mkfs", VOLUME, "--force", "--size", "64M", says="in use")
            self.assertEqual(os.path.getsize(self.path(VOLUME)), 32 << 20)
        finally:
            reader.communicate(b"data")
        self.assertEqual(self.ok("cat", f"{VOLUME}:/f").out, b"data")

    def test_not_mounted(self):
        self.fails("umount", self.dir, says="mounted")
        for words in (["begin"], ["txns"], ["sync"], ["stats"], ["clean"]):
            self.fails(*words, self.dir, says="mounted")
        for words in (["commit"], ["abort"], ["diff"]):
            self.fails(*words, self.dir, "1", says="mounted")
        self.fails("run", self.dir, "true", code=125)
        self.fails("run", self.path("none"), "--", "true", code=125)


if __name__ == "__main__":
    harness.main()
