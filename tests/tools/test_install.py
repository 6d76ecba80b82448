"""cmake --install, and the example of a backend outside of the tree: copied, built against the installed package, tested, and loaded by the command."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401 registers the q/dq ops
from torch import nn

from page_runner import PageTest
from support import CommandTest, last_scale, sqnr

BUILD = os.environ["OCTET_BUILD"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = os.path.join(ROOT, "tools")
NAME = "my_npu"
BACKENDS = ("onednn", "xnnpack", "reference")

sys.path.insert(0, os.path.join(TOOLS, "models"))
from torchvision_apart import torchvision_models  # noqa: E402


class Net(nn.Module):
    """A small net whose ops the example's quantizer knows, its custom op twice."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.block = nn.Conv2d(16, 16, 3, padding=1)
        self.head = nn.Linear(16 * 8 * 8, 10)

    def forward(self, x):
        x = self.stem(x)
        x = x + torch.ops.my_npu.swish(self.block(x), 1.5)
        x = torch.ops.my_npu.swish(nn.functional.max_pool2d(x, 2))
        return torch.sigmoid(self.head(torch.flatten(x, 1)))


def flags_of_build():
    """The compiler and the flags that Octet is built with: what links it must have the same sanitizers."""
    names = ("CMAKE_CXX_COMPILER", "CMAKE_CXX_FLAGS", "CMAKE_EXE_LINKER_FLAGS", "CMAKE_SHARED_LINKER_FLAGS")
    flags = {}
    for line in pathlib.Path(BUILD, "CMakeCache.txt").read_text().splitlines():
        name, _, value = line.partition("=")
        if name.partition(":")[0] in names:
            flags[name.partition(":")[0]] = value
    return flags


