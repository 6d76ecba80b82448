"""octet conformance: what it prints and writes, and cells on a device."""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import unittest
import xml.etree.ElementTree as xml

import torch
from support import CommandTest
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = os.environ["OCTET_BUILD"]

# A device that runs cells with the runtime's Python package.
DEVICE = f"""
import pathlib, sys
sys.path.insert(0, {os.path.join(BUILD, "python")!r})
import numpy, octet_runtime
folder = pathlib.Path(sys.argv[1])
model = octet_runtime.load(folder / "program.octet")
inputs = [numpy.fromfile(folder / f"input_{{i}}.bin", x.dtype).reshape(x.shape)
          for i, x in enumerate(model.inputs)]
outputs = model(*inputs)
for i, y in enumerate(outputs if isinstance(outputs, tuple) else (outputs,)):
    (y if sys.argv[2:] != ["wrong"] else -y).tofile(folder / f"output_{{i}}.bin")
"""


class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("cache", torch.zeros(4, 8))

    def forward(self, x, place):
        self.cache[place] = self.linear(x)
        return x @ self.cache.T


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(7, 16), nn.Embedding(5, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.head = nn.Linear(16, 7)

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        return self.head(self.layer(x))


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 8, 3, stride=2), nn.Conv2d(8, 5, 1)

    def forward(self, image):
        boxes = self.head(torch.relu(self.conv(image))).flatten(2)
        scores, best = torch.sigmoid(boxes[:, 4]).topk(6)
        return scores, boxes[:, :4].gather(2, best.unsqueeze(1).expand(-1, 4, -1))


class Infinite(nn.Module):
    def forward(self, x):
        return torch.clamp(x * float("inf"), min=-1)


class Second(nn.Module):
    def forward(self, x, y):
        return torch.relu(y)


class Scaled(nn.Module):
    def forward(self, x, factor):
        return torch.relu(x) * factor


class Vanishes(nn.Module):
    def forward(self, x):
        return torch.tanh(x) * 1e-41


class Writes(nn.Module):
    def forward(self, x):
        return x.add_(1)


