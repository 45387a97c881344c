"""Programs that open the volume while it is mounted: the library's client, through ctypes.

More environment:
  LIBSTETFS           the shared library (beside STETFS)
  STET_CLIENT_ROUNDS  of nonsense that is sent to the daemon (300)
  STET_CLIENT_STEPS   of random changes inside a run (300); STET_CLIENT_SEED (1)
"""
import ctypes
import errno
import glob
import mmap
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

from mountlib import (STETFS, as_user, check, equal, main, read, resident, wait_gone, write)

LIBRARY = os.environ.get("LIBSTETFS", os.path.join(os.path.dirname(STETFS), "libstetfs.so"))
SEED = int(os.environ.get("STET_CLIENT_SEED", "1"))
STEPS = int(os.environ.get("STET_CLIENT_STEPS", "300"))
ROUNDS = int(os.environ.get("STET_CLIENT_ROUNDS", "300"))
ROOT = ctypes.c_uint64(1)
READ_ONLY = 0x10
SNAPSHOT = 0x1
SERIALIZABLE = 0x2
LOCKING = 0x4
HELLO = 0x74657473
BEGIN, ABORT, FREEZE, OPENAT, PREAD, PWRITE, FILE_STAT, SHOWN = 16, 19, 20, 29, 31, 32, 40, 8
REACH = "system.stetfs.reach."
U64 = ctypes.c_uint64
P = ctypes.c_void_p
WALKER = ctypes.CFUNCTYPE(ctypes.c_int, P, P)
COUNTER = ctypes.CFUNCTYPE(ctypes.c_int, P, ctypes.c_char_p, U64)


class Options(ctypes.Structure):
    """struct stet_open_options"""
    _fields_ = [("read_only", ctypes.c_bool), ("recover_prefix", ctypes.c_bool),
                ("no_remote", ctypes.c_bool), ("cache_bytes", U64),
                ("flush_interval_ms", ctypes.c_uint32), ("checkpoint_bytes", U64)]


class Stat(ctypes.Structure):
    """struct stet_stat"""
    _fields_ = [("ino", U64), ("mode", ctypes.c_uint32), ("nlink", ctypes.c_uint32),
                ("uid", ctypes.c_uint32), ("gid", ctypes.c_uint32), ("rdev", U64), ("size", U64),
                ("blocks", U64), ("times", ctypes.c_int64 * 4), ("parent", U64), ("version", U64)]


def library():
    lib = ctypes.CDLL(LIBRARY)
    for name in ("stet_pread", "stet_pwrite", "stet_append"):
        getattr(lib, name).restype = ctypes.c_ssize_t
    lib.stet_transaction_id.restype = U64
    lib.stet_error_text.restype = ctypes.c_char_p
    for name in ("stet_abort", "stet_file_close", "stet_dir_close"):
        getattr(lib, name).restype = None
    return lib


LIB = library() if os.path.exists(LIBRARY) else None


class Volume:
    """A volume, opened; calls give 0 or more, or -errno."""

    def __init__(self, path, rc=0, **options):
        self.vol = P()
        o = Options(**options)
        equal(LIB.stet_open(path.encode(), ctypes.byref(o), ctypes.byref(self.vol)), rc,
              f"stet_open: {text()}")

    def begin(self, flags=0, rc=0):
        txn = P()
        equal(LIB.stet_begin(self.vol, flags, ctypes.byref(txn)), rc, f"begin: {text()}")
        return txn

    def open(self, path, flags=os.O_RDWR, txn=None, mode=0o644, rc=0):
        file = P()
        got = LIB.stet_openat(self.vol, txn, ROOT, path.encode(), flags, mode, ctypes.byref(file))
        equal(got, rc, f"openat {path}: {text()}")
        return file

    def write(self, path, data, txn=None, off=0, rc=None):
        file = self.open(path, os.O_RDWR | os.O_CREAT, txn)
        got = LIB.stet_pwrite(file, data, ctypes.c_size_t(len(data)), U64(off))
        LIB.stet_file_close(file)
        equal(got, len(data) if rc is None else rc, f"pwrite {path}: {text()}")

    def read(self, path, txn=None, size=1 << 16):
        file = self.open(path, os.O_RDONLY, txn)
        buf = ctypes.create_string_buffer(size)
        got = LIB.stet_pread(file, buf, ctypes.c_size_t(size), U64(0))
        LIB.stet_file_close(file)
        check(got >= 0, f"pread {path}: {got}: {text()}")
        return buf.raw[:got]

    def stat(self, path, txn=None, rc=0):
        ret = Stat()
        equal(LIB.stet_statat(self.vol, txn, ROOT, path.encode(), 0, ctypes.byref(ret)), rc,
              f"stat {path}: {text()}")
        return ret

    def counter(self, wanted):
        found = []

        def see(_arg, name, value):
            if name == wanted.encode():
                found.append(value)
            return 0
        equal(LIB.stet_stats(self.vol, COUNTER(see), None), 0)
        return found[0]

    def mkdir(self, path, txn=None):
        return LIB.stet_mkdirat(self.vol, txn, ROOT, path.encode(), 0o755)

    def close(self, rc=0):
        equal(LIB.stet_close(self.vol), rc, f"close: {text()}")


def text():
    return LIB.stet_error_text().decode(errors="replace")


def commit(txn, rc=0):
    equal(LIB.stet_commit(txn, 0), rc, f"commit: {text()}")


def open_transactions(mount):
    return max(0, len(mount.run("txns", mount.dir).splitlines()) - 1)


def wait_until(true, what, seconds=10):
    until = time.monotonic() + seconds
    while not true():
        check(time.monotonic() < until, f"not in time: {what}")
        time.sleep(0.02)


