"""Programs of the pages type-check against the packages: mypy --strict and pyright, apart from functions that a page defines without types."""
import importlib.util
import json
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


# pyright's rules about names of the prose, types of other packages, and functions without types.
LEFT_OUT = re.compile(r"reportUndefinedVariable|reportMissing|reportUnknown|reportUnused|reportDuplicateImport|reportUntyped")
EXPORTS = re.findall(r'^    "(\w+)",$', (ROOT / "tools/python/octet/__init__.py").read_text(), re.MULTILINE)


def is_installed(checker):
    return importlib.util.find_spec(checker) is not None


class Types(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(os.environ["OCTET_SCRATCH"]) / "blocks"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.pages = {re.sub(r"\W", "_", page): page for page in programs()}
        for name, text in zip(self.pages, programs().values()):
            (self.folder / f"{name}.py").write_text(text)
        self.assertGreater(len(self.pages), 10)

    def call(self, *command):
        environment = {**os.environ, "MYPYPATH": str(ROOT / "tools/python")}
        said = subprocess.run([sys.executable, "-m", *command], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=900)
        self.assertIn(said.returncode, (0, 1), said.stderr)
        return said.stdout

    @unittest.skipUnless(is_installed("mypy"), "mypy is not installed")
    def test_mypy(self):
        files = [f"{name}.py" for name in self.pages]
        said = self.call("mypy", *OPTIONS, "--cache-dir", str(self.folder.parent / "cache"), *files).splitlines()
        found = [line for line in said if ": error: " in line and (line.split(":")[0] in files or ".pyi:" in line)]
        self.assertEqual([re.sub(r"^(\w+)\.py:", lambda match: f"{self.pages[match[1]]}:", line) for line in found], [])

    @unittest.skipUnless(is_installed("pyright"), "pyright is not installed")
    def test_pyright(self):
        settings = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT / "tools/python")], "useLibraryCodeForTypes": False}
        (self.folder / "pyrightconfig.json").write_text(json.dumps(settings))
        found = json.loads(self.call("pyright", "--outputjson", "--pythonpath", sys.executable, "."))["generalDiagnostics"]
        unknown = re.compile(rf'Type of "({"|".join(EXPORTS)})" is partially unknown')
        wrong = [entry for entry in found if not LEFT_OUT.match(entry.get("rule", "")) or unknown.match(entry["message"])]
        self.assertEqual([f"{self.pages[pathlib.Path(entry['file']).stem]}:{entry['range']['start']['line'] + 1}: {entry['message']}" for entry in wrong], [])


if __name__ == "__main__":
    unittest.main()
