"""Quantizes and lowers: the compiled part of octet."""

from collections.abc import Callable, Sequence
import os
from typing import Any

from octet_runtime._runtime import Model as Model, TensorInfo as TensorInfo, backends as backends, load as load

import torch

import octet._quantizer

__version__: str

def take_messages() -> list[tuple[bool, str]]:
    """(is a warning, text) of each message since the last call."""

def set_progress(function: object | None) -> None:
    """Called with (stage, done, total) whenever work advances."""

def set_quiet(quiet: bool) -> None:
    """Whether no progress is drawn on stderr."""

def write_text(path: str | os.PathLike[str], text: str, sources: Sequence[str]) -> None: ...

def check_output(path: str | os.PathLike[str], sources: Sequence[str]) -> None:
    """Raises Error when the file is one of `sources` or cannot be written."""

class Graph:
    @staticmethod
    def read(path: str | os.PathLike[str]) -> Graph: ...

    def write(self, path: str | os.PathLike[str]) -> None: ...

    def libraries(self) -> set[str]: ...

    @property
    def sources(self) -> list[str]: ...

    def table(self) -> str: ...

    def json(self) -> str: ...

class Node:
    """A call of an op, as a Quantizer sees it."""

    @property
    def name(self) -> str:
        """Unique in its graph."""

    @property
    def target(self) -> str:
        """"aten.conv2d.default\""""

    @property
    def module(self) -> str:
        """The path of the innermost module, or ""."""

    @property
    def module_type(self) -> str:
        """
        The class of the innermost module ("torch.nn.modules.conv.Conv2d"), or "".
        """

    @property
    def module_stack(self) -> list[tuple[str, str]]:
        """(path, class) of each module around it, outermost first."""

    @property
    def metadata(self) -> dict[str, str]:
        """
        What torch.export recorded: "stack_trace" (the lines of the model), "torch_fn", ...
        """

    def is_op(self, op: str) -> bool:
        """Whether it is that op in any overload: node.is_op("aten.relu")."""

    @property
    def inputs(self) -> list[Value]:
        """The values that it reads, each once."""

    @property
    def outputs(self) -> list[Value]:
        """The values that it defines."""

    @property
    def output(self) -> Value | None:
        """The only value that it defines, or None."""

    def input(self, name: str) -> Value | None:
        """The value of an argument of the op's schema ("weight"), or None."""

    def argument(self, name: str, default: Any = None) -> Any:
        """
        The number, string or list of them that an argument has; `default` when the call left it out.
        """

    def __eq__(self, arg: object, /) -> bool: ...

    def __hash__(self) -> int: ...

    def __repr__(self) -> str: ...

class Value:
    """A result of a node, or an input of the program."""

    @property
    def name(self) -> str:
        """Unique in its graph."""

    @property
    def producer(self) -> Node | None:
        """The node that defines it; None for an input."""

    @property
    def users(self) -> list[Node]:
        """The nodes that read it."""

    @property
    def is_output(self) -> bool:
        """Whether the program returns it."""

    @property
    def is_constant(self) -> bool:
        """Whether it is a parameter, a buffer or a constant."""

    @property
    def fqn(self) -> str | None:
        """Of a parameter, buffer or constant: its name in the module."""

    @property
    def dtype(self) -> str | None:
        """"float32", ...; None if it is not a tensor."""

    @property
    def tensor(self) -> torch.Tensor | None:
        """A copy of a parameter, buffer or constant; None for other values."""

    @property
    def shape(self) -> tuple[int | None, ...] | None:
        """None for a size that is open."""

    def __eq__(self, arg: object, /) -> bool: ...

    def __hash__(self) -> int: ...

    def __repr__(self) -> str: ...

