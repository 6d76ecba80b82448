"""Passes batches to the compiled part, as flat tuples without gradients. Nothing is written, and
nothing copied: a list stays where it is, and other iterables are read once where that suffices."""

import collections
import json
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass

import torch
from octet_runtime._call_spec import Arguments, Mismatch
from octet_runtime._error import Error
from torch.utils import _pytree as pytree

from octet import _octet

# The last batches of a stream, on which outputs are compared (tools/cli/quantize/quantize.cpp).
KEPT = 8


def call_of(batch):
    """(args, kwargs) of a batch: a tuple or list of arguments, a mapping of named ones, or the only
    argument."""
    if isinstance(batch, Mapping):
        return (), dict(batch)
    if isinstance(batch, (tuple, list)):
        return tuple(batch), {}
    return (batch,), {}


def name_dataclasses(program) -> None:
    """Gives the dataclasses among arguments and results a name in files if they have none, as
    torch.export.register_dataclass leaves them."""
    pending = [program.call_spec.in_spec, program.call_spec.out_spec]
    while pending:
        spec = pending.pop()
        if spec is None:
            continue
        pending += spec.children() if callable(getattr(spec, "children", None)) else []
        kind = spec.type
        known = pytree.SUPPORTED_SERIALIZED_TYPES.get(kind)
        unnamed = pytree.NO_SERIALIZED_TYPE_NAME_FOUND
        if known is None or known.serialized_type_name != unnamed or not is_dataclass(kind):
            continue
        name = f"{kind.__module__}.{kind.__qualname__}"
        pytree.SUPPORTED_SERIALIZED_TYPES[kind] = known._replace(serialized_type_name=name)
        pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE[name] = kind


def arguments_of(program) -> Arguments | None:
    """How an ExportedProgram takes its arguments; None if it does not say."""
    if program is None or program.call_spec.in_spec is None:
        return None
    tree = json.loads(pytree.treespec_dumps(program.call_spec.in_spec))[1]
    names = None
    if program.module_call_graph and program.module_call_graph[0].signature is not None:
        names = getattr(program.module_call_graph[0].signature, "forward_arg_names", None)
    literals = [
        [spec.arg.value] if hasattr(spec.arg, "value") else None
        for spec in program.graph_signature.input_specs
        if spec.kind.name == "USER_INPUT"
    ]
    return Arguments(tree, names, literals)


def _flat(batch, arguments, subject):
    args, kwargs = call_of(batch)
    if arguments is None:
        if kwargs:
            raise Error(
                "inputs",
                subject,
                "is a dict, want a tuple in the order of the program's inputs; names go with an "
                "ExportedProgram, not with a path",
            )
        return pytree.tree_leaves(args)
    leaves = _bound(batch, args, kwargs, arguments)
    if isinstance(leaves, Mismatch):
        got = _shape(args, kwargs)
        raise Error("inputs", subject, f"got {got}, want {arguments.text()}; {leaves}")
    arguments.check_literals(leaves, "inputs", subject)
    return leaves


def _bound(batch, args, kwargs, arguments):
    """The leaves, or a Mismatch."""
    try:
        return arguments.bind(args, kwargs)
    except Mismatch as mismatch:
        fault = mismatch
    flat = None if kwargs else arguments.flat(args)
    if flat is not None:
        return flat
    try:  # the batch is the only argument
        return arguments.bind((batch,), {})
    except Mismatch:
        return fault


def _shape(args, kwargs):
    parts = [type(value).__name__ for value in args]
    return "(" + ", ".join(parts + [f"{k}={type(v).__name__}" for k, v in kwargs.items()]) + ")"


def _leaf(leaf, subject):
    if isinstance(leaf, torch.Tensor):
        if leaf.layout != torch.strided or leaf.is_quantized:
            raise Error("inputs", subject, "holds a sparse or quantized tensor, want dense ones")
        return leaf.detach().cpu().resolve_conj().resolve_neg()
    if leaf is None or isinstance(leaf, (bool, int, float, str)):
        return leaf
    if hasattr(leaf, "__array_interface__"):
        return torch.as_tensor(leaf)
    raise Error("inputs", subject, f"holds a {type(leaf).__name__}, want tensors and numbers")


