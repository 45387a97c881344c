#!/usr/bin/env python3
"""Real programs on a mount, in transactions and under kills; tools between the main tree and views.

EXERCISE_SEED     (the time)
EXERCISE_SECONDS  how long SQLite and fio work each time (2)
EXERCISE_KILLS    of the daemon while SQLite works, for each way it keeps its journal (4)
EXERCISE_BUILD    1: builds this project on the mount as well, plainly and as one transaction
"""
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "test", "mount"))

from mountlib import check, equal, main, write  # noqa: E402

SEED = int(os.environ.get("EXERCISE_SEED", str(int(time.time()))))
SECONDS = float(os.environ.get("EXERCISE_SECONDS", "2"))
KILLS = int(os.environ.get("EXERCISE_KILLS", "4"))
BUILD = os.environ.get("EXERCISE_BUILD", "") == "1"
SOURCE = os.environ.get("STET_MOUNT_TREE", "/usr/include/linux")
GIT = "git -c user.name=n -c user.email=e@x -c init.defaultBranch=main -c gc.autoDetach=false"


def shell(script, cwd, seconds=300):
    done = subprocess.run(["sh", "-ec", script], cwd=cwd, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False, timeout=seconds)
    text = done.stdout.decode(errors="replace")
    check(done.returncode == 0, f"{script}: {done.returncode}: {text[-2000:]}")
    return text


def same(a, b):
    equal(shell(f"diff -r --no-dereference {a} {b}", "/"), "", "differences")


# --- tools between the main tree and views ---


def test_tools_between_views(m):
    """They look at st_dev and st_ino to tell files apart: the two trees must not seem one."""
    shell(f"cp -a {SOURCE} tree && ln tree/types.h hard && ln -s types.h tree/soft", m.dir)
    number, root = m.begin()
    same(m.path("tree"), os.path.join(root, "tree"))
    shell(f"cmp tree/types.h {root}/tree/types.h", m.dir)
    check(os.stat(m.path("hard")).st_ino != os.stat(os.path.join(root, "hard")).st_ino, "inodes")
    check(not os.path.samefile(m.path("hard"), os.path.join(root, "hard")), "the same file")
    # Onto the file of the same name, in both directions: "are the same file" would be an error.
    shell(f"echo changed > {root}/hard && cp {root}/hard {m.folder}/copy && cp -a tree/types.h "
          f"{root}/tree/types.h && cp -a {root}/tree/fs.h tree/fs.h", m.dir)
    shell(f"cp -a tree {root}/copied && mv tree/soft {root}/moved && mv {root}/tree/kernel.h "
          f"out.h", m.dir)
    check(not os.path.lexists(m.path("tree", "soft")), "moved away")
    equal(os.readlink(os.path.join(root, "moved")), "types.h", "moved")
    shell(f"rsync -a --checksum {root}/copied/ fromview/ && rsync -a --delete tree/ {root}/copied/",
          m.dir)
    check(shell(f"rsync -an --checksum --itemize-changes tree/ {root}/copied/", m.dir) == "",
          "rsync finds differences")
    same(m.path("tree"), os.path.join(root, "copied"))
    m.commit(number)
    same(f"-x soft {SOURCE}", m.path("fromview"))
    same(SOURCE, m.path("copied"))
    number, root = m.begin()
    shell(f"cp -a tree {root}/again && rm -r {root}/tree", m.dir)
    m.commit(number)
    same(f"-x kernel.h {SOURCE}", m.path("again"))  # that went out of the first view
    same(f"{SOURCE}/kernel.h", m.path("out.h"))
    check(not os.path.exists(m.path("tree")), "removed by the commit")


# --- version control, archives ---


def git_works(root, prefix):
    shell(f"{prefix} sh -ec '{GIT} init -q repo && cd repo && cp -r {SOURCE}/. . && {GIT} add . && "
          f"{GIT} commit -qm first && echo x > added && {GIT} add . && {GIT} commit -qm second && "
          f"{GIT} gc -q && {GIT} fsck --strict && cd .. && {GIT} clone -q repo clone'", root)


