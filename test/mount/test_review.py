#!/usr/bin/env python3
"""What a transaction has changed, shown to people and programs: --dry-run, --confirm, `stetfs diff`."""
import json
import os
import pty
import select
import shutil
import signal
import stat
import subprocess
import sys
import time

from mountlib import STETFS, Failure, as_user, check, equal, main, read, write

SPECIAL = "new\nline\x1b[2J"  # a name that could do harm on a terminal
QUESTION = b"[l]ist all: "


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, words, cwd=None, env=None):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                if cwd:
                    os.chdir(cwd)
                os.environ.update(env or {})
                os.execvp(words[0], words)
            finally:
                os._exit(99)
        self.seen = b""
        self.at = 0

    def more(self, seconds):
        if not select.select([self.fd], [], [], max(seconds, 0))[0]:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            data = b""
        self.seen += data
        return bool(data)

    def expect(self, text, seconds=20):
        """What comes before the text."""
        until = time.monotonic() + seconds
        while self.seen.find(text, self.at) < 0:
            if not self.more(until - time.monotonic()):
                raise Failure(f"no {text!r} on the terminal: {self.seen[self.at:]!r}")
        end = self.seen.index(text, self.at)
        before, self.at = self.seen[self.at:end], end + len(text)
        return before

    def send(self, text):
        os.write(self.fd, text)

    def end(self, code):
        """All that it has printed, when it has ended with this code."""
        while self.more(20):
            pass
        os.close(self.fd)
        status = os.waitpid(self.pid, 0)[1]
        equal(os.waitstatus_to_exitcode(status), code, self.seen.decode(errors="replace"))
        return self.seen


def lines(text):
    return text.replace("\r", "").strip().split("\n")


def prepare(m):
    """A tree, and a script that changes it in every way."""
    for name in ("d", "gone", "gone/deep", "moved"):
        os.mkdir(m.path(name))
    for name, data in (("a", b"1\n2\n3\n"), ("gone/x", b"x" * 100), ("gone/deep/y", b"y" * 200),
                       ("moved/in", b"in\n"), ("typed", b"t\n"), ("mode", b"m\n"), ("old", b"o\n"),
                       ("over", b"over\n"), ("saved", b"saved\n"), ("bin", b"\0\1\2")):
        write(m.path(*name.split("/")), data)
    os.chmod(m.path("mode"), 0o644)
    os.symlink("a", m.path("link"))
    write(m.path(SPECIAL), b"s\n")
    script = os.path.join(m.folder, "script")
    write(script, b"""set -e
echo 4 >> a; rm -r gone; mv moved to; echo more >> to/in; rm typed; mkdir typed; chown 1:2 mode
chmod 4755 mode; mv old over; echo changed > s.tmp; mv s.tmp saved; printf '\\0\\1\\2\\3' > bin
ln -sfn b link; mkdir new; echo n > new/n; rm 'new
line'*; touch empty; ln a hard
""")
    return script


EXPECTED = """\
D /gone/
D /gone/deep/
D /gone/deep/y  (200 bytes)
D /gone/x  (100 bytes)
D /new\\nline\\033[2J  (2 bytes)
D /over  (5 bytes, overwritten by a rename)
T /typed/  (file -> directory, 2 -> 0 bytes)
R /old -> /over
R /moved/ -> /to/
A /empty  (0 bytes)
A /hard  (8 bytes, another name of an older file)
A /new/
A /new/n  (2 bytes)
M /a  (6 -> 8 bytes)
M /bin  (3 -> 4 bytes)
M /link  (replaced)
M /mode  (mode 0644 -> 4755, owner root:root -> {uid}:{gid})
M /saved  (replaced, 6 -> 8 bytes)
M /to/in  (3 -> 8 bytes)
6 deleted, 1 of another type, 2 renamed, 4 added, 6 changed; +12 bytes, -309 bytes"""


def name_of(path, number):
    for line in read(path).decode().split("\n"):
        if line.split(":")[2:3] == [str(number)]:
            return line.split(":")[0]
    return str(number)


