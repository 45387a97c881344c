#!/usr/bin/env python3
"""How a mount begins and ends, and who finds it."""
import errno
import mmap
import os
import signal
import socket
import stat
import subprocess
import time

from mountlib import (STETFS, Mount, as_user, check, equal, fails, is_gone, main, read, wait_gone,
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
    m.umount()
    daemon = subprocess.Popen([STETFS, "mount", "-f", m.image, m.dir], stderr=subprocess.PIPE)
    wait_for(lambda: m.is_mounted() and records(m), "it mounts")
    write(m.path("mapped"), bytes(size))
    fd = os.open(m.path("mapped"), os.O_RDWR)
    area = mmap.mmap(fd, size)
    area[size - 4:size] = b"last"
    number, root = m.begin()
    write(os.path.join(root, "x"), b"x")
    daemon.send_signal(signal.SIGTERM)
    log = daemon.communicate(timeout=20)[1].decode().splitlines()
    equal(log, [f"stetfs: signal 15: unmounting {m.dir}",
                f"stetfs: {m.dir} is in use: its users are cut off",
                f"stetfs: transaction {number} was open, and is dropped"], "log")
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


def test_second_mount_beside_a_dead_one(m):
    """Who looks for the holder of a volume asks no file system that does not answer."""
    folder = os.path.join(m.folder, "second")
    os.mkdir(folder)
    dead = Mount(folder)
    m.umount()
    dead.make()
    dead.mount()
    daemon = dead.daemon()
    script = f"exec 3> {dead.path('f')}; echo x >&3; echo; exec sleep 99"
    holder = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE)
    try:
        holder.stdout.readline()
        m.mount()  # its daemon comes later among the processes
        os.kill(daemon, signal.SIGSTOP)
        done = subprocess.run([STETFS, "mount", m.image, folder], timeout=20, check=False,
                              capture_output=True)
        check(m.dir in done.stderr.decode(), f"the holder is named: {done.stderr}")
    finally:
        os.kill(daemon, signal.SIGCONT)
        holder.kill()
        holder.wait()
        dead.umount()


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