def git_is_whole(m):
    for repo in ("repo", "clone"):
        equal(shell(f"{GIT} status --short", m.path(repo)), "", "status")
        shell(f"{GIT} fsck --strict", m.path(repo))
    equal(shell(f"{GIT} -C clone log --oneline | wc -l", m.dir).strip(), "2", "commits")


def test_git_in_a_transaction(m):
    program = os.environ["STETFS"]
    git_works(m.dir, f"{program} run {m.dir} --")
    git_is_whole(m)
    m.remount()
    git_is_whole(m)
    m.transaction(f"cd repo && {GIT} rm -qr . && {GIT} commit -qm gone && {GIT} gc -q --prune=now; "
                  "exit 9", code=9)
    git_is_whole(m)


def test_archives_in_a_transaction(m):
    shell(f"tar -C {SOURCE} -cf {m.folder}/a.tar .", "/")
    m.transaction(f"mkdir t && tar -C t -xpf {m.folder}/a.tar && rsync -a t/ r/ && rm -r t && "
                  "mv r t && tar -cf b.tar t")
    same(SOURCE, m.path("t"))
    m.remount()
    same(SOURCE, m.path("t"))
    shell("rm -r t && tar -xf b.tar", m.dir)
    same(SOURCE, m.path("t"))


# --- SQLite ---


def insert(path, writer, first, report):
    """Inserts until the daemon is gone, and reports each commit that was answered."""
    number = first
    try:
        db = sqlite3.connect(path, timeout=20, isolation_level=None)
        db.execute("pragma synchronous=extra")  # full does not sync the journal's removal
        while True:
            db.execute("begin immediate")
            for i in range(5):
                db.execute("insert into t values (?, ?, ?)", (writer, number, "x" * (i * 300)))
            db.execute("commit")
            # SQLite takes it for success when it cannot open the directory that it is to sync. With the
            # daemon dead that is so; after a power cut nobody would be left to be told.
            os.statvfs(path)
            number += 1
            os.write(report, b"%d %d\n" % (writer, number))
    except (sqlite3.Error, OSError):
        pass  # the daemon has been killed


def start_writers(path, count, first):
    """Processes, and a pipe with what they report."""
    read_end, write_end = os.pipe()
    pids = []
    for writer in range(count):
        pid = os.fork()
        if pid == 0:
            os.close(read_end)
            try:
                insert(path, writer, first[writer], write_end)
            finally:
                os._exit(0)
        pids.append(pid)
    os.close(write_end)
    return pids, read_end


def reported(read_end, answered):
    with os.fdopen(read_end, "rb") as pipe:
        for line in pipe.read().splitlines():
            writer, number = map(int, line.split())
            answered[writer] = max(answered[writer], number)


def check_database(path, answered):
    """Whole, each commit with all its rows, and no answered one lost. The next numbers."""
    db = sqlite3.connect(path, timeout=20)
    equal(db.execute("pragma integrity_check").fetchall(), [("ok",)], "integrity_check")
    equal(db.execute("select count(*) from (select count(*) as n from t group by writer, number) "
                     "where n != 5").fetchone()[0], 0, "commits in part")
    result = []
    for writer, number in enumerate(answered):
        last = db.execute("select max(number) from t where writer = ?", (writer,)).fetchone()[0]
        following = 0 if last is None else last + 1
        check(following >= number, f"writer {writer}: {number} answered, {following} there")
        result.append(following)
    db.close()
    return result


def sqlite_under_kills(m, mode):
    chance = random.Random(SEED)
    path, writers = m.path("db"), 4
    db = sqlite3.connect(path)
    equal(db.execute(f"pragma journal_mode={mode}").fetchone()[0], mode, "journal mode")
    db.execute("create table t(writer, number, text)")
    db.execute("create index i on t(writer, number)")
    db.commit()
    db.close()
    m.run("sync", m.dir)
    answered = [0] * writers
    for _ in range(KILLS):
        pids, pipe = start_writers(path, writers, answered)
        time.sleep(chance.uniform(0.3, SECONDS))
        m.kill()
        for pid in pids:
            os.waitpid(pid, 0)
        reported(pipe, answered)
        m.check()
        m.mount()
        answered = check_database(path, answered)
    print(f"  {mode}: {sum(answered)} commits of {writers} processes, {KILLS} kills")
    check(sum(answered) > 0, "nothing was committed")


