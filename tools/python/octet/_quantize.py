"""Implements octet.quantize, which quantizes a float program."""

import html
import json
import math
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from octet_runtime._error import Error
from torch.export import ExportedProgram

from octet import _octet
from octet._data import Batches, Kept, named_metric, unlabeled
from octet._files import Folder, exported, is_path, loaded
from octet._messages import as_python, renamed, told
from octet._quantizer import Quantizer
from octet._report import Report
from octet._torchao import FromTorchao, is_torchao
from octet._types import Data, Labels, Path, Program, Progress, QuantizerLike


_OTHER_FORMS = {
    ".octet": "octet.lower(q, backend).save()",
    ".onnx": "octet.export_onnx()",
}


def check_form(path: str) -> None:
    for suffix, instead in _OTHER_FORMS.items():
        if path.endswith(suffix):
            message = f"want a name that ends in .pt2; {instead} writes that form"
            raise Error("output", path, message)


class Quantized:
    """A quantized program: a graph with quantize and dequantize ops, and its report.

    Pickling includes the .pt2 and the report.
    """

    def __init__(self, graph: "_octet.Graph", report: Any, io: str = ""):
        self._graph, self._report, self._io = graph, report, io

    @classmethod
    def _of(cls, outcome: "_octet.Outcome", names: dict[str, str]) -> "Quantized":
        """names: of temporary files, for the report."""
        graph = outcome.graph
        texts = (renamed(text, names) for text in (outcome.report, outcome.page))
        lines = [as_python(line) for line in outcome.lines]
        report = Report(*texts, lines, graph.sources)
        return cls(graph, report, outcome.io)

    @property
    def report(self) -> Report:
        """What was quantized, how, and the loss of accuracy."""
        return self._report

    @property
    def quantized_io(self) -> dict[str, Any] | None:
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

    def save(self, path: Path) -> None:
        """Writes a .pt2 for `octet lower` and torch.export.load, whole or not at all.

        Raises Error for the suffix of another form, and when it cannot be written.
        """
        check_form(os.fspath(path))
        self._graph.write(path)

    def __reduce__(self) -> tuple[Any, ...]:
        with tempfile.TemporaryDirectory(prefix="octet-") as folder:
            path = os.path.join(folder, "quantized.pt2")
            self._graph.write(path)
            with open(path, "rb") as file:
                return _restore, (file.read(), self._report, self._io)

    def __repr__(self) -> str:
        return f"octet.Quantized({self._report!r})"

    def _repr_html_(self) -> str:
        """The figures; the page, which is large, is that of `report`."""
        text = html.escape(f"{self!r}\n{self._report}")
        return f"<pre>{text}\nThe page with all ops: .report, .report.save(\"q.html\")</pre>"


def _restore(pt2: bytes, report: Any, io: str) -> Quantized:
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
    _check_plain(function, given, stage)
    parts = given["quantizer"]
    parts = list(parts) if isinstance(parts, (list, tuple)) else [parts]
    has_labels = given.get("labels") is True
    model, parts = _rewritten(given, parts, function in ("qat", "prepare_qat"), has_labels)
    path, program = folder.program(*model)
    own = {}
    settings = {"model": path, "quantizer": named(folder, parts, own)}
    _octet.set_quantizers(own)
    for name, kind, _ in arguments:
        if given[name] is not None and not (kind == "labels" and has_labels):
            limit = given.get("max_batches") if name in ("calibration", "train") else None
            of = None if has_targets else program
            settings[name] = folder.given(name, kind, given[name], of, limit, has_labels)
            if kind == "function" and callable(settings[name]):
                settings[name] = named_metric(given[name])
    if has_labels:
        settings["labels"] = _labels_of(folder)
    return settings, program


def _check_plain(function, given, stage):
    arguments = _octet.arguments(function)
    plain = {name: given[name] for name, kind, _ in arguments if kind in ("text", "file")}
    _octet.check_settings(function, plain, stage)


