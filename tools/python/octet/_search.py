"""Implements octet.qat (training with fake quantization) and octet.tune (mixed precision)."""

import json
import os
import warnings
from collections.abc import Callable
from typing import Any, Literal

from octet_runtime._error import Error

from octet import _octet
from octet._compare import Comparison
from octet._data import Batches
from octet._files import Folder, is_path
from octet._lower import graph_of, lower
from octet._messages import renamed, told
from octet._qat_loop import Loop, device_of
from octet._quantize import Quantized, _restore, measured, settings_of
from octet._steps import convert, prepare_qat
from octet._types import Data, Labels, Path, Program, Progress, QuantizerLike


def qat(
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
    train: Data,
    validation: Data | None = None,
    max_batches: int | None = None,
    loss: Literal["cross_entropy", "distill", "mse"] = "cross_entropy",
    optimizer: Literal["adamw", "sgd"] = "sgd",
    epochs: int = 1,
    lr: float = 0.01,
    schedule: Literal["constant", "cosine"] = "constant",
    momentum: float = 0.9,
    weight_decay: float = 0.0,
    freeze_after: int | None = None,
    state: Path | None = None,
    learn_ranges: int | None = None,
    patience: int | None = None,
    seed: int = 0,
    checkpoint: Path | None = None,
    checkpoint_every: int | None = None,
    device: str = "cpu",
    # end of options
    example_inputs: Any = None,
    progress: Progress = None,
) -> Quantized:
    """Trains with fake quantization, then quantizes, to the same bits as `octet qat`.

    model: as in quantize(), exported in training mode, with parameters that require
        gradients and the batch size of the data (or a dynamic one).
    train, validation: batches, each a tuple of the program's inputs and then the target (class
        numbers, or a tensor of the output's shape for "mse"; none for "distill").
    epochs, lr, schedule, optimizer, momentum, weight_decay, patience, seed: training options.
    freeze_after: epochs after which ranges and batch norms are frozen. learn_ranges: epochs after
        which scales are trained, too.
    checkpoint: a file from which an interrupted run resumes; checkpoint_every: in batches.
    device: "cuda" or another device of torch, which trains the module of prepare_qat() with the
        same settings; without checkpoint and state.

    Raises Error for data that do not fit and for a loss that is not finite.
    """
    given = locals()
    if device != "cpu":
        return _qat_on(device, given)
    with Folder() as folder, told(folder.names, progress):
        settings, _ = settings_of(folder, "qat", given, "train", has_targets=True)
        return Quantized._of(_octet.qat(settings), folder.names)


def _qat_on(device: str, given: dict[str, Any]) -> Quantized:
    """Trains the prepared program as a torch.nn.Module on another device."""
    for name in ("state", "checkpoint", "checkpoint_every"):
        if given[name] is not None:
            message = 'applies to device="cpu"; leave it out, or train prepare_qat() in your loop'
            raise Error("train", name, message)
    plain = {name: given[name] for name, kind, _ in _octet.arguments("qat") if kind == "text"}
    _octet.check_settings("qat", plain, "train")
    device_of(device)
    names = [name for name, _, _ in _octet.arguments("prepare_qat")]
    learns = given["learn_ranges"] is not None
    module = prepare_qat(
        given["model"],
        given["quantizer"],
        **{name: given[name] for name in names},
        learn_ranges=learns,
        example_inputs=given["example_inputs"],
    )
    data = {}
    for name, limit in (("train", given["max_batches"]), ("validation", None)):
        data[name] = _held_batches(given[name], name, limit, given)
    Loop(module, given, device, _octet.order_of_batches).run(data["train"], data["validation"])
    return convert(module)


def _held_batches(batches, name, limit, given):
    if batches is None:
        return None
    if is_path(batches):
        with Folder() as folder, told(folder.names):
            program = graph_of(folder, given["model"], given["example_inputs"])
            return _octet.read_batches(os.fspath(batches), program, limit)
    held = Batches(batches, None, name, limit)
    held.hold()
    return [held.at(index) for index in range(held.size())]


