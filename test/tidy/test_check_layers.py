#!/usr/bin/env python3
"""Plant violations in a small tree and see that check_layers.py finds each one, and no others."""
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
CHECKER = os.path.join(HERE, "check_layers.py")

LAYERS = """
base:
format: base
log: base format
api: public base format log
cli: public
"""
CLEAN = {
    "test/tidy/layers.txt": LAYERS,
    "include/stetfs.h": "int stet_open(const char *path);\n",
    "src/base/a.h": "int stet_a(int x);\n",
    "src/base/a.c": '#include "base/a.h"\nint stet_a(int x)\n{\n\treturn x;\n}\n',
    "src/base/meson.build": "files('a.c')\n",
    "src/format/f.h": '#include "base/a.h"\nint stet_f(void);\n',
    "src/format/f_internal.h": "int stet_f_(void);\n",
    "src/format/f.c": '#include "format/f.h"\n#include "format/f_internal.h"\n'
                      "int stet_f_(void)\n{\n\treturn 1;\n}\n"
                      "int stet_f(void)\n{\n\treturn stet_a(stet_f_());\n}\n",
    "src/format/meson.build": "files('f.c')\n",
    "src/api/open.c": '#include "stetfs.h"\n#include "format/f.h"\n#include <time.h>\n'
                      "int stet_open(const char *path)\n{\n"
                      "\treturn path && time(0) ? stet_f() : 0;\n}\n",
    "src/api/meson.build": "files('open.c')\n",
    "src/cli/run.c": "#include <stetfs.h>\n"
                     "int stet_cli_run(void);\n"
                     "int stet_cli_run(void)\n{\n\treturn stet_open(\"x\");\n}\n",
    "src/cli/meson.build": "files('run.c')\n",
}


class CheckLayers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = self.folder.name
        for path, text in CLEAN.items():
            self.write(path, text)

    def tearDown(self):
        self.folder.cleanup()

    def write(self, path, text):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as out:
            out.write(text)

    def append(self, path, text):
        with open(os.path.join(self.root, path), "a", encoding="utf-8") as out:
            out.write(text)

    def build(self):
        """The static libraries of all layers of the tree."""
        libraries = []
        for layer in sorted(os.listdir(os.path.join(self.root, "src"))):
            folder = os.path.join(self.root, "src", layer)
            objects = []
            for name in sorted(n for n in os.listdir(folder) if n.endswith(".c")):
                objects.append(os.path.join(folder, name[:-2] + ".o"))
                subprocess.run(["gcc", "-Isrc", "-Iinclude", "-c", "-o", objects[-1],
                                os.path.join(folder, name)], cwd=self.root, check=True)
            library = os.path.join(self.root, f"libstet_{layer}.a")
            if objects:
                subprocess.run(["ar", "rcs", library] + objects, check=True)
                libraries.append(library)
        return libraries

    def run_checker(self, libraries=()):
        done = subprocess.run([sys.executable, CHECKER, self.root, *libraries],
                              capture_output=True, text=True, check=False)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        lines = done.stdout.strip().split("\n")[:-1]
        self.assertEqual(done.returncode, 1 if lines else 0)
        return lines

    def expect(self, check, text, libraries=()):
        """Exactly one violation, of this check, with this text in it."""
        lines = self.run_checker(libraries)
        self.assertEqual(len(lines), 1, lines)
        self.assertIn(f"[{check}]", lines[0])
        self.assertIn(text, lines[0])

    def test_clean_tree_has_none(self):
        self.assertEqual(self.run_checker(self.build()), [])

    def test_include_upwards(self):
        self.append("src/base/a.c", '#include "format/f.h"\n')
        self.expect("include", "base may not include format")

    def test_include_of_foreign_internal(self):
        self.append("src/api/open.c", '#include "format/f_internal.h"\n')
        self.expect("include", "belongs to format alone")

    def test_include_form(self):
        self.append("src/format/f.c", '#include "f.h"\n')
        self.expect("include", "not of the form")

    def test_include_by_parent_folder(self):
        self.append("src/format/f.c", '#include "../base/a.h"\n')
        self.expect("include", "not of the form")

    def test_include_in_angles(self):
        self.append("src/base/a.c", "#include <format/f.h>\n")
        self.expect("include", 'write "format/f.h"')

    def test_include_of_no_layer(self):
        self.append("src/api/open.c", '#include "sim/disk.h"\n')
        self.expect("include", "sim is not a layer")

    def test_include_of_missing_file(self):
        self.write("src/log/l.c", '#include "log/gone.h"\n')
        self.write("src/log/meson.build", "files('l.c')\n")
        self.expect("include", "does not exist")

    def test_include_of_public_header_below_api(self):
        self.append("src/base/a.c", "#include <stetfs.h>\n")
        self.expect("include", "base may not include public stetfs.h")

    def test_include_of_layer_from_cli(self):
        self.append("src/cli/run.c", '#include "base/a.h"\n')
        self.expect("include", "cli may not include base")

    def test_include_in_comment_is_none(self):
        self.append("src/base/a.c", '/*\n#include "format/f.h"\n*/\n')
        self.assertEqual(self.run_checker(), [])

    def test_header_that_needs_another(self):
        self.write("src/base/b.h", "uint64_t stet_b(void);\n")
        self.expect("alone", "does not compile by itself")

    def test_banned_everywhere(self):
        self.append("src/api/open.c", "void stet_x(char *p);\n"
                                      "void stet_x(char *p) { strcpy (p, \"\"); }\n")
        self.expect("banned", "strcpy()")

    def test_banned_below_api(self):
        for name in ("time", "gettimeofday", "clock_gettime", "rand", "random", "sleep", "usleep",
                     "pthread_create"):
            with self.subTest(name):
                self.write("src/base/a.c", CLEAN["src/base/a.c"] + f"int x = {name}(0);\n")
                self.expect("banned", f"{name}()")

    def test_names_like_banned_ones_are_fine(self):
        self.append("src/base/a.c", "/* time(0) */ int y = stet_time(c->time(0), \"rand()\");\n")
        self.assertEqual(self.run_checker(), [])

    def test_leftover(self):
        for word in ("TODO", "FIXME", "XXX"):
            with self.subTest(word):
                self.write("src/base/a.c", CLEAN["src/base/a.c"] + f"/* {word}: later */\n")
                self.expect("todo", word)

    def test_dead_file(self):
        self.write("src/base/dead.c", "")
        self.expect("dead", "not named")

    def test_folder_that_is_no_layer(self):
        self.write("src/other/o.c", "")
        self.expect("include", "not in the folder of a layer")

    def test_symbol_without_prefix(self):
        self.append("src/base/a.c", "int helper = 1;\n")
        self.expect("symbol", "helper", self.build())

    def test_link_by_handwritten_extern(self):
        self.append("src/base/a.c", "int stet_f(void);\nint stet_b(void);\n"
                                    "int stet_b(void)\n{\n\treturn stet_f();\n}\n")
        self.expect("link", "uses stet_f of format", self.build())

    def test_link_to_what_nobody_has(self):
        self.append("src/base/a.c", "int stet_gone(void);\nint stet_b(void);\n"
                                    "int stet_b(void)\n{\n\treturn stet_gone();\n}\n")
        self.expect("link", "uses stet_gone of no layer", self.build())

    def test_link_behind_the_public_headers(self):
        self.append("src/cli/run.c", "int stet_a(int x);\nint stet_cli_b(void);\n"
                                     "int stet_cli_b(void)\n{\n\treturn stet_a(1);\n}\n")
        self.expect("link", "uses stet_a of base", self.build())


if __name__ == "__main__":
    unittest.main()
