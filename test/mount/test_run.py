#!/usr/bin/env python3
"""`stetfs run`: exit codes, ordinary users, signals, what a command leaves running, retries."""
import errno
import os
import pty
import select
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time

from mountlib import STETFS, Failure, as_user, check, equal, fails, is_gone, main, read, write

USER = 1000


def wait_for(condition, text, seconds=10):
    until = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < until, f"in vain: {text}")
        time.sleep(0.01)


def popen(m, *words, **kwargs):
    """A run that goes on beside the test, in a process group of its own as a shell's job."""
    return subprocess.Popen([STETFS, "run", m.dir, *words], start_new_session=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **kwargs)


def output(process, code, seconds=30):
    """Its output, when it has ended with this code."""
    text = process.communicate(timeout=seconds)[0].decode(errors="replace")
    equal(process.returncode, code, text)
    return text


def pid_in(path):
    """The number that a command wrote into a file outside of the volume."""
    wait_for(lambda: os.path.exists(path) and read(path).strip().isdigit(), path)
    return int(read(path))


def busy(m):
    """Is a transaction open?"""
    return m.run("txns", m.dir) != ""


# --- exit codes ---

def test_codes(m):
    for code in (0, 1, 2, 77, 121, 255):
        m.transaction(f"echo x > f{code}; exit {code}", code=code)
    equal(os.listdir(m.dir), ["f0"], "committed")
    m.transaction("kill -9 $$", code=137)
    m.transaction("kill -SEGV $$", code=139)
    check("not-there" in m.run("run", m.dir, "not-there", code=127), "not found")
    check("No such file" in m.run("run", m.dir, "./not-there", code=127), "not found")
    write(os.path.join(m.folder, "data"), b"data")
    check("denied" in m.run("run", m.dir, os.path.join(m.folder, "data"), code=126), "not executable")
    check("denied" in m.run("run", m.dir, "/", code=126), "a directory")
    check("no StetFS" in m.run("run", "/", "true", code=125), "no mount")
    m.run("run", m.path("missing"), "true", code=125)
    m.run("run", m.dir, code=2)
    m.run("run", m.dir, "--bad", "true", code=2)
    m.run("run", m.dir, "--timeout", "x", "true", code=2)
    check("at least 1" in m.run("run", m.dir, "--timeout", "0", "true", code=2), "no time")
    m.run("run", m.dir, "--timeout", str(2**64 - 1), "true", code=2)
    m.run("run", m.dir, "--retry", "x", "true", code=2)
    equal(os.listdir(m.dir), ["f0"], "nothing else")


def test_options_end_at_the_command(m):
    equal(m.run("run", m.dir, "echo", "--timeout"), "--timeout")
    equal(m.run("run", "--timeout", "9", m.dir, "--", "echo", "--", "-v"), "-- -v")


def test_where_it_starts(m):
    os.makedirs(m.path("a", "b"))
    os.symlink(m.path("a"), os.path.join(m.folder, "link"))
    os.symlink(m.dir, os.path.join(m.folder, "mount link"))
    there = {"PWD": "/some/lie", "PATH": os.environ["PATH"]}

    def start(where, cwd):
        return m.run("run", where, "--", "sh", "-c", 'pwd; echo "$PWD"; /bin/pwd', cwd=cwd,
                     env=there).split("\n")

    equal(start(m.dir, "/"), [m.dir] * 3)
    equal(start(m.dir, m.path("a", "b")), [m.path("a", "b")] * 3)
    equal(start(m.path("a"), m.dir), [m.path("a")] * 3)
    equal(start(os.path.join(m.folder, "link"), "/"), [m.path("a")] * 3)
    equal(start(os.path.join(m.folder, "mount link"), m.path("a")), [m.path("a")] * 3)
    equal(start(".", m.path("a", "b")), [m.path("a", "b")] * 3)
    # In what somebody has mounted below it, the view has only what is beneath.
    subprocess.run(["mount", "-t", "tmpfs", "none", m.path("a", "b")], check=True)
    try:
        os.mkdir(m.path("a", "b", "c"))
        equal(start(m.dir, m.path("a", "b", "c")), [m.dir] * 3)
    finally:
        subprocess.run(["umount", m.path("a", "b")], check=True)


def test_hidden_mount(m):
    """Something else lies over the mount: there is no way to it."""
    subprocess.run(["mount", "-t", "tmpfs", "none", m.dir], check=True)
    try:
        m.run("run", m.dir, "true", code=125)
    finally:
        subprocess.run(["umount", m.dir], check=True)


