#!/usr/bin/env python3
"""Runs the rows of the conformance program on one target: run.py CONFORMANCE STETFS TARGET [OPTION...]

TARGET: mount, view, commit, library, ext4, tmpfs. What each needs (an image, its mount, a transaction) is
made in a folder of its own and removed afterwards. `commit` runs the rows in a transaction that is then
committed, and compares the tree with what it was in the transaction's view. OPTIONs go to the program
(--only PATTERN). CONFORMANCE_KEEP in the environment keeps the folder.
"""
import hashlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile

SKIP = 77
NO_SUCH_ROW = 3  # the program: no row of this phase was chosen
SIZE = "1G"
DAEMON_SECONDS = 300
OPTIONS = "nosuid,nodev"  # as a volume is mounted


class Failure(Exception):
    """Something that the rows need did not work."""


def command(*words, code=0):
    """A command; its output."""
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          timeout=DAEMON_SECONDS)
    text = done.stdout.decode(errors="replace").strip()
    if done.returncode != code:
        raise Failure(f"{' '.join(words)}: {done.returncode}: {text}")
    return text


class Target:
    """A place for rows, and how they are run there."""

    def __init__(self, name, program, stetfs, options):
        self.name = name
        self.program = program
        self.stetfs = stetfs
        self.options = options
        self.chosen = 0  # runs that had rows
        self.folder = tempfile.mkdtemp(prefix="stet-conformance-")
        self.image = os.path.join(self.folder, "image")
        self.dir = os.path.join(self.folder, "mnt")
        self.other = os.path.join(self.folder, "other")
        os.chmod(self.folder, 0o755)
        os.mkdir(self.dir)
        os.mkdir(self.other)
        os.chmod(self.other, 0o777)

    def rows(self, place, *words, target=None, other=None):
        """Runs rows at a place; did all of them pass?"""
        sys.stdout.flush()
        words = [self.program, place, "--target", target or self.name, *words, *self.options]
        if target != "library":
            words += ["--other", other or self.other]
        code = subprocess.run(words, check=False, timeout=DAEMON_SECONDS).returncode
        self.chosen += code != NO_SUCH_ROW
        return code in (0, NO_SUCH_ROW)

    def is_mounted(self):
        with open("/proc/self/mounts", encoding="utf-8") as mounts:
            return any(line.split()[1] == self.dir for line in mounts)

    def clean_up(self):
        while self.is_mounted():
            subprocess.run(["umount", "-l", self.dir], check=False)
        if os.environ.get("CONFORMANCE_KEEP"):
            print(f"kept {self.folder}")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    # --- kernel file systems ---

    def kernel(self, *mount):
        command("mount", "-o", OPTIONS, *mount, self.dir)
        os.chmod(self.dir, 0o755)
        ok = self.rows(self.dir)
        ok = self.rows(self.dir, "--phase", "prepare") and ok
        command("mount", "-o", "remount,ro", self.dir)
        ok = self.rows(self.dir, "--phase", "read-only") and ok
        command("umount", self.dir)
        return ok

    def ext4(self):
        command("truncate", "-s", SIZE, self.image)
        # Values of attributes may be as long as in a volume.
        command("mkfs.ext4", "-q", "-F", "-O", "ea_inode", "-N", "131072", self.image)
        ok = self.kernel("-o", "loop", "-t", "ext4", self.image)
        command("e2fsck", "-f", "-n", self.image)
        return ok

    def tmpfs(self):
        return self.kernel("-t", "tmpfs", "-o", f"size={SIZE}", "conformance")

    # --- volumes ---

    def volume(self):
        command(self.stetfs, "mkfs", self.image, "--size", SIZE)

    def mount_volume(self, *words):
        command(self.stetfs, "mount", self.image, self.dir, *words)

    def umount_volume(self):
        command(self.stetfs, "umount", self.dir)
        command(self.stetfs, "check", self.image)

    def begin(self, *words):
        """A transaction: its number and its tree."""
        number = command(self.stetfs, "begin", self.dir, *words).split()[0]
        return number, os.path.join(self.dir, ".stet", "txn", number, "root")

    def mount(self):
        self.volume()
        self.mount_volume()
        number, root = self.begin()
        other = os.path.join(root, "other")
        os.mkdir(other)
        ok = self.rows(self.dir, other=other)
        ok = self.rows(self.dir, "--phase", "prepare") and ok
        command(self.stetfs, "abort", self.dir, number)
        self.umount_volume()
        self.mount_volume("-o", "ro")
        ok = self.rows(self.dir, "--phase", "read-only") and ok
        self.umount_volume()
        return ok

    def view(self):
        self.volume()
        self.mount_volume()
        os.mkdir(os.path.join(self.dir, "other"))
        number, root = self.begin()
        other = os.path.join(self.dir, "other")
        ok = self.rows(root, other=other)
        command(self.stetfs, "abort", self.dir, number)
        if os.listdir(self.dir) != ["other"]:
            raise Failure(f"an aborted transaction left {os.listdir(self.dir)}")
        ok = self.rows(self.dir, "--phase", "prepare", other=other) and ok
        number, root = self.begin("--read-only")
        ok = self.rows(root, "--phase", "read-only", other=other) and ok
        command(self.stetfs, "abort", self.dir, number)
        self.umount_volume()
        return ok

    def commit(self):
        self.volume()
        self.mount_volume("-o", "noatime")  # looking changes nothing
        other = os.path.join(self.dir, "other")
        os.mkdir(other)
        number, root = self.begin()
        # 65,000 names of one file take longer to look at, three times, than all the others.
        ok = self.rows(root, "--except", "link/over-65000-names", target="view", other=other)
        inside = describe(root, os.path.join(root, "other"))
        command(self.stetfs, "commit", self.dir, number)
        outside = describe(self.dir, other)
        self.umount_volume()
        self.mount_volume("-o", "noatime")
        again = describe(self.dir, other)
        self.umount_volume()
        print(f"{len(inside)} names committed")
        return all([ok, same_tree("committed", inside, outside),
                    same_tree("mounted again", inside, again)])

    def library(self):
        self.volume()
        ok = self.rows(self.image, target="library")
        ok = self.rows(self.image, "--phase", "prepare", target="library") and ok
        ok = self.rows(self.image, "--phase", "read-only", target="library") and ok
        command(self.stetfs, "check", self.image)
        return ok