def unlabeled(batch, subject):
    """(the inputs, the labels) of a batch that ends with its labels."""
    if isinstance(batch, Mapping) and "labels" in batch:
        batch = dict(batch)
        return batch, batch.pop("labels")
    if isinstance(batch, (tuple, list)) and len(batch) > 1:
        *batch, labels = batch
        return tuple(batch), labels
    raise Error("inputs", subject, "has no labels; want (input, labels), or leave out labels=True")


class Batches:
    """Batches of an iterable.

    has_labels: the last element of each batch, or its "labels", is not an input but the labels.
    """

    def __init__(self, batches, program, name, max_batches=None, has_labels=False):
        if isinstance(batches, (torch.Tensor, Mapping)):
            raise Error("inputs", name, f"got a {type(batches).__name__}, want a list of batches")
        try:
            self._iterator = iter(batches)
        except TypeError:
            kind = type(batches).__name__
            message = f"got {kind}, want an iterable of batches or a path"
            raise Error("inputs", name, message) from None
        self._list = batches if isinstance(batches, Sequence) else None
        self._arguments = arguments_of(program)
        self._name, self._most, self._has_labels = name, max_batches, has_labels
        self._read = 0
        self.labels = {}  # by the index of the batch
        if self.is_list and self.size() == 0:
            self._refuse_empty()

    @property
    def is_list(self) -> bool:
        """Whether batches can be read in any order and again; otherwise they are read once."""
        return self._list is not None

    def hold(self):
        """Reads the rest into a list, for what reads batches more than once."""
        if not self.is_list:
            self._list = list(iter(self.next, None))
            self._arguments, self._has_labels = None, False
            self.at = self._list.__getitem__

    def size(self) -> int:
        count = len(self._list)
        return count if self._most is None else min(count, self._most)

    def at(self, index: int) -> tuple:
        return self._leaves(self._list[index], index)

    def next(self):
        """The leaves of the next batch; None after the last."""
        if self._most is not None and self._read == self._most:
            return None
        try:
            batch = next(self._iterator)
        except StopIteration:
            if self._read == 0:
                self._refuse_empty()
            return None
        self._read += 1
        return self._leaves(batch, self._read - 1)

    def all_labels(self) -> torch.Tensor:
        """The labels of all batches of a list."""
        for index in range(self.size()):
            if index not in self.labels:
                self._without_labels(self._list[index], index)
        return torch.cat([self.labels[index].flatten() for index in range(self.size())])

    def _leaves(self, batch, index):
        subject = f"{self._name}, batch {index}"
        if self._has_labels:
            batch = self._without_labels(batch, index)
        return tuple(_leaf(leaf, subject) for leaf in _flat(batch, self._arguments, subject))

    def _without_labels(self, batch, index):
        batch, labels = unlabeled(batch, f"{self._name}, batch {index}")
        self.labels[index] = torch.as_tensor(labels)
        return batch

    def _refuse_empty(self):
        raise Error("inputs", self._name, "has no batch, want at least one")


class Kept:
    """A stream that keeps its last batches."""

    def __init__(self, batches: Batches):
        self._batches = batches
        self._kept = collections.deque(maxlen=KEPT)
        self._count = 0

    def next(self):
        batch = self._batches.next()
        if batch is not None:
            self._kept.append(batch)
            self._count += 1
            self._batches.labels.pop(self._count - 1 - KEPT, None)
        return batch

    def size(self) -> int:
        return len(self._kept)

    def at(self, index: int) -> tuple:
        return self._kept[index]

    def all_labels(self) -> torch.Tensor:
        labels = self._batches.labels
        return torch.cat([labels[index].flatten() for index in sorted(labels)])


_HELD: list[str] = []
_METRICS: list[str] = []  # names of functions


def hold(name: str, batches) -> str:
    """Lets the compiled part find the batches (size() and at()) by a name, until release()."""
    _octet.hold_batches(name, batches)
    _HELD.append(name)
    return name


def release() -> None:
    """Ends hold() for all, and forgets the functions of named_metric()."""
    while _HELD:
        _octet.hold_batches(_HELD.pop(), None)
    while _METRICS:
        _octet.set_metric(_METRICS.pop(), None)


def named_metric(function):
    """Registers a function as a metric until release(), and returns its name."""
    name = "".join(c if c.isalnum() else "_" for c in getattr(function, "__name__", "metric"))
    name = f"python_{name.strip('_')}"
    _octet.set_metric(name, function)
    _METRICS.append(name)
    return name
