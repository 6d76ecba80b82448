"""Loops and branches: torchao beside Octet on scan and while_loop, and Octet's own programs in PyTorch.

torchao can convert a body with per-channel weights but torch.export cannot save it (its scales are attributes of the body), so torchao itself is asked
here, not a file that it wrote.
"""
import unittest

import torch
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
from torch import nn
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from support import CommandTest, sqnr


class ScanNet(nn.Module):
    """A recurrent net whose step is written out."""

    def __init__(self):
        super().__init__()
        self.input = nn.Linear(6, 8)
        self.hidden = nn.Linear(8, 8)

    def forward(self, xs, h):
        def step(h, x):
            h = torch.relu(self.input(x) + self.hidden(h))
            return h, h.clone()

        return scan(step, h, xs)


class WhileNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, count, x):
        def unfinished(count, x):
            return count < 3

        def step(count, x):
            return count + 1, torch.relu(self.linear(x)) + x

        return while_loop(unfinished, step, (count, x))


class CondNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: torch.relu(self.first(x)), lambda x: self.second(x) + x, (x,))


def scan_batch(seed):
    torch.manual_seed(seed)
    return torch.randn(5, 2, 6), torch.randn(2, 8)


def while_batch(seed):
    torch.manual_seed(seed)
    return torch.tensor(0), torch.randn(2, 8)


def cond_batch(seed):
    torch.manual_seed(seed)
    return (torch.randn(2, 8).abs() * (1 if seed % 2 else -1),)


def run(program, batch):
    # Observers decide on values, which a higher-order op's tracing for autograd cannot follow.
    with torch.no_grad(), torch._C._AutoDispatchBelowAutograd():
        outputs = program(*batch)
    return [output for output in (outputs if isinstance(outputs, (tuple, list)) else [outputs]) if output.is_floating_point()]


def bodies(module):
    """The graphs within a module, by name."""
    return {name: inner.graph for name, inner in module.named_modules() if name and isinstance(inner, torch.fx.GraphModule)}


def quantized_ops(module):
    """The ops of each body in order, and each scale and zero point."""
    result = {}
    for name, graph in bodies(module).items():
        calls = [node for node in graph.nodes if node.op == "call_function"]
        literals = [node.args[1:3] for node in calls if "quantize_per_tensor" in str(node.target)]
        result[name] = (sorted(str(node.target) for node in calls), sorted(literals))
    return result


class ControlFlow(CommandTest):
    def quantize(self, net, batches, *options):
        """Octet's program, as PyTorch loads it, and the float outputs of the first batch."""
        torch.manual_seed(0)
        net = net().requires_grad_(False).eval()
        self.export(net, *batches[0])
        self.save("calibration.pt", batches)
        self.octet("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--calibration", self.path("calibration.pt"),
                   "--output", self.path("q.pt2"), *options)
        return torch.export.load(self.path("q.pt2"))

    def peer(self, batches, per_channel):
        module = torch.export.load(self.path("model.pt2")).module(check_guards=False)
        quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=per_channel))
        prepared = prepare_pt2e(module, quantizer)
        for batch in batches:
            run(prepared, batch)
        return convert_pt2e(prepared)

    def check_equal(self, net, make_batch):
        batches = [make_batch(seed) for seed in range(4)]
        for per_channel in (False, True):
            with self.subTest(per_channel=per_channel):
                octet = self.quantize(net, batches, "--compat", "torchao", *([] if per_channel else ["--per-tensor"])).module()
                peer = self.peer(batches, per_channel)
                mine, theirs = quantized_ops(octet), quantized_ops(peer)
                self.assertEqual(mine.keys(), theirs.keys())
                for name, (ops, literals) in theirs.items():
                    self.assertEqual(mine[name][0], ops)
                    self.assertGreater(len(literals), 0) if "cond" not in name else self.assertEqual(len(literals), 0)
                    for got, want in zip(mine[name][1], literals, strict=True):
                        self.assertEqual(got[1], want[1])
                        self.assertAlmostEqual(got[0], want[0], delta=1e-5 * want[0])
                for batch in batches:
                    for got, want in zip(run(octet, batch), run(peer, batch), strict=True):
                        torch.testing.assert_close(got, want, rtol=0, atol=1e-5)

    def test_scan_op_quantization(self):
        self.check_equal(ScanNet, scan_batch)

    def test_while_loop_op_quantization(self):
        self.check_equal(WhileNet, while_batch)

    def check_own(self, net, make_batch, weights, bodies_quantized):
        batches = [make_batch(seed) for seed in range(8)]
        program = self.quantize(net, batches)
        frozen = [tensor for tensor in program.state_dict.values() if tensor.dim() == 2]
        self.assertEqual([tensor.dtype for tensor in frozen], [torch.int8] * weights)
        counted = sum(any("dequantize_per_channel" in op for op in ops) for ops, _ in quantized_ops(program.module()).values())
        self.assertEqual(counted, bodies_quantized)
        torch.manual_seed(0)
        floats = net().eval()
        for seed in (100, 101):
            batch = make_batch(seed)
            results = run(program.module(), batch)
            for got, want in zip(results, run(floats, batch), strict=True):
                self.assertGreater(sqnr(want, got), 20)
            self.save("x.pt", batch)
            mine = [tensor for tensor in self.run_file("q.pt2") if tensor.is_floating_point()]
            for got, want in zip(mine, results, strict=True):
                torch.testing.assert_close(got, want, rtol=0, atol=1e-6)

    def test_a_scan_loads_in_pytorch_with_int8_weights_alone(self):
        self.check_own(ScanNet, scan_batch, weights=2, bodies_quantized=1)

    def test_a_while_loop_loads_in_pytorch_with_int8_weights_alone(self):
        self.check_own(WhileNet, while_batch, weights=1, bodies_quantized=1)

    def test_both_branches_of_a_cond_load_in_pytorch_with_int8_weights_alone(self):
        self.check_own(CondNet, cond_batch, weights=2, bodies_quantized=2)


if __name__ == "__main__":
    unittest.main()
