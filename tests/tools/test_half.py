"""Programs of bfloat16 and float16, from the export to the backends."""
import json
import unittest

import torch
import torch.ao.quantization.fx._decomposed  # registers the q/dq ops for torch.export.load
import torchao.quantization.pt2e.quantize_pt2e  # noqa: F401 registers those of scales at run time
from torch import nn

from support import CommandTest, sqnr


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16)
        self.scale = nn.LayerNorm(16)
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 10)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls.add_(1)
        x = torch.relu(self.norm(self.conv(x)))
        x = self.scale(x.float().mean((2, 3)).to(x.dtype))
        return self.second(nn.functional.gelu(self.first(x))), self.calls


class Half(CommandTest):
    def export(self, dtype):
        torch.manual_seed(0)
        net, x = Net().eval().to(dtype), torch.randn(1, 3, 32, 32).to(dtype)
        torch.export.save(torch.export.export(net, (x,)), self.path("model.pt2"))
        self.save("data.pt", [(torch.randn(1, 3, 32, 32).to(dtype),) for _ in range(4)])
        self.save("x.pt", (x,))
        with torch.no_grad():
            return net.to(dtype)(x)[0]

    def outputs(self, model):
        self.octet("run", self.path(model), "--inputs", self.path("x.pt"), "--outputs", self.path("y.pt"))
        return torch.load(self.path("y.pt"))

    def test_quantized_and_lowered(self):
        for dtype in (torch.bfloat16, torch.float16):
            want = self.export(dtype)
            for quantizer, mode, backend in (("x86", "static", "onednn"), ("xnnpack", "static", "xnnpack"), ("xnnpack", "dynamic", "onednn")):
                with self.subTest(dtype=dtype, quantizer=quantizer, mode=mode):
                    data = ["--calibration", self.path("data.pt")] if mode == "static" else []
                    _, errors = self.octet("quantize", self.path("model.pt2"), "--quantizer", quantizer, "--mode", mode, *data, "--output", self.path("q.pt2"), "--report", self.path("r.json"))
                    self.assertIn("computes in bfloat16 or float16", errors)
                    with open(self.path("r.json")) as file:
                        self.assertEqual(json.load(file)["quality"]["int8_share"] if mode == "static" else 1, 1)
                    self.octet("lower", self.path("q.pt2"), "--backend", backend, "--output", self.path("m.octet"))
                    with torch.no_grad():
                        interpreted = torch.export.load(self.path("q.pt2")).module()(*torch.load(self.path("x.pt")))
                    for y in (interpreted, self.outputs("q.pt2"), self.outputs("m.octet")):
                        self.assertEqual([part.dtype for part in y], [dtype, dtype])
                        self.assertAlmostEqual(y[1].item(), 1, delta=0.02)
                        self.assertGreater(sqnr(want, y[0]), 25)

    def test_float_programs_are_lowered(self):
        want = self.export(torch.bfloat16)
        _, errors = self.octet("lower", self.path("model.pt2"), "--backend", "onednn", "--output", self.path("m.octet"))
        self.assertNotIn("reference", errors)
        y = self.outputs("m.octet")
        self.assertEqual(y[0].dtype, torch.bfloat16)
        self.assertGreater(sqnr(want, y[0]), 40)

    def test_compared_with_the_half_program(self):
        self.export(torch.bfloat16)
        self.octet("quantize", self.path("model.pt2"), "--quantizer", "x86", "--calibration", self.path("data.pt"), "--output", self.path("q.pt2"))
        self.octet("lower", self.path("q.pt2"), "--backend", "onednn", "--output", self.path("m.octet"))
        self.octet("compare", self.path("model.pt2"), self.path("q.pt2"), self.path("m.octet"), "--inputs", self.path("data.pt"), "--output", self.path("c.json"))
        with open(self.path("c.json")) as file:
            compared = {node["name"]: node for node in json.load(file)["nodes"]}
        for name in ("linear", "linear_1"):
            self.assertGreater(compared[name]["errors"]["isolated"]["sqnr_db"], 20)

    def test_compat_torchao_keeps_them_as_they_are(self):
        self.export(torch.float16)
        _, errors = self.octet("quantize", self.path("model.pt2"), "--quantizer", "x86", "--compat", "torchao", "--calibration", self.path("data.pt"), "--output", self.path("q.pt2"))
        self.assertNotIn("computes in bfloat16 or float16", errors)


if __name__ == "__main__":
    unittest.main()
