"""Implements octet.quantize, which quantizes a float program."""

import json
import os
import tempfile

import torch
from octet_runtime._error import Error
from torch.export import ExportedProgram

from octet import _octet
from octet._files import Folder, exported
from octet._messages import told
from octet._quantizer import Quantizer
from octet._report import Report
from octet._torchao import FromTorchao, is_torchao


class Quantized:
    """A quantized program: a graph with quantize and dequantize ops, and its report.

    Pickling includes the .pt2 and the report.
    """

    def __init__(self, graph: "_octet.Graph", report: Report, io: str = ""):
        self._graph, self._report, self._io = graph, report, io

    @classmethod
    def _of(cls, outcome):
        graph = outcome.graph
        report = Report(outcome.report, outcome.page, outcome.lines, graph.sources)
        return cls(graph, report, outcome.io)

    @property
    def report(self) -> Report:
        """What was quantized, how, and the loss of accuracy."""
        return self._report

    @property
    def quantized_io(self) -> dict | None:
        """With quantized_io: scale, zero point and dtype of each input and output that became an
        integer tensor; None otherwise."""
        return json.loads(self._io) if self._io else None

    def exported_program(self) -> ExportedProgram:
        """Loads the program with torch.export.load. It runs, exports and compiles like any other.

        Raises Error when it calls ops of torchao (scales at run time, weights in groups), and
        torchao is not installed.
        """
        if "torchao" in self._graph.libraries():
            try:
                import torchao  # noqa: F401
            except ImportError:
                raise Error(
                    "pt2", "the program", "calls ops of torchao, which is not installed; install it"
                ) from None
        with tempfile.TemporaryDirectory(prefix="octet-") as folder:
            path = os.path.join(folder, "quantized.pt2")
            self._graph.write(path)
            return torch.export.load(path)

    def module(self) -> torch.nn.Module:
        """exported_program().module(), with the inputs and outputs of the float model."""
        return self.exported_program().module()

    def save(self, path: str | os.PathLike) -> None:
        """Writes a .pt2 for `octet lower` and torch.export.load, whole or not at all.

        Raises Error when it cannot be written.
        """
        self._graph.write(path)

    def __reduce__(self):
        with tempfile.TemporaryDirectory(prefix="octet-") as folder:
            path = os.path.join(folder, "quantized.pt2")
            self._graph.write(path)
            with open(path, "rb") as file:
                return _restore, (file.read(), self._report, self._io)

    def __repr__(self):
        return f"octet.Quantized({self._report!r})"

    def _repr_html_(self):
        return self._report._repr_html_()


def _restore(pt2: bytes, report: Report, io: str) -> Quantized:
    with tempfile.TemporaryDirectory(prefix="octet-") as folder:
        path = os.path.join(folder, "quantized.pt2")
        with open(path, "wb") as file:
            file.write(pt2)
        return Quantized(_octet.Graph.read(path), report, io)


def settings_of(folder: Folder, function, given, stage="quantize", has_targets=False):
    """(the settings for the compiled part, the ExportedProgram or None).

    given: the arguments of the function. has_targets: its batches also have targets.
    """
    arguments = _octet.arguments(function)
    plain = {name: given[name] for name, kind, _ in arguments if kind in ("text", "file")}
    _octet.check_settings(function, plain, stage)
    parts = given["quantizer"]
    parts = list(parts) if isinstance(parts, (list, tuple)) else [parts]
    model, parts = _rewritten(given, parts, is_qat=function in ("qat", "prepare_qat"))
    path, program = folder.program(*model)
    own = {}
    settings = {"model": path, "quantizer": named(folder, parts, own)}
    _octet.set_quantizers(own)
    for name, kind, _ in arguments:
        if given[name] is not None:
            limit = given.get("max_batches") if name in ("calibration", "train") else None
            of = None if has_targets else program
            settings[name] = folder.given(name, kind, given[name], of, limit)
    return settings, program


