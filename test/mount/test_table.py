#!/usr/bin/env python3
"""A table on a mount: seen, named and removed as a file, opened by nobody, lost by no copy."""
import errno
import os
import shutil
import stat
import subprocess

from mountlib import STETFS, check, equal, fails, main, write

XATTR = "user.stetfs.table"


def make(m, path="/t", count=3):
    """The volume is not mounted meanwhile."""
    m.umount()
    m.run("table", f"{m.image}:{path}", "load",
          input="".join(f"k{i}\tv{i}\n" for i in range(count)).encode())
    m.mount()


def records(m, path="/t"):
    m.umount()
    m.check()
    text = m.run("table", f"{m.image}:{path}", "scan", "-k")
    m.mount()
    return text.split()


def test_attributes(m):
    make(m)
    make(m, "/empty", 0)
    path = m.path("t")
    st = os.stat(path)
    check(stat.S_ISREG(st.st_mode), "a regular file")
    equal((stat.S_IMODE(st.st_mode), st.st_size), (0o644, 3), "mode and size")
    equal(os.stat(m.path("empty")).st_size, 1, "an empty one is not of size 0")
    for entry in os.scandir(m.dir):
        check(entry.is_file(follow_symlinks=False), "type in the listing")
    equal(os.getxattr(path, XATTR), b"3", "number of records")
    equal(os.getxattr(m.path("empty"), XATTR), b"0", "number of records")
    check(XATTR in os.listxattr(path), "listed")
    fails(errno.EPERM, os.setxattr, path, XATTR, b"4")
    fails(errno.EPERM, os.removexattr, path, XATTR)
    os.setxattr(path, "user.mine", b"x")
    equal(sorted(os.listxattr(path)), ["user.mine", XATTR], "attributes")
    write(m.path("file"), b"")
    fails(errno.ENODATA, os.getxattr, m.path("file"), XATTR)
    os.chmod(path, 0o600)
    os.utime(path, (1, 2))
    os.chown(path, 5, 6)
    st = os.stat(path)
    equal((stat.S_IMODE(st.st_mode), st.st_mtime, st.st_uid, st.st_gid), (0o600, 2, 5, 6), "changed")
    equal(records(m), ["k0", "k1", "k2"], "records")


def test_no_data(m):
    make(m)
    path = m.path("t")
    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_TRUNC, os.O_WRONLY | os.O_APPEND,
                  os.O_RDWR | os.O_CREAT, os.O_RDONLY | os.O_DIRECT):
        fails(errno.EPERM, os.open, path, flags)
    fails(errno.EPERM, os.truncate, path, 0)
    fails(errno.EPERM, os.truncate, path, 100)
    os.chmod(path, 0o755)
    fails(errno.EPERM, subprocess.run, [path], check=False)
    number, root = m.begin()
    fails(errno.EPERM, os.open, os.path.join(root, "t"), os.O_RDWR)
    fails(errno.EPERM, os.truncate, os.path.join(root, "t"), 0)
    m.abort(number)
    equal(os.getxattr(path, XATTR), b"3", "number of records")
    equal(records(m), ["k0", "k1", "k2"], "records")


def test_names(m):
    make(m)
    os.link(m.path("t"), m.path("twin"))
    os.rename(m.path("t"), m.path("moved"))
    equal(os.stat(m.path("twin")).st_nlink, 2, "links")
    os.mkdir(m.path("d"))
    m.transaction("mv moved d/t && rm twin")
    equal(os.listdir(m.path("d")), ["t"], "names")
    write(m.path("file"), b"x")
    os.rename(m.path("file"), m.path("d", "t"))
    with open(m.path("d", "t"), "rb") as file:
        equal(file.read(), b"x", "a file over a table")
    make(m, "/u")
    os.remove(m.path("u"))
    m.remount()


def test_copies_fail(m):
    """Whoever copies a tree says that he could not copy the table, and makes no empty file of it."""
    out = os.path.join(m.folder, "out")
    for count in (0, 3):
        os.makedirs(m.path("tree"), exist_ok=True)
        write(m.path("tree", "file"), b"x")
        make(m, "/tree/t", count)
        commands = [["cp", "-a", m.path("tree"), out], ["tar", "-cf", out + ".tar", "-C", m.dir, "tree"]]
        if shutil.which("rsync"):
            commands.append(["rsync", "-a", m.path("tree"), out])
        for command in commands:
            done = subprocess.run(command, capture_output=True, check=False, timeout=60)
            check(done.returncode != 0, f"{command[0]} succeeded")
            check(b"not permitted" in done.stderr, f"{command[0]}: {done.stderr!r}")
            check(not os.path.exists(os.path.join(out, "tree", "t")) and
                  not os.path.exists(os.path.join(out, "t")), f"{command[0]} made something")
            shutil.rmtree(out, ignore_errors=True)
        done = subprocess.run(["tar", "-tf", out + ".tar"], capture_output=True, check=True, timeout=60)
        check(b"tree/t\n" not in done.stdout, f"in the archive: {done.stdout!r}")
        os.remove(m.path("tree", "t"))


def test_files_do_not_replace_it(m):
    """Copying a file onto a table, mounted or not, would lose its records."""
    make(m)
    folder = os.path.join(m.folder, "in")
    os.mkdir(folder)
    write(os.path.join(folder, "t"), b"text")
    table = f"{m.image}:/t"
    for _ in range(2):
        before = m.run("table", table, "count")
        for words in (["cp", os.path.join(folder, "t"), table], ["put", os.path.join(folder, "t"), table],
                      ["cp", "-r", folder + "/.", f"{m.image}:/"]):
            check("is a table" in m.run(*words, code=1), words)
        equal(m.run("table", table, "count"), before)
        if m.is_mounted():
            m.umount()
    m.mount()


def test_changes_at_once(m):
    """Single records are changed one after the other, whoever does it; more of them conflict, and say with what."""
    make(m)
    table = f"{m.image}:/t"
    puts = [subprocess.Popen([STETFS, "table", table, "put", "same", f"v{i}"]) for i in range(30)]
    equal([p.wait(60) for p in puts], [0] * 30)
    check(m.run("table", table, "get", "same").startswith("v"), "none was last")


def test_commands(m):
    """Commands on VOLUME:/path know it through the mount, too."""
    make(m)
    write(m.path("file"), b"x")
    check("trw-r--r--" in m.run("ls", "-l", f"{m.image}:/"), "ls -l")
    equal(m.run("find", f"{m.image}:/", "-type", "t"), f"{m.image}:/t", "find")
    equal(m.run("find", f"{m.image}:/", "-type", "f"), f"{m.image}:/file", "find")
    check("type: table" in m.run("stat", f"{m.image}:/t"), "stat")
    check('"type": "table"' in m.run("ls", "--json", f"{m.image}:/"), "ls --json")
    check("is a table" in m.run("cat", f"{m.image}:/t", code=1), "cat")
    check("is a table" in m.run("cp", f"{m.image}:/t", f"{m.image}:/u", code=1), "cp")
    m.run("mv", f"{m.image}:/t", f"{m.image}:/u")
    number, root = m.begin()
    os.remove(os.path.join(root, "u"))
    check("D /u" in m.run("diff", m.dir, number), "diff")
    m.commit(number)


if __name__ == "__main__":
    main(globals())
