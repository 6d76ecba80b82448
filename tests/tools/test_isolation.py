"""LibTorch and what runs an .octet file share no symbols of XNNPACK, cpuinfo, pthreadpool and oneDNN, in either direction: the dynamic linker's own log tells.
As a consequence, the same programs run on a CPU with AVX2 alone, where LibTorch's cpuinfo made XNNPACK take kernels that the CPU lacks."""
import glob
import os
import re
import subprocess
import unittest

import torch

import emulation
from support import OCTET, CommandTest

BIN = os.path.dirname(OCTET)
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TORCH_LIB = os.path.join(os.path.dirname(torch.__file__), "lib")
COMPILER = os.environ.get("OCTET_CXX", "c++")
BINDING = re.compile(r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: \w+ symbol `([^']+)'")
OF_A_LIBRARY = re.compile(r"^(xnn|pthreadpool|cpuinfo)_|dnnl")
OPENMP = re.compile(r"^(omp|GOMP)_")
LIBRARIES = {"onednn": ["libdnnl.so"], "xnnpack": ["libXNNPACK.so", "libcpuinfo.so", "libpthreadpool.so"]}
EXTENSION = """
#include "lowering/program/custom_kernel.h"
extern "C" const char* octet_extension_version() { return "%s"; }
extern "C" void octet_register() { octet::register_custom_kernel("acme.op.default", [](const octet::CustomCall&) {}); }
"""


def is_torch(file):
    return os.path.basename(file).startswith(("libtorch", "libc10"))


class Isolation(CommandTest):
    def programs(self):
        """One for each backend of this build: {backend: file}. In float, as the float kernels of XNNPACK are the ones that AVX-512 has most of."""
        _, x = self.small_model()
        with open(self.path("x.raw"), "wb") as file:
            file.write(x.numpy().tobytes())
        known = self.octet("lower", "--help")[0]
        found = {backend: self.path(backend + ".octet") for backend in LIBRARIES if backend in known}
        for backend, file in found.items():
            self.octet("lower", self.path("model.pt2"), "--backend", backend, "--output", file)
        return found

    def commands(self, program):
        """What runs a program: {name: (command, whether LibTorch is in it)}."""
        raw = [program, self.path("x.raw"), self.path("y.raw")]
        run = [OCTET, "run", program, "--inputs", self.path("x.pt"), "--outputs", self.path("y.pt")]
        return {
            "run": (run, True),
            "run with an extension": (run + ["--library", self.path("libextension.so")], True),
            "bench": ([OCTET, "bench", program, "--threads", "2", "--json"], True),
            "a program with LibTorch and the static runtime": ([os.path.join(BIN, "beside_torch_runtime"), *raw], True),
            "a program with LibTorch and the shared runtime": ([os.path.join(BIN, "beside_torch_runtime_shared"), *raw], True),
            "the runtime alone": ([os.path.join(BIN, "octet_example"), program, self.path("x.raw")], False),
        }

    def extension(self):
        """A library for --library that is itself linked to LibTorch."""
        with open(self.path("bare.cpp"), "w") as file:
            file.write(EXTENSION % "octet 0.0.0")
        compile_ = [COMPILER, "-std=c++20", "-shared", "-fPIC", "-I", ROOT, "-Wl,--no-as-needed", "-L", TORCH_LIB, "-ltorch_cpu", "-lc10",
                    "-Wl,-rpath," + TORCH_LIB]
        subprocess.run([*compile_, self.path("bare.cpp"), "-o", self.path("libbare.so")], check=True)
        wanted = re.search(r"want (.*); build it again", self.fails("inspect", "absent.pt2", "--library", self.path("libbare.so")))[1]
        with open(self.path("extension.cpp"), "w") as file:
            file.write(EXTENSION % wanted)
        subprocess.run([*compile_, self.path("extension.cpp"), "-o", self.path("libextension.so")], check=True)

    def call(self, *command, **environment):
        result = subprocess.run(command, capture_output=True, timeout=900, env={**os.environ, **environment})
        self.assertEqual(result.returncode, 0, result.stderr[-2000:].decode(errors="replace"))
        return result.stdout

    def bindings(self, *command):
        """(from, to, symbol) of each symbol that the dynamic linker bound while the command ran."""
        log = self.path("bindings")
        self.call(*command, LD_DEBUG="bindings", LD_BIND_NOW="1", LD_DEBUG_OUTPUT=log)
        found = []
        for path in glob.glob(log + ".*"):
            with open(path, errors="replace") as file:
                found += [match.groups() for match in map(BINDING.search, file) if match]
            os.remove(path)
        return found

    def test_no_symbol_is_shared(self):
        programs = self.programs()
        self.extension()
        for backend, program in programs.items():
            for name, (command, with_torch) in self.commands(program).items():
                with self.subTest(backend=backend, command=name):
                    bindings = self.bindings(*command)
                    crossing = [b for b in bindings if OF_A_LIBRARY.search(b[2]) and is_torch(b[0]) != is_torch(b[1])]
                    self.assertEqual(crossing, [])
                    # The log has what it is to tell of: the backend's libraries, LibTorch and the extension were there.
                    files = {os.path.basename(file) for binding in bindings for file in binding[:2]}
                    wanted = LIBRARIES[backend] + ["libtorch_cpu.so"] * with_torch + ["libextension.so"] * ("extension" in name)
                    self.assertEqual([file for file in wanted if not any(f.startswith(file) for f in files)], [])
                    # All of them share one pool of OpenMP's.
                    self.assertEqual(len({to for _, to, symbol in bindings if OPENMP.match(symbol)}), 1)

    def output(self, command):
        """The values that the command writes: into y.pt, into y.raw, or to its standard output."""
        printed = self.call(*command)
        for name, read in (("y.pt", lambda path: torch.load(path, weights_only=True)[0].flatten()), ("y.raw", lambda path: torch.from_file(path, size=10))):
            if self.path(name) in command:
                return read(self.path(name)).clone()
        return torch.frombuffer(bytearray(printed), dtype=torch.float32)

    @unittest.skipUnless(emulation.AVAILABLE, "wants qemu-x86_64 (Debian's qemu-user)")
    def test_on_a_cpu_with_avx2_alone(self):
        programs = self.programs()
        self.extension()
        for backend, program in programs.items():
            for name, (command, _) in self.commands(program).items():
                if name == "bench":
                    continue
                with self.subTest(backend=backend, command=name):
                    here, there = self.output(command), self.output([*emulation.on("Haswell"), *command])
                    self.assertLessEqual((there - here).abs().max().item(), 1e-4)


if __name__ == "__main__":
    unittest.main()
