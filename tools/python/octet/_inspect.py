"""Implements octet.inspect, which lists the ops of a program."""

import json
import os
from typing import Any

from octet import _octet
from octet._files import Folder
from octet._lower import graph_of
from octet._messages import told
from octet._quantize import Quantized
from octet._types import Program


class Inspection:
    """str() is the table that `octet inspect` prints; `data` is its JSON."""

    def __init__(self, text: str, data: dict[str, Any] | None):
        self._text, self.data = text, data

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__


def inspect(program: "Quantized | _octet.Model | Program") -> Inspection:
    """Lists the ops of a program: the result of quantize() or lower(), an ExportedProgram, or the
    path of a .pt2 or .octet. data: nodes, inputs, outputs and counts; None for a lowered program.

    Raises Error when a file is missing or damaged.
    """
    if isinstance(program, (str, os.PathLike)) and os.fspath(program).endswith(".octet"):
        program = _octet.load(program)
    if isinstance(program, _octet.Model):
        return Inspection(str(program), None)
    with Folder() as folder, told(folder.names):
        graph = graph_of(folder, program)
    return Inspection(graph.table(), json.loads(graph.json()))