def in_child(function):
    """Runs a function in a process of its own, which waits to be killed when it is done. Its pid."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            function()
            os.write(writer, b"x")
            time.sleep(60)
        finally:
            os._exit(1)
    os.close(writer)
    equal(os.read(reader, 1), b"x", "the child")
    os.close(reader)
    return child


def kill(pid):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def socket_path(mount):
    pid = mount.daemon()
    for name in glob.glob("/run/stetfs/*.mount"):
        with open(name, encoding="utf-8") as record:
            fields = dict(line.rstrip("\n").split(" ", 1) for line in record if " " in line)
        if int(fields["pid"]) == pid:
            return fields["socket"]
    raise AssertionError("no record")


# --- the same volume ---

def test_both_see_it(mount):
    vol = Volume(mount.image)
    write(mount.path("from-mount"), b"one")
    equal(vol.read("from-mount"), b"one")
    vol.write("from-client", b"two")
    equal(read(mount.path("from-client")), b"two")
    os.mkdir(mount.path("dir"))
    equal(vol.mkdir("dir"), -errno.EEXIST)
    equal(vol.mkdir("dir/sub"), 0)
    equal(os.listdir(mount.path("dir")), ["sub"])
    vol.close()


def test_the_kernel_forgets(mount):
    """What the kernel has cached of a file, a name and a listing, a client changes."""
    vol = Volume(mount.image)
    write(mount.path("a"), b"old text")
    for _ in range(3):
        equal(read(mount.path("a")), b"old text")
        equal(os.stat(mount.path("a")).st_size, 8)
        check(not os.path.exists(mount.path("b")), "b is there")
        equal(os.listdir(mount.dir), ["a"])
    vol.write("a", b"new longer text")
    equal(read(mount.path("a")), b"new longer text")
    equal(os.stat(mount.path("a")).st_size, 15)
    vol.write("b", b"")
    check(os.path.exists(mount.path("b")), "b is not there")
    equal(sorted(os.listdir(mount.dir)), ["a", "b"])
    txn = vol.begin()
    vol.write("a", b"NEW", txn)
    equal(LIB.stet_unlinkat(vol.vol, txn, ROOT, b"b", 0), 0)
    equal(read(mount.path("a")), b"new longer text")
    check(os.path.exists(mount.path("b")), "b went too early")
    commit(txn)
    equal(read(mount.path("a")), b"NEW longer text")
    check(not os.path.exists(mount.path("b")), "b is still there")
    vol.close()


def test_large(mount):
    vol = Volume(mount.image)
    data = random.Random(1).randbytes((5 << 20) + 4321)
    vol.write("large", data, off=0)
    equal(read(mount.path("large")) == data, True, "what the mount shows")
    equal(vol.read("large", size=len(data) + 10) == data, True, "what was written")
    txn = vol.begin()
    vol.write("large", data[::-1], txn)
    equal(vol.read("large", txn, size=len(data)) == data[::-1], True, "in the transaction")
    equal(vol.read("large", size=len(data)) == data, True, "outside it")
    commit(txn)
    equal(read(mount.path("large")) == data[::-1], True, "after the commit")
    vol.close()


def test_examples(mount):
    for name in ("one_file", "several_files", "transfer"):
        done = subprocess.run([os.path.join(os.path.dirname(LIBRARY), "examples", name),
                               mount.image], capture_output=True, timeout=100, check=False)
        equal(done.returncode, 0, f"{name}: {done.stderr}")
    equal(read(mount.path("note.txt")), b"let it stand\n")
    equal(read(mount.path("current", "version")), b"release-2")
    equal(sum(int(read(mount.path(f"account-{i}"))) for i in range(10)), 10000)


def test_with_commands(mount):
    """A transaction of a client and one of a command meet as any two do."""
    vol = Volume(mount.image)
    write(mount.path("a"), b"0")
    txn = vol.begin(SNAPSHOT)
    equal(vol.read("a", txn), b"0")
    mount.transaction("echo 1 > a")
    equal(vol.read("a", txn), b"0")
    vol.write("a", b"2", txn, rc=-errno.EBUSY)
    LIB.stet_abort(txn)
    equal(vol.read("a"), b"1\n")
    vol.close()


def test_tables(mount):
    """The command works on a mounted volume; others see what it has done."""
    table = f"{mount.image}:/t"
    mount.run("table", table, "load", input=b"".join(b"k%d\tv%d\n" % (i, i) for i in range(200)))
    equal(os.stat(mount.path("t")).st_size, 200)
    equal(mount.run("table", table, "get", "k7"), "v7")
    mount.run("table", table, "put", "k7", "new")
    equal(mount.run("table", table, "get", "k7"), "new")
    equal(len(mount.run("table", table, "scan").splitlines()), 200)
    mount.run("table", table, "del", "k7")
    equal(os.getxattr(mount.path("t"), "user.stetfs.table"), b"199")

    def use():
        check("ermission" in mount.run("table", table, "put", "k8", "his", code=1), "refused")
        equal(mount.run("table", table, "get", "k8"), "v8")
    as_user(use)


def test_options(mount):
    Volume(mount.image, rc=-errno.EBUSY, no_remote=True)
    vol = Volume(mount.image, read_only=True)
    write(mount.path("a"), b"x")
    equal(vol.read("a"), b"x")
    equal(vol.mkdir("d"), -errno.EROFS)
    vol.open("new", os.O_RDWR | os.O_CREAT, rc=-errno.EROFS)
    vol.begin(rc=-errno.EROFS)
    file = vol.open("a")
    equal(LIB.stet_pwrite(file, b"y", ctypes.c_size_t(1), U64(0)), -errno.EROFS)
    LIB.stet_file_close(file)
    txn = vol.begin(READ_ONLY)
    equal(vol.read("a", txn), b"x")
    commit(txn)
    vol.close()
    mount.run("check", mount.image, code=8)
    mount.run("dump", mount.image, "log", code=1)
    mount.remount("ro")
    vol = Volume(mount.image, read_only=True)
    equal(vol.read("a"), b"x")
    vol.close()
    vol = Volume(mount.image)
    equal(vol.mkdir("d"), -errno.EROFS)
    vol.close()


# --- who may what ---

def test_permissions(mount):
    write(mount.path("private"), b"secret")
    os.chmod(mount.path("private"), 0o600)
    write(mount.path("public"), b"text")
    os.mkdir(mount.path("his"))
    os.chown(mount.path("his"), 1000, 1000)
    os.chmod(mount.image, 0o600)  # the mount is enough

    def use():
        vol = Volume(mount.image)
        vol.open("private", os.O_RDONLY, rc=-errno.EACCES)
        equal(vol.read("public"), b"text")
        vol.open("public", os.O_RDWR, rc=-errno.EACCES)
        equal(vol.mkdir("d"), -errno.EACCES)
        equal(LIB.stet_unlinkat(vol.vol, None, ROOT, b"public", 0), -errno.EACCES)
        equal(LIB.stet_clean(vol.vol, 1), -errno.EPERM)
        txn = vol.begin()
        equal(vol.mkdir("e", txn), -errno.EACCES)
        vol.write("his/file", b"mine", txn)
        commit(txn)
        vol.close()
    as_user(use)
    equal(os.stat(mount.path("his", "file")).st_uid, 1000)
    equal(sorted(os.listdir(mount.dir)), ["his", "private", "public"])


def test_not_shared(mount):
    mount.remount("noallow_other")

    def use():
        Volume(mount.image, rc=-errno.EACCES)
        check("ermission" in text(), text())
    os.chmod(mount.image, 0o666)
    as_user(use)
    vol = Volume(mount.image)
    equal(vol.mkdir("d"), 0)
    vol.close()
    mount.remount("uid=1000")  # the kernel goes by other owners than are stored

    def refused():
        Volume(mount.image, rc=-errno.EACCES)
        check("no programs of this user" in text(), text())
    as_user(refused)


def test_reach(mount):
    """Who cannot get to the mount is not served, whatever he sends."""
    write(mount.path("public"), b"text")
    folder = os.path.join(mount.folder, "shut")
    image = os.path.join(mount.folder, "image")
    os.link(mount.image, image)
    os.chmod(image, 0o666)
    mount.umount()
    inner = os.path.join(folder, "mnt")
    os.makedirs(inner)
    outer, mount.dir = mount.dir, inner
    mount.mount()
    path = socket_path(mount)

    def works():
        vol = Volume(image)
        equal(vol.read("public"), b"text")
        vol.close()

    def refused():
        Volume(image, rc=-errno.EACCES)
        check(inner in text() and "cannot be reached: Permission denied" in text(), text())
        for reach in (None, "/", mount.folder, "/dev/null", inner):
            equal(greeted(path, reach=reach)[1], -errno.EACCES, f"with {reach}")
        outside = subprocess.run([STETFS, "ls", f"{image}:/"], capture_output=True, check=False)
        equal(outside.returncode, 1, f"ls: {outside.stderr}")
    works()
    as_user(works)
    os.chmod(folder, 0o700)
    works()
    as_user(refused)
    as_user(lambda: equal(greeted(path, reach=None)[1], -errno.EACCES))
    # Nor does it help that somebody else gets there: the word must be shown by whose it is, on the root.
    equal(greeted(path, showing=lambda word, where: as_user(lambda: show(word, where)))[1],
          -errno.EACCES, "shown by another user")
    write(os.path.join(inner, "public"), b"text")
    for wrong in (lambda word, where: show(word, os.path.join(where, "public")),
                  lambda word, where: show(word[:-1], where),
                  lambda word, where: show(word + "0", where),
                  lambda word, where: show("", where)):
        equal(greeted(path, showing=wrong)[1], -errno.EACCES, "shown elsewhere, or something else")
    old = []
    greeted(path, showing=lambda word, where: old.append(word))
    equal(greeted(path, showing=lambda word, where: show(old[0], where))[1], -errno.EACCES,
          "the word of another connection")
    for call in (os.getxattr, os.removexattr, lambda *it: os.setxattr(*it, b"")):
        try:
            call(inner, REACH + old[0])
            check(False, "an attribute with that name")
        except OSError as error:
            equal(error.errno, errno.EOPNOTSUPP)
    elsewhere = subprocess.run(
        ["unshare", "-m", "sh", "-c", f"umount -l {inner} && exec {STETFS} table {image}:/t create"],
        capture_output=True, check=False, timeout=60)
    equal(elsewhere.returncode, 1, f"in another namespace: {elsewhere.stderr}")
    check(b"mount is not visible here" in elsewhere.stderr, elsewhere.stderr)
    equal(os.listdir(inner), ["public"])
    mount.umount()
    mount.dir = outer
    mount.mount()


def test_mounted_read_only_somewhere(mount):
    """Where the mount is for reading only, so is the volume."""
    write(mount.path("file"), b"text")
    there = f"""mount --bind {mount.dir} {mount.dir} && mount -o remount,ro,bind {mount.dir} &&
        cat {mount.dir}/file && {STETFS} ls {mount.image}:/ && ! touch {mount.dir}/new &&
        ! {STETFS} table {mount.image}:/t create"""
    ran = subprocess.run(["unshare", "-m", "sh", "-c", there], capture_output=True, check=False,
                         timeout=60)
    equal(ran.returncode, 0, f"{ran.stdout} {ran.stderr}")
    check(b"Read-only" in ran.stderr.splitlines()[-1], ran.stderr)
    equal(os.listdir(mount.dir), ["file"])
    mount.run("table", f"{mount.image}:/t", "create")


def test_who_waits_holds_nothing(mount):
    """Users who may only look keep nobody from changing, however long they wait."""
    os.makedirs(mount.path("a", "b"))
    os.mkdir(mount.path("his"))
    os.chown(mount.path("his"), 1000, 1000)

    def wait():
        os.setgroups([])
        os.setgid(1000)
        os.setuid(1000)
        vol = Volume(mount.image)
        txn = vol.begin(SNAPSHOT)
        vol.write("his/f", b"mine", txn)
        equal(vol.mkdir("his/z", txn), 0)
        calls = (lambda: vol.open("a/b/../../his/f", os.O_RDWR | os.O_CREAT),
                 lambda: LIB.stet_renameat(vol.vol, None, ROOT, b"a/not-there", ROOT, b"his/z", 0),
                 lambda: LIB.stet_mkdirat(vol.vol, None, ROOT, b"a/b/../../his/z", 0o755))
        for call in calls:
            thread = threading.Thread(target=call, daemon=True)
            thread.start()
        time.sleep(0.5)
    child = in_child(wait)
    write(mount.path("a", "not-there"), b"x")
    os.rename(mount.path("a"), mount.path("a2"))
    os.chmod(mount.path("a2"), 0o750)
    os.chmod(mount.dir, 0o755)
    os.rename(mount.path("his"), mount.path("his2"))
    os.mkdir(mount.path("a"))
    kill(child)
    wait_until(lambda: open_transactions(mount) == 0, "what the child had open is closed")
    equal(sorted(os.listdir(mount.dir)), ["a", "a2", "his2"])


def test_dropped_by_number(mount):
    """What txns shows can be dropped, by root and by whose it is."""
    vol = Volume(mount.image)
    txn = vol.begin(SNAPSHOT)
    vol.write("f", b"never", txn)
    number = str(LIB.stet_transaction_id(txn))

    def of_another():
        ran = subprocess.run([STETFS, "abort", mount.dir, number], capture_output=True, check=False)
        equal(ran.returncode, 1)
        check(b"belongs to another user" in ran.stderr, ran.stderr)
    as_user(of_another)
    mount.run("commit", mount.dir, number, code=1)
    waits = vol.begin(LOCKING)
    waited = []
    thread = threading.Thread(target=lambda: waited.append(
        LIB.stet_unlinkat(vol.vol, waits, ROOT, b"f", 0)))
    vol.write("g", b"", txn)
    thread.start()
    time.sleep(0.3)
    equal(waited, [], "it waits for f")
    mount.run("abort", mount.dir, str(LIB.stet_transaction_id(waits)))
    thread.join(10)
    equal(waited, [-errno.ESTALE], "the call that waited")
    LIB.stet_abort(waits)
    mount.run("abort", mount.dir, number)
    mount.run("abort", mount.dir, number, code=1)
    equal(vol.mkdir("d", txn), -errno.ESTALE)
    check("dropped" in text(), text())
    commit(txn, -errno.ESTALE)
    LIB.stet_abort(txn)
    equal(open_transactions(mount), 0)
    vol.write("f", b"free")
    vol.close()


def test_attributes_of_tables(mount):
    """A table has attributes as a file has, by either way."""
    mount.run("table", f"{mount.image}:/t", "create")
    os.chown(mount.path("t"), 1000, 1000)

    def use():
        vol = Volume(mount.image)
        buf = ctypes.create_string_buffer(8)
        equal(LIB.stet_setxattr(vol.vol, None, ROOT, b"t", 0, b"user.a", b"b", U64(1)), 0, text())
        equal(os.getxattr(mount.path("t"), "user.a"), b"b")
        os.setxattr(mount.path("t"), "user.c", b"d")
        equal(LIB.stet_getxattr(vol.vol, None, ROOT, b"t", 0, b"user.c", buf, U64(8)), 1, text())
        vol.close()
    as_user(use)


def test_descriptors_that_come(mount):
    """None that is sent is taken by the daemon: it might wait for ever when it closes it."""
    path = socket_path(mount)
    fds = f"/proc/{mount.daemon()}/fd"
    root = os.open(mount.dir, os.O_PATH | os.O_DIRECTORY)
    null = os.open("/dev/null", os.O_RDONLY)
    greeted(path)[0].close()

    before = len(os.listdir(fds))
    for passed in 4 * ([root] * 1, [root] * 2, [null], [null] * 100, []):
        sock = connect(path)
        socket.send_fds(sock, [hello()], passed)
        equal(answered(sock)[0], 0, f"{passed}")
        socket.send_fds(sock, [head(SHOWN, b"")], passed)
        equal(answered(sock)[0], -errno.EACCES, "a descriptor shows nothing")
        sock.close()
        sock, result, _ = greeted(path)
        equal(result, 0)
        for _ in range(10):
            socket.send_fds(sock, [head(FILE_STAT, struct.pack("<Q", 9))], [null] * 50)
            sock.recv(1 << 17)
        check(len(os.listdir(fds)) < before + 10, "those sent with a request stay")
        sock.close()
        for packet in (b"stet", b"stet" + bytes(60), hello(version=9), head(HELLO, b"")):
            sock = connect(path)
            socket.send_fds(sock, [packet], passed)
            while not is_closed(sock):
                pass
            sock.close()
    # Connections are closed when the next one comes.
    wait_until(lambda: greeted(path)[0].close() or len(os.listdir(fds)) < before + 5, "closed")
    os.close(root)
    os.close(null)


# --- within a transaction of `stetfs run` ---

def inside(mount, body, code=0, words=(), before="", after=""):
    """Runs lines of Python as a transaction; `vol` is the volume, `m` the mount's directory."""
    path = os.path.join(mount.folder, "inside.py")
    lines = [f"import sys; sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})",
             "from test_client import *", f"m = {mount.dir!r}", f"vol = Volume({mount.image!r})"]
    write(path, "\n".join(lines + [body]).encode())
    return mount.transaction(f"{before} {sys.executable} {path} {after}", code=code, words=words)


