"""Commands on VOLUME:/path while the volume is mounted: they go through the mount, and do and say
what they do without one."""
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

import harness
from harness import IS_ROOT, VOLUME, CliTest, make_tree, snapshot

CAN_MOUNT = IS_ROOT and os.path.exists("/dev/fuse")
TWIN = "u.img"
NOBODY = 65534

# IMG stands for the volume. Each is done on a volume that is mounted and on one that is not.
CHANGES = """
cp -r tree IMG:/
cp -r IMG:/tree IMG:/twin
cp -r IMG:/tree IMG:/
cp -r IMG:/ IMG:/tree
cp big IMG:/big
cp big small IMG:/big
mkdir IMG:/d1 IMG:/d2 IMG:/d1
mkdir IMG:/d1 IMG:/d2
mkdir -p IMG:/d1/x/y/z
mkdir -m 777 IMG:/d1/open
mkdir IMG:/
mv IMG:/d2 IMG:/d1/x
mv IMG:/d1 IMG:/d1/x
mv IMG:/big IMG:/nope IMG:/d1
cp big small IMG:/d1
ln IMG:/d1/big IMG:/big2
ln IMG:/d1 IMG:/second
ln -s ../../../../../../etc IMG:/out
ls IMG:/out
cat IMG:/out/passwd
put big IMG:/out/new
ln -s /d1 IMG:/absolute
ls IMG:/absolute
put big IMG:/absolute
put big IMG:/absolute/new
put big IMG:/tree/special/fifo
cat IMG:/tree/special/fifo IMG:/tree/special/null
put big IMG:/tree
mkdir IMG:/absolute/via
rm IMG:/absolute/via
rm -r IMG:/absolute/via
chmod -R go-rwx IMG:/twin
chmod 4755 IMG:/big2
chmod 600 IMG:/big IMG:/nope
rm IMG:/big2 IMG:/nope
rm -f IMG:/big2 IMG:/nope
rm IMG:/tree
rm -r IMG:/twin
rm -r IMG:/
mkdir IMG:/.stet
put big IMG:/.stet
"""

READS = """
ls IMG:/
ls -lRn IMG:/
ls -lR --json IMG:/
ls IMG:/tree/links/directory IMG:/tree/links/dangling IMG:/nope
ls -d IMG:/ IMG:/tree/
ls IMG:/tree/..
ls IMG:/../..
ls IMG:/.stet
stat IMG:/tree/sizes/4096 IMG:/tree IMG:/tree/special/block IMG:/tree/xattrs
stat -L IMG:/tree/links/relative
stat --json IMG:/ IMG:/tree/third IMG:/tree/links/long
find IMG:/
find IMG:/tree -type l --json
find IMG:/tree -name *a* -type fd
tree IMG:/
tree --json IMG:/tree
cat IMG:/tree/sizes/65536 IMG:/tree/links/relative IMG:/nope IMG:/tree
cat IMG:/tree/sparse
"""


