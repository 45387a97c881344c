#!/usr/bin/env python3
"""Single calls on files and directories, as POSIX says, through a mount."""
import ctypes
import errno
import mmap
import os
import stat
import struct
import subprocess
import sys
import time

from mountlib import as_user, check, equal, fails, main, read, write

LIBC = ctypes.CDLL(None, use_errno=True)
RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 16
AT_FDCWD = -100


def rename2(old, new, flags):
    if LIBC.renameat2(AT_FDCWD, old.encode(), AT_FDCWD, new.encode(), flags):
        raise OSError(ctypes.get_errno(), "renameat2")


def fallocate(fd, mode, offset, length):
    if LIBC.fallocate(fd, mode, ctypes.c_int64(offset), ctypes.c_int64(length)):
        raise OSError(ctypes.get_errno(), "fallocate")


def test_read_write(m):
    path = m.path("f")
    data = os.urandom(3_000_001)
    write(path, data)
    equal(read(path) == data, True, "content")
    m.remount()
    equal(read(path) == data, True, "content after a remount")
    fd = os.open(path, os.O_RDWR)
    os.pwrite(fd, b"middle", 1_000_000)
    equal(os.pread(fd, 10, 999_998), data[999_998:1_000_000] + b"middle" +
          data[1_000_006:1_000_008], "overwrite")
    os.ftruncate(fd, 5)
    os.ftruncate(fd, 9)
    equal(os.pread(fd, 100, 0), data[:5] + bytes(4), "cut and grown")
    os.fsync(fd)
    os.close(fd)


def test_append(m):
    path = m.path("log")
    fds = [os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND) for _ in range(2)]
    for i in range(100):
        os.write(fds[i % 2], b"%03d\n" % i)
    for fd in fds:
        os.close(fd)
    equal(read(path), b"".join(b"%03d\n" % i for i in range(100)), "lines")


def test_unlinked_open(m):
    path = m.path("gone")
    write(path, b"still here")
    fd = os.open(path, os.O_RDWR)
    os.unlink(path)
    fails(errno.ENOENT, os.stat, path)
    equal(os.fstat(fd).st_nlink, 0, "links")
    os.pwrite(fd, b"STILL", 0)
    equal(os.pread(fd, 100, 0), b"STILL here", "content")
    equal(read(f"/proc/self/fd/{fd}"), b"STILL here", "opened again")
    os.close(fd)


def test_rename_over_open(m):
    write(m.path("a"), b"old")
    write(m.path("b"), b"new content")
    fd = os.open(m.path("a"), os.O_RDONLY)
    os.rename(m.path("b"), m.path("a"))
    equal(read(m.path("a")), b"new content", "by name")
    equal(os.pread(fd, 100, 0), b"old", "by descriptor")
    os.close(fd)


def test_rename(m):
    write(m.path("a"), b"a")
    write(m.path("b"), b"b")
    fails(errno.EEXIST, rename2, m.path("a"), m.path("b"), RENAME_NOREPLACE)
    rename2(m.path("a"), m.path("b"), RENAME_EXCHANGE)
    equal((read(m.path("a")), read(m.path("b"))), (b"b", b"a"), "exchanged")
    fails(errno.EINVAL, rename2, m.path("a"), m.path("b"), 4)
    os.makedirs(m.path("d", "e"))
    fails(errno.EINVAL, os.rename, m.path("d"), m.path("d", "e", "f"))
    os.mkdir(m.path("x"))
    fails(errno.ENOTEMPTY, os.rename, m.path("x"), m.path("d"))
    fails(errno.EISDIR, os.rename, m.path("a"), m.path("x"))
    os.rename(m.path("d", "e"), m.path("x", "e"))
    equal(os.listdir(m.path("x")), ["e"], "moved")
    equal(os.stat(m.path("d")).st_nlink, 2, "links of the old parent")
    equal(os.stat(m.path("x")).st_nlink, 3, "links of the new parent")


def test_links(m):
    write(m.path("a"), b"1")
    os.link(m.path("a"), m.path("b"))
    equal(os.stat(m.path("a")).st_nlink, 2, "links")
    check(os.path.samefile(m.path("a"), m.path("b")), "one file")
    write(m.path("b"), b"22")
    equal(read(m.path("a")), b"22", "by the other name")
    os.unlink(m.path("a"))
    equal(os.stat(m.path("b")).st_nlink, 1, "links")
    fails(errno.EPERM, os.link, m.dir, m.path("c"))
    os.symlink("b", m.path("s"))
    equal(os.readlink(m.path("s")), "b", "target")
    equal(read(m.path("s")), b"22", "through the link")