def test_inside_run(mount):
    """What opens the volume inside a transaction works in it: seen there, by nobody else, kept or dropped with it."""
    table = f"{mount.image}:/t"
    put, get = f"{STETFS} table {table} put k", f"{STETFS} table {table} get k"
    mount.run("table", table, "create")
    mount.run("table", table, "put", "k", "old")
    out = mount.transaction(f"echo x > new; {put} new; {get}; echo; {STETFS} ls {mount.image}:/; exit 1",
                            code=1)
    equal(out.split(), ["new", "new", "t"], "inside")
    equal(mount.run("table", table, "get", "k"), "old")
    check(not os.path.exists(mount.path("new")), "it was committed")
    # While it is open nobody else sees it; records and files are kept together.
    outside = f"cd /; unshare -m sh -c 'umount {mount.dir}; "
    out = mount.transaction(f"{put} new; echo x > new; {get}; echo; {outside} {get}'")
    equal(out.split(), ["new", "old"])
    equal(mount.run("table", table, "get", "k"), "new")
    check(os.path.exists(mount.path("new")), "it was not committed")
    # What others have changed meanwhile is a conflict.
    out = mount.transaction(f"touch x; {outside} {put} yours'; {put} mine", code=1)
    check("conflict" in out, out)
    equal(mount.run("table", table, "get", "k"), "yours")
    once = os.path.join(mount.folder, "once")
    mount.transaction(f"touch x; test -e {once} || {{ touch {once}; {outside} {put} other'; }}; {put} mine",
                      words=["--retry", "1"])
    equal(mount.run("table", table, "get", "k"), "mine")
    mount.run("table", table, "put", "k", "yours")
    check("Read-only" in mount.transaction(f"{put} x", code=1, words=["--read-only"]), "read-only")
    equal(mount.transaction(get, words=["--read-only"]), "yours")
    os.chmod(mount.dir, 0o777)
    mount.run("chmod", "666", table)

    def use():
        out = mount.transaction(f"{put} his && {get} && exit 3", code=None)
        if "namespace" not in out:
            equal(out, "his")
            mount.transaction(f"{put} his")
            equal(mount.run("table", table, "get", "k"), "his")
    as_user(use)


