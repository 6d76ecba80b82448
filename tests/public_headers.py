#!/usr/bin/env python3
"""Checks tools/cmake/public_headers.txt, the list of the headers that are installed.

1. Each header is in the tree and listed once.
2. What a listed header includes of the tree is listed too, for runtime in its own two sections.
3. Each header under "included by" is included by a listed header.
4. The pages' blocks of C++ and the example of a backend include what is listed without "included by".
With --installed FOLDER, the include/octet of a prefix: it has these headers and no others.

Prints one line per violation; exits with 1 when there is any.
"""
import argparse
import pathlib
import re
import sys

LIST = "tools/cmake/public_headers.txt"
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
BLOCK = re.compile(r"^```cpp\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# The C interface is installed once more, for `#include "octet.h"`; the last is made by the build.
ALSO_INSTALLED = {"octet.h", "octet_plugin.h", "tools/headers_hash.h"}


def read_list(root):
    """section -> headers"""
    sections, headers = {}, None
    for line in (root / LIST).read_text(encoding="utf-8").splitlines():
        if line.startswith("<"):
            headers = sections.setdefault(line.strip("<>"), [])
        elif line and not line.startswith("#"):
            headers.append(line)
    return sections


def includes_of(root, text):
    return {header for header in INCLUDE.findall(text) if (root / header).is_file()}


def check_list(root, sections):
    listed = [header for headers in sections.values() for header in headers]
    for header in sorted(set(listed)):
        if listed.count(header) > 1:
            yield f"{LIST}: {header} is listed {listed.count(header)} times"
        if not (root / header).is_file():
            yield f"{LIST}: {header} is not in the tree"


def check_includes(root, sections):
    runtime = {*sections["runtime"], *sections["included by runtime"]}
    everything = {header for headers in sections.values() for header in headers}
    included = set()
    for header in sorted(everything):
        if not (root / header).is_file():
            continue
        needed = includes_of(root, (root / header).read_text(encoding="utf-8"))
        included |= needed
        for other in sorted(needed - (runtime if header in runtime else everything)):
            yield f"{header}: includes {other}, which is not installed{' with the runtime' if other in everything else ''}; see {LIST}"
    for section in ("included by runtime", "included by development"):
        for header in sections[section]:
            if header not in included:
                yield f"{LIST}: no installed header includes {header}; remove it, or list it for programs to include"


def check_users(root, sections):
    public = {*sections["runtime"], *sections["development"]}
    texts = {path: path.read_text(encoding="utf-8") for path in sorted((root / "tools/example_backend").iterdir()) if path.suffix in (".h", ".cpp")}
    for folder in (".", "annotate", "backends", "core", "lowering", "quantizers", "tools"):
        for path in sorted((root / folder).glob("*.md" if folder == "." else "**/*.md")):
            texts[path] = "".join(BLOCK.findall(path.read_text(encoding="utf-8")))
    for path, text in texts.items():
        for header in sorted(includes_of(root, text) - public):
            yield f"{path.relative_to(root)}: includes {header}, which {LIST} does not list for programs to include"


def check_installed(folder, sections):
    listed = {header for headers in sections.values() for header in headers} | ALSO_INSTALLED
    installed = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    for header in sorted(listed - installed):
        yield f"{header}: is not installed; {LIST} lists it"
    for header in sorted(installed - listed):
        yield f"{header}: is installed; {LIST} does not list it"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--installed", type=pathlib.Path)
    arguments = parser.parse_args()
    sections = read_list(arguments.root)
    violations = [*check_list(arguments.root, sections), *check_includes(arguments.root, sections), *check_users(arguments.root, sections)]
    if arguments.installed:
        violations += check_installed(arguments.installed, sections)
    for line in violations:
        print(line)
    print(f"public_headers: {sum(map(len, sections.values()))} headers, {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
