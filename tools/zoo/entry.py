"""What a source of the zoo gives for each model."""
from typing import Callable, NamedTuple

import torch


class Entry(NamedTuple):
    """One model. make() gives the network, unseeded; data() its (calibration, held out) inputs, two
    lists of tuples of tensors with batch 1. Both are called in a separate process."""
    name: str  # "source/model"
    make: Callable
    data: Callable
    is_batched: bool = True  # inputs may be concatenated, for the statistics of batch norms


class Named(torch.nn.Module):
    """A network of keyword arguments as one of positional ones; of its outputs this one."""

    def __init__(self, net, inputs, output=0, **constants):
        super().__init__()
        self.net, self.names, self.output, self.constants = net, inputs, output, constants

    def forward(self, *values):
        result = self.net(**dict(zip(self.names, values)), **self.constants)
        return result[self.output]
