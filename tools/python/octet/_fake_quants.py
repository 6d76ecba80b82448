"""Fake-quants as modules: the arithmetic of the compiled ones (annotate/observers), in ops of torch
that run and have gradients on every device."""

import math

import torch
from octet_runtime._error import Error
from torch import nn

_STATE = ("min", "max", "first_min", "first_max")


class Range(nn.Module):
    """The range of what was observed: one for the tensor, or one per channel or block."""

    def __init__(self, args: dict):
        super().__init__()
        self.args = args
        for name in _STATE:
            self.register_buffer(name, torch.empty(0))
        self.register_buffer("batches", torch.zeros((), dtype=torch.int64))

    def has_data(self) -> bool:
        return self.min.numel() > 0

    def observe(self, x: torch.Tensor) -> None:
        if x.numel() == 0:
            return
        self.update(*(end.float() for end in self.ends(x)))

    def ends(self, x):
        if not self.args["qscheme"].startswith("per_channel"):
            return [end.reshape(1) for end in torch.aminmax(x)]
        channels = x.float().transpose(0, self.args["ch_axis"])
        rows = channels.unsqueeze(1) if channels.dim() == 1 else channels.flatten(1)
        return torch.aminmax(rows, dim=1)

    def update(self, low, high):
        check_finite(low, high)
        if not self.has_data() or (self.args["is_dynamic"] and self.args["affine"]):
            self.min, self.max = low, high
        else:
            self.check_count(low)
            # the blocks of a state that was loaded are in a row
            old_low, old_high = self.min.reshape_as(low), self.max.reshape_as(high)
            if "moving_average" in self.args["range"]:
                constant = self.args["averaging_constant"]
                self.min = old_low + constant * (low - old_low)
                self.max = old_high + constant * (high - old_high)
            else:
                self.min, self.max = torch.minimum(low, old_low), torch.maximum(high, old_high)
        self.count()

    def check_count(self, low):
        if low.numel() != self.min.numel():
            raise Error(
                "train",
                "",
                f"the number of ranges changed, got {low.numel()}, want {self.min.numel()}; give "
                "batches of one shape",
            )

    def count(self):
        if self.first_min.numel() == 0:
            self.first_min, self.first_max = self.min.clone(), self.max.clone()
        self.batches += 1

    def qparams(self):
        """(scale, zero point) as choose_qparams() of annotate/annotation/qparams.cpp."""
        args, eps = self.args, self.args["eps"]
        low, high = self.min.clamp(max=0), self.max.clamp(min=0)
        steps = args["quant_max"] - args["quant_min"]
        if args["qscheme"].endswith("symmetric"):
            # divides by tensors: on a GPU, torch multiplies by the reciprocal of a number
            largest = torch.maximum(-low, high)
            scale = (largest / torch.full_like(largest, steps / 2)).clamp(min=eps)
            return scale, torch.full_like(scale, self.middle(), dtype=torch.int32)
        if args["qscheme"] == "per_channel_affine_float_qparams":
            scale = (self.max - self.min) / torch.full_like(self.min, steps)
            scale = torch.where(scale > eps, scale, torch.ones_like(scale))
            return scale, -1.0 * self.min / scale
        scale = ((high - low) / torch.full_like(low, steps)).clamp(min=eps)
        zero_point = args["quant_min"] - torch.round(low / scale)
        return scale, zero_point.clamp(args["quant_min"], args["quant_max"]).int()

    def middle(self) -> int:
        """The zero point of symmetric schemes."""
        low, high = self.args["quant_min"], self.args["quant_max"]
        middle = int((low + high) / 2) if low + high >= 0 else int((low + high - 1) / 2)
        if self.args["dtype"] == "uint8" and self.args["has_custom_range"]:
            return middle
        wanted = {"uint8": 128, "uint16": 1 << 15}.get(self.args["dtype"], 0)
        return wanted if low <= wanted <= high else middle

    def learned(self) -> dict:
        """What the compiled observer takes over."""
        state = {name: getattr(self, name).detach().cpu().reshape(-1) for name in _STATE}
        return {**state, "batches": int(self.batches)}

    def _load_from_state_dict(self, state_dict, prefix, *rest):
        fit_sizes(self, state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *rest)


