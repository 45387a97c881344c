#!/usr/bin/env python3
"""Transactions through a mount: all or nothing, isolation, and what others see when."""
import errno
import mmap
import os
import signal
import subprocess
import threading
import time

from mountlib import STETFS, Failure, as_user, check, equal, fails, main, read, write


def test_abort_leaves_no_trace(m):
    write(m.path("a"), b"one")
    os.mkdir(m.path("d"))
    for i in range(200):
        write(m.path("d", f"f{i}"), b"%d" % i)
    m.transaction("echo two > a; echo new > b; rm -r d; mkdir e; mv a e/; exit 1", code=1)
    equal(sorted(os.listdir(m.dir)), ["a", "d"], "names")
    equal(read(m.path("a")), b"one", "content")
    equal(len(os.listdir(m.path("d"))), 200, "entries")
    m.remount()
    equal(sorted(os.listdir(m.dir)), ["a", "d"], "names")


def test_commit_is_all_there(m):
    write(m.path("a"), b"one")
    os.makedirs(m.path("d", "e"))
    os.listdir(m.path("d"))
    fails(errno.ENOENT, os.stat, m.path("new"))  # the kernel may remember that
    m.transaction("echo two > a; echo n > new; echo x > d/e/x; mv d/e moved; mkdir z; rmdir d;"
                  "ln -s a s; chmod 600 a")
    equal(sorted(os.listdir(m.dir)), ["a", "moved", "new", "s", "z"], "names")
    equal((read(m.path("a")), read(m.path("new"))), (b"two\n", b"n\n"), "content")
    equal(read(m.path("moved", "x")), b"x\n", "in a moved directory")
    equal(os.stat(m.path("a")).st_mode & 0o777, 0o600, "mode")
    m.kill()
    m.mount()
    equal(read(m.path("a")), b"two\n", "acknowledged before a crash")


def test_run_sees_itself(m):
    write(m.path("a"), b"one")
    number = os.stat(m.path("a")).st_ino
    text = m.transaction("echo two > a; cat a; stat -c %i a; ls; pwd")
    equal(text.split(), ["two", str(number), "a", m.dir], "inside")


def test_isolation(m):
    write(m.path("a"), b"one")
    number, root = m.begin()
    write(os.path.join(root, "a"), b"inside")
    write(os.path.join(root, "b"), b"b")
    equal(read(m.path("a")), b"one", "outside")
    equal(os.listdir(m.dir), ["a"], "outside")
    write(m.path("c"), b"c")
    equal(sorted(os.listdir(root)), ["a", "b"], "inside, as of begin")
    check(os.stat(m.path("a")).st_ino != os.stat(os.path.join(root, "a")).st_ino, "tagged numbers")
    m.commit(number)
    equal(sorted(os.listdir(m.dir)), ["a", "b", "c"], "after commit")
    equal(read(m.path("a")), b"inside", "after commit")


def test_abort_detached(m):
    number, root = m.begin()
    write(os.path.join(root, "x"), b"x")
    m.abort(number)
    fails(errno.ENOENT, os.stat, root)
    equal(os.listdir(m.dir), [], "outside")


def test_ended_is_stale(m):
    write(m.path("a"), b"one")
    number, root = m.begin()
    fd = os.open(os.path.join(root, "a"), os.O_RDONLY)
    dir_fd = os.open(root, os.O_RDONLY)
    m.commit(number)
    fails(errno.ESTALE, os.read, fd, 10)
    fails(errno.ESTALE, os.listdir, dir_fd)
    fails(errno.ESTALE, os.stat, "a", dir_fd=dir_fd)
    os.close(fd)
    os.close(dir_fd)
    m.commit(number, code=1)


def test_no_crossing(m):
    write(m.path("a"), b"one")
    number, root = m.begin()
    fails(errno.EXDEV, os.link, m.path("a"), os.path.join(root, "b"))
    fails(errno.EXDEV, os.rename, m.path("a"), os.path.join(root, "b"))
    fails(errno.EXDEV, os.rename, os.path.join(root, "a"), m.path("b"))
    fails(errno.ENOENT, os.stat, os.path.join(root, ".stet"))
    fails(errno.EPERM, os.mkdir, os.path.join(root, ".stet"))
    m.abort(number)


