"""Quantizes and lowers: the compiled part of octet."""

from collections.abc import Sequence
import os
from typing import Any

from octet_runtime._runtime import Model as Model, TensorInfo as TensorInfo, backends as backends, load as load


def take_messages() -> list[tuple[bool, str]]:
    """(is a warning, text) of each message since the last call."""

def set_quiet(quiet: bool) -> None:
    """Whether no progress is drawn on stderr."""

def write_text(path: str | os.PathLike, text: str, sources: Sequence[str]) -> None: ...

class Graph:
    @staticmethod
    def read(path: str | os.PathLike) -> Graph: ...

    def write(self, path: str | os.PathLike) -> None: ...

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

    def __eq__(self, arg: Node, /) -> bool: ...

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
    def shape(self) -> tuple[int | None, ...] | None:
        """None for a size that is open."""

    def __eq__(self, arg: Value, /) -> bool: ...

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

class Annotations:
    """Receives the annotations of a Quantizer."""

    def annotate(self, node: Node, *, inputs: dict[Value, Any] | None = None, output: Any = None, rule: str = '', allow_implicit_sharing: bool = True) -> None:
        """
        The specs of the values that a node reads and of the one that it gives; what has none stays float. output: with several results, a spec for each floating-point one, or a dict[Value, spec]. rule: what reports call it.
        """

    def is_annotated(self, node: Node) -> bool:
        """Whether the node is annotated."""

class AnnotationReport:
    """What a Quantizer says."""

    def float_op(self, node: Node, reason: str) -> None:
        """Records that an op stays float, and why."""

    def note(self, text: str) -> None:
        """A remark."""

def set_quantizers(quantizers: dict) -> None: ...

def arguments(function: str) -> list[tuple[str, str, str]]:
    """(name, kind, signature) of each option that a function takes."""

def check_settings(function: str, settings: dict, stage: str) -> None: ...

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

def quantize(settings: dict) -> Outcome: ...

class Prepared:
    def calibrate(self, data: str, max_batches: int | None) -> int: ...

    def convert(self) -> Outcome: ...

    def annotations(self) -> str: ...

def prepare(settings: dict) -> Prepared: ...

def page_html(page: str) -> str: ...

def qat(settings: dict) -> Outcome: ...

def tune(settings: dict) -> tuple[Graph, str]: ...

def lower(graph: Graph, backend: str, settings: dict, session: dict) -> tuple: ...

def explain(model: Model) -> str: ...

def export_onnx(graph: Graph, path: str | os.PathLike, settings: dict) -> int: ...

def compare(reference: Graph, subject: Graph | None, model: Model | None, data: str, settings: dict) -> str: ...

def compare_table(json: str, top: int) -> list[str]: ...

def compare_csv(json: str) -> str: ...

def load_library(path: str | os.PathLike) -> None:
    """
    Loads a shared library of your own, as `--library` of the command does.

    path: of the library. What it registers is known from then on, to all of octet: ops of
        TORCH_LIBRARY (torch.ops has them, too), and with OCTET_EXTENSION() of tools/extension.h
        quantizers, observers, derive functions, metrics, backends and kernels of custom ops.
        A plug-in (octet_plugin.h) has one backend. The same libraries serve the command.
        octet_runtime has its own registries: it loads plug-ins with octet_runtime.load_plugin(), and
        a program with kernels of custom ops runs with octet.load().

    A library that is loaded already is left as it is, and none is unloaded. Raises Error when the file
    is missing or no library, when its symbols do not resolve, when it was built for another Octet or
    torch, when it registers nothing, or a name that is taken.
    """

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
