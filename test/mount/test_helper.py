#!/usr/bin/env python3
"""Mounting as the system does it: mount(8), fstab, fsck(8), mkfs(8), umount(8), users.

The helpers are found in /sbin only. So all of this runs in a mount namespace of its own, with an
overlay over /usr/sbin where they are links to the program: nothing of the machine changes.
"""
import ctypes
import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
import time

from mountlib import (SKIP, STETFS, as_user, check, equal, fails, is_gone, main, read, wait_gone,
                      write)

LIBC = ctypes.CDLL(None, use_errno=True)
NAMES = ("mount.stetfs", "mount.fuse.stetfs", "fsck.stetfs", "mkfs.stetfs")


def system(*words, code=0, **kwargs):
    """A command of the system; what it says."""
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          timeout=60, **kwargs)
    text = done.stdout.decode(errors="replace")
    if code is not None:
        equal(done.returncode, code, f"{' '.join(words)}: {text}")
    return text.strip()


def options_of(path):
    return system("findmnt", "-no", "OPTIONS", path).split(",")


def test_mount(m):
    m.umount()
    for kind in ("stetfs", "fuse.stetfs"):
        system("mount", "-t", kind, m.image, m.dir)
        equal(system("findmnt", "-no", "SOURCE,FSTYPE", m.dir).split(), [m.image, "fuse.stetfs"])
        write(m.path("a"), b"a")
        for _ in range(10):
            system("umount", m.dir)
            system("mount", "-t", kind, m.image, m.dir)  # waits for the one that is still closing
            equal(read(m.path("a")), b"a", "content")
        system("umount", m.dir)
    m.mount()


def test_options(m):
    m.umount()
    system("mount", "-t", "stetfs", "-o", "ro,noatime,nofail,noexec", m.image, m.dir)
    words = options_of(m.dir)
    check({"ro", "noatime", "noexec", "nosuid", "nodev", "default_permissions"} <= set(words), words)
    fails(errno.EROFS, os.mkdir, m.path("d"))
    system("umount", m.dir)
    m.mount("suid,dev")
    words = options_of(m.dir)
    check("nosuid" not in words and "nodev" not in words, words)
    m.umount()
    every = ("defaults,async,atime,auto,dev,diratime,dirsync,exec,group,_netdev,nofail,relatime,"
             "strictatime,lazytime,suid,owner,rw,sync,user,users,x-systemd.automount,X-mount.mkdir,"
             "comment=words,nodiratime,norelatime,silent,loud,nolazytime,nouser,noiversion")
    system("mount.stetfs", m.image, m.dir, "-o", every)
    m.umount()
    system("mount", "-s", "-t", "stetfs", "-o", "nonsense", m.image, m.dir)
    m.umount()
    m.mount()


def test_recovery_is_read_only(m):
    """With or without ro, also after the rw that mount(8) puts in front."""
    m.umount()
    for words in ("recovery=prefix", "ro,recovery=prefix", "rw,recovery=prefix"):
        system("mount", "-t", "stetfs", "-o", words, m.image, m.dir)
        check("ro" in options_of(m.dir), options_of(m.dir))
        fails(errno.EROFS, os.mkdir, m.path("d"))
        system("umount", m.dir)
    text = system("mount.stetfs", m.image, m.dir, "-o", "recovery=prefix,rw", code=1)
    check("only together with ro" in text, text)
    m.mount()


def test_who_may_use(m):
    """noallow_other gets through mount(8), which takes the word private for itself."""
    write(m.path("f"), b"x")
    m.umount()
    system("mount", "-t", "stetfs", "-o", "noallow_other", m.image, m.dir)
    check("allow_other" not in options_of(m.dir), options_of(m.dir))
    as_user(lambda: fails(errno.EACCES, os.stat, m.path("f")))
    system("umount", m.dir)
    for words in (["mount.stetfs"], ["mount.stetfs", "-s"]):
        check("noallow_other" in system(*words, m.image, m.dir, "-o", "private", code=1), words)
    text = system("mount.stetfs", m.image, m.dir, "-o", "noallow_other,allow_other", code=1)
    check("contradict" in text and not m.is_mounted(), text)
    system("mount", "-t", "stetfs", m.image, m.dir)
    as_user(lambda: equal(read(m.path("f")), b"x"))


