"""octet.export_onnx: programs for other runtimes."""

import os

from octet import _octet
from octet._files import Folder
from octet._lower import graph_of
from octet._messages import told


def export_onnx(
    program,
    path: str | os.PathLike,
    *,
    opset: int | None = None,
    external_data: bool = False,
    integer_biases: bool = False,
    example_inputs=None,
) -> int:
    """Writes a program, quantized or float, as ONNX: the same as `octet export --onnx`. Gives the
    opset of the file.

    program: what quantize() gave, an ExportedProgram (torchao's converted ones, too), a module with
        example_inputs, or the path of a .pt2.
    opset: 17 to 23; None: the least that has all that the program needs.
    external_data: weights in a file beside it, PATH.data; done anyway over 2 GB.
    integer_biases: biases of convolutions of integers as int32, too.

    Raises Error that names every op without a form in ONNX.
    """
    with Folder() as folder, told(folder.names):
        graph = graph_of(folder, program, example_inputs)
        return _octet.export_onnx(graph, os.fspath(path), opset, external_data, integer_biases)