def test_inside_run_and_the_kernel(mount):
    """What the library changes in a transaction the kernel sees there at once, and the other way round."""
    for name in ("a", "gone", "moved"):
        write(mount.path(name), b"old")
    os.mkdir(mount.path("d"))
    out = inside(mount, """
p = lambda *names: os.path.join(m, *names)
fd = os.open(p("a"), os.O_RDWR)
mapped = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
listing = sorted(os.listdir(m))
before = [os.stat(p(name)).st_size for name in listing], [os.path.exists(p(x)) for x in ("n", "d/x")]
equal((os.pread(fd, 9, 0), mapped[:]), (b"old", b"old"))
vol.write("a", b"new")
equal((os.pread(fd, 9, 0), mapped[:]), (b"new", b"new"), "bytes")
vol.write("a", b"longer", off=3)
equal((os.fstat(fd).st_size, os.pread(fd, 99, 0)), (9, b"newlonger"), "size")
file = vol.open("a", os.O_RDWR)
equal(LIB.stet_append(file, b"!", ctypes.c_size_t(1)), 1)
equal((os.fstat(fd).st_size, os.pread(fd, 99, 0)), (10, b"newlonger!"), "appended")
equal(LIB.stet_truncate(file, U64(2)), 0)
equal((os.fstat(fd).st_size, os.pread(fd, 99, 0)), (2, b"ne"), "truncated")
os.pwrite(fd, b"kernel's", 2)
equal(vol.read("a"), b"nekernel's", "by the kernel")
LIB.stet_file_close(file)
vol.write("n", b"1234")
equal(os.stat(p("n")).st_size, 4, "was known to be absent")
equal(vol.mkdir("d/x"), 0)
equal((os.listdir(p("d")), os.stat(p("d")).st_nlink), (["x"], 3))
equal(LIB.stet_unlinkat(vol.vol, None, ROOT, b"gone", 0), 0)
equal(LIB.stet_renameat(vol.vol, None, ROOT, b"moved", ROOT, b"d/y", 0), 0)
equal([os.path.exists(p(x)) for x in ("gone", "moved", "d/y")], [False, False, True], "names")
equal(LIB.stet_linkat(vol.vol, None, ROOT, b"n", ROOT, b"d/n", 0), 0)
equal(os.stat(p("n")).st_nlink, 2, "links")
equal(LIB.stet_unlinkat(vol.vol, None, ROOT, b"d/n", 0), 0)
equal(os.fstat(os.open(p("n"), os.O_RDONLY)).st_nlink, 1, "links")
equal(sorted(os.listdir(m)), ["a", "d", "n"])
os.rename(p("d", "y"), p("back"))
equal(vol.stat("back").size, 3)
vol.stat("d/y", rc=-errno.ENOENT)
vol.close()
print(before)
""")
    check("[False, False]" in out, out)
    equal(sorted(os.listdir(mount.dir)), ["a", "back", "d", "n"])
    equal(read(mount.path("a")), b"nekernel's")


def test_inside_run_at_random(mount):
    """Changes by the kernel and by the library in one transaction, in any order: both see the same, always."""
    inside(mount, f"""
rng = random.Random({SEED})
names = ["a", "b", "c"]
paths = names + [f"{{d}}/{{n}}" for d in names for n in names]
full = lambda path: os.path.join(m, path)
txn, held = None, []

def by_kernel():
    path, other = rng.choice(paths), rng.choice(paths)
    data = rng.randbytes(rng.choice([1, 10, 5000]))
    kind = rng.randrange(9)
    if kind == 0:
        os.mkdir(full(path))
    elif kind == 1:
        os.rmdir(full(path))
    elif kind == 2:
        os.unlink(full(path))
    elif kind == 3:
        os.rename(full(path), full(other))
    elif kind == 4:
        os.link(full(path), full(other))
    elif kind == 5:
        os.truncate(full(path), rng.randrange(9000))
    else:
        fd = os.open(full(path), os.O_RDWR | os.O_CREAT | rng.choice([0, os.O_APPEND, os.O_TRUNC]))
        os.pwrite(fd, data, rng.randrange(9000))
        if rng.randrange(3) == 0:
            held.append((fd, mmap.mmap(fd, 0, prot=mmap.PROT_READ)))
        else:
            os.close(fd)

def by_library():
    path, other = rng.choice(paths).encode(), rng.choice(paths).encode()
    kind = rng.randrange(10)
    if kind == 0:
        LIB.stet_mkdirat(vol.vol, txn, ROOT, path, 0o755)
    elif kind in (1, 2):
        LIB.stet_unlinkat(vol.vol, txn, ROOT, path, 0x200 if kind == 1 else 0)
    elif kind == 3:
        LIB.stet_renameat(vol.vol, txn, ROOT, path, ROOT, other, 0)
    elif kind == 4:
        LIB.stet_linkat(vol.vol, txn, ROOT, path, ROOT, other, 0)
    else:
        file = P()
        flags = os.O_RDWR | os.O_CREAT | rng.choice([0, os.O_TRUNC])
        if LIB.stet_openat(vol.vol, txn, ROOT, path, flags, 0o644, ctypes.byref(file)) != 0:
            return
        data = rng.randbytes(rng.choice([1, 10, 5000]))
        size = ctypes.c_size_t(len(data))
        if kind == 5:
            LIB.stet_truncate(file, U64(rng.randrange(9000)))
        elif kind == 6:
            LIB.stet_append(file, data, size)
        elif kind == 7:
            LIB.stet_fallocate(file, rng.choice([0x8, 0x20]), U64(0), U64(4096))
        else:
            LIB.stet_pwrite(file, data, size, U64(rng.randrange(9000)))
        LIB.stet_file_close(file)

def compare():
    for path in paths:
        ret = Stat()
        rc = LIB.stet_statat(vol.vol, None, ROOT, path.encode(), 0, ctypes.byref(ret))
        try:
            st = os.stat(full(path))
        except OSError as error:
            equal(rc, -error.errno, path)
            continue
        equal((rc, ret.ino, ret.mode, ret.nlink), (0, st.st_ino, st.st_mode, st.st_nlink), path)
        if os.path.isdir(full(path)):
            found = sorted(os.listdir(full(path)))
            equal(found, sorted(n for n in names if os.path.lexists(full(path + "/" + n))), path)
            continue
        equal(ret.size, st.st_size, path)
        with open(full(path), "rb") as file:
            equal(file.read(), vol.read(path), path)
    for fd, mapped in held:
        size = min(len(mapped), os.fstat(fd).st_size)
        equal(mapped[:size], os.pread(fd, size, 0), "mapped")

for step in range({STEPS}):
    try:
        if txn is None and rng.randrange(8) == 0:
            txn = vol.begin()
        elif txn is not None and rng.randrange(6) == 0:
            LIB.stet_abort(txn) if alone and rng.randrange(2) else commit(txn)
            txn = None
        if txn is None or rng.randrange(4) == 0:
            by_kernel()
            alone = txn is None
        else:
            by_library()
        by_library()
    except OSError:
        pass
    if txn is None:
        alone = True
    compare()
    while len(held) > 4:
        fd, mapped = held.pop(0)
        mapped.close()
        os.close(fd)
if txn is not None:
    commit(txn)
vol.close()
""")


