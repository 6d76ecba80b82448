"""octet export: what onnx's checker says of the files, and what ONNX Runtime computes with them, optimized and not, beside the graph interpreted."""
import collections
import hashlib
import os
import pathlib
import unittest

import onnx
import onnxruntime
import torch
from support import CommandTest, SmallNet, sqnr
from torch import nn
from torch.export import Dim


PROTO = pathlib.Path(__file__).resolve().parents[2] / "tools" / "onnx" / "proto"
NEAR = 40  # dB
F = nn.functional


class Functions(nn.Module):
    """Elementwise functions, in one program."""

    def forward(self, x, y, mask):
        p = x.abs() + 0.1
        return (x + y, x - 2 * y, torch.rsub(x, 3), x * y, x / p, torch.div(x, p, rounding_mode="floor"), torch.maximum(x, y), x ** 2, p ** y,
                torch.where(mask, x, y), x.masked_fill(mask, -1), torch.addcmul(x, x, y, value=0.5), x.clamp(-0.5, 0.5), x.clamp(min=0), torch.exp(x),
                torch.log(p), torch.sqrt(p), torch.rsqrt(p), torch.sigmoid(x), torch.tanh(x), torch.erf(x), torch.sin(x), F.relu6(x), F.hardtanh(x),
                F.hardswish(x), F.hardsigmoid(x), F.silu(x), F.gelu(x), F.gelu(x, approximate="tanh"), F.leaky_relu(x), F.elu(x), F.mish(x),
                F.softplus(x), F.logsigmoid(x), torch.floor(x), torch.round(x), torch.log1p(p), torch.expm1(x), F.hardshrink(x), F.softshrink(x), x > y,
                x == y, (x > 0) & mask, ~mask, torch.remainder(x, 0.3), torch.fmod(x, 0.3), torch.trunc(x), torch.lerp(x, y, 0.3), x != 0,
                torch.isfinite(x / y), torch.atan2(x, y), torch.atan2(x, y.abs() * 0), (x * 9).to(torch.int64) << 2, (x * 9).to(torch.int32) >> 1, x.to(torch.int64) // 2, F.glu(x, 1), x <= 0.1, F.threshold(x, 0.1, 20.0))


class Shapes(nn.Module):
    """Shapes, parts and indices of x [2, 6, 4, 8]."""

    def forward(self, x, index):
        a, b, c = x.split([1, 2, 3], 1)
        first, second = torch.chunk(x, 2, 3)
        values, places = x.topk(3, -1)
        return (x.view(2, 24, 8), x.flatten(1), x.permute(0, 2, 3, 1), x.transpose(1, 2), x.unsqueeze(1), x[:, :1].squeeze(1), a, b, c, first, second,
                torch.cat([x, x + 1], 1), torch.stack([x, x], 0), x[:, 1:5:2], x[..., -1], x[:, 2], x.expand(3, 2, 6, 4, 8), x.repeat(1, 2, 1, 1),
                F.pad(x, (1, 2)), F.pad(x, (1, 1, 2, 0), value=0.5), F.pad(x, (1, 1, 1, 1), mode="reflect"), F.pad(x[0], (2, 1), mode="replicate"), x.flip(2),
                torch.roll(x, 3, 2), F.pixel_shuffle(x[:, :4], 2), F.pixel_unshuffle(x, 2), torch.channel_shuffle(x, 3), x.index_select(1, index),
                x[:, index], x[index % 2, index], x[:, index, index % 4], x[:, :, index % 4, index], torch.gather(x, 3, places), values, places,
                torch.sort(x, -1)[0], x.argmax(-1), x.argmin(1, keepdim=True), torch.cumsum(x, 2), torch.tril(x), torch.triu(x, 1),
                F.one_hot(index, 7), x.unbind(1)[2], torch.zeros_like(x), torch.full_like(x, 2.5), x.clone().contiguous(), x.movedim(1, -1),
                torch.scatter(x, 3, places, values * 2), x.index_put((index % 2,), torch.ones(())), x.unflatten(1, (2, 3)),
                x.argmax(), torch.repeat_interleave(x, 2, 1))


class Reductions(nn.Module):
    """Reductions, norms, pooling and sizes of x [2, 6, 8, 8]."""

    def __init__(self):
        super().__init__()
        self.layer, self.group, self.instance = nn.LayerNorm(8), nn.GroupNorm(3, 6), nn.InstanceNorm2d(6, affine=True)
        self.batch, self.rms, self.prelu = nn.BatchNorm2d(6), nn.RMSNorm(8), nn.PReLU(6)
        for p in self.parameters():
            nn.init.uniform_(p, 0.5, 1.5)

    def forward(self, x):
        return (x.sum(), x.sum((2, 3)), x.mean(1, keepdim=True), x.amax(-1), x.amin((1, 2)), x.max(2)[0], x.max(2)[1], x.max(), x.prod(3), x.var(1),
                x.std((2, 3), keepdim=True), torch.logsumexp(x, 1), x.norm(dim=1), F.normalize(x, dim=1), (x > 2).any(1), (x > -3).all(), self.layer(x),
                self.group(x), self.instance(x), self.batch(x), self.rms(x), self.prelu(x), F.softmax(x, 1), F.log_softmax(x, -1),
                F.max_pool2d(x, 3, 2, 1), F.max_pool2d(x, 3, 2, ceil_mode=True), F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, 1, 1, count_include_pad=False),
                F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, 4), F.adaptive_avg_pool2d(x, (3, 5)), F.adaptive_max_pool2d(x, 2),
                F.max_pool1d(x[0], 2), F.interpolate(x, scale_factor=2), F.interpolate(x, size=(5, 12), mode="bilinear"),
                F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True), F.interpolate(x, size=(12, 12), mode="bicubic"),
                F.interpolate(x, size=(5, 11), mode="nearest-exact"), F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1), align_corners=False))