def test_summary(m):
    script = prepare(m)
    before = sorted(os.listdir(m.dir))
    wanted = EXPECTED.format(uid=name_of("/etc/passwd", 1), gid=name_of("/etc/group", 2))
    equal(lines(m.run("run", m.dir, "--dry-run", "--", "sh", script)), lines(wanted))
    equal(sorted(os.listdir(m.dir)), before, "dropped")
    number, root = m.begin()
    subprocess.run(["sh", script], cwd=root, check=True)
    equal(lines(m.run("diff", m.dir, number)), lines(wanted))
    # Whatever others do meanwhile.
    write(m.path("other"), b"x")
    os.rename(m.path("d"), m.path("dd"))
    equal(lines(m.run("diff", m.dir, number)), lines(wanted))
    m.commit(number)
    equal(sorted(os.listdir(m.dir)), sorted(
        ["a", "bin", "dd", "empty", "hard", "link", "mode", "new", "other", "over", "saved", "to",
         "typed"]))


def test_dry_run_codes(m):
    equal(m.run("run", m.dir, "--dry-run", "true"), "no changes")
    equal(lines(m.transaction("echo out; echo x > f; exit 7", words=["--dry-run"], code=7)),
          ["out", "A /f  (2 bytes)", "1 added; +2 bytes, -0 bytes"])
    m.transaction("echo x > f; kill -9 $$", words=["--dry-run"], code=137)
    equal(os.listdir(m.dir), [])
    m.run("run", m.dir, "--dry-run", "--confirm", "true", code=2)
    m.run("run", m.dir, "--json", "true", code=2)


def test_json(m):
    script = prepare(m)
    d = json.loads(m.run("run", m.dir, "--dry-run", "--json", "--", "sh", script))
    equal(d["totals"], {"added": 4, "removed": 5, "replaced": 3, "renamed": 2, "modified": 4})
    by_path = {c["path"]: c for c in d["changes"]}
    equal(len(by_path), 18)
    c = by_path["/mode"]
    equal((c["change"], c["attributes"], c["data"]), ("modified", True, False))
    equal((c["before"]["mode"], c["after"]["mode"]), ("0644", "4755"))
    equal((c["before"]["uid"], c["after"]["uid"], c["after"]["gid"]), (0, 1, 2))
    c = by_path["/over"]
    equal((c["change"], c["old_path"], c["replaced"]["size"], c["after"]["size"]),
          ("renamed", "/old", 5, 2))
    c = by_path["/typed"]
    equal((c["change"], c["replaced"]["type"], c["after"]["type"]), ("replaced", "file", "directory"))
    c = by_path["/to/in"]
    equal((c["old_path"], c["before"]["size"], c["after"]["size"]), ("/moved/in", 3, 8))
    equal(by_path["/" + SPECIAL]["change"], "removed")
    number, root = m.begin()
    subprocess.run(["sh", script], cwd=root, check=True)
    equal(len(json.loads(m.run("diff", m.dir, number, "--json"))["changes"]), 18)
    m.abort(number)


def test_terminal_is_brief_but_hides_no_loss(m):
    for i in range(40):
        write(m.path(f"gone{i:02}"), b"x")
        write(m.path(f"{SPECIAL}{i:02}"), b"x")
        write(m.path(f"retyped{i:02}"), b"x")
    os.makedirs(m.path("tree", "deep"))
    for i in range(100):
        write(m.path("tree", "deep", str(i)), b"x" * 1000)
    script = ("rm -r gone* new* tree; for i in $(seq 10 49); do echo x > added$i; done;"
              "for f in retyped*; do rm $f; mkdir $f; done")
    words = [STETFS, "run", m.dir, "--dry-run", "--", "sh", "-c", script]
    text = Terminal(words).end(0).decode()
    check("\x1b" not in text, "no escape sequence of a name")
    for i in range(40):
        check(f"D /gone{i:02}" in text and f"T /retyped{i:02}/" in text and
              f"D /new\\nline\\033[2J{i:02}" in text, f"every loss is told: {i}: {text}")
    check("D /tree/  (and 101 below it, 97.7 KiB)" in text, text)
    check("added29" in text and "added30" not in text and "A ... 20 more (--all" in text, text)
    check("182 deleted, 40 of another type, 40 added" in text, text)
    words.insert(3, "--all")
    text = Terminal(words).end(0).decode()
    check("added49" in text and "D /tree/deep/7" in text, text)


