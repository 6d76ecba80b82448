"""Integer weights and scales per token, from the float model to the lowered program: Octet's own modes, and what torchao's quantize_ exports."""
import os
import unittest

import torch
import torchao.quantization as ao  # also registers the ops of its namespace for torch.export.load
from support import CommandTest, sqnr
from torch import nn
from torchao.quantization.granularity import PerAxis, PerGroup
from torchao.utils import unwrap_tensor_subclass

BACKENDS = ("reference", "onednn", "xnnpack")


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(100, 64)
        self.up = nn.Linear(64, 256)
        self.down = nn.Linear(256, 64)

    def forward(self, tokens):
        x = self.table(tokens)
        return x + self.down(torch.relu(self.up(x)))


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 32, 3, padding=1)
        self.second = nn.Conv2d(32, 32, 3, groups=4)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


class IntegerWeights(CommandTest):
    def check(self, quantized, x, tolerance):
        """torch.export.load runs the file, and so do the interpreter and the lowered program of every backend."""
        self.save("x.pt", (x,))
        with torch.no_grad():
            want = torch.export.load(self.path(quantized)).module()(x)
        torch.testing.assert_close(self.run_file(quantized)[0], want, rtol=0, atol=tolerance)
        sizes = {}
        for backend in BACKENDS:
            name = f"{backend}.octet"
            text = self.octet("lower", self.path(quantized), "--backend", backend, "--output", self.path(name), "--explain")[0]
            self.assertIn("segment", text)
            torch.testing.assert_close(self.run_file(name)[0], want, rtol=0, atol=tolerance, msg=lambda m: f"{backend}: {m}\n{text}")
            sizes[backend] = (os.path.getsize(self.path(name)), text)
        return want, sizes

    def quantize(self, *arguments):
        self.octet("quantize", self.path("model.pt2"), "--output", self.path("q.pt2"), *arguments)

    def tokens(self):
        torch.manual_seed(0)
        net = Tokens().requires_grad_(False).eval()
        tokens = torch.randint(0, 100, (2, 5))
        self.export(net, tokens)
        return net, tokens

    def test_weight_only_int8(self):
        net, tokens = self.tokens()
        self.quantize("--quantizer", "xnnpack", "--mode", "weight-only")
        result, sizes = self.check("q.pt2", tokens, 1e-5)
        self.assertGreater(sqnr(net(tokens), result), 40)
        floats = 4 * sum(p.numel() for p in net.parameters())
        for size, text in sizes.values():
            self.assertLess(size, 0.5 * floats, text)

    def test_weight_only_int4(self):
        net, tokens = self.tokens()
        self.quantize("--quantizer", "xnnpack", "--mode", "weight-only", "--weight-bits", "4")
        result, sizes = self.check("q.pt2", tokens, 1e-5)
        self.assertGreater(sqnr(net(tokens), result), 15)
        for _, text in sizes.values():
            self.assertIn("stored as 4-bit", text)

    def test_weight_only_convolutions(self):
        torch.manual_seed(0)
        net = Conv().requires_grad_(False).eval()
        x = torch.randn(1, 3, 12, 12)
        self.export(net, x)
        self.quantize("--quantizer", "xnnpack", "--mode", "weight-only")
        result, sizes = self.check("q.pt2", x, 1e-5)
        self.assertGreater(sqnr(net(x), result), 35)
        self.assertIn("stored as i8 in 32x1x1x1 blocks", sizes["reference"][1])

    def test_dynamic_per_token(self):
        net, tokens = self.tokens()
        for options in ((), ("--weight-bits", "4"), ("--compat", "torchao")):
            with self.subTest(options):
                self.quantize("--quantizer", "xnnpack", "--mode", "dynamic", *options)
                result, sizes = self.check("q.pt2", tokens, 1e-5)
                self.assertGreater(sqnr(net(tokens), result), 15)
                # On XNNPACK the quantize op stays where its linears multiply integers, which is not so for groups of weights.
                for backend in ("onednn",) if "4" in options else ("onednn", "xnnpack"):
                    self.assertRegex(sizes[backend][1], backend + r" +fake_quantize_dynamic")
                    self.assertRegex(sizes[backend][1], backend + r" +linear .*stored as " + ("4-bit" if "4" in options else "i8"))

    def test_what_torchao_exports(self):
        torch.manual_seed(0)
        configs = {
            "8da4w": ao.Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(32)),
            "8da8w": ao.Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int8, weight_granularity=PerAxis(0)),
            "4w": ao.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(64)),
        }
        for name, config in configs.items():
            with self.subTest(name):
                net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).requires_grad_(False).eval()
                ao.quantize_(net, config)
                unwrap_tensor_subclass(net)  # a file holds plain tensors only
                x = torch.randn(3, 64)
                self.export(net, x, name="q.pt2")
                want, sizes = self.check("q.pt2", x, 1e-5)
                torch.testing.assert_close(want, net(x), rtol=0, atol=1e-5)
                self.assertLess(sizes["onednn"][0], 22000)
                self.export(net, x, name="symbolic.pt2", dynamic_shapes=({0: torch.export.Dim("batch", min=2)},))
                longer = torch.randn(7, 64)
                self.save("longer.pt", (longer,))
                torch.testing.assert_close(self.run_file("symbolic.pt2", "longer.pt")[0], net(longer), rtol=0, atol=1e-5)


if __name__ == "__main__":
    unittest.main()