class BlockRange(Range):
    """One range per group, token, row or block (annotate/observers/affine.h)."""

    def blocks(self, x):
        """(the view of x, the dimensions to reduce, the shape of the scales)."""
        shape, dims, scales = [], [], []
        for size, block in zip(x.shape, self.block_size(x.shape)):
            if block == 1:
                shape.append(size)
                scales.append(size)
                continue
            if block != size:
                shape.append(size // block)
                scales.append(size // block)
            dims.append(len(shape))
            shape.append(block)
        return x.reshape(shape), dims, scales

    def block_size(self, shape) -> list[int]:
        affine = self.args["affine"]
        kind, rank = affine["granularity"], len(shape)
        if kind == "per_tensor":
            return list(shape)
        if kind == "per_block":
            given = affine["block_size"]
            return [1] * (rank - len(given)) + given
        axis = affine["axis"] % rank if kind in ("per_axis", "per_row") else rank - 1
        if kind == "per_axis":
            return [1 if dim == axis else size for dim, size in enumerate(shape)]
        block = affine["group_size"] if kind == "per_group" else shape[axis]
        return [block if dim == axis else 1 for dim in range(rank)]

    def ends(self, x):
        view, dims, _ = self.blocks(x)
        return (view.amin(dims), view.amax(dims)) if dims else (view.clone(), view.clone())

    def qparams(self):
        args, affine = self.args, self.args["affine"]
        low, high = self.min.clamp(max=0), self.max.clamp(min=0)
        least, most = args["quant_min"], args["quant_max"]

        def over(values, number):
            return values / torch.full_like(values, number)

        if affine["mapping_type"] == "SYMMETRIC":
            scale = over(torch.maximum(-low, high), (most - least) / 2)
        elif affine["mapping_type"] == "SYMMETRIC_NO_CLIPPING_ERR":
            scale = torch.maximum(over(low, least), over(high, most))
        else:
            scale = over(high - low, most - least)
        scale = scale.clamp(min=args["eps"])
        if affine["mapping_type"] == "ASYMMETRIC":
            zero_point = (least - torch.round(low / scale)).clamp(least, most)
        else:
            zero_point = torch.full_like(scale, (most + least + 1) // 2)
        if affine["scale_dtype"] is not None:
            scale = scale.to(getattr(torch, affine["scale_dtype"]))
        return scale.reshape(-1).float(), zero_point.reshape(-1).int()


class Observe(nn.Module):
    """Observes x and returns it."""

    rounds = False

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

    rounds = True

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
        before = [range_.min.clone(), range_.max.clone()] if observes else None
        try:
            result = torch.fused_moving_avg_obs_fake_quant(
                x,
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
        except (Error, RuntimeError):
            if before is None or bool(range_.min.isfinite().all() & range_.max.isfinite().all()):
                raise
            was_empty = not bool(before[0].isfinite().all())
            range_.min, range_.max = [end[:0] if was_empty else end for end in before]
            raise Error(
                "train",
                f"%{self.value}",
                "the observed values hold NaN or infinities; want finite numbers",
            ) from None
        if observes:
            range_.count()
        return result


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


def check_finite(low, high):
    """Only on the CPU: on a GPU each look at values would stall it, and convert() checks them."""
    if low.is_cpu and not bool(torch.isfinite(low).all() & torch.isfinite(high).all()):
        raise Error("train", "", "the observed values hold NaN or infinities; want finite numbers")


def fit_sizes(module, state_dict, prefix):
    """Gives buffers and parameters the sizes of those that are loaded: the first data decide them."""
    for name, own in [*module._buffers.items(), *module._parameters.items()]:
        saved = state_dict.get(prefix + name)
        if isinstance(saved, torch.Tensor):
            own.data = torch.empty(saved.shape, dtype=own.dtype, device=own.device)