def test_names(m):
    longest = "n" * 255
    write(m.path(longest), b"x")
    equal(os.listdir(m.dir), [longest], "listing")
    for call in (os.stat, os.mkdir, os.unlink):
        fails(errno.ENAMETOOLONG, call, m.path("n" * 256))
    fails(errno.ENAMETOOLONG, os.rename, m.path(longest), m.path("n" * 256))
    for name in (b"\xff\xfe", "ümlaut".encode(), b"new\nline", b" "):
        path = os.path.join(m.dir.encode(), name)
        write(path, name)
        equal(read(path), name, "odd name")
        check(name in os.listdir(m.dir.encode()), "odd name in the listing")


def test_reserved(m):
    stet = m.path(".stet")
    check(os.path.isdir(stet), "it is there")
    check(".stet" not in os.listdir(m.dir), "it is not listed")
    fails(errno.EEXIST, os.mkdir, stet)
    fails(errno.EPERM, os.rmdir, stet)
    write(m.path("f"), b"")
    for name in ("x", "txn/x"):
        fails(errno.EPERM, os.mkdir, os.path.join(stet, name))
        fails(errno.EPERM, os.open, os.path.join(stet, name), os.O_CREAT | os.O_WRONLY)
    fails(errno.EPERM, os.chmod, stet, 0o700)
    os.mkdir(m.path("d"))
    os.mkdir(m.path("d", ".stet"))


def test_modes_and_times(m):
    path = m.path("f")
    write(path, b"x")
    os.chmod(path, 0o640)
    os.chown(path, 12, 34)
    os.utime(path, ns=(1_234_567_890_123_456_789, 987_654_321_987_654_321))
    m.remount()
    st = os.stat(path)
    equal((stat.S_IMODE(st.st_mode), st.st_uid, st.st_gid), (0o640, 12, 34), "owner")
    equal((st.st_atime_ns, st.st_mtime_ns), (1_234_567_890_123_456_789, 987_654_321_987_654_321),
          "times")
    before = time.time_ns() - 5_000_000_000
    write(path, b"y")
    check(before < os.stat(path).st_mtime_ns < before + 60_000_000_000, "time of a write")
    os.chmod(path, 0o4755)
    write(path, b"z")
    os.mkdir(m.path("g"))
    os.chown(m.path("g"), 0, 77)
    os.chmod(m.path("g"), 0o2775)
    write(m.path("g", "f"), b"")
    os.mkdir(m.path("g", "d"))
    equal(os.stat(m.path("g", "f")).st_gid, 77, "group of the directory")
    equal(stat.S_IMODE(os.stat(m.path("g", "d")).st_mode) & 0o2000, 0o2000, "setgid handed on")


def test_setuid_is_stripped(m):
    path = m.path("prog")
    write(path, b"x")
    os.chmod(m.dir, 0o777)
    os.chown(path, 1000, 1000)
    os.chmod(path, 0o6755)
    as_user(lambda: write(path, b"changed"))
    equal(stat.S_IMODE(os.stat(path).st_mode), 0o755, "mode")


def test_permissions(m):
    os.mkdir(m.path("secret"), 0o700)
    write(m.path("secret", "f"), b"x")
    write(m.path("ro"), b"x")
    os.chmod(m.path("ro"), 0o644)

    def look():
        fails(errno.EACCES, os.listdir, m.path("secret"))
        fails(errno.EACCES, os.open, m.path("secret", "f"), os.O_RDONLY)
        fails(errno.EACCES, os.open, m.path("ro"), os.O_WRONLY)
        equal(read(m.path("ro")), b"x", "readable")

    as_user(look)


def test_xattrs(m):
    path = m.path("f")
    write(path, b"x")
    big = os.urandom(60_000)
    os.setxattr(path, "user.small", b"value")
    os.setxattr(path, "user.big", big)
    fails(errno.EEXIST, os.setxattr, path, "user.small", b"", os.XATTR_CREATE)
    fails(errno.ENODATA, os.setxattr, path, "user.none", b"", os.XATTR_REPLACE)
    m.remount()
    equal(sorted(os.listxattr(path)), ["user.big", "user.small"], "names")
    equal(os.getxattr(path, "user.big") == big, True, "large value")
    os.removexattr(path, "user.big")
    fails(errno.ENODATA, os.getxattr, path, "user.big")
    both = os.XATTR_CREATE | os.XATTR_REPLACE
    fails(errno.ENODATA, os.setxattr, path, "user.none", b"", both)
    fails(errno.EEXIST, os.setxattr, path, "user.small", b"", both)
    for name in ("system.unknown", "nowhere.name", "nospace"):
        fails(errno.EOPNOTSUPP, os.setxattr, path, name, b"x")
        fails(errno.EOPNOTSUPP, os.getxattr, path, name)
        fails(errno.EOPNOTSUPP, os.removexattr, path, name)
    for name in ("user.", "trusted.", "security."):
        fails(errno.EINVAL, os.setxattr, path, name, b"x")
        fails(errno.EINVAL, os.getxattr, path, name)
        fails(errno.EINVAL, os.removexattr, path, name)


