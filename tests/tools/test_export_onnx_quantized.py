"""octet export: quantized programs. Scales stay in the file, and ONNX Runtime computes with integers what it can."""
import collections
import os
import unittest

import onnx
import torch
from onnx_export import ExportTest
from support import SmallNet
from torch import nn
from torch.export import Dim

F = nn.functional


class Words(nn.Module):
    """A transformer's block of words."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(50, 64), nn.Embedding(32, 64)
        self.norm, self.inward, self.outward = nn.LayerNorm(64), nn.Linear(64, 192), nn.Linear(64, 64)
        self.up, self.down = nn.Linear(64, 128), nn.Linear(128, 64)
        self.register_buffer("positions", torch.arange(32))

    def forward(self, words):
        x = self.words(words) + self.places(self.positions[:words.shape[1]])
        q, k, v = self.inward(self.norm(x)).view(words.shape[0], words.shape[1], 3, 4, 16).permute(2, 0, 3, 1, 4).unbind(0)
        x = x + self.outward(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(words.shape[0], words.shape[1], 64))
        return x + self.down(F.gelu(self.up(x)))


class Mixed(nn.Module):
    """Quantized ops of each kind beside floating ones."""

    def __init__(self):
        super().__init__()
        self.left, self.right, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(3, 8, 1), nn.Conv2d(16, 8, 3)
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        a, b = torch.relu(self.left(x)), self.right(x)
        x = torch.cat([a + b, F.max_pool2d(a, 3, 1, 1)], 1)
        return F.softmax(self.head(self.last(x).mean((2, 3))), -1)


class Quantized(ExportTest):
    def test_static_convolutions(self):
        for quantizer in ("xnnpack", "x86"):
            with self.subTest(quantizer=quantizer):
                x = self.static(SmallNet(), (1, 3, 32, 32), quantizer)
                model = self.exported()
                weights = [c for c in model.graph.initializer if len(c.dims) == 4]
                self.assertEqual({c.data_type for c in weights}, {onnx.TensorProto.INT8})
                scales = [node for node in model.graph.node if node.op_type == "DequantizeLinear" and node.attribute]
                self.assertTrue(all(node.attribute[0].name == "axis" for node in scales))
                self.assertGreaterEqual(len(scales), 4)  # of channels
                # Activations are u8 whatever the graph has, weights int8.
                types = {c.name: c.data_type for c in model.graph.initializer}
                zeros = {types[node.input[2]] for node in model.graph.node if node.op_type == "QuantizeLinear"}
                self.assertEqual(zeros, {onnx.TensorProto.UINT8})
                self.check_near((x,), near=30)  # rounding that falls otherwise moves what follows
                ops = self.optimized_ops()
                self.assertEqual(ops["Conv"] + ops["FusedConv"] + ops["Gemm"], 1 if quantizer == "x86" else 0, ops)  # the sum's other half
                self.assertGreaterEqual(ops["QLinearConv"] + ops["QGemm"], 3)

    def test_static_patterns(self):
        x = self.static(Mixed(), (1, 3, 16, 16), "xnnpack")
        self.exported()
        self.check_near((x,), near=30)
        ops = self.optimized_ops()
        # The relu's scale is shared with a sum that goes below 0, which keeps it apart from its convolution.
        self.assertEqual((ops["QLinearConv"], ops["QGemm"], ops["QLinearConcat"], ops["QLinearAdd"]), (2, 1, 1, 1), ops)

    def test_integer_biases(self):
        self.static(Mixed(), (1, 3, 16, 16), "xnnpack")
        biases = lambda model: sum(c.data_type == onnx.TensorProto.INT32 for c in model.graph.initializer)
        self.assertEqual(biases(self.exported()), 1)  # of the linear layer
        self.assertEqual(biases(self.exported("q.pt2", "--integer-biases")), 4)

    def words(self):
        torch.manual_seed(0)
        net = Words().requires_grad_(False).eval()
        words = torch.randint(0, 50, (2, 7))
        self.export(net, words)
        self.save("calibration.pt", [(torch.randint(0, 50, (2, 7)),) for _ in range(4)])
        return words

    def test_static_transformer(self):
        words = self.words()
        for quantizer in ("xnnpack", "x86", "embedding,xnnpack"):
            with self.subTest(quantizer=quantizer):
                self.quantize("--quantizer", quantizer, "--calibration", self.path("calibration.pt"))
                self.exported()
                self.check_near((words,))
                self.assertEqual(self.optimized_ops()["QGemm"], 4)

    def test_dynamic(self):
        words = self.words()
        for options in (("xnnpack",), ("x86",), ("xnnpack", "--compat", "torchao"), ("x86", "--compat", "torchao")):
            with self.subTest(options):
                self.quantize("--quantizer", *options, "--mode", "dynamic")
                kinds = collections.Counter(node.op_type for node in self.exported().graph.node)
                self.assertEqual(kinds["MatMulInteger"], 4)
                self.assertEqual(kinds["MatMul"], 2)  # of the attention
                self.check_near((words,))

    def test_weights_alone(self):
        words = self.words()
        self.quantize("--quantizer", "xnnpack", "--mode", "weight-only")
        self.exported()
        self.check_near((words,))

    def test_blocks_of_four_bits(self):
        words = self.words()
        four, eight = onnx.TensorProto.INT4, onnx.TensorProto.INT8
        # The first takes the table of words, too, with 8 bits; that of positions is computed ahead.
        for mode, want in (("weight-only", [eight, *[four] * 4]), ("dynamic", [four] * 4)):
            with self.subTest(mode=mode):
                self.quantize("--quantizer", "xnnpack", "--mode", mode, "--weight-bits", "4")
                model = self.exported()
                self.assertEqual(model.opset_import[0].version, 21)
                blocks = [node for node in model.graph.node if any(a.name == "block_size" for a in node.attribute)]
                types = {c.name: c.data_type for c in model.graph.initializer}
                self.assertEqual([types[node.input[0]] for node in blocks], want)
                self.check_near((words,))
        self.assertEqual(self.optimized_ops()["MatMulNBits"], 4)
        message = self.fails("export", self.path("q.pt2"), "--onnx", self.path("late.onnx"), "--opset", "20")
        self.assertRegex(message, r"scales of blocks, which opset 20 lacks, want --opset 21 or later")
        self.assertFalse(os.path.exists(self.path("late.onnx")))

    def test_open_sizes(self):
        torch.manual_seed(0)
        words = torch.randint(0, 50, (2, 7))
        self.export(Words().requires_grad_(False), words, dynamic_shapes=({0: Dim("batch", min=1, max=8), 1: Dim("length", min=2, max=32)},))
        self.save("calibration.pt", [(words,)])
        self.quantize("--quantizer", "xnnpack", "--calibration", self.path("calibration.pt"))
        model = self.exported()
        names = [dim.dim_param for dim in model.graph.input[0].type.tensor_type.shape.dim]
        self.assertEqual(len(set(names)), 2)
        self.assertNotIn("", names)
        self.assertEqual([dim.dim_param for dim in model.graph.output[0].type.tensor_type.shape.dim][:2], names)
        for sizes in ((1, 3), (2, 7), (5, 32)):
            with self.subTest(sizes=sizes):
                self.check_near((torch.randint(0, 50, sizes),))

    def test_quantized_recurrent_layers(self):
        class Tagger(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer, self.head = nn.LSTM(6, 8), nn.Linear(8, 3)

            def forward(self, x):
                return self.head(self.layer(x)[0])

        x = self.static(Tagger(), (5, 2, 6), "xnnpack")
        self.exported()
        self.check_near((x,), near=30)

    def test_weights_beside(self):
        x = self.words()
        self.quantize("--quantizer", "xnnpack", "--calibration", self.path("calibration.pt"))
        self.exported()
        want = self.run_onnx((x,))[0]
        inside = os.path.getsize(self.path("q.onnx"))
        model = onnx.load(self.path("q.onnx"), load_external_data=False)
        self.exported("q.pt2", "--external-data", name="beside.onnx")
        self.assertLess(os.path.getsize(self.path("beside.onnx")), inside)
        self.assertTrue(os.path.exists(self.path("beside.onnx.data")))
        self.assertTrue(torch.equal(self.run_onnx((x,), name="beside.onnx")[0], want))
        beside = onnx.load(self.path("beside.onnx"), load_external_data=False)
        large = [c for c in beside.graph.initializer if c.data_location == onnx.TensorProto.EXTERNAL]
        self.assertEqual(len(large), sum(len(c.raw_data) >= 1024 for c in model.graph.initializer))
        self.assertTrue(all(int(c.external_data[1].value) % 4096 == 0 for c in large))

    def test_names(self):
        self.static(SmallNet(), (1, 3, 32, 32), "xnnpack")
        model = self.exported("q.pt2", "--opset", "21")
        convolutions = {node.name for node in model.graph.node if node.op_type == "Conv"}
        self.assertEqual({name.split("/")[0] for name in convolutions}, {"stem.0", "depthwise.0", "project"})
        head = next(node for node in model.graph.node if node.op_type == "Gemm")
        self.assertEqual({entry.key: entry.value for entry in head.metadata_props}, {"octet.module": "head", "octet.op": "aten.linear.default"})
        names = [node.name for node in model.graph.node]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual([value.name for value in model.graph.input], ["x"])


if __name__ == "__main__":
    unittest.main()
