"""Quantizes and lowers: the compiled part of octet."""

from collections.abc import Sequence
import os
import pathlib
from typing import Any


def take_messages() -> list[tuple[bool, str]]:
    """(is a warning, text) of what was said since the last call."""

def set_quiet(quiet: bool) -> None:
    """Whether no progress is drawn on stderr."""

class TensorInfo:
    """What an input or output of a Model is."""

    @property
    def name(self) -> str:
        """As the exported program named it."""

    @property
    def dtype(self) -> str:
        """"float32", "int8", ..."""

    @property
    def shape(self) -> tuple[int | None, ...]:
        """None for a size that is open."""

    @property
    def min_shape(self) -> tuple[int, ...]:
        """The least that each size may be."""

    @property
    def max_shape(self) -> tuple[int, ...]:
        """The greatest that each size may be."""

    @property
    def scale(self) -> float | None:
        """
        Of quantized integers: real = scale * (integer - zero_point); None otherwise.
        """

    @property
    def zero_point(self) -> int | None: ...

    def __repr__(self) -> str: ...

class Model:
    """
    A lowered program, compiled for this machine: call it with its inputs.

    Calls from several threads take turns; duplicate() gives each thread its own. Pickling takes the
    program and its options along; states start anew. In a forked process (a DataLoader's worker) it
    runs with one thread.
    """

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """
        Runs the program once.

        inputs: numpy arrays, torch tensors on the CPU or what has DLPack, of the dtypes and shapes in
        `inputs`; by position, or by name. They are not copied when their elements lie row by row.
        Returns the output, or a tuple of several: torch tensors when an input is one, else numpy arrays.
        Raises Error on a wrong count, dtype or shape; nothing is converted.
        """

    def kernels(self, *inputs: Any, runs: int = 20, **named: Any) -> list[dict[str, Any]]:
        """
        Runs the program some times more and tells for each call of a kernel: ops, what, kernel, layout, post_ops, seconds (of the fastest run), note (what it does less well than it could).
        """

    def reset_states(self) -> None:
        """
        Buffers that the program writes become what they were before the first call.
        """

    def duplicate(self) -> Model:
        """
        Another one of the same program, for another thread; weights are shared.
        """

    def save(self, path: str | os.PathLike) -> None:
        """
        Writes the .octet file, whole or not at all. Raises Error when it cannot.
        """

    def to_bytes(self) -> bytes:
        """The bytes of that file."""

    @staticmethod
    def from_bytes(bytes: bytes, *, threads: int | None = None, memory_limit: int = 0, loop_limit: int = 0) -> Model:
        """
        The program of a file's bytes; limits as those of load. Raises Error when they are damaged.
        """

    def __getstate__(self) -> tuple[bytes, int, int, int, int, pathlib.Path]: ...

    def __setstate__(self, arg: tuple[bytes, int, int, int, int, str | os.PathLike], /) -> None: ...

    @property
    def backend(self) -> str:
        """That it was lowered for."""

    @property
    def inputs(self) -> list[TensorInfo | None]:
        """A TensorInfo each; None for what the program does not read."""

    @property
    def outputs(self) -> list[TensorInfo | None]: ...

    @property
    def threads(self) -> int: ...

    @property
    def warnings(self) -> list[str]:
        """
        What this machine does less well than the program was made for; of a program with open sizes known after the first call.
        """

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

def load(path: str | os.PathLike, *, threads: int | None = None, memory_limit: int = 0, loop_limit: int = 0, cached_shapes: int = 4, cache_folder: str | os.PathLike | None = None, verify: bool = True) -> Model:
    """
    The program of an .octet file.

    path: what `octet lower` or Model.save wrote; it is mapped, and must not be written into meanwhile.
    threads: 1 to 1024; None: all CPUs that this process may use, at most OMP_NUM_THREADS.
    memory_limit: bytes that inputs, outputs, states and intermediates may take; 0: what there is.
    loop_limit: how often a loop may run its body in one call; 0: without limit.
    cached_shapes: of a program with open sizes: how many sets of sizes stay compiled.
    cache_folder: where packed weights are kept for the next start (oneDNN); one that others may write
        is not used.
    verify: compares all bytes with the checksum in the file.
    Raises Error when the file is missing, damaged or of a backend that is not here.
    """

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
        """"float32", ...; None for what is no tensor."""

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
    """What a Quantizer fills."""

    def annotate(self, node: Node, *, inputs: dict[Value, Any] | None = None, output: Any = None, rule: str = '', allow_implicit_sharing: bool = True) -> None:
        """
        The specs of the values that a node reads and of the one that it gives; what has none stays float. rule: what reports call it.
        """

    def is_annotated(self, node: Node) -> bool:
        """Whether somebody has annotated the node."""

class AnnotationReport:
    """What a Quantizer says."""

    def float_op(self, node: Node, reason: str) -> None:
        """That an op stays float, and why."""

    def note(self, text: str) -> None:
        """A remark."""

def set_quantizers(quantizers: dict) -> None: ...

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
    def calibrate(self, data: str) -> int: ...

    def convert(self) -> Outcome: ...

    def annotations(self) -> str: ...

def prepare(settings: dict) -> Prepared: ...

def page_html(page: str) -> str: ...

def qat(settings: dict) -> Outcome: ...

def tune(settings: dict) -> tuple[Graph, str]: ...

def lower(graph: Graph, backend: str, fallback: str, threads: int | None, memory_limit: int, loop_limit: int) -> tuple: ...

def explain(model: Model) -> str: ...

def export_onnx(graph: Graph, path: str | os.PathLike, opset: int | None, external_data: bool, integer_biases: bool) -> int: ...

def compare(reference: Graph, subject: Graph | None, model: Model | None, data: str, metric: str) -> str: ...

def compare_table(json: str, top: int) -> list[str]: ...

def compare_csv(json: str) -> str: ...

def load_library(path: str | os.PathLike) -> None:
    """
    Loads a shared library of your own, as `--library` of the command does.

    path: of the library. What it registers is known from then on, to all of octet: ops of
        TORCH_LIBRARY (torch.ops has them, too), and with OCTET_EXTENSION() of tools/extension.h
        quantizers, observers, derive functions, metrics, backends and kernels of custom ops.
        The same libraries serve the command. octet_runtime has its own registries: a program with
        such kernels runs with octet.load().

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

def backends() -> list[str]:
    """The names of the backends that are here."""

def quantizers() -> list[str]:
    """The names of the built-in quantizers."""
