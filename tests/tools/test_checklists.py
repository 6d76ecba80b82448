"""Follows checklists of CONTRIBUTING.md with toy changes: each patch in tests/checklists/ applies to
a copy of the tree and touches as many places as its checklist says. All of them together are built
and run. Patches leave out generated files.

To save time, only the changed sources and DEPENDENTS are compiled. They are linked before the objects
of the build, and the linker takes the first definition of a function. Sources that are not compiled
know the old layout of a changed struct, so the tests run no command that they implement."""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import unittest

import torch

import support
from support import SCRATCH, CommandTest, Function

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["OCTET_BUILD"]).resolve()
PATCHES = sorted((ROOT / "tests/checklists").glob("*.patch"))
CHECKLISTS = {  # patch: its checklist
    "toy_op": "Add an ATen op composed of others",
    "toy_program_op": "Add a Program op",
    "toy_function": "Add a unary function",
    "toy_pattern": "Add a pattern",
    "toy_option": "Add an option of the command",
    "toy_session_option": "Add an option of a session",
}
DEPENDENTS = [*(f"backends/runtime/{path.name}" for path in (ROOT / "backends/runtime").glob("*.cpp")),
              "lowering/program/op_contract.cpp", "tools/cli/commands/run.cpp",
              "tools/cli/commands/runnable.cpp"]
RUNTIME = ("core/base/", "lowering/program/", "backends/")


def places_of(patch):
    """The file of each run of added and removed lines."""
    places, before = [], " "
    for line in patch.splitlines():
        if line.startswith("+++ b/"):
            file, line = line.removeprefix("+++ b/"), " "
        elif line[:1] in ("+", "-") and not line.startswith("---") and before == " ":
            places.append(file)
        before = line[0] if line[:1] in ("+", "-") and not line.startswith("---") else " "
    return [place for place in places if not place.startswith("tests/")]


def wanted_places(checklist):
    """(places, places for each backend) that CONTRIBUTING.md names."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    section = re.search(rf"^##+ {re.escape(checklist)}\n(.*?)(?=^#|\Z)", page, re.M | re.S)
    said = section and re.search(r"(\d+) places?(?:, and (\d+) for each backend)?", section[1])
    return said and (int(said[1]), int(said[2] or 0))


def is_of_a_backend(place):
    return re.match("backends/(?!runtime/|reference/)", place) is not None


def command_for(source, copy):
    """The build's command that compiles the source, alone and without "-o OBJECT", for its copy."""
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        file = pathlib.Path(entry["directory"], entry["file"])
        if file != ROOT / source and not (file.parent.name == "Unity" and file.exists()
                                          and f'#include "{ROOT / source}"' in file.read_text()):
            continue
        arguments = shlex.split(entry["command"])
        output = arguments.index("-o")
        del arguments[output:output + 2]
        return [copy / source if ROOT / argument == file else copied(argument, copy)
                for argument in arguments]
    raise AssertionError(f"compile_commands.json does not have {source}")


def copied(argument, copy):
    """-IFOLDER with the folder's copy, if the copy has it; others unchanged."""
    folder = pathlib.Path(argument.removeprefix("-I"))
    if not argument.startswith("-I") or not folder.is_relative_to(ROOT):
        return argument
    folder = copy / folder.relative_to(ROOT)
    return f"-I{folder}" if folder.exists() else argument


def run(command, **options):
    done = subprocess.run(command, cwd=BUILD, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}\n{done.stdout}{done.stderr}"[-6000:])


def git_apply(*arguments):
    """git apply in the copy; what it says when it fails."""
    copy = Checklists.copy
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(copy.parent)}
    return subprocess.run(["git", "apply", *arguments], cwd=copy, env=environment,
                          capture_output=True, text=True).stderr


