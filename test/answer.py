#!/usr/bin/env python3
"""Runs a program on a terminal of its own and types answers, one after each question:

    answer.py QUESTION ANSWER [QUESTION ANSWER ...] -- PROGRAM [ARGUMENT ...]

Prints what the terminal shows; ends with the program's code. Nothing is typed before its question is there, as
by a person."""
import os
import pty
import select
import signal
import sys

SECONDS = 60


def main():
    at = sys.argv.index("--")
    pairs = list(zip(sys.argv[1:at:2], sys.argv[2:at:2]))
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp(sys.argv[at + 1], sys.argv[at + 1:])
    seen = b""
    while True:
        if not select.select([fd], [], [], SECONDS)[0]:
            os.kill(pid, signal.SIGTERM)
            sys.exit(f"nothing came for {SECONDS} seconds")
        try:
            data = os.read(fd, 65536)
        except OSError:
            break
        if not data:
            break
        seen += data
        sys.stdout.buffer.write(data.replace(b"\r\n", b"\n"))
        sys.stdout.buffer.flush()
        if pairs and pairs[0][0].encode() in seen:
            os.write(fd, pairs.pop(0)[1].encode() + b"\n")
            seen = b""
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


main()