def test_another_type_where_something_was_renamed_away(m):
    """It is told first and never left out, though what was there is still somewhere."""
    for i in range(30):
        write(m.path(f"f{i:02}"), b"x")
    for name in ("z", "y", "u", "v"):
        write(m.path(name), b"x" * 10)
    os.symlink("target", m.path("link"))
    os.symlink("target", m.path("swapped"))
    os.mkdir(m.path("dir"))
    script = ("set -e; for f in f*; do echo more >> $f; done; mv z zz; ln -s /etc/shadow z;"
              "mv y yy; mv link y; mv dir d2; echo new > dir; chmod 4755 dir; mv u u2; mv v u;"
              "mv swapped t; mv u2 swapped; mv t u3")
    text = Terminal([STETFS, "run", m.dir, "--dry-run", "--", "sh", "-c", script]).end(0).decode()
    shown = lines(text)
    equal(shown[:4], ["T /dir  (directory -> file, 4 bytes, the directory was renamed, mode 4755)",
                      "T /swapped  (symlink -> file, 10 bytes, the symlink was renamed)",
                      "T /y  (file -> symlink, the file was renamed)",
                      "T /z  (file -> symlink, the file was renamed)"], text)
    check("R /link -> /y" in shown and "M ... 10 more (--all lists them)" in text, text)
    check("M /u" not in text and "4 of another type" in shown[-1], text)
    m.transaction(script)
    d = json.loads(m.run("run", m.dir, "--dry-run", "--json", "--", "sh", "-c",
                         "mv zz x; mv z zz; mkdir z; touch new; rm y; echo 1 > u"))
    equal({c["path"]: (c["change"], c.get("old_type"), c["type"]) for c in d["changes"]},
          {"/x": ("renamed", None, "file"), "/zz": ("renamed", "file", "symlink"),
           "/z": ("replaced", "symlink", "directory"), "/new": ("added", None, "file"),
           "/y": ("removed", "symlink", "symlink"),
           "/u": ("modified", "file", "file")})


# --- patches ---

def test_patch_applies(m):
    script = prepare(m)
    os.unlink(m.path("bin"))
    number, root = m.begin()
    subprocess.run(["sh", "-c", "echo binary >> bin; . " + script], cwd=root, check=True)
    subprocess.run(["sh", "-c", "echo text > bin; rmdir typed; printf 'no newline' > a;"
                    "chmod 755 mode"], cwd=root, check=True)
    patch = os.path.join(m.folder, "patch")
    with open(patch, "wb") as file:
        subprocess.run([STETFS, "diff", "-u", m.dir, number], stdout=file, check=True)
    copy = os.path.join(m.folder, "copy")
    subprocess.run(["cp", "-a", m.dir, copy], check=True)
    if shutil.which("git"):
        subprocess.run(["git", "init", "-q"], cwd=copy, check=True)
        subprocess.run(["git", "apply", patch], cwd=copy, check=True)
        shutil.rmtree(os.path.join(copy, ".git"))
        subprocess.run(["diff", "-r", "--no-dereference", copy, root], check=True)
        equal(os.stat(os.path.join(copy, "mode")).st_mode & 0o777, 0o755, "mode")
    m.abort(number)


def apply_patch(m, program, patch, name):
    copy = os.path.join(m.folder, name)
    subprocess.run(["cp", "-a", m.dir, copy], check=True)
    if program[0] == "git":
        subprocess.run(["git", "init", "-q"], cwd=copy, check=True)
    with open(patch, "rb") as file:
        done = subprocess.run(program, cwd=copy, stdin=file, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False, timeout=60)
    shutil.rmtree(os.path.join(copy, ".git"), ignore_errors=True)
    equal(done.returncode, 0, done.stdout.decode(errors="replace"))
    if program[0] == "git":
        equal(done.stdout, b"", "without a warning")
    return copy


