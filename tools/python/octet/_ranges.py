"""The ranges that fake-quants follow, and their scales: the arithmetic of annotate/observers and
annotate/annotation/qparams.cpp, in ops of torch that run on every device."""

import torch
from octet_runtime._error import Error
from torch import nn

NOT_FINITE = "the observed values hold NaN or infinities; want finite numbers"
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


def check_finite(low, high):
    """Only on the CPU: on a GPU each look at values would stall it, and convert() checks them."""
    if low.is_cpu and not bool(torch.isfinite(low).all() & torch.isfinite(high).all()):
        raise Error("train", "", NOT_FINITE)


def fit_sizes(module, state_dict, prefix):
    """Gives tensors, whose sizes the first data decide, the sizes of those that are loaded."""
    for name, own in [*module._buffers.items(), *module._parameters.items()]:
        saved = state_dict.get(prefix + name)
        if isinstance(saved, torch.Tensor):
            own.data = torch.empty(saved.shape, dtype=own.dtype, device=own.device)
