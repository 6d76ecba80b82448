"""Implements prepare, calibrate and convert as separate steps."""

import json
from typing import Any, Literal

import torch
from octet_runtime._error import Error

from octet import _octet
from octet._data import Batches
from octet._files import Folder, exported, is_path, loaded
from octet._messages import told
from octet._qat_module import QatModule
from octet._quantize import Quantized, settings_of
from octet._types import Data, Path, Program, Progress, QuantizerLike


class Prepared:
    """A program with observers: calibrate() it, then convert() it once."""

    def __init__(self, prepared: "_octet.Prepared", program, names, is_recorded=False):
        self._prepared, self._program, self._names = prepared, program, names
        self._is_recorded = is_recorded
        self._batches = 0

    def __repr__(self) -> str:
        return f"octet.Prepared({self._batches} batches seen)"

    @property
    def annotations(self) -> dict[str, Any]:
        """The annotation of each op and the state of the observers, as written by
        `octet quantize --dump-annotations`."""
        return json.loads(self._prepared.annotations())

    def save_state(self, path: Path) -> None:
        """Writes what the observers have seen, as `octet calibrate --state` does."""
        self._prepared.save_state(path)

    def load_state(self, path: Path) -> None:
        """Restores what observers of the same program and quantizer had seen.

        Raises Error when the state belongs to others.
        """
        with told(self._names):
            self._prepared.load_state(path)


def prepare(
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
    # end of options
    example_inputs: Any = None,
) -> Prepared:
    """Annotates a program and inserts observers. Arguments: as in quantize().

    Raises Error when the quantizer finds nothing to quantize.
    """
    given = locals()
    with Folder() as folder, told(folder.names):
        settings, program = settings_of(folder, "prepare", given)
        is_recorded = recorded is not None
        return Prepared(_octet.prepare(settings), program, folder.names, is_recorded)


def calibrate(
    prepared: Prepared,
    batches: Data,
    *,
    max_batches: int | None = None,
    labels: bool = False,
    progress: Progress = None,
) -> int:
    """Runs batches through the observers; may be called several times. Returns their number.

    batches, max_batches: as the calibration of quantize(), read once. labels: whether each batch
    ends with its labels, or is a mapping with "labels", which are not inputs. Raises Error for batches that do not fit
    and for values that are not finite.
    """
    if max_batches is not None and max_batches < 1:
        raise Error("calibrate", "max_batches", f"is {max_batches}, want at least 1")
    with Folder() as folder, told(folder.names, progress):
        folder.names |= prepared._names
        if prepared._is_recorded or is_path(batches):
            data = folder.data(batches, prepared._program, "batches", max_batches, labels)
            count = prepared._prepared.calibrate(data, max_batches)
        else:
            stream = Batches(batches, prepared._program, "batches", max_batches, labels)
            count = prepared._prepared.calibrate_stream(stream.next)
    prepared._batches += count
    return count


def prepare_qat(
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
    # end of options
    learn_ranges: bool = False,
    example_inputs: Any = None,
) -> QatModule:
    """A module with fake-quants for a training loop in PyTorch. Arguments: as in qat().

    learn_ranges: fake-quants whose scales can be trained (QatModule.enable_range_learning()).

    Raises Error when the quantizer finds nothing to quantize, and for observers that only the
    compiled training has.
    """
    given = locals()
    model = loaded(model)
    if isinstance(model, torch.nn.Module):
        given["model"], given["example_inputs"] = exported(model, example_inputs), None
    with Folder() as folder, told(folder.names):
        settings, _ = settings_of(folder, "prepare_qat", given)
        graph, text = _octet.training_program(settings, learn_ranges)
        path = folder.path("prepared.pt2", "the prepared program")
        graph.write(path)
        with open(settings["model"], "rb") as file:
            given["model"] = file.read()
        return QatModule(torch.export.load(path), json.loads(text), given)


def convert(prepared: Prepared | QatModule) -> Quantized:
    """Replaces observers and fake-quants by quantize and dequantize ops: once for the result of
    prepare(), as often as you like for that of prepare_qat().

    Raises Error when static quantization saw no data.
    """
    if isinstance(prepared, QatModule):
        return _convert_trained(prepared)
    with told(prepared._names):
        return Quantized._of(prepared._prepared.convert(), prepared._names)


def _convert_trained(module: QatModule) -> Quantized:
    tensors, learned = module.trained()
    given = dict(module._settings)
    with Folder() as folder, told(folder.names):
        path = folder.path("model.pt2", "the program")
        with open(path, "wb") as file:
            file.write(given["model"])
        given["model"] = path
        settings, _ = settings_of(folder, "prepare_qat", given)
        learns_ranges = given["learn_ranges"]
        outcome = _octet.convert_trained(settings, learns_ranges, tensors, learned)
        return Quantized._of(outcome, folder.names)