def test_patch_of_names_and_modes(m):
    """Names with spaces and the modes of files are written as git writes them."""
    for name, data in (("a b", b"1\n2\n"), ("go ne", b"g\n"), ("x mode", b"x\n"), ("priv", b"p\n"),
                       ("setuid", b"s\n"), ("mo ve", b"m\n"), ('sp "q', b"q\n")):
        write(m.path(name), data)
        os.chmod(m.path(name), 0o664)
    os.symlink("here", m.path("go link"))
    number, root = m.begin()
    subprocess.run(["sh", "-ec", "umask 022; echo 3 >> 'a b'; rm 'go ne' 'go link'; echo n > 'n w'; "
                    "chmod 700 'x mode'; chmod 600 priv; chmod 4755 setuid; ln -s target 'l k';"
                    "echo r > run; chmod 755 run; echo k > key; chmod 600 key; echo q >> 'sp \"q';"
                    "echo 2 > two; chmod 2711 two; touch 'em pty'; mv 'mo ve' 'mo ved'"], cwd=root, check=True)
    patch = os.path.join(m.folder, "patch")
    with open(patch, "wb") as file:
        subprocess.run([STETFS, "diff", "-u", m.dir, number], stdout=file, check=True)
    text = read(patch).decode()
    for wanted in ("--- a/a b\t\n+++ b/a b\t\n", "--- /dev/null\n+++ b/n w\t\n", "--- a/go ne\t\n",
                   '--- "a/sp \\"q"\t\n', "--- /dev/null\n+++ b/run\n",
                   "b/l k\"\nnew file mode 120000\n", "b/run\nnew file mode 100755\n",
                   "b/go link\"\ndeleted file mode 120000\n", "b/go ne\"\ndeleted file mode 100644\n",
                   "Mode 0664 -> 0700: x mode\ndiff --git \"a/x mode\" \"b/x mode\"\n"
                   "old mode 100644\nnew mode 100755\n", "Mode 0664 -> 0600: priv\n",
                   "Mode 0664 -> 4755: setuid\n", "Mode 0600: key\n", "Mode 2711: two\n"):
        check(wanted in text, f"{wanted!r}: {text}")
    check("diff --git a/priv" not in text and "Mode 0644: n w" not in text, text)
    for program in ([["git", "apply", "-"]] if shutil.which("git") else []) + \
                   ([["patch", "-p1", "--force"]] if shutil.which("patch") else []):
        copy = apply_patch(m, program, patch, "copy-" + program[0])
        subprocess.run(["diff", "-r", "--no-dereference", copy, root], check=True)
        for name, mode in (("x mode", 0o700), ("setuid", 0o755), ("run", 0o755), ("a b", 0o664)):
            got = os.stat(os.path.join(copy, name)).st_mode
            equal(bool(got & 0o100), bool(mode & 0o100), f"{program[0]}: {name}")
    m.abort(number)


def test_patch_with_a_binary_file_is_refused(m):
    """As a whole, and not applied without it."""
    write(m.path("bin"), b"\0\1")
    write(m.path("a"), b"1\n")
    write(m.path("z"), b"1\n")
    for names in (("bin",), ("a", "bin"), ("bin", "z"), ("a", "bin", "z")):
        number, root = m.begin()
        for name in names:
            write(os.path.join(root, name), b"\0\2" if name == "bin" else b"2\n")
        text = m.run("diff", "-u", m.dir, number)
        check("old mode 100644\nnew mode 100644\nBinary files a/bin and b/bin differ" in text, text)
        m.abort(number)
        if shutil.which("git"):
            done = subprocess.run(["git", "apply", "--check", "-"], input=text + "\n", cwd=m.dir,
                                  text=True, stderr=subprocess.PIPE, check=False, timeout=60)
            check(done.returncode == 1 and "binary patch to 'bin'" in done.stderr,
                  f"{names}: {done.returncode}: {done.stderr}")


def test_patch_of_what_is_no_text(m):
    write(m.path("b"), bytes(range(256)) * 100)
    write(m.path("n"), b"a" * 100_000 + b"\0")
    number, root = m.begin()
    write(os.path.join(root, "b"), bytes(range(255)) * 100)
    write(os.path.join(root, "n"), b"b" * 100_000 + b"\0")
    write(os.path.join(root, "big"), b"x\n" * (20 << 20))
    os.mkfifo(os.path.join(root, "fifo"))
    text = m.run("diff", "-u", m.dir, number)
    check("Binary files a/b and b/b differ\n(binary: 25600 -> 25500 bytes)" in text, text[:300])
    check("(large: 0 -> 41943040 bytes)" in text, text[:300])
    check("Added FIFO: fifo" in text or "Added fifo: fifo" in text, text[:300])
    check(text.isprintable() or "\0" in text, "a NUL far behind is no harm")
    m.abort(number)