def test_trust(m):
    """allow_suid and allow_dev get through mount(8) and fstab; suid and dev do not."""
    table = os.path.join(m.folder, "fstab")
    m.umount()
    for words, off in (("suid,dev", {"nosuid", "nodev"}),
                       ("allow_suid", {"nodev"}),
                       ("allow_dev", {"nosuid"}),
                       ("allow_suid,allow_dev,noexec", set()),
                       ("allow_suid,nosuid,nodev,allow_dev", {"nosuid", "nodev"})):
        system("mount", "-t", "stetfs", "-o", words, m.image, m.dir)
        equal({"nosuid", "nodev"} & set(options_of(m.dir)), off, words)
        system("umount", m.dir)
        write(table, f"{m.image} {m.dir} stetfs {words} 0 0\n".encode())
        system("mount", "-T", table, m.dir)
        equal({"nosuid", "nodev"} & set(options_of(m.dir)), off, f"fstab: {words}")
        system("umount", m.dir)
    for words, off in (("suid,dev", set()), ("nosuid,suid", {"nodev"}),
                       ("suid,nosuid", {"nosuid", "nodev"}), ("nosuid,allow_suid", {"nosuid", "nodev"})):
        system("mount.stetfs", m.image, m.dir, "-o", words)
        equal({"nosuid", "nodev"} & set(options_of(m.dir)), off, f"called directly: {words}")
        system("umount", m.dir)
    system("mount.stetfs", m.image, m.dir, "-o", "uid=1000,allow_suid", code=1)
    m.mount()


def test_fstab(m):
    m.umount()
    table = os.path.join(m.folder, "fstab")
    write(table, f"{m.image} {m.dir} stetfs defaults,noatime,nofail,x-systemd.automount,flush=1 "
                 "0 2\n".encode())
    system("mount", "-a", "-T", table)
    check(m.is_mounted() and "noatime" in options_of(m.dir), "mounted")
    system("mount", "-a", "-T", table)  # it is already
    system("umount", m.dir)
    write(table, f"{m.folder}/missing {m.dir} stetfs nofail 0 0\n".encode())
    equal(system("mount", "-a", "-T", table), "", "nofail says nothing")
    check(not m.is_mounted(), "nothing to mount")
    system("mount.stetfs", m.folder + "/missing", m.dir, "-o", "ro", code=32)
    m.mount()


def test_codes(m):
    """Those of mount(8), and one line each."""
    for code, words in ((1, [m.image]),
                        (1, [m.image, m.dir, "-z"]),
                        (1, [m.image, m.dir, "-o", "nonsense"]),
                        (1, [m.image, m.dir, "-o", "foreground"]),
                        (1, [m.image, m.dir, "-o", "remount,ro"]),
                        (32, [m.image, m.dir]),
                        (32, [m.folder + "/none", m.dir]),
                        (32, [m.image, m.folder + "/none"]),
                        (32, [m.image, m.dir, "-N", m.folder + "/none"])):
        text = system("mount.stetfs", *words, code=code)
        check(text.startswith("stetfs: ") and "\n" not in text and ".c:" not in text, text)
    system("mount.stetfs", m.folder + "/none", m.dir, "-f", "-o", "ro")
    check("unmount it" in system("mount", "-o", "remount,ro", m.dir, code=None), "remount")


def test_usage(m):
    """Errors of usage, and the help, name the program that was called."""
    for name, code, words in (("mount.stetfs", 1, ["a"]), ("mount.fuse.stetfs", 1, ["a", "b", "-z"]),
                              ("mount.stetfs", 1, ["a", "b", "-o", "nonsense"]),
                              ("fsck.stetfs", 16, []), ("fsck.stetfs", 16, ["-Z", m.image]),
                              ("fsck.stetfs", 16, ["a", "b"]), ("mkfs.stetfs", 2, ["-Z", "a"])):
        text = system(name, *words, code=code)
        check(text.startswith(f"stetfs: {name}: ") and text.endswith(f'(see "{name} --help")'), text)
        check(system(name, "--help").startswith(f"Usage: {name} "), name)
    text = m.run("mount", "a", code=2)
    check(text.startswith("stetfs: mount: ") and text.endswith('(see "stetfs mount --help")'), text)


