"""Buffers that a program writes (a cache, a counter, flags, a running mean): a lowered program keeps them from run to run as PyTorch's module does."""
import json
import unittest

import torch
import torch.ao.quantization.fx._decomposed  # registers the q/dq ops for torch.export.load
from support import CommandTest
from torch import nn

BACKENDS = ("reference", "onednn", "xnnpack")
STEPS = 6


class CachedAttention(nn.Module):
    """One token a call; keys and values of earlier ones are in buffers."""

    def __init__(self, width=32, heads=2, length=8):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, heads, length, width // heads))
        self.register_buffer("seen", torch.zeros(length, dtype=torch.bool))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.full((width,), 0.5))

    def forward(self, x, at):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        self.keys.index_copy_(2, at, k)
        self.values[:, :, at] = v
        self.seen[at] = True
        self.count += 1
        self.mean.mul_(0.9).add_(x.mean((0, 1)), alpha=0.1)
        scores = (q @ self.keys.mT).masked_fill(~self.seen, -1e4)
        y = scores.softmax(-1) @ self.values
        return self.out(y.transpose(1, 2).flatten(2)) + self.mean, self.count * 2


class GroupedAttention(nn.Module):
    """As transformers' StaticCache: two query heads share keys and values; a position sees the last three."""

    def __init__(self, batch=2, width=32, heads=4, groups=2, length=8):
        super().__init__()
        self.heads, self.groups = heads, groups
        self.q, self.kv = nn.Linear(width, width), nn.Linear(width, width // heads * groups * 2)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(batch, groups, length, width // heads))

    def forward(self, x, at):
        q = self.q(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = (part.unflatten(-1, (self.groups, -1)).transpose(1, 2) for part in self.kv(x).chunk(2, -1))
        caches = [self.keys.index_copy_(2, at, k), self.values.index_copy_(2, at, v)]
        wide = [c[:, :, None].expand(-1, -1, self.heads // self.groups, -1, -1).flatten(1, 2) for c in caches]
        place = torch.arange(wide[0].shape[2])
        mask = (place <= at[:, None]) & (place > at[:, None] - 3)
        return nn.functional.scaled_dot_product_attention(q, *wide, attn_mask=mask).transpose(1, 2).flatten(2)


class Window(nn.Module):
    """The last rows, shifted by a slice assignment."""

    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.zeros(4, 16))
        self.linear = nn.Linear(16, 8)

    def forward(self, x):
        rows = torch.cat([self.rows[1:], x])
        self.rows[:] = rows
        return self.linear(rows).amax(0)


def tokens():
    torch.manual_seed(7)
    return [(torch.randn(1, 1, 32), torch.tensor([i])) for i in range(STEPS)]


def rows():
    torch.manual_seed(7)
    return [(torch.randn(1, 16),) for _ in range(STEPS)]


class Buffers(CommandTest):
    def quantized(self, net, steps, functional=False):
        """q.pt2 and the outputs of its steps in PyTorch."""
        torch.manual_seed(0)
        program = torch.export.export(net().eval().requires_grad_(False), steps[0])
        torch.export.save(program.run_decompositions({}) if functional else program, self.path("model.pt2"))
        self.save("steps.pt", steps)
        self.octet("quantize", self.path("model.pt2"), "--quantizer", "x86", "--calibration", self.path("steps.pt"), "--output", self.path("q.pt2"))
        return self.in_torch("q.pt2", steps)

    def in_torch(self, name, steps):
        module = torch.export.load(self.path(name)).module()
        with torch.no_grad():
            outputs = [module(*step) for step in steps]
        return [[tensor.clone() for tensor in (output if isinstance(output, (tuple, list)) else [output])] for output in outputs]

    def lower(self, backend, source="q.pt2"):
        self.octet("lower", self.path(source), "--backend", backend, "--output", self.path("m.octet"))

    def run_steps(self, name, *options):
        self.octet("run", self.path(name), "--inputs", self.path("steps.pt"), "--steps", "--outputs", self.path("y.pt"), *options)
        return torch.load(self.path("y.pt"), weights_only=True)

    def check_steps(self, got, want, share=100):
        self.assertEqual(len(got), len(want))
        for mine, theirs in zip(got, want, strict=True):
            for a, b in zip(mine, theirs, strict=True):
                self.assertEqual(a.dtype, b.dtype)
                atol = theirs[0].abs().max().item() / share if b.is_floating_point() else 0
                torch.testing.assert_close(a, b, rtol=0, atol=atol)

    def check(self, net, steps, states):
        for functional in (False, True):
            want = self.quantized(net, steps, functional)
            self.check_steps(self.run_steps("q.pt2"), want)
            for backend in BACKENDS:
                with self.subTest(functional=functional, backend=backend):
                    self.lower(backend)
                    self.check_steps(self.run_steps("m.octet"), want)
                    self.assertEqual([state["name"] for state in self.inspect("m.octet")["states"]], states)

    def test_an_attention_with_its_cache_and_counter(self):
        self.check(CachedAttention, tokens(), ["keys", "values", "seen", "count", "mean"])

    def test_a_window_that_moves(self):
        self.check(Window, rows(), ["rows"])

    def test_float_programs_give_the_numbers_of_pytorch(self):
        steps = tokens()
        torch.manual_seed(0)
        self.export(CachedAttention(), *steps[0])
        self.save("steps.pt", steps)
        want = self.in_torch("model.pt2", steps)
        for backend in BACKENDS:
            with self.subTest(backend=backend):
                self.lower(backend, "model.pt2")
                self.check_steps(self.run_steps("m.octet"), want, share=1e5)

    def test_grouped_heads_read_the_cache_as_it_is(self):
        torch.manual_seed(3)
        steps = [(torch.randn(2, n, 32), torch.arange(at, at + n)) for at, n in ((0, 3), (3, 1), (4, 1), (5, 1), (6, 2), (1, 1))]
        torch.manual_seed(0)
        length = torch.export.Dim("length", min=1, max=8)
        program = torch.export.export(GroupedAttention().eval().requires_grad_(False), steps[0], dynamic_shapes=({1: length}, {0: length}))
        torch.export.save(program, self.path("model.pt2"))
        self.save("steps.pt", steps)
        want = self.in_torch("model.pt2", steps)
        self.save("bad.pt", [(torch.randn(2, 1, 32), torch.tensor([8]))])
        for backend in BACKENDS:
            with self.subTest(backend=backend):
                self.lower(backend, "model.pt2")
                self.check_steps(self.run_steps("m.octet"), want, share=1e5)
                text, _ = self.octet("inspect", self.path("m.octet"))
                self.assertIn("= attention(", text)
                self.assertNotIn("= expand(", text)
                error = self.fails("run", self.path("m.octet"), "--inputs", self.path("bad.pt"), "--steps", "--outputs", self.path("y.pt"))
                self.assertIn("index 8 is outside of a dimension of 8 elements", error)

    def test_caches_of_int8_give_the_numbers_of_rounded_floats(self):
        torch.manual_seed(3)
        steps = [(torch.randn(2, n, 32), torch.arange(at, at + n)) for at, n in ((0, 3), (3, 1), (4, 1), (5, 1), (6, 2), (1, 1))]
        self.save("steps.pt", steps)
        length = torch.export.Dim("length", min=1, max=8)
        program = torch.export.export(GroupedAttention().eval().requires_grad_(False), steps[0], dynamic_shapes=({1: length}, {0: length}))
        for functional, bits, share in ((False, 8, 10), (True, 8, 10), (False, 4, 3)):
            torch.export.save(program.run_decompositions({}) if functional else program, self.path("model.pt2"))
            self.octet("quantize", self.path("model.pt2"), "--quantizer", "kv_cache,x86", "--mode", "weight-only", "--weight-bits", str(bits), "--strict",
                       "--output", self.path("q.pt2"))
            want = self.run_steps("q.pt2")
            self.check_steps(want, self.run_steps("model.pt2"), share=share)
            with self.assertRaises(AssertionError):
                self.check_steps(want, self.run_steps("model.pt2"), share=1e4)
            for backend in BACKENDS:
                with self.subTest(functional=functional, bits=bits, backend=backend):
                    self.lower(backend)
                    self.check_steps(self.run_steps("m.octet"), want, share=1e4)
                    names = [state["name"] for state in self.inspect("m.octet")["states"]]
                    self.assertEqual(names, ["keys", "values", "keys.scale", "values.scale"])
                    text, _ = self.octet("inspect", self.path("m.octet"))
                    self.assertRegex(text, r"= attention\(.*i8\[2,2,8,8\].*f32\[2,2,8,1\]")
                    self.assertNotIn("= dequantize(", text)
                    with open(self.path("m.octet"), "rb") as file:
                        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
                    self.assertEqual(header["__metadata__"]["version"], "8" if bits == 8 else "9")

    def test_caches_of_int8_are_read_by_any_op(self):
        torch.manual_seed(0)
        steps = tokens()
        self.save("steps.pt", steps)
        self.export(CachedAttention(), *steps[0])
        self.octet("quantize", self.path("model.pt2"), "--quantizer", "kv_cache", "--mode", "weight-only", "--output", self.path("q.pt2"))
        want = self.run_steps("q.pt2")
        for backend in BACKENDS:
            with self.subTest(backend=backend):
                self.lower(backend)
                self.check_steps(self.run_steps("m.octet"), want, share=1e4)
                names = [state["name"] for state in self.inspect("m.octet")["states"]]
                self.assertEqual(names, ["keys", "values", "seen", "count", "mean", "keys.scale", "values.scale"])

    def test_a_cache_that_cannot_be_int8_stays_float(self):
        class Rows(nn.Module):
            def __init__(self, start, reads):
                super().__init__()
                self.reads = reads
                self.register_buffer("rows", torch.full((4, 8), start))

            def forward(self, x, at):
                before = self.rows.sum() if self.reads else 0.0
                return self.rows.index_copy_(0, at, x + before) * 2

        for start, reads, reason in ((1.0, False, "its cache does not start as zeros"), (0.0, True, "%sum_1 reads what %b_rows held before")):
            self.export(Rows(start, reads), torch.randn(1, 8), torch.tensor([0]))
            _, said = self.octet("quantize", self.path("model.pt2"), "--quantizer", "kv_cache", "--mode", "weight-only", "--output", self.path("q.pt2"), code=1)
            self.assertIn(reason, said)

    def test_a_program_without_a_cache_cannot_have_one_of_int8(self):
        self.export(nn.Linear(4, 3).eval(), torch.zeros(2, 4))
        options = ("--mode", "weight-only", "--output", self.path("q.pt2"))
        for quantizer in ("kv_cache", "x86,kv_cache"):
            error = self.fails("quantize", self.path("model.pt2"), "--quantizer", quantizer, *options)
            self.assertIn("kv_cache: the program copies no rows into a float32 buffer", error)
        self.export(GroupedAttention().eval(), torch.randn(2, 3, 32), torch.arange(3))
        error = self.fails("quantize", self.path("model.pt2"), "--quantizer", "kv_cache", "--compat", "torchao", *options)
        self.assertIn("torchao has no such quantizer", error)

    def test_states_start_anew_when_that_is_asked_for(self):
        steps = rows()
        want = self.quantized(Window, steps)
        self.lower("reference")
        got = self.run_steps("m.octet", "--reset-states")
        self.check_steps(got[:1], want[:1])
        self.save("steps.pt", steps[3:])
        self.check_steps(got[3:4], self.run_steps("m.octet")[:1])
        self.assertGreater((got[3][0] - want[3][0]).abs().max().item(), 0.01)
        text, _ = self.octet("inspect", self.path("m.octet"))
        self.assertIn("state rows is b_rows ", text)
        self.assertIn("; starts as zeros", text)

    def test_a_step_list_is_wanted_where_it_is_asked_for(self):
        self.quantized(Window, rows())
        self.lower("reference")
        _, errors = self.octet("run", self.path("m.octet"), "--inputs", self.path("steps.pt"), "--reset-states", "--outputs", self.path("y.pt"), code=2)
        self.assertIn("--reset-states requires --steps", errors)
        self.save("x.pt", rows()[0])
        self.fails("run", self.path("m.octet"), "--inputs", self.path("q.pt2"), "--steps", "--outputs", self.path("y.pt"))


if __name__ == "__main__":
    unittest.main()