def test_patch_on_a_terminal_is_text(m):
    number, root = m.begin()
    write(os.path.join(root, "evil"), b"good\x1b[1A\x1b[2Kbad\r\xc3\xa4 \xff\tend\n" * 3000)
    write(os.path.join(root, SPECIAL), b"x\n")
    for env in ({"STETFS_PAGER": ""}, {"STETFS_PAGER": "cat"}, {"PAGER": "cat -"}):
        text = Terminal([STETFS, "diff", "-u", m.dir, number],
                        env={"LC_ALL": "C.UTF-8", **env}).end(0).replace(b"\r\n", b"\n")
        equal(text.count(b"+good\\033[1A\\033[2Kbad\\r\xc3\xa4 \\377\tend\n"), 3000, text[:500])
        check(b"\x1b" not in text and b'"b/new\\nline\\033[2J"' in text, text[-300:])
    m.abort(number)


def test_pager(m):
    number, root = m.begin()
    write(os.path.join(root, "f"), b"line\n" * 100_000)
    words = [STETFS, "diff", "-u", m.dir, number]
    text = Terminal(words, env={"STETFS_PAGER": "sed 's/^/paged: /' | head -3"}).end(0)
    equal(text.count(b"paged: "), 3, text[:500])
    text = Terminal(words, env={"PAGER": "head -2", "STETFS_PAGER": "head -1"}).end(0)
    equal(text.count(b"\n"), 1, "STETFS_PAGER comes first")
    text = Terminal(words, env={"STETFS_PAGER": "/not/there"}).end(0)
    check(b"not found" in text, text)
    m.abort(number)


def test_no_diff_program(m):
    number, root = m.begin()
    write(os.path.join(root, "f"), b"line\n")
    write(os.path.join(root, "g"), b"line\n")
    text = m.run("diff", "-u", m.dir, number, code=1, env={"PATH": m.folder})
    check(text.count("no such program") == 1 and "diff --git a/g b/g" in text, text)
    m.abort(number)


def test_patch_shows_what_its_reader_may_read(m):
    os.chmod(m.dir, 0o777)
    write(m.path("secret"), b"secret\n")
    write(m.path("open"), b"open\n")
    os.chmod(m.path("secret"), 0o600)
    os.chown(m.path("secret"), 2000, 2000)

    def mine():
        number, root = m.begin()
        os.rename(os.path.join(root, "secret"), os.path.join(root, "renamed"))
        write(os.path.join(root, "secret"), b"mine\n")
        os.unlink(os.path.join(root, "open"))
        text = m.run("diff", "-u", m.dir, number)
        check("-open" in text and "+mine" in text and "rename from secret" in text, text)
        os.unlink(os.path.join(root, "renamed"))
        text = m.run("diff", "-u", m.dir, number, code=1)
        check("Permission denied" in text and "secret\n" not in text.split("(cannot")[1], text)
        m.abort(number)

    as_user(mine)


def test_base(m):
    """What a transaction began with, beside what it is now."""
    write(m.path("a"), b"old")
    number, root = m.begin()
    base = os.path.join(os.path.dirname(root), "base")
    equal(sorted(os.listdir(os.path.dirname(root))), ["base", "root"])
    write(os.path.join(root, "a"), b"mine")
    write(m.path("b"), b"other")
    equal((read(os.path.join(base, "a")), os.listdir(base)), (b"old", ["a"]))
    equal(len({os.stat(os.path.join(d, "a")).st_ino for d in (base, root, m.dir)}), 3)
    for change in (lambda: write(os.path.join(base, "a"), b"x"),
                   lambda: os.unlink(os.path.join(base, "a")),
                   lambda: os.rename(os.path.join(base, "a"), os.path.join(base, "b")),
                   lambda: os.chmod(os.path.join(base, "a"), 0)):
        try:
            change()
        except OSError as failure:
            equal(failure.strerror, "Read-only file system")
        else:
            raise Failure("the base was changed")
    fd = os.open(os.path.join(base, "a"), os.O_RDONLY)
    check("transaction" in m.run("umount", m.dir, code=1), "the transaction is named")
    equal(m.run("txns", m.dir).count("\n"), 1, "one transaction is listed")
    m.commit(number)
    try:
        os.read(fd, 10)
    except OSError as failure:
        equal(failure.strerror, "Stale file handle")
    else:
        raise Failure("the base outlives its transaction")
    os.close(fd)
    check(not os.path.exists(base), "it has gone")
    equal(read(m.path("a")), b"mine")


