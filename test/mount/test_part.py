"""Committing or dropping a part of a transaction: stetfs commit|abort DIR NUMBER --only PATH..."""
import mmap
import os
import subprocess
import threading
import time

from mountlib import STETFS, check, equal, main, read, write


def prepare(mount):
    os.mkdir(mount.path("conf"))
    write(mount.path("conf", "app.ini"), b"old\n")
    write(mount.path("keep"), b"keep\n")
    write(mount.path("gone"), b"gone\n")


def change(root):
    """What somebody's script does."""
    write(os.path.join(root, "conf", "app.ini"), b"new\n")
    write(os.path.join(root, "conf", "extra.ini"), b"extra\n")
    os.unlink(os.path.join(root, "gone"))
    os.rename(os.path.join(root, "keep"), os.path.join(root, "kept"))
    os.mkdir(os.path.join(root, "log"))
    write(os.path.join(root, "log", "1"), b"1\n")


def diff(mount, number):
    """What is told, without details and totals."""
    lines = mount.run("diff", mount.dir, number).splitlines()
    return [line.split("  (")[0] for line in lines if line[0] in "DTRAM"]


def test_commit_of_a_part(mount):
    prepare(mount)
    number, root = mount.begin()
    change(root)
    mount.run("commit", mount.dir, number, "--only", "/conf", "log/1", "log")
    equal(sorted(os.listdir(mount.dir)), ["conf", "gone", "keep", "log"], "the tree")
    equal(read(mount.path("conf", "app.ini")), b"new\n", "what was chosen")
    equal(read(mount.path("conf", "extra.ini")), b"extra\n", "what was chosen")
    equal(read(mount.path("log", "1")), b"1\n", "what was chosen")
    check("no such transaction" in mount.run("commit", mount.dir, number, code=1), "it has ended")
    mount.remount()
    equal(read(mount.path("gone")), b"gone\n", "what was dropped, after a remount")


def test_abort_of_a_part(mount):
    """What the kernel has cached of the view is forgotten at once, and its processes go on."""
    prepare(mount)
    number, root = mount.begin()
    change(root)
    equal(read(os.path.join(root, "conf", "app.ini")), b"new\n", "in the view")
    equal(sorted(os.listdir(root)), ["conf", "kept", "log"], "in the view")
    held = os.open(os.path.join(root, "conf"), os.O_RDONLY | os.O_DIRECTORY)
    mount.run("abort", mount.dir, number, "--only", "gone", "/keep", "conf/app.ini")
    equal(sorted(os.listdir(root)), ["conf", "gone", "keep", "log"], "names, at once")
    equal(read(os.path.join(root, "conf", "app.ini")), b"old\n", "content, at once")
    equal(os.stat(os.path.join(root, "conf", "app.ini")).st_size, 4, "its size")
    check(not os.path.exists(os.path.join(root, "kept")), "the new name of a rename is gone")
    equal(sorted(os.listdir(held)), ["app.ini", "extra.ini"], "a directory that was open")
    os.close(held)
    equal(diff(mount, number), ["A /conf/extra.ini", "A /log/", "A /log/1"], "what is left")
    write(os.path.join(root, "conf", "app.ini"), b"newer\n")
    mount.run("commit", mount.dir, number)
    equal(read(mount.path("conf", "app.ini")), b"newer\n", "changed again and committed")
    equal(sorted(os.listdir(mount.dir)), ["conf", "gone", "keep", "log"], "the tree")


def test_refusal_leaves_everything(mount):
    prepare(mount)
    number, root = mount.begin()
    change(root)
    before = diff(mount, number)
    text = mount.run("commit", mount.dir, number, "--only", "log/1", code=1)
    check("/log/1: needs its directory, which is new and would be dropped" in text, text)
    text = mount.run("abort", mount.dir, number, "--only", "nowhere", code=1)
    check("/nowhere: the transaction changed nothing there" in text, text)
    text = mount.run("abort", mount.dir, number, "--only", code=2)
    check("--only needs a path" in text, text)
    text = mount.run("abort", mount.dir, number, "log", code=2)
    check("with --only" in text, text)
    equal(diff(mount, number), before, "the changes")
    write(os.path.join(root, "log", "2"), b"it goes on\n")
    mount.run("commit", mount.dir, number)
    equal(read(mount.path("log", "2")), b"it goes on\n", "committed")


