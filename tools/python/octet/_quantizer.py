"""octet.Quantizer and its specs: quantizers of one's own, in Python."""

import dataclasses

import torch
from octet_runtime._error import Error

from octet._octet import AnnotationReport, Annotations, GraphView


@dataclasses.dataclass(frozen=True)
class QuantizationSpec:
    """A tensor is observed, and gets scale and zero point from what was seen.

    dtype: "int8", "uint8", ... or a torch.dtype. observer: "histogram", "min_max",
    "per_channel_min_max", ..., or a function without arguments (a class) that gives an object of
    the form of torchao's observers: called with a tensor, it looks at it; calculate_qparams()
    gives (scales, zero points). quant_min, quant_max: both or neither. qscheme: "per_tensor_affine",
    "per_tensor_symmetric", "per_channel_affine", "per_channel_symmetric". ch_axis: the dimension of
    channels. is_dynamic: the scale is found at run time. eps: the least scale.
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
    """A tensor has the scale of another: of a value, or of what a node reads: (value, node)."""

    edge_or_node: object


@dataclasses.dataclass(frozen=True)
class FixedQParamsQuantizationSpec:
    """Scale and zero point are known: of a sigmoid, 1/256 and 0."""

    dtype: object
    scale: float
    zero_point: int
    quant_min: int | None = None
    quant_max: int | None = None
    qscheme: str | None = None


@dataclasses.dataclass(frozen=True)
class DerivedQuantizationSpec:
    """Scale and zero point follow from others: those of an int32 bias are
    derive="product_of_scales" of the input's and the weight's.

    derived_from: values, or pairs (value, node that reads it). derive: "product_of_scales",
    "sum_of_scales", or a function as torchao's derive_qparams_fn: it gets a list with one
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
    """What a derive function sees of an observer."""

    def __init__(self, scales, zero_points):
        self._qparams = torch.tensor(scales), torch.tensor(zero_points)

    def calculate_qparams(self):
        return self._qparams


def sources(qparams):
    """What a derive function is called with: an object for each pair of lists."""
    return [_Source(*pair) for pair in qparams]


def qparams_as_lists(given, subject):
    """(scales, zero points) as lists, of what a function or an observer gave."""
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
            f"gave {given!r}, want (scales, zero points) as tensors, zero points whole",
        ) from None


class Quantizer:
    """Decides which tensors become integers: subclass it, and give an object to quantize().

    In lists ([Mine(), "xnnpack"]) the first that annotates an op keeps it.
    """

    #: Whether numbers in additions and products become tensors before, so that they are quantized.
    scalars_to_constants = True

    def annotate(
        self, graph: GraphView, annotations: Annotations, report: AnnotationReport
    ) -> None:
        """Annotates nodes with specs. Asked for the program, and for each body of its branches and
        loops; what it sees of them is gone afterwards.

        What it raises ends quantize().
        """
        raise NotImplementedError(f"{type(self).__name__}.annotate")
