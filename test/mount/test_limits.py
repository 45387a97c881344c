#!/usr/bin/env python3
"""What many of something cost the daemon, and what nobody may have."""
import ctypes
import os
import resource
import signal
import struct
import time

from mountlib import as_user, check, equal, main, read, resident, wait_gone, write
from test_control import (ABORT, BEGIN, CHANGES, DETACHED, USER, Beside, Client, socket_of)

LIBC = ctypes.CDLL(None, use_errno=True)
GETDENTS64 = 217
EOPNOTSUPP = 95


def entries(fd, size):
    """The next names of an open directory."""
    buf = ctypes.create_string_buffer(size)
    got = LIBC.syscall(GETDENTS64, fd, buf, size)
    if got < 0:
        raise OSError(ctypes.get_errno(), "getdents64")
    names, at = [], 0
    while at < got:
        length = struct.unpack_from("=H", buf, at + 16)[0]
        names.append(ctypes.string_at(ctypes.addressof(buf) + at + 19).decode())
        at += length
    return names


def rest(fd):
    names = []
    while more := entries(fd, 1 << 15):
        names += more
    return names


def test_open_directories(m):
    """A user opens thousands and reads a bit of each: memory stays as it is; all that is listed is
    right, for him and for root, whose listing began before."""
    wanted = sorted(f"{'n' * 200}{i:04}" for i in range(700))
    os.mkdir(m.path("d"))
    for name in wanted:
        write(m.path("d", name), b"")
    pid = m.daemon()
    of_root = os.open(m.path("d"), os.O_RDONLY)
    first = entries(of_root, 4096)
    before = resident(pid)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    many = min(5000, hard - 200)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    ready, go_on = m.path("ready"), m.path("go-on")
    os.chmod(m.dir, 0o777)

    def use():
        fds, begun = [], []
        for _ in range(many):
            fds.append(os.open(m.path("d"), os.O_RDONLY))
            begun.append(entries(fds[-1], 4096))
        write(ready, b"")
        while not os.path.exists(go_on):
            time.sleep(0.02)
        for i in list(range(0, many, many // 20)) + [many - 1]:
            names = begun[i] + rest(fds[i])
            equal(sorted(n for n in names if n[0] != "."), wanted, f"listing {i}")

    user = Beside(use)
    while user.is_alive() and not os.path.exists(ready):
        time.sleep(0.02)
    grown = resident(pid) - before
    check(grown < 64 << 20, f"{many} listings take {grown >> 20} MiB")
    os.unlink(m.path("d", wanted[600]))
    write(m.path("d", "z"), b"")
    equal(sorted(n for n in first + rest(of_root) if n[0] != "."), wanted, "root's, as of its begin")
    os.close(of_root)
    os.unlink(m.path("d", "z"))
    write(m.path("d", wanted[600]), b"")
    write(go_on, b"")
    user.join()


def test_seeking(m):
    """Positions of earlier reads stay good, also when what a listing keeps has given way."""
    wanted = sorted(f"f{i:04}" for i in range(1000))
    os.mkdir(m.path("d"))
    for name in wanted:
        write(m.path("d", name), b"")
    fd = os.open(m.path("d"), os.O_RDONLY)
    names = rest(fd)
    others = [os.open(m.path("d"), os.O_RDONLY) for _ in range(1100)]
    for other in others:
        entries(other, 2048)
    for at in (0, 1, 2, 3, 127, 128, 129, 300, 513, 770, 1001):
        os.lseek(fd, at, os.SEEK_SET)
        got = rest(fd)
        check(got == names[at:], f"from {at}: {len(got)} names, from {got[:3]} on")
    for other in others:
        os.close(other)
    os.close(fd)


def test_no_locks_by_reading(m):
    """A transaction that locks what it reads would keep root from writing it: there is none."""
    write(m.path("f"), b"x")
    path = socket_of(m)

    def begin():
        client = Client(path)
        for level in (4, 4 | 0x10, 1 << 20, 1 << 33):
            equal(client.ask(BEGIN, value=level)[0], -EOPNOTSUPP, f"level {level}")
        for level in (0, 1, 2, 0x10, 0x11, 0x12):
            equal(client.ask(BEGIN, value=level)[0], 0, f"level {level}")
    as_user(begin)


def test_slow_readers(m):
    """Who takes one answer at a time holds up neither who ends the transaction nor the daemon's end."""
    path = socket_of(m)
    os.chmod(m.dir, 0o777)
    ready, stop = m.path("ready"), os.path.join(m.folder, "stop")

    def trickle():
        client = Client(path)
        numbers = []
        for _ in range(2):
            result, answer = client.ask(BEGIN, flags=DETACHED)
            equal(result, 0, "begin")
            numbers.append(answer[4])
            root = m.path(".stet", "txn", str(answer[4]), "root")
            for i in range(3000):
                os.mknod(os.path.join(root, f"{answer[4]}-{i:04}{'n' * 200}"))
        readers = [Client(path) for _ in numbers]
        for reader, number in zip(readers, numbers):
            reader.send(CHANGES, number=number)
        write(ready, str(numbers[0]).encode())
        while not os.path.exists(stop):
            for reader in readers:
                try:
                    reader.receive()
                except OSError:
                    pass
            time.sleep(0.2)

    user = Beside(trickle)
    try:
        while user.is_alive() and not (os.path.exists(ready) and read(ready)):
            time.sleep(0.02)
        began = time.monotonic()
        equal(Client(path).ask(ABORT, number=int(read(ready)))[0], 0, "abort")
        check(time.monotonic() - began < 30, "abort waits for who reads")  # it would be 600
        pid = m.daemon()
        os.kill(pid, signal.SIGTERM)
        wait_gone(pid, 30)
    finally:
        write(stop, b"")
        user.join()
    m.mount()


if __name__ == "__main__":
    main(globals())
