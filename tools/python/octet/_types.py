"""The types of arguments of the package's functions."""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias

import torch
from torch.export import ExportedProgram

from octet._quantizer import Quantizer

Path: TypeAlias = str | os.PathLike[str]
# A module goes with example_inputs, a path is that of a .pt2.
Program: TypeAlias = ExportedProgram | torch.nn.Module | Path
# Batches, each a tuple of inputs, a mapping of named inputs or the only input; or a file of them.
Data: TypeAlias = Iterable[Any] | Path
# The class of each sample; True: each batch ends with its labels.
Labels: TypeAlias = torch.Tensor | Sequence[int] | bool | Path
# Whether a bar is drawn, or a class with tqdm's protocol.
Progress: TypeAlias = bool | Callable[..., Any] | None


class TorchaoQuantizer(Protocol):
    """What quantizers of torchao and ExecuTorch are."""

    def annotate(self, model: Any) -> Any: ...

    def validate(self, model: Any) -> None: ...


OneQuantizer: TypeAlias = Quantizer | TorchaoQuantizer | dict[str, Any] | Path
QuantizerLike: TypeAlias = OneQuantizer | Sequence[OneQuantizer]