class Aio:
    """Asynchronous writes, as libaio makes them."""
    SETUP, DESTROY, EVENTS, SUBMIT = 206, 207, 208, 209  # x86-64
    PWRITE = 1

    def __init__(self):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.context = ctypes.c_ulong()
        self.call(self.SETUP, 8, ctypes.byref(self.context))

    def call(self, *words):
        result = self.libc.syscall(*words)
        if result < 0:
            raise OSError(ctypes.get_errno(), "aio")
        return result

    def write(self, fd, address, size, off):
        block = struct.pack("<QIIHhIQQqQII", 0, 0, 0, self.PWRITE, 0, fd, address, size, off, 0, 0, 0)
        self.block = ctypes.create_string_buffer(block, len(block))
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(self.block))
        self.call(self.SUBMIT, self.context, ctypes.c_long(1), pointers)

    def wait(self):
        event = ctypes.create_string_buffer(32)
        self.call(self.EVENTS, self.context, ctypes.c_long(1), ctypes.c_long(1), event, None)
        return struct.unpack("<QQqq", event.raw)[2]


def test_asynchronous_writes(m):
    """Direct ones, beside readers that fill the cache: what is read afterwards is what was written."""
    path, size = m.path("f"), 1 << 20
    write(path, b"\0" * size)
    if os.uname().machine != "x86_64":
        return
    reader = subprocess.Popen([sys.executable, "-c", f"""
while True:
    with open({path!r}, "rb", buffering=0) as file:
        while file.read(4096):
            pass
"""])
    try:
        memory = mmap.mmap(-1, size)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        fd = os.open(path, os.O_RDWR | os.O_DIRECT)
        aio = Aio()
        for turn in range(1, 250):
            memory[:] = bytes([turn]) * size
            aio.write(fd, address, size, 0)
            equal(aio.wait(), size)
            check(read(path) == memory[:], f"turn {turn}: stale data")
        os.close(fd)
    finally:
        reader.kill()
        reader.wait()


def test_special_files(m):
    os.mkfifo(m.path("fifo"))
    os.mknod(m.path("null"), stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mknod(m.path("big"), stat.S_IFBLK | 0o600, os.makedev(259, 70_000))
    m.remount("dev")
    check(stat.S_ISFIFO(os.stat(m.path("fifo")).st_mode), "fifo")
    equal(os.stat(m.path("null")).st_rdev, os.makedev(1, 3), "device")
    equal(os.stat(m.path("big")).st_rdev, os.makedev(259, 70_000), "large device number")


def test_sparse(m):
    path = m.path("sparse")
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, b"end", 100_000_000)
    equal(os.lseek(fd, 0, os.SEEK_DATA) >= 99_990_000, True, "first data")
    equal(os.lseek(fd, 0, os.SEEK_HOLE), 0, "first hole")
    fails(errno.ENXIO, os.lseek, fd, 100_000_003, os.SEEK_DATA)
    check(os.fstat(fd).st_blocks < 100, "few blocks")
    os.pwrite(fd, b"d" * 1_000_000, 0)
    fallocate(fd, PUNCH_HOLE | KEEP_SIZE, 100_000, 500_000)
    equal(os.pread(fd, 6, 99_997), b"ddd\0\0\0", "edge of the hole")
    equal(os.pread(fd, 6, 599_997), b"\0\0\0ddd", "other edge")
    equal(os.fstat(fd).st_size, 100_000_003, "size")
    fallocate(fd, 0, 0, 100_000_100)
    equal(os.fstat(fd).st_size, 100_000_100, "grown")
    fallocate(fd, ZERO_RANGE | KEEP_SIZE, 0, 10)
    equal(os.pread(fd, 11, 0), bytes(10) + b"d", "zeroed")
    fails(errno.EOPNOTSUPP, fallocate, fd, 8, 0, 4096)
    os.close(fd)