class Install(PageTest):
    def call(self, *arguments):
        result = subprocess.run(arguments, capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, " ".join(map(str, arguments)) + "\n" + result.stdout[-3000:] + result.stderr[-3000:])
        return result.stdout

    def built_project(self):
        """Installs Octet and moves it, copies the example under another name, builds and uses it as
        the page and its README say. The command is the installed one from then on."""
        self.prefix = self.path("prefix")
        self.call("cmake", "--install", BUILD, "--prefix", self.path("before"))
        os.rename(self.path("before"), self.prefix)
        self.command = os.path.join(self.prefix, "bin", "octet")
        flags = flags_of_build()
        variables = {"CXX": "CMAKE_CXX_COMPILER", "CXXFLAGS": "CMAKE_CXX_FLAGS",
                     "LDFLAGS": "CMAKE_EXE_LINKER_FLAGS"}
        self.settings = {name: flags.get(flag, "") for name, flag in variables.items()}
        self.settings["CMAKE_BUILD_PARALLEL_LEVEL"] = "2"
        # Python is built without sanitizers, so it cannot load a library that has them.
        is_plain = "-fsanitize" not in " ".join(flags.values())
        if is_plain:
            with self.subTest("the page"):
                self.run_page("tools/site/docs/tutorials/backend.md", "test_install.py")
        else:
            self.call(self.command, "new-backend", NAME, self.path(NAME))
        self.own_tests = self.build_and_test()
        self.ops = self.python_ops = self.path(f"{NAME}/build/lib{NAME}_ops.so")
        self.library = self.path(f"{NAME}/build/lib{NAME}_quantizer.so")
        self.plugin = self.path(f"{NAME}/build/lib{NAME}.so")
        self.libraries = ("--library", self.library, "--library", self.plugin)
        if not is_plain:
            self.build(self.prefix, "plain", target=f"{NAME}_ops")
            self.python_ops = self.path(f"plain/lib{NAME}_ops.so")

    def build_and_test(self):
        """Runs the commands of the copied README in its folder, unchanged except for PREFIX; returns
        what they print."""
        readme = pathlib.Path(self.path(f"{NAME}/README.md")).read_text()
        text = re.search(r"^```sh\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)[1]
        path = os.pathsep.join([os.path.dirname(self.command), os.environ["PATH"]])
        text = text.replace("PREFIX_PATH=PREFIX", f"PREFIX_PATH={self.prefix}")
        result = subprocess.run(["sh", "-e", "-c", text], cwd=self.path(NAME),
                                env={**os.environ, **self.settings, "PATH": path},
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, text + result.stdout[-3000:] + result.stderr[-3000:])
        return result.stdout

    def build(self, prefix, folder, *options, target="all"):
        self.call("cmake", "-S", self.path(NAME), "-B", self.path(folder), f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release", *options)
        self.call("cmake", "--build", self.path(folder), "-j", "2", "--target", target)

    def octet(self, *arguments, code=0):
        result = subprocess.run([self.command, *arguments], capture_output=True, text=True, timeout=900)
        self.assertEqual(result.returncode, code, f"octet {' '.join(arguments)}\n{result.stdout[-2000:]}\n{result.stderr[-2000:]}")
        return result.stdout, result.stderr

    def exported_model(self):
        torch.ops.load_library(self.python_ops)
        torch.manual_seed(0)
        net, x = Net().eval(), torch.randn(1, 3, 32, 32)
        self.export(net, x)
        self.save("calibration.pt", [(torch.randn(1, 3, 32, 32),) for _ in range(4)])
        self.save("x.pt", (x,))
        return net, x

    def quantize(self, *options, quantizer=NAME, data="calibration.pt", library=None):
        self.octet("quantize", self.path("model.pt2"), "--library", library or self.library, "--quantizer", quantizer, "--calibration", self.path(data),
                   "--output", self.path("q.pt2"), *options)

    def result(self, name):
        self.octet("run", self.path(name), *self.libraries, "--inputs", self.path("x.pt"), "--outputs", self.path("y.pt"))
        return torch.load(self.path("y.pt"), weights_only=True)[0]

    def test_a_backend_outside_of_the_tree(self):
        self.built_project()
        with self.subTest("nothing names the clone"):
            self.check_prefix(pathlib.Path(self.prefix))
        with self.subTest("the README's program"):
            self.check_deploy_page()
        with self.subTest("its own tests pass"):
            self.assertIn("100% tests passed, 0 tests failed out of 3", self.own_tests)
            for test in (NAME, f"{NAME}_conforms", f"{NAME}_quantizer_conforms"):
                self.assertRegex(self.own_tests, rf"Test +#\d: {test} \.+ +Passed")
            self.assertIn('failures="0" errors="0"', pathlib.Path(self.path(f"{NAME}/build/{NAME}.xml")).read_text())
        with self.subTest("a helper of CMake"):
            self.check_conformance_helper()
        net, x = self.exported_model()
        self.check_quantized(net, x)
        self.check_backends()
        self.check_runner()
        self.check_json()
        self.check_state()
        self.check_other_quantizer(net, x)
        self.check_messages()
        self.check_resnet18()

    def check_conformance_helper(self):
        """octet_add_conformance_test without a project's code, with mistakes, and a test that fails."""
        folder = pathlib.Path(self.path("proof"))
        folder.mkdir()

        def configured(call, prefix=self.prefix):
            (folder / "CMakeLists.txt").write_text(
                "cmake_minimum_required(VERSION 3.25)\nproject(proof C)\nenable_testing()\nset(CMAKE_DISABLE_FIND_PACKAGE_Torch ON)\n"
                f"find_package(octet REQUIRED COMPONENTS plugin)\noctet_add_conformance_test({call})\n")
            return subprocess.run(["cmake", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={prefix}"], capture_output=True, text=True)

        def tested(*options):
            return subprocess.run(["ctest", "--test-dir", folder / "build", *options], capture_output=True, text=True)
        (folder / "q.json").write_text('{"base": "xnnpack", "global": {}}')
        self.assertEqual(configured("NAME fits QUANTIZER q.json BACKEND xnnpack FILTER ^linear/ JUNIT q.xml").returncode, 0)
        self.assertEqual(tested().returncode, 0)
        self.assertIn("linear/2d", (folder / "build/q.xml").read_text())
        self.assertEqual(configured("NAME differs QUANTIZER q.json SAME_AS xnnpack FILTER ^linear/").returncode, 0)
        run = tested("--output-on-failure")
        self.assertNotEqual(run.returncode, 0)
        self.assertIn(": wrong: same: got ", run.stdout)
        for call, message in (("NAME fits", "give NAME, and BACKEND, QUANTIZER or both"), ("BACKEND xnnpack", "give NAME, and BACKEND"),
                              ("NAME fits BACKEND xnnpack QUIK", "unknown argument QUIK")):
            self.assertIn(message, " ".join(configured(call).stderr.split()))

    def check_prefix(self, prefix):
        """No file of ours names the folder that Octet was built in, nor the one that it was installed in."""
        places = [str(place).encode() for place in (ROOT, self.path("before"))]
        for path in prefix.rglob("*"):
            if path.is_file() and "torch" not in path.relative_to(prefix).parts:
                content = path.read_bytes()
                self.assertFalse([place for place in places if place in content], path)
        self.call(sys.executable, "-B", ROOT / "tests/public_headers.py", ROOT, "--installed", prefix / "include/octet")
        # What the command loads is the prefix's and the system's.
        loaded = re.findall(r"=> (\S+)", self.call("ldd", prefix / "bin/octet"))
        self.assertFalse([path for path in loaded if path.startswith(str(ROOT)) and not path.startswith(str(prefix))], loaded)

    def check_deploy_page(self):
        """The program in C++ of tools/site/docs/start/deploy.md with its CMakeLists.txt gives what the command gives."""
        folder = pathlib.Path(self.path("deploy"))
        folder.mkdir()
        blocks = dict(re.findall(r"^```(cpp|cmake)\n(.*?)^```$", (ROOT / "tools/site/docs/start/deploy.md").read_text(), re.MULTILINE | re.DOTALL))
        (folder / "app.cpp").write_text(blocks["cpp"])
        (folder / "CMakeLists.txt").write_text(blocks["cmake"])
        self.call("cmake", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={self.path('prefix')}", "-DCMAKE_BUILD_TYPE=Release",
                  *(f"-D{name}={value}" for name, value in flags_of_build().items()))
        self.call("cmake", "--build", folder / "build")
        self.small_model()
        shutil.copy(self.path("calibration.pt"), self.path("data.pt"))
        result = subprocess.run([folder / "build/app"], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stdout), (0, "f32[1, 10]\n"), result.stderr)
        self.octet("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--calibration", self.path("data.pt"), "--output", self.path("q.pt2"))
        self.octet("lower", self.path("q.pt2"), "--backend", "onednn", "--output", self.path("q.octet"))
        self.assertEqual(pathlib.Path(self.path("q.octet")).read_bytes(), pathlib.Path(self.path("model.octet")).read_bytes())

    def check_quantized(self, net, x):
        self.quantize("--strict", "--dump-annotations", self.path("a.json"))
        with torch.no_grad():
            self.assertGreater(sqnr(net(x), self.result("q.pt2")), 20)
        text = pathlib.Path(self.path("a.json")).read_text()
        for part in ("my_npu_power_of_two", "min_max", "my_npu_accumulator", '"fixed"', '"shared"'):
            self.assertIn(part, text)
        # PyTorch reads the program too, the custom ops whole in it.
        program = torch.export.load(self.path("q.pt2"))
        self.assertEqual([node.target for node in program.graph.nodes].count(torch.ops.my_npu.swish.default), 2)
        torch.testing.assert_close(program.module()(x), self.result("q.pt2"), rtol=0, atol=1e-6)

    def check_backends(self):
        expected = self.result("q.pt2")
        step = last_scale(json.loads(self.octet("inspect", self.path("q.pt2"), "--json", "--library", self.library)[0])["nodes"])
        for backend in (*BACKENDS, NAME):
            with self.subTest(backend=backend):
                self.octet("lower", self.path("q.pt2"), *self.libraries, "--backend", backend, "--output", self.path(backend + ".octet"))
                self.assertLessEqual((self.result(backend + ".octet") - expected).abs().max().item(), 2.001 * step)
                ops = json.loads(self.octet("inspect", self.path(backend + ".octet"), "--json")[0])["ops"]
                self.assertEqual({op["backend"] for op in ops if op["macs"] > 0}, {backend})
                self.assertEqual([op["backend"] for op in ops if op["kind"] == "custom"], [NAME if backend == NAME else "reference"] * 2)
                bench = json.loads(self.octet("bench", self.path(backend + ".octet"), "--json", *self.libraries)[0])
                self.assertGreater(bench["runs"], 0)
        told = json.loads(self.octet("doctor", "--json", "--library", self.plugin)[0])
        own = next(backend for backend in told["backends"] if backend["name"] == NAME)
        self.assertEqual(own["kernels"], "those of the library that registers it")

    def check_runner(self):
        runner = self.path(f"{NAME}/build/run_{NAME}")
        y = subprocess.run([runner, self.plugin, self.path(NAME + ".octet")], capture_output=True, check=True)
        self.assertEqual(len(y.stdout), 40)
        self.assertRegex(y.stderr.decode(), r"^input x: 12288 bytes\noutput \w+: 40 bytes\n$")
        line = subprocess.run([runner, self.path("missing.so"), self.path(NAME + ".octet")], capture_output=True, text=True).stderr
        self.assertRegex(line, r"^example: library: \S+missing\.so: not found")
        for file in (runner, self.plugin):
            self.assertNotIn("libtorch", self.call("ldd", file))

    def reasons(self):
        """Why each op of r.json stays float."""
        with open(self.path("r.json")) as file:
            return {entry["node"]: entry["reason"] for entry in json.load(file)["float_ops"]}

    def check_json(self):
        with self.subTest("a base with settings"):
            self.quantize("--report", self.path("r.json"), quantizer=self.write_json("base.json", {"base": NAME, "module_name": {"head": None}}))
            self.assertEqual(list(self.reasons().values()), ['excluded by module_name "head"'])
        with self.subTest("a table that names observer, derive function and op"):
            activation = {"dtype": "int8", "quant_min": -127, "quant_max": 127, "qscheme": "per_tensor_symmetric", "observer": "my_npu_power_of_two"}
            weight = {"dtype": "int8", "quant_min": -127, "quant_max": 127, "qscheme": "per_tensor_symmetric", "observer": "min_max"}
            bias = {"derived_from": ["x", "w"], "derive": "my_npu_accumulator", "dtype": "int32", "qscheme": "per_tensor_symmetric"}
            table = {"name": "table", "specs": {"act": activation, "weight": weight, "bias": bias},
                     "patterns": [{"name": "linear", "pattern": "linear(x, w, b)", "inputs": {"x": "act", "w": "weight", "b": "bias"}, "output": "act"},
                                  {"name": "swish", "pattern": "my_npu.swish.default(x)", "inputs": {"x": "act"}, "output": "act"}]}
            self.quantize("--dump-annotations", self.path("t.json"), quantizer=self.write_json("table.json", table))
            text = pathlib.Path(self.path("t.json")).read_text()
            self.assertIn("my_npu_accumulator", text)
            self.assertIn("my_npu.swish.default", text)

    def check_state(self):
        with self.subTest("calibration in two parts"):
            data = torch.load(self.path("calibration.pt"), weights_only=True)
            model = [self.path("model.pt2"), "--library", self.library, "--quantizer", NAME]
            for i, part in enumerate((data[:2], data[2:])):
                self.octet("calibrate", *model, "--calibration", self.save(f"part{i}.pt", part), "--state", self.path(f"s{i}.json"))
            self.octet("quantize", *model, "--state", f"{self.path('s0.json')},{self.path('s1.json')}", "--output", self.path("merged.pt2"))
            self.quantize()
            self.assertTrue(torch.equal(self.result("merged.pt2"), self.result("q.pt2")))

    def check_other_quantizer(self, net, x):
        with self.subTest("the library of ops alone, a quantizer of Octet, batch norms folded first"):
            self.octet("fuse", self.path("model.pt2"), "--library", self.ops, "--output", self.path("fused.pt2"))
            self.octet("quantize", self.path("fused.pt2"), "--library", self.ops, "--quantizer", "xnnpack", "--calibration", self.path("calibration.pt"),
                       "--output", self.path("q.pt2"))
            with torch.no_grad():
                self.assertGreater(sqnr(net(x), self.result("q.pt2")), 20)

    def check_resnet18(self):
        """The quantizer without a table, on torchvision's network, with a setting."""
        torch.manual_seed(0)
        net, x = torchvision_models().resnet18(weights=None).eval(), torch.randn(1, 3, 64, 64)
        with torch.no_grad():
            net.train()
            for _ in range(3):  # batch norms get statistics
                net(torch.randn(8, 3, 64, 64))
            net.eval()
            expected = net(x)
        self.export(net, x)
        self.save("images.pt", [(torch.randn(1, 3, 64, 64),) for _ in range(4)])
        self.save("x.pt", (x,))
        plain = NAME + "_plain"
        self.quantize("--strict", quantizer=plain, data="images.pt")
        self.assertGreater(sqnr(expected, self.result("q.pt2")), 15)
        self.octet("lower", self.path("q.pt2"), *self.libraries, "--backend", NAME + ",xnnpack", "--output", self.path("resnet18.octet"))
        ops = json.loads(self.octet("inspect", self.path("resnet18.octet"), "--json")[0])["ops"]
        self.assertEqual([op["backend"] for op in ops if op["macs"] > 0], [NAME] * 21)
        self.assertIn("xnnpack", {op["backend"] for op in ops})
        line = self.fails("bench", self.path("resnet18.octet"))
        self.assertRegex(line, rf"session: {NAME}: the program needs this plug-in, version 2\.0\.0 \(xxh64 \w{{16}}\), which is not loaded; load its library \(--library")
        run = subprocess.run([self.path(f"{NAME}/build/run_{NAME}"), self.plugin, self.path("resnet18.octet")], capture_output=True, check=True)
        self.assertEqual(len(run.stdout), 4000)
        self.assertGreater(sqnr(self.result("q.pt2"), self.result("resnet18.octet")), 20)  # a step off here and there
        config = self.write_json("fc.json", {"module_name": {"fc": None}})
        self.quantize("--config", config, "--report", self.path("r.json"), quantizer=plain, data="images.pt")
        self.assertIn("fc", " ".join(self.reasons().values()))

    def check_messages(self):
        line = self.fails("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--calibration", self.path("calibration.pt"), "--output",
                          self.path("none.pt2"))
        self.assertIn("my_npu.swish", line)
        self.assertIn("--library", line)
        line = self.fails("lower", self.path("q.pt2"), "--library", self.ops, "--backend", "onednn", "--output", self.path("none.octet"))
        self.assertRegex(line, r"my_npu\.swish\.default\).*load a library that registers kernels for custom ops \(--library\)$")
        line = self.fails("run", self.path("onednn.octet"), "--inputs", self.path("x.pt"), "--outputs", self.path("none.pt"))
        self.assertRegex(line, r"the custom op my_npu\.swish\.default has no kernel in this process, .* \(--library\)$")
        line = self.fails("lower", self.path("q.pt2"), "--library", self.ops, "--backend", NAME, "--output", self.path("none.octet"))
        self.assertRegex(line, rf"backend: {NAME}: is not in this build, want one of onednn, xnnpack, reference, torch; .*\(--library, octet::register_backend\)$")
        # Registers the ops again, from another file.
        shutil.copy(self.ops, self.path("copy.so"))
        line = self.fails("inspect", self.path("q.pt2"), "--library", self.ops, "--library", self.path("copy.so"))
        self.assertRegex(line, r"copy\.so: cannot be loaded: .*single TORCH_LIBRARY.*namespace my_npu")


class NewBackend(CommandTest):
    """octet new-backend."""

    def test_names_and_folders_are_checked(self):
        for name in ("", "MyNpu", "2nd", "a-b"):
            self.assertRegex(self.fails("new-backend", name, self.path("project")),
                             rf'^octet: new-backend: "{name}": not a valid name, want .*my_npu$')
        self.octet("new-backend", "my_npu", code=2)
        self.assertEqual(self.fails("new-backend", "my_npu", self.folder),
                         f"octet: new-backend: {self.folder}: exists already; name a new folder")

    def test_every_name_is_replaced(self):
        self.octet("new-backend", "my_npu", self.path("project"))
        names = os.listdir(self.path("project"))
        self.assertEqual(len(names), len(os.listdir(os.path.join(TOOLS, "example_backend"))))
        self.assertIn("my_npu_quantizer.cpp", names)
        for name in names:
            self.assertNotIn("acme", (name + pathlib.Path(self.path("project"), name).read_text()).lower())


if __name__ == "__main__":
    unittest.main()