class GraphView:
    """The program that a Quantizer annotates."""

    @property
    def nodes(self) -> list[Node]:
        """In the order in which they run."""

    def find_value(self, name: str) -> Value | None:
        """The value of that name, or None."""

    def find_node(self, name: str) -> Node | None:
        """The node of that name, or None."""

    def match(self, pattern: str, annotations: Annotations | None = None) -> list[octet._quantizer.Match]:
        """
        The places of a pattern such as "relu?(conv2d(x, w, b?))", in the notation of core/pattern/pattern.h: without overlaps, longer forms first. annotations: nodes that are annotated are left out, as rows of a table do.
        """

    def source_partitions(self, sources: list[str]) -> list[octet._quantizer.SourcePartition]:
        """
        The nodes that each call of these modules and functions became: ["torch.nn.modules.linear.Linear", "linear"].
        """

    def insert(self, target: str, arguments: dict[str, Any], *, before: Node | None = None, like: Value | None = None, name: str | None = None) -> Node:
        """
        In transform_for_annotation() and hooks: inserts a call of an op with one result before a node (None: at the end). like: a value with the dtype and shape of the result; None: the op tells.
        """

    def replace_uses(self, old: Value, new: Value) -> None:
        """In transform_for_annotation() and hooks: also in the outputs."""

    def erase(self, node: Node) -> None:
        """
        In transform_for_annotation() and hooks: erases a node whose results are unused.
        """

    def add_constant(self, fqn: str, tensor: torch.Tensor) -> Value:
        """In transform_for_annotation() and hooks: adds a buffer."""

class Annotations:
    """The annotations of a program, by node."""

    def annotate(self, node: Node, *, inputs: dict[Value, Any] | None = None, output: Any = None, rule: str = '', allow_implicit_sharing: bool = True) -> None:
        """
        The specs of the values that a node reads and of the one that it gives; what has none stays float. output: with several results, a spec for each floating-point one, or a dict[Value, spec]. rule: what reports call it.
        """

    def is_annotated(self, node: Node) -> bool:
        """Whether the node is annotated."""

    def find(self, node: Node) -> octet._quantizer.Annotation | None:
        """
        The annotation of a node, by this quantizer or an earlier one of the list, or None.
        """

    def propagate_sharing(self, ops: list[str], accepts: Callable[[Node], bool] | None = None) -> int:
        """
        Lets ops such as "aten.max_pool2d" share the scale of their input when the op before them has an output spec. Returns the number of nodes annotated.
        """

class AnnotationReport:
    """What a Quantizer says."""

    def float_op(self, node: Node, reason: str) -> None:
        """Records that an op stays float, and why."""

    def note(self, text: str) -> None:
        """A remark."""

class Island:
    """One occurrence of an opaque part, as its hooks see it."""

    @property
    def name(self) -> str:
        """module "head\""""

    @property
    def nodes(self) -> list[Node]:
        """Its nodes, in the order in which they run."""

    @property
    def inputs(self) -> list[Value]:
        """The tensors that it reads from outside, without constants."""

    @property
    def outputs(self) -> list[Value]:
        """The tensors that are read outside."""

    def qparams(self, value: Value) -> tuple[torch.Tensor, torch.Tensor]:
        """
        In observed_to_quantized: (scales, zero points) of a value that the quantizer of the part annotated, one or one per channel.
        """

class Observer:
    """An observer of octet: sees tensors, and computes scale and zero point."""

    def __init__(self, spec: Any) -> None:
        """spec: a QuantizationSpec or a FixedQParamsQuantizationSpec."""

    @property
    def name(self) -> str:
        """"histogram", ..."""

    def observe(self, tensor: torch.Tensor) -> None:
        """Observes a batch."""

    def calculate_qparams(self) -> tuple[torch.Tensor, torch.Tensor]:
        """(scales, zero points), one or one per channel."""

    def __repr__(self) -> str: ...

def set_quantizers(quantizers: dict[str, Any]) -> None: ...

def arguments(function: str) -> list[tuple[str, str, str]]:
    """(name, kind, signature) of each option that a function takes."""