def notifications(m, name, stream=False):
    """Mounts in the foreground under a service manager; what it is told, and what is logged."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name.replace("@", "\0", 1))
        manager.settimeout(20)
        log = os.path.join(m.folder, "log")
        with open(log, "wb") as errors:
            env = dict(os.environ, NOTIFY_SOCKET=name)
            if stream:
                st = os.fstat(errors.fileno())
                env["JOURNAL_STREAM"] = f"{st.st_dev}:{st.st_ino}"
            daemon = subprocess.Popen([STETFS, "mount", "-f", m.image, m.dir], env=env,
                                      stderr=errors)
        told = [manager.recv(10000).decode()]
        while "READY=1" not in told[-1]:
            told.append(manager.recv(10000).decode())
        check(m.is_mounted() and len(records(m)) == 2, "ready when it is")
        daemon.send_signal(signal.SIGTERM)
        equal(daemon.wait(20), 0, "exit code")
        told.append(manager.recv(10000).decode())
    return told, read(log).decode()


def test_service_manager(m):
    m.umount()
    for name in (os.path.join(m.folder, "notify"), f"@stet-test-{os.getpid()}"):
        told, log = notifications(m, name)
        equal(told, [f"STATUS=opening {m.image}", f"READY=1\nSTATUS=mounted at {m.dir}",
                     f"STOPPING=1\nSTATUS=writing a checkpoint to {m.image}"], name)
        equal(log, f"stetfs: signal 15: unmounting {m.dir}\n", "plain log")
    os.unlink(os.path.join(m.folder, "notify"))
    _, log = notifications(m, os.path.join(m.folder, "notify"), stream=True)
    equal(log, f"<6>signal 15: unmounting {m.dir}\n", "log of the journal")
    for nobody in ("", "@", "/", "relative", "/no/such/socket", "@" + "x" * 200):
        daemon = subprocess.Popen([STETFS, "mount", "-f", m.image, m.dir], stderr=subprocess.PIPE,
                                  env=dict(os.environ, NOTIFY_SOCKET=nobody))
        wait_for(lambda: m.is_mounted() and records(m), "it mounts")
        m.umount()
        equal((daemon.wait(20), daemon.communicate()[1]), (0, b""), nobody)
    m.mount()


def test_who_has_the_file(m):
    """An open(2) that waited in vain is told in the log, with who has the file; and a flood is not."""
    m.umount()
    daemon = subprocess.Popen([STETFS, "mount", "-f", m.image, m.dir, "-o", "lock_timeout=0.01"],
                              stderr=subprocess.PIPE)
    wait_for(lambda: m.is_mounted() and records(m), "it mounts")
    write(m.path("f"), b"x")
    ino = os.stat(m.path("f")).st_ino
    number, root = m.begin()
    with open(os.path.join(root, "f"), "r+b"):
        for _ in range(50):
            fails(errno.EBUSY, os.open, m.path("f"), os.O_WRONLY)
    daemon.send_signal(signal.SIGTERM)
    lines = daemon.communicate(timeout=20)[1].decode().splitlines()
    told = [line for line in lines if "not opened" in line]
    equal(set(told), {f"stetfs: f was not opened for writing: inode {ino} is locked by "
                      f"transaction {number}"}, "log")
    equal(len(told), 20, "lines")
    m.mount()


def test_odd_names(m):
    """One line each, in the log, to the service manager and in errors."""
    m.umount()
    odd = os.path.join(m.folder, "a\nstetfs: b\x1b[31m\u009bc\udcff d\u00e9")
    os.mkdir(odd)
    os.rename(m.image, os.path.join(odd, "v"))
    os.rename(m.dir, os.path.join(odd, "m"))
    plain = m.image, m.dir
    m.image, m.dir = os.path.join(odd, "v"), os.path.join(odd, "m")
    shown = f"{m.folder}/a\\nstetfs: b\\033[31m\\302\\233c\\377 d\u00e9"
    try:
        daemon = subprocess.Popen([STETFS, "mount", "-f", m.image, m.dir], stderr=subprocess.PIPE)
        wait_for(lambda: os.path.ismount(m.dir), "it mounts")
        for text in (m.run("check", m.image, code=8),
                     m.run("mount", m.image, m.folder, code=1)):
            check(len(text.splitlines()) == 1 and f"{shown}/m (process {daemon.pid})" in text, text)
        daemon.send_signal(signal.SIGTERM)
        log = daemon.communicate(timeout=20)[1].decode()
        equal(log, f"stetfs: signal 15: unmounting {shown}/m\n", "log")
        m.mount()
        m.umount()
    finally:
        m.clean_up()
        m.image, m.dir = plain
        os.rename(os.path.join(odd, "v"), m.image)
        os.rename(os.path.join(odd, "m"), m.dir)
    m.mount()


def test_descriptors(m):
    """Of the daemon: none is inherited by what it runs, and none is its caller's."""
    m.umount()
    ours, theirs = os.pipe()
    os.set_inheritable(theirs, True)
    subprocess.run([STETFS, "mount", m.image, m.dir], check=True, close_fds=False)
    os.close(theirs)
    equal(os.read(ours, 1), b"", "the daemon keeps nothing of its caller's open")
    os.close(ours)
    m.run("begin", m.dir)
    pid = m.daemon()
    flags = {}
    for fd in os.listdir(f"/proc/{pid}/fdinfo"):
        for line in read(f"/proc/{pid}/fdinfo/{fd}").decode().splitlines():
            if line.startswith("flags:"):
                flags[int(fd)] = int(line.split()[1], 8)
    check(len(flags) > 6, f"descriptors {flags}")
    for fd, value in flags.items():
        target = os.readlink(f"/proc/{pid}/fd/{fd}")
        if fd <= 2:
            equal(target, "/dev/null", f"descriptor {fd}")
        else:
            check(value & os.O_CLOEXEC, f"descriptor {fd} ({target}) is inherited")
    os.kill(pid, signal.SIGTERM)
    wait_gone(pid)
    m.mount()


def test_daemon_of_another_version(m):
    """After an upgrade what is mounted still can be unmounted."""
    path = next(name for name in records(m) if name.endswith(".sock"))
    pid = m.daemon()
    os.unlink(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other:
        other.bind(path)
        other.listen()
        child = os.fork()
        if child == 0:
            while True:
                client = other.accept()[0]
                client.recv(1 << 17)
                client.send(b"\xff" * 64)
        check("another version" in m.run("txns", m.dir, code=1), "what cannot be asked")
        m.run("umount", m.dir)
        check(is_gone(pid), "it has ended")
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    m.mount()


if __name__ == "__main__":
    main(globals())
