#!/usr/bin/env python3
"""Checks that every option that a message, a page or a script names exists.   hints.py ROOT OCTET

1. `--name` in a message of the sources, and in a line of a page or script that calls octet, is an option of `octet`: of the subcommand before it,
   else of any. What follows the name of a script ("run tools/setup.sh --test") is for that script.
2. What a message advises after its semicolon in snake_case is a word of quantizer.schema.json.
   Messages of lowering/, backends/ and tools/ advise none: they speak to callers of the command ("quantize with --reduce-range").

Prints one line per violation: file:line: what; exits with 1 when there is any.
"""
import json
import pathlib
import re
import subprocess
import sys

FOLDERS = ["core", "annotate", "quantizers", "lowering", "backends", "tools"]
COMMENT = re.compile(r"(?m)^\s*//.*$|\s//\s.*$")
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"(?:\s*\n\s*"((?:[^"\\\n]|\\.)*)")*')
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
COMMAND = re.compile(r"\boctet\s+([a-z]+(?:-[a-z]+)*)\b")
SCRIPT = re.compile(r"\b[\w/]+\.(?:sh|py)\b")
SNAKE_CASE = re.compile(r"(?<![\w.:])[a-z]+(?:_[a-z0-9]+)+(?![\w.:(])")


def options_of(octet):
    """Subcommand -> the options that its --help lists; "" stands for the command itself."""
    def listed(*command):
        return subprocess.run([octet, *command, "--help"], check=True, capture_output=True, text=True).stdout
    text = listed()
    names = re.findall(r"(?m)^  ([a-z-]+) ", text[text.index("Subcommands:"):])
    return {"": set(OPTION.findall(text)), **{name: set(OPTION.findall(listed(name))) for name in names}}


def words_of(schema):
    """Keys and words that a JSON file of a quantizer may hold."""
    if isinstance(schema, dict):
        return set(schema.get("properties", ())) | {w for value in schema.values() for w in words_of(value)}
    if isinstance(schema, list):
        return {w for value in schema for w in words_of(value)}
    return {schema} if isinstance(schema, str) else set()


def sentences(path):
    """(line number, text) of the string literals; those that the compiler joins are one."""
    text = COMMENT.sub(lambda match: "", path.read_text(encoding="utf-8"))
    source = path.read_text(encoding="utf-8")
    for match in LITERAL.finditer(text):
        whole = "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', match.group()))
        first = match.group().split("\n")[0]
        yield source[:max(source.find(first), 0)].count("\n") + 1, whole


def wrong_options(text, options):
    """The options in a text that the subcommand before them lacks, or every subcommand."""
    known = set().union(*options.values())
    for match in OPTION.finditer(text):
        before = text[:match.start()]
        commands, scripts = list(COMMAND.finditer(before)), list(SCRIPT.finditer(before))
        if scripts and (not commands or scripts[-1].start() > commands[-1].start()):
            continue
        command = commands[-1].group(1) if commands else None
        if match.group() not in (options.get(command, known) if command else known):
            yield f"{match.group()} is not an option of octet{' ' + command if command in options else ''}"


def check_sources(root, options, words):
    for path in sorted(path for folder in FOLDERS for path in (root / folder).rglob("*") if path.suffix in (".h", ".cpp")):
        name = path.relative_to(root).as_posix()
        if name.startswith("tools/bench/"):  # programs with other options
            continue
        for line, text in sentences(path):
            wrong = list(wrong_options(text, options))
            advice = SNAKE_CASE.findall(text[text.rindex("; "):]) if "; " in text else []
            speaks_of_json = not name.startswith(("lowering/", "backends/", "tools/"))
            wrong += [f"advises {word}, want an option of octet{' or a word of quantizer.schema.json' if speaks_of_json else ''}" for word in advice
                      if word not in words or not speaks_of_json]
            yield from (f"{name}:{line}: {what}" for what in wrong)


def check_pages(root, options):
    for path in sorted([*root.glob("*.md"), *(path for folder in FOLDERS for path in (root / folder).rglob("*") if path.suffix in (".md", ".sh"))]):
        lines = path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
        for number, text in enumerate(lines, 1):
            for call in re.split(r"#|`", text) if "octet" in text else []:
                if COMMAND.search(call) and COMMAND.search(call).group(1) in options:
                    yield from (f"{path.relative_to(root)}:{number}: {what}" for what in wrong_options(call, options))


def main():
    root = pathlib.Path(sys.argv[1])
    options = options_of(sys.argv[2])
    words = words_of(json.loads((root / "quantizers/quantizer.schema.json").read_text()))
    violations = [*check_sources(root, options, words), *check_pages(root, options)]
    print(*violations, f"{len(options) - 1} subcommands, {len(set().union(*options.values()))} options, {len(violations)} violations", sep="\n")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