def test_mapped_and_open(mount):
    """Files that are open and mapped while a part goes."""
    prepare(mount)
    number, root = mount.begin()
    with open(os.path.join(root, "conf", "app.ini"), "r+b") as file:
        pages = mmap.mmap(file.fileno(), 4)
        pages[:] = b"map\n"
        made = open(os.path.join(root, "made"), "w+b", buffering=0)
        made.write(b"made\n")
        mount.run("abort", mount.dir, number, "--only", "conf/app.ini")
        equal(read(os.path.join(root, "conf", "app.ini")), b"old\n", "by path")
        equal(bytes(pages[:]), b"old\n", "through the mapping")
        pages[:] = b"two\n"
        mount.run("commit", mount.dir, number, "--only", "/")
        pages.close()
        made.close()
    equal(read(mount.path("conf", "app.ini")), b"two\n", "stored afterwards")
    equal(read(mount.path("made")), b"made\n", "made")


def test_processes_go_on(mount):
    """Nobody who works in the view meets an error while parts of it are dropped, again and again."""
    number, root = mount.begin()
    os.mkdir(os.path.join(root, "work"))
    stop, errors, rounds = threading.Event(), [], [0]

    def work():
        path = os.path.join(root, "work", "file")
        while not stop.is_set():
            try:
                write(path, os.urandom(50000))
                read(path)
                os.listdir(os.path.join(root, "work"))
                os.stat(root)
                rounds[0] += 1
            except OSError as failure:
                errors.append(failure)
                return

    thread = threading.Thread(target=work)
    thread.start()
    end = time.time() + 4
    while time.time() < end:
        write(os.path.join(root, "other"), b"x" * 10000)
        mount.run("abort", mount.dir, number, "--only", "other")
        check(not os.path.exists(os.path.join(root, "other")), "it is gone")
    stop.set()
    thread.join()
    equal(errors, [], "errors")
    check(rounds[0] > 10, f"{rounds[0]} rounds")
    mount.run("commit", mount.dir, number)
    equal(os.listdir(mount.dir), ["work"], "the tree")


def test_very_many_paths(mount):
    number, root = mount.begin()
    os.mkdir(os.path.join(root, "d"))
    names = [f"d/{i:06}" for i in range(4000)]
    for name in names:
        os.close(os.open(os.path.join(root, name), os.O_CREAT | os.O_WRONLY))
    for at in range(0, len(names), 1000):
        mount.run("abort", mount.dir, number, "--only", *names[at:at + 999])
    equal(sorted(os.listdir(os.path.join(root, "d"))),
          [os.path.basename(name) for name in names[999::1000]], "what is left")
    mount.run("commit", mount.dir, number)


def test_of_a_running_command(mount):
    """Nobody drops a part of what a command does: the rest would be committed as if it were all."""
    prepare(mount)
    process = subprocess.Popen([STETFS, "run", mount.dir, "--", "sh", "-c",
                                "echo 1 > one; echo 2 > two; echo; read x"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdout.readline()
    number = mount.run("txns", mount.dir).splitlines()[1].split()[0]
    text = mount.run("abort", mount.dir, number, "--only", "one", code=1)
    check("belongs to a command that is running" in text, text)
    process.communicate(b"\n", timeout=20)
    equal(process.returncode, 0, "run")
    equal([read(mount.path(name)) for name in ("one", "two")], [b"1\n", b"2\n"], "all of it")


if __name__ == "__main__":
    main(globals())