def test_read_only(m):
    write(m.path("a"), b"one")
    text = m.transaction("cat a; echo x > b", words=["--read-only"], code=None)
    check("one" in text and "Read-only" in text, text)
    equal(os.listdir(m.dir), ["a"])


def test_all_descriptors_closed(m):
    code = "import os; os.closerange(0, 4096); open('f', 'w').write('x')"
    m.run("run", m.dir, "--", sys.executable, "-c", code)
    equal(read(m.path("f")), b"x")


def test_large_output_and_no_terminal(m):
    data = b"0123456789abcde\n" * 100_000
    done = subprocess.run([STETFS, "run", m.dir, "--", "sh", "-c", "cat | tee copy"], input=data,
                          stdout=subprocess.PIPE, check=True, timeout=60, start_new_session=True)
    equal(done.stdout == data, True, "output")
    equal(read(m.path("copy")) == data, True, "content")


def test_pipelines(m):
    m.transaction("seq 1000 | sort -r | while read n; do echo $n; done > out; (echo sub) | cat >> out")
    equal(len(read(m.path("out")).split()), 1001)


# --- ordinary users ---

def user(words, groups=()):
    """Runs the program as USER; code and output."""
    return subprocess.run(
        ["setpriv", f"--reuid={USER}", f"--regid={USER}",
         f"--groups={','.join(str(g) for g in groups)}" if groups else "--clear-groups", "--",
         STETFS, *words],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=60)


def can_users_run():
    done = subprocess.run(["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups",
                           "unshare", "-Um", "true"], check=False, stderr=subprocess.DEVNULL)
    return done.returncode == 0


def test_user(m):
    if not can_users_run():
        print("  (users have no namespaces here)")
        return
    os.chmod(m.dir, 0o777)
    write(m.path("roots"), b"x")
    os.mkdir(m.path("groups"))
    os.chown(m.path("groups"), 0, 2000)
    os.chmod(m.path("groups"), 0o770)
    script = ("id -u; id -g; echo new > mine; mkdir dir; echo y > groups/z; cat roots;"
              "echo no 2>/dev/null > roots || echo refused; stat -c %u mine; umount . 2>/dev/null;"
              "mount -t tmpfs none . 2>/dev/null; cat mine")
    done = user(["run", m.dir, "--", "sh", "-c", script], groups=(2000, 3000))
    equal(done.returncode, 0, done.stdout)
    equal(done.stdout.split(), b"1000 1000 xrefused 1000 new".split(), "inside")
    for name in ("mine", "dir"):
        st = os.stat(m.path(name))
        equal((st.st_uid, st.st_gid), (USER, USER), name)
    check(os.path.exists(m.path("groups", "z")), "a supplementary group counts")
    done = user(["run", m.dir, "--", "sh", "-c", "rm mine; exit 3"])
    equal(done.returncode, 3, done.stdout)
    check(os.path.exists(m.path("mine")), "dropped")
    equal(user(["run", m.dir, "--read-only", "--", "sh", "-c", "echo x > mine"]).returncode, 2)
    equal(user(["run", m.dir, "--", "not-there"]).returncode, 127)


def test_user_set_id(m):
    """A set-id program gives nothing in there; the user's own transaction is no way to root."""
    if not can_users_run():
        return
    m.remount("suid")
    os.chmod(m.dir, 0o777)
    shutil.copy("/usr/bin/id", m.path("id"))
    os.chmod(m.path("id"), 0o6755)
    done = user(["run", m.dir, "--", "./id", "-u"])
    equal(done.stdout.strip(), b"1000", "effective")


def test_user_without_namespaces(m):
    if not can_users_run():
        return
    os.chmod(m.dir, 0o777)
    script = (f"echo 0 > /proc/sys/user/max_user_namespaces;"
              f"exec setpriv --bounding-set=-all --inh-caps=-all {STETFS} run {m.dir} -- touch x")
    done = subprocess.run(["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--",
                           "unshare", "-Ur", "sh", "-c", script], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False, timeout=60)
    equal(done.returncode, 125, done.stdout)
    equal(done.stdout.count(b"\n"), 1, done.stdout)
    check(b"namespace" in done.stdout, done.stdout)
    check(not busy(m), "nothing is left open")