class Products(nn.Module):
    """Convolutions and products."""

    def __init__(self):
        super().__init__()
        self.plain, self.grouped = nn.Conv2d(6, 8, 3, stride=2, padding=1), nn.Conv2d(6, 6, 3, groups=6, dilation=2, padding="same", bias=False)
        self.line, self.up = nn.Conv1d(8, 4, 3), nn.ConvTranspose2d(6, 4, 3, stride=2, padding=1, output_padding=1)
        self.linear, self.wide, self.bare = nn.Linear(8, 5), nn.Linear(8, 5), nn.Linear(8, 3, bias=False)

    def forward(self, x):
        m, s = x[0], x.flatten(2)
        return (self.plain(x), self.grouped(x), self.line(x[:, 0]), self.up(x), self.linear(x), self.wide(x[0, 0]), self.bare(x), m @ m.transpose(1, 2),
                torch.bmm(m, m), torch.addmm(m[0], m[1], m[2], beta=0.5, alpha=2), torch.einsum("bchw,bchv->bcwv", x, x), self.plain(m),
                F.scaled_dot_product_attention(s, s, s), F.scaled_dot_product_attention(x, x, x, is_causal=True),
                F.scaled_dot_product_attention(x, x[:, :3], x[:, :3], enable_gqa=True),
                F.scaled_dot_product_attention(x, x, x, attn_mask=m[0] > 0), torch.outer(m[0, 0], m[0, 1]), torch.baddbmm(m, m, m, beta=0.5))


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


