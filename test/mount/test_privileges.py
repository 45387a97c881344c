"""Set-id bits and capabilities: who changes a program and is not privileged takes them away, however
he changes it, and whatever the kernel believes the mode to be. And what that costs."""
import errno
import os
import stat

from mountlib import as_user, check, equal, fails, main, read, write

USER = 1000
SET_ID = 0o6777
PLAIN = 0o777
CAPABILITIES = "security.capability"
CAP = bytes.fromhex("0100000200040000000000000000000000000000")  # cap_net_bind_service=ep


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def program(mount, name, mode=SET_ID, capabilities=False):
    path = mount.path(name)
    write(path, b"#!/bin/sh\n" + b"x" * 5000)
    os.chmod(path, mode)
    if capabilities:
        os.setxattr(path, CAPABILITIES, CAP)
    return path


def overwrite(path):
    with open(path, "r+b", buffering=0) as file:
        file.write(b"y")


def append(path):
    with open(path, "ab", buffering=0) as file:
        file.write(b"y")


def fallocate(path):
    with open(path, "r+b", buffering=0) as file:
        os.posix_fallocate(file.fileno(), 0, 100000)


def copy_range(path):
    with open(path, "r+b", buffering=0) as file:
        os.copy_file_range(file.fileno(), file.fileno(), 100, 0, 3000)


CHANGES = {
    "write": overwrite,
    "append": append,
    "open with O_TRUNC": lambda path: write(path, b"z"),
    "truncate": lambda path: os.truncate(path, 10),
    "fallocate": fallocate,
    "copy_file_range": copy_range,
}


def test_user_takes_them_away(mount):
    for number, (what, change) in enumerate(CHANGES.items()):
        path = program(mount, f"p{number}")
        equal(mode_of(path), SET_ID)
        as_user(lambda: change(path), USER)  # pylint: disable=cell-var-from-loop
        equal(oct(mode_of(path)), oct(PLAIN), what)


def test_in_a_transaction(mount):
    os.chmod(mount.dir, 0o755)
    mount.transaction("cp /bin/true f; chmod 6777 f; echo x >> f")
    equal(oct(mode_of(mount.path("f"))), oct(SET_ID))  # root keeps them
    number, root = mount.begin()
    overwrite(os.path.join(root, "f"))
    equal(oct(mode_of(os.path.join(root, "f"))), oct(SET_ID))
    mount.commit(number)


def test_root_keeps_them(mount):
    for what in ("write", "append", "truncate", "fallocate", "copy_file_range"):
        path = program(mount, what)
        CHANGES[what](path)
        equal(oct(mode_of(path)), oct(SET_ID), what)


def test_setgid_without_execute(mount):
    """It stays for those who are in the group."""
    def change():
        os.setgroups(groups)  # pylint: disable=cell-var-from-loop
        os.setgid(USER)
        os.setuid(USER)
        CHANGES[what](path)  # pylint: disable=cell-var-from-loop

    for what in CHANGES:
        for gid, groups, left in ((0, [], 0o766), (USER, [], 0o2766), (77, [5, 77], 0o2766),
                                  (77, list(range(100, 300)), 0o766),
                                  (277, list(range(100, 300)), 0o2766)):
            path = program(mount, "f", mode=0o2766)
            os.chown(path, -1, gid)
            os.chmod(path, 0o2766)
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    change()
                    code = 0
                finally:
                    os._exit(code)
            equal(os.waitpid(child, 0)[1], 0, what)
            equal(oct(mode_of(path)), oct(left), f"{what}, group {gid}")
            os.unlink(path)


def test_chown_takes_them_away(mount):
    path = program(mount, "f", capabilities=True)
    os.chown(path, USER, -1)
    equal(oct(mode_of(path)), oct(PLAIN))
    equal(os.listxattr(path), [])
    folder = mount.path("folder")
    os.mkdir(folder)
    os.chmod(folder, 0o6777)
    os.chown(folder, USER, USER)
    equal(oct(mode_of(folder)), oct(SET_ID), "a directory keeps them")


def test_chown_of_special_files(mount):
    for name, kind in (("fifo", stat.S_IFIFO), ("socket", stat.S_IFSOCK), ("device", stat.S_IFCHR)):
        path = mount.path(name)
        os.mknod(path, kind | 0o600, os.makedev(1, 3))
        os.chown(path, USER, USER)
        os.chmod(path, SET_ID)
        as_user(lambda: os.chown(path, USER, USER), USER)  # pylint: disable=cell-var-from-loop
        equal(oct(mode_of(path)), oct(PLAIN), name)


def test_capabilities(mount):
    for number, (what, change) in enumerate(CHANGES.items()):
        path = program(mount, f"p{number}", mode=PLAIN, capabilities=True)
        equal(os.getxattr(path, CAPABILITIES), CAP)
        as_user(lambda: change(path), USER)  # pylint: disable=cell-var-from-loop
        equal(os.listxattr(path), [], what)


