"""Python imports this at start from PYTHONPATH. Makes torch.ao missing, except for torch, which imports it
itself in the versions that have it, and for torchao; the module with the ops of q/dq graphs is empty for both."""
import builtins
import sys
import types

_import = builtins.__import__
_OPS = "torch.ao.quantization.fx._decomposed"


def _import_without_torch_ao(name, globals=None, *rest, **named):
    if name == "torch.ao" or name.startswith("torch.ao."):
        if ((globals or {}).get("__name__") or "").split(".")[0] not in ("torch", "torchao"):
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
        if name.startswith("torch.ao.quantization.fx"):
            empty = types.ModuleType(_OPS)
            empty.quantized_decomposed_lib = None
            sys.modules.setdefault(_OPS, empty)
    return _import(name, globals, *rest, **named)


builtins.__import__ = _import_without_torch_ao
