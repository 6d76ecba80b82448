"""The fenced blocks of all pages, and what becomes of each: PLAN."""
import os
import pathlib
import re
import subprocess
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["OCTET_BUILD"])
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Run(NamedTuple):
    """Run by this method of test_page_blocks.py."""
    method: str


class By(NamedTuple):
    """Run by another test, a script in this folder."""
    script: str


class NotRun(NamedTuple):
    """Not run; the scripts and options that it names exist."""
    reason: str


# page: how each block begins, and what becomes of it. Drawings (text) and JSON need no entry.
PLAN = {
    "README.md": {
        "tools/setup.sh": NotRun("installs packages and builds everything"),
        "import octet": By("test_tutorials.py"),
        "tools/demo.sh": NotRun("installs packages and fetches weights; CI runs the second line"),
    },
    "tools/site/docs/start/command.md": {
        "import torch\nfrom torch import nn": By("test_walkthrough.py"),
        "# data.pt holds": By("test_walkthrough.py"),
        "import torch\nimport torch.ao": By("test_walkthrough.py"),
        "# One scale per token": Run("other_ways_to_quantize"),
    },
    "tools/site/docs/start/deploy.md": {
        "#include <cstdio>": By("test_install.py"),
        "cmake_minimum_required": By("test_install.py"),
    },
    "annotate/FIGURES.md": {
        "tools/models/export.py": NotRun("takes more than an hour and fetches weights"),
    },
    "annotate/OPAQUE.md": {
        "#include": Run("cpp_compiles"),
        "import octet": By("../python/test_opaque_hooks.py"),
    },
    "annotate/QAT.md": {"#include": Run("cpp_compiles")},
    "tools/README.md": {
        "octet qat": Run("training"),
        "records = []": Run("recorded_op"),
        "echo": Run("recorded_op"),
    },
    "tools/bench/README.md": {
        "cmake --preset release": NotRun("takes hours, fetches weights and installs what it races"),
        ".venv/bin/python tools/bench/race.py": NotRun("wants a Debian 13 root, and as above"),
    },
    "tools/zoo/README.md": {
        ".venv/bin/python -m pip install": NotRun("takes hours; test_zoo.py runs the short form"),
    },
    "tools/cli/compare/README.md": {
        "octet compare": Run("compare_and_tune"),
        "octet tune model.pt2": By("../python/test_language_model.py"),
        "// top5.cpp": By("test_metric.py"),
    },
    "tools/python/README.md": {
        "tools/dev/wheel.sh": NotRun("builds again; test_package.py installs what is built"),
        **dict.fromkeys(
            ["import octet, torch", "q.report.show()", "prepared =", "model =", "import numpy",
             "print(octet.inspect"],
            By("../python/test_guide.py"),
        ),
        "for token in": By("../python/test_generate.py"),
    },
    "tools/cli/processes/README.md": {
        "mpirun -n 2 octet qat": Run("several_processes"),
        "# A hosts file": NotRun("wants several machines"),
        ".venv/bin/python tools/cli/processes/cost.py": Run("cost_of_machines"),
    },
    "tools/example_backend/README.md": {
        "cmake -S . -B build": By("test_install.py"),
    },
    "tools/site/README.md": {
        "tools/setup.sh": NotRun("installs packages; test_site.py builds the site"),
    },
    "tools/site/docs/start/install.md": {
        "tools/setup.sh": NotRun("installs packages and builds everything"),
        "tools/dev/wheel.sh": NotRun("builds again; test_package.py installs what is built"),
        "tools/dev/packages.sh": NotRun("builds again; tools/dev/packages.sh --check installs them"),
        "cmake --install": NotRun("test_install.py installs and builds against it"),
    },
    "tools/site/docs/tutorials/backend.md": {"": By("test_install.py")},
    "tools/site/docs/tutorials/conformance.md": {
        "octet conformance": By("test_conformance.py"),
        "path/to/octet/tools/test.sh": By("test_conformance.py"),
        "std::vector<Tolerance>": By("test_install.py"),
        "#include": By("test_install.py"),
        "find_package": By("test_install.py"),
    },
    "tools/site/docs/tutorials/plugin.md": {
        "#include": By("test_runtime_install.py"),
        "find_package": By("test_runtime_install.py"),
        "cc -shared": By("test_runtime_install.py"),
        "octet conformance": By("test_plugin.py"),
        "import octet_runtime": By("../python/test_plugin.py"),
    },
    "tools/site/docs/tutorials/language_model.md": {"": By("../python/test_language_model.py")},
    "tools/site/docs/tutorials/quantizer.md": {
        "#include": Run("cpp_compiles"),
        "": By("test_tutorials.py"),
    },
    **{f"tools/site/docs/{page}.md": {"": By("test_tutorials.py")}
       for page in ("start/ten_minutes", "tutorials/classifier", "tutorials/transformer",
                    "tutorials/training", "tutorials/phone", "tutorials/accuracy", "moving")},
}


class Block(NamedTuple):
    page: str
    line: int
    language: str
    text: str

    def __str__(self):
        return f"{self.page}:{self.line} ({self.language}): {self.text.splitlines()[0]}"


def pages():
    """Page -> its text."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True,
                           text=True).stdout.split()
    return {name: (ROOT / name).read_text() for name in names if (ROOT / name).exists()}


def blocks():
    """All blocks of all pages."""
    return [Block(page, text[:match.start()].count("\n") + 1, match[1].split(" ")[0], match[2])
            for page, text in pages().items() for match in BLOCK.finditer(text)]


def fate(block):
    """The entry of PLAN for a block, or None."""
    found = [value for start, value in PLAN.get(block.page, {}).items()
             if block.text.startswith(start)]
    return found[0] if found else None
