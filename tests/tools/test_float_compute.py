"""Products of floats in bfloat16: `lower --float-compute`, and what becomes of it on each CPU."""
import json
import os
import subprocess
import unittest

import torch
from torch import nn

import emulation
from support import OCTET, CommandTest, sqnr

CAUSE = "computed in float32, as this CPU has no AVX512-BF16"


def has_bfloat16():
    with open("/proc/cpuinfo") as file:
        return "avx512_bf16" in file.read() and "ONEDNN_MAX_CPU_ISA" not in os.environ


class Net(nn.Module):
    """Convolutions, a residual sum, pools, a cat, and attention's products: what bfloat16 is read and written by, and what wants float32."""

    def __init__(self):
        super().__init__()
        self.stem, self.middle = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
        self.depthwise, self.up = nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.ConvTranspose2d(16, 16, 2, stride=2)
        self.norm, self.inside, self.outside = nn.LayerNorm(32), nn.Linear(32, 32), nn.Linear(32, 10)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        x = torch.relu(self.middle(x) + x)
        x = torch.cat([nn.functional.max_pool2d(x, 2), nn.functional.max_pool2d(self.depthwise(x), 2)], 1)[:, :16]
        x = nn.functional.hardswish(self.up(x)) * 2
        x = self.norm(x.reshape(1, 16, -1, 32)[:, :, :8])
        q = self.inside(x)
        y = nn.functional.gelu(torch.softmax(q @ x.transpose(2, 3), 3) @ x)
        return self.outside(y + q), y


class FloatCompute(CommandTest):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        self.inputs = torch.randn(1, 3, 16, 16),
        self.export(Net(), *self.inputs)
        self.save("x.pt", self.inputs)

    def lower(self, *options, backend="onednn", model="model.pt2"):
        return self.octet("lower", self.path(model), "--backend", backend, "--output", self.path("m.octet"), *options)

    def outputs(self, *before):
        command = [*before, OCTET, "run", self.path("m.octet"), "--inputs", self.path("x.pt"), "--outputs", self.path("y.pt")]
        result = subprocess.run(command, capture_output=True, text=True, timeout=300)
        self.assertEqual(result.returncode, 0, result.stderr)
        return torch.load(self.path("y.pt")), result.stderr

    def calls(self):
        return json.loads(self.octet("bench", self.path("m.octet"), "--explain", "--json", "--seconds", "0.01")[0])["kernels"]

    def limited(self, isa):
        os.environ["ONEDNN_MAX_CPU_ISA"] = isa
        self.addCleanup(os.environ.pop, "ONEDNN_MAX_CPU_ISA", None)

    def test_products_say_so_and_agree_with_float32(self):
        self.lower()
        self.assertNotIn("bfloat16", self.octet("inspect", self.path("m.octet"))[0])
        floats, _ = self.outputs()
        if has_bfloat16():
            self.assertIn("lower it with --float-compute bfloat16", self.octet("doctor", self.path("m.octet"))[0])
        self.lower("--float-compute", "bfloat16")
        self.assertNotIn("lower it with", self.octet("doctor", self.path("m.octet"))[0])
        lines = self.octet("inspect", self.path("m.octet"))[0].splitlines()
        products = [line for line in lines if " = " in line and line.split(" = ")[1].split("(")[0] in ("conv", "conv_transpose", "linear", "matmul")]
        self.assertEqual(len(products), 8, lines)
        self.assertTrue(all("compute=bfloat16" in line for line in products), products)
        self.assertEqual(sum("compute=bfloat16" in line for line in lines), len(products))
        rounded, errors = self.outputs()
        for a, b in zip(floats, rounded):
            self.assertGreater(sqnr(a, b), 40)
        if not has_bfloat16():
            self.assertIn(CAUSE, errors)
            return
        self.assertNotIn("warning", errors)
        kernels = [call for call in self.calls() if call["what"].split(" ")[0] in ("convolution", "linear", "matmul", "transposed")]
        self.assertEqual(len(kernels), 8, kernels)
        self.assertTrue(all("bf16" in call["kernel"] for call in kernels), kernels)
        self.assertGreaterEqual(sum(call["layout"].endswith("-> bf16 nhwc") for call in kernels), 3, kernels)

    def test_older_cpus_compute_the_same_file_in_float32_and_say_so(self):
        self.lower("--float-compute", "bfloat16")
        self.limited("AVX2")
        self.assertIn(CAUSE, self.lower("--float-compute", "bfloat16")[1])
        there, errors = self.outputs()
        self.assertRegex(errors, f"warning: [a-z0-9_]+ and 7 more: {CAUSE}")
        self.assertIn(CAUSE, self.octet("doctor", self.path("m.octet"))[0])
        self.lower()
        floats, errors = self.outputs()
        self.assertNotIn(CAUSE, errors)
        for a, b in zip(floats, there):
            self.assertTrue(torch.equal(a, b))

    @unittest.skipUnless(emulation.AVAILABLE, "wants qemu-x86_64 (Debian's qemu-user)")
    def test_on_a_cpu_with_avx2_alone(self):
        self.lower()
        floats, _ = self.outputs()
        self.lower("--float-compute", "bfloat16")
        there, errors = self.outputs(*emulation.on("Haswell"))
        self.assertIn(CAUSE, errors)
        for a, b in zip(floats, there):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)

    def test_only_onednn_has_it(self):
        for backend in ("xnnpack", "reference"):
            self.assertEqual(self.fails("lower", self.path("model.pt2"), "--backend", backend, "--output", self.path("m.octet"), "--float-compute", "bfloat16"),
                             f"octet: lower: {backend}: computes floats in float32 only, got float_compute bfloat16, want the backend onednn for it; "
                             "leave out --float-compute")
        self.assertIn("float16 not in {", self.octet("lower", self.path("model.pt2"), "--backend", "onednn", "--output", self.path("m.octet"),
                                                     "--float-compute", "float16", code=2)[1])
        self.lower("--float-compute", "bfloat16", backend="xnnpack,onednn")  # for what XNNPACK refuses

    def test_what_stays_float_in_an_int8_program(self):
        self.save("calibration.pt", [self.inputs])
        self.octet("quantize", self.path("model.pt2"), "--quantizer", "x86", "--calibration", self.path("calibration.pt"), "--output", self.path("int8.pt2"))
        self.lower(model="int8.pt2")
        floats, _ = self.outputs()
        self.lower("--float-compute", "bfloat16", model="int8.pt2")
        ops = self.octet("inspect", self.path("m.octet"))[0]
        self.assertTrue(all("compute=bfloat16" not in line for line in ops.splitlines() if " = linear(" in line or " = conv(" in line), ops)
        rounded, _ = self.outputs()
        for a, b in zip(floats, rounded):
            self.assertGreater(sqnr(a, b), 25)


if __name__ == "__main__":
    unittest.main()
