"""octet.qat and octet.tune: training with fake quantization, and mixed precision."""

import json
import os
import warnings

from octet_runtime._error import Error

from octet import _octet
from octet._files import Folder
from octet._messages import told
from octet._quantize import Quantized, _labels, settings_of

CHOICES = {
    "loss": ["cross_entropy", "mse", "distill"],
    "optimizer": ["sgd", "adamw"],
    "schedule": ["constant", "cosine"],
}


def _path(path):
    return None if path is None else os.fspath(path)


def qat(
    model,
    quantizer,
    *,
    train,
    validation=None,
    example_inputs=None,
    loss: str = "cross_entropy",
    optimizer: str = "sgd",
    lr: float = 0.01,
    epochs: int = 1,
    schedule: str = "constant",
    momentum: float = 0.9,
    weight_decay: float = 0.0,
    freeze_after: int | None = None,
    learn_ranges: int | None = None,
    patience: int | None = None,
    seed: int = 0,
    state: str | os.PathLike | None = None,
    checkpoint: str | os.PathLike | None = None,
    checkpoint_every: int | None = None,
    mode: str = "static",
    config: dict | str | os.PathLike | None = None,
    per_tensor: bool = False,
    compat: str | None = None,
    progress: bool | None = None,
) -> Quantized:
    """Trains with fake quantization, then quantizes, to the same bits as `octet qat`.

    model: as quantize() takes it, exported in training mode, with parameters that require
        gradients and the batch size of the data (or a dynamic one).
    train, validation: batches, each a tuple of the program's inputs and then the target (class
        numbers, or a tensor of the output's shape for "mse"; none for "distill").
    epochs, lr, schedule, optimizer, momentum, weight_decay, patience, seed: the training's.
    freeze_after: epochs after which ranges and batch norms stay. learn_ranges: epochs after which
        scales are trained, too.
    checkpoint: a file that a broken run goes on from; checkpoint_every: batches between them.

    Raises Error for data that do not fit and for a loss that is no finite number.
    """
    choices = {"loss": loss, "optimizer": optimizer, "schedule": schedule}
    for name, given in choices.items():
        if given not in CHOICES[name]:
            words = ", ".join(f'"{word}"' for word in CHOICES[name])
            raise Error("train", name, f'got "{given}", want one of {words}')
    if epochs < 1:
        raise Error("train", "epochs", f"is {epochs}, want at least 1")
    if learn_ranges is not None and compat:
        raise Error("train", "learn_ranges", "torchao's quantizers have none; leave out compat")
    if checkpoint_every is not None and checkpoint is None:
        raise Error("train", "checkpoint_every", "goes with checkpoint; give it a file")
    with Folder() as folder, told(folder.names, progress):
        settings, _ = settings_of(
            folder,
            model,
            quantizer,
            example_inputs,
            config,
            mode=mode,
            per_tensor=per_tensor,
            compat=compat,
            lr=lr,
            epochs=epochs,
            momentum=momentum,
            weight_decay=weight_decay,
            freeze_after=freeze_after,
            learn_ranges=learn_ranges,
            patience=patience,
            seed=seed,
            state=_path(state),
            checkpoint=_path(checkpoint),
            checkpoint_every=checkpoint_every,
            **choices,
        )
        settings["train"] = folder.data(train, None, "train.pt", "train")
        if validation is not None:
            settings["validation"] = folder.data(validation, None, "validation.pt", "validation")
        return Quantized._of(_octet.qat(settings))


class Tuned(Quantized):
    """What tune() found: a quantized program, and the settings that make it."""

    def __init__(self, graph: "_octet.Graph", found: dict):
        super().__init__(graph, None)
        self._found = found

    @property
    def trials(self) -> list[dict]:
        """Each whole evaluation: "label", "config", "sqnr_db", "float_share", "accuracy", ..."""
        return self._found["trials"]

    @property
    def best(self) -> dict:
        """That of `trials` that the program is."""
        return self.trials[self._found["best"]]

    @property
    def config(self) -> dict:
        """The settings that it started from with those found, for the config of quantize()."""
        return self._found["config"]

    @property
    def reached(self) -> bool:
        """Whether the goal is met; else it is the nearest."""
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
    calibration,
    min_sqnr: float | None = None,
    max_drop: float | None = None,
    metric: str | None = None,
    min_metric: float | None = None,
    max_latency: float | None = None,
    backend: str | None = None,
    threads: int = 1,
    evaluate=None,
    labels=None,
    trials: int = 25,
    checkpoint: str | os.PathLike | None = None,
    example_inputs=None,
    mode: str = "static",
    config: dict | str | os.PathLike | None = None,
    per_tensor: bool = False,
    training_mode: str = "error",
    progress: bool | None = None,
) -> Tuned:
    """Leaves as little float as it takes for outputs as near to the float program's as wanted: the
    same as `octet tune`.

    calibration, evaluate, labels: as those of quantize().
    min_sqnr: wanted in dB, in the median over batches; or max_drop: at most this share of the
        samples lost (needs labels); or min_metric: at least so much of a metric, by the name that
        load_library() made known. max_latency: milliseconds on the backend, timed for each trial.
    trials: at most so many whole evaluations. config: settings to start from.

    Warns when the goal is not reached. Raises Error for goals that do not fit.
    """
    if not 1 <= trials <= 1000:
        raise Error("tune", "trials", f"is {trials}, want 1 to 1000")
    with Folder() as folder, told(folder.names, progress):
        settings, program = settings_of(
            folder,
            model,
            quantizer,
            example_inputs,
            config,
            mode=mode,
            per_tensor=per_tensor,
            training_mode=training_mode,
            min_sqnr=min_sqnr,
            max_drop=max_drop,
            metric=metric,
            min_metric=min_metric,
            max_latency=max_latency,
            backend=backend,
            threads=threads,
            trials=trials,
            checkpoint=_path(checkpoint),
        )
        settings["calibration"] = folder.data(calibration, program, "calibration.pt", "calibration")
        if evaluate is not None:
            settings["evaluate"] = folder.data(evaluate, program, "evaluate.pt", "evaluate")
        if labels is not None:
            settings["labels"] = _labels(folder, labels)
        graph, found = _octet.tune(settings)
    tuned = Tuned(graph, json.loads(found))
    if not tuned.reached:
        warnings.warn(
            f"tune: the goal is not reached in {len(tuned.trials)} evaluations, the nearest is "
            f"{tuned.best['label']}; lower the goal or give more trials",
            stacklevel=2,
        )
    return tuned
