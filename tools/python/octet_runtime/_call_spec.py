"""Flattens the arguments of a program and rebuilds its results: dicts, lists, dataclasses and what
else torch.export flattened. Needs no torch; lowering/ARTIFACT.md describes the JSON."""

import collections
import dataclasses
import json
import sys
from collections.abc import Mapping

from octet_runtime._error import Error

_SEQUENCES = {"builtins.tuple": tuple, "builtins.list": list, "collections.deque": collections.deque}
_MAPPINGS = {
    "builtins.dict": dict,
    "collections.OrderedDict": collections.OrderedDict,
    "collections.defaultdict": dict,  # its factory may be anything
}
_NAMEDTUPLE = "collections.namedtuple"


class Mismatch(Exception):
    """Arguments of another form."""


class _Tree:
    """A container of the exported call. kind: its type as torch names it, None for a leaf.
    keys: of its children if they have names. none_fields: fields of a dataclass that were None."""

    def __init__(self, spec, fields):
        self.kind = spec["type"]
        self.children = [_Tree(child, fields) for child in spec["children_spec"]]
        self.context, self.keys, self.none_fields = None, None, []
        if self.kind is not None:
            self._read_context(spec["context"], fields)
        self.leaves = sum(child.leaves for child in self.children) if self.kind else 1

    def _read_context(self, text, fields):
        if self.kind in _SEQUENCES:
            return
        if self.kind == _NAMEDTUPLE:
            self.context = text
            keys = fields.get(text)
        else:
            # A type that writes its context itself may write anything.
            self.context = keys = _json(text)
        if isinstance(keys, dict):
            keys = keys.get("field_names", keys.get("dict_context"))
        elif _is_dataclass_context(keys):
            keys, self.none_fields = keys
        if isinstance(keys, list) and len(keys) == len(self.children):
            # JSON has lists for tuples.
            self.keys = [tuple(key) if isinstance(key, list) else key for key in keys]
        elif self.kind in _MAPPINGS:
            raise ValueError(f"{len(self.children)} children, keys {keys}")

    def add_leaves(self, value, path, leaves):
        """Appends the leaves of an argument. Raises Mismatch when it has another form."""
        if self.kind is None:
            if isinstance(value, (Mapping, list, tuple)):
                raise Mismatch(f"{path} is {_type(value)}, want a tensor or a number")
            leaves.append(value)
            return
        for child, part, name in zip(self.children, *self._parts(value, path)):
            child.add_leaves(part, name, leaves)

    def _parts(self, value, path):
        """(the children of a value, their names for messages)."""
        if self.kind in _SEQUENCES or (self.kind == _NAMEDTUPLE and isinstance(value, tuple)):
            if not isinstance(value, (tuple, list, collections.deque)):
                raise Mismatch(f"{path} is {_type(value)}, want {self.text()}")
            if len(value) != len(self.children):
                raise Mismatch(f"{path} has {len(value)} elements, want {len(self.children)}")
            return list(value), [f"{path}[{i}]" for i in range(len(value))]
        pytree, kind = (None, None) if self.kind in _MAPPINGS else _registered(self.kind)
        if kind is not None and type(value) is kind:
            return self._registered_parts(pytree, value, path)
        if self.keys is None:
            raise Mismatch(f"{path} is {_type(value)}, want {self.kind}")
        self._check_none_fields(value, path)
        names = [f"{path}[{key!r}]" for key in self.keys]
        if isinstance(value, Mapping):
            check_keys(value, self.keys + self.none_fields, path)
            return [value[key] for key in self.keys], names
        if self.kind in _MAPPINGS or not all(hasattr(value, str(key)) for key in self.keys):
            raise Mismatch(f"{path} is {_type(value)}, want {self.text()}")
        return [getattr(value, key) for key in self.keys], names

    def _check_none_fields(self, value, path):
        for name in self.none_fields:
            given = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
            if given is not None:
                raise Mismatch(f"{path}.{name} was None when the program was exported")

    def _registered_parts(self, pytree, value, path):
        parts = list(pytree.SUPPORTED_NODES[type(value)].flatten_fn(value)[0])
        if len(parts) != len(self.children):
            raise Mismatch(f"{path} has {len(parts)} parts, want {len(self.children)}")
        return parts, [f"{path}.{i}" for i in range(len(parts))]

    def build(self, leaves):
        """The value with the next leaves of an iterator."""
        if self.kind is None:
            return next(leaves)
        children = [child.build(leaves) for child in self.children]
        if self.kind in _SEQUENCES:
            return _SEQUENCES[self.kind](children)
        if self.kind in _MAPPINGS:
            return _MAPPINGS[self.kind](zip(self.keys, children))
        return self._build_record(children)

    def _build_record(self, children):
        pytree, kind = _registered(self.context if self.kind == _NAMEDTUPLE else self.kind)
        if kind is not None and self.kind == _NAMEDTUPLE:
            return kind(*children)
        if kind is not None:
            read = pytree.SUPPORTED_SERIALIZED_TYPES[kind].from_dumpable_context
            context = self.context if read is None else read(self.context)
            return pytree.SUPPORTED_NODES[kind].unflatten_fn(children, context)
        if self.keys is None or self.kind == _NAMEDTUPLE:
            return tuple(children)
        values = dict(zip(self.keys, children)) | dict.fromkeys(self.none_fields)
        kind = _imported_dataclass(self.kind)
        return values if kind is None else kind(**values)

    def text(self):
        """What a message wants: "{input_ids, mask}", "(-, -)"."""
        if self.kind is None:
            return "-"
        if self.keys is not None:
            return "{" + ", ".join(map(str, self.keys)) + "}"
        return "(" + ", ".join(child.text() for child in self.children) + ")"


