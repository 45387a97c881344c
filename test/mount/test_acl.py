"""POSIX ACLs: who may do what by them, mode and ACL in step, inheritance and umask, in the main tree and in
transactions; and that a commit makes the kernel forget the ACLs that it has cached."""
import errno
import os
import stat
import struct
import subprocess

from mountlib import as_user, check, equal, fails, main, read, write

USER, OTHER, GROUP = 1000, 1001, 2000
ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
TAGS = {"u:": 1, "u": 2, "g:": 4, "g": 8, "m": 16, "o": 32}


def acl(*entries):
    """acl(("u:", 7), ("u", 5, 1000), ...)"""
    packed = [struct.pack("<HHI", TAGS[e[0]], e[1], e[2] if len(e) > 2 else 0xffffffff)
              for e in entries]
    return struct.pack("<I", 2) + b"".join(packed)


def named(perm=6, mask=7, owner=6, group=4, other=0, uid=USER):
    return acl(("u:", owner), ("u", perm, uid), ("g:", group), ("m", mask), ("o", other))


def mode_of(path):
    return oct(stat.S_IMODE(os.lstat(path).st_mode))


def xattrs(path):
    return [n for n in os.listxattr(path) if n.startswith("system.")]


def can(path, flags, uid=USER, gids=()):
    """Can that user open it?"""
    def attempt():
        os.setgroups(gids)
        os.setgid(uid)
        os.setuid(uid)
        os.close(os.open(path, flags))
    child = os.fork()
    if child == 0:
        code = 2
        try:
            attempt()
            code = 0
        except PermissionError:
            code = 1
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    check(code < 2, f"{path}: neither opened nor refused")
    return code == 0


def check_access(path):
    write(path, b"x")
    os.chmod(path, 0o600)
    check(not can(path, os.O_RDONLY), "nobody else may read it yet")
    os.setxattr(path, ACCESS, named())
    equal(mode_of(path), "0o670")
    equal(os.getxattr(path, ACCESS), named())
    check(can(path, os.O_RDWR), "the ACL names him")
    check(not can(path, os.O_RDONLY, OTHER), "it does not name him")
    check(not can(path, os.O_RDWR, OTHER, [0]), "the group may not write")
    check(can(path, os.O_RDONLY, OTHER, [0]), "the group may read")
    os.chmod(path, 0o640)
    equal(os.getxattr(path, ACCESS), named(mask=4))
    check(can(path, os.O_RDONLY) and not can(path, os.O_WRONLY), "the mask counts")
    os.chmod(path, 0o600)
    check(not can(path, os.O_RDONLY), "no more")
    os.setxattr(path, ACCESS, acl(("u:", 6), ("g:", 4), ("o", 0)))
    equal((mode_of(path), xattrs(path)), ("0o640", []))
    os.setxattr(path, ACCESS, named())
    os.removexattr(path, ACCESS)
    equal((mode_of(path), xattrs(path)), ("0o670", []))
    os.removexattr(path, ACCESS)
    check(not can(path, os.O_RDONLY), "removed")


def test_access(mount):
    check_access(mount.path("f"))


def test_access_in_view(mount):
    number, root = mount.begin()
    os.chmod(root, 0o755)
    path = os.path.join(root, "f")
    write(path, b"x")
    os.setxattr(path, ACCESS, named(mask=4))
    equal((mode_of(path), os.getxattr(path, ACCESS)), ("0o640", named(mask=4)))
    os.chmod(path, 0o620)
    equal(os.getxattr(path, ACCESS), named(mask=2))
    os.setxattr(root, DEFAULT, named())
    write(os.path.join(root, "g"), b"x")
    equal(os.getxattr(os.path.join(root, "g"), ACCESS), named(mask=6))
    mount.commit(number)
    equal(os.getxattr(mount.path("f"), ACCESS), named(mask=2))
    equal(os.getxattr(mount.path("g"), ACCESS), named(mask=6))
    check(can(mount.path("g"), os.O_RDWR), "the ACL came with the commit")


def test_in_run(mount):
    """The bind mount of a command that runs in a transaction checks them too."""
    os.chmod(mount.dir, 0o755)
    write(mount.path("f"), b"x\n")
    os.chmod(mount.path("f"), 0o600)
    words = f"setpriv --reuid={USER} --regid={USER} --clear-groups"
    mount.transaction(f"! {words} cat f 2>/dev/null && setfacl -m u:{USER}:r f && "
                      f"test x = $({words} cat f)")
    equal(os.getxattr(mount.path("f"), ACCESS), named(perm=4, mask=4, group=0))


def test_commit_is_seen(mount):
    """The kernel has cached that there is no ACL, or another one."""
    path = mount.path("f")
    write(path, b"x")
    os.chmod(path, 0o660)
    os.chmod(mount.dir, 0o755)
    for _ in range(3):
        check(not can(path, os.O_RDONLY), "not yet")
        mount.transaction(f"setfacl -m u:{USER}:r f")
        check(can(path, os.O_RDONLY) and not can(path, os.O_WRONLY), "read only")
        mount.transaction(f"setfacl -m u:{USER}:rw f")
        check(can(path, os.O_WRONLY), "write")
        mount.transaction("chmod 640 f")
        check(can(path, os.O_RDONLY) and not can(path, os.O_WRONLY), "masked")
        mount.transaction(f"setfacl -b f; chmod 660 f")
    check(not can(path, os.O_RDONLY), "gone")


