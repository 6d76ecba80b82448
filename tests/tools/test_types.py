"""Programs of the pages type-check against the packages: mypy --strict, apart from functions that a page defines without types."""
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import unittest

from page_blocks import ROOT, blocks

OPTIONS = ["--strict", "--allow-untyped-defs", "--allow-incomplete-defs", "--allow-untyped-calls", "--ignore-missing-imports", "--follow-imports=silent",
           "--no-error-summary", "--no-warn-unused-ignores", "--disable-error-code=name-defined"]  # a block may use names of the prose


def programs():
    """Page -> its blocks of Python, each at its line."""
    lines = {}
    for block in blocks():
        if block.language == "python":
            text = lines.setdefault(block.page, [])
            text += [""] * (block.line - len(text)) + block.text.splitlines()
    return {page: "\n".join(text) + "\n" for page, text in lines.items()}


@unittest.skipIf(importlib.util.find_spec("mypy") is None, "mypy is not installed")
class Types(unittest.TestCase):
    maxDiff = None

    def test_blocks(self):
        folder = pathlib.Path(os.environ["OCTET_SCRATCH"]) / "blocks"
        folder.mkdir(parents=True, exist_ok=True)
        pages = {re.sub(r"\W", "_", page): (page, text) for page, text in programs().items()}
        for name, (_, text) in pages.items():
            (folder / f"{name}.py").write_text(text)
        files = [f"{name}.py" for name in pages]
        command = [sys.executable, "-m", "mypy", *OPTIONS, "--cache-dir", str(folder.parent / "cache"), *files]
        environment = {**os.environ, "MYPYPATH": str(ROOT / "tools/python")}
        said = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900)
        self.assertIn(said.returncode, (0, 1), said.stderr)
        found = [line for line in said.stdout.splitlines() if line.split(":")[0] in files and ": error: " in line]
        self.assertGreater(len(files), 10)
        self.assertEqual([re.sub(r"^(\w+)\.py", lambda match: pages[match[1]][0], line) for line in found], [])


if __name__ == "__main__":
    unittest.main()