def test_users_own_mount(m):
    """Mounted by fusermount3, for its user alone."""
    if not can_users_run() or not shutil.which("fusermount3"):
        return
    mode = stat.S_IMODE(os.stat("/dev/fuse").st_mode)
    home = os.path.join(m.folder, "home")
    os.mkdir(home)
    os.mkdir(os.path.join(home, "mnt"))
    for path in (home, os.path.join(home, "mnt")):
        os.chown(path, USER, USER)
    image, where = os.path.join(home, "v"), os.path.join(home, "mnt")
    os.chmod("/dev/fuse", 0o666)
    try:
        equal(user(["mkfs", image, "--size", "32M"]).returncode, 0)
        done = user(["mount", image, where])
        equal(done.returncode, 0, done.stdout)
        try:
            done = user(["run", where, "--", "sh", "-c", "id -u; echo x > f; stat -c %u f"])
            equal((done.returncode, done.stdout), (0, b"1000\n1000\n"))
            equal(user(["run", where, "--", "sh", "-c", "rm f; false"]).returncode, 1)
            as_user(lambda: equal(read(os.path.join(where, "f")), b"x\n"))
        finally:
            done = user(["umount", where])
        equal(done.returncode, 0, done.stdout)
    finally:
        os.chmod("/dev/fuse", mode)


