"""Every command that works on files of a volume without a mount."""
import os
import pty
import subprocess

import harness
from harness import VOLUME, CliTest


class Version(CliTest):
    SIZE = None

    def test_version(self):
        self.assertRegex(self.ok("version").text, r"^stetfs \d+\.\d+\.\d+ \(format \d+\)\n$")
        self.assertEqual(self.ok("--version").text, self.ok("version").text)
        self.assertIn("format", self.ok("version", "--json").json)

    def test_help(self):
        commands = [line.split()[0] for line in self.ok("--help").lines if line.startswith("  ")]
        for name in ("mkfs mount umount sync run begin commit abort diff txns ls tree cat find cp "
                     "put mv ln chmod rm mkdir stat check clean stats version").split():
            self.assertIn(name, commands)
        for name in commands:
            text = self.ok(name, "--help").text
            self.assertTrue(text.startswith(f"Usage: stetfs {name} "), text)
            self.assertEqual(text, self.ok("help", name).text)


class Mkdir(CliTest):
    def test_mkdir(self):
        self.ok("mkdir", f"{VOLUME}:/a", f"{VOLUME}:/b")
        self.assertEqual(self.listing(), ["/a", "/b"])
        self.fails("mkdir", f"{VOLUME}:/a", says="File exists")
        self.fails("mkdir", f"{VOLUME}:/x/y", says="No such file")

    def test_all_or_none(self):
        self.ok("mkdir", f"{VOLUME}:/a")
        self.fails("mkdir", f"{VOLUME}:/new", f"{VOLUME}:/a")
        self.assertEqual(self.listing(), ["/a"])

    def test_parents(self):
        self.ok("mkdir", "-p", f"{VOLUME}:/a/b//c/", f"{VOLUME}:/a/d")
        self.ok("mkdir", "-p", f"{VOLUME}:/a/b", f"{VOLUME}:/")
        self.assertEqual(self.listing(), ["/a", "/a/b", "/a/d", "/a/b/c"])
        self.ok("put", "-", f"{VOLUME}:/file")
        self.fails("mkdir", "-p", f"{VOLUME}:/file", says="File exists")
        self.fails("mkdir", "-p", f"{VOLUME}:/file/x", says="Not a directory")

    def test_mode(self):
        self.ok("mkdir", "-m", "1770", f"{VOLUME}:/a")
        self.ok("mkdir", "-m", "go-rwx", f"{VOLUME}:/b")
        self.ok("mkdir", f"{VOLUME}:/c")
        modes = [e["mode"] for e in self.ok("ls", "-l", "--json", f"{VOLUME}:/").json]
        self.assertEqual(modes, ["1770", "0700", "0755"])


class PutCat(CliTest):
    def test_round_trip(self):
        data = os.urandom((3 << 20) + 17)
        self.write("in", data, 0o750)
        self.ok("put", "in", f"{VOLUME}:/out")
        self.assertEqual(self.ok("cat", f"{VOLUME}:/out").out, data)
        self.ok("put", "-", f"{VOLUME}:/out", data=b"shorter")
        self.assertEqual(self.ok("cat", f"{VOLUME}:/out", f"{VOLUME}:/out").out,
                         b"shorter" * 2)
        self.check()

    def test_names_and_modes(self):
        self.write("in", b"x", 0o751)
        self.ok("mkdir", f"{VOLUME}:/d")
        self.ok("put", "in", f"{VOLUME}:/d")
        self.ok("put", self.path("in"), f"{VOLUME}:/d/other")
        self.ok("put", "-", f"{VOLUME}:/d/std")
        entries = self.ok("ls", "-l", "--json", f"{VOLUME}:/d").json
        self.assertEqual([(e["name"], e["mode"]) for e in entries],
                         [("in", "0751"), ("other", "0751"), ("std", "0644")])
        self.fails("put", "-", f"{VOLUME}:/d", says="is a directory: standard input needs a")
        self.fails("put", "-", f"{VOLUME}:/d/new/", says="Not a directory")
        self.fails("put", self.dir, f"{VOLUME}:/x", says="Is a directory")
        self.fails("put", "missing", f"{VOLUME}:/x", says="missing: No such file")
        self.fails("put", VOLUME, f"{VOLUME}:/x", says="is the volume itself")
        self.fails("put", "in", f"{VOLUME}:/no/x", says="No such file")

    def test_failed_input_changes_nothing(self):
        self.ok("put", "-", f"{VOLUME}:/f", data=b"old")
        folder = os.open(self.dir, os.O_RDONLY)  # it cannot be read
        self.addCleanup(os.close, folder)
        done = self.start("put", "-", f"{VOLUME}:/f", stdin=folder)
        out, err = done.communicate()
        self.assertEqual(done.returncode, 1, (out, err))
        self.assertEqual(self.ok("cat", f"{VOLUME}:/f").out, b"old")

    def test_cat_errors(self):
        self.ok("put", "-", f"{VOLUME}:/f", data=b"data")
        self.fails("cat", f"{VOLUME}:/", says="Is a directory")
        done = self.fails("cat", f"{VOLUME}:/no", f"{VOLUME}:/f", says=f"{VOLUME}:/no: No such")
        self.assertEqual(done.out, b"data")
        self.fails("cat", "none.img:/f", says="none.img: No such file")
        self.fails("cat", "none.img:/f", "none.img:/g", lines=1)
        with open("/dev/full", "wb") as full:
            done = subprocess.run([harness.PROGRAM, "cat", f"{VOLUME}:/f"], cwd=self.dir,
                                  stdout=full, stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, rb"^stetfs: standard output: No space left")


