"""Fake-quants as modules: the arithmetic of the compiled ones (annotate/observers), in ops of torch
that run and have gradients on every device."""

import math

import torch
from octet_runtime._error import Error
from torch import nn

from octet._ranges import NOT_FINITE, BlockRange, Range, check_finite, fit_sizes


class Observe(nn.Module):
    """Observes x and returns it."""

    def __init__(self, args: dict, value: str):
        super().__init__()
        self.args, self.value = args, value
        self.range = (BlockRange if args["affine"] else Range)(args)
        self.observer_enabled = self.fake_quant_enabled = True

    def observes(self) -> bool:
        return self.observer_enabled and self.training

    def has_data(self) -> bool:
        return self.range.has_data()

    def needs_data(self) -> bool:
        return not self.args["is_dynamic"] and not self.has_data()

    def forward(self, x):
        x = _widened(x)
        try:
            with torch.no_grad():
                self.observe(x.detach())
            return self.round(x) if self.fake_quant_enabled and x.numel() > 0 else x
        except Error as error:
            if error.subject:
                raise
            raise Error("train", f"%{self.value}", error.message) from None

    def observe(self, x):
        if self.observes():
            self.range.observe(x)

    def round(self, x):
        return x

    def learned(self) -> dict:
        return self.range.learned()

    def extra_repr(self):
        args = self.args
        return f"%{self.value}, {args['name']}, {args['quant_min']}..{args['quant_max']}"

    def _load_from_state_dict(self, state_dict, prefix, *rest):
        fit_sizes(self, state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *rest)


class FakeQuantize(Observe):
    """Rounds to a scale that follows the range. Gradients are 1 inside of the quantized range and 0
    outside."""

    def __init__(self, args, value):
        super().__init__(args, value)
        is_float = args["qscheme"] == "per_channel_affine_float_qparams"
        self.register_buffer("scale", torch.ones(1))
        zero_point = torch.zeros(1, dtype=torch.float32 if is_float else torch.int32)
        self.register_buffer("zero_point", zero_point)

    def observe(self, x):
        # dynamic scales are those of the batch, in evaluation too
        follows = self.args["affine"] and self.args["is_dynamic"]
        if (self.observes() or follows) and x.numel() > 0:
            self.range.observe(x)
            self.scale, self.zero_point = self.range.qparams()

    def round(self, x):
        ends = self.args["quant_min"], self.args["quant_max"]
        if self.args["affine"]:
            return self.round_blocks(x, ends) if self.has_data() else x
        if not self.args["qscheme"].startswith("per_channel"):
            return torch.fake_quantize_per_tensor_affine(x, self.scale, self.zero_point, *ends)
        if not self.has_data():  # the number of channels is unknown
            return x
        axis = self.args["ch_axis"]
        return torch.fake_quantize_per_channel_affine(x, self.scale, self.zero_point, axis, *ends)

    def round_blocks(self, x, ends):
        view, dims, scales = self.range.blocks(x)
        if math.prod(scales) != self.scale.numel():
            raise Error(
                "train",
                "",
                "the number of blocks with a scale changed, got "
                f"{math.prod(scales)}, want {self.scale.numel()}; give batches of one shape",
            )
        order = [dim for dim in range(view.dim()) if dim not in dims] + dims
        ordered = view.permute(order)
        rows = ordered.reshape(self.scale.numel(), -1)
        rounded = torch.fake_quantize_per_channel_affine(
            rows, self.scale, self.zero_point, 0, *ends
        )
        back = sorted(range(len(order)), key=order.__getitem__)
        return rounded.reshape(ordered.shape).permute(back).reshape(x.shape)

    def learned(self):
        own = {"scale": self.scale, "zero_point": self.zero_point}
        return super().learned() | {name: value.detach().cpu() for name, value in own.items()}


class FixedFakeQuantize(FakeQuantize):
    """With a fixed scale and zero point."""

    def __init__(self, args, value):
        super().__init__(args, value)
        self.scale.fill_(args["scale"])
        self.zero_point.fill_(args["zero_point"])

    def observe(self, x):
        pass

    def needs_data(self):
        return False

    def learned(self):
        return {}