# --- what a tree is ---

def content(name, folder):
    """A digest of the bytes that are not holes, with their places."""
    digest = hashlib.sha1()
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
    try:
        at = 0
        while True:
            try:
                at = os.lseek(fd, at, os.SEEK_DATA)
            except OSError:
                return digest.hexdigest()
            data = os.pread(fd, min(1 << 20, 2**63 - 1 - at), at)
            if not data:
                return digest.hexdigest()
            if data.strip(b"\0"):
                digest.update(str(at).encode() + data)
            at += len(data)
    finally:
        os.close(fd)


def attributes(path):
    """The names and values of extended attributes."""
    try:
        return sorted((name, os.getxattr(path, name, follow_symlinks=False))
                      for name in os.listxattr(path, follow_symlinks=False))
    except OSError as error:
        return error.errno


def facts(name, folder, path, links):
    """What a commit must keep, and a file's mtime. The times of directories, and of changes, are the
    commit's."""
    st = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if links.setdefault(st.st_ino, path) != path:
        return [links[st.st_ino], st.st_nlink], st.st_mtime_ns
    ret = [oct(st.st_mode), st.st_uid, st.st_gid, st.st_nlink, st.st_rdev, st.st_atime_ns,
           attributes(f"/proc/self/fd/{folder}/{name}")]
    if stat.S_ISDIR(st.st_mode):
        return ret, 0
    ret.append(st.st_size)
    if stat.S_ISLNK(st.st_mode):
        ret.append(os.readlink(name, dir_fd=folder))
    if stat.S_ISREG(st.st_mode):
        ret.append(content(name, folder))
    return ret, st.st_mtime_ns


def describe(root, but=None):
    """{path: what it is}, without what lies at `but`."""
    tree = {}
    links = {}
    for path, folders, files, fd in os.fwalk(root):
        folders[:] = sorted(name for name in folders if os.path.join(path, name) != but)
        for name in sorted(folders + files):
            below = os.path.join(path[len(root):], name)
            tree[below] = facts(name, fd, below, links)
    return tree


def same_tree(text, inside, outside):
    """Is a tree what it was in the view? An mtime that nobody has set becomes the time of the commit."""
    wrong = [path for path in sorted(set(inside) | set(outside))
             if inside.get(path, [None])[0] != outside.get(path, [None])[0]]
    moved = {path: outside[path][1] for path in inside
             if path in outside and inside[path][1] != outside[path][1]}
    commit = max(moved.values(), default=0)
    wrong += [path for path, mtime in moved.items() if mtime != commit or mtime < inside[path][1]]
    for path in wrong[:20]:
        print(f"FAIL {text}: {path!r}: {outside.get(path)}, in the view {inside.get(path)}")
    return not wrong


def give_up(number, _):
    """Ended from outside: what was mounted is still unmounted."""
    raise Failure(f"ended by signal {number}")


def main():
    signal.signal(signal.SIGTERM, give_up)
    program, stetfs, name, *options = sys.argv[1:]
    if os.geteuid() != 0:
        print("needs root")
        return SKIP
    if name in ("mount", "view", "commit") and not os.path.exists("/dev/fuse"):
        print("needs /dev/fuse")
        return SKIP
    if name == "ext4" and not (shutil.which("mkfs.ext4") and os.path.exists("/dev/loop-control")):
        print("needs mkfs.ext4 and loop devices")
        return SKIP
    target = Target(name, os.path.abspath(program), os.path.abspath(stetfs), options)
    try:
        ok = getattr(target, name)()
        if not target.chosen:
            print("no such row")
        return 0 if ok and target.chosen else 1
    except Failure as failure:
        print(f"FAIL {failure}")
        return 1
    finally:
        target.clean_up()


if __name__ == "__main__":
    sys.exit(main())
