"""Exported programs with masks, positions, writes in place and ops that only LibTorch has: every one is lowered and gives PyTorch's numbers."""
import unittest

import torch
import torch.ao.quantization.fx._decomposed  # registers the q/dq ops for torch.export.load
from support import CommandTest
from torch import nn

BACKENDS = ("reference", "onednn", "xnnpack")


class Decoder(nn.Module):
    """One block as decoders have it: RMSNorm, rotary positions, grouped heads, a causal and padded mask, SwiGLU."""

    def __init__(self, width=64, heads=4):
        super().__init__()
        self.heads = heads
        self.table = nn.Embedding(100, width)
        self.norm = nn.RMSNorm(width)
        self.qkv = nn.Linear(width, 2 * width)
        self.up, self.gate, self.down = nn.Linear(width, 128), nn.Linear(width, 128), nn.Linear(128, width)

    def turn(self, x, at):
        rate = 1 / 100 ** (torch.arange(0, x.shape[-1], 2) / x.shape[-1])
        angle = torch.cat([at[:, None] * rate] * 2, -1)
        half = torch.cat([-x[..., x.shape[-1] // 2:], x[..., :x.shape[-1] // 2]], -1)
        return x * angle.cos() + half * angle.sin()

    def forward(self, tokens, mask):
        x = self.table(tokens)
        count = tokens.shape[1]
        at = torch.arange(count)
        q, k, v = self.qkv(self.norm(x)).split([64, 32, 32], -1)
        q = self.turn(q.unflatten(-1, (4, 16)).transpose(1, 2), at)
        k = self.turn(k.unflatten(-1, (2, 16)).transpose(1, 2), at).repeat_interleave(2, 1)
        v = v.unflatten(-1, (2, 16)).transpose(1, 2).repeat_interleave(2, 1)
        seen = (at[None, :] <= at[:, None]) & mask[:, None, None, :].bool()
        scores = (q @ k.mT / 4).masked_fill(~seen, torch.finfo(torch.float32).min)
        x = x + (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        return x + self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class Windows(nn.Module):
    """Weight standardization, rolled windows, a relative bias by index, a write into a slice."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1)
        self.bias = nn.Parameter(torch.randn(9, 4))
        self.register_buffer("place", torch.arange(16).reshape(4, 4) % 9)
        self.head = nn.Linear(16, 8)

    def forward(self, x):
        w = self.conv.weight
        w = (w - w.mean((1, 2, 3), keepdim=True)) / (w.std((1, 2, 3), keepdim=True) + 1e-5)
        y = nn.functional.conv2d(x, w, self.conv.bias, padding=1)
        y = torch.roll(y, (-2, -2), (2, 3)) + self.bias[self.place].mean()
        y = torch.einsum("nchw,nkhw->nchw", y, y.sigmoid())
        y = y.clone()
        y[:, :4] = 0
        return self.head(y.amax((2, 3)))


class Spectrum(nn.Module):
    """Complex numbers: tokens mixed by a transform of both dimensions, a spectrum's magnitude."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(32, 64)
        self.last = nn.Linear(33, 8)

    def forward(self, x):
        mixed = torch.fft.fft2(self.first(x)).real / 8
        return self.last(torch.fft.rfft(mixed, norm="ortho").abs())


class Frames(nn.Module):
    """A spectrogram, a filter of it, and the signal that is left."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(32, 64)
        self.last = nn.Linear(64, 8)

    def forward(self, x):
        window = torch.hann_window(16)
        frames = torch.stft(self.first(x), 16, window=window, return_complex=True)
        loud = frames * torch.sigmoid(frames.abs())
        return self.last(torch.istft(loud, 16, window=window, length=64))


class Exponential(nn.Module):
    """An op that no backend but torch has."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(16, 16)
        self.last = nn.Linear(16, 8)

    def forward(self, x):
        return self.last(torch.linalg.matrix_exp(self.first(x) / 16))


class Projected(nn.Module):
    """A recurrent layer whose hidden state is projected."""

    def __init__(self):
        super().__init__()
        self.layers = nn.LSTM(16, 12, proj_size=6, batch_first=True)
        self.head = nn.Linear(6, 8)

    def forward(self, x):
        return self.head(self.layers(x)[0])


class AnyModel(CommandTest):
    def quantized(self, net, *inputs):
        torch.manual_seed(0)
        net = net.eval().requires_grad_(False)
        self.export(net, *inputs)
        self.save("c.pt", [inputs])
        self.save("x.pt", inputs)
        self.octet("quantize", self.path("model.pt2"), "--quantizer", "x86", "--calibration", self.path("c.pt"),
                   "--output", self.path("q.pt2"))
        with torch.no_grad():
            return torch.export.load(self.path("q.pt2")).module()(*inputs)

    def check(self, want, *options, backends=BACKENDS):
        step = want.abs().max().item() / 100
        for backend in backends:
            with self.subTest(backend=backend):
                self.octet("lower", self.path("q.pt2"), "--backend", backend, "--output", self.path("m.octet"), *options)
                torch.testing.assert_close(self.run_file("m.octet")[0], want, rtol=0, atol=step)

    def test_a_decoder_with_its_masks(self):
        torch.manual_seed(1)
        mask = torch.ones(2, 12, dtype=torch.int64)
        mask[1, 9:] = 0
        self.check(self.quantized(Decoder(), torch.randint(0, 100, (2, 12)), mask))

    def test_a_part_without_gradients(self):
        """As rotary positions are made, in a program that is exported with gradients."""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.last = nn.Linear(16, 16), nn.Linear(16, 8)

            def forward(self, x, at):
                with torch.no_grad():
                    angle = at[:, None] * torch.arange(16) / 16
                    turn = angle.cos()
                return self.last(self.first(x) * turn)

        torch.manual_seed(1)
        net, inputs = Net().eval(), (torch.randn(12, 16), torch.arange(12))
        program = torch.export.export(net, inputs)
        self.assertIn("wrap_with_set_grad_enabled", str(program.graph))
        torch.export.save(program, self.path("model.pt2"))
        self.save("c.pt", [inputs])
        self.save("x.pt", inputs)
        self.octet("quantize", self.path("model.pt2"), "--quantizer", "x86", "--calibration",
                   self.path("c.pt"), "--output", self.path("q.pt2"))
        with torch.no_grad():
            want = torch.export.load(self.path("q.pt2")).module()(*inputs)
        self.check(want)

    def test_standardized_weights_and_writes_in_place(self):
        torch.manual_seed(1)
        self.check(self.quantized(Windows(), torch.randn(1, 3, 8, 8)))

    def test_transforms_and_spectra(self):
        torch.manual_seed(1)
        self.check(self.quantized(Spectrum(), torch.randn(4, 32)))

    def test_a_projected_hidden_state(self):
        torch.manual_seed(1)
        self.check(self.quantized(Projected(), torch.randn(2, 5, 16)))

    def test_spectrograms(self):
        torch.manual_seed(1)
        self.check(self.quantized(Frames(), torch.randn(4, 32)))

    def test_what_only_libtorch_has(self):
        torch.manual_seed(1)
        want = self.quantized(Exponential(), torch.randn(2, 16, 16))
        message = self.fails("lower", self.path("q.pt2"), "--backend", "onednn", "--output", self.path("m.octet"))
        self.assertIn("aten.linalg_matrix_exp.default", message)
        self.assertIn("--fallback torch", message)
        self.check(want, "--fallback", "torch")


if __name__ == "__main__":
    unittest.main()