# --- confirming ---

def confirm(m, script, *words, env=None):
    return Terminal([STETFS, "run", m.dir, "--confirm", *words, "--", "sh", "-c", script],
                    env={"STETFS_PAGER": "cat -", **(env or {})})


def test_confirm(m):
    write(m.path("a"), b"1\n2\n")
    script = "echo 3 >> a; echo n > new; rm -f nothing"
    for answer, committed in ((b"n\n", False), (b"\n", False), (b"\x04", False), (b"yess\n", False),
                              (b"q\n", False), (b"y\n", True)):
        t = confirm(m, script)
        shown = t.expect(QUESTION)
        check(b"A /new  (2 bytes)\r\nM /a  (4 -> 6 bytes)\r\n1 added, 1 changed" in shown, shown)
        equal(read(m.path("a")), b"1\n2\n", "not yet")
        t.send(answer)
        text = t.end(0 if committed else 122)
        check((b"declined" in text) != committed, text)
        equal(os.path.exists(m.path("new")), committed, answer)
    equal(read(m.path("a")), b"1\n2\n3\n", "committed")
    t = confirm(m, "echo x > YES")
    t.expect(QUESTION)
    t.send(b"YES\n")
    t.end(0)


def test_confirm_shows_more(m):
    write(m.path("a"), b"1\n2\n")
    t = confirm(m, "echo 3 >> a; for i in $(seq 10 49); do echo $i > n$i; done")
    shown = t.expect(QUESTION)
    check(b"A ... 20 more (l: list all)" in shown, shown)
    t.send(b"d\n")
    shown = t.expect(QUESTION)
    check(b"\n 2\r\n+3\r\n" in shown and b"+++ b/n49\r\n" in shown, shown)
    t.send(b"l\n")
    check(b"A /n49" in t.expect(QUESTION), "all of it")
    t.send(b"y\n")
    t.end(0)
    equal(len(os.listdir(m.dir)), 41)


def test_confirm_answers_only_when_asked(m):
    """What was typed before the question is no answer to it."""
    t = confirm(m, "echo x > f; echo ready; sleep 1")
    t.expect(b"ready\r\n")
    t.send(b"y\n")
    t.expect(QUESTION)
    time.sleep(0.3)
    equal(os.listdir(m.dir), [])
    t.send(b"n\n")
    t.end(122)
    # Nor is what comes by a pipe.
    done = subprocess.run([STETFS, "run", m.dir, "--confirm", "touch", "f"], input=b"y\n" * 9,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          start_new_session=True, timeout=30)
    equal(done.returncode, 122, done.stdout)
    check(b"no terminal" in done.stdout and done.stdout.count(b"\n") == 1, done.stdout)
    equal(os.listdir(m.dir), [])


def test_confirm_failure_and_nothing(m):
    t = confirm(m, "echo x > f; exit 3")
    check(QUESTION not in t.end(3), "a failure is not asked about")
    t = confirm(m, "true")
    check(QUESTION not in t.end(0), "nothing is not asked about")


def test_confirm_interrupted(m):
    t = confirm(m, "echo x > f")
    t.expect(QUESTION)
    t.send(b"\x03")
    t.end(130)
    t = confirm(m, "echo x > f")
    t.expect(QUESTION)
    os.kill(t.pid, signal.SIGTERM)
    t.end(143)
    t = confirm(m, "echo x > f", "--timeout", "1")
    t.expect(QUESTION)
    check(b"no answer in time" in t.end(124), "said so")
    equal(os.listdir(m.dir), [])
    t = confirm(m, "echo x > f")
    t.expect(QUESTION)
    m.kill()
    check(b"daemon has gone" in t.end(123), "said so")
    m.mount()
    equal(os.listdir(m.dir), [])


