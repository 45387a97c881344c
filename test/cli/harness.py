"""What the tests of the command share: running it, and trees to copy.

Each test program is called as test_X.py PROGRAM; PROGRAM is the stetfs to test. Every test has a
directory of its own, which is removed afterwards.
"""
import errno
import json
import os
import random
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

PROGRAM = None
VOLUME = "v.img"
IS_ROOT = os.geteuid() == 0
SKIP = 77

ENVIRONMENT = dict(os.environ, LC_ALL="C.UTF-8", TZ="UTC")


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def text(self):
        return self.out.decode()

    @property
    def lines(self):
        return self.out.decode().splitlines()

    @property
    def json(self):
        return json.loads(self.out)


class CliTest(unittest.TestCase):
    """A test in an empty directory, with a volume in it unless SIZE is None."""

    SIZE = "32M"

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="stet-cli-")
        self.addCleanup(self.remove, self.dir)
        self.umask = os.umask(0o022)
        self.addCleanup(os.umask, self.umask)
        if self.SIZE:
            self.ok("mkfs", VOLUME, "--size", self.SIZE)

    @staticmethod
    def remove(path):
        subprocess.run(["chmod", "-R", "u+rwx", path], check=False, capture_output=True)
        shutil.rmtree(path, ignore_errors=True)

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def write(self, name, data=b"", mode=None):
        with open(self.path(name), "wb") as file:
            file.write(data)
        if mode is not None:
            os.chmod(self.path(name), mode)
        return self.path(name)

    def start(self, *words, **options):
        """Starts the command in the test's directory."""
        options.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.Popen([PROGRAM, *words], cwd=self.dir, env=ENVIRONMENT,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)

    def run_program(self, *words, data=None, program=None, env=None, timeout=120):
        done = subprocess.run([program or PROGRAM, *words], cwd=self.dir,
                              env=dict(ENVIRONMENT, **(env or {})),
                              input=data if data is not None else b"", capture_output=True,
                              check=False, timeout=timeout)
        self.assertGreaterEqual(done.returncode, 0, f"{words}: killed: {done.stderr!r}")
        return Result(done.returncode, done.stdout, done.stderr)

    def ok(self, *words, **options):
        """The command succeeds and says nothing on standard error."""
        done = self.run_program(*words, **options)
        self.assertEqual((done.code, done.err), (0, b""), words)
        return done

    def fails(self, *words, code=1, says=None, lines=1, **options):
        """The command fails with this code, and one line on standard error."""
        done = self.run_program(*words, **options)
        self.assertEqual(done.code, code, (words, done.out, done.err))
        found = done.err.decode().splitlines()
        self.assertEqual(len(found), lines, found)
        for line in found:
            self.assertRegex(line, r"^stetfs: .*: .")
            self.assertNotRegex(line, r"\w/\w+\.c:\d", "a place in the source")
        if says is not None:
            self.assertIn(says, done.err.decode())
        return done

    def check(self):
        done = self.run_program("check", VOLUME)
        self.assertEqual((done.code, done.err), (0, b""), done.out)

    def listing(self, path="/"):
        return [entry["path"].split(":", 1)[1]
                for entry in self.ok("ls", "-R", "--json", f"{VOLUME}:{path}").json]


# --- Trees ---

FAR_PAST = -86400 * 365 * 10 * 10**9 + 123456789
FAR_FUTURE = 4102444800 * 10**9 + 987654321


def write_file(path, data):
    with open(path, "wb") as file:
        file.write(data)


def make_files(root, rng):
    os.mkdir(root + b"/sizes")
    for size in (0, 1, 2047, 2048, 2049, 4095, 4096, 4097, 65536, 262144 + 1, (1 << 20) + 3):
        write_file(root + b"/sizes/%d" % size, rng.randbytes(size))
    os.mkdir(root + b"/many")
    for i in range(300):
        write_file(root + b"/many/file %03d" % i, rng.randbytes(rng.randrange(300)))
    with open(root + b"/sparse", "wb") as file:
        file.write(b"begin")
        file.seek(3 << 20)
        file.write(b"middle" * 1000)
        file.truncate(8 << 20)
    with open(root + b"/only hole", "wb") as file:
        file.truncate(5 << 20)


def make_names(root):
    os.mkdir(root + b"/names")
    for name in (b"with space", b"new\nline", b"\xff\xfe not utf-8", "ümläut €".encode(),
                 b"-dash", b"back\\slash", b'quote"', b"x" * 255, b"*", b"a:b", b".hidden",
                 b"\x1b[31mred", "\u202eright to left".encode(), b"~", b"tab\there"):
        write_file(root + b"/names/" + name, name)


def make_links(root):
    os.mkdir(root + b"/links")
    os.symlink(b"../sizes/4096", root + b"/links/relative")
    os.symlink(b"/etc/passwd", root + b"/links/absolute")
    os.symlink(b"nowhere", root + b"/links/dangling")
    os.symlink(b"y" * 4000, root + b"/links/long")
    os.symlink(b"..", root + b"/links/directory")
    os.symlink(b"\xff\n", root + b"/links/bytes")
    write_file(root + b"/links/first", b"linked")
    os.link(root + b"/links/first", root + b"/links/second")
    os.link(root + b"/links/first", root + b"/third")
    os.link(root + b"/links/dangling", root + b"/links/dangling too",
            follow_symlinks=False)


