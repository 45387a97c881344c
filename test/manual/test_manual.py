#!/usr/bin/env python3
"""The man pages tell what the program does: test_manual.py SOURCE PROGRAM

* each command has a page, and each page of a command a command;
* the options of a page are those of the command's --help;
* the mount options are those that the program understands;
* scdoc builds every page, and groff finds nothing wrong with them;
* pages that are referred to exist;
* every example works: lines that start with "$ " or, for root, "# " are run, on a small volume
  v.stet that is mounted at /mnt/v (somewhere else, really) where the page does not mount it itself.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, PROGRAM = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
MAN = os.path.join(SOURCE, "man")
CAN_MOUNT = os.geteuid() == 0 and os.path.exists("/dev/fuse")
HELPERS = {"mkfs.stetfs": "mkfs", "fsck.stetfs": "check", "mount.stetfs": "mount"}


def read(*names):
    with open(os.path.join(*names), encoding="utf-8") as file:
        return file.read()


def pages():
    return sorted(os.path.basename(path)[:-len(".scd")]
                  for path in glob.glob(os.path.join(MAN, "*.scd")))


def section(page, title):
    """The text of one section of a page; None: it has no such section."""
    found = re.search(rf"^# {title}\n(.*?)(?=^# [A-Z ]+$|\Z)", read(MAN, page + ".scd"), re.M | re.S)
    return found.group(1) if found else None


def heads(text):
    """The lines that are explained by the next one, which is indented."""
    return re.findall(r"^(\*.*)\n(?=\t)", text, re.M)


def program(*words, name=None, code=0):
    argv = [name or PROGRAM, *words]
    done = subprocess.run(argv, executable=PROGRAM, stdout=subprocess.PIPE, check=False, timeout=60)
    assert done.returncode == code, (argv, done)
    return done.stdout.decode()


def commands():
    text = program("help").split("Commands:\n")[1].split("\n\n")[0]
    return [line.split()[0] for line in text.splitlines()]


def options_of_help(text):
    """Each option's words: "-s", "--size"."""
    lines = text.split("Options:\n")[1].splitlines()
    return {word.rstrip(",") for line in lines
            for word in re.findall(r"(?:(?<=  )|(?<=, ))--?[a-zA-Z0-9][\w-]*", line[:29] + " ")}


def options_of_page(page):
    text = section(page, "OPTIONS") or ""
    return {word for head in heads(text) for word in re.findall(r"(?<=\*)--?[a-zA-Z0-9][\w-]*(?=\*)", head)}


class Pages(unittest.TestCase):
    def test_each_command_has_one(self):
        named = {p for p in pages() if p.startswith("stetfs-")}
        self.assertEqual(named, {f"stetfs-{name}.1" for name in commands()})
        overview = read(MAN, "stetfs.1.scd")
        for name in commands():
            self.assertIn(f"*stetfs-{name}*(1)", overview)

    def test_sections(self):
        for page in pages():
            wanted = ["NAME", "DESCRIPTION", "EXAMPLES", "SEE ALSO"]
            if not page.endswith(".5"):
                wanted += ["SYNOPSIS", "EXIT STATUS"]
            for title in wanted:
                self.assertIsNotNone(section(page, title), f"{page}: {title}")

    def test_options_of_commands(self):
        for name in commands():
            self.assertEqual(options_of_page(f"stetfs-{name}.1"),
                             options_of_help(program(name, "--help")), name)

    def test_options_of_helpers(self):
        self.assertEqual(options_of_page("fsck.stetfs.8") - {"-v", "-C"},
                         options_of_help(program("--help", name="fsck.stetfs")))
        self.assertEqual(options_of_page("mount.stetfs.8") - {"-n", "-v"},
                         options_of_help(program("--help", name="mount.stetfs")) - {"--help"})

    def test_mount_options(self):
        """Those of the page are understood, those of the source are in the page."""
        text = section("mount.stetfs.8", "MOUNT OPTIONS")
        words = {word for head in heads(text) for word in re.findall(r"\*([a-z][a-z_]*=?)", head)}
        refused = {"keep=", "remount", "private", "debug", "foreground"}
        values = {"recovery=": "prefix,ro", "uid=": "1", "gid=": "1", "cache=": "32M",
                  "checkpoint=": "8M", "flush=": "0.5", "lock_timeout=": "2.5",
                  "max_age=": "3600", "max_staged=": "64M"}
        self.assertLessEqual(refused | set(values), words)
        for word in words:
            code = 1 if word in refused else 0
            program("volume", "dir", "-f", "-o", word + values.get(word, ""), name="mount.stetfs",
                    code=code)
        source = read(SOURCE, "src/fuse/options.c")
        known = set(re.findall(r'(?:strcmp|starts_with)\(word, "([a-z_]+=?)', source))
        self.assertGreater(len(known), 15)
        self.assertLessEqual(known - {"keep"}, words)

    def test_references(self):
        ours = set(pages()) | {"mount.fuse.stetfs.8"}
        for page in pages():
            for name, number in re.findall(r"\*([a-z.-]*stetfs[a-z.-]*)\*\((\d)\)",
                                           read(MAN, page + ".scd")):
                self.assertIn(f"{name}.{number}", ours, page)

    @unittest.skipUnless(shutil.which("scdoc"), "needs scdoc")
    def test_they_build(self):
        for page in pages():
            with open(os.path.join(MAN, page + ".scd"), "rb") as file:
                built = subprocess.run(["scdoc"], stdin=file, capture_output=True, check=False)
            self.assertEqual((built.returncode, built.stderr), (0, b""), page)
            name = built.stdout.decode().split(".TH ")[1].split('"')[1]
            self.assertEqual(name, page.rsplit(".", 1)[0])
            if shutil.which("groff"):
                # Lines that cannot be filled to the edge are none of the page's faults.
                done = subprocess.run(["groff", "-t", "-man", "-Tutf8", "-Kutf8", "-ww", "-Wbreak",
                                       "-z"], input=built.stdout, capture_output=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, b""), page)