def test_confirmed_is_what_was_shown(m):
    """Who stays behind cannot change anything between the question and the commit."""
    note = os.path.join(m.folder, "note")
    fd_writer = "import mmap,os,time; f=open('mapped','r+b'); a=mmap.mmap(f.fileno(), 4096)"
    write(m.path("mapped"), b"m" * 4096)
    t = confirm(m, f"echo good > f; exec 8>> f; setsid sh -c 'sleep 1; echo bad >&8; echo bad > f;"
                f" touch g; rm f; chmod 0 f; ls > {note}' > /dev/null 2>&1 &")
    t.expect(QUESTION)
    until = time.monotonic() + 10
    while not os.path.exists(note) and time.monotonic() < until:
        time.sleep(0.1)
    equal(read(note).split(), [b"f", b"mapped"], "it could look, and change nothing")
    t.send(b"y\n")
    t.end(0)
    equal(read(m.path("f")), b"good\n")
    equal(sorted(os.listdir(m.dir)), ["f", "mapped"])
    # A mapping is written behind everybody's back: then nothing is committed.
    t = confirm(m, f"echo x > g; setsid {sys.executable} -c \"{fd_writer}; open('ready','w'); "
                f"time.sleep(1.5); a[:3]=b'bad'; open('{note}2','w'); time.sleep(1)\" "
                "< /dev/null > /dev/null 2>&1 & until [ -e ready ]; do sleep 0.1; done")
    t.expect(QUESTION)
    until = time.monotonic() + 10
    while not os.path.exists(note + "2") and time.monotonic() < until:
        time.sleep(0.1)
    t.send(b"y\n")
    check(b"mapped file" in t.end(123), "said so")
    equal(read(m.path("mapped")), b"m" * 4096)
    check(not os.path.exists(m.path("g")), "nothing of it")


def test_confirm_meets_conflict(m):
    """Of a transaction that cannot be committed nobody is asked."""
    write(m.path("a"), b"one")
    fd = os.open(m.dir, os.O_RDONLY)
    os.dup2(fd, 9, inheritable=True)
    t = confirm(m, "cat a; echo other > /dev/fd/9/a; (echo mine > a) 2>/dev/null; true")
    text = t.end(123)
    check(b"conflict" in text and QUESTION not in text, text)
    os.close(9)
    os.close(fd)
    equal(read(m.path("a")), b"other\n")


# --- within one another ---

def test_within(m):
    """A run within a run is a part of it."""
    write(m.path("a"), b"1\n")
    inner = f"{STETFS} run {m.dir}"
    m.transaction(f"echo 2 >> a; {inner} -- sh -c 'cat a; echo 3 >> a; mkdir d'; cat a; ls d; "
                  f"cd d; {inner} -- pwd")
    equal(read(m.path("a")), b"1\n2\n3\n")
    m.transaction(f"{inner} -- sh -c 'echo x > x'; exit 5", code=5)
    check(not os.path.exists(m.path("x")), "dropped with the rest")
    # Codes pass; what changed nothing does no harm.
    m.transaction(f"{inner} -- sh -c 'exit 7'; test $? = 7 && echo x > x")
    check(os.path.exists(m.path("x")), "committed")
    m.transaction(f"{inner} not-there", code=127)
    m.transaction(f"{inner} --timeout 1 sleep 9", code=124)
    # What failed half way cannot be kept, whatever the rest thinks of it.
    text = m.transaction(f"{inner} -- sh -c 'echo y > y; exit 7'; echo z > z", code=123)
    check("half way" in text, text)
    text = m.transaction(f"setsid {inner} -- sh -c 'echo y > y; sleep 3' & sleep 1; pkill -9 -f "
                         f"'run {m.dir} -- sh -c echo y' ; sleep 0.5; echo z > z", code=None)
    check(not os.path.exists(m.path("z")) and not os.path.exists(m.path("y")), text)
    # Three deep, and in parallel.
    m.transaction(f"{inner} -- {inner} -- {inner} -- touch deep & {inner} touch side & wait")
    check(os.path.exists(m.path("deep")) and os.path.exists(m.path("side")), "committed")