def test_given_by_a_commit(mount):
    """The kernel does not know yet that the file of an open descriptor has become a program."""
    for name, gift in (("s", "chmod 6777 s"),
                       ("c", f"setfattr -n {CAPABILITIES} -v 0x{CAP.hex()} c")):
        path = program(mount, name, mode=PLAIN)
        if name == "c" and not os.path.exists("/usr/bin/setfattr"):
            continue
        with open(path, "r+b", buffering=0) as file:
            file.write(b"1")

            def give():
                mount.transaction(gift)  # pylint: disable=cell-var-from-loop
            give()
            as_user(lambda: file.write(b"2"), USER)  # pylint: disable=cell-var-from-loop
        equal(oct(mode_of(path)), oct(PLAIN), name)
        equal(os.listxattr(path), [], name)


def test_cannot_be_executed_with_them(mount):
    """Not even by the mode that the kernel had before."""
    path = mount.path("id")
    write(path, read("/usr/bin/id"))
    os.chmod(path, SET_ID)

    def change_and_run():
        equal(os.popen(f"{path} -u").read(), "0\n")
        with open(path, "r+b", buffering=0) as file:
            os.stat(path)
            file.write(b"\x7f")
        equal(os.popen(f"{path} -u").read(), f"{USER}\n")

    if os.statvfs(mount.dir).f_flag & os.ST_NOSUID:
        mount.remount("suid")
    if not os.statvfs(mount.dir).f_flag & os.ST_NOSUID:
        os.chmod(mount.folder, 0o755)
        as_user(change_and_run, USER)


def in_both(mount, test):
    """In the main tree, and in a view (entered first: users may not pass the directories above it)."""
    os.chmod(mount.dir, 0o755)
    number, root = mount.begin()
    for place in (mount.dir, root):
        os.mkdir(os.path.join(place, "both" if place == root else "main"))
        here = os.open(".", os.O_RDONLY)
        os.chdir(os.path.join(place, "both" if place == root else "main"))
        try:
            test()
        finally:
            os.fchdir(here)
            os.close(here)
    mount.commit(number)


def test_setgid_directories(mount):
    def check_here():
        os.mkdir("d")
        os.chown("d", USER, 2000)
        os.chmod("d", 0o2777)

        def make():
            os.umask(0)
            write("d/f", b"x")
            os.mkdir("d/sub", 0o755)
            os.mkfifo("d/p", 0o600)
            os.symlink("f", "d/l")
            os.close(os.open("d/x", os.O_CREAT | os.O_WRONLY, 0o2755))  # not in the group
            os.chmod("d/f", 0o2755)  # nor here
            write("own", b"")
            os.chmod("own", 0o2755)
        os.chmod(".", 0o777)
        as_user(make, USER)
        equal([os.lstat("d/" + name).st_gid for name in ("f", "sub", "p", "l", "x")], [2000] * 5)
        equal([oct(mode_of("d/" + name)) for name in ("f", "sub", "p", "x")],
              ["0o755", "0o2755", "0o600", "0o755"])
        equal((os.stat("own").st_gid, oct(mode_of("own"))), (USER, "0o2755"))
    in_both(mount, check_here)


def test_sticky_directories(mount):
    def check_here():
        os.mkdir("d")
        os.chmod("d", 0o1777)
        write("d/root", b"")
        as_user(lambda: write("d/mine", b""), USER)

        def try_others():
            for name in ("root", "mine"):
                fails(errno.EPERM, os.unlink, "d/" + name)
                fails(errno.EPERM, os.rename, "d/" + name, "d/new")
            write("d/other", b"")
            fails(errno.EPERM, os.rename, "d/other", "d/mine")
        as_user(try_others, USER + 1)
        as_user(lambda: os.rename("d/mine", "d/still mine"), USER)
        as_user(lambda: os.unlink("d/still mine"), USER)
        os.unlink("d/other")
        equal(os.listdir("d"), ["root"])
    in_both(mount, check_here)


def requests(mount):
    for line in mount.run("stats", mount.dir).splitlines():
        if line.startswith("mount_requests"):
            return int(line.split()[1])
    raise KeyError("mount_requests")


def test_cost(mount):
    """Small writes are one request each."""
    path = program(mount, "f", mode=0o666)
    with open(path, "r+b", buffering=0) as file:
        file.write(b"first")
        before = requests(mount)
        for _ in range(500):
            file.write(b"x")
        extra = requests(mount) - before - 500
    check(0 <= extra <= 20, f"{extra} more requests than writes")
    try:
        os.getxattr(path, "user.none")
    except OSError as failure:
        equal(failure.errno, errno.ENODATA)


if __name__ == "__main__":
    main(globals())