class Listing(CliTest):
    def setUp(self):
        super().setUp()
        self.ok("mkdir", "-p", f"{VOLUME}:/b/inner", f"{VOLUME}:/a")
        self.ok("put", "-", f"{VOLUME}:/a/file", data=b"12345")
        self.ok("ln", "-s", "../a", f"{VOLUME}:/b/link")
        self.ok("put", "-", f"{VOLUME}:/.dot")

    def test_ls(self):
        self.assertEqual(self.ok("ls", f"{VOLUME}:/").lines, [".dot", "a", "b"])
        self.assertEqual(self.ok("ls", f"{VOLUME}:/b/link").lines, ["file"])
        self.assertEqual(self.ok("ls", "-d", f"{VOLUME}:/b").lines, [f"{VOLUME}:/b"])
        self.assertEqual(self.ok("ls", f"{VOLUME}:/a/file").lines, [f"{VOLUME}:/a/file"])
        self.assertEqual(self.ok("ls", f"{VOLUME}:/a", f"{VOLUME}:/b").lines,
                         [f"{VOLUME}:/a:", "file", "", f"{VOLUME}:/b:", "inner", "link"])

    def test_ls_long(self):
        lines = self.ok("ls", "-ln", f"{VOLUME}:/a", f"{VOLUME}:/b/link").lines
        uid, gid = os.geteuid(), os.getegid()
        when = r"\d{4}-\d\d-\d\d \d\d:\d\d"
        self.assertRegex(lines[1], rf"^-rw-r--r-- 1 {uid} {gid} 5 {when} file$")
        self.assertRegex(lines[-1], r"^lrwxrwxrwx 1 .* v.img:/b/link -> \.\./a$")
        self.ok("ls", "-lahR", f"{VOLUME}:/")

    def test_ls_recursive(self):
        self.assertEqual(self.ok("ls", "-R", f"{VOLUME}:/").lines,
                         [f"{VOLUME}:/:", ".dot", "a", "b", "", f"{VOLUME}:/a:", "file", "",
                          f"{VOLUME}:/b:", "inner", "link", "", f"{VOLUME}:/b/inner:"])

    def test_ls_json(self):
        entries = self.ok("ls", "--json", "-l", f"{VOLUME}:/b").json
        self.assertEqual([(e["path"], e["type"]) for e in entries],
                         [(f"{VOLUME}:/b/inner", "directory"), (f"{VOLUME}:/b/link", "symlink")])
        self.assertEqual(entries[1]["target"], "../a")
        self.assertEqual(self.ok("ls", "--json", f"{VOLUME}:/b/inner").json, [])
        self.assertEqual(self.ok("ls", "-d", "--json", f"{VOLUME}:/").json[0]["name"], "/")
        done = self.fails("ls", "--json", f"{VOLUME}:/no", f"{VOLUME}:/a")
        self.assertEqual([e["name"] for e in done.json], ["file"])

    def test_tree(self):
        lines = self.ok("tree", f"{VOLUME}:/").lines
        self.assertEqual(lines[:4], [f"{VOLUME}:/", "├── .dot", "├── a", "│   └── file"])
        self.assertEqual(lines[4:6], ["└── b", "    ├── inner"])
        self.assertEqual(lines[-1], "3 directories, 3 files")
        ascii_lines = self.ok("tree", f"{VOLUME}:/", env={"LC_ALL": "C"}).lines
        self.assertEqual(ascii_lines[2], "|-- a")
        tree = self.ok("tree", "--json", f"{VOLUME}:/").json
        self.assertEqual([e["name"] for e in tree[0]["contents"]], [".dot", "a", "b"])
        self.assertEqual(tree[0]["contents"][1]["contents"][0]["type"], "file")
        self.fails("tree", f"{VOLUME}:/no", says="No such file")

    def test_find(self):
        def find(*words):
            return self.ok("find", *words).lines
        self.assertEqual(find(f"{VOLUME}:/"),
                         [f"{VOLUME}:{p}" for p in ("/", "/.dot", "/a", "/a/file", "/b", "/b/inner",
                                                    "/b/link")])
        self.assertEqual(find(f"{VOLUME}:/a"), [f"{VOLUME}:/a", f"{VOLUME}:/a/file"])
        self.assertEqual(find(f"{VOLUME}:/a/"), [f"{VOLUME}:/a/", f"{VOLUME}:/a/file"])
        self.assertEqual(find(f"{VOLUME}:/", "-name", "*i*"),
                         [f"{VOLUME}:/a/file", f"{VOLUME}:/b/inner", f"{VOLUME}:/b/link"])
        self.assertEqual(find("-type", "d", f"{VOLUME}:/b"), [f"{VOLUME}:/b", f"{VOLUME}:/b/inner"])
        self.assertEqual(find(f"{VOLUME}:/", "-type", "f,l", "-name", "?*l*"),
                         [f"{VOLUME}:/a/file"])
        self.assertEqual(find(f"{VOLUME}:/", "--type=fl", "--name=l*"), [f"{VOLUME}:/b/link"])
        self.assertEqual(find(f"{VOLUME}:/", "-name", "/"), [f"{VOLUME}:/"])
        self.assertEqual(self.ok("find", f"{VOLUME}:/a", "-print0").out,
                         f"{VOLUME}:/a\0{VOLUME}:/a/file\0".encode())
        entries = self.ok("find", "--json", f"{VOLUME}:/", "-type", "l").json
        self.assertEqual([(e["path"], e["type"]) for e in entries],
                         [(f"{VOLUME}:/b/link", "symlink")])
        self.fails("find", f"{VOLUME}:/", "-type", "q", code=2)
        self.fails("find", f"{VOLUME}:/no")

    def test_stat(self):
        text = self.ok("stat", f"{VOLUME}:/a/file").text
        self.assertIn("size: 5\n", text)
        self.assertIn("mode: 0644 (-rw-r--r--)", text)
        entry = self.ok("stat", "--json", f"{VOLUME}:/b/link").json[0]
        self.assertEqual((entry["type"], entry["target"]), ("symlink", "../a"))
        entry = self.ok("stat", "-L", "--json", f"{VOLUME}:/b/link").json[0]
        self.assertEqual(entry["type"], "directory")
        self.fails("stat", f"{VOLUME}:/no")


