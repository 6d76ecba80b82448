"""Defines octet.Quantizer and its specs, for quantizers written in Python."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from octet_runtime._error import Error

from octet._octet import AnnotationReport, Annotations, GraphView, Node, Value


@dataclasses.dataclass(frozen=True)
class QuantizationSpec:
    """Observes a tensor and computes its scale and zero point from the values seen.

    dtype: "int8", "uint8", ... or a torch.dtype. observer: "histogram", "min_max",
    "per_channel_min_max", ...; a dict as in JSON files ({"name": "affine_min_max", "granularity":
    "per_group", "group_size": 32}); or a function without arguments (a class) that returns an
    object with the interface of torchao's observers: a call with a tensor observes it;
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

    derived_from: list[Any]
    derive: object = "product_of_scales"
    dtype: object = "int32"
    quant_min: int | None = None
    quant_max: int | None = None
    qscheme: str | None = None
    ch_axis: int | None = None


@dataclasses.dataclass(frozen=True)
class Annotation:
    """The specs of a node: Annotations.find() returns it.

    output: with a spec for each of several results, a dict[Value, spec].
    """

    inputs: dict[Value, Any]
    output: object
    rule: str
    allow_implicit_sharing: bool


@dataclasses.dataclass(frozen=True)
class Match:
    """A place of a pattern in a program: GraphView.match() returns it.

    nodes: outermost first; root: the first of them. values: by variable of the pattern, a list for
    x...; an optional variable that is absent has no entry. consumers: the node that reads it.
    """

    root: Node
    nodes: list[Node]
    values: dict[str, Value]
    consumers: dict[str, Node]


@dataclasses.dataclass(frozen=True)
class SourcePartition:
    """The nodes that one call of a module or function became; output_nodes: those read outside."""

    nodes: list[Node]
    output_nodes: list[Node]


@dataclasses.dataclass(frozen=True)
class OpaquePart:
    """A part of the program that is kept whole, in Quantizer.opaque_parts.

    module, module_type, op, ops: which nodes, exactly one of the four, as in JSON files. quantizer:
    quantizes inside of the part: an octet.Quantizer, a name, the path of a JSON file or its
    contents. quantized_inputs, quantized_outputs: specs by index; SharedQuantizationSpec(0) shares
    the scale of input 0. recorded: calibration does not run it.

    float_to_observed, observed_to_quantized: hooks for layers that quantize themselves, called with
    (graph, island). The first one may replace the nodes before they are annotated, the second one
    after calibration, with the qparams() of what the quantizer of the part annotated. What a hook
    leaves unused is erased.
    """

    module: str = ""
    module_type: str = ""
    op: str = ""
    ops: tuple[str, ...] = ()
    quantizer: object = None
    quantized_inputs: dict[int, Any] = dataclasses.field(default_factory=dict)
    quantized_outputs: dict[int, Any] = dataclasses.field(default_factory=dict)
    recorded: bool = False
    float_to_observed: object = None
    observed_to_quantized: object = None


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
    #: The parts of the program that are kept whole: octet.OpaquePart objects.
    opaque_parts: Sequence["OpaquePart"] = ()

    def __repr__(self) -> str:
        return f"octet.Quantizer({type(self).__name__})"

    def transform_for_annotation(self, graph: GraphView) -> None:
        """May edit the graph (insert, replace_uses, erase, add_constant), before it is annotated."""

    def annotate(
        self, graph: GraphView, annotations: Annotations, report: AnnotationReport
    ) -> None:
        """Annotates nodes with specs. Called for the program, and for each body of its branches and
        loops; nodes and values become invalid when it returns, as in the other methods.

        An exception ends quantize().
        """
        raise NotImplementedError(f"{type(self).__name__}.annotate")

    def validate(self, graph: GraphView, annotations: Annotations) -> None:
        """Raises an exception if the backend cannot run the annotated graph."""

    def prepare_obs_or_fq_callback(self, graph: GraphView, observers: dict[Any, Any]) -> None:
        """May change the observers before they are inserted.

        observers: an octet.Observer for each annotated value and each pair (value, node that reads
        it). Places that share one have the same object. A spec makes a new one; None leaves the
        place unobserved.
        """
