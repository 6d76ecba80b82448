"""Implements octet.export_onnx, which writes programs for other runtimes."""

import os
from typing import Any

from octet import _octet
from octet._files import Folder
from octet._lower import graph_of
from octet._messages import told
from octet._quantize import Quantized
from octet._types import Path, Program


def export_onnx(
    program: Quantized | Program,
    path: Path,
    *,
    # options
    opset: int | None = None,
    external_data: bool = False,
    integer_biases: bool = False,
    # end of options
    example_inputs: Any = None,
) -> int:
    """Writes a program, quantized or float, as ONNX, like `octet export --onnx`. Returns the opset
    of the file.

    program: the result of quantize(), an ExportedProgram (also one converted by torchao), a module
        with example_inputs, or the path of a .pt2.
    opset: 17 to 23; None: the least that can express the program.
    external_data: write weights to a separate file, PATH.data; always done over 2 GB.
    integer_biases: write biases of quantized convolutions as int32, too.

    Raises Error that names every op that ONNX cannot express.
    """
    given = locals()
    settings = {name: given[name] for name, _, _ in _octet.arguments("export_onnx")}
    with Folder() as folder, told(folder.names):
        graph = graph_of(folder, program, example_inputs)
        return _octet.export_onnx(graph, os.fspath(path), settings)