def test_within_options(m):
    write(m.path("a"), b"1\n")
    inner = f"{STETFS} run {m.dir}"
    text = m.transaction(f"{inner} --read-only -- sh -c 'cat a; echo x > b'; echo c > c", code=None)
    check("Read-only" in text and "1" in text, text)
    equal(sorted(os.listdir(m.dir)), ["a", "c"])
    for words in ("--dry-run", "--confirm", "--serializable"):
        text = m.transaction(f"{inner} {words} true", code=125)
        equal(text.count("\n"), 0, text)
    m.transaction(f"{inner} --serializable true", words=["--serializable"])
    m.transaction(f"{inner} --retry 3 touch d")
    check("reached" in m.transaction(f"{STETFS} begin {m.dir}", code=1), "begin")
    equal(m.transaction("echo $STETFS_TRANSACTION").isdigit(), True)


def test_commands_within(m):
    write(m.path("a"), b"1\n")
    os.mkdir(os.path.join(m.folder, "tree"))
    write(os.path.join(m.folder, "tree", "f"), b"f\n")
    v, s = m.image, STETFS
    m.transaction(f"set -e; echo 2 > b; {s} ls {v}:/; test \"$({s} cat {v}:/b)\" = 2;"
                  f"{s} cp -r {m.folder}/tree {v}:/; test -e tree/f; {s} mv {v}:/a {v}:/c; "
                  f"{s} stat {v}:/c; {s} sync {m.dir}; {s} stats {m.dir} > /dev/null")
    equal(sorted(os.listdir(m.dir)), ["b", "c", "tree"])
    text = m.transaction(f"{s} diff {m.dir}; touch n; {s} diff {m.dir}")
    check("no changes" in text and "A /n" in text, text)
    m.transaction(f"{s} rm {v}:/b; exit 1", code=1)
    check(os.path.exists(m.path("b")), "dropped")
    # A copy that fails half way must not be kept.
    os.mkdir(os.path.join(m.folder, "tree", "z"))
    text = m.transaction(f"mkdir -p tree; touch tree/z; {s} cp -r {m.folder}/tree {v}:/; echo x > x",
                         code=None)
    check(not os.path.exists(m.path("x")), text)
    check("transaction" in m.transaction(f"{s} umount {m.dir}", code=1), "umount refuses")


def test_other_mount_within(m):
    """A run on another mount has its own transaction, which ends by itself."""
    other = os.path.join(m.folder, "other")
    os.mkdir(other)
    m.run("mkfs", m.image + "2", "--size", "32M")
    m.run("mount", m.image + "2", other)
    try:
        m.transaction(f"touch a; {STETFS} run {other} -- sh -c 'touch b; touch {m.dir}/c'; exit 1",
                      code=1)
        equal((os.listdir(m.dir), os.listdir(other)), ([], ["b"]))
    finally:
        m.run("umount", other)


def test_many_changes(m):
    """The time that it takes to show changes goes with their number."""
    m.umount()
    m.run("mkfs", m.image, "--size", "1G", "--force")
    m.mount()
    count = 10_000

    def timed(script):
        number, root = m.begin()
        subprocess.run([sys.executable, "-c", script], cwd=root, check=True)
        began = time.monotonic()
        text = m.run("diff", m.dir, number)
        seconds = time.monotonic() - began
        m.commit(number)
        return text.split("\n"), seconds

    text, seconds = timed(f"import os\nfor i in range({count}):\n os.mkdir(f'd{{i}}')\n"
                          f" open(f'd{{i}}/f', 'w').close()")
    equal(len(text), 2 * count + 1)
    check(seconds < 5, f"{seconds} s to list added files")
    text, seconds = timed(f"for i in range({count}): open(f'd{{i}}/f', 'w').write('x')")
    equal(len(text), count + 1)
    check(seconds < 5, f"{seconds} s to list changed files")


if __name__ == "__main__":
    main(globals())
