#!/usr/bin/env python3
"""Checks that each file and folder that a page names in backticks exists.   named_files.py ROOT

A name with a slash is looked for from the root, beside the page and in the folders above it; with or
without its ending; `*` matches anything. A name without a slash that ends as a source does must exist
somewhere in the tree. In the first table of sub-folders of ARCHITECTURE.md each word is an entry of
its folder. Prints one line per missing name; exits with 1 when there is any.
"""
import pathlib
import re
import subprocess
import sys

FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"`([\w.*-]+/[\w./*-]*)`")
SOURCE = re.compile(r"`([\w-]+\.(?:h|cpp|py|sh|cmake|csv|html|css))`")
FOLDERS = re.compile(r"^\| folder \| sub-folders \|\n\|---\|---\|\n((?:\|.*\n)+)", re.MULTILINE)
# Not in this tree: of readers and other projects, or made by a build.
ELSEWHERE = re.compile(r"^(?:build|\.venv|bin|lib|share|torch|torchvision|timm|licenses|dist|shim|scan|cond|body\d|onnx)/"
                       r"|^(?:app|top5|report|train|quantize|tuned)\.\w+$|^q/dq|^/|/\d|^[A-Z]+/")


def missing_on(root, page, text, tracked):
    folders = [root, *(root / page).parents][:-len(root.parents)]
    for name in sorted(set(PATH.findall(text))):
        found = (path for folder in folders for end in ("", ".*")
                 for path in folder.glob(name.rstrip("/") + end))
        if not ELSEWHERE.search(name) and next(found, None) is None:
            yield name
    for name in sorted(set(SOURCE.findall(text))):
        # octet new-backend my_npu copies tools/example_backend, whose files begin with acme
        if name.replace("my_npu", "acme") not in tracked and not ELSEWHERE.search(name):
            yield name


def missing_in_map(root, text):
    """Words of the table of sub-folders that name nothing."""
    for line in FOLDERS.search(text)[1].splitlines():
        folder, names = (cell.strip() for cell in line.strip("|").split("|"))
        for name in re.findall(r"[\w./]+", re.sub(r"\([^)]*\)|\b(?:then|and|library files|"
                                                  r"Not part of the product)\b", "", names)):
            name = name.rstrip(".")
            if name and not list((root / folder).glob(f"{name}*")):
                yield f"{folder}/{name}"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"],
                           cwd=root, text=True, check=True, stdout=subprocess.PIPE).stdout.split()
    tracked = {name.rpartition("/")[2] for name in names if (root / name).exists()}
    pages = [name for name in names if name.endswith(".md") and (root / name).exists()]
    missing = []
    for page in pages:
        text = (root / page).read_text()
        missing += [(page, name) for name in missing_on(root, page, FENCE.sub("", text), tracked)]
        if page == "ARCHITECTURE.md":
            missing += [(page, name) for name in missing_in_map(root, text)]
    for page, name in missing:
        print(f"{page}: {name} does not exist")
    print(f"named_files: {len(pages)} pages, {len(missing)} names are missing")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
