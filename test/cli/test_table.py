"""Tables from the command line: records, the two forms of lines, what the other commands make of a table."""
import base64
import json
import random
import subprocess

import harness
from harness import VOLUME, CliTest

T = f"{VOLUME}:/t"


def escaped(data):
    """As the text form has it, every byte by its number."""
    return "".join(f"\\x{byte:02x}" for byte in data)


def random_records(rng, count):
    """Any bytes, also such as make no text; some values in blocks."""
    records = {}
    while len(records) < count:
        key = bytes(rng.randrange(256) for _ in range(rng.choice((1, 2, 5, 40, 512))))
        kind = rng.randrange(6)
        if kind == 0:
            value = b""
        elif kind == 1:
            value = rng.randbytes(rng.choice((3199, 3200, 5000, 70000)))
        elif kind == 2:
            value = "text, 文字 \t\\ \" \n\r\0\x7f\u0085".encode()
        else:
            value = rng.randbytes(rng.randrange(60))
        records[key] = value
    return records


class Table(CliTest):
    SIZE = "64M"

    def table(self, action, *words, **options):
        return self.ok("table", T, action, *words, **options).out

    def refuses(self, *words, **options):
        return self.fails("table", T, *words, **options)

    def load(self, records):
        lines = "".join(f"{escaped(key)}\t{escaped(value)}\n" for key, value in records.items())
        self.table("load", data=lines.encode())

    def json_records(self, *words):
        found = []
        for line in self.table(*words, "--json").splitlines():
            members = json.loads(line)
            found.append(tuple(base64.b64decode(members[name + "64"]) if name + "64" in members
                               else members[name].encode() for name in ("key", "value")))
        return found

    def test_records(self):
        self.refuses("get", "a", says="No such file")
        self.table("create")
        self.refuses("create", says="exists")
        self.refuses("get", "a", says="no record 'a'")
        self.table("put", "a", "one")
        self.table("put", "b", "-f", "-", data=b"two\0\xff")
        self.table("put", "-e", r"c\x00", r"\\\t")
        self.assertEqual(self.table("get", "a"), b"one")
        self.assertEqual(self.table("get", "b"), b"two\0\xff")
        self.assertEqual(self.table("get", "-e", r"c\x00"), b"\\\t")
        self.assertEqual(self.table("count"), b"3\n")
        self.refuses("del", "a", "nope", "b", says="no record 'nope'")
        self.assertEqual(self.table("scan", "-k"), b"a\nb\nc\\x00\n")
        self.table("del", "a", "b")
        self.assertEqual(self.table("dump"), b"c\\x00\t\\\\\\t\n")
        self.check()

    def test_usage(self):
        self.table("create")
        for words in (["nothing"], ["get"], ["put"], ["put", "a"], ["put", "a", "b", "c"],
                      ["put", "a", "b", "--file", "-"], ["get", "a", "b"], ["get", "--limit", "1", "a"],
                      ["scan", "--file", "-"], ["dump", "--prefix", "a"], ["get", ""],
                      ["put", "k" * 513, "v"], ["get", "-e", "\\q"], ["count", "-k"],
                      ["load", "a", "b"], ["scan", "--limit", "x"]):
            self.refuses(*words, code=2)
        self.fails("table", T, code=2)
        self.fails("table", "nothing", "get", "a", code=2)
        self.fails("table", "none:/t", "get", "a")
        self.refuses("put", "k", "-f", "nothing", says="nothing: No such file")
        self.write("large", bytes((1 << 20) + 1))
        self.refuses("put", "k", "-f", "large", says="at most 1048576 bytes")
        self.write("largest", bytes(1 << 20))
        self.table("put", "k", "-f", "largest")
        self.assertEqual(self.table("get", "k"), bytes(1 << 20))

    def test_bounds(self):
        self.load({key.encode(): key.upper().encode() for key in ("a", "b", "ba", "bb", "c")})
        for words, wanted in (([], "a b ba bb c"), (["--prefix", "b"], "b ba bb"), (["-r"], "c bb ba b a"),
                              (["--from", "ba"], "ba bb c"), (["--to", "ba"], "a b"),
                              (["--from", "b", "--to", "bb"], "b ba"), (["-n", "2"], "a b"),
                              (["-r", "-n", "1", "--prefix", "b"], "bb"), (["-n", "0"], "")):
            self.assertEqual(self.table("scan", "-k", *words).decode().split(), wanted.split(), words)
            if not set(words) & {"-r", "-n"}:
                self.assertEqual(int(self.table("count", *words)), len(wanted.split()))
        self.assertEqual(self.table("scan", "-k", "--json", "-n", "1"), b'{"key": "a"}\n')

    def test_round_trips(self):
        seed = random.randrange(1 << 32)
        records = random_records(random.Random(seed), 80)
        wanted = sorted(records.items())
        self.load(records)
        self.assertEqual(self.json_records("dump"), wanted, f"seed {seed}")
        for form in ([], ["--json"]):
            dumped = self.table("dump", *form)
            self.write("dumped", dumped)
            copy = f"{VOLUME}:/copy{len(form)}"
            self.ok("table", copy, "load", *form, "dumped")
            self.assertEqual(self.ok("table", copy, "dump", *form).out, dumped, f"seed {seed}")
        for key, value in wanted[:10]:
            self.assertEqual(self.table("get", "-e", escaped(key)), value)
        self.check()

    def test_foreign_json(self):
        """As other programs write it."""
        self.table("load", "--json", data=b' { "value" :"\\u00e4\\ud83d\\ude00\\/\\b" , "key":"\\u0000" } \r\n'
                   b'{"key64":"/w==","value64":""}')
        self.assertEqual(self.json_records("dump"), [(b"\0", "ä😀/\b".encode()), (b"\xff", b"")])

    def test_bad_lines(self):
        self.table("create")
        for line in (b"no tab", b"", b"\tvalue", b"a\tb\tc", b"a\\\tb", b"a\\x0\tb", b"a\\xzz\tb", b"a\tb\\0",
                     b"k" * 513 + b"\tv", b"k\t" + b"v" * ((1 << 20) + 1), b"x" * (8 << 20)):
            self.refuses("load", data=b"good\tvalue\n" + line + b"\nmore\tvalue\n", says="line 2: ")
            self.assertEqual(self.table("count"), b"0\n")
        for line in (b"", b"{}", b"[]", b'{"key": "a"}', b'{"key": "a", "value": 1}', b'{"key": "a" "value": "b"}',
                     b'{"key": "a", "value": "b"} x', b'{"key": "a", "value": "b", "key": "a"}',
                     b'{"key": "a", "key64": "YQ==", "value": ""}', b'{"key": "", "value": ""}',
                     b'{"key": "a", "value": "b", "other": "c"}', b'{"key": "\\ud800", "value": ""}',
                     b'{"key": "\\udc00\\ud800", "value": ""}', b'{"key": "\xff", "value": ""}',
                     b'{"key": "a\tb", "value": ""}', b'{"key64": "YQ=", "value": ""}',
                     b'{"key64": "YR==", "value": ""}', b'{"key64": "Y===", "value": ""}',
                     b'{"key64": "YQ==YQ==", "value": ""}', b'{"key64": "Y Q=", "value": ""}',
                     b'{"key32": "a", "value": ""}', b'{"key": "a", "value": "b"', b'{"key": "a\\'):
            self.refuses("load", "--json", data=b'{"key": "good", "value": ""}\n' + line + b"\n",
                         says="standard input: line 2: ")
            self.assertEqual(self.table("count"), b"0\n")
        self.write("lines", b"bad")
        self.refuses("load", "lines", says="lines: line 1: ")
        self.refuses("load", "nothing", says="nothing: No such file")

    def test_killed(self):
        """A load that is killed has loaded nothing."""
        self.table("create")
        loading = self.start("table", T, "load", stdin=subprocess.PIPE)
        for i in range(20000):
            loading.stdin.write(b"%d\t%s\n" % (i, b"v" * 200))
        loading.kill()
        loading.communicate()
        self.assertEqual(self.table("count"), b"0\n")
        self.check()

    def test_other_commands(self):
        self.load({b"k": b"v", b"l": bytes(5000)})
        self.write("file", b"data")
        self.ok("put", "file", f"{VOLUME}:/file")
        self.assertRegex(self.ok("ls", "-l", f"{VOLUME}:/").text, r"(?m)^trw-r--r-- .* 2 .* t$")
        self.assertEqual(self.ok("find", f"{VOLUME}:/", "-type", "t").lines, [T])
        self.assertEqual(self.ok("find", f"{VOLUME}:/", "-type", "f").lines, [f"{VOLUME}:/file"])
        found = self.ok("stat", "--json", T).json[0]
        self.assertEqual((found["type"], found["size"]), ("table", 2))
        self.fails("cat", T, says="is a table")
        self.fails("put", "file", T, says="is a table")
        self.fails("cp", T, "out", says="is a table")
        self.fails("table", f"{VOLUME}:/file", "get", "k", says="is not a table")
        self.fails("table", f"{VOLUME}:/", "create", says="exist")
        self.ok("mv", T, f"{VOLUME}:/u")
        self.ok("ln", f"{VOLUME}:/u", f"{VOLUME}:/twin")
        self.ok("chmod", "600", f"{VOLUME}:/u")
        self.ok("rm", f"{VOLUME}:/u")
        self.assertEqual(self.ok("table", f"{VOLUME}:/twin", "get", "k").out, b"v")
        self.assertRegex(self.ok("dump", VOLUME, "items").text, r"(?m)^\d+ record k: 1 bytes v$")
        self.ok("rm", f"{VOLUME}:/twin")
        self.check()

    def test_copies(self):
        records = {b"%d" % i: bytes([i]) * (i * 100) for i in range(60)}
        self.ok("mkdir", f"{VOLUME}:/dir")
        self.ok("table", f"{VOLUME}:/dir/t", "load",
                data="".join(f"{k.decode()}\t{escaped(v)}\n" for k, v in records.items()).encode())
        self.ok("ln", f"{VOLUME}:/dir/t", f"{VOLUME}:/dir/twin")
        wanted = self.ok("table", f"{VOLUME}:/dir/t", "dump").out
        self.ok("mkfs", "other.img", "--size", "32M")
        self.ok("cp", "-r", f"{VOLUME}:/dir", "other.img:/")
        self.ok("cp", "-r", f"{VOLUME}:/dir", f"{VOLUME}:/dir2")
        self.ok("cp", f"{VOLUME}:/dir/t", f"{VOLUME}:/dir2/t")
        for path in ("other.img:/dir/t", "other.img:/dir/twin", f"{VOLUME}:/dir2/t"):
            self.assertEqual(self.ok("table", path, "dump").out, wanted)
        self.assertEqual(self.ok("stat", "--json", "other.img:/dir/twin").json[0]["nlink"], 2)
        self.ok("table", f"{VOLUME}:/dir/t", "put", "0", "changed")
        self.assertEqual(self.ok("table", f"{VOLUME}:/dir2/t", "get", "0").out, b"")
        self.fails("cp", "-r", f"{VOLUME}:/dir", "out", lines=2)
        self.check()


if __name__ == "__main__":
    harness.main()