def test_inheritance(mount):
    folder = mount.path("d")
    os.mkdir(folder, 0o755)
    os.setxattr(folder, DEFAULT, named(perm=7, owner=7, group=5, other=5))
    before = os.umask(0o077)
    try:
        write(os.path.join(folder, "file"), b"")
        os.mkdir(os.path.join(folder, "dir"))
        os.mkfifo(os.path.join(folder, "fifo"), 0o640)
        os.symlink("x", os.path.join(folder, "link"))
        write(mount.path("file"), b"")
        os.mkdir(mount.path("dir"))
        os.mkfifo(mount.path("fifo"))
    finally:
        os.umask(before)
    equal([mode_of(os.path.join(folder, n)) for n in ("file", "dir", "fifo", "link")],
          ["0o664", "0o775", "0o640", "0o777"])
    equal([mode_of(mount.path(n)) for n in ("file", "dir", "fifo")], ["0o600", "0o700", "0o600"])
    equal(os.getxattr(os.path.join(folder, "file"), ACCESS),
          named(perm=7, owner=6, group=5, mask=6, other=4))
    equal(os.getxattr(os.path.join(folder, "dir"), DEFAULT),
          named(perm=7, owner=7, group=5, other=5))
    equal(os.listxattr(os.path.join(folder, "link"), follow_symlinks=False), [])
    os.removexattr(folder, DEFAULT)
    write(os.path.join(folder, "plain"), b"")
    equal(xattrs(os.path.join(folder, "plain")), [])


def test_refused(mount):
    path = mount.path("f")
    write(path, b"")
    os.symlink("f", mount.path("l"))
    fails(errno.EACCES, os.setxattr, path, DEFAULT, named())
    fails(errno.EOPNOTSUPP, os.setxattr, mount.path("l"), ACCESS, named(), follow_symlinks=False)
    fails(errno.EINVAL, os.setxattr, path, ACCESS, acl(("u:", 7), ("o", 7)))
    fails(errno.EINVAL, os.setxattr, path, ACCESS,
          acl(("u:", 7), ("u", 7, 5), ("g:", 7), ("o", 7)))
    fails(errno.EOPNOTSUPP, os.setxattr, path, "system.other", b"x")
    fails(errno.EOPNOTSUPP, os.getxattr, path, "system.other")
    equal(xattrs(path), [])
    as_user(lambda: fails(errno.EPERM, os.setxattr, path, ACCESS, named()), USER)
    as_user(lambda: fails(errno.EPERM, os.removexattr, path, ACCESS), USER)


def test_setgid(mount):
    """Who is not in the group of his file loses the bit when he sets an ACL."""
    path = mount.path("f")
    for gid, mode in ((USER, "0o2770"), (GROUP, "0o770")):
        write(path, b"")
        os.chown(path, USER, gid)
        os.chmod(path, 0o2755)
        as_user(lambda: os.setxattr(path, ACCESS, named(owner=7)), USER)
        equal(mode_of(path), mode)
        os.unlink(path)
    write(path, b"")
    os.chown(path, USER, GROUP)
    os.chmod(path, 0o2755)
    os.setxattr(path, ACCESS, named(owner=7))
    equal(mode_of(path), "0o2770", "root keeps it")
    os.setxattr(path, "user.long", b"v" * 5000)
    equal(os.getxattr(path, "user.long"), b"v" * 5000)


def test_remount(mount):
    write(mount.path("f"), b"")
    os.setxattr(mount.path("f"), ACCESS, named())
    os.setxattr(mount.dir, DEFAULT, named())
    os.chmod(mount.path("f"), 0o640)
    mount.remount()
    equal(os.getxattr(mount.path("f"), ACCESS), named(mask=4))
    equal(os.getxattr(mount.dir, DEFAULT), named())


def test_tools(mount):
    """setfacl, getfacl, cp -a, and this program's own copies."""
    def text(path):
        done = subprocess.run(["getfacl", "-cnp", path], check=True, stdout=subprocess.PIPE)
        return done.stdout.decode().split()

    folder = mount.path("d")
    os.mkdir(folder)
    subprocess.run(["setfacl", "-m", f"u:{USER}:rwx,d:g:{GROUP}:rx", folder], check=True)
    write(os.path.join(folder, "f"), b"x")
    subprocess.run(["cp", "-a", folder, mount.path("copy")], check=True)
    equal(text(mount.path("copy")), text(folder))
    equal(text(mount.path("copy", "f")), text(mount.path("d", "f")))
    mount.run("cp", "-r", f"{mount.image}:/d", mount.folder)
    equal(os.getxattr(os.path.join(mount.folder, "d"), DEFAULT), os.getxattr(folder, DEFAULT))
    mount.run("cp", "-r", os.path.join(mount.folder, "d"), f"{mount.image}:/copy")
    equal(text(mount.path("copy", "d")), text(folder))
    equal(text(mount.path("copy", "d", "f")), text(mount.path("d", "f")))
    mount.umount()
    mount.run("cp", "-r", f"{mount.image}:/d", os.path.join(mount.folder, "offline"))
    equal(text(os.path.join(mount.folder, "offline")), text(os.path.join(mount.folder, "d")))
    mount.mount()


def test_trusted_names(mount):
    """Users are not shown names that they may not read."""
    path = mount.path("f")
    write(path, b"")
    os.chmod(path, 0o666)
    for name in ("trusted.a", "user.b", "trusted.c", "user.trusted.d"):
        os.setxattr(path, name, b"x")
    equal(sorted(os.listxattr(path)), ["trusted.a", "trusted.c", "user.b", "user.trusted.d"])
    as_user(lambda: equal(sorted(os.listxattr(path)), ["user.b", "user.trusted.d"]), USER)
    equal(read(path), b"")


if __name__ == "__main__":
    main(globals())
