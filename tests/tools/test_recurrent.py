"""Recurrent layers and cells as torch.nn has them, quantized by Octet, in PyTorch."""
import unittest

import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401  registers the q/dq ops
import torchao.quantization.quant_primitives  # noqa: F401  and the affine ones
from torch import nn

from support import CommandTest, sqnr


class Cells(nn.Module):
    """Both kinds of state: a tuple and a tensor."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTMCell(6, 8)
        self.gru = nn.GRUCell(8, 8)
        self.rnn = nn.RNNCell(8, 8)

    def forward(self, x):
        hidden, _ = self.lstm(x)
        return self.rnn(self.gru(hidden))


class First(nn.Module):
    """The sequence alone, without the last state."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0]


NETS = {
    "lstm": lambda: First(nn.LSTM(6, 8, num_layers=2, bidirectional=True, batch_first=True)),
    "lstm_projected": lambda: First(nn.LSTM(6, 8, proj_size=4)),
    "gru": lambda: First(nn.GRU(6, 8, num_layers=2)),
    "rnn_tanh": lambda: First(nn.RNN(6, 8)),
    "rnn_relu": lambda: First(nn.RNN(6, 8, nonlinearity="relu", bias=False)),
    "cells": Cells,
}


class Recurrent(CommandTest):
    def check(self, *options):
        for name, make in NETS.items():
            with self.subTest(net=name):
                torch.manual_seed(0)
                net = make().requires_grad_(False).eval()
                shape = (3, 6) if name == "cells" else (5, 3, 6)
                batches = [(torch.randn(shape),) for _ in range(4)]
                self.export(net, *batches[0])
                self.save("calibration.pt", batches)
                self.octet("quantize", self.path("model.pt2"), "--output", self.path("q.pt2"), "--strict", *options)
                program = torch.export.load(self.path("q.pt2"))
                matrices = [tensor.dtype for tensor in program.state_dict.values() if tensor.dim() == 2]
                self.assertEqual(matrices, [torch.int8] * sum(parameter.dim() == 2 for parameter in net.parameters()))
                x = torch.randn(shape)
                self.save("x.pt", (x,))
                result = program.module()(x)
                torch.testing.assert_close(self.run_file("q.pt2")[0], result, rtol=0, atol=1e-6)
                self.assertGreater(sqnr(net(x), result), 25)

    def test_static(self):
        for quantizer in ("xnnpack", "x86"):
            self.check("--quantizer", quantizer, "--calibration", self.path("calibration.pt"))

    def test_dynamic(self):
        self.check("--quantizer", "xnnpack", "--mode", "dynamic")

    def test_weight_only(self):
        self.check("--quantizer", "xnnpack", "--mode", "weight-only")

    def test_compat_goes_through_all_steps_with_a_static_gru(self):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(6, 6), First(nn.GRU(6, 8))).requires_grad_(False).eval()
        x = torch.randn(5, 3, 6)
        self.export(net, x)
        self.save("calibration.pt", [(x,)])
        self.octet("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--compat", "torchao", "--calibration", self.path("calibration.pt"),
                   "--output", self.path("q.pt2"))
        self.assertGreater(sqnr(net(x), torch.export.load(self.path("q.pt2")).module()(x)), 25)


if __name__ == "__main__":
    unittest.main()
