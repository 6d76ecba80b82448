"""Defines quantized_decomposed, the ops that quantized programs call, where torch does not."""

import torch

from octet import _octet

_libraries = []  # a Library takes its ops back when it is deleted


def define() -> None:
    """torch.ao defines the ops in the versions of torch that have it."""
    try:
        from torch.ao.quantization.fx import _decomposed  # noqa: F401
    except ImportError:
        if not hasattr(torch.ops.quantized_decomposed, "quantize_per_tensor"):
            _define_all()


def _define_all():
    library = torch.library.Library("quantized_decomposed", "FRAGMENT")
    _libraries.append(library)
    for name in _octet.decomposed_ops():
        op, overload = name.split(".")
        ours = getattr(getattr(torch.ops.octet_quantized_decomposed, op), overload)
        library.define(str(ours._schema).split("::", 1)[1])
        name = op if overload == "default" else name
        library.impl(name, ours, "CompositeExplicitAutograd")
        library.impl(name, _shapes_of(op, ours), "Meta")


def _shapes_of(name, op):
    """A function with the op's arguments that returns empty results."""
    names = [argument.name for argument in op._schema.arguments]

    def shapes(*args, **kwargs):
        given = {**dict(zip(names, args)), **kwargs}
        x = given["input"]
        if "choose_qparams" in name:
            sizes = [*x.shape[:-1], 1] if "per_token" in name else [1]
            return x.new_empty(sizes, dtype=torch.double), x.new_empty(sizes, dtype=torch.int64)
        dtype = given.get("dtype", x.dtype)
        if name.startswith("dequantize"):
            dtype = given.get("output_dtype") or given.get("out_dtype") or torch.float32
        return torch.empty_like(x, dtype=dtype)

    return shapes
