#!/usr/bin/env python3
"""Real trees and real programs on a mount."""
import os
import shutil
import subprocess

from mountlib import check, equal, main, read

SOURCE = os.environ.get("STET_MOUNT_TREE", "/usr/include/linux")


def shell(script, cwd):
    done = subprocess.run(["sh", "-ec", script], cwd=cwd, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False, timeout=300)
    check(done.returncode == 0, f"{script}: {done.returncode}: {done.stdout.decode()[-2000:]}")
    return done.stdout.decode()


def same(a, b):
    shell(f"diff -r --no-dereference {a} {b}", "/")


def test_copy(m):
    shell(f"cp -a {SOURCE} tree", m.dir)
    same(SOURCE, m.path("tree"))
    m.remount()
    same(SOURCE, m.path("tree"))
    shell("cp -a tree second && rm -r tree", m.dir)
    same(SOURCE, m.path("second"))
    equal(os.listdir(m.dir), ["second"], "left over")
    m.remount()
    same(SOURCE, m.path("second"))
    shutil.rmtree(m.path("second"))


def test_tar(m):
    shell(f"tar -C {SOURCE} -cf {m.folder}/a.tar . && mkdir tree && "
          f"tar -C tree -xpf {m.folder}/a.tar", m.dir)
    same(SOURCE, m.path("tree"))
    m.remount()
    shell(f"tar --sort=name -C tree -cf b.tar . && tar --sort=name -C {SOURCE} -cf {m.folder}/c.tar"
          f" . && tar -df {m.folder}/c.tar -C tree", m.dir)


def test_git(m):
    git = "git -c user.name=n -c user.email=e@x -c init.defaultBranch=main"
    shell(f"mkdir repo && cd repo && {git} init -q . && cp -r {SOURCE}/. . && {git} add . && "
          f"{git} commit -qm first && echo x > added && {git} add . && "
          f"{git} commit -qm second", m.dir)
    m.remount()
    repo = m.path("repo")
    equal(shell(f"{git} status --short", repo), "", "status")
    shell(f"{git} fsck --strict && {git} gc -q && {git} checkout -q HEAD~1", repo)
    same(f"-x .git {SOURCE}", repo)
    shell(f"{git} clone -q repo clone && {git} -C clone log --oneline | wc -l", m.dir)


def test_build_and_run(m):
    """Write, compile, run: mappings, rename over, exec."""
    with open(m.path("main.c"), "w", encoding="utf-8") as file:
        file.write('#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n')
    shell("cc -o prog main.c", m.dir)
    equal(shell("./prog", m.dir), "hello\n", "output")
    m.remount()
    equal(shell("./prog", m.dir), "hello\n", "output after a remount")


def test_sqlite(m):
    if not shutil.which("sqlite3"):
        return
    shell("sqlite3 db 'pragma journal_mode=wal; create table t(a); "
          "with recursive c(x) as (select 1 union all select x+1 from c where x<20000) "
          "insert into t select x from c;' && sqlite3 db 'pragma integrity_check'", m.dir)
    m.remount()
    equal(shell("sqlite3 db 'select sum(a) from t; pragma integrity_check'", m.dir),
          "200010000\nok\n", "sum")


def test_parallel(m):
    """Many processes at once in shared directories."""
    shell("for p in 1 2 3 4 5 6 7 8; do (for i in $(seq 200); do echo $p.$i > f$p.$i; "
          "mv f$p.$i g$p.$i; cat g$p.$i >> log$p; [ $((i % 3)) = 0 ] && rm g$p.$i || :; done) & "
          "done; wait", m.dir)
    equal(len([n for n in os.listdir(m.dir) if n.startswith("g")]), 8 * (200 - 66), "files")
    m.remount()
    for p in range(1, 9):
        equal(read(m.path(f"log{p}")), b"".join(b"%d.%d\n" % (p, i) for i in range(1, 201)), "log")


if __name__ == "__main__":
    main(globals())