def test_interrupted(m):
    """Told to end while it waits for a daemon that is closing the volume, it ends: nothing is mounted."""
    for number in (signal.SIGTERM, signal.SIGINT):
        pid = m.daemon()
        os.kill(pid, signal.SIGSTOP)
        try:
            equal(LIBC.umount2(m.dir.encode(), 2), 0, "umount2")  # umount(8) would ask it
            helper = subprocess.Popen(["mount.stetfs", m.image, m.dir], stderr=subprocess.PIPE)
            time.sleep(0.2)
            equal(helper.poll(), None, "it waits")
            helper.send_signal(number)
            equal(helper.wait(5), 8, "exit code")
            equal(helper.communicate()[1].decode(), f"stetfs: {m.image}: interrupted\n", "line")
        finally:
            os.kill(pid, signal.SIGCONT)
        wait_gone(pid)
        check(not m.is_mounted(), "nothing is mounted")
        m.mount()


def test_fsck_and_mkfs(m):
    equal(system("fsck.stetfs", "-a", m.image, code=8).count(m.dir), 1, "the holder is named")
    m.umount()
    for words in (["-a"], ["-p"], ["-n"], ["-y"], ["-f"], ["-a", "-f"], ["-C0"], ["-C", "0"],
                  ["-V"], ["-v", "-n"]):
        system("fsck.stetfs", *words, m.image)
    system("fsck.stetfs", "-Z", m.image, code=16)
    system("fsck.stetfs", code=16)
    system("fsck", "-t", "stetfs", "-n", m.image)
    system("fsck", "-T", "-t", "stetfs", m.image, "--", "-f")
    with open(m.image, "r+b") as image:
        image.write(bytes(8 << 20))
    system("fsck.stetfs", "-n", m.image, code=4)
    with open(m.image, "r+b") as image:
        image.write(bytes(os.path.getsize(m.image)))
    system("fsck.stetfs", "-n", m.image, code=8)
    system("mkfs", "-t", "stetfs", m.image)
    check(" holds a StetFS volume" in system("mkfs.stetfs", m.image, code=1), "refused")
    m.mount()


