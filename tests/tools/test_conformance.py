"""octet conformance: what it prints and writes, and cells on a device."""
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest
import xml.etree.ElementTree as xml

from support import CommandTest

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