class Changing(CliTest):
    def setUp(self):
        super().setUp()
        self.ok("mkdir", "-p", f"{VOLUME}:/d/e", f"{VOLUME}:/target")
        self.ok("put", "-", f"{VOLUME}:/d/f", data=b"f")
        self.ok("put", "-", f"{VOLUME}:/g", data=b"g")

    def test_mv(self):
        self.ok("mv", f"{VOLUME}:/g", f"{VOLUME}:/h")
        self.ok("mv", f"{VOLUME}:/h", f"{VOLUME}:/d", f"{VOLUME}:/target")
        self.assertEqual(self.listing(), ["/target", "/target/d", "/target/h", "/target/d/e",
                                          "/target/d/f"])
        self.ok("mv", f"{VOLUME}:/target/h", f"{VOLUME}:/target/d/f")
        self.assertEqual(self.ok("cat", f"{VOLUME}:/target/d/f").out, b"g")
        self.check()

    def test_mv_errors(self):
        before = self.listing()
        self.fails("mv", f"{VOLUME}:/d", f"{VOLUME}:/d/e", says="into itself")
        self.fails("mv", f"{VOLUME}:/g", f"{VOLUME}:/no", f"{VOLUME}:/target", says="/no")
        self.fails("mv", f"{VOLUME}:/g", f"{VOLUME}:/d", f"{VOLUME}:/d/f", says="Not a directory")
        self.fails("mv", f"{VOLUME}:/", f"{VOLUME}:/target", says="root")
        self.fails("mv", f"{VOLUME}:/g", "g", code=2)
        self.ok("mkfs", "w.img", "--size", "16M", "-q")
        self.fails("mv", f"{VOLUME}:/g", "w.img:/g", says="not in the same volume")
        self.assertEqual(self.listing(), before)

    def test_ln(self):
        self.ok("ln", f"{VOLUME}:/g", f"{VOLUME}:/hard")
        self.ok("ln", f"{VOLUME}:/g", f"{VOLUME}:/target")
        self.ok("ln", "-s", "to/nowhere", f"{VOLUME}:/soft")
        self.ok("ln", f"{VOLUME}:/target/../soft2", "-s", f"{VOLUME}:/s2")
        self.assertEqual(self.ok("stat", "--json", f"{VOLUME}:/hard").json[0]["nlink"], 3)
        self.assertEqual(self.ok("stat", "--json", f"{VOLUME}:/soft").json[0]["target"],
                         "to/nowhere")
        self.fails("ln", f"{VOLUME}:/d", f"{VOLUME}:/dd", says="directory")
        self.fails("ln", f"{VOLUME}:/g", f"{VOLUME}:/hard", says="File exists")
        self.fails("ln", "-s", "x", f"{VOLUME}:/hard", says="File exists")
        self.fails("ln", "g", f"{VOLUME}:/x", code=2)
        self.check()

    def test_rm(self):
        self.fails("rm", f"{VOLUME}:/d", says="Is a directory")
        self.fails("rm", f"{VOLUME}:/g", f"{VOLUME}:/no", says="/no: No such")
        self.assertIn("/g", self.listing())
        self.ok("rm", "-f", f"{VOLUME}:/no", f"{VOLUME}:/g")
        self.ok("rm", "-f")
        self.fails("rm", code=2)
        for path in ("/", "//", "/d/.", "/d/..", "/d/e/../"):
            self.fails("rm", "-rf", f"{VOLUME}:{path}", says="refusing")
        self.ok("rm", "-r", f"{VOLUME}:/d", f"{VOLUME}:/target")
        self.assertEqual(self.listing(), [])
        self.check()

    def test_rm_links(self):
        self.ok("ln", "-s", "d", f"{VOLUME}:/link")
        self.ok("rm", "-r", f"{VOLUME}:/link")
        self.assertIn("/d/f", self.listing())

    def mode_of(self, path):
        return self.ok("stat", "--json", f"{VOLUME}:{path}").json[0]["mode"]

    def test_chmod(self):
        for word, result in (("600", "0600"), ("u+x", "0700"), ("go=rX", "0755"), ("-x", "0644"),
                             ("a-r,u+r", "0600"), ("u=rwx,g=u,o=", "0770"), ("+t", "1770"),
                             ("ug+s", "7770"), ("-st", "0770"), ("g=o", "0700"), ("4755", "4755"),
                             ("a=", "0000"), ("u+rw,u-w", "0400"), ("+w", "0600"), ("o+w", "0602")):
            self.ok("chmod", word, f"{VOLUME}:/g")
            self.assertEqual(self.mode_of("/g"), result, word)
        for word in ("", "8", "77777", "u", "z+x", "u+xz", "rwx", "u+x,", "u+x,,g-x"):
            self.fails("chmod", word, f"{VOLUME}:/g", code=2)
        self.ok("chmod", "u+", f"{VOLUME}:/g")  # no letters: nothing to change, as chmod(1)

    def test_chmod_tree(self):
        self.ok("ln", "-s", "../g", f"{VOLUME}:/d/link")
        self.ok("chmod", "-R", "go-rwx", f"{VOLUME}:/d")
        self.assertEqual([self.mode_of(p) for p in ("/d", "/d/e", "/d/f", "/g")],
                         ["0700", "0700", "0600", "0644"])
        self.ok("chmod", "600", f"{VOLUME}:/d/link")
        self.assertEqual(self.mode_of("/g"), "0600")
        self.fails("chmod", "600", f"{VOLUME}:/d/f", f"{VOLUME}:/no")
        self.assertEqual(self.mode_of("/d/f"), "0600")

    def test_changes_are_one_transaction(self):
        self.fails("chmod", "000", f"{VOLUME}:/g", f"{VOLUME}:/no")
        self.assertEqual(self.mode_of("/g"), "0644")


