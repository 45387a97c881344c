"""What the tests of this folder share: a volume, its mount, and how a test says how it went.

A test is a function whose name starts with test_ and that takes a Mount; main() runs each on a
fresh volume. Environment:
  STETFS              the program (required)
  STET_MOUNT_ONLY     names of tests to run, separated by commas
  STET_MOUNT_SIZE     of the volumes (256M)
  STET_MOUNT_KEEP     keep the folder, and say where it is
"""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

SKIP = 77
STETFS = os.environ.get("STETFS", "")


class Failure(Exception):
    """A check did not hold."""


def check(condition, text):
    if not condition:
        raise Failure(text)


def equal(got, wanted, text=""):
    if got != wanted:
        raise Failure(f"{text}: got {got!r}, wanted {wanted!r}")


def fails(error, function, *args, **kwargs):
    """The call must fail with this errno value."""
    try:
        result = function(*args, **kwargs)
    except OSError as failure:
        equal(failure.errno, error, f"errno of {function.__name__}{args}")
    else:
        raise Failure(f"{function.__name__}{args} did not fail: {result!r}")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def as_user(function, uid=1000):
    """Runs a function in a process of another user; it must not raise."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            function()
            code = 0
        except BaseException:  # pylint: disable=broad-except
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)  # never on into the rest of the tests
    equal(os.waitpid(child, 0)[1], 0, "as another user")


class Mount:
    """A volume image and where it is mounted."""

    def __init__(self, folder):
        self.folder = folder
        self.image = os.path.join(folder, "volume")
        self.dir = os.path.join(folder, "mnt")
        self.size = os.environ.get("STET_MOUNT_SIZE", "256M")
        os.chmod(folder, 0o755)
        os.mkdir(self.dir)

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def run(self, *words, code=0, **kwargs):
        """A command of the program; its output. code None: whatever."""
        done = subprocess.run([STETFS, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              check=False, timeout=120, **kwargs)
        text = done.stdout.decode(errors="replace")
        if code is not None and done.returncode != code:
            raise Failure(f"stetfs {' '.join(words)}: {done.returncode}, not {code}: {text}")
        return text.strip()

    def make(self):
        self.run("mkfs", self.image, "--size", self.size)

    def mount(self, options=None):
        self.run("mount", self.image, self.dir, *(["-o", options] if options else []))

    def umount(self):
        self.run("umount", self.dir)

    def check(self):
        self.run("check", self.image)

    def remount(self, options=None):
        self.umount()
        self.check()
        self.mount(options)

    def transaction(self, script, code=0, words=()):
        """Runs a shell script as a transaction."""
        return self.run("run", self.dir, *words, "--", "sh", "-c", script, code=code)

    def begin(self):
        """A detached transaction: its id, and its tree."""
        number = self.run("begin", self.dir).split()[0]
        return number, self.path(".stet", "txn", number, "root")

    def commit(self, number, code=0):
        return self.run("commit", self.dir, number, code=code)

    def abort(self, number):
        return self.run("abort", self.dir, number)

    def daemon(self):
        """The process that serves the mount."""
        for name in os.listdir("/run/stetfs"):
            if not name.endswith(".mount"):
                continue
            with open(os.path.join("/run/stetfs", name), encoding="utf-8",
                      errors="surrogateescape") as record:
                fields = dict(line.rstrip("\n").split(" ", 1) for line in record if " " in line)
            if fields.get("dir") == self.dir:
                return int(fields["pid"])
        raise Failure("no runtime record")

    def kill(self):
        """Ends the daemon as a crash would, and clears the dead mount away."""
        pid = self.daemon()
        os.kill(pid, signal.SIGKILL)
        wait_gone(pid)
        subprocess.run(["umount", "-l", self.dir], check=True)

    def is_mounted(self):
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as mounts:
            return any(line.split()[1] == self.dir for line in mounts)

    def clean_up(self):
        while self.is_mounted():
            subprocess.run(["umount", "-l", self.dir], check=False)


def is_gone(pid):
    """Has the process ended, with all its threads? (A zombie counts as that.)"""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
            return len(tasks) <= 1 and stat.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def resident(pid):
    """Bytes of memory that the process has."""
    for line in read(f"/proc/{pid}/status").decode().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise AssertionError("no VmRSS")


def wait_gone(pid, seconds=20):
    until = time.monotonic() + seconds
    while not is_gone(pid):
        check(time.monotonic() < until, f"process {pid} does not end")
        time.sleep(0.01)


def run_one(name, function):
    folder = tempfile.mkdtemp(prefix="stet-mount-")
    mount = Mount(folder)
    started = time.monotonic()
    error = None
    try:
        mount.make()
        mount.mount()
        function(mount)
        if mount.is_mounted():
            mount.umount()
        mount.check()
    except Exception:  # pylint: disable=broad-except
        error = traceback.format_exc()
    mount.clean_up()
    if not os.environ.get("STET_MOUNT_KEEP"):
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"  kept {folder}")
    print(f"{'ok' if not error else 'FAIL'} {name} ({time.monotonic() - started:.1f} s)", flush=True)
    if error:
        print(error, flush=True)
    return error is None


def main(tests):
    """Runs the test functions of a module (its globals())."""
    if not STETFS or not os.path.exists("/dev/fuse") or os.geteuid() != 0:
        print("needs STETFS, /dev/fuse and root")
        sys.exit(SKIP)
    only = [n for n in os.environ.get("STET_MOUNT_ONLY", "").split(",") if n]
    chosen = [(n, f) for n, f in tests.items()
              if n.startswith("test_") and (not only or n in only)]
    results = [run_one(name, function) for name, function in chosen]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    sys.exit(0 if all(results) else 1)
