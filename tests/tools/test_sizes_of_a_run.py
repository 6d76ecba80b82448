"""Sizes that only the values of a run decide (masks, nonzero, unique, item): every backend gives PyTorch's numbers."""
import unittest

import torch
import torch.ao.quantization.fx._decomposed  # registers the q/dq ops for torch.export.load
from steps_test import StepsTest
from support import Function
from torch import nn
from torch._higher_order_ops.while_loop import while_loop


class Selected(nn.Module):
    """The tokens that count go through the network, and back to their places."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x, mask):
        tokens = self.second(torch.relu(self.first(x[mask])))
        y = x.clone()
        y[mask] = tokens
        return y, tokens.sum(0)


class Kept(nn.Module):
    """A buffer that has what was selected last."""

    def __init__(self):
        super().__init__()
        self.register_buffer("last", torch.zeros(8))

    def forward(self, x, mask):
        self.last.copy_(x[mask].sum(0) + self.last)
        return x + self.last


class Branched(nn.Module):
    """Branches and loops on what was selected, and a selection within a loop."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x, mask):
        y = x[mask]
        z = torch.cond(y.sum() > 0, lambda y: self.linear(y) * 2, lambda y: y + 1, (y,))
        _, w = while_loop(lambda n, y: n < 3, lambda n, y: (n + 1, torch.tanh(self.linear(y)) + y), (torch.tensor(0), y))
        _, v = while_loop(lambda n, x: n < 2, lambda n, x: (n + 1, x + x[x > 0].mean() / x.numel()), (torch.tensor(0), x))
        return z, w, v


class Weighted(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x, mask):
        x = self.linear(x)[mask]
        return x / x.shape[0], torch.cond(mask.sum() > 2, lambda m: m * 2, lambda m: m + 1, (mask.sum(),))


def masked(*shape):
    return lambda seed: (torch.randn(*shape, 8), torch.rand(*shape) < (0, 0.5, 1, 0.3)[seed])


def number(seed):
    return (torch.randn(3, 8), torch.tensor([seed, seed + 2]))


def first_columns(x, n):
    n = n.max().item()
    torch._check(n >= 0)
    torch._check(n <= x.shape[1])
    return torch.arange(n), x[:, :n].sum(1), x[:, :n] * n


def repeats(x, n):
    y = torch.repeat_interleave(x, n, dim=0)
    torch._check(y.shape[0] <= 12)
    return y, y @ y.T


def chain(x):
    x = x.flatten()
    x = x[x > -1]
    x = x[x < 1]
    return x[x * x > 0.1] * 2, x.unsqueeze(1) @ x.unsqueeze(0)


FUNCTIONS = {
    "nonzero": (lambda x, m: (torch.nonzero(m), torch.nonzero(x > 0), torch.argwhere(m)), masked(3, 5)),
    "as_tuple": (lambda x, m: torch.nonzero(m, as_tuple=True), masked(3, 5)),
    "where": (lambda x, m: torch.where(x > 1), masked(4)),
    "masked_select": (lambda x, m: (torch.masked_select(x, m.unsqueeze(-1)), x.masked_select(x > 0)), masked(3, 5)),
    "mask_in_the_middle": (lambda x, m: x.reshape(2, 5, 8)[:, m], lambda seed: (torch.randn(2, 5, 8), torch.rand(5) < 0.5)),
    "mask_beside_index": (lambda x, m: x[m, torch.tensor([1])], masked(5)),
    "rows_that_a_mask_names": (lambda x, m: x[m] @ x[m].T, masked(5)),
    "put": (lambda x, m: torch.index_put(x, (m,), x[m] * 2), masked(3, 5)),
    "one_row_for_all": (lambda x, m: torch.index_put(x, (m,), torch.arange(8.0)), masked(3, 5)),
    "unique": (lambda x, m: torch.unique((x * 2).round(), return_inverse=True, return_counts=True), masked(4)),
    "unique_values": (lambda x, m: torch.unique((x * 2).round()), masked(4)),
    "unique_consecutive": (lambda x, m: torch.unique_consecutive(x > 0, return_inverse=True, return_counts=True), masked(4)),
    "unique_rows": (lambda x, m: torch.unique((x[..., :2]).round(), dim=1, return_inverse=True, return_counts=True), masked(2, 5)),
    "unique_consecutive_rows": (lambda x, m: torch.unique_consecutive(x > 0, dim=0, return_counts=True), masked(4)),
    "static": (lambda x, m: (torch.nonzero_static(m, size=3), torch.nonzero_static(m, size=20, fill_value=7)), masked(3, 5)),
    "repeats": (repeats, lambda seed: (torch.randn(3, 8), torch.tensor([seed, 0, 2]))),
    "repeats_of_one_sum": (lambda x, n: torch.repeat_interleave(x, n, dim=0, output_size=5), lambda seed: (torch.randn(2, 8), torch.tensor([seed, 5 - seed]))),
    "item": (first_columns, number),
    "chain": (chain, lambda seed: (torch.randn(4, 6),)),
    "count_alone": (lambda x, m: x * x[m].numel(), masked(5)),
    "count_in_every_element": (lambda x, m: (torch.full((2,), x[m].shape[0]), x[m].sum() / (x[m].shape[0] + 1)), masked(5)),
    "concatenated": (lambda x, m: torch.cat([x[m], x[~m], x]), masked(5)),
}


