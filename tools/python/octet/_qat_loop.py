"""Trains a QatModule as `octet qat` trains a program (tools/cli/qat/train.cpp), on any device. Needs
only torch."""

import copy
import logging
import math

import torch
from octet_runtime._error import Error
from torch import nn

_LOG = logging.getLogger("octet")


class Loop:
    """options: the arguments of octet.qat(). order_of: (batches, seed, epoch) -> their order.
    Batches are flat tuples of the inputs and then the target, unless the loss is "distill"."""

    def __init__(self, module, options, device, order_of):
        self._options, self._order_of = options, order_of
        self._device = device_of(device)
        self._teacher = _teacher_of(module) if options["loss"] == "distill" else None
        self._module = module.to(self._device)
        if self._teacher is not None:
            self._teacher.to(self._device)
        self._optimizer = _optimizer_of(module, options)
        self._inputs = module.input_count

    def run(self, batches, validation=None) -> None:
        options = self._options
        torch.manual_seed(options["seed"])
        best, best_loss, since_best = None, math.inf, 0
        for epoch in range(options["epochs"]):
            self._set_up(epoch)
            sums = self._train_epoch(batches, epoch)
            line = f"epoch {epoch + 1}/{options['epochs']}: {sums}"
            if validation is not None:
                sums = self._validate(validation)
                line += f"; validation {sums}"
            _LOG.info(line)
            since_best = 0 if sums.loss() < best_loss else since_best + 1
            if since_best == 0:
                best_loss = sums.loss()
                best = copy.deepcopy(self._module.state_dict()) if options["patience"] else None
            if options["patience"] and since_best >= options["patience"]:
                _LOG.info(f"stopped: no lower loss than {best_loss:.6g} for {since_best} epochs")
                break
        if best is not None:
            self._module.load_state_dict(best)

    def _set_up(self, epoch):
        freeze, learn = self._options["freeze_after"], self._options["learn_ranges"]
        is_frozen = freeze is not None and epoch >= freeze
        self._module.train()
        self._module.enable_observers(not is_frozen)
        self._module.enable_range_learning(learn is not None and epoch >= learn and not is_frozen)
        self._module.freeze_batch_norm(is_frozen)

    def _train_epoch(self, batches, epoch):
        sums = _Sums()
        for position, index in enumerate(self._order_of(len(batches), self._options["seed"], epoch)):
            subject = f"epoch {epoch + 1} batch {index}"
            loss = self._loss_of(batches[index], subject, sums)
            if not bool(loss.isfinite()):
                raise Error(
                    "train",
                    subject,
                    f"the loss is {loss.item()}, want a finite number; lower lr, got "
                    f"{self._options['lr']}",
                )
            self._set_rate(epoch * len(batches) + position, len(batches))
            self._optimizer.zero_grad()
            loss.backward()
            self._optimizer.step()
        return sums

    def _set_rate(self, done, count):
        if self._options["schedule"] == "cosine":
            share = done / (self._options["epochs"] * count)
            rate = self._options["lr"] * 0.5 * (1 + math.cos(math.pi * share))
            for group in self._optimizer.param_groups:
                group["lr"] = rate

    @torch.no_grad()
    def _validate(self, batches):
        self._module.eval()
        self._module.enable_observers(False)
        sums = _Sums()
        for index, batch in enumerate(batches):
            self._loss_of(batch, f"validation batch {index}", sums)
        return sums

    def _loss_of(self, batch, subject, sums):
        count = self._inputs
        has_target = len(batch) == count + 1
        if not has_target and not (self._teacher is not None and len(batch) == count):
            message = f"got {len(batch)} values, want {count + 1}: the model's inputs and then the target"
            raise Error("train", subject, message)
        values = [v.to(self._device) if isinstance(v, torch.Tensor) else v for v in batch]
        outputs = self._module.run_flat(values[:count])
        if self._teacher is not None:
            loss = _distance(outputs, self._teacher, values[:count])
            sums.add(loss, 1)
            return loss
        output, target = outputs[0], values[-1]
        if not isinstance(output, torch.Tensor) or not isinstance(target, torch.Tensor):
            message = "the target and the model's first output must be tensors"
            raise Error("train", subject, message)
        if self._options["loss"] == "mse":
            loss = _mse(output, target, subject)
            sums.add(loss, 1)
            return loss
        return _cross_entropy(output, target, subject, sums)


class _Sums:
    """The loss and the accuracy of an epoch."""

    def __init__(self):
        self._loss, self._count, self._right = 0.0, 0, None

    def add(self, loss, count, right=None):
        self._loss += loss.item() * count
        self._count += count
        if right is not None:
            self._right = (self._right or 0) + right

    def loss(self) -> float:
        return self._loss / max(self._count, 1)

    def __str__(self):
        text = f"loss {self.loss():.6g}"
        if self._right is not None:
            text += f", accuracy {100 * self._right / max(self._count, 1):.2f} %"
        return text


def device_of(name) -> torch.device:
    """Raises Error for a device that is not here."""
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        said = str(error).split("\n")[0]
        raise Error("train", "device", f"torch cannot use {name!r}: {said}; give another") from None
    return device


def _optimizer_of(module, options):
    ranges = module.range_parameters()
    known = {id(parameter) for parameter in ranges}
    weights = [p for p in module.parameters() if p.requires_grad and id(p) not in known]
    if not weights:
        message = "no parameter requires gradients; export the model with parameters that do"
        raise Error("train", "model", message)
    groups = [{"params": weights, "weight_decay": options["weight_decay"]}]
    if ranges:
        groups.append({"params": ranges, "weight_decay": 0.0})
    if options["optimizer"] == "adamw":
        return torch.optim.AdamW(groups, options["lr"])
    return torch.optim.SGD(groups, options["lr"], momentum=options["momentum"])


def _teacher_of(module):
    """The float model in evaluation mode."""
    teacher = copy.deepcopy(module).eval()
    teacher.enable_observers(False)
    teacher.enable_fake_quants(False)
    return teacher


def _distance(outputs, teacher, inputs):
    with torch.no_grad():
        wanted = teacher.run_flat(inputs)
    parts = [
        nn.functional.mse_loss(output, want)
        for output, want in zip(outputs, wanted)
        if isinstance(output, torch.Tensor) and output.is_floating_point()
    ]
    if not parts:
        raise Error("train", "loss", "is distill, but the model has no floating-point output")
    return sum(parts[1:], parts[0])


def _mse(output, target, subject):
    if target.shape != output.shape:
        got, want = list(target.shape), list(output.shape)
        message = f"the target is {got}, want the shape of the output, {want}"
        raise Error("train", subject, message)
    return nn.functional.mse_loss(output, target.to(output.dtype))


def _cross_entropy(output, target, subject, sums):
    if target.is_floating_point():
        message = "the target is floating point, want class numbers; or use loss=\"mse\""
        raise Error("train", subject, message)
    classes = target.long()
    loss = nn.functional.cross_entropy(output, classes)
    right = output.detach().argmax(1).eq(classes).sum().item() if output.dim() > 1 else 0
    sums.add(loss, classes.numel(), right)
    return loss