def make_special(root):
    os.mkdir(root + b"/special")
    os.mkfifo(root + b"/special/fifo", 0o640)
    os.mknod(root + b"/special/socket", stat.S_IFSOCK | 0o600)
    os.link(root + b"/special/fifo", root + b"/special/fifo too")
    if IS_ROOT:
        os.mknod(root + b"/special/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        os.mknod(root + b"/special/block", stat.S_IFBLK | 0o660, os.makedev(259, 70000))


def make_attributes(root):
    os.mkdir(root + b"/modes")
    for mode in (0o000, 0o400, 0o644, 0o755, 0o4755, 0o2755, 0o6711, 0o1777):
        if mode == 0 and not IS_ROOT:
            continue
        path = root + b"/modes/%04o" % mode
        write_file(path, b"mode")
        if IS_ROOT:
            os.chown(path, 1000 + mode % 7, 2000 + mode % 11)
        os.chmod(path, mode)
    os.mkdir(root + b"/closed")
    write_file(root + b"/closed/inside", b"inside")
    os.mkdir(root + b"/sticky")
    os.chmod(root + b"/sticky", 0o1777)
    if IS_ROOT:
        os.chown(root + b"/links/relative", 77, 88, follow_symlinks=False)


def set_xattr(path, name, value):
    try:
        os.setxattr(path, name, value, follow_symlinks=False)
    except OSError as error:
        if error.errno not in (errno.ENOTSUP, errno.EPERM):
            raise


def make_xattrs(root):
    path = root + b"/xattrs"
    write_file(path, b"has attributes")
    set_xattr(path, "user.text", b"value")
    set_xattr(path, "user.empty", b"")
    set_xattr(path, "user.binary", bytes(range(256)))
    set_xattr(path, "user.large", b"L" * 2000)
    set_xattr(root + b"/sticky", "user.dir", b"of a directory")
    if IS_ROOT:
        set_xattr(path, "trusted.hidden", b"root's")
    if shutil.which("setfacl"):
        subprocess.run(["setfacl", "-m", "u:1234:rw", path], check=False, capture_output=True)
        subprocess.run(["setfacl", "-d", "-m", "g:99:rx", root + b"/sticky"], check=False,
                       capture_output=True)


def make_deep(root):
    path = root
    for i in range(60):
        path += b"/deep%d" % i
        os.mkdir(path)
    write_file(path + b"/bottom", b"deep")


def set_times(root, rng):
    """Times of all, from the bottom up."""
    for folder, _, names in os.walk(root, topdown=False):
        for path in [os.path.join(folder, name) for name in names] + [folder]:
            when = rng.choice([rng.randrange(10**9 * 10**9), FAR_PAST, FAR_FUTURE, 0, 1])
            os.utime(path, ns=(when + 5, when), follow_symlinks=False)
        for name in names:
            pass
    os.chmod(root + b"/closed", 0o555)


def make_tree(path, seed=1):
    """A tree with everything a file system can hold."""
    rng = random.Random(seed)
    root = os.fsencode(path)
    os.mkdir(root)
    make_files(root, rng)
    make_names(root)
    make_links(root)
    make_special(root)
    make_attributes(root)
    make_xattrs(root)
    make_deep(root)
    set_times(root, rng)
    return path


def read_xattrs(path):
    try:
        names = os.listxattr(path, follow_symlinks=False)
    except OSError:
        return {}
    return {name: os.getxattr(path, name, follow_symlinks=False) for name in names
            if name != "security.selinux"}


def describe(path, st, groups, with_times):
    """All that a copy must have, as a dictionary."""
    kind = stat.S_IFMT(st.st_mode)
    entry = {"mode": oct(st.st_mode), "uid": st.st_uid, "gid": st.st_gid,
             "xattrs": read_xattrs(path)}
    if with_times:
        entry["mtime"] = st.st_mtime_ns
    if kind == stat.S_IFREG:
        entry["size"] = st.st_size
        if st.st_mode & 0o400 or IS_ROOT:
            with open(path, "rb") as file:
                entry["data"] = hash(file.read())
    elif kind == stat.S_IFLNK:
        entry["target"] = os.readlink(path)
    elif kind in (stat.S_IFCHR, stat.S_IFBLK):
        entry["device"] = st.st_rdev
    if kind != stat.S_IFDIR and st.st_nlink > 1:
        entry["group"] = groups.setdefault(st.st_ino, len(groups))
    return entry


def snapshot(path, with_times=True, with_top=True):
    """Relative path -> description of everything at path."""
    root = os.fsencode(path)
    groups = {}
    result = {}
    if with_top:
        result[b"."] = describe(root, os.lstat(root), groups, with_times)
    for folder, dirs, names in os.walk(root):
        dirs.sort()
        for name in sorted(dirs + names):
            full = os.path.join(folder, name)
            result[os.path.relpath(full, root)] = describe(full, os.lstat(full), groups,
                                                           with_times)
    return result


def allocated(path):
    """Bytes on disk of the host's file."""
    return os.stat(path).st_blocks * 512


def main():
    global PROGRAM
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    program = unittest.main(module="__main__", exit=False, verbosity=1)
    result = program.result
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIP if result.testsRun and len(result.skipped) == result.testsRun else 0)
