"""Programs with a dynamic batch or length: quantized, lowered and run at several sizes; what does not fit is refused."""
import unittest

import torch
from torch import nn
from torch.export import Dim

from support import CommandTest, Function, SmallNet, last_scale


class Attention(nn.Module):
    """Positions by table, a mask, one head."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(50, 16), nn.Embedding(64, 16)
        self.inward, self.outward = nn.Linear(16, 48), nn.Linear(16, 16)
        self.register_buffer("positions", torch.arange(64))

    def forward(self, words, mask):
        x = self.words(words) + self.places(self.positions[:words.shape[1]])
        q, k, v = self.inward(x).chunk(3, 2)
        hidden = (1.0 - mask.to(torch.float32)).unsqueeze(1) * -10000.0
        return self.outward(nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=hidden.expand(words.shape[0], words.shape[1], words.shape[1])))


def mask_added(x):
    n = x.shape[0]
    return x @ x.T + torch.full((n, n), float("-inf")).triu(1)


def triangles(x):
    n = x.shape[0]
    return torch.tril(torch.ones(n, n)) @ x, (x @ x.T).triu(-1), (x @ x.T).masked_fill(torch.triu(torch.ones(n, n, dtype=torch.bool), 1), -1e9)


def counted(x):
    n = x.shape[0]
    return torch.eye(n) @ x, torch.arange(n, 0, -1), x[torch.arange(n - 1, -1, -1)], torch.arange(1, n, 2)


def moved(x):
    y = x @ x.T
    return x.roll(1, 0), x.roll(-9, 0), x.roll((1, 2), (0, 1)), y.diagonal(), y.diagonal(1), y.diagonal(-2), x.diff(dim=0), x.diff(2, 0, x[:1])


def written(x):
    out = torch.zeros(x.shape[0] + 1, 4)
    out[1:] = x
    y = x * 1
    y[1:] += x[:-1]
    y[-1] = 0
    y[::2] *= 2
    y[1:-1].add_(1)
    y[:2] = 3
    y.chunk(2, 1)[0].mul_(2)
    return out, y


class OpenSizes(CommandTest):
    def lowered(self, backend):
        self.octet("lower", self.path("q.pt2"), "--backend", backend, "--output", self.path(backend + ".octet"))
        return backend + ".octet"

    def backends(self):
        return [name for name in ("reference", "onednn", "xnnpack") if name in self.octet("lower", "--help")[0]]

    def interpreted(self, inputs):
        """For each sizes: the file of the inputs, and what the q/dq graph gives for them."""
        results = {}
        for sizes, values in inputs.items():
            name = "x_" + "_".join(map(str, sizes)) + ".pt"
            self.save(name, values)
            results[sizes] = name, self.run_file("q.pt2", name)[0]
        return results

    def test_images(self):
        torch.manual_seed(0)
        self.export(SmallNet().requires_grad_(False), torch.randn(2, 3, 32, 32), dynamic_shapes=({0: Dim("batch", min=1, max=16)},))
        self.save("calibration.pt", [(torch.randn(2, 3, 32, 32),) for _ in range(4)])
        self.octet("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--calibration", self.path("calibration.pt"), "--output", self.path("q.pt2"))
        step = last_scale(self.inspect("q.pt2")["nodes"])
        wanted = self.interpreted({(batch,): (torch.randn(batch, 3, 32, 32),) for batch in (1, 3, 16)})
        for backend in self.backends():
            program = self.lowered(backend)
            for sizes, (x, want) in wanted.items():
                with self.subTest(backend=backend, sizes=sizes):
                    got = self.run_file(program, x)[0]
                    self.assertEqual(got.shape, want.shape)
                    self.assertLess((got - want).abs().max().item(), 2.01 * step)
        self.save("x.pt", (torch.randn(17, 3, 32, 32),))
        self.assertRegex(self.fails("run", self.path(program), "--inputs", self.path("x.pt"), "--outputs", self.path("y.pt")),
                         r"^octet: session: input 0 \(x\): dimension 0 is 17, want 1 to 16; give an input of that size$")
        self.assertRegex(self.octet("inspect", self.path("q.pt2"))[0], r"f32\[s\d+, 3, 32, 32\]\n(.*\n)*size s\d+: 1 to 16, dimension 0 of input 0 \(%x\)\n$")
        shown = self.inspect(program)
        self.assertEqual([(symbol["min"], symbol["max"], symbol["hint"]) for symbol in shown["symbols"]], [(1, 16, 2)])
        self.assertEqual(shown["inputs"][0]["sizes"], [shown["symbols"][0]["name"], 3, 32, 32])
        self.assertRegex(self.octet("inspect", self.path(program))[0], r"^symbol s\d+ \(dimension 0 of x\) from 1 to 16, lowered at 2\ninput x f32\[s\d+,3,32,32\]\n")

    def test_sentences(self):
        torch.manual_seed(0)
        sizes = {0: Dim("batch", min=1, max=8), 1: Dim("length", min=2, max=64)}
        words = lambda batch, length: (torch.randint(0, 50, (batch, length)), torch.ones(batch, length, dtype=torch.long))
        self.export(Attention().requires_grad_(False), *words(2, 10), dynamic_shapes=(sizes, sizes))
        self.save("calibration.pt", [words(2, 10) for _ in range(4)])
        for mode in ([], ["--mode", "dynamic"]):
            data = [] if mode else ["--calibration", self.path("calibration.pt")]
            self.octet("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", *mode, *data, "--output", self.path("q.pt2"))
            wanted = self.interpreted({sizes: words(*sizes) for sizes in ((1, 64), (8, 2), (3, 17))})
            for backend in self.backends():
                program = self.lowered(backend)
                for sizes, (x, want) in wanted.items():
                    with self.subTest(mode=mode, backend=backend, sizes=sizes):
                        got = self.run_file(program, x)[0]
                        self.assertEqual(got.shape, want.shape)
                        self.assertLess((got - want).abs().max().item(), 0.05 * want.abs().max().item())
        self.save("x.pt", (words(2, 10)[0], words(2, 11)[1]))
        self.assertRegex(self.fails("run", self.path(program), "--inputs", self.path("x.pt"), "--outputs", self.path("y.pt")),
                         r"^octet: session: input 1 \(mask\): dimension 1 is 11, want 10, like dimension 1 of input 0 \(words\); give an input of that size$")

    def test_masks_movements_and_writes_along_an_open_dimension(self):
        torch.manual_seed(0)
        for most in (64, None):
            for function in (mask_added, triangles, counted, moved, written):
                self.export(Function(function), torch.randn(6, 4), dynamic_shapes=(({0: Dim("n", min=4, max=most)},),))
                for backend in self.backends() if most else ["reference"]:
                    self.octet("lower", self.path("model.pt2"), "--backend", backend, "--output", self.path("m.octet"))
                    for n in (4, 11):
                        with self.subTest(function=function.__name__, most=most, backend=backend, n=n):
                            x = torch.randn(n, 4)
                            want = function(x)
                            self.save("x.pt", (x,))
                            for got, one in zip(self.run_file("m.octet", "x.pt"), want if isinstance(want, tuple) else (want,), strict=True):
                                torch.testing.assert_close(got, one)

    def test_an_index_that_is_a_tensor_without_dimensions(self):
        function = lambda x, i: (x[i], x[:, i], x[i.item() - 1])
        self.export(Function(function), torch.randn(5, 4), torch.tensor(3))
        self.octet("lower", self.path("model.pt2"), "--backend", "reference", "--output", self.path("m.octet"))
        for i in (1, 3, -1):
            x = torch.randn(5, 4)
            self.save("x.pt", (x, torch.tensor(i)))
            for got, want in zip(self.run_file("m.octet", "x.pt"), function(x, torch.tensor(i)), strict=True):
                torch.testing.assert_close(got, want)


if __name__ == "__main__":
    unittest.main()
