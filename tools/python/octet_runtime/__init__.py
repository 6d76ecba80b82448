"""Runs .octet files, on oneDNN, XNNPACK and portable kernels; needs numpy alone.

    import numpy, octet_runtime
    model = octet_runtime.load("model.octet", threads=2)
    scores = model(numpy.zeros((1, 3, 224, 224), numpy.float32))
"""

from octet_runtime._error import Error, check_compiled

check_compiled(__file__, "_runtime")

# isort: split
from octet_runtime._generate import Token, generate, perplexity
from octet_runtime._runtime import Model, TensorInfo, __version__, backends, load, load_plugin

__all__ = [
    "Error", "Model", "TensorInfo", "Token", "backends", "generate", "load", "load_plugin",
    "perplexity",
]  # fmt: skip
