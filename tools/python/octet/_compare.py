"""Implements octet.compare, which compares two programs op by op."""

import os
from collections.abc import Callable
from typing import Any

from octet_runtime._error import Error

from octet import _octet
from octet._data import named_metric
from octet._files import Folder
from octet._lower import graph_of
from octet._messages import as_python, told
from octet._pages import Page
from octet._quantize import Quantized
from octet._types import Data, Program, Progress


class Comparison(Page):
    """The error of each op relative to the float program, and its cause."""

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """An entry for each op: its errors, rank, cause and suggestion."""
        return self.data["nodes"]

    def show(self, top: int = 20) -> None:
        """Prints the ops with the largest errors, worst first."""
        print(as_python("\n".join(_octet.compare_table(self._text, top))))

    def csv(self) -> str:
        """CSV with a line for each op."""
        return _octet.compare_csv(self._text)

    def _texts(self) -> dict[str, Callable[[], str]]:
        return {**super()._texts(), ".csv": self.csv}

    def __repr__(self) -> str:
        return f"octet.Comparison({len(self.nodes)} ops)"


def compare(
    reference: Program,
    quantized: "Quantized | _octet.Model | Program",
    inputs: Data,
    *,
    # options
    metric: Callable[..., float] | str | None = None,
    # end of options
    lowered: "_octet.Model | None" = None,
    example_inputs: Any = None,
    progress: Progress = None,
) -> Comparison:
    """Compares a quantized program with its float program, op by op.

    reference: the float program, in any form that quantize() accepts. quantized: the result of
    quantize(), an ExportedProgram or a .pt2; or the result of lower(), which is then compared with
    the reference. inputs: batches, as the calibration of quantize(). lowered: the result of lower()
    for `quantized`. metric: a function of two tensors, the output of an op in both programs, or the
    name of one that load_library() registered; each op of `nodes` has its mean over the batches.

    Raises Error when the programs do not belong together, for an unknown metric, and for a metric
    with only a lowered program.
    """
    with Folder() as folder, told(folder.names, progress):
        path, program = folder.program(reference, example_inputs, "reference.pt2")
        graph = _octet.Graph.read(path)
        subject = None
        if isinstance(quantized, _octet.Model):
            if metric is not None:
                raise Error("compare", "metric", "applies to the ops of a graph, got a lowered program")
            lowered = quantized
        else:
            subject = graph_of(folder, quantized, file="quantized.pt2")
        data = folder.data(inputs, program, "inputs")
        name = named_metric(metric) if callable(metric) else metric
        text = _octet.compare(graph, subject, lowered, data, {"metric": name})
        files = [os.path.abspath(file) for file in (path, data) if file not in folder.names]
        made_of = [] if subject is None else subject.sources
    return Comparison(text, text, [*files, *made_of])
