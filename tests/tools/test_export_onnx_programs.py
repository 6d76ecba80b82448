"""octet export: what whole float programs have: recurrent layers, control flow, states, complex numbers, open sizes, writes in place."""
import unittest

import torch
from onnx_export import NEAR, ExportTest
from support import sqnr
from torch import nn
from torch.export import Dim

F = nn.functional


class Programs(ExportTest):
    def test_causal_attention_of_any_length(self):
        class Causal(nn.Module):
            def forward(self, x):
                return F.scaled_dot_product_attention(x, x, x, is_causal=True)

        torch.manual_seed(0)
        self.check_same(Causal(), torch.randn(1, 2, 5, 4), others=((torch.randn(1, 2, 3, 4),), (torch.randn(1, 2, 70, 4),)), dynamic_shapes=({2: Dim("length", min=2)},))

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


if __name__ == "__main__":
    unittest.main()