def test_many_users_at_once(m):
    if not can_users_run():
        return
    os.chmod(m.dir, 0o777)
    wrong = []

    def one(uid):
        for i in range(3):
            code = (uid + i) % 3
            done = subprocess.run(
                ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--", STETFS,
                 "run", m.dir, "--", "sh", "-c",
                 f"mkdir u{uid}.{i}; for f in 1 2 3; do id -u > u{uid}.{i}/$f; done; exit {code}"],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=60)
            there = os.path.exists(m.path(f"u{uid}.{i}"))
            if done.returncode != code or there != (code == 0):
                wrong.append((uid, i, done.returncode, done.stdout, there))

    threads = [threading.Thread(target=one, args=(USER + n,)) for n in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(wrong, [])
    for name in os.listdir(m.dir):
        uid = int(name[1:].split(".")[0])
        equal(os.stat(m.path(name)).st_uid, uid, name)
        equal(sorted(os.listdir(m.path(name))), ["1", "2", "3"], name)
        equal(read(m.path(name, "2")), b"%d\n" % uid, name)


# --- signals ---

# A shell minds a signal only when what it waits for has ended.
NAPS = "i=0; while [ $i -lt 300 ]; do sleep 0.1; i=$((i + 1)); done"


def started(m, script, *words, first=":"):
    """A run whose command has started (and done what comes first), and the number of that."""
    note = os.path.join(m.folder, "pid")
    if os.path.exists(note):
        os.unlink(note)
    process = popen(m, *words, "--", "sh", "-c", f"{first}; echo $$ > {note}; {script}")
    return process, pid_in(note)


def test_signals_abort_and_pass_on(m):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        note = os.path.join(m.folder, f"note{number}")
        process, _ = started(m, NAPS, first=f"trap 'echo got > {note}; exit 7' INT TERM HUP QUIT;"
                                            "echo x > f")
        process.send_signal(number)
        output(process, 7)
        equal(read(note), b"got\n", "passed on")
        process, pid = started(m, "echo x > f; exec sleep 30")
        process.send_signal(number)
        output(process, 128 + number)
        check(is_gone(pid), "the command has ended")
        # A command that succeeds all the same does not commit.
        process, _ = started(m, NAPS, first="trap 'exit 0' INT TERM HUP QUIT; echo x > f")
        process.send_signal(number)
        output(process, 128 + number)
    equal(os.listdir(m.dir), [])
    check(not busy(m), "nothing is left open")


def test_ignored_signals_stay_ignored(m):
    """As under nohup(1)."""
    process = subprocess.Popen(
        ["sh", "-c", f'trap "" HUP; exec {STETFS} run {m.dir} -- sh -c "echo x > f; sleep 1"'],
        start_new_session=True)
    wait_for(lambda: busy(m), "it has begun")
    process.send_signal(signal.SIGHUP)
    equal(process.wait(20), 0)
    equal(os.listdir(m.dir), ["f"])


def test_command_that_will_not_end(m):
    process, pid = started(m, "while :; do sleep 1; done", first="trap '' TERM INT; echo x > f")
    process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    output(process, 137)
    check(3 < time.monotonic() - began < 15, "killed after a while")
    check(is_gone(pid), "the command has ended")
    equal(os.listdir(m.dir), [])


def test_timeout(m):
    began = time.monotonic()
    text = m.run("run", m.dir, "--timeout", "1", "--", "sh", "-c", "echo x > f; sleep 30", code=124)
    check("time was up" in text, text)
    check(0.9 < time.monotonic() - began < 8, "in time")
    equal(os.listdir(m.dir), [])
    m.run("run", m.dir, "--timeout", "30", "--", "sh", "-c", "echo x > f")
    equal(os.listdir(m.dir), ["f"])
    m.run("run", m.dir, "--timeout", "30", "--", "sh", "-c", "exit 5", code=5)


def test_killed(m):
    """kill -9 of the run itself: no process of the group survives, nothing is left."""
    process, pid = started(m, "echo x > f; sleep 60 & sleep 60")
    process.kill()
    equal(process.wait(), -9)
    wait_for(lambda: is_gone(pid), "the command is ended")
    wait_for(lambda: not busy(m), "the transaction is ended")
    equal(os.listdir(m.dir), [])


def test_killed_at_any_moment(m):
    for i in range(40):
        process = popen(m, "--", "sh", "-c", f"mkdir d{i}; echo x > d{i}/a; echo x > d{i}/b")
        time.sleep(i * 0.0015)
        process.kill()
        process.wait()
    wait_for(lambda: not busy(m), "all have ended")
    for name in os.listdir(m.dir):
        equal(sorted(os.listdir(m.path(name))), ["a", "b"], name)
    left = subprocess.run(["pgrep", "-f", m.dir + " "], stdout=subprocess.PIPE, check=False)
    equal(left.stdout, b"", "processes")


def test_daemon_killed(m):
    process, pid = started(m, "echo x > f; sleep 60 & sleep 60")
    text = []
    reader = threading.Thread(target=lambda: text.append(output(process, 123)))
    reader.start()
    m.kill()
    reader.join(20)
    check(text and "daemon has gone" in text[0], text)
    check(is_gone(pid), "the command has ended")
    m.mount()
    equal(os.listdir(m.dir), [])


def test_ended_by_somebody_else(m):
    process, _ = started(m, "echo x > f; sleep 1")
    m.abort(m.run("txns", m.dir).split("\n")[1].split()[0])
    check("somebody else" in output(process, 123), "said so")
    equal(os.listdir(m.dir), [])


def test_not_committed_by_somebody_else(m):
    """Half of what a command does cannot be committed from outside."""
    process, _ = started(m, "echo x > f; sleep 1; echo y > g")
    text = m.commit(m.run("txns", m.dir).split("\n")[1].split()[0], code=1)
    check("running" in text, text)
    equal(os.listdir(m.dir), [])
    output(process, 0)
    equal(sorted(os.listdir(m.dir)), ["f", "g"])


# --- what is left running ---

def test_background_is_waited_for(m):
    process, _ = started(m, "(sleep 3; echo late > late) & echo x > f")
    text = output(process, 0)
    check("waiting for" in text, text)
    equal(sorted(os.listdir(m.dir)), ["f", "late"])


def test_stopped_background_goes_on(m):
    m.transaction("sh -c 'kill -STOP $$; echo on > on' & sleep 0.5; echo x > f")
    equal(sorted(os.listdir(m.dir)), ["f", "on"])


def test_background_of_a_failure_is_ended(m):
    process, pid = started(m, "sleep 60 & echo x > f; exit 4")
    output(process, 4)
    wait_for(lambda: subprocess.run(["pgrep", "-g", str(pid)], stdout=subprocess.DEVNULL,
                                    check=False).returncode != 0, "its group has ended")
    equal(os.listdir(m.dir), [])


def test_waiting_for_background_can_be_interrupted(m):
    process, _ = started(m, "sleep 60 & echo x > f")
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    output(process, 130)
    equal(os.listdir(m.dir), [])
    check("time was up" in m.run("run", m.dir, "--timeout", "1", "--", "sh", "-c",
                                 "sleep 60 & echo x > f", code=124), "a limit counts as well")


def test_daemons_are_left_alone(m):
    """Who has left the group is not waited for, and has nothing any more after the commit."""
    note = os.path.join(m.folder, "note")
    m.transaction(f"setsid sh -c 'echo $$ > {note}.pid; exec 9> f; sleep 2; echo y >&9; "
                  f"echo $? > {note}; cat f; echo $? >> {note}' > /dev/null 2>&1 &"
                  f"while ! [ -s f ] && ! [ -e f ]; do sleep 0.1; done")
    equal(read(m.path("f")), b"", "as of the command's end")
    pid = pid_in(note + ".pid")
    wait_for(lambda: is_gone(pid), "it goes on")
    check(b"0" not in read(note), read(note))
    equal(read(m.path("f")), b"", "nothing came later")


def test_namespaces_hold_no_other_mount(m):
    """A run has copies of all mounts. Another volume can be unmounted nevertheless."""
    other = os.path.join(m.folder, "other")
    os.mkdir(other)
    m.run("mkfs", m.image + "2", "--size", "32M")
    m.run("mount", m.image + "2", other)
    process, _ = started(m, f"cat {other}/* ; sleep 60")
    began = time.monotonic()
    m.run("umount", other)
    check(time.monotonic() - began < 5, "at once")
    m.run("check", m.image + "2")
    process.terminate()
    output(process, 143)
    # Nor do the rests of a run hold its own.
    note = os.path.join(m.folder, "rest")
    m.transaction(f"setsid sh -c 'echo $$ > {note}; exec 9< .; exec sleep 60' > /dev/null 2>&1 &"
                  f"until [ -s {note} ]; do sleep 0.1; done")
    began = time.monotonic()
    m.umount()
    check(time.monotonic() - began < 5, "at once")
    os.kill(pid_in(note), signal.SIGKILL)


# --- stop and continue ---

def state_of(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return file.read().rsplit(")", 1)[1].split()[0]


class Shell:
    """An interactive shell on a terminal of its own."""

    def __init__(self, cwd):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.environ.update({"PS1": "ready> ", "TERM": "dumb", "HISTFILE": "/dev/null"})
            os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
        self.seen = b""
        self.expect(b"ready> ")

    def send(self, text):
        os.write(self.fd, text)

    def expect(self, text, seconds=15):
        until = time.monotonic() + seconds
        while text not in self.seen:
            left = until - time.monotonic()
            ready = select.select([self.fd], [], [], max(left, 0))[0]
            try:
                more = os.read(self.fd, 4096) if ready else b""
            except OSError:
                more = b""
            if not more:
                raise Failure(f"no {text!r} on the terminal: {self.seen!r}")
            self.seen += more
        before, self.seen = self.seen.split(text, 1)
        return before

    def do(self, line):
        """A line, and what it prints."""
        self.send(line.encode() + b"; echo 'co''de' $?\n")
        before = self.expect(b"code ")
        code = self.expect(b"\r\n")
        self.expect(b"ready> ")
        return before.split(b"\n", 1)[-1], int(code)

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def test_job_control(m):
    shell = Shell(m.folder)
    try:
        run = f"{STETFS} run {m.dir} --"
        # Keys reach us and the command.
        shell.send(f"{run} sh -c 'echo x > f; echo started; sleep 60'\n".encode())
        shell.expect(b"started\r\n")
        time.sleep(0.2)
        shell.send(b"\x03")
        shell.expect(b"ready> ")
        equal(shell.do("true")[1], 0)
        equal(os.listdir(m.dir), [], "interrupted")
        # It reads the terminal, is stopped, put in the background, and comes back.
        shell.send(f"{run} sh -c 'echo got it; read a; echo \"<$a>\" > f; cat f'\n".encode())
        shell.expect(b"got it\r\n")
        time.sleep(0.3)
        shell.send(b"\x1a")
        shell.expect(b"Stopped")
        shell.expect(b"ready> ")
        equal(shell.do("echo free")[0].strip(), b"free")
        shell.send(b"bg\n")
        shell.expect(b"ready> ")
        time.sleep(0.3)
        equal(shell.do("echo still free")[0].split(b"\n")[-2].strip(), b"still free")
        shell.send(b"fg\n")
        time.sleep(0.3)
        shell.send(b"hello\n")
        shell.expect(b"<hello>")
        shell.expect(b"ready> ")
        equal(read(m.path("f")), b"<hello>\n")
        # A shell in it has jobs of its own.
        shell.send(f"PS1='inner> ' {run} bash --norc --noprofile -i\n".encode())
        shell.expect(b"inner> ")
        shell.send(b"sleep 60\n")
        time.sleep(0.3)
        shell.send(b"\x1a")
        shell.expect(b"inner> ")
        shell.send(b"kill %1; echo inner > g; cat g; exit\n")
        shell.expect(b"inner\r\n")
        shell.expect(b"ready> ")
        equal(read(m.path("g")), b"inner\n")
        equal(shell.do("echo mine")[0].strip(), b"mine")
        # In a pipeline the terminal is the neighbour's.
        shell.send(f"{run} sh -c 'echo from inside; sleep 1; echo z > h' | "
                   "(read a; read b < /dev/tty; echo \"[$a][$b]\"; cat)\n".encode())
        time.sleep(0.3)
        shell.send(b"typed\n")
        shell.expect(b"[from inside][typed]")
        shell.expect(b"ready> ")
        equal(read(m.path("h")), b"z\n")
    finally:
        shell.close()


def test_stopped_without_terminal(m):
    process, pid = started(m, "echo x > f; sleep 1; echo y > g")
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: state_of(pid) == "T", "it is stopped")
    time.sleep(0.3)
    check(state_of(process.pid) != "T", "we are not: nobody would continue us")
    os.kill(pid, signal.SIGCONT)
    output(process, 0)
    equal(sorted(os.listdir(m.dir)), ["f", "g"])


# --- retries ---

def test_retry(m):
    """Two who change the same file: with retries, both get through."""
    write(m.path("n"), b"0\n")
    script = "n=$(cat n); sleep 0.$(($(od -An -N1 -tu1 /dev/urandom) % 3)); echo $((n + 1)) > n"
    runs = [popen(m, "--retry", "50", "--", "sh", "-c", script) for _ in range(6)]
    for process in runs:
        output(process, 0, seconds=60)
    equal(read(m.path("n")), b"6\n")


def test_retry_counts(m):
    write(m.path("a"), b"one")
    tries = os.path.join(m.folder, "tries")
    # Outside of the transaction (a directory that was opened before), somebody else changes the file.
    script = f"echo x >> {tries}; cat a > /dev/null; echo other > /dev/fd/9/a; echo mine > a"

    def run(*words, code):
        write(tries, b"")
        fd = os.open(m.dir, os.O_RDONLY)
        try:
            os.dup2(fd, 9)
            done = subprocess.run([STETFS, "run", m.dir, *words, "--", "sh", "-c", script],
                                  pass_fds=[9], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  check=False, timeout=60)
        finally:
            os.close(fd)
            os.close(9)
        equal(done.returncode, code, done.stdout)
        return len(read(tries).split()), done.stdout.decode()

    count, text = run(code=2)
    equal(count, 1, text)
    check("conflict" in text, text)
    count, text = run("--retry", "3", code=2)
    equal(count, 4, text)
    equal(text.count("conflict"), 1, text)
    check("3 more attempts" in text, text)
    count, text = run("--retry", "2", "-v", code=2)
    equal(text.count("conflict"), 3, text)
    equal(read(m.path("a")), b"other\n")
    # The limit of time is for all attempts together.
    script = f"echo x >> {tries}; echo other > /dev/fd/9/a; sleep 0.4; echo mine > a"
    count, text = run("--retry", "1000", "--timeout", "2", code=124)
    check(2 <= count <= 6, count)


def test_retry_at_commit(m):
    """A conflict that only the commit meets; and one that the command hides."""
    write(m.path("a"), b"one")
    tries = os.path.join(m.folder, "tries")
    script = (f"echo x >> {tries}; cat a > /dev/null; "
              f"[ $(wc -l < {tries}) -gt 1 ] || echo other > /dev/fd/9/a; echo mine > b")
    fd = os.open(m.dir, os.O_RDONLY)
    os.dup2(fd, 9)
    try:
        for words, code in (((), 123), (("--retry", "2"), 0)):
            write(m.path("a"), b"one")
            write(tries, b"")
            done = subprocess.run([STETFS, "run", m.dir, "--serializable", *words, "--", "sh",
                                   "-c", script], pass_fds=[9], check=False, timeout=60,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            equal(done.returncode, code, done.stdout)
    finally:
        os.close(fd)
        os.close(9)
    equal(read(m.path("b")), b"mine\n")


def test_retry_is_for_conflicts_only(m):
    tries = os.path.join(m.folder, "tries")
    m.transaction(f"echo x >> {tries}; exit 9", words=["--retry", "5"], code=9)
    equal(read(tries), b"x\n")


if __name__ == "__main__":
    main(globals())
