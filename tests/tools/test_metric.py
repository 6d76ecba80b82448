"""--metric of compare and tune: a metric from the library that the page shows."""
import json
import math
import os
import pathlib
import re
import shlex
import subprocess
import unittest

import torch
from torch import nn

from support import CommandTest
from test_mpi import has_mpi, mpirun

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["OCTET_BUILD"])
PAGE = (ROOT / "tools/cli/compare/README.md").read_text()
OTHERS = """
#include <cmath>
#include <stdexcept>
#include "tools/extension.h"
using at::Tensor;
OCTET_EXTENSION() {
  octet::register_metric("angry", [](const Tensor&, const Tensor&) -> double { throw std::runtime_error("wants\\nrain"); });
  octet::register_metric("silent", [](const Tensor&, const Tensor&) { return std::nan(""); });
  octet::register_metric("odd", [](const Tensor&, const Tensor&) -> double { throw 7; });
  octet::register_metric("minus", [](const Tensor& a, const Tensor& b) { return -static_cast<double>(a.sub(b).abs().max().item<float>()); });
  octet::register_metric("ratio", [](const Tensor& a, const Tensor& b) {
    return 10 * std::log10(a.square().sum().item<double>() / a.sub(b).square().sum().item<double>());
  });
}
"""


class Classes(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[layer for _ in range(5) for layer in (nn.Linear(24, 24, bias=False), nn.ReLU())])
        self.head = nn.Linear(24, 40, bias=False)

    def forward(self, x):
        return self.head(self.layers(x))


def compiler():
    """The command that compiles a source of the octet command, without its files."""
    entries = json.loads((BUILD / "compile_commands.json").read_text())
    command = next(shlex.split(entry["command"]) for entry in entries if "octet_command.dir" in entry["command"])
    for option in ("-o", "-c"):
        at = command.index(option)
        del command[at:at + 2]
    return command


