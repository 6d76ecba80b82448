"""The backend that quantizers/tensorrt.json declares, on a small network of the ops that it names: quantized by the command, lowered and run."""
import json
import os
import unittest

import torch
from torch import nn

from support import CommandTest, sqnr

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "quantizers", "tensorrt.json")


class Net(nn.Module):
    """A residual step, two branches put together, attention without a softmax, a head."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        self.step = nn.Conv2d(8, 8, 3, padding=1)
        self.branch = nn.Conv2d(8, 4, 1)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(12, 5)

    def forward(self, x):
        x = self.stem(x)
        x = torch.relu(self.step(x) + x)
        x = self.pool(torch.cat([x, self.branch(x)], 1)).flatten(2).transpose(1, 2)
        return self.head(torch.matmul(torch.matmul(x, x.transpose(1, 2)), x) * 0.01)


class TensorRT(CommandTest):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        net = Net().requires_grad_(False)
        for _ in range(2):  # batch norms that have seen data
            net(torch.randn(8, 3, 32, 32))
        net.eval()
        x = torch.randn(1, 3, 32, 32)
        self.export(net, x)
        self.floats = net(x)
        self.save("x.pt", (x,))
        self.save("calibration.pt", [(torch.randn(1, 3, 32, 32),) for _ in range(8)] + [(x,)])
        self.octet("quantize", self.path("model.pt2"), "--quantizer", FILE, "--calibration", self.path("calibration.pt"), "--output", self.path("q.pt2"),
                   "--dump-annotations", self.path("annotations.json"))

    def test_rows_specs_and_results(self):
        with open(self.path("annotations.json")) as file:
            nodes = json.load(file)["nodes"]
        self.assertLessEqual({"conv_relu", "conv", "add_relu", "matmul", "cat", "linear"}, {node["rule"] for node in nodes})
        quantized = [node for node in self.inspect("q.pt2")["nodes"] if "quantized_decomposed" in node["target"]]
        tensors = [node for node in quantized if "per_tensor" in node["target"]]
        self.assertTrue(tensors)
        for node in tensors:  # TensorRT's zero points are zero
            self.assertEqual((node["args"]["zero_point"], node["args"]["dtype"]), (0, "torch.int8"), node)
        weights = [node for node in quantized if "dequantize_per_channel" in node["target"]]
        self.assertEqual([(node["args"]["axis"], node["args"]["quant_min"], node["args"]["quant_max"]) for node in weights], [(0, -127, 127)] * 4)

        interpreted = self.run_file("q.pt2")[0]
        self.assertGreater(sqnr(self.floats, interpreted), 20)
        for backend in ("onednn", "xnnpack", "reference"):
            with self.subTest(backend=backend):
                self.octet("lower", self.path("q.pt2"), "--backend", backend, "--output", self.path("m.octet"))
                self.assertGreater(sqnr(interpreted, self.run_file("m.octet")[0]), 35)


if __name__ == "__main__":
    unittest.main()
