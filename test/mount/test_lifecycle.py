#!/usr/bin/env python3
"""How a mount begins and ends, and who finds it."""
import errno
import mmap
import os
import shutil
import signal
import socket
import stat
import subprocess
import time

from mountlib import (STETFS, as_user, check, equal, fails, is_gone, main, read, wait_gone,
                      write)


def records(m):
    """The runtime files of the mount."""
    found = []
    for name in os.listdir("/run/stetfs"):
        path = os.path.join("/run/stetfs", name)
        if name.endswith(".mount") and f"dir {m.dir}\n" in read(path).decode():
            found += [path, path[:-len(".mount")] + ".sock"]
    return found


def wait_for(condition, text, seconds=20):
    until = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < until, text)
        time.sleep(0.02)


def test_umount_leaves_nothing(m):
    write(m.path("a"), b"a")
    pid, files = m.daemon(), records(m)
    check(len(files) == 2 and all(os.path.exists(f) for f in files), f"files {files}")
    check(stat.S_ISSOCK(os.stat(files[1]).st_mode), "socket")
    m.umount()
    check(is_gone(pid), "umount waits for the daemon")
    check(not any(os.path.exists(f) for f in files), "files are removed")
    equal(os.listdir(m.dir), [], "mount point")
    m.check()
    m.mount()
    equal(read(m.path("a")), b"a", "content")


def test_plain_umount(m):
    """As umount(8) does it, without the daemon being asked."""
    write(m.path("a"), b"a")
    pid = m.daemon()
    subprocess.run(["umount", m.dir], check=True)
    wait_gone(pid)
    m.check()
    m.mount()
    equal(read(m.path("a")), b"a", "content")


def test_terminated(m):
    write(m.path("a"), b"a")
    pid = m.daemon()
    os.kill(pid, signal.SIGTERM)
    wait_gone(pid)
    check(not m.is_mounted(), "unmounted")
    m.check()
    m.mount()
    equal(read(m.path("a")), b"a", "content")


def test_terminated_while_in_use(m):
    """What mappings hold is written, open transactions are dropped, users are cut off."""
    size = 1 << 20
    write(m.path("mapped"), bytes(size))
    fd = os.open(m.path("mapped"), os.O_RDWR)
    area = mmap.mmap(fd, size)
    area[size - 4:size] = b"last"
    _, root = m.begin()
    write(os.path.join(root, "x"), b"x")
    pid = m.daemon()
    os.kill(pid, signal.SIGTERM)
    wait_gone(pid)
    fails(errno.ENOTCONN, os.fstat, fd)
    os.close(fd)
    check(not m.is_mounted(), "unmounted")
    m.check()
    m.mount()
    equal(read(m.path("mapped"))[-4:], b"last", "stores")
    equal(os.listdir(m.dir), ["mapped"], "names")


def test_crashed_daemon(m):
    """A dead mount is named as such, umount clears it away, and the record does not count."""
    write(m.path("a"), b"a")
    m.run("sync", m.dir)
    pid = m.daemon()
    os.kill(pid, signal.SIGKILL)
    wait_gone(pid)
    fails(errno.ENOTCONN, os.listdir, m.dir)
    m.run("begin", m.dir, code=1)
    m.run("umount", m.dir)
    check(not m.is_mounted(), "unmounted")
    m.check()
    m.mount()
    equal(read(m.path("a")), b"a", "content")


def test_second_mount(m):
    other = os.path.join(m.folder, "other")
    os.mkdir(other)
    text = m.run("mount", m.image, other, code=1)
    check(m.dir in text, f"the holder is named: {text}")
    text = m.run("check", m.image, code=8)
    check(m.dir in text, f"the holder is named: {text}")
    check(not os.path.ismount(other), "nothing is mounted")


def test_wrong_arguments(m):
    m.umount()
    m.run("mount", m.image, os.path.join(m.folder, "none"), code=1)
    m.run("mount", os.path.join(m.folder, "none"), m.dir, code=1)
    m.run("mount", m.image, m.dir, "-o", "nonsense", code=2)
    write(os.path.join(m.folder, "junk"), bytes(1 << 20))
    m.run("mount", os.path.join(m.folder, "junk"), m.dir, code=1)
    m.run("umount", m.dir, code=1)
    check(not m.is_mounted(), "nothing is mounted")
    m.mount("noatime,nosuid,nofail,x-systemd.automount,lock_timeout=0.5,cache=32M")
    write(m.path("a"), b"a")


def test_read_only(m):
    write(m.path("a"), b"a")
    m.remount("ro")
    equal(read(m.path("a")), b"a", "content")
    fails(errno.EROFS, os.open, m.path("a"), os.O_WRONLY)
    fails(errno.EROFS, os.mkdir, m.path("d"))
    fails(errno.EROFS, os.unlink, m.path("a"))


def test_foreground(m):
    m.umount()
    daemon = subprocess.Popen([STETFS, "mount", "-f", m.image, m.dir])
    wait_for(m.is_mounted, "it mounts")
    wait_for(lambda: records(m), "it listens")
    write(m.path("a"), b"a")
    equal(m.daemon(), daemon.pid, "the process itself")
    daemon.send_signal(signal.SIGINT)
    equal(daemon.wait(20), 0, "exit code")
    m.mount()
    equal(read(m.path("a")), b"a", "content")


def test_lazy_umount(m):
    write(m.path("a"), b"a")
    fd = os.open(m.path("a"), os.O_RDONLY)
    pid = m.daemon()
    m.run("umount", "-l", m.dir)
    check(not m.is_mounted(), "out of the tree")
    equal(os.pread(fd, 10, 0), b"a", "still served")
    check(not is_gone(pid), "still there")
    os.close(fd)
    wait_gone(pid)
    m.check()
    m.mount()


def test_only_the_owner_shuts_down(m):
    as_user(lambda: m.run("umount", m.dir, code=1))
    check(m.is_mounted(), "still mounted")


def test_garbage_on_the_socket(m):
    """Whoever talks nonsense is sent away; the others are served."""
    path = records(m)[1]
    for junk in (b"", b"x", bytes(40), os.urandom(48), os.urandom(70_000)):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.connect(path)
            client.settimeout(10)
            try:
                client.send(junk)
                client.recv(100_000)
            except (BrokenPipeError, ConnectionResetError):
                pass
    idle = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    idle.connect(path)
    m.run("sync", m.dir)
    m.umount()  # does not wait for the idle one
    idle.close()
    m.mount()


def test_as_a_user(m):
    """Mounted by somebody who is not root, if the machine lets him."""
    if not shutil.which("fusermount3") or not os.access("/dev/fuse", os.R_OK | os.W_OK) or \
       os.stat("/dev/fuse").st_mode & 0o006 != 0o006 or \
       not os.stat(shutil.which("fusermount3")).st_mode & stat.S_ISUID:
        print("  (not possible here)")
        return
    os.chown(m.dir, 1000, 1000)  # the root of the volume
    m.umount()
    for path in (m.folder, m.image, m.dir):
        os.chown(path, 1000, 1000)
    os.environ.pop("XDG_RUNTIME_DIR", None)

    def use():
        m.mount()
        write(m.path("a"), b"a")
        number, root = m.begin()
        write(os.path.join(root, "b"), b"b")
        m.commit(number)
        equal(sorted(os.listdir(m.dir)), ["a", "b"], "names")
        m.umount()
        m.check()

    as_user(use)


if __name__ == "__main__":
    main(globals())
