"""Times: their range, and what reading does to them."""
import os
import subprocess
import time

from mountlib import check, equal, main, read, write

DAY = 86400 * 10**9
FIRST, LAST = -2**63, 2**63 - 1  # of what is kept, in nanoseconds
OLD = 10**18


def set_times(path, seconds):
    subprocess.run(["touch", "-d", f"@{seconds}", path], check=True)


def test_range(mount):
    """What cannot be kept becomes the nearest that can, in a view too."""
    number, root = mount.begin()
    for path in (mount.path("f"), os.path.join(root, "g")):
        write(path, b"x")
        for seconds, wanted in ((-1, -10**9), (-2**31 - 1, (-2**31 - 1) * 10**9),
                                (2**31, 2**31 * 10**9), (2**32 + 5, (2**32 + 5) * 10**9),
                                (9223372036, 9223372036 * 10**9), (9223372037, LAST),
                                (2**40, LAST), (-9223372037, FIRST), (-2**40, FIRST)):
            set_times(path, seconds)
            st = os.stat(path)
            equal((st.st_atime_ns, st.st_mtime_ns), (wanted, wanted), str(seconds))
        os.utime(path, ns=(-1, -999_999_999))
        st = os.stat(path)
        equal((st.st_atime_ns, st.st_mtime_ns), (-1, -999_999_999))
    mount.abort(number)
    set_times(mount.path("f"), 2**40)
    mount.remount()
    equal(os.stat(mount.path("f")).st_mtime_ns, LAST)


def test_copies(mount):
    """From and to file systems that go further."""
    os.mkdir(os.path.join(mount.folder, "host"))
    path = os.path.join(mount.folder, "host", "f")
    write(path, b"x")
    set_times(path, 15_000_000_000)
    if os.stat(path).st_mtime_ns != 15_000_000_000 * 10**9:
        return
    os.mkdir(mount.path("through"))
    os.mkdir(mount.path("alone"))
    mount.run("cp", "-r", os.path.join(mount.folder, "host"), f"{mount.image}:/through")
    equal(os.stat(mount.path("through", "host", "f")).st_mtime_ns, LAST)
    mount.umount()
    mount.run("cp", "-r", os.path.join(mount.folder, "host"), f"{mount.image}:/alone")
    mount.mount()
    equal(os.stat(mount.path("alone", "host", "f")).st_mtime_ns, LAST)


def birth(path):
    """As stat(1) says it, which asks by statx(2); 0: not known."""
    done = subprocess.run(["stat", "-c", "%.9W", path], check=True, stdout=subprocess.PIPE)
    return int(done.stdout.decode().strip().replace(".", ""))


def test_birth(mount):
    """The time of creation, which the commit of a transaction does not change once it is made."""
    before = time.time_ns() - 10**7
    write(mount.path("f"), b"x")
    os.mkdir(mount.path("d"))
    os.mkfifo(mount.path("p"))
    os.symlink("f", mount.path("l"))
    paths = [mount.path(name) for name in "fdpl"]
    born = [birth(path) for path in paths]
    check(all(before < t < before + 60 * 10**9 for t in born), f"{before}: {born}")
    for name, kind in zip("fdpl", ("regular file", "directory", "fifo", "symbolic link")):
        done = subprocess.run(["stat", "-c", "%F %h %a", mount.path(name)], check=True,
                              stdout=subprocess.PIPE)
        check(done.stdout.decode().startswith(kind), done.stdout)
    os.chmod(mount.path("f"), 0o600)
    write(mount.path("f"), b"other")
    os.rename(mount.path("f"), mount.path("g"))
    os.rename(mount.path("g"), mount.path("f"))
    mount.transaction("chmod 644 f; touch d/x; echo y > f")
    equal([birth(path) for path in paths], born)
    mount.remount("dev")
    equal([birth(path) for path in paths], born)
    os.mknod(mount.path("c"), 0o20600, os.makedev(259, 70_000))
    os.stat(mount.path("c"))
    done = subprocess.run(["stat", "-c", "%Hr %Lr", mount.path("c")], check=True,
                          stdout=subprocess.PIPE)
    equal(done.stdout.decode().split(), ["259", "70000"])
    number, root = mount.begin()
    equal(birth(os.path.join(root, "d")), born[1])
    write(os.path.join(root, "new"), b"")
    check(birth(os.path.join(root, "new")) > born[0], "in a view")
    equal(birth(mount.path(".stet", "txn")), 0)
    mount.abort(number)