class Terminal(CliTest):
    """What a terminal gets to see."""

    NASTY = b"\x1b[31mred\nnew\xff\\"

    def on_terminal(self, *words):
        ours, theirs = pty.openpty()
        done = subprocess.Popen([harness.PROGRAM, *words], cwd=self.dir, env=harness.ENVIRONMENT,
                                stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.PIPE)
        os.close(theirs)
        data = b""
        try:
            while chunk := os.read(ours, 65536):
                data += chunk
        except OSError:
            pass  # the other end is closed
        done.wait()
        done.stderr.close()
        os.close(ours)
        return data.replace(b"\r\n", b"\n")

    def test_names(self):
        self.ok("put", "-", os.fsencode(VOLUME) + b":/" + self.NASTY)
        shown = rb"\033[31mred\nnew\377\\"
        self.assertEqual(self.ok("ls", f"{VOLUME}:/").out, self.NASTY + b"\n")
        self.assertEqual(self.on_terminal("ls", f"{VOLUME}:/"), shown + b"\n")
        for words in (["ls", "-lR"], ["find"], ["tree"]):
            self.assertIn(shown, self.on_terminal(*words, f"{VOLUME}:/"), words)
        entry = self.ok("ls", "--json", f"{VOLUME}:/").json[0]
        self.assertEqual(bytes.fromhex(entry["name_hex"]), self.NASTY)
        self.assertEqual(entry["name"], "\x1b[31mred\nnew\ufffd\\")

    def test_errors_are_one_line(self):
        done = self.fails("cat", os.fsencode(VOLUME) + b":/" + self.NASTY)
        self.assertNotIn(b"\x1b", done.err)
        done = self.fails(b"no\n\x1bcommand", code=2)
        self.assertNotIn(b"\x1b", done.err)


