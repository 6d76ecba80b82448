"""Runs the fenced blocks of pages that PLAN (page_blocks.py) gives to this file; quantizers' files in JSON are given to the command."""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import unittest

import torch
from torch import nn

from page_blocks import BUILD, ROOT, Run, blocks, fate
from support import OCTET, CommandTest, sqnr
from test_json_schema import KEYS, examples_of
from test_mpi import has_mpi


class Net(nn.Module):
    """A network that a table of rows can take as a whole."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 3, stride=2), nn.ReLU(), nn.MaxPool2d(2))
        self.gate = nn.Conv2d(32, 32, 3)
        self.head = nn.Linear(32 * 5 * 5, 10)

    def forward(self, x):
        return self.head(torch.flatten(torch.relu(self.gate(self.stem(x))), 1))


class Pages(CommandTest):
    """The blocks that run here. Each has a folder with the files that it names."""

    def only(self, method, language):
        """The block that this method runs and that has this language."""
        found = [b for b in blocks() if fate(b) == Run(method) and b.language == language]
        self.assertEqual(len(found), 1, [str(block) for block in found])
        return found[0].text

    def shell(self, text):
        """Runs the lines of a block in the folder, the command on the path."""
        path = os.pathsep.join([os.path.dirname(OCTET), os.environ["PATH"]])
        mpi = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1",
               "OMPI_MCA_hwloc_base_binding_policy": "none"}
        env = {**os.environ, **mpi, "PATH": path, "OMP_NUM_THREADS": "1"}
        result = subprocess.run(["sh", "-e", "-c", text], cwd=self.folder, env=env, timeout=900,
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, f"{text}\n{result.stdout}\n{result.stderr}"[-6000:])
        return result.stdout + result.stderr

    def export_net(self):
        """model.pt2 with an open batch and weights that can be trained; data of all kinds."""
        torch.manual_seed(0)
        net = Net()
        batch = torch.export.Dim("batch", min=1, max=64)
        self.export(net, torch.randn(2, 3, 32, 32), dynamic_shapes=({0: batch},))
        data = [(torch.randn(1, 3, 32, 32),) for _ in range(8)]
        for name in ("data.pt", "part1.pt", "calibration.pt"):
            self.save(name, data)
        for name in ("train.pt", "validation.pt"):
            self.save(name, [(torch.randn(8, 3, 32, 32), torch.arange(8)) for _ in range(3)])
        return net, data

    def test_other_ways_to_quantize(self):
        self.export_net()
        table = json.loads((ROOT / "quantizers/toy_npu.json").read_text())
        self.write_json("my_npu.json", {key: table[key] for key in ("name", "specs", "patterns")})
        self.octet("calibrate", self.path("model.pt2"), "--quantizer", "x86", "--calibration",
                   self.path("data.pt"), "--state", self.path("s2.json"))
        self.shell(self.only("other_ways_to_quantize", "sh"))
        for name in ("int8.pt2", "int4.pt2", "s1.json", "a.json"):
            self.assertTrue(os.path.exists(self.path(name)), name)

    def test_training(self):
        self.export_net()
        self.assertIn("epoch 1/10", self.shell(self.only("training", "sh")))
        self.assertEqual(self.run_file("q.pt2", self.save("x.pt", (torch.ones(1, 3, 32, 32),)))[0]
                         .shape, (1, 10))

    def test_compare_and_tune(self):
        self.export_net()
        os.rename(self.path("model.pt2"), self.path("float.pt2"))
        self.octet("quantize", self.path("float.pt2"), "--quantizer", "x86", "--calibration",
                   self.path("data.pt"), "--output", self.path("int8.pt2"))
        self.octet("lower", self.path("int8.pt2"), "--backend", "onednn", "--output",
                   self.path("int8.octet"))
        self.assertIn("isolated", self.shell(self.only("compare_and_tune", "sh")))
        for name in ("report.html", "report.csv", "tuned.pt2", "tuned.json", "tuned.html"):
            self.assertTrue(os.path.exists(self.path(name)), name)

    @unittest.skipUnless(has_mpi(), "built without MPI, or mpirun is not installed")
    def test_several_processes(self):
        self.export_net()
        self.save("data.pt", [(torch.randn(1, 3, 32, 32),) for _ in range(16)])
        self.assertIn("2 processes; in a step each gives",
                      self.shell(self.only("several_processes", "sh")))
        for name in ("q.pt2", "c.pt", "int8.pt2", "tuned.pt2", "tuned.json"):
            self.assertTrue(os.path.exists(self.path(name)), name)

    def test_cost_of_machines(self):
        """The page states figures that the tool prints."""
        words = shlex.split(self.only("cost_of_machines", "sh").replace("\\\n", " "))
        result = subprocess.run([sys.executable, ROOT / words[1], *words[2:]], check=True,
                                capture_output=True, text=True)
        page = (ROOT / "tools/cli/processes/README.md").read_text()
        rows = [[cell.strip() for cell in line.split("|")[1:-1]]
                for line in result.stdout.splitlines()[2:]]
        said = re.sub(r"\s+", " ", page)
        for machines, text in ((2, "2 machines are {} times"), (4, "4 are {}"), (8, "8 are {}"),
                               (16, "16 are {} times")):
            row = next(row for row in rows if row[0] == str(machines))
            self.assertIn(text.format(row[3]), said)
        self.assertIn(f"64 machines reach {rows[-1][5]} of the ideal", said)
        wrong = subprocess.run([sys.executable, ROOT / words[1], "--seconds", "0", "--megabytes",
                                "1"], capture_output=True, text=True)
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("want a number above 0, got 0", wrong.stderr)

    def test_recorded_op(self):
        net, data = self.export_net()
        text, folder = self.only("recorded_op", "python"), os.getcwd()
        os.chdir(self.folder)
        try:
            with torch.no_grad():
                exec(compile(text, "tools/README.md", "exec"), {"torch": torch, "model": net})
        finally:
            os.chdir(folder)
        self.shell(self.only("recorded_op", "sh"))
        self.save("x.pt", data[0])
        with torch.no_grad():
            self.assertGreater(sqnr(net(*data[0]), self.run_file("q.pt2")[0]), 20)

    def test_cpp_compiles(self):
        """The fragments in C++, each in a function, in one file; only their syntax and types."""
        includes, functions = [], []
        for block in blocks():
            if fate(block) == Run("cpp_compiles"):
                lines = block.text.splitlines()
                includes += [line for line in lines if line.startswith("#include")]
                body = "\n".join(line for line in lines if not line.startswith("#include"))
                functions.append(f"void block_{len(functions)}() {{\n{body}\n}}\n")
        self.assertEqual(len(functions), 3)
        source = self.path("blocks.cpp")
        pathlib.Path(source).write_text("\n".join(includes + functions))
        subprocess.run([*self.compiler(), "-w", "-fsyntax-only", f"-I{ROOT}", source], check=True)

    def compiler(self):
        """The command that compiles a source of the octet command, without its files."""
        entries = json.loads((BUILD / "compile_commands.json").read_text())
        command = next(shlex.split(entry["command"]) for entry in entries
                       if "octet_command.dir" in entry["command"])
        for option in ("-o", "-c"):
            at = command.index(option)
            del command[at:at + 2]
        return command

    def json_files(self):
        """The files for quantizers that the pages show, in their order."""
        return [value for block in blocks() if block.language == "json"
                for value in examples_of(f"```json\n{block.text}```")
                if any(key in value for key in KEYS)]

    def test_json_files_are_accepted(self):
        """By the command, for a network that has what they name."""
        torch.manual_seed(0)
        net, data = Named().eval(), [(torch.randn(1, 3, 16, 16),) for _ in range(4)]
        self.export(net, *data[0])
        self.save("data.pt", data)
        with torch.no_grad():
            self.save("r.pt", [(net.features(x),) for x, in data])
        values = self.json_files()
        self.assertGreaterEqual(len(values), 6)
        self.write_json("npu.json", next(value for value in values if "patterns" in value))
        for value in values:
            with self.subTest(value=json.dumps(value)[:80]):
                # The network's op has no kernel in C++: it stays out of what calibration runs.
                parts = value.setdefault("opaque", [])
                if not any(part.get("op") == "my_ns.nms.default" for part in parts):
                    parts.append({"op": "my_ns.nms.default", "recorded": True})
                self.write_json("file.json", value)
                self.octet("quantize", self.path("model.pt2"), "--quantizer",
                           self.path("file.json"), "--calibration", self.path("data.pt"),
                           "--recorded", self.path("r.pt"), "--output", self.path("q.pt2"))
                self.assertTrue(any("quantize" in node["target"]
                                    for node in self.inspect("q.pt2")["nodes"]))


@torch.library.custom_op("my_ns::nms", mutates_args=())
def nms(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x)


@nms.register_fake
def _(x):
    return torch.empty_like(x)


class Decoder(nn.Module):
    """A class of modules that a page names my.Decoder."""

    def forward(self, x):
        return torch.sigmoid(x)


Decoder.__module__ = "my"


class Named(nn.Module):
    """The modules and ops that the JSON files of the pages name."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3)
        self.fc = nn.Linear(32, 32)
        self.head = nn.Linear(32, 32)
        self.decoder = Decoder()
        self.postprocess = nn.Sigmoid()

    def features(self, x):
        x = torch.relu(self.conv(x))
        y = torch.tanh(x) * x
        y = torch.cat(torch.chunk(y, 2, 1), 1)
        x = torch.cat([x + y, y], 1)
        return nms(torch.mean(x, [2, 3]))

    def forward(self, x):
        x = self.head(torch.sigmoid(self.fc(self.features(x))))
        return self.postprocess(self.decoder(x))


if __name__ == "__main__":
    unittest.main()