def test_examples_inside_run(mount):
    """Programs that know nothing of `run`: kept, or dropped, as one."""
    build = os.path.join(os.path.dirname(LIBRARY), "examples")
    three = " && ".join(f"{build}/{name} {mount.image} > /dev/null"
                        for name in ("one_file", "several_files", "transfer"))
    mount.transaction(f"{three} && cat note.txt && exit 1", code=1)
    equal(os.listdir(mount.dir), [])
    equal(mount.transaction(f"{three} && cat note.txt", words=["--serializable"]), "let it stand")
    equal(read(mount.path("current", "version")), b"release-2")
    equal(sum(int(read(mount.path(f"account-{i}"))) for i in range(10)), 10000)


def test_parts_of_a_run(mount):
    """A transaction of a program inside is a part of the run's."""
    inside(mount, """
txn = vol.begin()
vol.write("a", b"1", txn)
file = vol.open("a", os.O_RDWR, txn)
equal(vol.read("a"), b"1", "one transaction")
commit(txn)
equal(LIB.stet_pwrite(file, b"2", ctypes.c_size_t(1), U64(0)), -errno.ESTALE, "its part has ended")
LIB.stet_file_close(file)
txn = vol.begin(SNAPSHOT | READ_ONLY)
equal(vol.mkdir("d", txn), -errno.EROFS)
equal(vol.read("a", txn), b"1")
LIB.stet_abort(txn)
vol.begin(LOCKING, rc=-errno.EOPNOTSUPP)
vol.begin(SERIALIZABLE, rc=-errno.EOPNOTSUPP)
txn = vol.begin()
equal(LIB.stet_freeze(txn), -errno.EOPNOTSUPP)
commit(txn)
vol.close()
""")
    equal(read(mount.path("a")), b"1")
    inside(mount, """
for level in (0, SERIALIZABLE, LOCKING):
    txn = vol.begin(level)
    vol.write("a", b"2", txn)
    commit(txn)
vol.close()
""", words=["--serializable"])
    equal(read(mount.path("a")), b"2")
    # Plain calls are whole each: who ends, ends.
    inside(mount, "equal(vol.mkdir('e'), 0); os.kill(os.getpid(), 9)", after="; true")
    check(os.path.exists(mount.path("e")), "dropped")
    equal(inside(mount, "equal(vol.mkdir('f'), 0); vol.close(); sys.exit(3)", code=3), "")
    check(not os.path.exists(mount.path("f")), "kept")


def test_parts_take_turns(mount):
    """Those of one run are isolated from each other."""
    write(mount.path("n"), b"0")
    step = """
for _ in range(20):
    while True:
        txn = P()
        if LIB.stet_begin(vol.vol, 0, ctypes.byref(txn)) == 0:
            break
    n = int(vol.read("n", txn))
    time.sleep(0.005)
    vol.write("n", str(n + 1).encode(), txn)
    commit(txn)
vol.close()
"""
    path = os.path.join(mount.folder, "inside.py")
    inside(mount, step, after=f"& {sys.executable} {path} & {sys.executable} {path}; wait")
    equal(read(mount.path("n")), b"60")
    inside(mount, """
one, two = vol.begin(READ_ONLY), vol.begin(READ_ONLY)
begun = time.monotonic()
vol.begin(rc=-errno.EBUSY)
check(4 < time.monotonic() - begun < 20, "in time")
LIB.stet_abort(one)
LIB.stet_abort(two)
three = vol.begin()
thread = threading.Thread(target=lambda: commit(vol.begin(READ_ONLY)))
thread.start()
time.sleep(0.2)
check(thread.is_alive(), "it waits")
commit(three)
thread.join(10)
check(not thread.is_alive(), "it has its turn")
vol.close()
""")


def test_parts_that_are_given_up(mount):
    """One is taken back alone as long as nobody else has changed anything since; else the whole can only be dropped."""
    for name in ("a", "gone", "moved"):
        write(mount.path(name), b"old")
    os.mkdir(mount.path("d"))
    inside(mount, """
p = lambda *names: os.path.join(m, *names)

def seen():
    return (sorted(os.listdir(m)), sorted(os.listdir(p("d"))), os.pread(fd, 9, 0), mapped[:3],
            os.fstat(fd).st_size, os.path.exists(p("n")), os.path.exists(p("gone")),
            os.stat(p("d")).st_nlink)

def change(txn, names):
    vol.write("a", b"newer", txn)
    if names:
        vol.write("n", b"n", txn)
        equal(vol.mkdir("d/x", txn), 0)
        equal(LIB.stet_unlinkat(vol.vol, txn, ROOT, b"gone", 0), 0)
        equal(LIB.stet_renameat(vol.vol, txn, ROOT, b"moved", ROOT, b"d/y", 0), 0)

fd = os.open(p("a"), os.O_RDONLY)
mapped = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
open(p("before"), "w").close()
before = seen()
txn = vol.begin()
change(txn, True)
check(seen() != before, "changed")
LIB.stet_abort(txn)
equal(seen(), before, "taken back")
open(p("between"), "w").close()
for _ in range(3):
    equal(LIB.stet_abort(vol.begin()), None)
# Savepoints of its own.
txn, one, two = vol.begin(), U64(), U64()
change(txn, False)
middle = seen()
equal(LIB.stet_savepoint(txn, ctypes.byref(one)), 0, text())
change(txn, True)
equal(LIB.stet_savepoint(txn, ctypes.byref(two)), 0, text())
vol.write("after", b"x", txn)
equal(LIB.stet_rollback_to(txn, two), 0, text())
check(not os.path.exists(p("after")), "it is back")
equal(LIB.stet_rollback_to(txn, one), 0, text())
equal(seen(), middle)
equal(LIB.stet_rollback_to(txn, two), -errno.ENOENT)
equal(LIB.stet_savepoint_release(txn, one), 0, text())
commit(txn)
vol.write("last", b"x")
vol.close()
""")
    equal(sorted(os.listdir(mount.dir)), ["a", "before", "between", "d", "gone", "last", "moved"])
    equal((read(mount.path("a")), os.listdir(mount.path("d"))), (b"newer", []))
    half = "txn = vol.begin(); equal(vol.mkdir('d/h', txn), 0); "
    other = "os.mkdir(os.path.join(m, 'o')); "
    for how in ("LIB.stet_abort(txn); vol.close()", "os._exit(0)", "os.kill(os.getpid(), 9)"):
        inside(mount, half + how, after=f"; touch {mount.path('k')}")
        equal(os.listdir(mount.path("d")), [], how)
        os.unlink(mount.path("k"))
        out = inside(mount, half + other + how, code=123, after="; true")
        check("half way" in out, f"{how}: {out}")
        check(not os.path.exists(mount.path("o")), how)
    inside(mount, half + other + "one = U64(); equal(LIB.stet_savepoint(txn, ctypes.byref(one)), 0);"
           "vol.write('o/x', b'', txn); os.mkdir(os.path.join(m, 'q'));"
           "equal(LIB.stet_rollback_to(txn, one), -errno.EBUSY); commit(txn); vol.close()")
    check(os.path.exists(mount.path("o", "x")), "it went on")
    # Of one that has changed very much not everything is remembered.
    inside(mount, "txn = vol.begin(); [vol.mkdir(f'm{i}', txn) for i in range(40000)];"
           "equal(LIB.stet_rollback_to(txn, U64(0)), -errno.E2BIG); LIB.stet_abort(txn)", code=123,
           after="; true")


def test_left_behind_by_a_run(mount):
    """Who is still there when the transaction has ended gets at nothing."""
    ready, done = (os.path.join(mount.folder, name) for name in ("ready", "done"))
    inside(mount, f"""
file = vol.open("a", os.O_RDWR | os.O_CREAT)
txn = vol.begin(SNAPSHOT | READ_ONLY)
kept = vol.open("a", os.O_RDONLY, txn)
commit(txn)
write({ready!r}, b"")
ret = Stat()
wait_until(lambda: LIB.stet_statat(vol.vol, None, ROOT, b"a", 0, ctypes.byref(ret)) == -errno.ESTALE,
           "the end")
equal(vol.mkdir("late"), -errno.ESTALE)
equal(LIB.stet_pwrite(file, b"x", ctypes.c_size_t(1), U64(0)), -errno.ESTALE)
vol.begin(rc=-errno.ESTALE)
Volume({mount.image!r}, rc=-errno.EACCES)
LIB.stet_file_close(kept)
LIB.stet_file_close(file)
vol.close()
write({done!r}, b"")
""", before="setsid", after=f"& while ! test -e {ready}; do sleep 0.1; done")
    wait_until(lambda: os.path.exists(done), "the late one")
    equal(os.listdir(mount.dir), ["a"])
    # A part that is open when the command ends has not been made whole.
    os.unlink(ready)
    out = inside(mount, f"txn = vol.begin(); write({ready!r}, b''); time.sleep(3)", code=123,
                 before="setsid", after=f"& while ! test -e {ready}; do sleep 0.1; done")
    check("still running" in out, out)