class Maintenance(CliTest):
    def test_stats(self):
        text = self.ok("stats", VOLUME).text
        self.assertIn("capacity", text)
        stats = self.ok("stats", "--json", VOLUME).json
        self.assertGreater(stats["avail_bytes"], 0)
        self.assertIsInstance(stats["counters"], dict)
        self.fails("stats", "none.img")

    def test_clean_and_sync(self):
        self.write("big", os.urandom(4 << 20))
        for name in "abcd":
            self.ok("cp", "big", f"{VOLUME}:/{name}")
        self.ok("rm", f"{VOLUME}:/a", f"{VOLUME}:/c")
        self.assertRegex(self.ok("clean", VOLUME).text, r"^\d+ segments? cleaned\n$")
        self.assertIn("segments", self.ok("clean", "--segments", "1", "--json", VOLUME).json)
        self.ok("sync", VOLUME)
        self.check()
        self.fails("clean", "none.img")
        self.fails("sync", "none.img")

    def test_no_space(self):
        self.write("big", os.urandom(64 << 20))
        self.fails("cp", "big", f"{VOLUME}:/", says="No space left")
        self.assertEqual(self.listing(), [])
        self.check()
        self.write("fits", os.urandom(1 << 20))
        self.ok("cp", "fits", f"{VOLUME}:/")


if __name__ == "__main__":
    harness.main()
