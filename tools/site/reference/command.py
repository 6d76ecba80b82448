"""The reference of the command line: what `octet <command> --help` and `inspect --ops` print."""
import os
import re
import subprocess

from repository import ROOT

from .text import Missing, escaped

FOLDER = "reference/command"


def binary():
    """The octet command, which says what its options are."""
    path = os.environ.get("OCTET", str(ROOT / "build/release/bin/octet"))
    if not os.access(path, os.X_OK):
        raise Missing(f"command reference: no {path}; build it with tools/setup.sh, or name "
                      "another with OCTET")
    return path


def printed(*arguments):
    return subprocess.run([binary(), *arguments], check=True, capture_output=True,
                          text=True).stdout


def help_text(*command):
    return printed(*command, "--help")


COLUMN = 30  # where CLI11 begins a description, on a separate line when the term is longer


def sections(text):
    """(the text before, {section: [(term, description)]}) of a help text."""
    head, found, rows = [], {}, None
    for line in text.splitlines():
        title = re.fullmatch(r"([A-Z]\w+):", line)
        if title:
            rows = found.setdefault(title[1], [])
        elif rows is None:
            head.append(line)
        elif line.startswith(" " * COLUMN):
            term, rest = rows[-1]
            rows[-1] = (term + rest, line.strip())
        elif line.startswith("  "):
            short = line[COLUMN - 1:COLUMN] in ("", " ")
            rows.append((line[2:COLUMN], line[COLUMN:]) if short else (line[2:], ""))
    return head, {title: [(term.strip(), rest.strip()) for term, rest in rows]
                  for title, rows in found.items()}


def entry(term, text):
    """An option or a positional under a separate heading, which the search finds."""
    names, _, rest = term.partition(" ")
    remarks = []
    for pattern, said in ((r"\bREQUIRED\b", "required"), (r"Excludes: (.*)", "not with {}"),
                          (r"Needs: (.*)", "with {}"), (r"=([\w.-]+)", "default {}"),
                          (r"TEXT:\{([^}]*)\}", "one of {}"), (r":INT in \[(.*) - (.*)\]", "{} to {}"),
                          (r":FLOAT in \[(.*) - (.*)\]", "{} to {}"), (r":POSITIVE", "above 0"),
                          (r":NONNEGATIVE", "0 or more"), (r" x (\d+)", "at least {}"),
                          (r" \.\.\.", "several")):
        found = re.search(pattern, rest)
        if found:
            rest = rest[:found.start()] + rest[found.end():]
            remarks.insert(0, said.format(*(part.replace(",", ", ") for part in found.groups())))
    kind = {"": "", "TEXT": "", "INT": "integer", "UINT": "integer", "FLOAT": "number",
            "BYTES": "bytes, or a number with K, M or G"}.get(rest.strip())
    if kind is None:
        raise ValueError(f"{term}: {rest.strip()!r} of the help text is not understood")
    said = ", ".join(([kind] if kind else []) + remarks)
    anchor = re.sub(r"^-+", "", names.split(",")[-1])
    return (f"### `{names}` {{ #{anchor} }}\n\n{f'*{escaped(said)}*  {chr(10)}' if said else ''}"
            f"{escaped(text)}\n\n")


def page_of_command(name):
    """The page of one command."""
    head, found = sections(help_text(name))
    lines = [f"# octet {name}\n\n", escaped(head[0]), "\n\n```text\n"]
    lines += [head[1].removeprefix("Usage: "), "\n```\n\n"]
    for title, rows in found.items():
        lines.append(f"## {title}\n\n")
        lines += [entry(term, text) for term, text in rows]
    return "".join(lines)


def pages():
    overview, found = sections(help_text())
    names = [name for name, _ in found["Subcommands"]]
    index = ["# The command\n\n", escaped(overview[0]), "\n\n"]
    for name, what in found["Subcommands"]:
        index.append(f"[`octet {name}`]({name}.md)\n:   {escaped(what)}\n\n")
    index.append("Exit codes, stdin and stdout: [the command](../../tools/README.md).\n")
    made = {f"{FOLDER}/index.md": "".join(index), "reference/ops.md": printed("inspect", "--ops")}
    for name in names:
        made[f"{FOLDER}/{name}.md"] = page_of_command(name)
    return made