def test_who_waits_in_a_run_is_let_go(mount):
    """Dropping a transaction does not wait for who waits in it."""
    write(mount.path("a"), b"old")
    number, code = os.path.join(mount.folder, "number"), []
    vol = Volume(mount.image)
    txn = vol.begin(SNAPSHOT)
    equal(LIB.stet_unlinkat(vol.vol, txn, ROOT, b"a", 0), 0)
    thread = threading.Thread(target=lambda: code.append(inside(mount, """
equal(LIB.stet_unlinkat(vol.vol, None, ROOT, b"a", 0), -errno.ESTALE)
vol.close()
""", code=None, before=f"echo $STETFS_TRANSACTION > {number};")))
    thread.start()
    wait_until(lambda: os.path.exists(number) and read(number), "begun")
    time.sleep(1)
    begun = time.monotonic()
    equal(code, [], "it waits")
    mount.run("abort", mount.dir, read(number).decode().strip())
    check(time.monotonic() - begun < 2, "the end waited")
    thread.join(20)
    check("Traceback" not in code[0], code[0])
    commit(txn)
    equal(os.listdir(mount.dir), [])
    vol.close()


def test_walks_of_users(mount):
    """Attributes too, of what may be reached."""
    os.makedirs(mount.path("d", "open"))
    os.makedirs(mount.path("d", "shut"))
    for name in ("a", "b"):
        write(mount.path("d", "open", name), b"12345")
        write(mount.path("d", "shut", name), b"12345")
    os.chmod(mount.path("d", "shut"), 0o700)

    def walk(vol, start, flags=1 | 4):
        seen = []

        def see(_arg, entry):
            path = ctypes.cast(ctypes.cast(entry, ctypes.POINTER(ctypes.c_char_p))[0],
                               ctypes.c_char_p).value.decode()
            stat = ctypes.cast(ctypes.string_at(entry + 40, 8), ctypes.POINTER(U64))[0]
            seen.append((path, Stat.from_address(stat).size if stat else None))
            return 0
        rc = LIB.stet_walk(vol.vol, None, ROOT, start.encode(), flags, WALKER(see), None)
        return rc, [s for s in seen if s[0][-1:] in ("a", "b")]

    def use():
        vol = Volume(mount.image)
        equal(walk(vol, "d/open"), (0, [("a", 5), ("b", 5)]))
        equal(walk(vol, "d/open", 1), (0, [("a", None), ("b", None)]))
        equal(walk(vol, "d")[0], -errno.EACCES)
        equal(walk(vol, "d/open/a")[0], 0)
        vol.close()
    as_user(use)
    vol = Volume(mount.image)
    equal(walk(vol, "d"), (0, [("open/a", 5), ("open/b", 5), ("shut/a", 5), ("shut/b", 5)]))
    vol.close()


def test_limits(mount):
    def use():
        vol = Volume(mount.image)
        held = [vol.begin(READ_ONLY) for _ in range(256)]
        vol.begin(rc=-errno.ENFILE)
        check("256" in text(), text())
        LIB.stet_abort(held.pop())
        held.append(vol.begin(SNAPSHOT))
        equal(len(held), 256)
        for txn in held:
            LIB.stet_abort(txn)
        vol.close()
    as_user(use)
    as_user(use)  # nothing was left
    vol = Volume(mount.image)  # root has no limit
    held = [vol.begin(READ_ONLY) for _ in range(300)]
    for txn in held:
        LIB.stet_abort(txn)
    vol.close()


def test_locks_are_limited(mount):
    """What a user's locks take of the daemon's memory: twice the cache's size at most, together."""
    mount.remount("cache=4M")
    os.mkdir(mount.path("his"))
    os.chmod(mount.path("his"), 0o777)

    def table_of(vol, name):
        table = P()
        equal(LIB.stet_table_open(vol.vol, None, ROOT, name.encode(), os.O_RDWR | os.O_CREAT, 0o644,
                                  ctypes.byref(table)), 0, text())
        return table

    def put_many(vol, name, most):
        """How many records, of long keys, before it is refused; its transaction, which goes on."""
        table, txn, rc, n = table_of(vol, name), vol.begin(SNAPSHOT), 0, 0
        while rc == 0 and n < most:
            key = b"%0500d" % n
            rc = LIB.stet_put(table, txn, key, ctypes.c_size_t(len(key)), b"", ctypes.c_size_t(0), 0)
            n += rc == 0
        check(rc in (0, -errno.EDQUOT), f"put: {rc}: {text()}")
        LIB.stet_table_close(table)
        return n, txn

    def use():
        vol = Volume(mount.image)
        n, txn = put_many(vol, "his/one", 20000)
        check(4000 < n < 10000, f"{n} records")
        check("user" in text() and "locks" in text(), text())
        m, second = put_many(vol, "his/two", 20000)
        check(m < 200, f"{m} more in a second transaction")
        commit(txn)
        m = put_many(vol, "his/three", 1000)[1]
        commit(m)
        LIB.stet_abort(second)
        vol.close()
    before = resident(mount.daemon())
    as_user(use)
    grown = resident(mount.daemon()) - before
    check(grown < 48 << 20, f"the daemon has grown by {grown >> 20} MiB")
    vol = Volume(mount.image)  # root has no limit
    n, txn = put_many(vol, "roots", 12000)
    equal(n, 12000)
    LIB.stet_abort(txn)
    vol.close()


def test_savepoints_are_limited(mount):
    """Those of a transaction that only reads cost nothing; others count as what was staged."""
    mount.remount("max_staged=1M")
    os.mkdir(mount.path("his"))
    os.chmod(mount.path("his"), 0o777)

    def use():
        vol = Volume(mount.image)
        ident = U64()
        txn = vol.begin(READ_ONLY)
        for _ in range(30000):
            equal(LIB.stet_savepoint(txn, ctypes.byref(ident)), 0, text())
        equal(LIB.stet_rollback_to(txn, U64(15000)), 0, text())
        equal(LIB.stet_rollback_to(txn, U64(15001)), -errno.ENOENT)
        LIB.stet_abort(txn)
        txn = vol.begin(SNAPSHOT)
        vol.write("his/a", b"0", txn)
        file, rc, n = vol.open("his/a", txn=txn), 0, 0
        while rc == 0 and n < 30000:
            rc = LIB.stet_pwrite(file, b"x", ctypes.c_size_t(1), U64(n % 9))
            rc = LIB.stet_savepoint(txn, ctypes.byref(ident)) if rc == 1 else rc
            n += 1
        equal(rc, -errno.EDQUOT, f"after {n} savepoints: {text()}")
        LIB.stet_file_close(file)
        commit(txn)
        vol.close()
    as_user(use)


# --- ends ---

def test_a_killed_client_leaves_nothing(mount):
    write(mount.path("a"), b"old")

    def hold():
        vol = Volume(mount.image)
        txn = vol.begin()
        vol.write("a", b"new", txn)
        vol.write("b", b"new", txn)
    child = in_child(hold)
    equal(open_transactions(mount), 1)
    out = mount.run("umount", mount.dir, code=1)
    check("transaction" in out and "open" in out, out)
    kill(child)
    wait_until(lambda: open_transactions(mount) == 0, "the transaction has gone")
    equal(read(mount.path("a")), b"old")
    write(mount.path("a"), b"its lock has gone, too")
    equal(os.listdir(mount.dir), ["a"])


