"""octet.load_library: one library of a user's own serves Python and the command; what can be wrong
with it is one line."""

import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import torch
from package_test import PackageTest
from test_metric import compiler

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "tools/example_backend"
TORCH = os.path.join(os.path.dirname(torch.__file__), "lib")
# The example of a backend: an op, quantizers, an observer, a derive function, a kernel and a
# backend; and a metric besides. In one source, for the compiler's time; two of its files have the
# same names.
PARTS = sorted(
    path.name
    for path in EXAMPLE.glob("acme_*.cpp")
    if path.name not in ("acme_extension.cpp", "acme_plain_quantizer.cpp", "acme_plugin.cpp")
)
ALL = (
    "".join(f'#include "{part}"\n' for part in PARTS)
    + """
#define kAct kPlainAct
#define kWeight kPlainWeight
#include "acme_plain_quantizer.cpp"
#include "tools/extension.h"
OCTET_EXTENSION() {
  acme::register_all();
  octet::register_backend(
      "acme", [] { return std::make_unique<acme::NpuBackend>(); },
      [] { return std::make_unique<acme::NpuSupport>(); });
  octet::register_metric("nearness", [](const at::Tensor& a, const at::Tensor& b) {
    return -at::sub(a, b).abs().max().item<double>();
  });
}
"""
)
# What a script does with it; its arguments are the library, the program, its data and a folder.
USE = """
import json, sys, torch, octet
library, model, data, x, folder = sys.argv[1:]
batches, (x,) = torch.load(data), torch.load(x)
before = [octet.quantizers(), octet.backends()]
try:
    octet.quantize(model, "acme", calibration=batches)
except octet.Error as error:
    refused = str(error)
octet.load_library(library)
octet.load_library(library)  # is there already
q = octet.quantize(model, "acme", calibration=batches)
q.save(folder + "/q.pt2")
after = [octet.quantizers(), octet.backends()]
result = {"refused": refused, "before": before, "after": after, "y": {}}
for backend in ["acme", "onednn", "acme,xnnpack"]:
    lowered = octet.lower(q, backend.split(",") if "," in backend else backend)
    lowered.save(f"{folder}/{backend}.octet")
    result["y"][backend] = octet.load(f"{folder}/{backend}.octet")(x).tolist()
result["op"] = torch.ops.acme.swish(torch.ones(1), 0.0).item()
compared = octet.compare(model, q, batches, metric="nearness")
errors = [node["errors"] for node in compared.nodes if "errors" in node]
result["metric"] = [error["accumulated"].get("metric") for error in errors]
spec = octet.QuantizationSpec("int8", "acme_power_of_two", qscheme="per_tensor_symmetric")
class Linears(octet.Quantizer):
    def annotate(self, graph, annotations, report):
        for node in graph.nodes:
            if node.is_op("aten.linear"):
                annotations.annotate(node, inputs={node.input("input"): spec}, output=spec)
nodes = octet.inspect(octet.quantize(model, Linears(), calibration=batches)).data["nodes"]
result["scales"] = [node["args"]["scale"] for node in nodes if "scale" in node.get("args", {})]
tuned = octet.tune(model, "acme", calibration=batches, metric="nearness", min_metric=-1000.0)
result["tuned"] = tuned.reached
print(json.dumps(result))
"""
ERRORS = """
import sys, octet
for path in sys.argv[1:]:
    try:
        octet.load_library(path)
        print("no error")
    except octet.Error as error:
        assert "\\n" not in str(error) and error.stage == "library", error
        print(error)
"""
# The example's quantizer in its three forms, on a network with all of its patterns and on ResNet18.
FORMS = """
import sys, torch, octet
from torch import nn
library, example, models = sys.argv[1:]
octet.load_library(library)
sys.path[:0] = [example, models]
from acme_quantizer import AcmeQuantizer
from torchvision_apart import torchvision_models

class All(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.again = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.relu, self.pool = nn.ReLU(inplace=True), nn.MaxPool2d(2)
        self.first, self.head = nn.Linear(8 * 7 * 7, 16), nn.Linear(16, 4)
    def forward(self, x):
        x = self.relu(self.stem(x))
        y = torch.ops.acme.swish(self.again(x), 1.5)
        x = torch.relu(x + y) + y
        x = torch.flatten(self.pool(x), 1)
        x = self.first(x)
        return torch.sigmoid(self.head(torch.relu(x) + x)), x + 1

torch.manual_seed(0)
for net, x in ((All(), torch.randn(1, 3, 16, 16)),
               (torchvision_models().resnet18(weights=None), torch.randn(1, 3, 32, 32))):
    net = net.eval().requires_grad_(False)
    results = []
    for quantizer in ("acme", example + "/acme_quantizer.json", AcmeQuantizer()):
        prepared = octet.prepare(torch.export.export(net, (x,)), quantizer)
        annotations = prepared.annotations
        octet.calibrate(prepared, [(x,)])
        graph = octet.inspect(octet.convert(prepared)).data["nodes"]
        results.append((annotations, graph))
    rules = {node["rule"] for node in results[0][0]["nodes"]}
    print(len(rules), *(result == results[0] for result in results[1:]))
"""
# What libraries of others would find: LibTorch's names must not become the process's.
NAMES = """
import ctypes, sys, octet
octet.load_library(sys.argv[1])
process = ctypes.CDLL(None)
for name in sys.argv[2:]:
    print(hasattr(process, name))
"""


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.head = torch.nn.Linear(16, 32), torch.nn.Linear(32, 10)

    def forward(self, x):
        y = self.head(torch.ops.acme.swish(self.first(x), 1.5))
        return y + y.softmax(-1)  # the NPU has no softmax


