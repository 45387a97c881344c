"""The commands that need a mount: mount, umount, run, begin, commit, abort, diff, txns."""
import os
import pty
import signal
import subprocess
import time

import harness
from harness import IS_ROOT, VOLUME, CliTest

# It is tail that says "ready": a shell on its way to the next command may catch the signal itself.
READY_AND_WAIT = "echo y > f; echo ready > r; exec tail -f r"
CAN_MOUNT = IS_ROOT and os.path.exists("/dev/fuse")


def wait_for(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@harness.unittest.skipUnless(CAN_MOUNT, "needs root and /dev/fuse")
class MountTest(CliTest):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("m"))
        self.mount()
        self.addCleanup(self.unmount)

    def mount(self, *words):
        self.ok("mount", VOLUME, "m", *words)

    def unmount(self):
        if os.path.ismount(self.path("m")):
            self.run_program("umount", "m")
        if os.path.ismount(self.path("m")):
            subprocess.run(["umount", "-l", self.path("m")], check=False)

    def read(self, name):
        with open(self.path("m", name), encoding="utf-8") as file:
            return file.read()

    def put(self, name, text):
        with open(self.path("m", name), "w", encoding="utf-8") as file:
            file.write(text)

    def txns(self):
        return self.ok("txns", "--json", "m").json


class Mount(MountTest):
    def test_umount_waits(self):
        self.put("f", "data")
        self.ok("umount", "m")
        self.assertFalse(os.path.ismount(self.path("m")))
        self.assertEqual(self.ok("cat", f"{VOLUME}:/f").text, "data")
        self.check()
        self.fails("umount", "m", says="mounted")

    def test_holder_is_named(self):
        where = f"in use: mounted at {os.path.realpath(self.path('m'))} (process "
        self.fails("mkfs", VOLUME, "--force", says=where)
        self.fails("check", VOLUME, code=8, says=where)
        self.fails("dump", VOLUME, "tree", says=where)
        os.mkdir(self.path("n"))
        self.fails("mount", VOLUME, "n")

    def test_by_volume_and_by_directory(self):
        self.put("f", "data")
        for place in (VOLUME, "m", "m/f"):
            if place != "m/f":
                self.ok("sync", place)
                self.assertRegex(self.ok("clean", place).text, "cleaned")
                self.assertGreater(self.ok("stats", "--json", place).json["live_bytes"], 0)
        self.assertIn("capacity", self.ok("stats", "m").text)

    def test_options(self):
        self.ok("umount", "m")
        self.mount("-o", "ro,noatime", "-o", "cache=16M")
        with self.assertRaises(OSError):
            self.put("f", "x")
        self.ok("umount", "m")
        self.fails("mount", VOLUME, "m", "-o", "nonsense", code=2, says="nonsense")
        self.fails("mount", VOLUME, "m", "-o", "cache=5 ", code=2, says="cache=5")
        self.fails("mount", "none.img", "m", says="none.img")
        self.fails("mount", VOLUME, "nowhere")
        self.assertFalse(os.path.ismount(self.path("m")))

    def test_foreground(self):
        self.ok("umount", "m")
        daemon = self.start("mount", "-f", VOLUME, "m")
        self.assertTrue(wait_for(lambda: os.path.ismount(self.path("m"))))
        self.put("f", "x")
        self.ok("umount", "m")
        self.assertEqual((daemon.wait(10), daemon.communicate()[1]), (0, b""))

    def test_helper(self):
        self.ok("umount", "m")
        os.symlink(harness.PROGRAM, self.path("mount.stetfs"))
        helper = self.path("mount.stetfs")
        done = self.run_program(VOLUME, "m", "-o", "rw,nofail", program=helper)
        self.assertEqual((done.code, done.err), (0, b""))
        self.assertTrue(os.path.ismount(self.path("m")))
        self.assertEqual(self.run_program(VOLUME, "m", program=helper).code, 32)