class FusedFakeQuantize(FakeQuantize):
    """Moving average, scale and rounding in one op."""

    def __init__(self, args, value):
        super().__init__(args, value)
        self.register_buffer("flags", torch.tensor([0, 1]), persistent=False)

    def forward(self, x):
        x = _widened(x)
        observes, rounds = self.observes(), self.fake_quant_enabled
        if x.numel() == 0 or not (observes or rounds):
            return x
        if not observes and not self.has_data():
            return super().forward(x)
        range_ = self.range
        per_channel = self.args["qscheme"].startswith("per_channel")
        if not self.has_data():
            range_.min = torch.full((x.shape[0] if per_channel else 1,), math.inf, device=x.device)
            range_.max = -range_.min
            if per_channel:
                self.scale = torch.ones_like(range_.min)
                self.zero_point = torch.zeros_like(range_.min, dtype=torch.int32)
        before = range_.min.clone(), range_.max.clone()
        try:
            result = torch.fused_moving_avg_obs_fake_quant(
                x if x.dim() else x.reshape(1),
                self.flags[int(observes) :][:1],
                self.flags[int(rounds) :][:1],
                range_.min,
                range_.max,
                self.scale,
                self.zero_point,
                self.args["averaging_constant"],
                self.args["quant_min"],
                self.args["quant_max"],
                self.args["ch_axis"],
                per_channel,
                self.args["qscheme"].endswith("symmetric"),
            )
            if observes:
                check_finite(range_.min, range_.max)
        except (Error, RuntimeError):  # the op refuses NaN only after updating the range with it
            if not observes or bool(x.detach().isfinite().all()):
                raise
            was_empty = not bool(before[0].isfinite().all())
            range_.min, range_.max = [end[:0] if was_empty else end for end in before]
            raise Error("train", f"%{self.value}", NOT_FINITE) from None
        if observes:
            range_.count()
        return result.reshape(x.shape)


class LearnableFakeQuantize(FakeQuantize):
    """With a scale and zero point that are trained once range learning begins."""

    def __init__(self, args, value):
        super().__init__(args, value)
        del self.scale, self.zero_point
        self.scale = nn.Parameter(torch.ones(1), requires_grad=False)
        self.zero_point = nn.Parameter(torch.zeros(1), requires_grad=False)
        self.is_learning = False

    def learn_range(self, enabled: bool):
        self.is_learning = enabled
        if enabled:
            self.observer_enabled = False
        for parameter in self.range_parameters():
            parameter.requires_grad_(enabled)

    def range_parameters(self) -> list[nn.Parameter]:
        is_symmetric = self.args["qscheme"].endswith("symmetric")
        return [self.scale] if is_symmetric else [self.scale, self.zero_point]

    def observe(self, x):
        if x.numel() == 0 or (not self.observes() and self.has_data()):
            return
        self.range.observe(x)
        scale, zero_point = self.range.qparams()
        for kept, value in ((self.scale, scale), (self.zero_point, zero_point)):
            kept.data = value.float()  # the optimizer keeps the parameter

    def round(self, x):
        args = self.args
        # not through autograd, which would refuse the change of what an earlier call has saved
        self.scale.data.clamp_(min=args["eps"])
        scale = self.scale if self.is_learning else self.scale.detach().clone()
        factor = 1.0
        if args["name"].startswith("lsq"):
            factor = 1 / math.sqrt(x.numel() / scale.numel() * args["quant_max"])
        # The ops round zero points up from .5 by truncating, so the range is shifted to begin at 0.
        zero_point = self.zero_point - args["quant_min"]
        last = args["quant_max"] - args["quant_min"]
        if not args["qscheme"].startswith("per_channel"):
            return torch._fake_quantize_learnable_per_tensor_affine(
                x, scale, zero_point, 0, last, factor
            )
        return torch._fake_quantize_learnable_per_channel_affine(
            x, scale, zero_point, args["ch_axis"], 0, last, factor
        )


_KINDS = {
    "observer": Observe,
    "fake_quantize": FakeQuantize,
    "fixed": FixedFakeQuantize,
    "fused": FusedFakeQuantize,
    "learnable": LearnableFakeQuantize,
}
_RANGES = (
    "min_max",
    "moving_average_min_max",
    "per_channel_min_max",
    "moving_average_per_channel_min_max",
    "affine_min_max",
    "affine_moving_average_min_max",
)


def make(args: dict, value: str) -> Observe | None:
    """The module of an observer; None: it looks at no data and rounds nothing."""
    if args["kind"] == "nothing":
        return None
    if args["kind"] != "fixed" and args["range"] not in _RANGES:
        raise Error(
            "prepare",
            f"%{value}",
            f"its observer, {args['name']}, runs in octet.qat() only; choose one with a range of "
            "min_max",
        )
    return _KINDS[args["kind"]](args, value)


def _widened(x):
    """What autocast computes in half precision is observed and rounded in float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