def test_other_namespace(m):
    """mount -N: the mount appears there, and only there."""
    m.umount()
    other = subprocess.Popen(["unshare", "-m", "--propagation", "private", "sh", "-c",
                              f"echo ready; read line; findmnt -no FSTYPE {m.dir}; "
                              f"umount {m.dir}"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    equal(other.stdout.readline(), b"ready\n")
    system("mount", "-N", str(other.pid), "-t", "stetfs", m.image, m.dir)
    check(not m.is_mounted(), "not here")
    out, _ = other.communicate(b"\n", timeout=20)
    equal(out, b"fuse.stetfs\n", "but there")
    m.mount()


def test_owner(m):
    """uid= and gid=: all files are his, whatever the volume says."""
    write(m.path("roots"), b"x")
    os.chmod(m.path("roots"), 0o600)
    m.remount("uid=1000,gid=1001,allow_other")
    st = os.stat(m.path("roots"))
    equal((st.st_uid, st.st_gid), (1000, 1001), "shown")
    equal([os.stat(m.dir).st_uid, os.stat(m.dir).st_gid], [1000, 1001], "the root")

    def use():
        write(m.path("roots"), b"y")
        write(m.path("new"), b"n")
        os.chown(m.path("new"), 1000, -1)
        os.mkdir(m.path("d"))
    as_user(use)
    os.chown(m.path("roots"), 1000, 1001)
    fails(errno.EPERM, os.chown, m.path("roots"), 0, -1)
    fails(errno.EPERM, os.chown, m.path("roots"), -1, 0)
    os.chmod(m.path("roots"), 0o640)
    write(m.path("by-root"), b"r")
    number, root = m.begin()
    equal(os.stat(os.path.join(root, "roots")).st_uid, 1000, "in a transaction")
    write(os.path.join(root, "staged"), b"s")
    m.commit(number)
    m.remount()
    owners = {name: (os.stat(m.path(name)).st_uid, os.stat(m.path(name)).st_gid)
              for name in sorted(os.listdir(m.dir))}
    equal(owners, {"roots": (0, 0), "new": (1000, 1001), "d": (1000, 1001),
                   "by-root": (1000, 1001), "staged": (1000, 1001)}, "stored")
    equal(stat.S_IMODE(os.stat(m.path("roots")).st_mode), 0o640, "mode")
    m.umount()
    m.run("mount", m.image, m.dir, "-o", "uid=1000,suid", code=2)
    m.mount()


def test_without_dot_stet(m):
    os.mkdir(m.path("d"))
    m.remount("nodotstet")
    fails(errno.ENOENT, os.stat, m.path(".stet"))
    fails(errno.EPERM, os.mkdir, m.path(".stet"))
    fails(errno.EPERM, os.rename, m.path("d"), m.path(".stet"))
    for words, code in ((["begin", m.dir], 1), (["run", m.dir, "--", "true"], 125),
                        (["ls", m.image + ":/"], 1)):
        check("mounted with nodotstet" in m.run(*words, code=code), words)
    m.run("sync", m.dir)
    m.remount()
    os.stat(m.path(".stet"))


def test_past(m):
    """The places of snapshots and of history are there, empty and read-only."""
    dot = m.path(".stet")
    equal(sorted(os.listdir(dot)), ["history", "snapshots", "txn"], "places")
    equal(os.stat(dot).st_nlink, 5, "links")
    for name in ("history", "snapshots"):
        path = os.path.join(dot, name)
        st = os.stat(path)
        equal((st.st_mode, st.st_uid, st.st_nlink), (stat.S_IFDIR | 0o555, 0, 2), name)
        equal(os.listdir(path), [], name)
        fails(errno.EROFS, os.mkdir, os.path.join(path, "x"))
        fails(errno.EROFS, os.open, os.path.join(path, "x"), os.O_CREAT | os.O_WRONLY)
        fails(errno.EROFS, os.symlink, "x", os.path.join(path, "x"))
        fails(errno.EROFS, os.chmod, path, 0o777)
        fails(errno.EROFS, os.setxattr, path, "user.x", b"x")
        fails(errno.ENOENT, os.unlink, os.path.join(path, "x"))
        fails(errno.EPERM, os.rmdir, path)
        fails(errno.EPERM, os.rename, path, os.path.join(dot, "x"))
        as_user(lambda p=path: fails(errno.EACCES, os.mkdir, os.path.join(p, "x")))
    fails(errno.EPERM, os.mkdir, os.path.join(dot, "x"))
    number, _ = m.begin()
    equal(os.stat(os.path.join(dot, "txn", number)).st_nlink, 3, "a guard")
    m.abort(number)


def test_several_volumes(m):
    """Beside each other, each with its own socket; and one image once only."""
    others = []
    for i in range(3):
        image, folder = (os.path.join(m.folder, f"{name}{i}") for name in ("image", "dir"))
        os.mkdir(folder)
        m.run("mkfs", image, "--size", "32M")
        system("mount", "-t", "stetfs", image, folder)
        others.append(folder)
        text = system("mount", "-t", "stetfs", image, m.folder, code=32)
        check(f"in use: mounted at {folder} (process " in text, text)
    for i, folder in enumerate(others):
        number = m.run("begin", folder)
        write(os.path.join(folder, ".stet", "txn", number, "root", f"f{i}"), b"x")
        m.run("commit", folder, number)
    for i, folder in enumerate(others):
        equal(os.listdir(folder), [f"f{i}"], folder)
        system("umount", folder)


def test_users_mount(m):
    """With fusermount3, as it is for users: the device is open to all here, in this namespace."""
    if not shutil.which("fusermount3"):
        print("  (no fusermount3)")
        return
    device = os.path.join(m.folder, "dev")
    os.mkdir(device)
    system("mount", "-t", "tmpfs", "none", device)
    try:
        os.mknod(os.path.join(device, "fuse"), 0o666 | stat.S_IFCHR, os.makedev(10, 229))
        os.chmod(os.path.join(device, "fuse"), 0o666)
        system("mount", "--bind", os.path.join(device, "fuse"), "/dev/fuse")
        try:
            use_as_user(m)
        finally:
            system("umount", "/dev/fuse")
    finally:
        system("umount", device)


def use_as_user(m):
    os.chown(m.dir, 1000, 1000)  # the root of the volume
    m.umount()
    for path in (m.folder, m.image, m.dir):
        os.chown(path, 1000, 1000)
    os.environ.pop("XDG_RUNTIME_DIR", None)

    def use():
        m.mount()
        words = options_of(m.dir)
        check({"nosuid", "nodev", "user_id=1000"} <= set(words) and "allow_other" not in words, words)
        write(m.path("a"), b"a")
        number, root = m.begin()
        write(os.path.join(root, "b"), b"b")
        text = m.run("umount", m.dir, code=1)
        check(f"transaction {number} is open" in text, text)
        m.commit(number)
        equal(sorted(os.listdir(m.dir)), ["a", "b"], "names")
        check("in use: mounted at" in m.run("mount", m.image, m.folder, code=1), "second mount")
        m.umount()
        for word in ("suid", "allow_suid", "dev", "allow_dev"):
            check("only root" in m.run("mount", m.image, m.dir, "-o", word, code=2), word)
        refused = [(["/etc"], "user has no write access")]
        if not any(line.strip() == "user_allow_other" for line in
                   read("/etc/fuse.conf").decode().splitlines()):
            refused.append(([m.dir, "-o", "allow_other"], "user_allow_other"))
        for words, why in refused:
            text = m.run("mount", m.image, *words, code=1)
            check(text.startswith(f"stetfs: {m.image}: {words[0]}: could not be mounted: ") and
                  why in text and "\n" not in text, text)
        m.check()
        m.run("mount.stetfs", m.image, m.dir, code=2)  # no such command
        system("mount.stetfs", m.image, m.dir, "-o", "rw,nosuid,nodev,user")
        equal(read(m.path("b")), b"b", "content")
        system("fusermount3", "-u", m.dir)
        m.mount()
        pid = user_daemon(m)
        os.kill(pid, signal.SIGTERM)
        wait_gone(pid)
        m.check()

    as_user(use)


def user_daemon(m):
    text = m.run("mount", m.image, m.folder, code=1)
    return int(text.split("(process ")[1].split(")")[0])


def wait_gone(pid):
    """It unmounts first, and then writes its checkpoint."""
    until = time.monotonic() + 20
    while os.path.exists(f"/proc/{pid}"):
        check(time.monotonic() < until, "it ends")
        time.sleep(0.02)


def test_umount_names_transactions(m):
    first, _ = m.begin()
    text = m.run("umount", m.dir, code=1)
    check(f"transaction {first} is open" in text and "stetfs abort" in text, text)
    second, _ = m.begin()
    text = m.run("umount", m.dir, code=1)
    check(f"transactions {first}, {second} are open" in text, text)
    for _ in range(6):
        m.begin()
    check("and others are open" in m.run("umount", m.dir, code=1), "many")
    for line in m.run("txns", m.dir).splitlines()[1:]:
        m.abort(line.split()[0])
    fd = os.open(m.dir, os.O_RDONLY)
    check("in use: some process" in m.run("umount", m.dir, code=1), "busy")
    os.close(fd)
    pid = m.daemon()
    m.umount()
    check(is_gone(pid), "gone")
    m.mount()


def enter():
    """Runs this again in a namespace with the helpers in /sbin. True: we are there."""
    if os.environ.get("STET_IN_NAMESPACE"):
        links = os.environ["STET_IN_NAMESPACE"]
        upper, work = os.path.join(links, "upper"), os.path.join(links, "work")
        system("mount", "-t", "tmpfs", "none", links)
        os.mkdir(upper)
        os.mkdir(work)
        for name in NAMES:
            os.symlink(STETFS, os.path.join(upper, name))
        system("mount", "-t", "overlay", "overlay", "-o",
               f"lowerdir=/usr/sbin,upperdir={upper},workdir={work}", "/usr/sbin")
        os.environ["PATH"] = "/usr/sbin:/usr/bin:/bin"
        return
    if not STETFS or not os.path.exists("/dev/fuse") or os.geteuid() != 0 or \
       not os.path.samefile("/sbin", "/usr/sbin"):
        print("needs STETFS, /dev/fuse, root, and /sbin in /usr/sbin")
        sys.exit(SKIP)
    links = subprocess.run(["mktemp", "-d"], stdout=subprocess.PIPE, check=True).stdout.decode()
    env = dict(os.environ, STET_IN_NAMESPACE=links.strip())
    try:
        code = subprocess.run(["unshare", "-m", "--propagation", "private", sys.executable,
                               os.path.abspath(__file__)], env=env, check=False).returncode
    finally:
        os.rmdir(links.strip())
    sys.exit(code)


if __name__ == "__main__":
    enter()
    main(globals())
