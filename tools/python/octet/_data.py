"""Converts batches to the form of the compiled part: a list of flat tuples without gradients."""

import itertools

import torch
from octet_runtime._error import Error
from torch.utils import _pytree as pytree


def call_of(batch):
    """(args, kwargs) of a batch: a tuple or list of arguments, a dict of named ones, or the only
    argument."""
    if isinstance(batch, dict):
        return (), batch
    if isinstance(batch, (tuple, list)):
        return tuple(batch), {}
    return (batch,), {}


def _flat(batch, program, subject):
    args, kwargs = call_of(batch)
    if program is None:
        if kwargs:
            raise Error(
                "inputs",
                subject,
                "is a dict, want a tuple in the order of the program's inputs; names go with an "
                "ExportedProgram, not with a path",
            )
        return pytree.tree_leaves(args)
    wanted = program.call_spec.in_spec
    if wanted is None:
        return pytree.tree_leaves((args, kwargs))
    names = list(wanted.child(1).context) if wanted.num_children == 2 else []
    if set(kwargs) == set(names):
        kwargs = {name: kwargs[name] for name in names}
    leaves, spec = pytree.tree_flatten((args, kwargs))
    if spec == wanted:
        return leaves
    # The batch may name inputs that the program takes by position.
    placed = _by_parameter(program, args, kwargs)
    if placed is not None:
        leaves, spec = pytree.tree_flatten(placed)
        if spec == wanted:
            return leaves
    raise Error("inputs", subject, f"got {_shape(args, kwargs)}, want {_wanted(program)}")


def _by_parameter(program, args, kwargs):
    """(args, kwargs) in the program's form, from inputs that are all named or in order."""
    wanted = program.call_spec.in_spec
    names = [name for name in program.graph_signature.user_inputs if isinstance(name, str)]
    positions = wanted.child(0).num_children
    by_name = list(wanted.child(1).context)
    if len(names) != positions + len(by_name):  # some are nested
        return None
    given = dict(zip(names, args)) | kwargs
    if len(given) != len(args) + len(kwargs) or set(given) != {*names[:positions], *by_name}:
        return None
    return tuple(given[name] for name in names[:positions]), {name: given[name] for name in by_name}


def _shape(args, kwargs):
    parts = [type(value).__name__ for value in args]
    return "(" + ", ".join(parts + [f"{k}={type(v).__name__}" for k, v in kwargs.items()]) + ")"


def _wanted(program):
    return "(" + ", ".join(str(name) for name in program.graph_signature.user_inputs) + ")"


def flat_batches(batches, program, name, max_batches=None):
    """[(leaf, ...), ...] of the first batches of an iterable. Raises Error for other types."""
    try:
        iterator = iter(batches)
    except TypeError:
        raise Error(
            "inputs", name, f"got {type(batches).__name__}, want an iterable of batches or a path"
        ) from None
    if isinstance(batches, (torch.Tensor, dict)):
        raise Error("inputs", name, f"got a {type(batches).__name__}, want a list of batches")
    flat = []
    for index, batch in enumerate(itertools.islice(iterator, max_batches)):
        subject = f"{name}, batch {index}"
        flat.append(tuple(_leaf(leaf, subject) for leaf in _flat(batch, program, subject)))
    if not flat:
        raise Error("inputs", name, "has no batch, want at least one")
    return flat


def _leaf(leaf, subject):
    if isinstance(leaf, torch.Tensor):
        return leaf.detach().cpu().resolve_conj().resolve_neg()
    if leaf is None or isinstance(leaf, (bool, int, float, str)):
        return leaf
    if hasattr(leaf, "__array_interface__"):
        return torch.as_tensor(leaf)
    raise Error("inputs", subject, f"holds a {type(leaf).__name__}, want tensors and numbers")