def _labels_of(folder):
    """Writes the labels of the data that are evaluated, which have them; or returns the path that
    they will have when a stream has been read."""
    path = folder.path("labels.pt", "labels")
    held = folder.held.get("evaluate") or folder.held.get("calibration")
    if held is not None:
        torch.save(held.all_labels(), path)
    return path


# With these, quantize() reads the batches several times.
_NEEDS_LIST = ("passes", "checkpoint", "recorded", "state")


def _takes_stream(given) -> bool:
    """Whether the calibration batches are read once and dropped."""
    batches = given["calibration"]
    return (
        batches is not None
        and not is_path(batches)
        and not isinstance(batches, (Sequence, torch.Tensor, Mapping))
        and given["effort"] == "default"
        and not given["hold_out"]
        and all(given[name] is None for name in _NEEDS_LIST)
    )


def _quantize_stream(folder, given):
    batches = given["calibration"]
    given["calibration"] = None
    settings, program = settings_of(folder, "quantize", given)
    has_labels = given["labels"] is True
    stream = Batches(batches, program, "calibration", given["max_batches"], has_labels)
    kept = Kept(stream)

    def next_batch():
        batch = kept.next()
        if batch is None and has_labels and given["evaluate"] is None:
            torch.save(kept.all_labels(), settings["labels"])
        return batch

    key = folder.hold("the last calibration batches", "calibration", kept)
    return _octet.quantize(settings, next_batch, key)


def measured(stage, validate, model, may_be_infinite=False) -> float:
    """What the user's function returns for a model; raises Error unless it is a number."""
    if isinstance(model, torch.nn.Module):
        # Functions for test sets call it, but modules of torch.export refuse to change their mode.
        model.eval = lambda: model
    value = validate(model)
    try:
        number = float(value)
    except (RuntimeError, TypeError, ValueError):
        number = math.nan
    if math.isnan(number) or math.isinf(number) and not may_be_infinite:
        kind = "number" if may_be_infinite else "finite number"
        raise Error(stage, "validate", f"returned {value!r}, want a {kind}")
    return number


def _measured_float(given) -> float:
    """Measures the float program. Done first: a function that fails costs no calibration."""
    _check_plain("quantize", given, "quantize")
    model, examples = _model_of(given, given["labels"] is True)
    if is_path(model):
        _octet.Graph.read(model)  # raises Error for other files
        program = torch.export.load(model)
    else:
        program = exported(model, examples)
        given["model"], given["example_inputs"] = program, None
    return measured("quantize", given["validate"], _own_module(program))


def _own_module(program: ExportedProgram) -> torch.nn.Module:
    """program.module(); running it or moving it to a device does not change the program."""
    module, buffers = program.module(), {}
    for part in module.modules():
        for name, value in part._parameters.items():
            if value is not None:
                part._parameters[name] = torch.nn.Parameter(value.detach(), value.requires_grad)
        for name, value in part._buffers.items():
            if value is not None:
                part._buffers[name] = buffers.setdefault(id(value), value.clone())
    return module


def _model_of(given, has_labels):
    """(the model, its example inputs)"""
    model, examples = loaded(given["model"]), given["example_inputs"]
    batches = given.get("calibration")
    is_list = isinstance(batches, (list, tuple)) and len(batches) > 0
    if examples is None and isinstance(model, torch.nn.Module) and is_list:
        examples = unlabeled(batches[0], "calibration, batch 0")[0] if has_labels else batches[0]
        examples = torch.utils._pytree.tree_map(
            lambda leaf: torch.as_tensor(leaf) if isinstance(leaf, np.ndarray) else leaf, examples
        )
    return model, examples


