"""What the tests of the command share: small exported models, calls of the command, comparison."""
import json
import math
import os
import shutil
import subprocess
import unittest

import torch
from torch import nn

OCTET = os.environ["OCTET"]
SCRATCH = os.environ["OCTET_SCRATCH"]


class Function(nn.Module):
    """A function of tensors as a network."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


class SmallNet(nn.Module):
    """Every static pattern that matters once: conv-bn-relu6, depthwise, residual add, pooling, linear."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU6())
        self.depthwise = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.project = nn.Conv2d(16, 16, 1)
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        x = self.stem(x)
        x = x + self.project(self.depthwise(x))
        return self.head(torch.flatten(nn.functional.adaptive_avg_pool2d(x, 1), 1))


class CommandTest(unittest.TestCase):
    """A scratch folder a test, and a small model with data in it."""

    def setUp(self):
        self.folder = os.path.join(SCRATCH, self.id().split(".")[-1])
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)

    def write_json(self, name, value):
        with open(self.path(name), "w") as file:
            json.dump(value, file)
        return self.path(name)

    def path(self, name):
        return os.path.join(self.folder, name)

    def octet(self, *arguments, code=0):
        """Runs the command and checks its exit code; returns (stdout, stderr)."""
        result = subprocess.run([OCTET, *arguments], capture_output=True, text=True, timeout=900)
        self.assertEqual(result.returncode, code, f"octet {' '.join(arguments)}\n{result.stdout[-2000:]}\n{result.stderr[-2000:]}")
        return result.stdout, result.stderr

    def fails(self, *arguments):
        """Runs the command, which must exit with 1 and one line on stderr that starts with "octet: "; returns that line."""
        _, errors = self.octet(*arguments, code=1)
        lines = [line for line in errors.splitlines() if line.startswith("octet: ")]
        self.assertEqual(len(lines), 1, errors)
        self.assertEqual(errors.splitlines()[-1], lines[0])
        return lines[0]

    def export(self, net, *example, name="model.pt2", **options):
        with torch.no_grad():
            torch.export.save(torch.export.export(net.eval(), example, **options), self.path(name))
        return self.path(name)

    def save(self, name, value):
        torch.save(value, self.path(name))
        return self.path(name)

    def small_model(self):
        """model.pt2, calibration.pt, x.pt; returns (net, x)."""
        torch.manual_seed(0)
        net = SmallNet().requires_grad_(False).eval()
        x = torch.randn(1, 3, 32, 32)
        self.export(net, x)
        self.save("calibration.pt", [(torch.randn(1, 3, 32, 32),) for _ in range(4)])
        self.save("x.pt", (x,))
        return net, x

    def quantized_model(self):
        net, x = self.small_model()
        self.octet("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--calibration", self.path("calibration.pt"), "--output", self.path("q.pt2"))
        return net, x

    def run_file(self, name, inputs="x.pt"):
        self.octet("run", self.path(name), "--inputs", self.path(inputs), "--outputs", self.path("y.pt"))
        return torch.load(self.path("y.pt"), weights_only=True)

    def inspect(self, name):
        return json.loads(self.octet("inspect", self.path(name), "--json")[0])


def sqnr(reference, result):
    noise = (reference.double() - result.double()).pow(2).sum().item()
    return math.inf if noise == 0 else 10 * math.log10(reference.double().pow(2).sum().item() / noise)


def last_scale(nodes):
    """The scale of the last per-tensor quantize op of an inspected graph."""
    return [n["args"]["scale"] for n in nodes if "quantize_per_tensor" in n["target"] and "dequantize" not in n["target"]][-1]