class Tuned(Quantized):
    """The result of tune(): a quantized program, and the settings that make it."""

    def __init__(self, graph: "_octet.Graph", found: dict[str, Any], report: Comparison):
        super().__init__(graph, report)
        self._found = found

    @property
    def report(self) -> Comparison:  # type: ignore[override]
        """The errors of each op, as compare() returns them; a page also shows all trials."""
        return self._report

    @property
    def trials(self) -> list[dict[str, Any]]:
        """Each complete evaluation: "label", "config", "sqnr_db", "float_share", "accuracy", ..."""
        return self._found["trials"]

    @property
    def best(self) -> dict[str, Any]:
        """The element of `trials` for the program."""
        return self.trials[self._found["best"]]

    @property
    def config(self) -> dict[str, Any]:
        """The initial settings with those that were found, for the config of quantize()."""
        return self._found["config"]

    @property
    def reached(self) -> bool:
        """Whether the program meets the goal; otherwise it is the nearest one."""
        return self._found["reached"]

    def __reduce__(self) -> tuple[Any, ...]:
        _, (pt2, report, _) = super().__reduce__()
        return _restore_tuned, (pt2, self._found, report)

    def __repr__(self) -> str:
        return f"octet.Tuned({self.best['label']}, {len(self.trials)} trials)"


def _restore_tuned(pt2, found, report):
    return Tuned(_restore(pt2, None, "")._graph, found, report)


def _validator(validate, backend, threads):
    """validate() as a function of a graph, whose exceptions pass through."""

    def validate_graph(graph):
        quantized = Quantized(graph, None)
        model = lower(quantized, backend, threads=threads) if backend else quantized.module()
        return measured("tune", validate, model, may_be_infinite=True)

    return validate_graph


def tune(
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
    calibration: Data,
    max_batches: int | None = None,
    evaluate: Data | None = None,
    labels: Labels | None = None,
    min_sqnr: float | None = None,
    max_drop: float | None = None,
    metric: Callable[..., float] | str | None = None,
    min_metric: float | None = None,
    max_size: float | None = None,
    max_latency: float | None = None,
    backend: str | None = None,
    threads: int = 1,
    trials: int = 25,
    effort: Literal["default", "high"] = "default",
    checkpoint: Path | None = None,
    # end of options
    validate: Callable[[Any], float] | None = None,
    example_inputs: Any = None,
    progress: Progress = None,
) -> Tuned:
    """Finds mixed precision for an accuracy or a size, op by op, as `octet tune` does.

    calibration, evaluate, labels: as those of quantize(), but by default the last eighth of 16
        calibration batches or more, at most 8 batches, is used for evaluation only.
    min_sqnr: the goal in dB, as the median over batches; or max_drop: the greatest share of samples
        lost (needs labels); or min_metric: the least value of metric or validate; or max_size: MB
        of the .octet file, in which each op gets the bits of weights (8, 4 or 3) that make the
        smallest error, of a language model the KL divergence (mode "dynamic" or "weight-only"). The
        file is one for the backend, by default "reference"; files for other backends may be a few
        percent larger.
    max_latency: milliseconds on the backend, timed for each trial.
    metric: a function of an output of the float program and that of the quantized one, for each
        batch, or the name of one that load_library() registered. validate: a function of a model,
        such as yours for the test set; it gets a torch.nn.Module, with a backend the result of
        lower(), for the float program and for each trial. Larger is better for both.
    trials: the greatest number of evaluations of the program; max_size makes at most 5. config:
        initial settings.

    Warns when the goal is not reached. Raises Error for goals that conflict.
    """
    given = locals()
    with Folder() as folder, told(folder.names, progress):
        settings, _ = settings_of(folder, "tune", given, "tune")
        validate_graph = validate and _validator(validate, backend, threads)
        graph, found, page = _octet.tune(settings, validate_graph)
        page = renamed(page, folder.names)
    tuned = Tuned(graph, json.loads(found), Comparison(page, page, graph.sources))
    if not tuned.reached:
        warnings.warn(
            f"tune: the goal was not reached in {len(tuned.trials)} evaluations, the nearest is "
            f"{tuned.best['label']}; lower the goal or give more trials",
            stacklevel=2,
        )
    return tuned