class Checklists(CommandTest):
    """support.OCTET is the command with all toy changes."""

    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(SCRATCH).resolve()
        shutil.rmtree(folder, ignore_errors=True)
        cls.copy = folder / "tree"
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
        if listed.returncode != 0 or not (BUILD / "build.ninja").exists():
            raise unittest.SkipTest("the tree is not a clone, or the build is not one of ninja")
        for name in filter(None, listed.stdout.split("\0")):
            if (ROOT / name).is_file():
                (cls.copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, cls.copy / name)
        # before the others touch the lines around
        cls.failures = {path.stem: git_apply("--check", path) for path in PATCHES}
        said = [git_apply("--exclude", "tests/*", path) for path in PATCHES]
        if any(said):
            raise AssertionError("\n".join(["the patches do not apply together", *said]))
        cls.compile({place for path in PATCHES for place in places_of(path.read_text())})
        support.OCTET = str(cls.link("bin/octet"))

    @classmethod
    def compile(cls, changed):
        sources = sorted({*DEPENDENTS, *(file for file in changed if file.endswith(".cpp"))})
        cls.objects = {source: cls.copy.parent / source.replace("/", "_").replace(".cpp", ".o")
                       for source in sources}
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda source: run([*command_for(source, cls.copy), "-o",
                                              cls.objects[source]]), sources))

    @classmethod
    def link(cls, target, folders=""):
        """A file of the build with the new objects of sources in the folders."""
        new = cls.copy.parent / pathlib.Path(target).name
        objects = [str(path) for source, path in cls.objects.items() if source.startswith(folders)]
        shown = subprocess.run(["ninja", "-t", "commands", "-s", target], cwd=BUILD, check=True,
                               capture_output=True, text=True).stdout
        run(shown.replace(f"-o {target}", f"-o {new} -Wl,-z,muldefs {shlex.join(objects)}"),
            shell=True)
        return new

    def test_every_patch_is_listed(self):
        self.assertEqual({path.stem for path in PATCHES}, set(CHECKLISTS))

    def test_places(self):
        for path in PATCHES:
            checklist = CHECKLISTS[path.stem]
            with self.subTest(checklist):
                self.assertEqual(self.failures[path.stem], "",
                                 f"{path.name} no longer applies; create it again with git diff -U1, "
                                 f"and update \"{checklist}\" in CONTRIBUTING.md")
                places = places_of(path.read_text())
                backends = [place for place in places if is_of_a_backend(place)]
                wanted = wanted_places(checklist)
                self.assertIsNotNone(wanted, "CONTRIBUTING.md does not count places")
                self.assertEqual((len(places) - len(backends), len(backends)), wanted)

    def check_op(self, function, *inputs, backends=("reference",)):
        """Runs a program of one op on each backend, which must take the op itself."""
        self.export(Function(function), *inputs)
        self.save("x.pt", inputs)
        for backend in backends:
            with self.subTest(backend=backend):
                self.octet("lower", self.path("model.pt2"), "--backend", backend, "--output",
                           self.path("model.octet"))
                torch.testing.assert_close(self.run_file("model.octet")[0], function(*inputs),
                                           equal_nan=True)
                self.assertEqual({op["backend"] for op in self.inspect("model.octet")["ops"]},
                                 {backend})
        return [op["kind"] for op in self.inspect("model.octet")["ops"]]

    def test_toy_op(self):
        self.check_op(torch.special.entr, torch.tensor([-1, 0, 0.5, 2, float("nan")]))

    def test_toy_program_op(self):
        kinds = self.check_op(torch.gcd, torch.tensor([12, 7, 0, -6]), torch.tensor([[18], [4]]))
        self.assertEqual(kinds, ["gcd"])

    def test_toy_function(self):
        kinds = self.check_op(torch.special.i0, torch.linspace(-3, 3, 48).reshape(1, 3, 4, 4),
                              backends=("reference", "onednn", "xnnpack"))
        self.assertEqual(kinds, ["unary"])

    def test_toy_pattern(self):
        x = torch.randn(2, 8)
        self.export(Function(lambda x: torch.maximum(x, torch.flip(x, [1]))), x)
        self.save("data.pt", [(x,)])
        self.octet("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--calibration",
                   self.path("data.pt"), "--output", self.path("q.pt2"))
        nodes = {node["name"]: node for node in self.inspect("q.pt2")["nodes"]}
        maximum = next(name for name in nodes if name.startswith("maximum"))
        self.assertTrue(any("dequantize" in name for name in nodes))
        self.assertIn("dequantize", str(nodes[maximum]["args"]))

    def test_toy_option(self):
        self.small_model()
        self.assertIn("--most-ops", self.octet("lower", "--help")[0])
        command = ["lower", self.path("model.pt2"), "--backend", "reference", "--output",
                   self.path("model.octet"), "--most-ops"]
        self.assertIn("ops, want at most 1 (--most-ops)", self.fails(*command, "1"))
        self.octet(*command, "1000")
        self.octet(*command, "0", code=2)

    def test_toy_session_option(self):
        x = torch.randn(4)
        self.export(Function(lambda x: torch.sin(x) * 2), x)
        self.save("x.pt", (x,))
        file = self.path("model.octet")
        self.octet("lower", self.path("model.pt2"), "--backend", "reference", "--output", file)
        run = ["run", file, "--inputs", self.path("x.pt"), "--outputs", self.path("y.pt")]
        self.assertIn("--op-limit", self.octet("run", "--help")[0])
        self.assertRegex(self.fails(*run, "--op-limit", "1"),
                         "session: op_limit: is 1, and the program has [2-9] ops")
        self.octet(*run, "--op-limit", "9")
        # the C interface
        name = next((BUILD / "backends").glob("liboctet_runtime.so.*.*")).name
        library = self.link(f"backends/{name}", RUNTIME)
        shutil.copyfile(library, self.path("liboctet_runtime.so.1"))
        source = pathlib.Path(self.path("limit.c"))
        source.write_text('#include <octet.h>\n#include <stdio.h>\n#include <stdlib.h>\n'
                          'int main(int count, char** words) {\n'
                          '  octet_options options = {.size = sizeof(options)};\n'
                          '  options.op_limit = atoi(words[2]);\n'
                          '  puts(octet_load(words[1], &options) ? "" : octet_last_error());\n'
                          '}\n')
        subprocess.run(["cc", source, f"-I{self.copy}/backends/runtime",
                        self.path("liboctet_runtime.so.1"), f"-Wl,-rpath,{self.folder}", "-o",
                        self.path("limit")], check=True)
        said = [subprocess.run([self.path("limit"), file, limit], check=True, capture_output=True,
                               text=True).stdout for limit in ("1", "9")]
        self.assertRegex(said[0], "op_limit: is 1")
        self.assertEqual(said[1], "\n")


if __name__ == "__main__":
    unittest.main()
