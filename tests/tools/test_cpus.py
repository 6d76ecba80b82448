"""Suites, the command and the runtime on one CPU that is not here (OCTET_CPU, see emulation.py): no instruction that it lacks, and the same results."""
import os
import subprocess
import unittest

import torch

import emulation
from support import OCTET, CommandTest, last_scale, sqnr

BIN = os.path.dirname(OCTET)
CPU = os.environ["OCTET_CPU"]
BACKENDS = {"onednn": "x86", "xnnpack": "xnnpack"}  # and the quantizer
# Not what depends on the CPU, or written for the machine itself.
LEFT_OUT = "~[long]~[.]~[native]~[artifact]~[c]"
# Nehalem: oneDNN has only a slow kernel there for some three-dimensional convolutions, and refuses them. EPYC-Rome: takes the same kernels as Haswell, and
# most of the time.
LEFT_OUT_ON = {"Nehalem": "~oneDNN: integer convolutions*", "EPYC-Rome": "~oneDNN: integer convolutions*"}


@unittest.skipUnless(emulation.AVAILABLE, "wants qemu-x86_64 (Debian's qemu-user)")
class OnCpu(CommandTest):
    def emulated(self, *command, code=0, **environment):
        """Runs the command on the CPU; returns what it printed on stderr."""
        result = subprocess.run([*emulation.on(CPU), *command], capture_output=True, text=True, errors="replace", timeout=900,
                                env={**os.environ, **environment})
        self.assertEqual(result.returncode, code, f"{command}\n{result.stdout[-3000:]}\n{result.stderr[-2000:]}")
        return result.stderr

    def backends(self):
        known = self.octet("lower", "--help")[0]
        return {backend: quantizer for backend, quantizer in BACKENDS.items() if backend in known}

    def emulated_octet(self, *arguments, code=0):
        return self.emulated(OCTET, *arguments, code=code)

    def calibrated(self, call, backend, quantizer):
        call("quantize", self.path("model.pt2"), "--quantizer", quantizer, "--calibration", self.path("calibration.pt"), "--output", self.path(backend + ".pt2"))

    def lowered(self, call, source, backend, name):
        call("lower", self.path(source), "--backend", backend, "--output", self.path(name))

    def output(self, call, name):
        call("run", self.path(name), "--inputs", self.path("x.pt"), "--outputs", self.path("y.pt"))
        return torch.load(self.path("y.pt"), weights_only=True)[0]


class Suites(OnCpu):
    def suite(self, name):
        by_name = LEFT_OUT_ON.get(CPU, "")  # after the tags: a name takes all that follows
        if CPU not in emulation.WITHOUT_GATHER:
            self.emulated(os.path.join(BIN, name), LEFT_OUT + by_name)
            return
        self.emulated(os.path.join(BIN, name), LEFT_OUT + "~[tanh]" + by_name)
        self.emulated(os.path.join(BIN, name), LEFT_OUT + "[tanh]" + by_name, ONEDNN_MAX_CPU_ISA="AVX")

    def test_backends(self):
        self.suite("test_backends")

    def test_lowering(self):
        self.suite("test_lowering")


class Flow(OnCpu):
    def test_files_of_this_machine(self):
        net, x = self.small_model()
        with open(self.path("x.raw"), "wb") as file:
            file.write(x.numpy().tobytes())
        for backend, quantizer in self.backends().items():
            self.calibrated(self.octet, backend, quantizer)
            step = last_scale(self.inspect(backend + ".pt2")["nodes"])
            for source, tolerance in (("model.pt2", 1e-4), (backend + ".pt2", 2.001 * step)):
                with self.subTest(backend=backend, source=source):
                    self.lowered(self.octet, source, backend, "m.octet")
                    here = self.output(self.octet, "m.octet")
                    self.assertLessEqual((self.output(self.emulated_octet, "m.octet") - here).abs().max().item(), tolerance)
                    self.emulated(os.path.join(BIN, "octet_example"), self.path("m.octet"), self.path("x.raw"))

    def test_the_whole_flow(self):
        net, x = self.small_model()
        for backend, quantizer in self.backends().items():
            with self.subTest(backend=backend):
                self.calibrated(self.emulated_octet, backend, quantizer)
                self.lowered(self.emulated_octet, backend + ".pt2", backend, "m.octet")
                with torch.no_grad():
                    self.assertGreater(sqnr(net(x), self.output(self.emulated_octet, "m.octet")), 20)


class TooOld(OnCpu):
    """A CPU that oneDNN does not run on."""

    def test_one_line_of_error(self):
        _, x = self.small_model()
        for backend in self.backends():
            self.lowered(self.octet, "model.pt2", backend, "m.octet")
            with self.subTest(backend=backend):
                if backend == "onednn":
                    errors = self.emulated_octet("run", self.path("m.octet"), "--inputs", self.path("x.pt"), "--outputs", self.path("y.pt"), code=1)
                    self.assertEqual(errors, "octet: backend: onednn: oneDNN does not run on this CPU, got one without SSE4.1, want one with it; lower the program "
                                             "for another backend\n")
                else:
                    self.output(self.emulated_octet, "m.octet")


if __name__ == "__main__":
    unittest.main(argv=[__file__, "-v", *(["TooOld"] if CPU in emulation.TOO_OLD else ["Suites", "Flow"])])