def check_settings(function: str, settings: dict[str, Any], stage: str) -> None: ...

def hold_batches(name: str, batches: object | None) -> None: ...

def read_batches(file: str, program: Graph, max_batches: int | None) -> list[Any]: ...

def set_metric(name: str, function: object | None) -> None: ...

class Outcome:
    @property
    def graph(self) -> Graph: ...

    @property
    def report(self) -> str: ...

    @property
    def page(self) -> str: ...

    @property
    def lines(self) -> list[str]: ...

    @property
    def io(self) -> str: ...

def quantize(settings: dict[str, Any], next: object | None, kept: str) -> Outcome: ...

class Prepared:
    def calibrate(self, data: str, max_batches: int | None) -> int: ...

    def calibrate_stream(self, next: object) -> int: ...

    def convert(self) -> Outcome: ...

    def annotations(self) -> str: ...

    def save_state(self, path: str | os.PathLike[str]) -> None: ...

    def load_state(self, path: str | os.PathLike[str]) -> None: ...

def prepare(settings: dict[str, Any]) -> Prepared: ...

def page_html(page: str) -> str: ...

def qat(settings: dict[str, Any]) -> Outcome: ...

def tune(settings: dict[str, Any], validate: object | None) -> tuple[Graph, str, str]: ...

def training_program(settings: dict[str, Any], learns_ranges: bool) -> tuple[Graph, str]:
    """The prepared program, and JSON that describes its fake-quants."""

def order_of_batches(count: int, seed: int, epoch: int) -> list[int]:
    """The order in which `octet qat` trains in an epoch."""

def convert_trained(settings: dict[str, Any], learns_ranges: bool, tensors: dict[str, Any], groups: list[Any]) -> Outcome: ...

def lower(graph: Graph, backend: str, settings: dict[str, Any], session: dict[str, Any]) -> tuple[Any, ...]: ...

def explain(model: Model) -> str: ...

def export_onnx(graph: Graph, path: str | os.PathLike[str], settings: dict[str, Any]) -> int: ...

def compare(reference: Graph, subject: Graph | None, model: Model | None, data: str, settings: dict[str, Any]) -> str: ...

def compare_table(json: str, top: int) -> list[str]: ...

def compare_csv(json: str) -> str: ...

def prove_quantizer(quantizer: str, same_as: str, backend: str, models: str, filter: str, quick: bool, seed: int) -> tuple[str, str]: ...

def load_library(path: str | os.PathLike[str]) -> None:
    """
    Loads a shared library of your own, as `--library` of the command does.

    path: of the library. What it registers is known from then on, to all of octet: ops of
        TORCH_LIBRARY (torch.ops has them, too), and with OCTET_EXTENSION() of tools/extension.h
        quantizers, observers, derive functions, metrics, backends and kernels of custom ops.
        A plug-in (octet_plugin.h) has one backend. The same libraries serve the command.
        octet_runtime has its own registries: it loads plug-ins with octet_runtime.load_plugin(), and
        a program with kernels of custom ops runs with octet.load().

    A library that is loaded already is left as it is, and none is unloaded. Raises Error when the file
    is missing or no library, when its symbols do not resolve, when it was built for another Octet
    (with other headers, another torch, compiler or standard library), when it registers nothing, or a name that is taken.
    """

def decomposed_ops() -> list[str]:
    """Octet's ops of q/dq graphs, with their overloads."""

def allow_op(name: str) -> None:
    """
    Lets programs call an op that does more than compute, as `--allow-op` of the command does.

    name: of the op, with or without an overload: "aten.from_file". Such ops reach files, the terminal
        or the state of the process. Without this call, a program that has one raises Error when it is
        run, calibrated or lowered. Only for programs that you trust; it holds for the whole process.

    Raises Error for a name without a namespace.
    """

def quantizers() -> list[str]:
    """The names of the built-in quantizers."""
