"""Inputs whose shapes fit and whose values do not: PyTorch's result or one line, on every backend."""
import unittest

import torch
from support import CommandTest, Function
from torch import nn

BACKENDS = ("reference", "onednn", "xnnpack")
TABLE = torch.arange(20.0).reshape(4, 5)


class UnfitValues(CommandTest):
    def lowered(self, function, example, **options):
        self.export(Function(function), *example, **options)
        for backend in BACKENDS:
            with self.subTest(backend=backend):
                self.octet("lower", self.path("model.pt2"), "--backend", backend, "--output", self.path("m.octet"))
                yield backend

    def refused(self, function, example, given, message):
        self.save("x.pt", given)
        for _ in self.lowered(function, example):
            self.assertRegex(self.fails("run", self.path("m.octet"), "--inputs", self.path("x.pt"), "--outputs", self.path("y.pt")), message)

    def test_indices_outside(self):
        one = torch.tensor([0, 1])
        rows = [
            (lambda n: TABLE[n], torch.tensor([0, 9]), "index 9 is outside of a dimension of 4"),
            (lambda n: TABLE[n], torch.tensor([0, -5]), "index -5 is outside of a dimension of 4"),
            (lambda n: TABLE.gather(0, n[:, None]), torch.tensor([0, -1]), "index -1 is outside of a dimension of 4"),
            (lambda n: TABLE.scatter(1, n[None], TABLE[:1, :2]), torch.tensor([0, 5]), "index 5 is outside of a dimension of 5"),
            (lambda n: TABLE.index_put((n,), TABLE[:2]), torch.tensor([0, 4]), "index 4 is outside of a dimension of 4"),
            (lambda n: nn.functional.embedding(n, TABLE), torch.tensor([0, 4]), "index 4 is outside of the table's 4 rows"),
            (lambda n: nn.functional.one_hot(n, 3), torch.tensor([0, 3]), "index 3 is outside of a dimension of 3"),
            (lambda n: n // torch.tensor([0, 1]), one, "divides an integer by zero"),
        ]
        for number, (function, given, message) in enumerate(rows):
            with self.subTest(row=number):
                self.refused(function, (one,), (given,), message)

    def test_a_batch_of_none(self):
        weight = torch.randn(6, 3, 3, 3, generator=torch.Generator().manual_seed(0))
        rows = [
            lambda x: nn.functional.conv2d(x, weight).relu().mean((2, 3)),
            lambda x: nn.functional.max_pool2d(x, 2).flatten(1).softmax(1),
            lambda x: nn.functional.layer_norm(x, (8,)) @ x.mT,
            lambda x: nn.functional.linear(x, torch.ones(4, 8)).topk(2, -1)[0],
            lambda x: x.sum(0),
        ]
        batch = {0: torch.export.Dim("batch", min=0, max=8)}
        none = torch.zeros(0, 3, 8, 8)
        self.save("x.pt", (none,))
        for number, function in enumerate(rows):
            with self.subTest(row=number):
                for _ in self.lowered(function, (torch.randn(2, 3, 8, 8),), dynamic_shapes={"inputs": (batch,)}):
                    self.assertTrue(torch.equal(self.run_file("m.octet")[0], function(none)))

    def test_a_row_that_is_masked_whole(self):
        mask = torch.tensor([[0.0, 0.0, -torch.inf], [-torch.inf] * 3, [0.0] * 3])
        x, example = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(0))
        self.save("x.pt", (x,))
        for row, function in enumerate((lambda x: (x + mask).softmax(-1), lambda x: (x + mask.T).softmax(0))):
            with self.subTest(row=row):
                self.assertTrue(function(x).isnan().any())
                for _ in self.lowered(function, (example,)):
                    torch.testing.assert_close(self.run_file("m.octet")[0], function(x), equal_nan=True)

    def test_the_greatest_of_none(self):
        batch = {0: torch.export.Dim("batch", min=0, max=8)}
        self.save("x.pt", (torch.zeros(0, 5),))
        for _ in self.lowered(lambda x: x.amax(0), (torch.randn(2, 5),), dynamic_shapes={"inputs": (batch,)}):
            line = self.fails("run", self.path("m.octet"), "--inputs", self.path("x.pt"), "--outputs", self.path("y.pt"))
            self.assertIn("max needs at least one element", line)


if __name__ == "__main__":
    unittest.main()