def _json(text):
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text


def _is_dataclass_context(keys):
    return isinstance(keys, list) and len(keys) == 2 and all(isinstance(k, list) for k in keys)


def _type(value):
    return type(value).__name__


def check_keys(given, wanted, path):
    """Raises Mismatch for keys that are missing or too many; those with None do not count."""
    missing = [key for key in wanted if key not in given]
    more = [key for key in given if key not in wanted and given[key] is not None]
    if missing:
        raise Mismatch(f"{path} lacks {', '.join(map(str, missing))}")
    if more:
        raise Mismatch(f"{path} has {', '.join(map(str, more))}, which the program does not take")


def _registered(name):
    """(torch's registry, the class with this name in it); (None, None) without torch."""
    pytree = sys.modules.get("torch.utils._pytree")
    kind = getattr(pytree, "SERIALIZED_TYPE_TO_PYTHON_TYPE", {}).get(name)
    return (None, None) if kind is None else (pytree, kind)


def _imported_dataclass(name):
    """A dataclass in a module that is loaded already. A file must not decide what is imported."""
    module, _, qualified = name.rpartition(".")
    while module and module not in sys.modules:
        module, _, outer = module.rpartition(".")
        qualified = f"{outer}.{qualified}"
    found = sys.modules.get(module)
    for part in qualified.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) and dataclasses.is_dataclass(found) else None


