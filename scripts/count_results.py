#!/usr/bin/env python3
"""Count the results in Meson's testlog.json: count_results.py LOG STATUS.

STATUS is that of `meson test`. Prints "N passed, N failed" as the last line; skipped tests count
as neither and are named before. Exits with 0 only when nothing failed and STATUS is 0.
"""
import json
import os
import sys

PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = {"SKIP"}


def read_results(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as log:
        return [json.loads(line) for line in log if line.strip()]


def main():
    path, status = sys.argv[1], int(sys.argv[2])
    results = read_results(path)
    passed = sum(r["result"] in PASSED for r in results)
    skipped = [r["name"] for r in results if r["result"] in SKIPPED]
    failed = len(results) - passed - len(skipped)
    if skipped:
        print(f"skipped: {', '.join(skipped)}")
    if status != 0 and failed == 0:
        failed = 1  # meson itself failed
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
