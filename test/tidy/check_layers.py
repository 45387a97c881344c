#!/usr/bin/env python3
"""Check that the source keeps to its layers: check_layers.py ROOT [LIBRARY...]

ROOT is the top of the source tree; each LIBRARY is the static library of one layer, as built
(libstet_<layer>.a). Checked, against test/tidy/layers.txt:

  include   #include "layer/file.h" names an existing file of the same or an allowed layer;
            x_internal.h stays in its folder; public headers only where "public" is allowed
  alone     each header compiles by itself
  banned    calls that are unsafe, or that belong to api/ and above
  todo      no leftover notes
  dead      each .c file is named in its folder's meson.build
  symbol    global symbols of a library start with stet_
  link      the stet_* symbols a library lacks are defined in allowed layers (or, for "public",
            declared in include/)

Prints one line per violation, "file:line: [check] text"; exits with 1 when there was any.
"""
import concurrent.futures
import os
import re
import subprocess
import sys

LAYERS_FILE = "test/tidy/layers.txt"
PUBLIC = "public"
FIRST_FREE_LAYER = "api"  # from here on, threads, clocks and randomness are allowed

BANNED = {
    "sprintf": "snprintf",
    "vsprintf": "vsnprintf",
    "strcpy": "memcpy or snprintf",
    "strcat": "snprintf or struct stet_text",
    "gets": "fgets",
}
BANNED_BELOW_API = {
    "time": "struct stet_clock",
    "gettimeofday": "struct stet_clock",
    "clock_gettime": "struct stet_clock",
    "rand": "struct stet_random",
    "random": "struct stet_random",
    "sleep": "a step function and a ticket",
    "usleep": "a step function and a ticket",
    "pthread_create": "a step function that api/ gives a thread",
}
LEFTOVER = re.compile(r"\b(TODO|FIXME|XXX)\b")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]*)[">]')
COMMENT_OR_STRING = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
GLOBAL_KINDS = set("TDBRCGSVW")


class Rules:
    """What layers.txt says."""

    def __init__(self, root):
        self.allowed = {}  # layer -> set of layers and perhaps PUBLIC, itself included
        self.order = []
        with open(os.path.join(root, LAYERS_FILE), encoding="utf-8") as text:
            for line in text:
                line = line.split("#")[0].strip()
                if not line:
                    continue
                layer, _, names = line.partition(":")
                names = set(names.split())
                unknown = names - set(self.order) - {PUBLIC}
                if unknown:
                    raise ValueError(f"{LAYERS_FILE}: {layer}: not lower: {sorted(unknown)}")
                self.order.append(layer)
                self.allowed[layer] = names | {layer}

    def is_below_api(self, layer):
        return self.order.index(layer) < self.order.index(FIRST_FREE_LAYER)


class Tree:
    """The source tree, and the violations found in it."""

    def __init__(self, root):
        self.root = root
        self.rules = Rules(root)
        self.found = []

    def note(self, place, check, text):
        self.found.append(f"{place}: [{check}] {text}")

    def files(self, top):
        """Paths relative to the root of all C files and headers under top."""
        result = []
        for folder, _, names in os.walk(os.path.join(self.root, top)):
            for name in names:
                if name.endswith((".c", ".h")):
                    result.append(os.path.relpath(os.path.join(folder, name), self.root))
        return sorted(result)

    def read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8") as text:
            return text.read()

    def exists(self, *parts):
        return os.path.isfile(os.path.join(self.root, *parts))


def layer_of(path):
    """The layer of src/<layer>/file, or None."""
    parts = path.split(os.sep)
    return parts[1] if len(parts) == 3 and parts[0] == "src" else None


def blank_out(text):
    """The text with comments and strings blanked, lines kept."""
    return COMMENT_OR_STRING.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def is_commented(blanked_line):
    return not blanked_line.strip().startswith("#")


def check_one_include(tree, layer, place, form, name):
    allowed = tree.rules.allowed[layer]
    if tree.exists("include", name):
        if PUBLIC not in allowed:
            tree.note(place, "include", f"{layer} may not include public {name}")
        return
    if form == "<":
        if tree.exists("src", name):
            tree.note(place, "include", f'write "{name}", not <{name}>')
        return
    if not re.fullmatch(r"[a-z0-9_]+/[a-z0-9_]+\.h", name):
        tree.note(place, "include", f'"{name}" is not of the form "layer/file.h"')
        return
    target = name.split("/")[0]
    if target not in tree.rules.allowed:
        tree.note(place, "include", f"{target} is not a layer")
    elif target not in allowed:
        tree.note(place, "include", f"{layer} may not include {target}")
    elif name.endswith("_internal.h") and target != layer:
        tree.note(place, "include", f"{name} belongs to {target} alone")
    elif not tree.exists("src", name):
        tree.note(place, "include", f"src/{name} does not exist")


def check_includes(tree, path, text, blanked):
    layer = layer_of(path)
    for number, (line, bare) in enumerate(zip(text.split("\n"), blanked.split("\n")), 1):
        match = INCLUDE.match(line)
        if match and not is_commented(bare):
            check_one_include(tree, layer, f"{path}:{number}", *match.groups())


def check_banned(tree, path, blanked):
    banned = dict(BANNED)
    if tree.rules.is_below_api(layer_of(path)):
        banned.update(BANNED_BELOW_API)
    call = re.compile(r"(?<![\w.>])(" + "|".join(banned) + r")\s*\(")
    for number, line in enumerate(blanked.split("\n"), 1):
        for match in call.finditer(line):
            name = match.group(1)
            tree.note(f"{path}:{number}", "banned", f"{name}(): use {banned[name]}")


def check_leftovers(tree, path, text):
    for number, line in enumerate(text.split("\n"), 1):
        match = LEFTOVER.search(line)
        if match:
            tree.note(f"{path}:{number}", "todo", f"leftover {match.group()}")


def check_dead(tree, path):
    folder, name = os.path.split(path)
    if not name.endswith(".c") or path == os.path.join("src", "cli", "main.c"):
        return
    build = os.path.join(folder, "meson.build")
    if not tree.exists(build) or f"'{name}'" not in tree.read(build):
        tree.note(path, "dead", f"not named in {build}")


def check_sources(tree):
    for path in tree.files("src"):
        text = tree.read(path)
        if layer_of(path) not in tree.rules.allowed:
            tree.note(path, "include", "not in the folder of a layer")
            continue
        blanked = blank_out(text)
        check_includes(tree, path, text, blanked)
        check_banned(tree, path, blanked)
        check_leftovers(tree, path, text)
        check_dead(tree, path)
    for path in tree.files("include"):
        check_leftovers(tree, path, tree.read(path))


def compile_alone(tree, path):
    command = ["gcc", "-std=c17", "-D_GNU_SOURCE", "-D_FILE_OFFSET_BITS=64", "-fsyntax-only",
               "-DFUSE_USE_VERSION=35", "-Wall", "-Wextra", "-Werror", "-x", "c", "-Isrc",
               "-Iinclude", "-I/usr/include/fuse3", "-include", path, "/dev/null"]
    return subprocess.run(command, cwd=tree.root, capture_output=True, text=True, check=False)


def check_headers_alone(tree):
    headers = [p for p in tree.files("src") + tree.files("include") if p.endswith(".h")]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, done in zip(headers, pool.map(lambda p: compile_alone(tree, p), headers)):
            if done.returncode != 0:
                first = (done.stderr.strip().split("\n") or [""])[0]
                tree.note(path, "alone", f"does not compile by itself: {first}")


def symbols(library):
    """The global symbols a static library defines, and those it lacks."""
    # -P: "name kind ..."; a line that ends in a colon names the member.
    out = subprocess.run(["nm", "-P", "-g", library], capture_output=True, text=True, check=True)
    defined, lacking = set(), set()
    for line in out.stdout.split("\n"):
        words = line.split()
        if len(words) < 2 or line.endswith(":"):
            continue
        name, kind = words[0], words[1]
        if kind in ("U", "w", "v"):
            lacking.add(name)
        elif kind in GLOBAL_KINDS:
            defined.add(name)
    return defined, lacking - defined


def public_names(tree):
    text = "\n".join(blank_out(tree.read(path)) for path in tree.files("include"))
    return set(re.findall(r"\b(stet_\w+)\s*\(", text))


def layer_of_library(path):
    match = re.fullmatch(r"libstet_(\w+)\.a", os.path.basename(path))
    return match.group(1) if match else None


def check_libraries(tree, libraries):
    defined, lacking = {}, {}
    for path in libraries:
        layer = layer_of_library(path)
        if layer not in tree.rules.allowed:
            tree.note(path, "symbol", "not the library of a layer")
            continue
        defined[layer], lacking[layer] = symbols(path)
        for name in sorted(defined[layer]):
            if not name.startswith(("stet_", "__")):  # "__": the sanitizers' own
                tree.note(path, "symbol", f"global {name} does not start with stet_")
    public = public_names(tree)
    for layer, names in lacking.items():
        allowed = tree.rules.allowed[layer]
        offered = set().union(*(defined.get(other, set()) for other in allowed))
        if PUBLIC in allowed:
            offered |= public
        for name in sorted(n for n in names if n.startswith("stet_") and n not in offered):
            owner = [other for other in defined if name in defined[other]] or ["no layer"]
            tree.note(f"libstet_{layer}.a", "link", f"uses {name} of {owner[0]}")


def main(argv):
    if len(argv) < 2:
        print(__doc__)
        return 2
    tree = Tree(os.path.abspath(argv[1]))
    libraries = [os.path.abspath(path) for path in argv[2:]]
    check_sources(tree)
    check_headers_alone(tree)
    check_libraries(tree, libraries)
    for line in tree.found:
        print(line)
    print(f"{len(tree.found)} violations")
    return 1 if tree.found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