def test_a_killed_client_that_waits(mount):
    """Its call ends with it, though what it waits for does not."""
    vol = Volume(mount.image)
    vol.write("a", b"0")
    txn = vol.begin(SNAPSHOT)
    vol.write("a", b"1", txn)

    def wait_plain():
        other = Volume(mount.image)
        thread = threading.Thread(target=other.write, args=("a", b"2"), daemon=True)
        thread.start()
        time.sleep(0.3)
        check(thread.is_alive(), "it did not wait")

    def wait_locking():
        other = Volume(mount.image)
        mine = other.begin(LOCKING)
        thread = threading.Thread(target=other.write, args=("a", b"3", mine), daemon=True)
        thread.start()
        time.sleep(0.3)
        check(thread.is_alive(), "it did not wait")
    before = vol.counter("handles")
    children = [in_child(wait_plain), in_child(wait_locking)]
    equal(open_transactions(mount), 2)
    equal(vol.counter("handles"), before + 3)
    for child in children:
        kill(child)
    wait_until(lambda: vol.counter("handles") == before, "what they had open is closed")
    commit(txn)
    equal(vol.read("a"), b"1")
    vol.close()


def test_the_daemon_dies(mount):
    vol = Volume(mount.image)
    vol.write("a", b"0")
    equal(LIB.stet_sync(vol.vol), 0)
    txn = vol.begin(SNAPSHOT)
    vol.write("a", b"1", txn)
    file = vol.open("a")
    results = []
    thread = threading.Thread(
        target=lambda: results.append(LIB.stet_pwrite(file, b"2", ctypes.c_size_t(1), U64(0))))
    thread.start()
    time.sleep(0.3)
    check(thread.is_alive(), "it did not wait")
    mount.kill()
    thread.join(10)
    equal(results, [-errno.EPIPE], "the call that waited")
    vol.stat("a", rc=-errno.EPIPE)
    check("gone" in text(), text())
    vol.begin(rc=-errno.EPIPE)
    commit(txn, rc=-errno.EPIPE)
    LIB.stet_abort(txn)
    equal(LIB.stet_close(vol.vol), -errno.EBUSY, "a file is open")
    LIB.stet_file_close(file)
    vol.close(rc=-errno.EPIPE)
    vol = Volume(mount.image)  # by itself now
    equal(vol.read("a"), b"0")
    vol.close()


def test_the_daemon_is_told_to_end(mount):
    """With a client that waits, one that is idle, and one with a transaction."""
    vol = Volume(mount.image)
    vol.write("a", b"0")
    txn = vol.begin(SNAPSHOT)
    vol.write("a", b"1", txn)
    idle = Volume(mount.image)
    waiting = Volume(mount.image)
    file = waiting.open("a")
    results = []
    thread = threading.Thread(
        target=lambda: results.append(LIB.stet_pwrite(file, b"2", ctypes.c_size_t(1), U64(0))))
    thread.start()
    time.sleep(0.3)
    pid = mount.daemon()
    os.kill(pid, signal.SIGTERM)
    wait_gone(pid, 15)
    thread.join(10)
    check(results and results[0] < 0 or results == [1], f"the call that waited: {results}")
    idle.stat("a", rc=-errno.EPIPE)
    LIB.stet_abort(txn)
    LIB.stet_file_close(file)
    for each in (vol, idle, waiting):
        each.close(rc=-errno.EPIPE)
    mount.check()


def test_idle_clients_do_not_keep_it(mount):
    vol = Volume(mount.image)
    vol.write("a", b"0")
    file = vol.open("a")
    mount.umount()
    vol.stat("a", rc=-errno.EPIPE)
    LIB.stet_file_close(file)
    vol.close(rc=-errno.EPIPE)
    mount.check()


def test_fork(mount):
    vol = Volume(mount.image)
    vol.write("a", b"0")
    child = os.fork()
    if child == 0:
        rc = LIB.stet_sync(vol.vol)
        os._exit(0 if rc == -errno.EINVAL else 1)
    equal(os.waitpid(child, 0)[1], 0, "the child")
    equal(vol.read("a"), b"0")
    vol.close()


# --- many at once ---

