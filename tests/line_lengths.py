"""Checks that lines have at most 100 columns. Rows of a table, code between `clang-format off` and `on`,
and text in raw strings (graphs, HTML) may be longer. So may rows of tables, links and quoted messages
(blocks of text) on pages.
Prints each line that is; exits 1 then."""

import pathlib
import re
import subprocess
import sys

LIMIT = 100
ROW = re.compile(r"^\s*\{.*\},?$")
RAW = re.compile(r'R"([^()\s]*)\(')


def long_lines(text):
    """(number, length) of each line that is too long."""
    raw_end, formatted = None, True
    for number, line in enumerate(text.splitlines(), 1):
        inside_raw = raw_end is not None
        rest = line
        while True:
            if raw_end is not None:
                if raw_end not in rest:
                    break
                rest, raw_end = rest.split(raw_end, 1)[1], None
            match = RAW.search(rest)
            if not match:
                break
            inside_raw, rest, raw_end = True, rest[match.end():], f'){match.group(1)}"'
        if "clang-format off" in line:
            formatted = False
        if "clang-format on" in line:
            formatted = True
        if len(line) > LIMIT and formatted and not inside_raw and not ROW.match(line):
            yield number, len(line)


def long_lines_of_page(text):
    """(number, length) of each line of a page that is too long: prose and blocks."""
    is_quoted = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            is_quoted = line.startswith("```text") and not is_quoted
        if len(line) > LIMIT and not is_quoted and not line.startswith("|") and " " in line.strip():
            yield number, len(line)


def main(root):
    names = subprocess.run(["git", "ls-files", "*.cpp", "*.h", "*.c", "*.md"], cwd=root, text=True,
                           stdout=subprocess.PIPE, check=True).stdout.split()
    found = [(name, number, length) for name in names
             for number, length in (long_lines_of_page if name.endswith(".md") else long_lines)(
                 (root / name).read_text())]
    for name, number, length in found:
        print(f"{name}:{number}: {length} columns, want at most {LIMIT}")
    print(f"line_lengths: {len(names)} files, {len(found)} lines too long")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))