def test_guard(m):
    os.chmod(m.dir, 0o777)
    number, root = m.begin()
    equal(os.stat(os.path.dirname(root)).st_mode & 0o7777, 0o700, "mode of the guard")
    as_user(lambda: fails(errno.EACCES, os.listdir, root))
    as_user(lambda: check(m.run("commit", m.dir, number, code=1), "not the owner's"))

    def own():
        mine, tree = m.begin()
        write(os.path.join(tree, "mine"), b"x")
        m.commit(mine)

    as_user(own)
    equal(os.stat(m.path("mine")).st_uid, 1000, "owner")
    m.abort(number)


def test_open_file_keeps_old_version(m):
    old, new = os.urandom(300_000), os.urandom(200_000)
    write(m.path("a"), old)
    os.link(m.path("a"), m.path("other"))
    fd = os.open(m.path("a"), os.O_RDONLY)
    area = mmap.mmap(fd, 300_000, prot=mmap.PROT_READ)
    number, root = m.begin()
    write(os.path.join(root, "a"), new)
    m.commit(number)
    equal(read(m.path("a")) == new, True, "by name")
    equal(read(m.path("other")) == new, True, "by its other name")
    equal(os.fstat(fd).st_size, 300_000, "size by descriptor")
    equal(os.pread(fd, 400_000, 0) == old, True, "by descriptor")
    equal(area[:] == old, True, "by mapping")
    equal(read(f"/proc/self/fd/{fd}") == old, True, "opened again by descriptor")
    os.fchmod(fd, 0o600)
    equal(os.stat(m.path("a")).st_mode & 0o777, 0o600, "mode by name")
    area.close()
    os.close(fd)
    equal(read(m.path("a")) == new, True, "at last")


def test_small_open_file_keeps_old_version(m):
    write(m.path("a"), b"two\n")
    fd = os.open(m.path("a"), os.O_RDONLY)
    m.transaction("echo three > a")
    equal(read(m.path("a")), b"three\n", "by name")
    equal(os.pread(fd, 100, 0), b"two\n", "by descriptor")
    os.close(fd)


def test_replaced_name(m):
    write(m.path("a"), b"old")
    fd = os.open(m.path("a"), os.O_RDONLY)
    m.transaction("echo new > b && mv b a")
    equal(read(m.path("a")), b"new\n", "by name")
    equal(os.pread(fd, 100, 0), b"old", "by descriptor")
    os.close(fd)