def test_threads(mount):
    """Each counts up, in transactions that are tried again; more threads than one user has connections."""
    vol = Volume(mount.image)
    vol.write("n", b"0".rjust(8))
    os.chown(mount.path("n"), 1000, 1000)
    vol.close()

    def use():
        him = Volume(mount.image)
        failed = []

        def count():
            for _ in range(2):
                while True:
                    txn = him.begin(SNAPSHOT)
                    now = int(him.read("n", txn))
                    file = him.open("n", os.O_RDWR, txn)
                    rc = LIB.stet_pwrite(file, str(now + 1).rjust(8).encode(),
                                         ctypes.c_size_t(8), U64(0))
                    LIB.stet_file_close(file)
                    rc = LIB.stet_commit(txn, 1) if rc == 8 else rc
                    if rc == 0:
                        break
                    LIB.stet_abort(txn)
                    if rc not in (-errno.EBUSY, -errno.EDEADLK):
                        failed.append(rc)
                        return
        threads = [threading.Thread(target=count) for _ in range(72)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        equal(failed, [])
        equal(int(him.read("n")), 144)
        him.close()
    as_user(use)


def test_waits_for_an_open_file(mount):
    """A file that is open for writing on the mount: the kernel may hold pages of it."""
    vol = Volume(mount.image)
    write(mount.path("a"), b"0")
    txn = vol.begin(LOCKING)
    vol.write("b", b"first", txn)
    done = []
    with open(mount.path("a"), "r+b") as file:
        thread = threading.Thread(target=lambda: done.append(vol.write("a", b"1", txn)))
        thread.start()
        time.sleep(0.3)
        check(thread.is_alive(), "it did not wait")
        file.write(b"2")
    thread.join(10)
    equal(len(done), 1, "it does not go on")
    commit(txn)
    equal(read(mount.path("a")), b"1")
    vol.close()


def in_thread(function, what):
    """Starts it; it must still be waiting a moment later."""
    thread = threading.Thread(target=function)
    thread.start()
    time.sleep(0.3)
    check(thread.is_alive(), f"{what} did not wait")
    return thread


def ends(thread, what):
    thread.join(15)
    check(not thread.is_alive(), f"{what} still waits")


def test_opens_wait_for_readers(mount):
    """What a client has read at LOCKING is not opened for writing: nothing written would be refused later."""
    vol = Volume(mount.image)
    done = []

    def store():
        with open(mount.path("a"), "r+b") as file:
            with mmap.mmap(file.fileno(), 8192) as pages:
                pages[:4] = b"DDDD"
            os.pwrite(file.fileno(), b"EEEE", 5000)
        done.append(True)

    def append():
        with open(mount.path("a"), "ab") as file:
            file.write(b"FFFF")
        done.append(True)
    for look in (lambda txn: vol.read("a", txn), lambda txn: vol.stat("a", txn)):
        for change in (store, append):
            write(mount.path("a"), b"A" * 8192)
            del done[:]
            txn = vol.begin(LOCKING)
            look(txn)
            thread = in_thread(change, "the open")
            equal(vol.read("a", txn), b"A" * 8192)
            commit(txn)
            ends(thread, "the open")
            equal(done, [True], "what the program did")
            data = read(mount.path("a"))
            equal((data[:4], data[5000:5004], data[8192:]),
                  (b"DDDD", b"EEEE", b"") if change is store else (b"AAAA", b"AAAA", b"FFFF"))
            equal(vol.read("a"), data)
    vol.close()


def test_readers_wait_for_opens(mount):
    """At LOCKING a client reads what is open for writing when it has been closed, or when its time is over."""
    vol = Volume(mount.image)
    write(mount.path("a"), b"old")
    seen = []
    for look, wanted in ((lambda txn: vol.read("a", txn), b"new!"),
                         (lambda txn: vol.stat("a", txn).size, 4)):
        txn = vol.begin(LOCKING)
        with open(mount.path("a"), "r+b", buffering=0) as file:
            thread = in_thread(lambda txn=txn, look=look: seen.append(look(txn)), "the reader")
            file.write(b"new!")
            os.fsync(file.fileno())
            equal(seen, [])
        ends(thread, "the reader")
        equal(seen.pop(), wanted)
        commit(txn)
    txn = vol.begin(LOCKING)
    equal(LIB.stet_lock_timeout(txn, 200), 0)
    with open(mount.path("a"), "r+b", buffering=0) as file:
        vol.stat("a", txn, rc=-errno.ETIMEDOUT)
        file.write(b"last")  # who has given up is not in the way, nor was he before
    equal(vol.read("a", txn), b"last")
    commit(txn)
    snapshot = vol.begin(SNAPSHOT)
    with open(mount.path("a"), "r+b", buffering=0):
        equal(vol.read("a", snapshot), b"last")  # only LOCKING locks what it reads
    LIB.stet_abort(snapshot)
    vol.close()


def test_reader_and_program_in_a_deadlock(mount):
    """The program that opens the file gives way, and does not know it."""
    vol = Volume(mount.image)
    write(mount.path("a"), b"a")
    vol.write("b", b"b")
    first, second = vol.begin(LOCKING), vol.begin(LOCKING)
    equal(vol.read("a", first), b"a")
    vol.write("b", b"2", second)
    opened = in_thread(lambda: os.close(os.open(mount.path("a"), os.O_RDWR)), "the open")
    seen = []
    waits = in_thread(lambda: seen.append(vol.read("b", first)), "the first")
    equal(vol.read("a", second), b"a")
    commit(second)
    ends(waits, "the first")
    equal(seen, [b"2"])
    check(opened.is_alive(), "the open did not wait any longer")
    commit(first)
    ends(opened, "the open")
    vol.close()


def test_locks_before_any_open(mount):
    """A client's transaction has written before the kernel has opened anything for writing."""
    vol = Volume(mount.image)
    vol.write("a", b"0")
    txn = vol.begin(SNAPSHOT)
    vol.write("a", b"1", txn)
    child = subprocess.Popen([sys.executable, "-c",
                              f"open({mount.path('a')!r}, 'r+b').write(b'2')"],
                             stderr=subprocess.DEVNULL)
    time.sleep(0.3)
    commit(txn)
    equal(child.wait(20), 0, "the open on the mount")
    equal(vol.read("a"), b"2")
    vol.close()


# --- what others send ---

def head(kind, args, data_len=0, zero=0, result=0, args_len=None):
    return struct.pack("<IIIIq", kind, len(args) if args_len is None else args_len, data_len, zero,
                       result) + args


def hello(token=(0, 0), version=2, flags=0):
    return head(HELLO, struct.pack("<IIQQ", version, flags, *token))


def connect(path):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.settimeout(20)
    sock.connect(path)
    return sock


def mount_dir(path):
    """Where the mount with this socket is."""
    with open(path[:-len("sock")] + "mount", encoding="utf-8") as record:
        return dict(line.rstrip("\n").split(" ", 1) for line in record if " " in line)["dir"]


def answered(sock):
    answer = sock.recv(1 << 17)
    return struct.unpack_from("<q", answer, 16)[0], answer[24:]


def show(word, where, read_only=False):
    """Shows the word there, if it can be; the client does not believe in it either."""
    try:
        if read_only:
            os.getxattr(where, REACH + word)
        else:
            os.setxattr(where, REACH + word, b"")
    except OSError:
        pass


def greeted(path, reach="", showing=show, **words):
    """reach: what is shown as the mount's directory; None: nothing. Socket, result, token."""
    sock = connect(path)
    sock.send(hello(**words))
    result, answer = answered(sock)
    word = answer[20:-1].decode() if result == 0 else ""
    if word:
        if reach is not None:
            showing(word, reach or mount_dir(path))
        sock.send(head(SHOWN, b""))
        result, answer = answered(sock)
    return sock, result, answer[:16]


def is_closed(sock):
    try:
        return sock.recv(1 << 17) == b""
    except ConnectionResetError:
        return True


def test_nonsense(mount):
    path = socket_path(mount)
    rng = random.Random(7)
    vol = Volume(mount.image)
    vol.write("a", b"text")
    for packet in (hello()[:-1], hello() + b"x", hello(version=9), hello(flags=8),
                   head(HELLO, b""), head(HELLO, b"x" * 60000), struct.pack("<I", HELLO)):
        sock = connect(path)
        sock.send(packet)
        while not is_closed(sock):
            pass
        sock.close()
    equal(greeted(path, token=(1, 2))[1], -errno.ENOENT, "a session that there is not")
    for _ in range(ROUNDS):
        sock, result, _ = greeted(path)
        equal(result, 0)
        for _ in range(rng.randrange(1, 6)):
            args = rng.randbytes(rng.choice([0, 1, 4, 8, 16, 20, 40, 200]))
            if rng.randrange(2):
                args = struct.pack("<QQ", rng.randrange(4), rng.randrange(4)) + args
            try:
                sock.send(head(rng.choice([0, 1, 2, rng.randrange(16, 60), 2**32 - 1]), args,
                               rng.choice([0, 0, 0, 1, 2**20, 2**32 - 1]),
                               rng.choice([0, 0, 0, 1]),
                               args_len=rng.choice([None, None, None, 0, 2**31, 2**32 - 1])))
            except BrokenPipeError:
                break
        sock.close()
    equal(vol.read("a"), b"text")
    vol.close()


def test_half_a_message(mount):
    """Who stops in the middle is given up, and keeps nobody waiting."""
    path = socket_path(mount)
    sock, _, _ = greeted(path)
    args = struct.pack("<QQI", 1, 0, 0)
    sock.send(head(PWRITE, args, 1 << 20) + bytes(1000))  # must have been a full packet
    check(is_closed(sock), "not given up")
    stopped, _, _ = greeted(path)
    packet = head(PWRITE, args, 1 << 20)
    stopped.send(packet + bytes((128 << 10) - len(packet)))
    vol = Volume(mount.image)
    vol.write("a", b"x")
    vol.close()
    begun = time.monotonic()
    check(is_closed(stopped), "not given up")
    check(time.monotonic() - begun < 15, "given up late")


def test_handles_of_others(mount):
    """A handle's number is good in its session only, for its kind only, and as long as it is open."""
    path = socket_path(mount)
    one, _, token = greeted(path)
    token = struct.unpack("<QQ", token)

    def ask(sock, kind, args):
        sock.send(head(kind, args))
        answer = sock.recv(1 << 17)
        return struct.unpack_from("<q", answer, 16)[0], answer[24:]
    result, args = ask(one, BEGIN, struct.pack("<I", 0))
    equal(result, 0)
    number = struct.unpack_from("<Q", args)[0]
    other, _, _ = greeted(path)
    equal(ask(other, FREEZE, struct.pack("<Q", number))[0], -errno.EINVAL, "of another session")
    equal(ask(one, FILE_STAT, struct.pack("<Q", number))[0], -errno.EINVAL, "of another kind")
    again, result, _ = greeted(path, token=token)
    equal(result, 0, "joining")
    equal(ask(again, FREEZE, struct.pack("<Q", number))[0], 0, "of the same session")

    def join():
        equal(greeted(path, token=token)[1], -errno.ENOENT, "of another user")
    as_user(join)
    one.close()
    equal(open_transactions(mount), 1, "the session lives by the other connection")
    equal(ask(again, ABORT, struct.pack("<Q", number))[0], 0)
    equal(ask(again, ABORT, struct.pack("<Q", number))[0], -errno.EINVAL)
    again.close()
    other.close()


def test_slow_readers(mount):
    """Who does not read the answers is given up; the daemon ends in time."""
    path = socket_path(mount)
    vol = Volume(mount.image)
    vol.write("a", bytes(1 << 20))
    slow = []
    for _ in range(8):
        sock, _, _ = greeted(path)
        sock.send(head(OPENAT, struct.pack("<QQI", 0, 1, 1) + b"a\0" + struct.pack("<II", 0, 0)))
        sock.recv(1 << 17)
        for _ in range(20):
            sock.send(head(PREAD, struct.pack("<QQQ", 1, 1 << 20, 0)))
        slow.append(sock)
    equal(vol.read("a", size=10), bytes(10))
    vol.close()
    begun = time.monotonic()
    mount.umount()
    check(time.monotonic() - begun < 15, "the end waited for them")


if __name__ == "__main__":
    main(globals())