class ExportOnnx(CommandTest):
    def exported(self, program="q.pt2", *options, name="q.onnx"):
        """The model of the file, which onnx's checker takes."""
        self.octet("export", self.path(program), "--onnx", self.path(name), *options)
        onnx.checker.check_model(self.path(name), full_check=True)
        return onnx.load(self.path(name))

    def session(self, name="q.onnx", is_optimized=True, target=None):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = 1
        if not is_optimized:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        if target:
            options.optimized_model_filepath = self.path(target)
        return onnxruntime.InferenceSession(self.path(name), options, providers=["CPUExecutionProvider"])

    def run_onnx(self, inputs, **options):
        session = self.session(**options)
        names = [value.name for value in session.get_inputs()]
        return [torch.from_numpy(y) for y in session.run(None, {name: x.numpy() for name, x in zip(names, inputs)})]

    def optimized_ops(self, name="q.onnx"):
        self.session(name, target="optimized.onnx")
        return collections.Counter(node.op_type for node in onnx.load(self.path("optimized.onnx")).graph.node)

    def check_near(self, inputs, wanted=None, near=NEAR):
        """What ONNX Runtime makes of q.onnx, to the interpreter's outputs of q.pt2."""
        if wanted is None:
            self.save("x.pt", inputs)
            wanted = self.run_file("q.pt2")
        for is_optimized in (False, True):
            results = self.run_onnx(inputs, is_optimized=is_optimized)
            self.assertEqual(len(results), len(wanted))
            for want, got in zip(wanted, results):
                self.assertEqual(got.shape, want.shape)
                self.assertGreater(sqnr(want, got), near, f"optimized: {is_optimized}")
        return wanted

    def quantize(self, *options):
        self.octet("quantize", self.path("model.pt2"), "--output", self.path("q.pt2"), *options)

    def check_ops(self, net, *inputs):
        """Each output of a float network, of opset 17 and the greatest."""
        torch.manual_seed(0)
        net = net.requires_grad_(False).eval()
        self.export(net, *inputs)
        wanted = net(*inputs)
        for opset in ("17", "23"):
            model = self.exported("model.pt2", "--opset", opset)
            self.assertEqual(model.opset_import[0].version, int(opset))
            results = self.run_onnx(inputs)
            self.assertEqual(len(results), len(wanted))
            for k, (want, got) in enumerate(zip(wanted, results)):
                with self.subTest(opset=opset, output=k):
                    self.assertEqual(got.dtype, want.dtype)
                    torch.testing.assert_close(got, want, rtol=2e-4, atol=2e-5, equal_nan=True)

    def test_functions(self):
        torch.manual_seed(1)
        self.check_ops(Functions(), torch.randn(3, 4, 5), torch.randn(3, 4, 5), torch.rand(3, 4, 5) > 0.5)

    def test_shapes(self):
        torch.manual_seed(1)
        self.check_ops(Shapes(), torch.randn(2, 6, 4, 8), torch.tensor([0, 3, 1]))

    def test_reductions(self):
        torch.manual_seed(1)
        self.check_ops(Reductions(), torch.randn(2, 6, 8, 8))

    def test_products(self):
        torch.manual_seed(1)
        self.check_ops(Products(), torch.randn(2, 6, 8, 8))

    def static(self, net, shape, quantizer):
        torch.manual_seed(0)
        net = net.requires_grad_(False).eval()
        x = torch.randn(shape)
        self.export(net, x)
        self.save("calibration.pt", [(torch.randn(shape),) for _ in range(4)])
        self.quantize("--quantizer", quantizer, "--calibration", self.path("calibration.pt"))
        return x

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
        for mode, count in (("weight-only", 5), ("dynamic", 4)):  # the first takes the table of words, too; that of positions is computed ahead
            with self.subTest(mode=mode):
                self.quantize("--quantizer", "xnnpack", "--mode", mode, "--weight-bits", "4")
                model = self.exported()
                self.assertEqual(model.opset_import[0].version, 21)
                blocks = [node for node in model.graph.node if any(a.name == "block_size" for a in node.attribute)]
                types = {c.name: c.data_type for c in model.graph.initializer}
                self.assertEqual([types[node.input[0]] for node in blocks], [onnx.TensorProto.INT4] * count)
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

    def test_causal_attention_of_any_length(self):
        class Causal(nn.Module):
            def forward(self, x):
                return F.scaled_dot_product_attention(x, x, x, is_causal=True)

        torch.manual_seed(0)
        self.check_same(Causal(), torch.randn(1, 2, 5, 4), others=((torch.randn(1, 2, 3, 4),), (torch.randn(1, 2, 70, 4),)), dynamic_shapes=({2: Dim("length", min=2)},))

    def test_rows_that_a_mask_hides(self):
        class Masked(nn.Module):
            def forward(self, x, mask):
                return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)

        mask = torch.rand(4, 4) > 0.3
        mask[1] = False
        self.check_same(Masked(), torch.randn(1, 2, 4, 4), mask)

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

    def test_what_has_no_form(self):
        class Odd(nn.Module):
            def forward(self, x):
                return torch.special.i0(x) + torch.special.i0(x + 1), torch.cumprod(x, 0)

        x = torch.randn(4, 4)
        self.export(Odd(), x)
        message = self.fails("export", self.path("model.pt2"), "--onnx", self.path("q.onnx"))
        self.assertIn("3 of 5 calls have no form in ONNX: aten.special_i0.default (2 of them, the first %special_i0); aten.cumprod.default (%cumprod)", message)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("q.onnx")], [])

    def test_bad_input(self):
        self.export(nn.Linear(4, 4), torch.randn(2, 4))
        path = self.path("model.pt2")
        self.assertRegex(self.fails("export", path, "--onnx", self.path("q.onnx"), "--opset", "16"), r"^octet: onnx: --opset 16: .*want 17 to 23")
        self.assertRegex(self.fails("export", path, "--onnx", self.path("absent/q.onnx")), r"^octet: output: .*absent/q.onnx: ")
        self.assertRegex(self.fails("export", self.path("absent.pt2"), "--onnx", self.path("q.onnx")), r"^octet: pt2: .*absent.pt2: ")
        self.octet("export", path, code=2)
        self.assertEqual(os.listdir(self.folder), ["model.pt2"])

    def check_same(self, net, *inputs, others=(), **export):
        """A float network at the example and at other inputs, of the least opset."""
        net = net.requires_grad_(False).eval()
        self.export(net, *inputs, **export)
        model = self.exported("model.pt2")
        for given in (inputs, *others):
            want = net(*given)
            want = list(want) if isinstance(want, tuple) else [want]
            got = self.run_onnx(given)
            self.assertEqual(len(got), len(want))
            for k, (y, z) in enumerate(zip(want, got)):
                with self.subTest(output=k):
                    self.assertEqual((y.shape, y.dtype), (z.shape, z.dtype))
                    torch.testing.assert_close(z, y, rtol=2e-4, atol=2e-5)
        return collections.Counter(node.op_type for node in model.graph.node)

    def test_recurrent_layers(self):
        class Layers(nn.Module):
            def __init__(self):
                super().__init__()
                self.lstm = nn.LSTM(6, 8, 2, bidirectional=True, batch_first=True)
                self.gru, self.plain, self.cell = nn.GRU(16, 5, bidirectional=True), nn.RNN(10, 4, nonlinearity="relu", bias=False), nn.LSTMCell(6, 7)

            def forward(self, x):
                y, (h, c) = self.lstm(x)
                z, g = self.gru(y.transpose(0, 1))
                p, r = self.plain(z)
                return y, h, c, z, g, p, r, *self.cell(x[:, 0])

        torch.manual_seed(0)
        ops = self.check_same(Layers(), torch.randn(3, 5, 6))
        self.assertEqual((ops["LSTM"], ops["GRU"], ops["RNN"], ops["MatMul"] + ops["Gemm"]), (5, 2, 1, 0), ops)

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

    def test_branches_and_loops(self):
        from torch._higher_order_ops.scan import scan

        class Branch(nn.Module):
            def __init__(self):
                super().__init__()
                self.left, self.right = nn.Linear(4, 4), nn.Linear(4, 4)

            def forward(self, x):
                y = torch.cond(x.sum() > 0, lambda x: self.left(x) + 1, lambda x: torch.cond(x[0, 0] > -1, lambda x: self.right(x), lambda x: -x, (x,)), (x,))
                return y * 2

        class Rounds(nn.Module):
            def forward(self, i, x, most):
                return torch._higher_order_ops.while_loop(lambda i, x: (x.sum() < 100) & (i < most), lambda i, x: (i + 1, x * 2 + i), (i, x))

        class Rows(nn.Module):
            def forward(self, start, rows):
                return scan(lambda carried, row: (carried * 0.5 + row, carried + row.sin()), start, rows, dim=0)

        torch.manual_seed(0)
        x = torch.randn(2, 4).abs()
        ops = self.check_same(Branch(), x, others=((-x,), (-5 * x - 1,)))
        self.assertEqual(ops["If"], 1)
        ops = self.check_same(Rounds(), torch.tensor(0), x, torch.tensor(9), others=((torch.tensor(8), x, torch.tensor(9)), (torch.tensor(9), x, torch.tensor(9))))
        self.assertEqual(ops["Loop"], 1)
        ops = self.check_same(Rows(), torch.randn(4), torch.randn(5, 4))
        self.assertEqual(ops["Scan"], 1)

    def test_states(self):
        class Cache(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("kept", torch.zeros(4, 3))
                self.register_buffer("count", torch.tensor([2]))

            def forward(self, x, place):
                self.kept[place] = x
                self.count.add_(1)
                return self.kept.sum(0) * self.count

        net = Cache()
        self.export(net, torch.randn(1, 3), torch.tensor([1]))
        model = self.exported("model.pt2")
        self.assertEqual([value.name for value in model.graph.input], ["x", "place", "kept", "count"])
        self.assertEqual([value.name for value in model.graph.output][1:], ["kept.next", "count.next"])
        states = {entry.key: entry.value for entry in model.metadata_props}
        self.assertEqual(states, {"octet.state.kept": "kept.next", "octet.state.count": "count.next"})
        kept, count = torch.zeros(4, 3), torch.tensor([2])
        for place in (1, 3, 1):
            x, place = torch.randn(1, 3), torch.tensor([place])
            got, kept, count = self.run_onnx((x, place, kept, count))
            torch.testing.assert_close(got, net(x, place))
            self.assertTrue(torch.equal(kept, net.kept) and torch.equal(count, net.count))

    def test_complex_numbers(self):
        class Spectrum(nn.Module):
            def forward(self, x):
                y = torch.fft.rfft(x)
                z = torch.fft.fft2(x) * torch.conj(torch.fft.fft2(x + 1))
                return y.abs(), torch.view_as_real(z), torch.fft.irfft(y * 2, n=8), torch.stft(x, 8, 4, window=torch.hann_window(8), return_complex=True).abs()

        torch.manual_seed(0)
        self.check_same(Spectrum(), torch.randn(3, 8))

    def test_sizes_that_a_run_decides(self):
        class Chosen(nn.Module):
            def forward(self, x):
                return x[x > 0] * 2, torch.nonzero(x > 0.5)

        x = torch.randn(6, 5)
        self.check_same(Chosen(), x, others=((x.abs() + 1,), (-x.abs(),)))

    def test_half_precision(self):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).half().requires_grad_(False).eval()
        x = torch.randn(3, 8).half()
        self.export(net, x)
        self.exported("model.pt2")
        got = self.run_onnx((x,))[0]
        self.assertEqual(got.dtype, torch.float16)
        self.assertGreater(sqnr(net.float()(x.float()), got.float()), NEAR)

    def test_columns_of_windows(self):
        class Columns(nn.Module):
            def forward(self, x):
                y = F.unfold(x, (2, 3), padding=1, stride=(1, 2))
                return y, F.unfold(x[0], 2), F.fold(y, (6, 8), (2, 3), padding=1, stride=(1, 2)), *F.max_pool2d(x, 2, return_indices=True)

        self.export(Columns(), torch.randn(2, 3, 6, 8))
        self.assertIn("Col2Im, which opset 17 lacks", self.fails("export", self.path("model.pt2"), "--onnx", self.path("q.onnx"), "--opset", "17"))
        self.check_same(Columns(), torch.randn(2, 3, 6, 8))

    def test_writes_in_place(self):
        class Writer(nn.Module):
            def forward(self, x):
                y = x + 1
                y.mul_(2)
                z = y.clone()
                z.relu_()
                return y, z, y + z

        x = torch.randn(3, 4)
        self.export(Writer(), x)
        self.exported("model.pt2")
        for want, got in zip(Writer()(x), self.run_onnx((x,))):
            self.assertTrue(torch.equal(got, want))

        class Seen(nn.Module):
            def forward(self, x):
                y = x + 1
                row = y[0]
                y.mul_(2)
                return row + 1

        self.check_same(Seen(), x)


class Format(unittest.TestCase):
    def test_the_format_is_the_one_that_its_hash_names(self):
        for line in (PROTO / "SHA256SUMS").read_text().splitlines():
            value, name = line.split()
            self.assertEqual(hashlib.sha256((PROTO / name).read_bytes()).hexdigest(), value, name)


if __name__ == "__main__":
    unittest.main()
