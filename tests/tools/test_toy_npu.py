"""The backend that quantizers/toy_npu.json declares, on ResNet18 with a head of cat and sigmoid: annotated, quantized, lowered and run."""
import json
import os
import sys
import unittest

import torch
from torch import nn

from support import CommandTest, sqnr

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tools", "models"))
import networks  # noqa: E402  (beside the exporters)

FILE = os.path.join(ROOT, "quantizers", "toy_npu.json")
SIZE = 64  # pixels a side


class Scores(nn.Module):
    """What stays whole: probabilities above a quarter, in percent."""

    def forward(self, probabilities):
        return torch.relu(probabilities - 0.25) * 100


class ResNet18WithMap(nn.Module):
    """ResNet18, and a map of probabilities from its last two stages."""

    def __init__(self):
        super().__init__()
        backbone = networks.torchvision_models().resnet18(weights=None)
        self.stem = nn.Sequential(backbone.conv1, backbone.bn1, backbone.relu, backbone.maxpool)
        self.early = nn.Sequential(backbone.layer1, backbone.layer2, backbone.layer3)
        self.late = backbone.layer4
        self.pool = nn.MaxPool2d(2)
        self.fc = backbone.fc
        self.map = nn.Conv2d(256 + 512, 8, 1)
        self.postprocess = Scores()

    def forward(self, x):
        early = self.early(self.stem(x))
        late = self.late(early)
        probabilities = torch.sigmoid(self.map(torch.cat([self.pool(early), late], 1)))
        return self.fc(late.mean((2, 3))), self.postprocess(probabilities)


class ToyNpu(CommandTest):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        net = ResNet18WithMap().requires_grad_(False)
        net.train()
        for _ in range(2):  # batch norms that have seen data
            net(torch.randn(8, 3, SIZE, SIZE))
        net.eval()
        self.x = torch.randn(1, 3, SIZE, SIZE)
        self.export(net, self.x)
        self.floats = net(self.x)
        self.save("x.pt", (self.x,))
        self.save("calibration.pt", [(torch.randn(1, 3, SIZE, SIZE),) for _ in range(4)] + [(self.x,)])
        self.octet("quantize", self.path("model.pt2"), "--quantizer", FILE, "--calibration", self.path("calibration.pt"), "--output", self.path("q.pt2"),
                   "--dump-annotations", self.path("annotations.json"), "--report", self.path("report.json"))

    def test_resnet18_with_a_map(self):
        with open(self.path("annotations.json")) as file:
            dump = json.load(file)
        nodes = dump["nodes"]
        self.check_kinds(nodes)
        self.check_graph(self.inspect("q.pt2")["nodes"])
        interpreted = self.run_file("q.pt2")
        for expected, result in zip(self.floats, interpreted):
            self.assertGreater(sqnr(expected, result), 15)
        for backend in ("onednn", "xnnpack", "reference"):
            with self.subTest(backend=backend):
                self.octet("lower", self.path("q.pt2"), "--backend", backend, "--output", self.path("m.octet"))
                for expected, result in zip(interpreted, self.run_file("m.octet")):
                    self.assertGreater(sqnr(expected, result), 25)

    def check_kinds(self, nodes):
        """All four kinds of spec, each where the file puts it."""
        kinds = {(node["rule"], tensor["spec"]["kind"]) for node in nodes for tensor in [*node["inputs"], node["output"]] if tensor}
        self.assertEqual({kind for _, kind in kinds}, {"quantization", "shared", "fixed", "derived"})
        for expected in [("conv_relu", "quantization"), ("conv_relu", "derived"), ("conv", "derived"), ("max_pool2d", "shared"), ("cat", "shared"),
                         ("add_relu", "shared"), ("sigmoid", "fixed")]:
            self.assertIn(expected, kinds)
        convolutions = [node for node in nodes if node["target"] == "aten.conv2d.default"]
        self.assertEqual(len(convolutions), 21)
        for node in convolutions:
            self.assertEqual([tensor["spec"]["kind"] for tensor in node["inputs"]], ["quantization", "quantization", "derived"])
            self.assertEqual(node["inputs"][2]["spec"]["derive"], "product_of_scales")
        self.assertEqual([node["module"] for node in nodes if node["module"] == "fc"], [])
        whole = [node for node in nodes if node["module"] == "postprocess"]
        self.assertEqual([(node["rule"], node["inputs"], node["output"]) for node in whole], [('opaque part module "postprocess"', [], None)] * 3)
        [sigmoid] = [node for node in nodes if node["rule"] == "sigmoid"]
        self.assertEqual(sigmoid["output"]["spec"]["fixed"], {"scale": 0.00390625, "zero_point": 0})

    def check_graph(self, nodes):
        """Biases are stored as int32, and the sigmoid's result is quantized by the fixed scale."""
        biases = [node for node in nodes if "dequantize_per_channel" in node["target"] and node["args"]["dtype"] == "torch.int32"]
        self.assertEqual(len(biases), 21)
        fixed = [node for node in nodes if "quantize_per_tensor" in node["target"] and node["args"].get("scale") == 0.00390625]
        self.assertEqual({node["args"]["dtype"] for node in fixed}, {"torch.uint8"})

    def test_a_sigmoid_of_five_dimensions_stays_float_with_the_constraint_as_its_reason(self):
        class Deep(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 4)
                self.late = nn.Linear(4, 4)
                self.postprocess = nn.Tanh()

            def forward(self, x):
                return self.postprocess(torch.sigmoid(self.late(self.fc(x))))

        x = torch.randn(1, 1, 1, 2, 4)
        self.export(Deep().requires_grad_(False), x, name="deep.pt2")
        self.save("deep.pt", [(x,)])
        self.octet("quantize", self.path("deep.pt2"), "--quantizer", FILE, "--calibration", self.path("deep.pt"), "--output", self.path("deep_q.pt2"),
                   "--report", self.path("report.json"))
        with open(self.path("report.json")) as file:
            text = file.read()
        self.assertIn("has rank 5, want at most 4 (constraint of slot x)", text)


if __name__ == "__main__":
    unittest.main()
