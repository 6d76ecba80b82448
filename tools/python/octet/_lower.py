"""Implements octet.lower and octet.load: programs that a backend runs."""

import logging
import os
import warnings
from collections.abc import Sequence
from typing import Any, Literal

from octet import _octet
from octet._files import Folder
from octet._messages import told
from octet._quantize import Quantized
from octet._types import Program

load = _octet.load  # its docstring and signature are those of octet_runtime.load


def graph_of(folder: Folder, program, example_inputs=None, file="program.pt2"):
    """The graph of a Quantized, an ExportedProgram, a module, or the path of a .pt2."""
    if isinstance(program, Quantized):
        return program._graph
    path, _ = folder.program(program, example_inputs, file)
    return _octet.Graph.read(path)


def lower(
    program: Quantized | Program,
    backend: str | Sequence[str],
    *,
    # options
    threads: int | None = None,
    memory_limit: int = 0,
    loop_limit: int = 0,
    cached_shapes: int = 4,
    logits_to_keep: int = 0,
    cache_folder: str | os.PathLike[str] | None = None,
    fallback: Literal["reference", "torch", "none"] = "reference",
    float_compute: Literal["float32", "bfloat16"] = "float32",
    # end of options
    example_inputs: Any = None,
) -> "_octet.Model":
    """Compiles a program, quantized or float, for a backend, like `octet lower`.

    program: the result of quantize(), an ExportedProgram (also one converted by torchao), a module
        with example_inputs, or the path of a .pt2.
    backend: "onednn", "xnnpack" or "reference" (octet.backends()); or several in order of
        preference, ["acme_npu", "xnnpack"] or "acme_npu,xnnpack": each op goes to the first that
        accepts it.
    threads: 1 to 1024; None: all CPUs that this process may use, at most OMP_NUM_THREADS.
    memory_limit, loop_limit, cached_shapes, logits_to_keep, cache_folder: of the returned model,
        as in load().
    fallback: what runs the ops that the backends refuse: "reference"; "torch" (the reference, and
        LibTorch for ops that it lacks); "none" (they are an error).
    float_compute: the type in which oneDNN computes products of floats: "float32", or "bfloat16"
        with sums in float32, which is faster on CPUs with AVX512-BF16 or AMX and ignored by others.

    Raises Error for ops that nothing runs, for an unknown backend, and for one that is named twice.
    """
    given = locals()
    settings, session = {}, {}
    for name, kind, _ in _octet.arguments("lower"):
        (session if kind == "session" else settings)[name] = given[name]
    with Folder() as folder, told(folder.names):
        graph = graph_of(folder, program, example_inputs)
        names = backend if isinstance(backend, str) else ",".join(backend)
        model, notes, slow = _octet.lower(graph, names, settings, session)
    for line in slow:
        warnings.warn(line, stacklevel=2)
    for line in notes:
        logging.getLogger("octet").info(line)
    return model


def explain(model: "_octet.Model") -> str:
    """Returns a line for each op of a lowered program (backend, kind, shapes, and why it does not
    run on the first of the requested backends), and a summary."""
    return _octet.explain(model)