class SizesOfARun(StepsTest):
    def steps(self, make):
        steps = []
        for seed in (1, 0, 3, 2):  # of a mask: some, none, few, all
            torch.manual_seed(seed)
            steps.append(make(seed))
        return steps

    def test_functions(self):
        for name, (function, make) in FUNCTIONS.items():
            with self.subTest(name):
                steps = self.steps(make)
                self.export(Function(function), *steps[0])
                self.check("model.pt2", steps)

    def check_network(self, net, make, quantizers=(), **options):
        torch.manual_seed(0)
        steps = self.steps(make)
        self.export(net().requires_grad_(False), *steps[0], **options)
        self.check("model.pt2", steps)
        self.save("c.pt", steps[0::3])
        for quantizer in quantizers:
            self.octet("quantize", self.path("model.pt2"), "--quantizer", quantizer, "--calibration", self.path("c.pt"), "--output", self.path("q.pt2"))
            self.check("q.pt2", steps, 30)

    def test_selected_rows_of_a_quantized_network(self):
        self.check_network(Selected, masked(3, 5), ("x86", "xnnpack"))
        program = self.inspect("m.octet")
        self.assertEqual([op["kind"] for op in program["ops"]].count("rest"), 1)
        kinds = [(op["kind"], op["inputs"][1]["dtype"]) for op in program["bodies"][0]["ops"] if op["kind"] == "linear"]
        self.assertEqual(kinds, [("linear", "int8")] * 2)
        out, _ = self.octet("compare", self.path("model.pt2"), self.path("q.pt2"), self.path("m.octet"), "--inputs", self.path("c.pt"))
        self.assertRegex(out, r"linear_1 +\d")
        self.assertRegex(out, r"lowered outputs +\d")

    def test_dynamic_scales(self):
        torch.manual_seed(0)
        steps = self.steps(masked(3, 5))
        self.export(Selected().requires_grad_(False), *steps[0])
        self.octet("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--mode", "dynamic", "--output", self.path("q.pt2"))
        self.check("q.pt2", steps, 30, like="model.pt2")

    def test_beside_open_sizes(self):
        rows = torch.export.Dim("rows", min=2, max=64)
        make = lambda seed: (torch.randn(seed + 3, 8), torch.rand(seed + 3) < 0.6)
        self.check_network(Selected, make, ("xnnpack",), dynamic_shapes=({0: rows}, {0: rows}))

    def test_what_a_state_becomes(self):
        self.check_network(Kept, masked(5))

    def test_a_mean_and_a_branch_beside_it(self):
        self.check_network(Weighted, lambda seed: (torch.randn(5, 8), torch.rand(5) < (0.9, 0.5, 0.2, 0.7)[seed]))

    def test_branches_and_loops(self):
        self.check_network(Branched, lambda seed: (torch.randn(5, 8), torch.rand(5) < (0, 0.5, 1, 0.3)[seed]))

    def test_in_the_file(self):
        steps = self.steps(masked(5))
        self.export(Function(lambda x, m: x[m]), *steps[0])
        self.octet("lower", self.path("model.pt2"), "--backend", "reference", "--output", self.path("m.octet"))
        program = self.inspect("m.octet")
        self.assertEqual(program["outputs"][0]["max_shape"], [5, 8])
        self.assertEqual(program["outputs"][0]["min_shape"], [0, 8])
        self.assertEqual(program["bodies"][0]["symbols"], [{"name": "u0", "min": 0, "max": 5, "hint": 5}])

    def test_a_number_out_of_its_range(self):
        steps = self.steps(number)
        self.export(Function(first_columns), *steps[0])
        self.octet("lower", self.path("model.pt2"), "--backend", "reference", "--output", self.path("m.octet"))
        for found, numbers in (("9", [1, 9]), ("-3", [-3, -4])):
            self.save("x.pt", (steps[0][0], torch.tensor(numbers)))
            line = self.fails("run", self.path("m.octet"), "--inputs", self.path("x.pt"), "--outputs", self.path("y.pt"))
            self.assertRegex(line, rf"session: rest \(item_counted\): the count is {found} in this run, want 0 to 8")

    def test_refused(self):
        def without_limit(x, n):
            n = n.item()
            torch._check(n >= 0)
            return torch.zeros(n) + x.sum()

        for name, function, example, reason in (
                ("no limit", without_limit, (torch.randn(3), torch.tensor(2)), r"arange|full|zeros"),
                ("repeats", lambda x, n: torch.repeat_interleave(x, n), (torch.ones(3), torch.tensor([1, 2, 3])), r"gives the size u0, a number without a maximum"),
                ("long slices", lambda x: torch.unique(x, dim=0), (torch.ones(3, 200),), r"unique_dim \(aten.unique_dim.default\) has .* slices of more than 64"),
        ):
            with self.subTest(name):
                self.export(Function(function), *example)
                line = self.fails("lower", self.path("model.pt2"), "--backend", "onednn", "--output", self.path("m.octet"))
                self.assertRegex(line, reason)
                self.assertIn("known only when the program runs", line)


if __name__ == "__main__":
    unittest.main()