class Examples(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.mkdtemp(prefix="stet-manual-")
        self.mnt = os.path.join(self.work, "mnt")
        os.makedirs(os.path.join(self.work, "bin"))
        os.makedirs(os.path.join(self.mnt, "v"))
        os.symlink(PROGRAM, os.path.join(self.work, "bin", "stetfs"))
        for name in HELPERS:
            os.symlink(PROGRAM, os.path.join(self.work, "bin", name))
        os.makedirs(os.path.join(self.work, "include", "sys"))
        for name in ("stdio.h", "stdlib.h", "sys/stat.h"):
            with open(os.path.join(self.work, "include", name), "w", encoding="utf-8") as file:
                file.write(f"/* {name} */\n")
        self.sh("stetfs mkfs v.stet --size 64M -q && stetfs cp -r include v.stet:/ && "
                "echo hello | stetfs put - v.stet:/hello")
        self.addCleanup(self.clean_up)

    def clean_up(self):
        for name in os.listdir(self.mnt):
            path = os.path.join(self.mnt, name)
            if os.path.ismount(path):
                subprocess.run(["umount", "-l", path], check=False)
        shutil.rmtree(self.work)

    def sh(self, script):
        script = re.sub(r"/mnt/", self.mnt + "/", script)
        script = script.replace("/srv/v.stet", os.path.join(self.work, "v.stet"))
        script = script.replace("/tmp/backup", os.path.join(self.work, "backup"))
        env = dict(os.environ, PATH=f"{self.work}/bin:{os.environ['PATH']}:/usr/sbin:/sbin")
        done = subprocess.run(["sh", "-e", "-c", script], cwd=self.work, env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                              timeout=60)
        self.assertEqual(done.returncode, 0, f"{script}\n{done.stdout.decode()}")

    def run_page(self, page):
        blocks = re.findall(r"^```\n(.*?)^```$", section(page, "EXAMPLES"), re.M | re.S)
        lines = [line for block in blocks for line in block.splitlines()]
        self.assertTrue(lines, page)
        for line in lines:
            self.assertRegex(line, r"^[$#] ", page)
        script = "\n".join(line[2:] for line in lines)
        if any(line[0] == "#" for line in lines) and not CAN_MOUNT:
            return
        if "mount -t stetfs" in script:
            return  # the helper is found in /sbin only: test/mount/test_helper.py
        mounts = "/mnt/v" in script and not re.search(r"stetfs mount .*/mnt/v", script)
        if mounts:
            self.sh("stetfs mount v.stet /mnt/v")
        self.sh(script)
        if mounts and os.path.ismount(os.path.join(self.mnt, "v")):
            self.sh("stetfs umount /mnt/v")



def example_test(page):
    return lambda self: self.run_page(page)


for one in pages():
    setattr(Examples, "test_" + re.sub(r"\W", "_", one), example_test(one))


if __name__ == "__main__":
    del sys.argv[1:]
    unittest.main()
