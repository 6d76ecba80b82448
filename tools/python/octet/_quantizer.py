"""Defines octet.Quantizer and its specs, for quantizers written in Python."""

import dataclasses

import torch
from octet_runtime._error import Error

from octet._octet import AnnotationReport, Annotations, GraphView


@dataclasses.dataclass(frozen=True)
class QuantizationSpec:
    """Observes a tensor and computes its scale and zero point from the values seen.

    dtype: "int8", "uint8", ... or a torch.dtype. observer: "histogram", "min_max",
    "per_channel_min_max", ..., or a function without arguments (a class) that returns an object
    with the interface of torchao's observers: a call with a tensor observes it;
    calculate_qparams() returns (scales, zero points). quant_min, quant_max: both or neither.
    qscheme: "per_tensor_affine", "per_tensor_symmetric", "per_channel_affine",
    "per_channel_symmetric". ch_axis: the dimension of channels. is_dynamic: the scale is computed
    at run time. eps: the least scale.
    """

    dtype: object = "int8"
    observer: object = None
    quant_min: int | None = None
    quant_max: int | None = None
    qscheme: str | None = None
    ch_axis: int | None = None
    is_dynamic: bool = False
    eps: float | None = None
    bins: int | None = None
    averaging_constant: float | None = None
    percentile: float | None = None


@dataclasses.dataclass(frozen=True)
class SharedQuantizationSpec:
    """Uses the scale of another tensor: a value, or the input of a node, as (value, node)."""

    edge_or_node: object


@dataclasses.dataclass(frozen=True)
class FixedQParamsQuantizationSpec:
    """Uses a known scale and zero point, such as 1/256 and 0 for a sigmoid."""

    dtype: object
    scale: float
    zero_point: int
    quant_min: int | None = None
    quant_max: int | None = None
    qscheme: str | None = None


@dataclasses.dataclass(frozen=True)
class DerivedQuantizationSpec:
    """Derives scale and zero point from other tensors. An int32 bias has
    derive="product_of_scales" of the input and the weight.

    derived_from: values, or pairs (value, node that reads it). derive: "product_of_scales",
    "sum_of_scales", or a function like torchao's derive_qparams_fn: it gets a list with one
    object for each source, whose calculate_qparams() gives (scales, zero points), and returns
    the same pair, as tensors of one element or of one for each channel.
    """

    derived_from: list
    derive: object = "product_of_scales"
    dtype: object = "int32"
    quant_min: int | None = None
    quant_max: int | None = None
    qscheme: str | None = None
    ch_axis: int | None = None


class _Source:
    """The interface of an observer that a derive function uses."""

    def __init__(self, scales, zero_points):
        self._qparams = torch.tensor(scales), torch.tensor(zero_points)

    def calculate_qparams(self):
        return self._qparams


def sources(qparams):
    """The argument of a derive function: an object for each pair of lists."""
    return [_Source(*pair) for pair in qparams]


def qparams_as_lists(given, subject):
    """Converts the result of a derive function or an observer to lists (scales, zero points)."""
    try:
        scale, zero_point = (torch.as_tensor(part).flatten() for part in given)
        points = [int(point) for point in zero_point]
        if points != zero_point.tolist() or any(abs(point) >= 2**63 for point in points):
            raise ValueError
        return scale.float().tolist(), points
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise Error(
            "convert",
            subject,
            f"returned {given!r}, want (scales, zero points) as tensors, zero points whole",
        ) from None


class Quantizer:
    """Decides which tensors become integers: subclass it, and pass an object to quantize().

    In a list ([Mine(), "xnnpack"]) the first quantizer that annotates an op keeps it.
    """

    #: Whether numbers in additions and products become tensors first, so that they are quantized.
    scalars_to_constants = True

    def annotate(
        self, graph: GraphView, annotations: Annotations, report: AnnotationReport
    ) -> None:
        """Annotates nodes with specs. Called for the program, and for each body of its branches and
        loops; nodes and values become invalid when it returns.

        An exception ends quantize().
        """
        raise NotImplementedError(f"{type(self).__name__}.annotate")