class Metrics(CommandTest):
    libraries = {}  # built once

    def library(self, name, text):
        if name not in Metrics.libraries:
            source = os.path.join(os.path.dirname(self.folder), name + ".cpp")
            pathlib.Path(source).write_text(text)
            path = source[:-4] + ".so"
            subprocess.run([*compiler(), "-w", "-O0", "-shared", "-fPIC", f"-I{ROOT}", source, "-o", path], check=True)
            Metrics.libraries[name] = path
        return Metrics.libraries[name]

    def top5(self):
        blocks = re.findall(r"^```cpp\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
        self.assertEqual(len(blocks), 1)
        return self.library("top5", blocks[0])

    def others(self):
        return ["--library", self.library("others", OTHERS)]

    def prepare(self):
        torch.manual_seed(0)
        self.net = Classes().eval()
        with torch.no_grad():
            for at, unit in ((0, 3), (4, 1)):  # values that all channels' steps are made for
                self.net.layers[at].weight[unit] *= 3000
                self.net.layers[at + 2].weight[:, unit] /= 3000
        self.export(self.net, torch.randn(16, 24))
        self.data = [(torch.randn(16, 24),) for _ in range(16)]
        self.save("data.pt", self.data)

    def quantize(self, *more):
        self.octet("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--per-tensor", "--calibration", self.path("data.pt"), "--output", self.path("q.pt2"), *more)

    def measured(self, batches):
        """top5 of q.pt2, as PyTorch computes it."""
        shares = []
        for x, in batches:
            self.save("x.pt", (x,))
            got = self.run_file("q.pt2")[0]
            with torch.no_grad():
                best = self.net(x).argmax(1, keepdim=True)
            shares.append((got.topk(5, 1)[1] == best).any(1).double().mean().item())
        return sum(shares) / len(shares)

    def compare(self, *more):
        out, _ = self.octet("compare", self.path("model.pt2"), self.path("q.pt2"), "--inputs", self.path("data.pt"), "--output", self.path("c.json"), "--output", self.path("c.csv"), *more)
        with open(self.path("c.json")) as file:
            return out, json.load(file)

    def test_compare(self):
        self.prepare()
        self.quantize()
        out, report = self.compare("--metric", self.top5())
        want = self.measured(self.data)
        self.assertLess(want, 1)
        self.assertEqual(report["metric"], "top5")
        self.assertAlmostEqual(float(dict(report["summary"])["top5"]), want, places=5)
        last = [node for node in report["nodes"] if node.get("errors", {}).get("accumulated")][-1]
        self.assertAlmostEqual(last["errors"]["accumulated"]["metric"], want, places=9)
        self.assertRegex(out, r"isolated +top5 +cause")
        with open(self.path("c.csv")) as file:
            self.assertIn(",metric,cause,", file.readline())
        # the same by name, and nothing of it without
        self.assertEqual(self.compare("--library", self.top5(), "--metric", "top5")[1], report)
        out, report = self.compare()
        self.assertNotIn("metric", report)
        self.assertNotIn("top5", out)
        # what says nothing of a tensor leaves its cell empty
        out, report = self.compare(*self.others(), "--metric", "silent")
        self.assertTrue(all(node["errors"]["accumulated"]["metric"] is None for node in report["nodes"] if node.get("rank") and node["errors"].get("accumulated")))

    @unittest.skipUnless(has_mpi(), "built without MPI, or mpirun is not installed")
    def test_processes_share_the_data(self):
        self.prepare()
        self.quantize()
        _, alone = self.compare("--metric", self.top5())
        code, _ = mpirun(3, "compare", self.path("model.pt2"), self.path("q.pt2"), "--inputs", self.path("data.pt"), "--output", self.path("c.json"), "--metric", self.top5())
        self.assertEqual(code, 0)
        with open(self.path("c.json")) as file:
            shared = json.load(file)
        self.assertEqual(shared["summary"], alone["summary"])

    def tune(self, *more, code=0):
        return self.octet("tune", self.path("model.pt2"), "--quantizer", "xnnpack", "--per-tensor", "--calibration", self.path("data.pt"), "--evaluate", self.path("data.pt"),
                          "--output", self.path("t.pt2"), "--save-config", self.path("t.json"), "--report", self.path("r.json"), *more, code=code)[1]

    def test_tune(self):
        self.prepare()
        self.quantize()
        before = self.measured(self.data)
        goal = before + 0.5 * (1 - before)
        said = self.tune("--metric", self.top5(), "--min-metric", f"{goal:.4f}")
        with open(self.path("r.json")) as file:
            report = json.load(file)
        self.assertAlmostEqual(report["trials"][0]["metric"], before, places=9)
        best = next(point for point in report["pareto"] if point["chosen"])
        self.assertGreaterEqual(best["metric"], goal - 1e-4)
        self.assertLess(best["float_share"], 1)
        self.assertRegex(said, r"dB, top5 0\.\d+, ")
        os.replace(self.path("t.pt2"), self.path("q.pt2"))
        self.assertAlmostEqual(self.measured(self.data), best["metric"], places=9)

    def test_a_metric_without_bound(self):
        """The ratio's mean, as a metric, is met as the ratio is."""
        self.prepare()
        self.tune(*self.others(), "--metric", "ratio", "--min-metric", "25")
        with open(self.path("r.json")) as file:
            report = json.load(file)
        best = next(point for point in report["pareto"] if point["chosen"])
        self.assertGreaterEqual(best["metric"], 25)
        self.assertTrue(math.isclose(best["metric"], best["sqnr_db"], abs_tol=3), best)

    def test_bad_input(self):
        self.prepare()
        base = ["tune", self.path("model.pt2"), "--quantizer", "xnnpack", "--calibration", self.path("data.pt"), "--output", self.path("t.pt2"), "--save-config", self.path("t.json")]
        wanted = lambda *more: self.fails(*base, *self.others(), *more)
        self.assertIn("give --metric", self.fails(*base, "--min-metric", "1"))
        self.assertIn("want one of --min-sqnr", wanted("--metric", "minus"))
        self.assertIn("want one of --min-sqnr", wanted("--metric", "minus", "--min-metric", "-1", "--min-sqnr", "20"))
        self.assertEqual(self.fails(*base, "--metric", "none", "--min-metric", "1"), "octet: metric: none: no metric is registered; give the --library that has it")
        self.assertIn("metric: none: unknown, want one of angry, silent, odd, minus, ratio", wanted("--metric", "none", "--min-metric", "1"))
        self.assertIn("metric: angry: for tensors of shape [16, 40], its function says: wants", wanted("--metric", "angry", "--min-metric", "1"))
        self.assertIn("threw something that is not a std::exception", wanted("--metric", "odd", "--min-metric", "1"))
        self.assertIn("tune: silent: gives nan for the float program's outputs beside themselves", wanted("--metric", "silent", "--min-metric", "1"))
        self.assertIn("tune: --min-metric 1: is more than minus gives for the float program beside itself, 0; ask for less", wanted("--metric", "minus", "--min-metric", "1"))
        self.assertIn("registers 5 metrics; give it as --library, and one of angry, silent, odd, minus, ratio", self.fails(*base, "--metric", self.others()[1], "--min-metric", "1"))
        self.assertIn("not found", self.fails(*base, "--metric", self.path("none.so"), "--min-metric", "1"))
        with open(self.path("text.so"), "w") as file:
            file.write("no library")
        self.assertIn("cannot be loaded", self.fails(*base, "--metric", self.path("text.so"), "--min-metric", "1"))
        bare = self.library("bare", '#include "tools/extension.h"\nOCTET_EXTENSION() {}\n')
        self.assertIn("registers no metric; call octet::register_metric in the OCTET_EXTENSION()", self.fails(*base, "--metric", bare, "--min-metric", "1"))
        self.assertFalse(os.path.exists(self.path("t.pt2")))
        self.quantize()
        files = [self.path("model.pt2"), self.path("q.pt2"), "--inputs", self.path("data.pt"), "--output", self.path("c.json")]
        self.assertIn("metric: angry: for tensors of shape", self.fails("compare", *files, *self.others(), "--metric", "angry"))
        self.octet("lower", self.path("q.pt2"), "--backend", "xnnpack", "--output", self.path("q.octet"))
        files[1] = self.path("q.octet")
        self.assertIn("compare: --metric: applies to two .pt2", self.fails("compare", *files, "--metric", self.top5()))
        self.assertFalse(os.path.exists(self.path("c.json")))


if __name__ == "__main__":
    unittest.main()
