#!/usr/bin/env python3
"""Check that the shared library exports exactly what the headers declare: check_exports.py LIB HEADER..."""
import re
import subprocess
import sys


def declared(paths):
    names = set()
    for path in paths:
        with open(path, encoding="utf-8") as text:
            code = re.sub(r"/\*.*?\*/|//[^\n]*|typedef[^;]*;", "", text.read(), flags=re.DOTALL)
        names |= set(re.findall(r"\b(stet_\w+)\s*\(", code))
    return names


def exported(library):
    out = subprocess.run(["nm", "-D", "-P", "--defined-only", library], capture_output=True,
                         text=True, check=True).stdout
    # The version's own name is listed too, as an absolute symbol.
    rows = [line.split() for line in out.splitlines()]
    return {row[0].split("@")[0] for row in rows if row[1] != "A"}


def main(argv):
    wanted, found = declared(argv[2:]), exported(argv[1])
    for name in sorted(wanted - found):
        print(f"not exported: {name}")
    for name in sorted(found - wanted):
        print(f"exported, not declared: {name}")
    return 0 if wanted == found and wanted else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