@unittest.skipUnless(CAN_MOUNT, "needs root and /dev/fuse")
class Mounted(CliTest):
    SIZE = "64M"

    def setUp(self):
        super().setUp()
        os.chmod(self.dir, 0o755)
        os.mkdir(self.path("m"))
        self.addCleanup(self.unmount)
        self.write("big", b"big " * 100000)
        self.write("small", b"small")

    def mount(self, *words):
        self.ok("mount", VOLUME, "m", *words)

    def unmount(self):
        if os.path.ismount(self.path("m")):
            self.run_program("umount", "m")
        while os.path.ismount(self.path("m")):
            subprocess.run(["umount", "-l", self.path("m")], check=False)

    def say(self, line, volume):
        """What the command says of a volume, whatever its name is."""
        words = [word.replace("IMG", volume) for word in line.split()]
        done = self.run_program(*words)
        names = volume.encode(), VOLUME.encode()
        return done.code, done.out.replace(*names), done.err.replace(*names)

    def as_user(self, *words, uid=NOBODY):
        done = subprocess.run([harness.PROGRAM, *words], cwd=self.dir, env=harness.ENVIRONMENT,
                              user=uid, group=uid, extra_groups=[], capture_output=True,
                              check=False, timeout=60)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def test_reading_says_the_same(self):
        make_tree(self.path("tree"))
        self.ok("cp", "-r", "tree", f"{VOLUME}:/")
        lines = READS.strip().splitlines()
        before = [self.say(line, VOLUME) for line in lines]
        self.mount()
        for line, said in zip(lines, before):
            self.assertEqual(self.say(line, VOLUME), said, line)
        self.ok("cp", "-r", f"{VOLUME}:/tree", "back")
        self.assertEqual(snapshot(self.path("back")), snapshot(self.path("tree")))
        self.assertEqual(self.ok("txns", "--json", "m").json, [])

    def test_changing_does_the_same(self):
        make_tree(self.path("tree"))
        self.ok("mkfs", TWIN, "--size", self.SIZE)
        self.mount()
        for line in CHANGES.strip().splitlines():
            self.assertEqual(self.say(line, VOLUME)[:3], self.say(line, TWIN), line)
        self.assertEqual(self.ok("txns", "--json", "m").json, [])
        self.ok("umount", "m")
        self.check()
        for volume, to in ((VOLUME, "a"), (TWIN, "b")):
            self.ok("cp", "-r", f"{volume}:/", to)
        def without_times(path):
            return snapshot(self.path(path), with_times=False, with_top=False)
        self.assertEqual(without_times("a"), without_times("b"))
        for name in ("links", "modes", "names", "special"):
            self.assertEqual(snapshot(self.path("a/tree", name)),
                             snapshot(self.path("b/tree", name)))

    @unittest.skipUnless(shutil.which("setfacl"), "needs setfacl")
    def test_acls(self):
        """They go through the mount, in and out."""
        self.write("f")
        if subprocess.run(["setfacl", "-m", "u:1:r", self.path("f")], check=False).returncode:
            self.skipTest("no ACLs here")
        self.ok("cp", "f", f"{VOLUME}:/kept")
        self.mount()
        self.ok("cp", "f", f"{VOLUME}:/new")
        for name in ("kept", "new"):
            self.ok("cp", f"{VOLUME}:/{name}", name)
            for path in (self.path(name), self.path("m", name)):
                self.assertEqual(os.getxattr(path, "system.posix_acl_access"),
                                 os.getxattr(self.path("f"), "system.posix_acl_access"))

    def test_between_volumes(self):
        make_tree(self.path("tree"))
        self.ok("mkfs", TWIN, "--size", self.SIZE)
        self.mount()
        self.ok("cp", "-r", "tree", f"{VOLUME}:/")
        self.ok("cp", "-r", f"{VOLUME}:/tree", f"{TWIN}:/")
        self.ok("cp", "-r", f"{TWIN}:/tree", f"{VOLUME}:/again")
        self.ok("cp", "-r", f"{VOLUME}:/again", "back")
        self.assertEqual(snapshot(self.path("back")), snapshot(self.path("tree")))
        self.fails("put", VOLUME, f"{VOLUME}:/x", says="is the volume itself")

    def test_all_or_nothing(self):
        self.mount()
        self.ok("mkdir", f"{VOLUME}:/base")
        os.mkdir(self.path("tree"))
        for i in range(200):
            self.write(f"tree/{i:03}", b"x" * 1000)
        os.mkdir(self.path("tree/199x"))
        self.ok("put", "big", f"{VOLUME}:/base/tree")
        self.fails("cp", "-r", "tree", f"{VOLUME}:/base", says="not replaced")
        self.ok("mkdir", "-p", f"{VOLUME}:/half/tree/150")  # a directory in a file's place
        self.fails("cp", "-r", "tree", f"{VOLUME}:/half", says="not replaced")
        self.assertEqual(os.listdir(self.path("m/half/tree")), ["150"])
        self.fails("rm", "-r", f"{VOLUME}:/base", f"{VOLUME}:/nope")
        self.assertEqual(os.listdir(self.path("m/base")), ["tree"])
        self.assertEqual(self.ok("txns", "--json", "m").json, [])

    def test_seen_at_once(self):
        """Nobody in the mount sees half of a copy; killed, it leaves nothing."""
        os.mkdir(self.path("tree"))
        for i in range(300):
            self.write(f"tree/{i}", b"x" * 5000)
        self.mount()
        begin = time.monotonic()
        copy = self.start("cp", "-r", "tree", f"{VOLUME}:/")
        while copy.poll() is None:
            names = os.listdir(self.path("m"))
            if names:
                self.assertEqual(len(os.listdir(self.path("m/tree"))), 300)
        self.assertEqual(copy.communicate(), (b"", b""))
        seconds = time.monotonic() - begin
        self.ok("rm", "-r", f"{VOLUME}:/tree")
        for turn in range(8):
            copy = self.start("cp", "-r", "tree", f"{VOLUME}:/")
            time.sleep(seconds * turn / 9)
            copy.send_signal(signal.SIGKILL)
            copy.communicate()
            end = time.monotonic() + 10
            while self.ok("txns", "--json", "m").json and time.monotonic() < end:
                time.sleep(0.02)
            self.assertIn(len(self.listing()), (0, 301))
            self.ok("rm", "-rf", f"{VOLUME}:/tree")
        self.ok("umount", "m")
        self.check()

    def test_what_an_ordinary_user_may(self):
        self.mount()
        self.ok("mkdir", "-m", "700", f"{VOLUME}:/closed")
        self.ok("put", "big", f"{VOLUME}:/closed/file")
        self.ok("mkdir", "-m", "1777", f"{VOLUME}:/open")
        os.chmod(self.path(VOLUME), 0o600)
        self.assertEqual(self.as_user("ls", f"{VOLUME}:/"), (0, "closed\nopen\n", ""))
        for words in (["ls", f"{VOLUME}:/closed"], ["cat", f"{VOLUME}:/closed/file"],
                      ["rm", "-r", f"{VOLUME}:/closed"], ["mkdir", f"{VOLUME}:/mine"],
                      ["chmod", "777", f"{VOLUME}:/closed"],
                      ["stat", f"{VOLUME}:/closed/file"]):
            code, out, err = self.as_user(*words)
            self.assertEqual((code, out), (1, ""), words)
            self.assertRegex(err, r"^stetfs: [^\n]*: (Permission denied|Operation not permitted)\n$")
        self.assertEqual(self.as_user("put", "small", f"{VOLUME}:/open/s"), (0, "", ""))
        self.assertEqual(os.stat(self.path("m/open/s")).st_uid, NOBODY)
        code, out, _ = self.as_user("stat", "--json", f"{VOLUME}:/open/s")
        self.assertEqual(code, 0)
        self.assertEqual(out, self.ok("stat", "--json", f"{VOLUME}:/open/s").text)
        self.ok("umount", "m")
        code, _, err = self.as_user("ls", f"{VOLUME}:/")
        self.assertEqual((code, err), (1, f"stetfs: {VOLUME}: Permission denied\n"))

    def test_mount_of_root_alone(self):
        self.mount("-o", "noallow_other")
        code, _, err = self.as_user("ls", f"{VOLUME}:/")
        self.assertEqual(code, 1)
        self.assertEqual(len(err.splitlines()), 1, err)

    def test_read_only_mount(self):
        self.ok("put", "small", f"{VOLUME}:/f")
        self.mount("-o", "ro")
        self.assertEqual(self.ok("cat", f"{VOLUME}:/f").out, b"small")
        self.fails("rm", f"{VOLUME}:/f", says="")
        self.assertEqual(self.ok("cat", f"{VOLUME}:/f").out, b"small")

    def test_nothing_else_is_entered(self):
        """Not what is mounted below, nor a mount that something else hides."""
        self.mount()
        self.ok("mkdir", f"{VOLUME}:/below")
        subprocess.run(["mount", "-t", "tmpfs", "none", self.path("m/below")], check=True)
        try:
            self.write("m/below/secret")
            self.fails("ls", f"{VOLUME}:/below/secret")
            self.assertEqual(self.ok("ls", f"{VOLUME}:/").text, "below\n")
        finally:
            subprocess.run(["umount", self.path("m/below")], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "none", self.path("m")], check=True)
        try:
            self.fails("ls", f"{VOLUME}:/", says="cannot be reached")
            self.fails("put", "small", f"{VOLUME}:/x", says="cannot be reached")
            self.assertEqual(os.listdir(self.path("m")), [])
            self.ok("sync", VOLUME)  # needs no path
            self.assertGreater(self.ok("stats", "--json", VOLUME).json["live_bytes"], 0)
            self.ok("clean", VOLUME)
        finally:
            subprocess.run(["umount", self.path("m")], check=True)

    def test_busy_file(self):
        """What somebody writes to plainly cannot be changed meanwhile, and that is said."""
        self.ok("put", "small", f"{VOLUME}:/f")
        self.mount("-o", "lock_timeout=0.2")
        with open(self.path("m/f"), "r+b"):
            self.fails("put", "big", f"{VOLUME}:/f", says="in use")
        self.ok("put", "big", f"{VOLUME}:/f")

    def test_umask_and_deep_trees(self):
        os.umask(0o077)
        self.mount()
        self.ok("mkdir", "-m", "755", f"{VOLUME}:/a")
        self.ok("mkdir", f"{VOLUME}:/b")
        self.ok("put", "-", f"{VOLUME}:/c", data=b"c")
        modes = [oct(os.stat(self.path("m", name)).st_mode & 0o777) for name in "abc"]
        self.assertEqual(modes, ["0o755", "0o700", "0o600"])
        self.ok("mkdir", "-p", f"{VOLUME}:/" + "/".join(["d"] * 1500))
        self.ok("mkdir", f"{VOLUME}:/top")
        self.ok("mv", f"{VOLUME}:/d", f"{VOLUME}:/top/d")
        self.ok("cp", "-r", f"{VOLUME}:/top/d", f"{VOLUME}:/e")  # 3000 levels: no path is so long
        self.ok("mv", f"{VOLUME}:/e", f"{VOLUME}:/top/" + "/".join(["d"] * 1501))
        self.assertEqual(len(self.ok("find", f"{VOLUME}:/top").lines), 3001)
        self.ok("rm", "-r", f"{VOLUME}:/top")
        self.assertEqual(self.ok("ls", f"{VOLUME}:/").text, "a\nb\nc\n")

    def test_daemon_dies(self):
        self.mount()
        holder = self.run_program("check", VOLUME).err.decode()
        put = self.start("put", "-", f"{VOLUME}:/f", stdin=subprocess.PIPE)
        time.sleep(0.3)
        os.kill(int(re.search(r"process (\d+)", holder).group(1)), signal.SIGKILL)
        _, err = put.communicate(b"data", timeout=20)
        self.assertEqual(put.returncode, 1)
        self.assertEqual(len(err.splitlines()), 1, err)
        subprocess.run(["umount", "-l", self.path("m")], check=False)
        self.assertEqual(self.ok("ls", f"{VOLUME}:/").out, b"")


if __name__ == "__main__":
    harness.main()
