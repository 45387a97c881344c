"""Many mounts at once: each has its daemon, its control socket and its record, whatever numbers
the kernel gives them and whoever died before."""
import ctypes
import fcntl
import os
import signal
import socket
import subprocess
import threading
import time

from mountlib import Mount, as_user, check, equal, main, read, wait_gone, write

RUNTIME = "/run/stetfs"
USER = 1000
MNT_DETACH = 2


def several(mount, count):
    """More volumes beside the test's own."""
    mounts = []
    for i in range(count):
        folder = os.path.join(mount.folder, f"m{i}")
        os.mkdir(folder)
        other = Mount(folder)
        other.size = "32M"
        other.make()
        mounts.append(other)
    return mounts


def at_once(mounts, work):
    """Does the work for all at the same time; the first failure is raised."""
    failures = []

    def one(mount):
        try:
            work(mount)
        except Exception as failure:  # pylint: disable=broad-except
            failures.append(failure)

    threads = [threading.Thread(target=one, args=(m,)) for m in mounts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def use(mount):
    """Does each way to the daemon lead to the right one?"""
    name = os.path.basename(mount.folder)
    mount.transaction(f"echo {name} > name")
    equal(mount.run("cat", f"{mount.image}:/name"), name)
    for place in (mount.dir, mount.image):
        mount.run("sync", place)
    check(mount.dir in mount.run("check", mount.image, code=8), "the holder is named")


def clean_up(mounts):
    for mount in mounts:
        mount.clean_up()


def mount_use_umount(mount, count, rounds):
    mounts = several(mount, count)
    try:
        for _ in range(rounds):
            at_once(mounts, Mount.mount)
            equal(len({os.stat(m.dir).st_dev for m in mounts}), count)
            at_once(mounts, use)
            at_once(mounts, Mount.umount)
        at_once(mounts, Mount.check)
    finally:
        clean_up(mounts)


def test_two(mount):
    mount_use_umount(mount, 2, 6)


def test_eight(mount):
    mount_use_umount(mount, 8, 3)


def test_remount_after_kill(mount):
    """Killed all at once and mounted again all at once: the numbers change hands."""
    mounts = several(mount, 8)
    try:
        at_once(mounts, Mount.mount)
        for _ in range(4):
            at_once(mounts, use)
            at_once(mounts, Mount.kill)
            at_once(list(reversed(mounts)), Mount.mount)
        at_once(mounts, use)
        at_once(mounts, Mount.umount)
        at_once(mounts, Mount.check)
    finally:
        clean_up(mounts)


def records_of(pids):
    found = []
    for name in os.listdir(RUNTIME):
        if name.endswith(".mount"):
            text = read(os.path.join(RUNTIME, name)).decode(errors="replace")
            found += [name for pid in pids if f"pid {pid}\n" in text]
    return found


def test_nothing_is_left(mount):
    """The next mount removes what a daemon that was killed has left; an end removes its own."""
    pid = mount.daemon()
    equal(len(records_of([pid])), 1)
    mount.kill()
    equal(len(records_of([pid])), 1)
    mount.mount()
    equal(records_of([pid]), [])
    pid = mount.daemon()
    name = records_of([pid])[0]
    mount.umount()
    for suffix in (".mount", ".sock"):
        check(not os.path.exists(os.path.join(RUNTIME, name.replace(".mount", suffix))), suffix)


def detach(path):
    libc = ctypes.CDLL(None, use_errno=True)
    equal(libc.umount2(os.fsencode(path), MNT_DETACH), 0, "umount2")


def test_number_of_one_that_is_ending(mount):
    """Unmounted, its number is given away while its daemon is still there, with its record."""
    (other,) = several(mount, 1)
    pid = mount.daemon()
    number = os.stat(mount.dir).st_dev
    os.kill(pid, signal.SIGSTOP)
    try:
        detach(mount.dir)  # umount(8) would ask the daemon
        begun = time.monotonic()
        other.mount()
        if os.stat(other.dir).st_dev != number:
            print("  the number was not given away")
        check(time.monotonic() - begun < 10, "it waited for the other daemon")
        use(other)
    finally:
        os.kill(pid, signal.SIGCONT)
        if other.is_mounted():
            other.umount()
        clean_up([other])
    wait_gone(pid)


def forge(folder, **fields):
    """A record of another user, locked as if its daemon lived; until the file is closed."""
    path = os.path.join(folder, f"1-{fields['dev']}-{fields['volume_dev']}.mount")
    write(path, "".join(f"{key} {value}\n" for key, value in fields.items()).encode() + b"end\n")
    file = open(path, "rb")  # pylint: disable=consider-using-with
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.chown(folder, USER, USER)
    os.chown(path, USER, USER)
    return file


def test_record_of_somebody_else(mount):
    """Root is not led to another user's socket by what that user says he has mounted."""
    folder = f"/tmp/stetfs-{USER}"
    if os.path.exists(folder):
        print(f"  {folder} is there: not tested")
        return
    os.mkdir(folder, 0o700)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        listener.bind(folder + "/s")
        listener.listen()
        listener.setblocking(False)
        image, here = os.stat(mount.image), os.stat(mount.folder)
        fields = {"pid": os.getpid(), "read_only": 0, "since_ns": 2**62, "volume": mount.image,
                  "dir": mount.folder, "socket": folder + "/s"}
        for uid in (USER, 0):
            with forge(folder, uid=uid, dev=here.st_dev, volume_dev=image.st_dev,
                       volume_ino=image.st_ino, **fields):
                check("no StetFS" in mount.run("txns", mount.folder, code=1), "another's record")
                mount.run("sync", mount.image)
                mount.run("ls", f"{mount.image}:/")
                with mount_number(mount, folder, uid, fields):
                    mount.run("txns", mount.dir)
        check(is_quiet(listener), "somebody has connected")
    finally:
        listener.close()
        subprocess.run(["rm", "-r", folder], check=True)


def mount_number(mount, folder, uid, fields):
    number = os.stat(mount.dir).st_dev
    return forge(folder, uid=uid, dev=number, volume_dev=1, volume_ino=1, **fields)


def is_quiet(listener):
    try:
        listener.accept()
    except BlockingIOError:
        return True
    return False


def test_user_beside_root(mount):
    """A user's own mount, if he may mount at all, and root's use of it."""
    if not os.path.exists("/usr/bin/fusermount3"):
        return
    (other,) = several(mount, 1)
    os.unlink(other.image)
    for path in (other.folder, other.dir):
        os.chown(path, USER, USER)
    try:
        try:
            as_user(lambda: (other.make(), other.mount()), USER)
        except Exception:  # pylint: disable=broad-except
            print("  users cannot mount here")
            return
        as_user(lambda: use_as_user(other), USER)
        other.run("sync", other.image)  # root too may talk to that daemon, but not use the mount
        equal(len(other.run("ls", f"{other.image}:/", code=1).splitlines()), 1)
        use(mount)
        as_user(other.umount, USER)
    finally:
        clean_up([other])
        if os.path.isdir(f"/tmp/stetfs-{USER}") and not os.listdir(f"/tmp/stetfs-{USER}"):
            os.rmdir(f"/tmp/stetfs-{USER}")


def use_as_user(other):
    other.run("put", "/etc/hostname", f"{other.image}:/f")
    equal(other.run("ls", f"{other.image}:/"), "f")
    other.run("sync", other.image)
    other.run("txns", other.dir)


if __name__ == "__main__":
    main(globals())
