#!/usr/bin/env python3
"""The tutorial tells what is: test_tutorial.py SOURCE PROGRAM EXAMPLES_DIR

* a block of C below "<!-- FILE: PART -->" is what FILE holds between "/* [PART] */" and "/* [end] */"
  ("--fix" after the arguments puts it there);
* the lines of blocks of sh that start with "$ " are run, in order, in a directory of their own, and print what
  stands below them.
"""
import os
import re
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"<!-- (\S+): (\w+) -->\n```c\n(.*?)```\n", re.S)


def part_of(source, name, part):
    with open(os.path.join(source, name), encoding="utf-8") as file:
        found = re.search(rf"/\* \[{part}\] \*/\n(.*?)/\* \[end\] \*/\n", file.read(), re.S)
    if not found:
        sys.exit(f"{name} has no part {part}")
    return found.group(1)


def check_code(source, path, text, fix):
    whole = BLOCK.sub(lambda m: f"<!-- {m[1]}: {m[2]} -->\n```c\n{part_of(source, m[1], m[2])}```\n", text)
    if whole == text:
        return len(BLOCK.findall(text))
    if not fix:
        sys.exit(f"{path} differs from the examples; {sys.argv[0]} ... --fix puts them in")
    with open(path, "w", encoding="utf-8") as file:
        file.write(whole)
    return len(BLOCK.findall(text))


def check_commands(text, program, examples):
    env = dict(os.environ, PATH=os.pathsep.join([os.path.dirname(program), examples, os.environ["PATH"]]))
    count = 0
    with tempfile.TemporaryDirectory() as tmp:
        for block in re.findall(r"```sh\n(.*?)```", text, re.S):
            for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M):
                done = subprocess.run(["sh", "-c", command], cwd=tmp, env=env, timeout=60,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                      check=False)
                if done.returncode or done.stdout != expected:
                    sys.exit(f"$ {command}\nexpected:\n{expected}printed ({done.returncode}):\n{done.stdout}")
                count += 1
    return count


def main():
    source, program, examples = [os.path.abspath(arg) for arg in sys.argv[1:4]]
    path = os.path.join(source, "doc", "tutorial.md")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    blocks = check_code(source, path, text, "--fix" in sys.argv)
    commands = check_commands(text, program, examples)
    if not blocks or not commands:
        sys.exit(f"{path}: nothing to check")
    print(f"{blocks} blocks, {commands} commands")


if __name__ == "__main__":
    main()