class Transactions(MountTest):
    def begin(self, *words):
        begun = self.ok("begin", "m", "--json", *words).json
        return str(begun["id"]), begun["root"]

    def test_commit(self):
        self.put("old", "old")
        number, root = self.begin()
        with open(os.path.join(root, "new"), "w", encoding="utf-8") as file:
            file.write("new")
        os.rename(os.path.join(root, "old"), os.path.join(root, "renamed"))
        self.assertEqual(os.listdir(self.path("m")), ["old"])
        self.assertEqual(self.ok("diff", "m", number).lines, [
            "R /old -> /renamed", "A /new  (3 bytes)", "1 renamed, 1 added; +3 bytes, -0 bytes"])
        changes = self.ok("diff", "m", number, "--json").json["changes"]
        self.assertEqual([(c["change"], c["path"]) for c in changes],
                         [("added", "/new"), ("renamed", "/renamed")])
        self.ok("commit", "m", number)
        self.assertEqual(sorted(os.listdir(self.path("m"))), ["new", "renamed"])
        self.fails("commit", "m", number, says="no such transaction")
        self.fails("abort", "m", number, says="no such transaction")
        self.fails("diff", "m", number, says="no such transaction")

    def test_abort(self):
        number, root = self.begin()
        os.mkdir(os.path.join(root, "d"))
        self.ok("abort", "m", number)
        self.assertEqual(os.listdir(self.path("m")), [])
        self.assertEqual(self.txns(), [])

    def test_txns(self):
        first, _ = self.begin()
        second, _ = self.begin("--serializable", "--read-only")
        found = self.txns()
        self.assertEqual([str(t["id"]) for t in found], [first, second])
        self.assertEqual([(t["level"], t["read_only"], t["detached"]) for t in found],
                         [("snapshot", False, True), ("serializable", True, True)])
        lines = self.ok("txns", "m").lines
        self.assertEqual((len(lines), lines[1].split()[0]), (3, first))
        self.ok("abort", "m", first)
        self.ok("abort", "m", second)
        self.assertEqual(self.ok("txns", "m").out, b"")

    def test_conflict(self):
        self.put("f", "0")
        number, root = self.begin()
        with open(os.path.join(root, "f"), "w", encoding="utf-8") as file:
            file.write("mine")
        other, other_root = self.begin()
        self.ok("abort", "m", other)
        self.ok("commit", "m", number)
        number, root = self.begin("--serializable")
        with open(os.path.join(root, "f"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "mine")
        with open(os.path.join(root, "g"), "w", encoding="utf-8") as file:
            file.write("g")
        self.put("f", "theirs")
        self.fails("commit", "m", number,
                   says=f"{number}: not committed: /f: it was read, and another has changed it since")
        self.assertEqual(sorted(os.listdir(self.path("m"))), ["f"])


    def test_conflicts_are_named(self):
        """By the path that they are about."""
        os.makedirs(self.path("m/d/sub"))
        self.put("d/f", "0")
        number, root = self.begin()
        self.put("d/f", "1")
        with self.assertRaises(OSError):
            with open(os.path.join(root, "d/f"), "w", encoding="utf-8") as file:
                file.write("mine")
        self.fails("commit", "m", number, says="not committed: /d/f: another has changed it since "
                   "this transaction began")
        number, root = self.begin()
        os.mkdir(self.path("m/d/new"))
        with self.assertRaises(OSError):
            os.mkdir(os.path.join(root, "d/new"))
        self.fails("commit", "m", number, says="not committed: the name /d/new: another has changed")
        number, root = self.begin("--serializable")
        os.listdir(os.path.join(root, "d"))
        os.mkdir(os.path.join(root, "mine"))
        self.put("d/y", "y")
        self.fails("commit", "m", number, says="not committed: /d: it was read, and another has")
        number, root = self.begin()
        self.put("gone", "")
        os.setxattr(self.path("m/d/f"), "user.x", b"1")
        with self.assertRaises(OSError):
            os.setxattr(os.path.join(root, "d/f"), "user.x", b"2")
        self.fails("commit", "m", number, says="not committed: user.x of /d/f: another has changed")
        number, root = self.begin()
        os.link(os.path.join(root, "d/f"), os.path.join(root, "again"))
        os.unlink(self.path("m/d/f"))
        self.fails("commit", "m", number, says=": it was given a name; another took its last")


class Run(MountTest):
    def run_in(self, script, *words, code=0, cwd=None, err=b""):
        done = subprocess.run([harness.PROGRAM, "run", self.path("m"), *words, "--", "sh", "-c",
                               script], cwd=cwd or self.dir, env=harness.ENVIRONMENT,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False,
                              timeout=60)
        self.assertEqual(done.returncode, code, (script, done.stderr))
        if err is not None:
            self.assertEqual(done.stderr, err)
        return done.stdout.decode()

    def start_in(self, script, **options):
        return self.start("run", "m", "sh", "-c", script, **options)

    def assert_untouched(self):
        self.assertEqual(os.listdir(self.path("m")), [])
        self.assertTrue(wait_for(lambda: self.txns() == []), self.txns())

    def test_commit_and_abort(self):
        self.run_in("echo 1 > a; echo 2 > b")
        self.assertEqual(sorted(os.listdir(self.path("m"))), ["a", "b"])
        self.run_in("echo 3 > a; rm b; exit 7", code=7)
        self.assertEqual((self.read("a"), self.read("b")), ("1\n", "2\n"))
        self.assertEqual(self.txns(), [])

    def test_codes(self):
        for code in (1, 2, 42, 125, 255):
            self.run_in(f"exit {code}", code=code)
        self.run_in("kill -9 $$", code=137)
        self.run_in("kill -TERM $$", code=143)
        self.fails("run", "m", "--", "no-such-program", code=127, says="no-such-program")
        self.fails("run", "m", "--", "/etc/passwd", code=126, says="/etc/passwd")
        self.fails("run", self.dir, "--", "true", code=125)
        self.assert_untouched()

    def test_options_of_the_command_are_its_own(self):
        done = self.ok("run", "m", "printf", "%s|", "--read-only", "-f", "--", "-x")
        self.assertEqual(done.text, "--read-only|-f|--|-x|")

    def test_where_it_starts(self):
        os.makedirs(self.path("m/sub/deep"))
        real = os.path.realpath(self.path("m"))
        self.assertEqual(self.run_in("pwd").strip(), real)
        inside = self.path("m/sub")
        self.assertEqual(self.run_in("pwd; echo x > y", cwd=inside).strip(), real + "/sub")
        self.assertEqual(self.read("sub/y"), "x\n")
        done = self.ok("run", "m/sub/deep", "--", "pwd")
        self.assertEqual(done.text.strip(), real + "/sub/deep")

    def test_nobody_else_sees_it(self):
        self.put("f", "before")
        process = self.start_in("echo after > f; echo ready; read line; cat f",
                                stdin=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        self.assertEqual(self.read("f"), "before")
        out, err = process.communicate(b"\n")
        self.assertEqual((process.returncode, out, err), (0, b"after\n", b""))
        self.assertEqual(self.read("f"), "after\n")

    def test_levels(self):
        self.run_in("echo x > f", "--read-only", code=2, err=None)
        self.run_in("echo x > f", "--serializable")
        self.assertEqual(self.read("f"), "x\n")

    def test_conflict(self):
        self.put("f", "0")
        process = self.start("run", "m", "--serializable", "sh", "-c",
                             "cat f; echo x > g; echo ready; read line", stdin=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"0ready\n")
        self.put("f", "changed")
        _, err = process.communicate(b"\n")
        self.assertEqual(process.returncode, 123)
        self.assertRegex(err, rb"^stetfs: m: not committed: .*\n$")
        self.assertEqual(os.listdir(self.path("m")), ["f"])

    def test_signals_abort(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process = self.start_in(READY_AND_WAIT)
            self.assertEqual(process.stdout.readline(), b"ready\n")
            process.send_signal(number)
            process.communicate(timeout=10)
            self.assertEqual(process.returncode, 128 + number)
            self.assert_untouched()

    def test_signal_that_the_command_survives(self):
        process = self.start_in("trap 'exit 0' TERM; echo x > f; echo ready; "
                                "while :; do sleep 0.05; done")
        self.assertEqual(process.stdout.readline(), b"ready\n")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=10)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)
        self.assert_untouched()

    def on_terminal(self, script, keys):
        """Runs it with a terminal of its own and types keys once it says "ready"."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.dir)
            os.execv(harness.PROGRAM, [harness.PROGRAM, "run", "m", "sh", "-c", script])
        seen = b""
        try:
            while chunk := os.read(terminal, 1000):
                seen += chunk
                if b"ready" in seen and keys:
                    os.write(terminal, keys)
                    keys = None
        except OSError:
            pass  # the other end is closed
        os.close(terminal)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), seen

    def test_terminal(self):
        code, seen = self.on_terminal("echo ready; read line; echo got $line; echo x > f",
                                      b"typed\n")
        self.assertEqual(code, 0, seen)
        self.assertIn(b"got typed", seen)
        self.assertEqual(self.read("f"), "x\n")
        code, seen = self.on_terminal(READY_AND_WAIT, b"\x03")
        self.assertEqual(code, 128 + signal.SIGINT, seen)
        self.assertEqual(self.read("f"), "x\n")

    def test_stopped_and_continued(self):
        """When the command stops, so does run; both go on together."""
        # In a group of its own, which we can continue: a group that nobody can is not stopped.
        process = self.start_in("echo x > f; echo ready; kill -STOP $$; echo on",
                                preexec_fn=os.setpgrp)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        self.assertTrue(os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1]))
        process.send_signal(signal.SIGCONT)
        out, err = process.communicate(timeout=10)
        self.assertEqual((process.returncode, out, err), (0, b"on\n", b""))
        self.assertEqual(self.read("f"), "x\n")

    def test_killed_with_its_group(self):
        process = self.start_in("echo x > f; echo $$; sleep 60 & wait")
        pid = int(process.stdout.readline())
        process.kill()
        process.wait()
        self.assertTrue(wait_for(lambda: not self.group_lives(pid)))
        process.stdout.close()
        process.stderr.close()
        self.assert_untouched()

    @staticmethod
    def group_lives(pid):
        try:
            os.killpg(pid, 0)
        except ProcessLookupError:
            return False
        return True

    def test_daemon_dies(self):
        process = self.start_in("echo x > f; echo $$; sleep 60 & wait")
        pid = int(process.stdout.readline())
        # The holder's process is named when the volume is asked for.
        holder = self.run_program("check", VOLUME).err.decode()
        os.kill(int(holder.split("(process ")[1].split(")")[0]), signal.SIGKILL)
        _, err = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 123)
        self.assertIn(b"the daemon has gone", err)
        self.assertTrue(wait_for(lambda: not self.group_lives(pid)))
        subprocess.run(["umount", "-l", self.path("m")], check=False)
        self.check()
        self.assertEqual(self.ok("ls", f"{VOLUME}:/").out, b"")

    def test_pipeline_and_background(self):
        self.run_in("seq 1000 | sort -rn | tee sorted | tail -1 > last & wait")
        self.assertEqual(self.read("last"), "1\n")
        self.assertEqual(len(self.read("sorted").split()), 1000)


if __name__ == "__main__":
    harness.main()