class Arguments:
    """How the exported module takes its arguments."""

    def __init__(self, tree, names=None, literals=(), fields=None):
        """tree: of (args, kwargs), as torch writes it. names: of these arguments in the module.
        literals: for each leaf [the value that it was exported with], or None for a tensor."""
        self._tree = _Tree(tree, fields or {})
        positional, keyword = self._tree.children
        self._positions = len(positional.children)
        self._names = [*names] if names and len(names) >= self._positions else []
        self._names = self._names[: self._positions] + list(keyword.keys)
        self._arguments = positional.children + keyword.children
        self._literals = [literal and [literal_of(literal[0])] for literal in literals]
        self._literals = self._literals or [None] * self.leaves

    @property
    def leaves(self) -> int:
        return self._tree.leaves

    def bind(self, args, kwargs):
        """The leaves of a call in the form of the module. Raises Mismatch for another form."""
        if len(args) > self._positions:
            raise Mismatch(f"got {len(args)} positional arguments, want {self._positions}")
        given = dict(zip(self._names, args)) if self._has_names() else {}
        if not self._has_names() and len(args) < self._positions:
            raise Mismatch(f"got {len(args)} positional arguments, want {self._positions}")
        for name in kwargs:
            if name in given:
                raise Mismatch(f"{name} is given twice")
        values = [*args, *(kwargs.get(name, _MISSING) for name in self._rest(len(args)))]
        known = set(self._names)
        more = [name for name in kwargs if name not in known and kwargs[name] is not None]
        if more:
            raise Mismatch(f"got {', '.join(more)}, which the program does not take")
        leaves = []
        for index, (tree, value) in enumerate(zip(self._arguments, values)):
            start = len(leaves)
            name = self._name(index)
            if value is _MISSING and all(self._literals[start : start + tree.leaves]):
                leaves += [literal[0] for literal in self._literals[start : start + tree.leaves]]
            elif value is _MISSING:
                raise Mismatch(f"{name} is missing")
            else:
                tree.add_leaves(value, name, leaves)
        return leaves

    def check_literals(self, leaves, stage, subject):
        """Raises Error for a leaf that differs from the literal that it was exported with."""
        for index, (literal, leaf) in enumerate(zip(self._literals, leaves)):
            if literal and not _is_same(literal[0], leaf):
                raise Error(
                    stage,
                    subject or f"input {index}",
                    f"the program was exported with {literal[0]!r} for input {index}, "
                    f"got {_shown(leaf)}; export it with that",
                )

    def flat(self, args):
        """The leaves of a call with a flat list of all inputs, or of those that are tensors; None
        for another call."""
        if any(isinstance(value, (dict, list, tuple)) for value in args):
            return None
        if len(args) == self.leaves:
            return list(args)
        if len(args) != sum(literal is None for literal in self._literals):
            return None
        rest = iter(args)
        return [literal[0] if literal else next(rest) for literal in self._literals]

    def text(self) -> str:
        """The names of the arguments, for messages."""
        return "(" + ", ".join(self._name(i) for i in range(len(self._arguments))) + ")"

    def _has_names(self):
        return len(self._names) == len(self._arguments)

    def _rest(self, given):
        return self._names[given:] if self._has_names() else self._names

    def _name(self, index):
        return self._names[index] if self._has_names() else f"argument {index}"


_MISSING = object()


def literal_of(value):
    return float(value["float"]) if isinstance(value, dict) else value


def _is_same(wanted, got):
    if wanted is None or got is None or isinstance(wanted, (bool, str)) or isinstance(got, bool):
        return type(wanted) is type(got) and wanted == got
    return isinstance(got, (int, float)) and (wanted == got or (wanted != wanted and got != got))


def _shown(value):
    plain = value is None or isinstance(value, (bool, int, float, str))
    return repr(value) if plain else f"a {_type(value)}"


_DAMAGE = (AttributeError, LookupError, RecursionError, TypeError, ValueError)


class CallSpec:
    """The form of the calls of a lowered program. inputs, outputs: its numbers of tensors."""

    def __init__(self, text: str, inputs: int, outputs: int):
        try:
            spec = json.loads(text)
            fields = spec["fields"]
            self._arguments = Arguments(spec["in"], spec["names"], spec["inputs"], fields)
            self._out = _Tree(spec["out"], fields)
            self._literals = [x and [literal_of(x[0])] for x in spec["outputs"]]
            tensors = sum(literal is None for literal in self._literals)
            got = (self._arguments.leaves, len(spec["inputs"]), self._out.leaves, tensors)
            if got != (inputs, inputs, len(self._literals), outputs):
                raise ValueError("another number of leaves than the program")
        except _DAMAGE as error:
            said = f"{_type(error)}: {error}"
            message = f"the form of its calls is damaged ({said}); lower the model again"
            raise Error("artifact", "call_spec", message) from None

    def flatten(self, args, kwargs):
        """The inputs of a call in the form of the module, or with a flat list of inputs; None for
        inputs by their names in the program. Raises Error for other calls."""
        try:
            leaves = self._arguments.bind(args, kwargs)
        except Mismatch as mismatch:
            leaves = None if kwargs else self._arguments.flat(args)
            if leaves is None and _has_containers([*args, *kwargs.values()]):
                raise Error(
                    "session", "inputs", f"{mismatch}; want {self._arguments.text()}"
                ) from None
        if leaves is not None:
            self._arguments.check_literals(leaves, "session", "")
        return leaves

    def unflatten(self, outputs):
        """The results of the module with these tensors."""
        rest = iter(outputs)
        return self._out.build(iter([x[0] if x else next(rest) for x in self._literals]))


def _has_containers(values):
    return any(
        isinstance(value, (Mapping, list, tuple)) or dataclasses.is_dataclass(value)
        for value in values
    )