def _rewritten(given, parts, is_qat, has_labels):
    """((the model, its example inputs), the quantizers), after those of torchao have rewritten the
    program."""
    model, examples = _model_of(given, has_labels)
    theirs = [part for part in parts if is_torchao(part)]
    if not theirs:
        return (model, examples), parts
    if is_path(model):
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
        elif is_path(part):
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
    model: Program,
    quantizer: QuantizerLike,
    *,
    # options
    config: dict[str, Any] | Path | None = None,
    mode: Literal["static", "dynamic", "weight-only"] = "static",
    per_tensor: bool = False,
    weight_bits: int | None = None,
    activation_bits: int | None = None,
    group_size: int | None = None,
    reduce_range: bool = False,
    fold_bn: Literal["auto", "off"] = "auto",
    recorded: Path | None = None,
    compat: Literal["torchao", "torchao@0.18"] | None = None,
    training_mode: Literal["error", "ok"] = "error",
    calibration: Data | None = None,
    max_batches: int | None = None,
    state: Path | None = None,
    effort: Literal["none", "default", "high"] = "default",
    passes: list[str] | None = None,
    checkpoint: Path | None = None,
    evaluate: Data | None = None,
    labels: Labels | None = None,
    hold_out: int | None = None,
    drop_example_inputs: bool = False,
    reference: bool = False,
    for_backend: str | None = None,
    qdq: Literal["decomposed", "affine", "native"] = "decomposed",
    quantized_io: bool = False,
    quantized_inputs: list[int] | None = None,
    quantized_outputs: list[int] | None = None,
    # end of options
    validate: Callable[[Any], float] | None = None,
    example_inputs: Any = None,
    progress: Progress = None,
) -> Quantized:
    """Quantizes a program, to the same bits as `octet quantize`.

    model: an ExportedProgram, a torch.nn.Module (with example_inputs, by default the first batch of
        a list), "hf:FOLDER" for a model of transformers, or the path of a .pt2.
    quantizer: "x86", "xnnpack", ... (octet.quantizers()), the path of a JSON file, its contents as
        a dict, an octet.Quantizer, one of torchao's Quantizers (unchanged), or a list of these.
    calibration: an iterable of batches, each a tuple of the program's inputs, a mapping of named
        inputs or the only input; or the path of such a list written by torch.save. Static
        quantization needs it. max_batches: the greatest number of batches to read. A list is not
        copied. Other iterables are read once and not kept, so with max_batches they may be endless;
        with effort, passes, checkpoint, recorded or hold_out they are kept in memory.
    evaluate, labels: batches on which the outputs are compared with those of the float program, and
        the class of each sample; by default the last calibration batches, of which hold_out are not
        used for calibration. labels=True: each batch of calibration and evaluate ends with its
        labels, as a DataLoader gives them, or is a mapping with "labels".
    validate: a function of a torch.nn.Module that returns a number, such as yours for the test set.
        The report has what it returns for the float program, which it gets before calibration, and
        for the quantized one.
    mode: "static", "dynamic" (activations get their scale at run time) or "weight-only".
    config: settings by op, module and name that override the quantizer's: a dict or a JSON file.
    effort, passes, checkpoint: "high" spends time on accuracy; the checkpoint allows to resume.
    weight_bits, activation_bits, group_size, per_tensor, reduce_range: how weights and activations
        are stored.
    quantized_io: inputs and outputs are integer tensors where the program quantizes them;
        quantized_inputs and quantized_outputs: only those with these indices.
    for_backend: the backend of which report.quality has the share that it computes with integers,
        "backend_share"; by default that of the quantizer.
    reference: the program has integer arithmetic instead of quantize and dequantize ops.
    qdq: "affine" writes these ops as those of torchao, and "native" as ATen ops, with the same bits:
        PyTorch runs a native program without torch.ao and without Octet, but lower() does not take
        it.
    compat: "torchao" for the same choices as torchao.
    progress: whether a bar is drawn on stderr; None: if stderr is a terminal. A class with tqdm's
        protocol, such as tqdm.auto.tqdm, makes a bar for each stage of the work.

    Raises Error for programs that cannot be quantized, and KeyboardInterrupt on Ctrl-C, at the next
    batch.
    """
    given = locals()
    before = None if validate is None else _measured_float(given)
    with Folder() as folder, told(folder.names, progress):
        if _takes_stream(given):
            outcome = _quantize_stream(folder, given)
        else:
            settings, _ = settings_of(folder, "quantize", given)
            outcome = _octet.quantize(settings, None, "")
        q = Quantized._of(outcome, folder.names)
    if before is not None:
        q.report._add_validation(before, measured("quantize", validate, q.module()))
    return q
