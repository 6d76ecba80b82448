"""The modules and LibTorch have separate symbols of XNNPACK, cpuinfo, pthreadpool and oneDNN: the dynamic linker's own log tells."""

import glob
import os
import re
import subprocess
import sys
import unittest

from package_test import PackageTest

BINDING = re.compile(r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: \w+ symbol `([^']+)'")
OF_A_LIBRARY = re.compile(r"^(xnn|pthreadpool|cpuinfo)_|dnnl")
OPENMP = re.compile(r"^(omp|GOMP)_")
LIBRARIES = {"onednn": ["libdnnl.so"], "xnnpack": ["libXNNPACK.so", "libcpuinfo.so", "libpthreadpool.so"]}
# torch's own kernels of these libraries run in the same process, before and after.
SCRIPTS = {
    "octet": """
import sys, torch, octet
x = torch.randn(1, 3, 32, 32)
conv = torch.nn.Conv2d(3, 4, 3)
conv(x), octet.load(sys.argv[1], threads=2)(x), conv(x)
""",
    "octet_runtime before torch": """
import sys, numpy, octet_runtime
model = octet_runtime.load(sys.argv[1], threads=2)
model(numpy.zeros((1, 3, 32, 32), numpy.float32))
import torch
x = torch.randn(1, 3, 32, 32)
torch.nn.Conv2d(3, 4, 3)(x), model(x)
""",
    "both": """
import sys, torch, octet_runtime, octet
x = torch.randn(1, 3, 32, 32)
a, b = octet_runtime.load(sys.argv[1], threads=2), octet.load(sys.argv[1], threads=2)
assert torch.equal(a(x), b(x))
""",
}


def is_torch(file):
    return os.path.basename(file).startswith(("libtorch", "libc10"))


class Isolation(PackageTest):
    def bindings(self, script, *arguments):
        log = self.path("bindings")
        environment = {**os.environ, "LD_DEBUG": "bindings", "LD_BIND_NOW": "1", "LD_DEBUG_OUTPUT": log}
        result = subprocess.run(
            [sys.executable, "-B", "-c", script, *arguments], capture_output=True, timeout=900, env=environment
        )
        self.assertEqual(result.returncode, 0, result.stderr[-2000:].decode(errors="replace"))
        found = []
        for path in glob.glob(log + ".*"):
            with open(path, errors="replace") as file:
                found += [match.groups() for match in map(BINDING.search, file) if match]
            os.remove(path)
        return found

    def test_no_symbol_is_shared(self):
        self.lowered_files(*LIBRARIES)
        for backend, libraries in LIBRARIES.items():
            for name, script in SCRIPTS.items():
                with self.subTest(backend=backend, script=name):
                    bindings = self.bindings(script, self.path(backend + ".octet"))
                    crossing = [b for b in bindings if OF_A_LIBRARY.search(b[2]) and is_torch(b[0]) != is_torch(b[1])]
                    self.assertEqual(crossing, [])
                    files = {os.path.basename(file) for binding in bindings for file in binding[:2]}
                    wanted = [*libraries, "libtorch_cpu.so"]
                    self.assertEqual([file for file in wanted if not any(f.startswith(file) for f in files)], [])
                    self.assertEqual(len({to for _, to, symbol in bindings if OPENMP.match(symbol)}), 1)

    def test_the_modules_show_nothing_but_their_start(self):
        for package, module in [("octet", "_octet"), ("octet_runtime", "_runtime")]:
            [file] = glob.glob(os.path.join(os.environ["OCTET_BUILD"], "python", package, module + ".*.so"))
            shown = subprocess.run(["nm", "-D", "--defined-only", file], capture_output=True, text=True, check=True).stdout
            names = [line.split()[-1] for line in shown.splitlines()]
            self.assertEqual(names, ["PyInit_" + module])

    def test_the_library_shows_its_namespace_alone(self):
        """So that nobody takes its JSON or its copies of LibTorch's inline functions for their own."""
        file = os.path.join(os.environ["OCTET_BUILD"], "python/octet/lib/liboctet.so")
        shown = subprocess.run(["nm", "-D", "--defined-only", file], capture_output=True, text=True, check=True).stdout
        names = [line.split()[-1] for line in shown.splitlines()]
        self.assertGreater(len(names), 1000)
        self.assertEqual([name for name in names if "5octet" not in name], [])
        # What it needs becomes visible with it (octet.load_library).
        needed = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True).stdout
        self.assertEqual(re.findall(r"NEEDED.*\[(lib(?:torch|c10|protobuf)[^]]*)\]", needed), [])


if __name__ == "__main__":
    unittest.main()
