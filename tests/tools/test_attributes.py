"""Quantizing keeps everything around the ops of a program: names, structure, shapes, buffers, metadata, extra files."""
import unittest

import torch
from torch import nn
from torch.export import Dim
from torch.fx import traceback

from support import CommandTest, sqnr


class Outer(nn.Module):
    """Keyword inputs, outputs by name, a buffer that nothing quantizes, a buffer that changes, a symbolic batch."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
        self.head = nn.Linear(8, 4)
        self.register_buffer("labels", torch.tensor([3, 1, 4, 1]))
        self.register_buffer("calls", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("shift", torch.tensor(10), persistent=False)

    def forward(self, image, *, gain):
        self.calls.add_(1)
        scores = self.head(self.conv(image).mean((2, 3))) * gain
        return {"scores": scores, "label": self.labels[scores.argmax(1)] + self.shift, "count": self.calls}


class Attributes(CommandTest):
    def setUp(self):
        super().setUp()
        import torch.ao.quantization.fx._decomposed  # noqa: F401 registers the q/dq ops
        torch.manual_seed(0)
        self.net = Outer().requires_grad_(False).eval()
        self.inputs = (torch.randn(2, 3, 8, 8),), {"gain": torch.tensor(2.0)}
        batch = Dim("batch", min=2, max=64)
        program = torch.export.export(self.net, *self.inputs, dynamic_shapes={"image": {0: batch}, "gain": {}}, preserve_module_call_signature=("head",))
        torch.export.save(program, self.path("model.pt2"), extra_files={"labels.txt": "cat dog", "license": "MIT"})
        self.save("calibration.pt", [(torch.randn(2, 3, 8, 8), torch.tensor(2.0)) for _ in range(4)])

    def quantized(self, quantizer):
        self.octet("quantize", self.path("model.pt2"), "--quantizer", quantizer, "--calibration", self.path("calibration.pt"), "--output", self.path("q.pt2"))
        files = {"labels.txt": "", "license": ""}
        before, after = torch.export.load(self.path("model.pt2")), torch.export.load(self.path("q.pt2"), extra_files=files)
        return before, after, files

    def test_structure_names_and_shapes_survive(self):
        for quantizer in ("xnnpack", "x86"):
            with self.subTest(quantizer=quantizer):
                before, after, files = self.quantized(quantizer)
                self.assertEqual(files, {"labels.txt": "cat dog", "license": "MIT"})
                self.assertEqual(after.call_spec, before.call_spec)
                self.assertEqual(after.graph_signature.user_inputs, before.graph_signature.user_inputs)
                self.assertEqual(len(after.graph_signature.user_outputs), 3)
                self.assertEqual({str(k): str(v) for k, v in after.range_constraints.items()}, {str(k): str(v) for k, v in before.range_constraints.items()})
                self.assertEqual([call.fqn for call in after.module_call_graph], [call.fqn for call in before.module_call_graph])
                self.assertEqual(after.graph_signature.buffers_to_mutate, before.graph_signature.buffers_to_mutate)
                self.assertEqual(after.graph_signature.non_persistent_buffers, before.graph_signature.non_persistent_buffers)
                self.assertTrue(torch.equal(after.state_dict["labels"], self.net.labels))
                self.assertTrue(torch.equal(after.constants["shift"], self.net.shift))

    def test_the_quantized_program_takes_keywords_and_other_batches_and_counts(self):
        _, after, _ = self.quantized("xnnpack")
        module = after.module()
        image, gain = torch.randn(5, 3, 8, 8), torch.tensor(1.5)
        result = module(image, gain=gain)
        self.assertGreater(sqnr(self.net(image, gain=gain)["scores"], result["scores"]), 25)
        self.assertEqual(module(image, gain=gain)["count"].item(), 2)

    def test_metadata_of_ops_that_stay_survives(self):
        before, after, _ = self.quantized("xnnpack")
        nodes = {node.name: node for node in after.graph.nodes if node.op == "call_function"}
        kept = [node for node in before.graph.nodes if node.op == "call_function" and node.name in nodes and nodes[node.name].target == node.target]
        self.assertGreaterEqual(len(kept), 6)
        for node in kept:
            for key in ("nn_module_stack", "stack_trace", "torch_fn"):
                self.assertEqual(nodes[node.name].meta.get(key), node.meta.get(key), f"{node.name} {key}")

    def test_annotations_of_ops_survive(self):
        class Marked(nn.Module):
            def forward(self, x):
                with traceback.annotate({"part": "head"}):
                    return torch.relu(x + 1)
        with traceback.preserve_node_meta():
            self.export(Marked(), torch.randn(2, 8))
        self.save("calibration.pt", [(torch.randn(2, 8),)])
        before, after, _ = self.quantized("xnnpack")
        marks = [{node.name: node.meta["custom"] for node in program.graph.nodes if node.op == "call_function" and "part" in node.meta.get("custom", {})}
                 for program in (before, after)]
        self.assertIn("relu", marks[0])
        self.assertEqual(marks[1]["relu"], marks[0]["relu"])


if __name__ == "__main__":
    unittest.main()
