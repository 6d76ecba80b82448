"""The reference of the C interface: each declaration of octet.h under the comment before it."""
import re

from repository import ROOT

from .text import escaped

HEADER = ROOT / "backends/runtime/octet.h"
COMMENT = re.compile(r"/\*(.*?)\*/", re.DOTALL)


def plain(comment):
    return " ".join(line.strip().lstrip("*").strip() for line in comment.splitlines()).strip()


def chunks(text):
    """(comment, declarations) in the header's order; what has no comment goes with what precedes."""
    text = text[text.index("#define OCTET_ABI_VERSION"):]
    text = text[:text.rindex("#ifdef __cplusplus")]
    found, comment, lines = [], "", []

    def close():
        if lines:
            found.append((comment, "\n".join(lines).strip()))
            lines.clear()

    pieces = re.split(r"(^/\*.*?\*/$)", text, flags=re.MULTILINE | re.DOTALL)
    for piece in pieces:
        if piece.startswith("/*"):
            close()
            comment = plain(COMMENT.match(piece)[1])
        elif piece.strip():
            for block in piece.strip().split("\n\n"):
                lines.append(block.replace("OCTET_API ", ""))
                close()
                comment = ""
    return found


def title(declaration):
    """The names that a piece of the header declares: functions, else the type or macro."""
    functions = re.findall(r"\b(octet_\w+)\(", re.sub(r"/\*.*?\*/", "", declaration, flags=re.S))
    typed = re.search(r"typedef (?:enum|struct) (\w+)", declaration)
    if typed:
        return [typed[1]]
    return functions or re.findall(r"#define (\w+)", declaration)


def pages():
    text = HEADER.read_text()
    lead = COMMENT.match(text)[1].split("\n *\n")
    parts = ["# octet.h\n\n"] + [escaped(plain(part)) + "\n\n" for part in lead]
    parts.append("A program that uses it: [the runtime](../backends/runtime/README.md).\n\n")
    for comment, declaration in chunks(text):
        names = title(declaration)
        parts.append(f"## {', '.join(f'`{name}`' for name in names)}\n\n")
        if comment:
            parts.append(escaped(comment) + "\n\n")
        parts.append(f"```c\n{declaration}\n```\n\n")
    return {"reference/c.md": "".join(parts)}
