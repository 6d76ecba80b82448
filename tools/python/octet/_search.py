"""Implements octet.qat (training with fake quantization) and octet.tune (mixed precision)."""

import json
import os
import warnings

from octet import _octet
from octet._files import Folder
from octet._messages import told
from octet._quantize import Quantized, settings_of


def qat(
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
    train,
    validation=None,
    max_batches: int | None = None,
    loss: str = "cross_entropy",
    optimizer: str = "sgd",
    epochs: int = 1,
    lr: float = 0.01,
    schedule: str = "constant",
    momentum: float = 0.9,
    weight_decay: float = 0.0,
    freeze_after: int | None = None,
    state: str | os.PathLike | None = None,
    learn_ranges: int | None = None,
    patience: int | None = None,
    seed: int = 0,
    checkpoint: str | os.PathLike | None = None,
    checkpoint_every: int | None = None,
    # end of options
    example_inputs=None,
    progress: bool | None = None,
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

    Raises Error for data that do not fit and for a loss that is not finite.
    """
    given = locals()
    with Folder() as folder, told(folder.names, progress):
        settings, _ = settings_of(folder, "qat", given, "train", has_targets=True)
        return Quantized._of(_octet.qat(settings))


class Tuned(Quantized):
    """The result of tune(): a quantized program, and the settings that make it."""

    def __init__(self, graph: "_octet.Graph", found: dict):
        super().__init__(graph, None)
        self._found = found

    @property
    def trials(self) -> list[dict]:
        """Each complete evaluation: "label", "config", "sqnr_db", "float_share", "accuracy", ..."""
        return self._found["trials"]

    @property
    def best(self) -> dict:
        """The element of `trials` for the program."""
        return self.trials[self._found["best"]]

    @property
    def config(self) -> dict:
        """The initial settings with those that were found, for the config of quantize()."""
        return self._found["config"]

    @property
    def reached(self) -> bool:
        """Whether the program meets the goal; otherwise it is the nearest one."""
        return self._found["reached"]

    def __reduce__(self):
        _, (pt2, _, _) = super().__reduce__()
        return _restore_tuned, (pt2, self._found)

    def __repr__(self):
        return f"octet.Tuned({self.best['label']}, {len(self.trials)} trials)"

    def _repr_html_(self):
        return None


def _restore_tuned(pt2, found):
    from octet._quantize import _restore

    return Tuned(_restore(pt2, None, "")._graph, found)


def tune(
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
    calibration,
    max_batches: int | None = None,
    evaluate=None,
    labels=None,
    min_sqnr: float | None = None,
    max_drop: float | None = None,
    metric: str | None = None,
    min_metric: float | None = None,
    max_latency: float | None = None,
    backend: str | None = None,
    threads: int = 1,
    trials: int = 25,
    effort: str = "default",
    checkpoint: str | os.PathLike | None = None,
    # end of options
    example_inputs=None,
    progress: bool | None = None,
) -> Tuned:
    """Minimizes float ops for an accuracy goal, as `octet tune` does.

    calibration, evaluate, labels: as those of quantize(), but by default the last eighth of 16
        calibration batches or more, at most 8 batches, is used for evaluation only.
    min_sqnr: the goal in dB, as the median over batches; or max_drop: the greatest share of samples
        lost (needs labels); or min_metric: the least value of a metric that
        load_library() registered. max_latency: milliseconds on the backend, timed for each trial.
    trials: the greatest number of evaluations of the program. config: initial settings.

    Warns when the goal is not reached. Raises Error for goals that conflict.
    """
    given = locals()
    with Folder() as folder, told(folder.names, progress):
        settings, _ = settings_of(folder, "tune", given, "tune")
        graph, found = _octet.tune(settings)
    tuned = Tuned(graph, json.loads(found))
    if not tuned.reached:
        warnings.warn(
            f"tune: the goal was not reached in {len(tuned.trials)} evaluations, the nearest is "
            f"{tuned.best['label']}; lower the goal or give more trials",
            stacklevel=2,
        )
    return tuned