def test_sqlite_rollback_journal(m):
    sqlite_under_kills(m, "delete")


def test_sqlite_wal(m):
    """Its index is a shared mapping that several processes write."""
    sqlite_under_kills(m, "wal")


def test_sqlite_in_a_transaction(m):
    shell("python3 - <<'E'\nimport sqlite3\nd=sqlite3.connect('db')\nd.execute('create table t(a)')\n"
          "d.executemany('insert into t values (?)',((i,) for i in range(5000)))\nd.commit()\nE",
          m.dir)
    change = ("python3 - <<'E'\nimport sqlite3\nd=sqlite3.connect('db')\n"
              "d.execute('update t set a = a + 1')\nd.commit()\nE\n")
    m.transaction(change + "exit 3", code=3)
    equal(total(m), 12497500, "after an abort")
    m.transaction(change)
    equal(total(m), 12502500, "after a commit")


def total(m):
    db = sqlite3.connect(m.path("db"))
    equal(db.execute("pragma integrity_check").fetchall(), [("ok",)], "integrity_check")
    result = db.execute("select sum(a) from t").fetchone()[0]
    db.close()
    return result


# --- fio ---

JOBS = """[global]
directory={dir}
randseed={seed}
size=12m
verify=crc32c
verify_fatal=1
verify_dump=0
do_verify=1
time_based=0
[sequential]
rw=write
bs=64k
[random]
rw=randwrite
bs=4k
ioengine=libaio
iodepth=16
[direct]
rw=randrw
bs=8k
direct=1
ioengine=libaio
iodepth=8
[mapped]
rw=randwrite
bs=4k
ioengine=mmap
[uring]
rw=randwrite
bsrange=512-32k
ioengine={uring}
iodepth=8
[synced]
rw=randwrite
bs=4k
size=2m
fsync=16
"""


def has_uring():
    done = subprocess.run(["fio", "--name=x", "--ioengine=io_uring", "--size=4k", "--rw=read",
                           "--filename=/dev/zero"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False)
    return done.returncode == 0


def fio(directory, folder):
    jobs = os.path.join(folder, "jobs.fio")
    uring = "io_uring" if has_uring() else "psync"
    write(jobs, JOBS.format(dir=directory, seed=SEED, uring=uring).encode())
    shell(f"fio --output={folder}/fio.out --aux-path={folder} {jobs} || "
          f"{{ cat {folder}/fio.out; exit 1; }}", folder)


def test_fio(m):
    if not shutil.which("fio"):
        print("  no fio")
        return
    fio(m.dir, m.folder)
    m.remount()
    shell(f"fio --verify_only --output={m.folder}/fio.out --aux-path={m.folder} "
          f"{m.folder}/jobs.fio --section=sequential --section=synced", m.folder)


def test_fio_in_a_view(m):
    if not shutil.which("fio"):
        print("  no fio")
        return
    number, root = m.begin()
    fio(root, m.folder)
    m.commit(number)
    equal(os.path.getsize(m.path("mapped.0.0")), 12 << 20, "size of a file in the main tree")


# --- building ---


def test_build_this_project(m):
    if not BUILD:
        return
    def at_top(folder, names):
        return [n for n in names if folder == ROOT and n.startswith((".git", "build"))]

    shutil.copytree(ROOT, m.path("source"), ignore=at_top, symlinks=True)
    shell("meson setup build . && ninja -C build && build/stetfs version", m.path("source"), 3000)
    m.remount()
    shell("ninja -C build | grep -q 'no work to do' && rm -r build", m.path("source"), 300)
    shell(f"{os.environ['STETFS']} run {m.dir} -- sh -ec 'cd source && meson setup build . && "
          "ninja -C build'", m.folder, 3000)
    shell("build/stetfs version", m.path("source"))


if __name__ == "__main__":
    print(f"EXERCISE_SEED={SEED}", flush=True)
    main(globals())