def _rewritten(given, parts, is_qat):
    """((the model, its example inputs), the quantizers), after those of torchao have rewritten the
    program."""
    model, examples = given["model"], given["example_inputs"]
    theirs = [part for part in parts if is_torchao(part)]
    if not theirs:
        return (model, examples), parts
    if isinstance(model, (str, os.PathLike)):
        raise Error(
            "quantizer",
            type(theirs[0]).__name__,
            "annotates a program in memory, got a path; give torch.export.load(path)",
        )
    program = exported(model, examples)
    folds_bn = not is_qat and given["fold_bn"] != "off"
    for index, part in enumerate(parts):
        if is_torchao(part):
            parts[index] = FromTorchao(part, program, folds_bn, is_qat)
            program = parts[index].program
    for part in parts:
        if isinstance(part, FromTorchao):
            part.program = program
    return (program, None), parts


def named(folder, parts, own):
    """The names of the quantizers for the compiled part. Adds those written in Python to `own`."""
    names = []
    for part in parts:
        if isinstance(part, Quantizer):
            name = type(getattr(part, "quantizer", part)).__name__
            if own.setdefault(name, part) is not part:
                raise Error("quantizer", name, "is in the list twice")
            names.append(name)
        elif isinstance(part, dict):
            names.append(folder.json(part, f"quantizer{len(folder.names)}.json", "the quantizer"))
        elif isinstance(part, (str, os.PathLike)):
            names.append(os.fspath(part))
        else:
            raise Error(
                "quantizer",
                type(part).__name__,
                "want a name, a JSON file or its contents, an octet.Quantizer, one of torchao's, or a "
                "list of them",
            )
    return ",".join(names)


def quantize(
    model,
    quantizer,
    *,
    # options
    config: dict | str | os.PathLike | None = None,
    mode: str = "static",
    per_tensor: bool = False,
    weight_bits: int | None = None,
    group_size: int | None = None,
    reduce_range: bool = False,
    fold_bn: str = "auto",
    recorded: str | os.PathLike | None = None,
    compat: str | None = None,
    training_mode: str = "error",
    calibration=None,
    max_batches: int | None = None,
    state: str | os.PathLike | None = None,
    effort: str = "default",
    passes: list[str] | None = None,
    checkpoint: str | os.PathLike | None = None,
    evaluate=None,
    labels=None,
    hold_out: int | None = None,
    drop_example_inputs: bool = False,
    reference: bool = False,
    quantized_io: bool = False,
    quantized_inputs: list[int] | None = None,
    quantized_outputs: list[int] | None = None,
    # end of options
    example_inputs=None,
    progress: bool | None = None,
) -> Quantized:
    """Quantizes a program, to the same bits as `octet quantize`.

    model: an ExportedProgram, a torch.nn.Module (with example_inputs), or the path of a .pt2.
    quantizer: "x86", "xnnpack", ... (octet.quantizers()), the path of a JSON file, its contents as
        a dict, an octet.Quantizer, one of torchao's Quantizers (unchanged), or a list of these.
    calibration: an iterable of batches, each a tuple of the program's inputs, a dict of named
        inputs or the only input; or the path of such a list written by torch.save. Static
        quantization needs it. max_batches: the greatest number of batches to read.
    evaluate, labels: batches on which the outputs are compared with those of the float program, and
        the class of each sample; by default the last calibration batches, of which hold_out are not
        used for calibration.
    mode: "static", "dynamic" (activations get their scale at run time) or "weight-only".
    config: settings by op, module and name that override the quantizer's: a dict or a JSON file.
    effort, passes, checkpoint: "high" spends time on accuracy; the checkpoint allows to resume.
    weight_bits, group_size, per_tensor, reduce_range: how weights and activations are stored.
    quantized_io: inputs and outputs are integer tensors where the program quantizes them;
        quantized_inputs and quantized_outputs: only those with these indices.
    compat: "torchao" for the same choices as torchao.
    progress: whether a bar is drawn on stderr; None: if stderr is a terminal.

    Raises Error for programs that cannot be quantized, and KeyboardInterrupt on Ctrl-C, at the next
    batch.
    """
    given = locals()
    with Folder() as folder, told(folder.names, progress):
        settings, _ = settings_of(folder, "quantize", given)
        return Quantized._of(_octet.quantize(settings))
