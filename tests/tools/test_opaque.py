"""A custom op without C++ kernel: kept whole, its recorded tensors standing in while the rest is calibrated; and quantized again in PyTorch."""
import json
import os
import unittest

import torch
from torch import nn

from support import CommandTest, sqnr


@torch.library.custom_op("octet_test::gate", mutates_args=())
def gate(x: torch.Tensor, limit: float) -> torch.Tensor:
    return torch.tanh(x / limit) * limit


@gate.register_fake
def _(x, limit):
    return torch.empty_like(x)


class Gate(nn.Module):
    def forward(self, x):
        return gate(x, 2.0)


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.gate = Gate()
        self.mix = nn.Conv2d(8, 8, 1)

    def forward(self, x):
        return self.mix(self.gate(torch.relu(self.conv(x))))


class Opaque(CommandTest):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        self.net = Gated().requires_grad_(False).eval()
        self.x = torch.randn(1, 3, 12, 12)
        self.export(self.net, self.x)
        batches = [(torch.randn(1, 3, 12, 12),) for _ in range(4)]
        self.save("calibration.pt", batches)
        records = []
        handle = self.net.gate.register_forward_hook(lambda module, inputs, output: records.append((output,)))
        for batch in batches:
            self.net(*batch)
        handle.remove()
        self.save("recorded.pt", records)

    def arguments(self, *parts):
        with open(self.path("q.json"), "w") as file:
            json.dump({"base": "xnnpack", "global": {"is_per_channel": True}, "opaque": list(parts)}, file)
        return [self.path("model.pt2"), "--quantizer", self.path("q.json"), "--calibration", self.path("calibration.pt")]

    def test_without_a_kernel_the_error_names_the_op_and_the_route(self):
        message = self.fails("quantize", *self.arguments({"module": "gate"}), "--output", self.path("q.pt2"))
        self.assertIn("%gate: octet_test.gate.default has no kernel here", message)
        self.assertIn("--recorded R.pt", message)

    def test_recorded_tensors_stand_in_and_the_program_runs_in_pytorch(self):
        import torch.ao.quantization.fx._decomposed  # noqa: F401 registers the q/dq ops
        arguments = self.arguments({"op": "octet_test.gate.default", "recorded": True})
        self.octet("quantize", *arguments, "--recorded", self.path("recorded.pt"), "--output", self.path("q.pt2"), "--report", self.path("r.json"))
        program = torch.export.load(self.path("q.pt2"))
        self.assertGreater(sqnr(self.net(self.x), program.module()(self.x)), 25)
        targets = [node["target"] for node in self.inspect("q.pt2")["nodes"]]
        self.assertEqual(targets.count("octet_test.gate.default"), 1)
        self.assertEqual(sum(target.startswith("quantized_decomposed.dequantize_per_channel") for target in targets), 2)
        with open(self.path("r.json")) as file:
            self.assertIn("in the opaque part op octet_test.gate.default", file.read())

    def test_states_of_two_shards_are_the_same_route(self):
        arguments = self.arguments({"module": "gate", "recorded": True})
        self.octet("quantize", *arguments, "--recorded", self.path("recorded.pt"), "--output", self.path("whole.pt2"))
        self.octet("calibrate", *arguments, "--recorded", self.path("recorded.pt"), "--state", self.path("s.json"))
        self.octet("quantize", *arguments[:3], "--state", self.path("s.json"), "--output", self.path("q.pt2"))
        self.assertEqual(self.inspect("q.pt2"), self.inspect("whole.pt2"))

    def test_faults_of_recorded_files_are_named(self):
        arguments = self.arguments({"module": "gate", "recorded": True})
        output = ["--output", self.path("q.pt2")]
        self.assertIn("%gate: is recorded and does not run in calibration", self.fails("quantize", *arguments, *output))
        self.save("few.pt", torch.load(self.path("recorded.pt"))[:3])
        self.assertIn("got 3 batches, want 4", self.fails("quantize", *arguments, "--recorded", self.path("few.pt"), *output))
        self.save("wrong.pt", [(torch.zeros(1, 8, 9, 9),)] * 4)
        self.assertRegex(self.fails("quantize", *arguments, "--recorded", self.path("wrong.pt"), *output), "batch 0: .*gate.*want")
        self.assertIn("no opaque part is recorded", self.fails("quantize", *self.arguments({"op": "relu"}), "--recorded", self.path("recorded.pt"), *output))
        self.assertFalse(os.path.exists(self.path("q.pt2")))

    def test_a_standalone_module_has_its_own_quantizer(self):
        arguments = self.arguments({"module": "gate", "recorded": True}, {"module": "mix", "quantizer": "x86"})
        self.octet("quantize", *arguments, "--recorded", self.path("recorded.pt"), "--output", self.path("q.pt2"))
        dtypes = [node["args"]["dtype"] for node in self.inspect("q.pt2")["nodes"] if node["target"].startswith("quantized_decomposed.quantize_per_tensor")]
        self.assertEqual(sorted(set(dtypes)), ["torch.int8", "torch.uint8"])


if __name__ == "__main__":
    unittest.main()
