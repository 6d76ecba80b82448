"""octet export: each op of float programs, at the least and the greatest opset, and what it refuses."""
import hashlib
import os
import pathlib
import unittest

import torch
from onnx_export import ExportTest
from torch import nn

PROTO = pathlib.Path(__file__).resolve().parents[2] / "tools" / "onnx" / "proto"
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


class Ops(ExportTest):
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

    def test_columns_of_windows(self):
        class Columns(nn.Module):
            def forward(self, x):
                y = F.unfold(x, (2, 3), padding=1, stride=(1, 2))
                return y, F.unfold(x[0], 2), F.fold(y, (6, 8), (2, 3), padding=1, stride=(1, 2)), *F.max_pool2d(x, 2, return_indices=True)

        self.export(Columns(), torch.randn(2, 3, 6, 8))
        self.assertIn("Col2Im, which opset 17 lacks", self.fails("export", self.path("model.pt2"), "--onnx", self.path("q.onnx"), "--opset", "17"))
        self.check_same(Columns(), torch.randn(2, 3, 6, 8))

    def test_rows_that_a_mask_hides(self):
        class Masked(nn.Module):
            def forward(self, x, mask):
                return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)

        mask = torch.rand(4, 4) > 0.3
        mask[1] = False
        self.check_same(Masked(), torch.randn(1, 2, 4, 4), mask)

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


class Format(unittest.TestCase):
    def test_the_format_is_the_one_that_its_hash_names(self):
        for line in (PROTO / "SHA256SUMS").read_text().splitlines():
            value, name = line.split()
            self.assertEqual(hashlib.sha256((PROTO / name).read_bytes()).hexdigest(), value, name)


if __name__ == "__main__":
    unittest.main()