class Conformance(CommandTest):
    def test_the_page_commands(self):
        """The outcomes of the page are those that are printed; the figures of all agree."""
        out, _ = self.octet("conformance", "--backend", "xnnpack", "--quick", "--junit",
                            self.path("r.xml"), "--json", self.path("r.json"), "--html",
                            self.path("r.html"))
        total = re.fullmatch(r"(\d+) cells of xnnpack: (.*)", out.splitlines()[-1])
        counts = {name: int(count) for count, name in re.findall(r"(\d+) (\w+)", total[2])}
        report = json.loads(pathlib.Path(self.path("r.json")).read_text())
        self.assertEqual(len(report["cells"]), int(total[1]))
        self.assertGreater(int(total[1]), 500)
        page = (ROOT / "tools/site/docs/tutorials/conformance.md").read_text()
        for name, count in counts.items():
            self.assertEqual(report[name], count)
            self.assertIn(f"| {name} |", page)
        self.assertEqual((report["wrong"], report["crashed"]), (0, 0))
        self.assertTrue(all(cell["detail"] for cell in report["cells"]
                            if cell["outcome"] == "refused"))
        suite = xml.parse(self.path("r.xml")).getroot()
        self.assertEqual((suite.get("tests"), suite.get("failures"), suite.get("skipped")),
                         (total[1], "0", str(counts["refused"])))
        self.assertIn("<td>conv", pathlib.Path(self.path("r.html")).read_text())

    def test_a_device(self):
        script = self.path("device.py")
        pathlib.Path(script).write_text(DEVICE)
        pathlib.Path(self.path("device.sh")).write_text(f'{sys.executable} {script} "$1"\n')
        cells = ("--backend", "xnnpack", "--filter", "^conv/(odd|3x3)/(f32|u8|i8)$")
        out, _ = self.octet("conformance", *cells, "--device-cmd", f"sh {self.path('device.sh')}")
        self.assertIn("6 cells of xnnpack", out)
        pathlib.Path(self.path("device.sh")).write_text(f'{sys.executable} {script} "$1" wrong\n')
        out, errors = self.octet("conformance", *cells, "--device-cmd",
                                 f"sh {self.path('device.sh')}", code=1)
        self.assertIn("6 of 6 cells are wrong or crash", errors.splitlines()[-1])
        self.assertIn("octet conformance --backend xnnpack --seed 1 --filter '^conv/odd/f32$'", out)
        out, _ = self.octet("conformance", *cells, "--device-cmd", "false", code=1)
        self.assertIn("the device command ended with status", out)

    def test_a_quantizer(self):
        """The checks of the page are those of the command; the report has the ops left float."""
        out, _ = self.octet("conformance", "--quantizer", "x86", "--backend", "onednn", "--quick",
                            "--json", self.path("q.json"), "--junit", self.path("q.xml"),
                            "--html", self.path("q.html"))
        total = re.fullmatch(r"(\d+) cells of quantizer x86 on onednn: .*", out.splitlines()[-1])
        report = json.loads(pathlib.Path(self.path("q.json")).read_text())
        self.assertEqual(len(report["cells"]), int(total[1]))
        self.assertEqual((report["wrong"], report["crashed"]), (0, 0))
        self.assertGreater(report["passed"], 20)
        self.assertTrue(any("softmax" in cell.get("left_float", ()) for cell in report["cells"]))
        self.assertRegex(out, r"\nfloat, though onednn has them in 8 bits: .*softmax \(\d+ cell")
        self.assertEqual(xml.parse(self.path("q.xml")).getroot().get("tests"), total[1])
        self.assertIn("float, though onednn", pathlib.Path(self.path("q.html")).read_text())

    def test_a_wrong_quantizer(self):
        """A JSON file whose weights have their channels on the wrong axis."""
        wrong = json.loads((ROOT / "quantizers/toy_npu.json").read_text())
        wrong["specs"]["weight"]["ch_axis"] = 1
        for key in ("module_name", "opaque", "$schema"):
            del wrong[key]
        path = pathlib.Path(self.path("wrong.json"))
        path.write_text(json.dumps(wrong))
        options = ("conformance", "--quantizer", str(path), "--backend", "xnnpack")
        out, errors = self.octet(*options, "--filter", "^linear/2d_16to8$", code=1)
        self.assertIn("linear/2d_16to8: wrong: ", out)
        self.assertIn("= aten.linear.default(", out)
        self.assertIn(f"octet conformance --quantizer {path} --backend xnnpack --seed 1 "
                      "--filter '^linear/2d_16to8$'", out)
        self.assertIn("1 of 1 cells are wrong or crash", errors.splitlines()[-1])

    def test_two_forms_of_a_quantizer(self):
        base = pathlib.Path(self.path("base.json"))
        base.write_text('{"base": "xnnpack", "global": {"is_per_channel": true}}')
        options = ("conformance", "--quantizer", "xnnpack", "--backend", "xnnpack", "--filter",
                   "^(linear|binary)/")
        self.octet(*options, "--same-as", str(base))
        base.write_text('{"base": "xnnpack", "global": {}}')
        self.assertIn(": wrong: same: got ", self.octet(*options, "--same-as", str(base), code=1)[0])

    def test_the_command_that_repeats_a_cell(self):
        library = os.path.join(BUILD, "plugins", "mirror.so")
        options = ("--backend", "mirror", "--filter", "^conv/odd/(f32|i8)$", "--library", library,
                   "--device-cmd", "sh -c false", "--timeout", "33", "--allow-op", "aten.from_file")
        out, _ = self.octet("conformance", *options, code=1)
        commands = re.findall(r"^  octet (conformance .*)$", out, re.MULTILINE)
        self.assertEqual(commands[0], "conformance --backend mirror --seed 1 --filter "
                         f"'^conv/odd/f32$' --library {library} --allow-op aten.from_file "
                         "--device-cmd 'sh -c false' --timeout 33")
        self.assertEqual(len(commands), 2)
        again, _ = self.octet(*shlex.split(commands[1]), code=1)
        self.assertIn(commands[1], again)
        self.assertIn("1 cells of mirror: 1 wrong", again)
        base = pathlib.Path(self.path("base it.json"))
        base.write_text('{"base": "xnnpack", "global": {}}')
        out, _ = self.octet("conformance", "--quantizer", "xnnpack", "--same-as", str(base),
                            "--filter", "^linear/2d_16to8$", code=1)
        command = re.search(r"^  octet (conformance .*)$", out, re.MULTILINE)[1]
        self.assertTrue(command.endswith(f"--same-as '{base}'"), command)
        self.assertIn(": wrong: same: got ", self.octet(*shlex.split(command), code=1)[0])

    def test_several_backends(self):
        library = ("--library", os.path.join(BUILD, "plugins", "plain.so"))
        cells = ("--filter", "^(add|conv|model)/", "--quick", "--json", self.path("r.json"))

        def refused(backend):
            out, _ = self.octet("conformance", *library, "--backend", backend, *cells)
            self.assertIn(f"cells of {backend}: ", out)
            return json.loads(pathlib.Path(self.path("r.json")).read_text())["refused"]
        both = refused("plain,xnnpack")
        self.assertLess(both, refused("plain"))
        self.assertLessEqual(both, refused("xnnpack"))
        quantizer = ("conformance", "--quantizer", "xnnpack", *library, "--filter",
                     "^(conv|binary|conv_transpose)/")
        out, _ = self.octet(*quantizer, "--backend", "plain,xnnpack")
        self.assertIn("cells of quantizer xnnpack on plain,xnnpack: ", out)
        out, _ = self.octet(*quantizer, "--backend", "plain", code=1)
        self.assertRegex(out, r"wrong: taken: .*the backend refuses ")
        self.assertIn("backend: acme: ", self.fails("conformance", "--backend", "xnnpack,acme"))

    def test_models_of_a_folder(self):
        """Float programs and one with q/dq ops, with fixed and open sizes, and one that is none."""
        self.quantized_model()
        torch.manual_seed(0)
        net, x = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)), torch.randn(3, 8)
        self.export(net, x, name="mlp.pt2", dynamic_shapes=({0: torch.export.Dim("n", max=32)},))
        for backend in ("xnnpack", "onednn"):
            out, _ = self.octet("conformance", "--backend", backend, "--models", self.folder,
                                "--filter", "^file/", "--json", self.path("r.json"))
            cells = json.loads(pathlib.Path(self.path("r.json")).read_text())["cells"]
            self.assertEqual([cell["cell"] for cell in cells],
                             ["file/mlp", "file/model", "file/q"])
            self.assertEqual({cell["outcome"] for cell in cells} - {"exact", "within"}, set(), out)
            self.assertTrue(all("dB to the program in LibTorch" in cell["detail"] for cell in cells
                                if cell["outcome"] == "within"), out)
            self.assertEqual(cells[1]["outcome"], "within")
        os.remove(self.path("q.pt2"))
        quantizer = ("--quantizer", "xnnpack", "--backend", "xnnpack")
        out, _ = self.octet("conformance", *quantizer, "--models", self.folder, "--filter", "^file/")
        self.assertIn("2 cells of quantizer xnnpack on xnnpack: 2 passed", out)
        pathlib.Path(self.path("broken.pt2")).write_bytes(b"PK")
        models = ("--models", self.folder, "--filter", "^file/broken$")
        for options in (("--backend", "xnnpack"), quantizer):
            out, _ = self.octet("conformance", *options, *models, code=1)
            self.assertIn("file/broken: wrong: ", out)
            self.assertIn(f"--filter '^file/broken$' --models {self.folder}", out)
        empty = self.path("empty")
        os.mkdir(empty)
        for folder, message in ((empty, "has no .pt2 files"), (self.path("absent"), "cannot be read: ")):
            self.assertIn(message, self.fails("conformance", "--backend", "xnnpack", "--models", folder))

    def test_models_of_several_families(self):
        """Indices within tables, a cache, an input that is not read, one that is a number, results
        that vanish, and a program that Octet does not lower."""
        torch.manual_seed(0)
        ids = torch.tensor([[5, 0, 3, 6, 1]])
        image = torch.randn(1, 3, 16, 16)
        programs = {
            "cached": (Cached(), torch.randn(1, 8), torch.tensor([3])),
            "decoder": (Decoder(), ids),
            "detector": (Detector(), image),
            "infinite": (Infinite(), torch.randn(2, 3)),
            "recurrent": (nn.LSTM(6, 5, batch_first=True), torch.randn(2, 7, 6)),
            "unread": (Second(), torch.randn(2, 3), image),
            "scaled": (Scaled(), torch.randn(2, 3), 2),
            "vanishes": (Vanishes(), torch.randn(2, 3)),
            "writes": (Writes(), torch.randn(2, 3)),
        }
        for name, (net, *example) in programs.items():
            self.export(net, *example, name=name + ".pt2")
        models = ("--models", self.folder, "--filter", "^file/", "--json", self.path("r.json"))
        for options in (("--backend", "onednn"), ("--backend", "xnnpack"),
                        ("--backend", "xnnpack", "--quantizer", "xnnpack")):
            out, _ = self.octet("conformance", *options, *models)
            cells = json.loads(pathlib.Path(self.path("r.json")).read_text())["cells"]
            outcomes = {cell["cell"][5:]: cell["outcome"] for cell in cells}
            self.assertEqual(set(outcomes), set(programs), out)
            self.assertEqual(outcomes["writes"], "refused")
            self.assertIn("make it functional", cells[-1]["detail"])
            for name in set(programs) - {"writes"}:
                self.assertIn(outcomes[name], ("exact", "within", "passed", "refused"), out)
            for name in ("cached", "decoder", "detector", "recurrent"):
                self.assertNotEqual(outcomes[name], "refused", out)

    def test_one_line_for_a_ci(self):
        script = ROOT / "tools/test.sh"
        library = self.path("absent.so")
        run = subprocess.run(["bash", script, "--backend", "xnnpack", "--library", library],
                             cwd=self.folder, capture_output=True, text=True)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("absent.so", run.stderr)

    def test_bad_options(self):
        for options, message in (
                (("--backend", "acme"), "backend: acme: is not in this build"),
                (("--backend", "xnnpack", "--filter", "("), "not a regular expression"),
                (("--backend", "xnnpack", "--filter", "sparse"), "no cell has such a name"),
                ((), "--backend and --quantizer are missing"),
                (("--quantizer", "acme"), "quantizer: "),
                (("--quantizer", "x86", "--same-as", "acme"), "quantizer: "),
                (("--backend", "xnnpack", "--json", self.path("absent/r.json")), "absent/r.json")):
            self.assertIn(message, self.fails("conformance", *options))
        self.octet("conformance", "--backend", "xnnpack", "--same-as", "x86", code=2)
        self.octet("conformance", "--backend", "xnnpack", "--timeout", "0", code=2)


if __name__ == "__main__":
    unittest.main()