def test_append_together(m):
    """Appends of a transaction and of others go along; an open file sees it grow."""
    log = os.open(m.path("log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    reader = os.open(m.path("log"), os.O_RDONLY)
    os.write(log, b"before\n")
    number, root = m.begin()
    with open(os.path.join(root, "log"), "ab", buffering=0) as inside:
        inside.write(b"inside\n")
        os.write(log, b"meanwhile\n")
    equal(os.pread(reader, 100, 0), b"before\nmeanwhile\n", "before the commit")
    m.commit(number)
    equal(os.pread(reader, 100, 0), b"before\nmeanwhile\ninside\n", "after the commit")
    os.write(log, b"after\n")
    equal(os.pread(reader, 100, 0), b"before\nmeanwhile\ninside\nafter\n", "after an append")
    os.close(log)
    os.close(reader)


def test_open_for_writing_waits(m):
    m.remount("lock_timeout=1")
    write(m.path("a"), b"one")
    number, root = m.begin()
    inside = os.open(os.path.join(root, "a"), os.O_RDWR)
    started = time.monotonic()
    fails(errno.EBUSY, os.open, m.path("a"), os.O_WRONLY)
    check(0.8 < time.monotonic() - started < 5, "waits for the timeout")
    fails(errno.EBUSY, os.truncate, m.path("a"), 0)
    equal(read(m.path("a")), b"one", "reading does not wait")
    os.pwrite(inside, b"two", 0)
    os.close(inside)
    opened = []
    waiter = threading.Thread(
        target=lambda: opened.append(os.open(m.path("a"), os.O_RDWR)))
    waiter.start()
    time.sleep(0.3)
    m.commit(number)
    waiter.join()
    equal(os.pread(opened[0], 10, 0), b"two", "who waited sees the commit")
    os.pwrite(opened[0], b"3", 0)
    os.close(opened[0])
    equal(read(m.path("a")), b"3wo", "and can write")


def test_many_waiting_openers(m):
    """Opens that wait hold no worker: the commit that they wait for gets through."""
    m.remount("lock_timeout=60")
    write(m.path("a"), b"one")
    number, root = m.begin()
    write(os.path.join(root, "a"), b"two")
    threads = [threading.Thread(target=lambda: read_write_close(m.path("a"))) for _ in range(200)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    started = time.monotonic()
    equal(read(m.path("a")), b"one", "others are served")
    m.commit(number)
    for thread in threads:
        thread.join()
    check(time.monotonic() - started < 20, "all get through")
    equal(read(m.path("a")), b"two", "content")


def read_write_close(path):
    fd = os.open(path, os.O_RDWR)
    equal(os.pread(fd, 10, 0), b"two", "opened after the commit")
    os.close(fd)


def test_interrupted_open(m):
    m.remount("lock_timeout=60")
    write(m.path("a"), b"one")
    number, root = m.begin()
    write(os.path.join(root, "a"), b"two")
    for sent in (signal.SIGTERM, signal.SIGKILL):
        waiter = subprocess.Popen(["sh", "-c", 'exec 3>>"$0"; exec 3<>"$0"', m.path("a")])
        time.sleep(0.3)
        equal(waiter.poll(), None, "it waits")
        started = time.monotonic()
        waiter.send_signal(sent)
        equal(waiter.wait(5), -sent, "ended by the signal")
        check(time.monotonic() - started < 2, "at once")
    m.commit(number)
    equal(read(m.path("a")), b"two", "content")
    write(m.path("a"), b"three")


def test_conflict_on_names(m):
    number, root = m.begin()
    write(os.path.join(root, "x"), b"inside")
    fails(errno.EBUSY, os.mkdir, m.path("x"))
    os.mkdir(m.path("y"))
    m.commit(number)
    equal(sorted(os.listdir(m.dir)), ["x", "y"], "names")


def test_first_updater_wins(m):
    write(m.path("a"), b"one")
    number, root = m.begin()
    write(m.path("a"), b"outside")
    fails(errno.EBUSY, os.open, os.path.join(root, "a"), os.O_WRONLY)
    text = m.commit(number, code=None)
    equal(read(m.path("a")), b"outside", f"content ({text})")


def test_mapped_stores_are_committed(m):
    size = 8 << 20
    write(m.path("a"), bytes(size))
    number, root = m.begin()
    fd = os.open(os.path.join(root, "a"), os.O_RDWR)
    area = mmap.mmap(fd, size)
    os.close(fd)
    for at in range(0, size, 4096):
        area[at:at + 8] = b"%08d" % at
    m.commit(number)
    data = read(m.path("a"))
    check(all(data[at:at + 8] == b"%08d" % at for at in range(0, size, 4096)), "stores")
    area.close()


def test_connection_is_its_life(m):
    """`run` that dies takes its transaction along."""
    write(m.path("a"), b"one")
    ready = os.path.join(m.folder, "ready")
    runner = subprocess.Popen([STETFS, "run", m.dir, "--", "sh", "-c",
                               f"echo two > a; touch {ready}; sleep 60"])
    until = time.monotonic() + 20
    while not os.path.exists(ready):
        check(time.monotonic() < until, "it starts")
        time.sleep(0.02)
    check(m.run("txns", m.dir), "it is listed")
    runner.kill()
    runner.wait()
    until = time.monotonic() + 20
    while True:
        try:
            write(m.path("a"), b"free")
            break
        except OSError:
            check(time.monotonic() < until, "the lock is gone")
    equal(read(m.path("a")), b"free", "content")
    wait_free(m)


def wait_free(m, seconds=70):
    """Until no process is left in a view of the mount."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not m.run("umount", m.dir, code=None):
            m.mount()
            return
        time.sleep(0.1)
    raise Failure("the mount stays busy")


def test_umount_refuses(m):
    number, root = m.begin()
    check("transaction" in m.run("umount", m.dir, code=1), "an open transaction is named")
    write(os.path.join(root, "x"), b"x")
    m.commit(number)
    fd = os.open(m.path("x"), os.O_RDONLY)
    m.run("umount", m.dir, code=1)
    os.close(fd)
    equal(read(m.path("x")), b"x", "it still serves")


def test_diff(m):
    write(m.path("a"), b"one")
    write(m.path("b"), b"gone")
    write(m.path("c"), b"moved")
    number, root = m.begin()
    write(os.path.join(root, "a"), b"changed")
    os.unlink(os.path.join(root, "b"))
    os.rename(os.path.join(root, "c"), os.path.join(root, "d"))
    write(os.path.join(root, "e"), b"new")
    text = m.run("diff", m.dir, number)
    for name in ("/a", "/b", "/c", "/d", "/e"):
        check(name in text, f"{name} in {text!r}")
    m.abort(number)


def test_never_new_then_old(m):
    """Readers of several files, while commits change all of them: what is seen only grows."""
    names = [f"n{i}" for i in range(4)]
    for name in names:
        write(m.path(name), b"%08d" % 0)
    stop, wrong = threading.Event(), []

    def look(name, last):
        data = read(m.path(name))
        seen = int(data[:8])
        if seen < last or data[8:] != b" " * (seen % 3):
            wrong.append((name, data, last))
        return max(seen, last)

    def watch(order):
        last = 0
        try:
            while not stop.is_set():
                for name in order:
                    last = look(name, last)
        except Exception as failure:  # pylint: disable=broad-except
            wrong.append(failure)

    watchers = [threading.Thread(target=watch, args=(order,))
                for order in (names, names[::-1], names[1:] + names[:1])]
    for watcher in watchers:
        watcher.start()
    for generation in range(1, 31):
        number, root = m.begin()
        for name in names:
            write(os.path.join(root, name), b"%08d" % generation + b" " * (generation % 3))
        m.commit(number)
    stop.set()
    for watcher in watchers:
        watcher.join()
    equal(wrong[:5], [], "seen")


def test_growing_shows_no_zeros(m):
    """Readers of a file that commits and others append to never see what was not written."""
    write(m.path("log"), b"")
    stop, wrong = threading.Event(), []

    def watch():
        try:
            while not stop.is_set():
                data = read(m.path("log"))
                if data.strip(b"x\n"):
                    wrong.append(data)
        except Exception as failure:  # pylint: disable=broad-except
            wrong.append(failure)

    watchers = [threading.Thread(target=watch) for _ in range(3)]
    for watcher in watchers:
        watcher.start()
    for i in range(40):
        number, root = m.begin()
        with open(os.path.join(root, "log"), "ab", buffering=0) as inside:
            inside.write(b"x" * (97 + i) + b"\n")
        m.commit(number)
        with open(m.path("log"), "ab", buffering=0) as outside:
            outside.write(b"x" * 31 + b"\n")
    stop.set()
    for watcher in watchers:
        watcher.join()
    equal(wrong[:3], [], "seen")
    equal(len(read(m.path("log"))), sum(98 + i + 32 for i in range(40)), "size")


def stat_of(m, name):
    """A counter that `stetfs stats` prints."""
    for line in m.run("stats", m.dir).splitlines():
        words = line.split()
        if words and words[0] == name:
            return int(words[-1].strip("()"))
    raise Failure(f"no counter {name}")


def wait_held(m, count, seconds=10):
    """What the kernel forgets it tells a little later."""
    until = time.monotonic() + seconds
    while stat_of(m, "held_inodes") > count:
        check(time.monotonic() < until, f"{stat_of(m, 'held_inodes')} held, not {count}")
        time.sleep(0.02)


def make_small(m):
    """A small volume; the size of a file of which it holds six. (A transaction pins what is deleted
    while it is open, and what was since the last checkpoint: two or three may not be enough.)"""
    m.umount()
    os.unlink(m.image)
    m.size = "64M"
    m.make()
    m.mount()
    return stat_of(m, "available") // 6


def test_ended_views_hold_no_space(m):
    """A view's files are not held once it has ended, though the kernel still knows them."""
    size = make_small(m)
    write(os.path.join(m.folder, "big"), os.urandom(size))
    held = stat_of(m, "held_inodes")
    for i in range(12):
        code = 7 if i % 4 == 3 else 0
        m.transaction(f"rm -rf app && mkdir app && cp {m.folder}/big app/ && exit {code}",
                      code=code)
        equal(stat_of(m, "held_inodes"), held, f"held after round {i}")
    equal(os.path.getsize(m.path("app", "big")), size, "size")


def test_ended_views_with_open_files_hold_no_space(m):
    """Nor if somebody has them open still; closing and forgetting them gives nothing back twice."""
    size = make_small(m)
    held, fds = stat_of(m, "held_inodes"), []
    for _ in range(12):
        number, root = m.begin()
        if os.path.exists(os.path.join(root, "big")):
            os.unlink(os.path.join(root, "big"))
        write(os.path.join(root, "big"), os.urandom(size))
        fds.append(os.open(os.path.join(root, "big"), os.O_RDONLY))
        fds.append(os.open(root, os.O_RDONLY))
        check(stat_of(m, "held_inodes") > held, "an open view holds")
        m.commit(number)
        equal(stat_of(m, "held_inodes"), held, "held")
    for fd in fds:
        fails(errno.ESTALE, os.fstat, fd)
        os.close(fd)
    if os.access("/proc/sys/vm/drop_caches", os.W_OK):
        write("/proc/sys/vm/drop_caches", b"2")  # the kernel forgets them now
    equal(len(read(m.path("big"))), size, "size")


def test_removed_files_are_not_held(m):
    """The main tree: the kernel forgets what was removed, from outside or by a commit."""
    size = make_small(m)
    held, data = stat_of(m, "held_inodes"), os.urandom(size)
    for i in range(8):
        os.mkdir(m.path("app"))
        write(m.path("app", "big"), data)
        os.link(m.path("app", "big"), m.path("app", "other"))
        check(read(m.path("app", "other")) == data, "cached")
        if i % 2:
            os.unlink(m.path("app", "big"))
            os.rename(m.path("app", "other"), m.path("moved"))
            os.unlink(m.path("moved"))
            os.rmdir(m.path("app"))
        else:
            m.transaction("rm -r app")
        wait_held(m, held)


def test_old_ones_are_dropped(m):
    """max_age: what `begin` left behind ends; what a command does, does not."""
    m.remount("max_age=1.5")
    number, root = m.begin()
    write(os.path.join(root, "left"), b"behind")
    m.transaction("echo x > slow; sleep 4")
    check("no such transaction" in m.run("commit", m.dir, number, code=1), "it is too old")
    equal(sorted(os.listdir(m.dir)), ["slow"], "the tree")
    number, root = m.begin()
    write(os.path.join(root, "soon"), b"enough")
    m.commit(number)
    equal(read(m.path("soon")), b"enough", "a young one")


def test_what_one_may_change(m):
    """max_staged: the call that goes beyond it fails, and the rest can be committed or dropped."""
    m.remount("max_staged=1M")
    m.transaction("head -c 900000 /dev/zero > most")
    equal(os.path.getsize(m.path("most")), 900000, "within")
    m.transaction("head -c 3000000 /dev/zero > more", code=1)
    check(not os.path.exists(m.path("more")), "beyond")
    m.transaction("head -c 3000000 /dev/zero > more; true")
    check(1 << 20 <= os.path.getsize(m.path("more")) < 2 << 20, "as much as it may")
    write(m.path("plain"), b"x" * 3000000)


def test_no_update_is_lost(m):
    """Changed in place by one, replaced by another (sed -i): whoever is second is told."""
    write(m.path("f"), b"orig\n")
    inside = subprocess.Popen([STETFS, "run", m.dir, "--", "sh", "-c", "echo in >> f; sleep 1.5"],
                              stderr=subprocess.DEVNULL)
    time.sleep(0.7)
    subprocess.run(["sed", "-i", "s/$/ out/", m.path("f")], check=True)
    equal(inside.wait(), 123, "it was replaced")
    equal(read(m.path("f")), b"orig out\n", "the first one's")
    inside = subprocess.Popen([STETFS, "run", m.dir, "--", "sh", "-c",
                               "sed -i 's/$/ in/' f; sleep 1.5"], stderr=subprocess.DEVNULL)
    time.sleep(0.7)
    with open(m.path("f"), "ab") as file:
        file.write(b"appended\n")
    equal(inside.wait(), 123, "what it replaced was changed")
    equal(read(m.path("f")), b"orig out\nappended\n", "the first one's")


if __name__ == "__main__":
    main(globals())