def atime(path):
    return os.lstat(path).st_atime_ns


def make_old(path, when=OLD):
    os.utime(path, ns=(when, OLD), follow_symlinks=False)
    equal(atime(path), when)


def read_all(root):
    """What reads a file, a directory, a link, and a mapped page."""
    with open(os.path.join(root, "f"), "rb") as file:
        file.read()
    os.listdir(os.path.join(root, "d"))
    os.readlink(os.path.join(root, "l"))


def prepare(mount):
    write(mount.path("f"), b"data")
    os.mkdir(mount.path("d"))
    os.symlink("f", mount.path("l"))
    for name in "fdl":
        make_old(mount.path(name))
    return [mount.path(name) for name in "fdl"]


def test_reading(mount):
    paths = prepare(mount)
    before = time.time_ns() - DAY // 2
    changed = [os.lstat(path).st_ctime_ns for path in paths]
    read_all(mount.dir)
    seen = [atime(path) for path in paths]
    check(all(t > before for t in seen), f"{seen}: not of now")
    equal([os.lstat(path).st_ctime_ns for path in paths], changed, "reading is no change")
    time.sleep(0.02)
    read_all(mount.dir)
    equal([atime(path) for path in paths], seen, "read again")
    time.sleep(0.02)
    write(paths[0], b"new")
    read(paths[0])
    check(atime(paths[0]) > seen[0], "read after a change")
    mount.remount()
    check(atime(paths[0]) > seen[0], "kept")


def test_strict(mount):
    path = prepare(mount)[0]
    mount.remount("strictatime")
    for _ in range(3):
        before = atime(path)
        time.sleep(0.02)
        read(path)
        check(atime(path) > before, "each time")


def test_nothing_read(mount):
    """Opening is not reading, nor is reading nothing."""
    path = prepare(mount)[0]
    fd = os.open(path, os.O_RDONLY)
    os.read(fd, 0)
    equal(os.pread(fd, 10, 100), b"")
    os.close(fd)
    os.close(os.open(mount.path("d"), os.O_RDONLY | os.O_DIRECTORY))
    equal([atime(mount.path(name)) for name in "fd"], [OLD, OLD])


def test_after_a_day(mount):
    path = prepare(mount)[0]
    now = time.time_ns()
    os.utime(path, ns=(now + 10**12, OLD))
    read(path)
    equal(atime(path), now + 10**12, "later than all changes")
    write(mount.path("g"), b"data")
    mount.umount()
    mount.mount()
    with open(mount.path("g"), "r+b", buffering=0) as file:
        make_old(mount.path("g"))
        file.read(1)
    check(atime(mount.path("g")) > OLD, "read through a handle that can write")


def test_without(mount):
    for options, kept in (("noatime", "fdl"), ("nodiratime", "d"), ("ro", "fdl"),
                          ("noatime,relatime", "")):
        if options == "noatime":
            prepare(mount)
        mount.remount()
        for name in "fdl":
            make_old(mount.path(name))
        mount.remount(options)
        read_all(mount.dir)
        equal("".join(n for n in "fdl" if atime(mount.path(n)) == OLD), kept, options)
    mount.remount()
    make_old(mount.path("f"))
    fd = os.open(mount.path("f"), os.O_RDONLY | os.O_NOATIME)
    os.read(fd, 4)
    os.close(fd)
    equal(atime(mount.path("f")), OLD, "O_NOATIME")


def test_transactions(mount):
    """Reading in one changes nothing; reading beside one is not in its way, whatever it sets."""
    paths = prepare(mount)
    number, root = mount.begin()
    read_all(root)
    equal([atime(os.path.join(root, n)) for n in "fdl"], [OLD] * 3)
    os.utime(os.path.join(root, "f"), ns=(5, 5))
    os.chmod(os.path.join(root, "d"), 0o700)
    read_all(mount.dir)
    equal(atime(paths[0]), OLD, "its times are the transaction's to change")
    check(atime(paths[1]) > OLD and atime(paths[2]) > OLD, "the others are not")
    os.utime(os.path.join(root, "d"), ns=(6, 6))
    os.utime(os.path.join(root, "l"), ns=(7, 7), follow_symlinks=False)
    mount.commit(number)
    equal([atime(path) for path in paths], [5, 6, 7])
    make_old(paths[0])
    mount.transaction("cat f", words=["--serializable"])
    mount.transaction("cat f; touch g", words=["--serializable"])
    equal(atime(paths[0]), OLD)


if __name__ == "__main__":
    main(globals())
