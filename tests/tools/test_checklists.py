"""Follows checklists of CONTRIBUTING.md with toy changes: each patch in tests/checklists/ applies to
a copy of the tree, touches as many places as its checklist says, and its sources compile. Patches
leave out generated files."""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["OCTET_BUILD"]).resolve()
CHECKLISTS = {  # patch: (its checklist, sources that it does not change but that depend on it)
    "toy_op": ("Add an ATen op composed of others", []),
    "toy_function": ("Add a unary function", []),
    "toy_option": ("Add an option of the command", []),
    "toy_session_option": ("Add an option of a session", ["backends/runtime/octet_c.cpp"]),
}


def places_of(patch):
    """The file of each run of added and removed lines."""
    places, before = [], " "
    for line in patch.splitlines():
        if line.startswith("+++ b/"):
            file, line = line.removeprefix("+++ b/"), " "
        elif line[:1] in ("+", "-") and not line.startswith("---") and before == " ":
            places.append(file)
        before = line[0] if line[:1] in ("+", "-") and not line.startswith("---") else " "
    return places


def wanted_places(checklist):
    """(places, places for each backend) that CONTRIBUTING.md names."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    section = re.search(rf"^### {re.escape(checklist)}\n(.*?)(?=^#|\Z)", page, re.M | re.S)
    said = section and re.search(r"(\d+) places(?:, and (\d+) for each backend)?", section[1])
    return said and (int(said[1]), int(said[2] or 0))


def command_for(source, copy):
    """The build's command that compiles the source, for its copy and without output."""
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        file = pathlib.Path(entry["directory"], entry["file"])
        if file != ROOT / source and not (file.parent.name == "Unity" and file.exists()
                                          and f'#include "{ROOT / source}"' in file.read_text()):
            continue
        arguments = shlex.split(entry["command"])
        output = arguments.index("-o")
        del arguments[output:output + 2]
        arguments = [copy / source if ROOT / argument == file else argument
                     for argument in arguments if argument != "-c"]
        return [copied(argument, copy) for argument in arguments] + ["-fsyntax-only"]
    return None


def copied(argument, copy):
    """-IFOLDER with the folder's copy, if the copy has it; others unchanged."""
    folder = pathlib.Path(str(argument).removeprefix("-I"))
    if not str(argument).startswith("-I") or not folder.is_relative_to(ROOT):
        return str(argument)
    folder = copy / folder.relative_to(ROOT)
    return f"-I{folder}" if folder.exists() else argument


class Checklists(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="octet-checklists-")
        self.addCleanup(folder.cleanup)
        self.copy = pathlib.Path(folder.name).resolve() / "tree"
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
        if listed.returncode != 0:
            self.skipTest("the tree is not a clone")
        for name in filter(None, listed.stdout.split("\0")):
            if (ROOT / name).is_file():
                (self.copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, self.copy / name)

    def test_every_patch_is_listed(self):
        self.assertEqual({path.stem for path in (ROOT / "tests/checklists").glob("*.patch")},
                         set(CHECKLISTS))

    def test_checklists_are_true(self):
        for name, (checklist, dependents) in CHECKLISTS.items():
            with self.subTest(checklist):
                self.follow(name, checklist, dependents)

    def follow(self, name, checklist, dependents):
        patch = ROOT / f"tests/checklists/{name}.patch"
        environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(self.copy.parent)}
        applied = subprocess.run(["git", "apply", patch], cwd=self.copy, env=environment,
                                 capture_output=True, text=True)
        self.assertEqual(applied.returncode, 0,
                         f"tests/checklists/{name}.patch no longer applies; create it again with git "
                         f"diff -U1, and update \"{checklist}\" in CONTRIBUTING.md\n"
                         f"{applied.stderr}")
        try:
            self.check(patch.read_text(), checklist, dependents)
        finally:
            subprocess.run(["git", "apply", "--reverse", patch], cwd=self.copy, env=environment)

    def check(self, patch, checklist, dependents):
        files = [file for file in places_of(patch) if not file.startswith("tests/")]
        backends = [file for file in files if re.match("backends/(?!runtime/)", file)]
        wanted = wanted_places(checklist)
        self.assertIsNotNone(wanted, f"\"{checklist}\" in CONTRIBUTING.md does not count places")
        self.assertEqual((len(files) - len(backends), len(backends)), wanted, "places")
        for source in sorted({file for file in files + dependents if file.endswith(".cpp")}):
            command = command_for(source, self.copy)
            self.assertIsNotNone(command, f"compile_commands.json does not have {source}")
            compiled = subprocess.run(command, cwd=BUILD, capture_output=True, text=True)
            self.assertEqual(compiled.returncode, 0, compiled.stderr)


if __name__ == "__main__":
    unittest.main()