class Library(PackageTest):
    built = {}

    def library(self, name, text):
        """The path of a shared library, linked to LibTorch and to nothing of Octet, as
        octet::extension has it."""
        if name not in Library.built:
            base = os.path.join(os.path.dirname(self.folder), name)
            source, path = base + ".cpp", base + ".so"
            pathlib.Path(source).write_text(text)
            # Octet's flags bring along LibTorch's headers, which take their time.
            command = compiler() if "#include" in text else [compiler()[0]]
            folders = [f"-I{ROOT}", f"-I{EXAMPLE}", f"-L{TORCH}", f"-Wl,-rpath,{TORCH}"]
            link = ["-shared", "-fPIC", "-Wl,--no-as-needed", "-ltorch_cpu", "-lc10"]
            options = ["-w", "-O0", *folders, source, "-o", path, *link]
            subprocess.run([*command, *options], check=True)
            Library.built[name] = path
        return Library.built[name]

    def exported(self):
        """model.pt2, which calls the library's op, with data; of another process, so that the op is
        not known here."""
        script = """
import sys, torch
sys.path[:0] = sys.argv[3:]
torch.ops.load_library(sys.argv[1])
from test_load_library import Net
torch.manual_seed(0)
net, x = Net().eval(), torch.randn(1, 16)
torch.export.save(torch.export.export(net, (x,)), sys.argv[2] + "/model.pt2")
torch.save([(torch.randn(1, 16),) for _ in range(8)], sys.argv[2] + "/data.pt")
torch.save((x,), sys.argv[2] + "/x.pt")
torch.save(net(x), sys.argv[2] + "/float.pt")
"""
        ops = self.library("ops", (EXAMPLE / "acme_ops.cpp").read_text())
        self.python(script, ops, self.folder, *sys.path)

    def test_the_same_library_in_python_and_the_command(self):
        self.exported()
        library = self.library("all", ALL)
        told = json.loads(
            self.python(
                USE, library, *map(self.path, ["model.pt2", "data.pt", "x.pt"]), self.folder
            )
        )
        self.assertIn("acme", told["refused"])
        self.assertEqual(
            [len(after) - len(before) for before, after in zip(told["before"], told["after"])],
            [2, 1],
        )
        self.assertEqual(told["op"], 0.5)
        self.assertTrue(told["tuned"])
        self.assertTrue(
            told["scales"] and all(math.frexp(scale)[0] == 0.5 for scale in told["scales"]),
            told["scales"],
        )  # powers of two
        self.assertTrue(told["metric"] and all(-10 < value < 0 for value in told["metric"]))
        # The command, given it as --library, writes the same bytes.
        own = ["--library", library]
        self.octet(
            "quantize",
            self.path("model.pt2"),
            *own,
            "--quantizer",
            "acme",
            "--calibration",
            self.path("data.pt"),
            "--output",
            self.path("c.pt2"),
        )
        for backend in ("acme", "onednn", "acme,xnnpack"):
            self.octet(
                "lower",
                self.path("c.pt2"),
                *own,
                "--backend",
                backend,
                "--output",
                self.path("c.octet"),
            )
            self.assertEqual(self.bytes_of("c.octet"), self.bytes_of(backend + ".octet"))
            self.octet(
                "run",
                self.path("c.octet"),
                *own,
                "--inputs",
                self.path("x.pt"),
                "--outputs",
                self.path("y.pt"),
            )
            y = torch.load(self.path("y.pt"))[0]
            self.assertTrue(torch.equal(torch.tensor(told["y"][backend]), y))
            self.assertLess((y - torch.load(self.path("float.pt"))).abs().max().item(), 0.2)
        program = json.loads(self.octet("inspect", self.path("c.octet"), *own, "--json")[0])
        self.assertEqual(program["backend"], "acme,xnnpack")
        self.assertLessEqual({"acme", "xnnpack"}, {op["backend"] for op in program["ops"]})

    def test_the_quantizer_is_the_same_from_cpp_json_and_python(self):
        told = self.python(FORMS, self.library("all", ALL), EXAMPLE, ROOT / "tools/models")
        self.assertEqual(told.splitlines(), ["9 True True", "6 True True"])

    def test_errors_are_one_line(self):
        text = self.path("text.so")
        pathlib.Path(text).write_text("hello, this is not a library at all" * 20)
        ops = (EXAMPLE / "acme_ops.cpp").read_text()
        register = 'extern "C" void octet_register()'
        needy = 'extern "C" void nobody_has_this();' + register + "{ nobody_has_this(); }"
        version = 'extern "C" const char* octet_extension_version()'
        old = version + '{ return "octet 0.0.1"; }' + register + "{}"
        # As if Octet's symbols had changed since: a function that it does not have.
        other = "namespace octet { void gone(int); }" + register + "{ octet::gone(1); }"
        cases = [
            (self.path("absent.so"), "not found; check the path"),
            (self.folder, "is a folder; name the shared library in it"),
            (text, "cannot be loaded: "),
            (
                self.library("needy", needy),
                "cannot be loaded: undefined symbol: nobody_has_this; give a shared library",
            ),
            (
                self.library("other", other),
                "cannot be loaded: undefined symbol: _ZN5octet4goneEi; build it again against this",
            ),
            (self.library("old", old), "is built for another Octet, got octet 0.0.1, want octet "),
            (
                self.library("bare", "int nothing = 1;"),
                "registers nothing, neither an op with TORCH_LIBRARY nor",
            ),
            (self.library("ops", ops), "no error"),
            (
                shutil.copy(self.library("ops", ops), self.path("copy.so")),
                "cannot be loaded: Only a single TORCH_LIBRARY",
            ),
            (self.library("all", ALL), "cannot be loaded: "),  # the op is taken
        ]
        lines = self.python(ERRORS, *(path for path, _ in cases)).splitlines()
        self.assertEqual(len(lines), len(cases), lines)
        for line, (path, message) in zip(lines, cases):
            self.assertTrue(
                line == message or line.startswith(f"library: {path}: {message}"),
                f"{line}\nwant {message}",
            )

    def test_nothing_else_becomes_visible(self):
        own = "_ZN5octet6python12show_symbolsEv"
        others = [
            "xnn_initialize",
            "pthreadpool_create",
            "_ZN6google8protobuf11MessageLiteD2Ev",
            "_ZN3c105ErrorD1Ev",
        ]
        ops = self.library("ops", (EXAMPLE / "acme_ops.cpp").read_text())
        self.assertEqual(
            self.python(NAMES, ops, own, *others).split(), ["True"] + ["False"] * len(others)
        )


if __name__ == "__main__":
    unittest.main()