def test_copy_file_range(m):
    data = os.urandom(20_000_000)
    write(m.path("from"), data)
    source, target = os.open(m.path("from"), os.O_RDONLY), os.open(m.path("to"), os.O_RDWR |
                                                                 os.O_CREAT)
    done = 0
    while done < len(data):
        count = os.copy_file_range(source, target, len(data) - done, done, done)
        check(count > 0, "progress")
        done += count
    os.close(source)
    os.close(target)
    equal(read(m.path("to")) == data, True, "copy")


def test_mmap(m):
    path = m.path("mapped")
    write(path, bytes(1_000_000))
    fd = os.open(path, os.O_RDWR)
    area = mmap.mmap(fd, 1_000_000)
    area[500_000:500_005] = b"store"
    equal(os.pread(fd, 5, 500_000), b"store", "by read")
    area.flush()
    area[0:3] = b"end"
    area.close()
    os.close(fd)
    m.remount()
    equal(read(path)[500_000:500_005], b"store", "after a remount")
    equal(read(path)[:3], b"end", "without msync")


def test_listing(m):
    names = {f"entry{i:05d}" for i in range(3000)}
    os.mkdir(m.path("d"))
    for name in names:
        os.mknod(m.path("d", name))
    equal(set(os.listdir(m.path("d"))), names, "all of them")
    equal(os.listdir(m.path("d")), sorted(names), "in order")
    with os.scandir(m.path("d")) as it:
        seen = set()
        for count, entry in enumerate(it):
            seen.add(entry.name)
            if count == 100:
                write(m.path("d", "new"), b"")
            if count % 2:
                os.unlink(m.path("d", entry.name))
    equal(seen, names, "a listing shows one state")
    left = os.listdir(m.path("d"))
    equal(len(left), 1501, "left over")
    m.run("ls", m.dir, code=None)
    for name in left:
        os.unlink(m.path("d", name))
    os.rmdir(m.path("d"))


def test_seekdir(m):
    os.mkdir(m.path("d"))
    for i in range(1000):
        os.mknod(m.path("d", f"{i:04d}"))
    opendir, readdir, telldir, seekdir = (LIBC.opendir, LIBC.readdir, LIBC.telldir, LIBC.seekdir)
    opendir.restype = readdir.restype = ctypes.c_void_p
    telldir.restype = ctypes.c_long

    def next_name(handle):
        entry = readdir(ctypes.c_void_p(handle))
        return ctypes.string_at(entry + 19).decode() if entry else None

    handle = opendir(m.path("d").encode())
    places = []
    while True:
        place = telldir(ctypes.c_void_p(handle))
        name = next_name(handle)
        places.append((place, name))
        if name is None:
            break
    equal(len(places), 1003, "entries and the end")
    for place, name in places[::-7]:
        seekdir(ctypes.c_void_p(handle), ctypes.c_long(place))
        equal(next_name(handle), name, f"at {place}")
    LIBC.closedir(ctypes.c_void_p(handle))


def test_directories(m):
    os.mkdir(m.path("d"))
    write(m.path("d", "f"), b"")
    fails(errno.ENOTEMPTY, os.rmdir, m.path("d"))
    fails(errno.EISDIR, os.unlink, m.path("d"))
    fails(errno.ENOTDIR, os.rmdir, m.path("d", "f"))
    fails(errno.ENOTDIR, os.stat, m.path("d", "f", "x"))
    os.unlink(m.path("d", "f"))
    fd = os.open(m.path("d"), os.O_RDONLY)
    os.fsync(fd)
    os.rmdir(m.path("d"))
    equal(os.listdir(fd), [], "removed but open")
    fails(errno.ENOENT, os.mkdir, "x", dir_fd=fd)
    os.close(fd)
    st = os.statvfs(m.dir)
    check(st.f_blocks * st.f_frsize > 200 << 20 and st.f_bavail > 0, "space")
    equal(st.f_namemax, 255, "longest name")
    equal((st.f_files, st.f_ffree, st.f_favail), (0, 0, 0), "inodes: no limit")
    table = subprocess.run(["df", "-i", m.dir], stdout=subprocess.PIPE, check=True).stdout.decode()
    equal(table.splitlines()[1].split()[1:5], ["0", "0", "0", "-"], "df -i")


def test_full(m):
    """A volume that is full says so, and can be emptied."""
    path = m.path("fill")
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 20))
        except OSError as failure:
            equal(failure.errno, errno.ENOSPC, "when full")
    os.unlink(path)
    for _ in range(100):
        if os.statvfs(m.dir).f_bavail > 10_000:
            break
        time.sleep(0.1)
    write(path, bytes(10 << 20))


if __name__ == "__main__":
    main(globals())
