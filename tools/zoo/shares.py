"""Which part of a q/dq program's multiply-accumulates would run on 8-bit integers."""
import torch
from torch.utils.flop_counter import FlopCounterMode

# What gives the same numbers in another shape.
SAME = {"view", "reshape", "permute", "transpose", "flatten", "unsqueeze", "squeeze", "clone",
        "contiguous", "expand", "dropout", "detach", "slice", "select"}


def is_dequantized(node):
    while isinstance(node, torch.fx.Node):
        name = str(node.target)
        if "dequantize" in name:
            return True
        if name.split(".")[1:2] == [] or name.split(".")[1] not in SAME:
            return False
        node = node.args[0]
    return False


class _Shares(torch.fx.Interpreter):
    """Counts what runs: all multiply-accumulates, and those of dequantized activations."""

    def __init__(self, module):
        super().__init__(module)
        self.total = self.int8 = 0

    def run_node(self, n):
        with FlopCounterMode(display=False) as counter:
            result = super().run_node(n)
        macs = counter.get_total_flops() // 2
        self.total += macs
        self.int8 += macs if n.args and is_dequantized(n.args[0]) else 0
        return result


def int8_share(module, inputs):
    """The shares of a converted module, on these inputs."""
    shares = _Shares(module)
    shares.run(*inputs)
    return shares.int8 / shares.total if shares.total else 0
