"""PT2E quantization of exported PyTorch programs, lowered to oneDNN and XNNPACK.

    import octet
    q = octet.quantize(exported_program, "x86", calibration=batches)
    model = octet.lower(q, backend="onednn")
    scores = model(image)
"""

from octet._torch_version import check as _check_torch

_check_torch()

# isort: split
# torch first: it loads the LibTorch that octet._octet is linked to.
import torch  # noqa: F401
from octet_runtime._error import Error
from octet_runtime._error import check_compiled as _check_compiled
from octet_runtime._generate import Token, generate, perplexity

_check_compiled(__file__, "_octet")

# isort: split
from octet._compare import Comparison, compare
from octet._conformance import Conformance, conformance
from octet._decomposed import define as _define_decomposed
from octet._export import export_onnx
from octet._inspect import inspect
from octet._lower import explain, load, lower
from octet._octet import (
    Model,
    Observer,
    TensorInfo,
    __version__,
    allow_op,
    backends,
    load_library,
    quantizers,
)
from octet._qat_module import QatModule
from octet._quantize import Quantized, quantize
from octet._quantizer import (
    DerivedQuantizationSpec,
    FixedQParamsQuantizationSpec,
    OpaquePart,
    QuantizationSpec,
    Quantizer,
    SharedQuantizationSpec,
)
from octet._report import Report
from octet._search import Tuned, qat, tune
from octet._steps import Prepared, calibrate, convert, prepare, prepare_qat

_define_decomposed()

__all__ = [
    "Comparison",
    "Conformance",
    "DerivedQuantizationSpec",
    "Error",
    "FixedQParamsQuantizationSpec",
    "Model",
    "Observer",
    "OpaquePart",
    "Prepared",
    "QatModule",
    "QuantizationSpec",
    "Quantized",
    "Quantizer",
    "Report",
    "SharedQuantizationSpec",
    "TensorInfo",
    "Token",
    "Tuned",
    "allow_op",
    "backends",
    "calibrate",
    "compare",
    "conformance",
    "convert",
    "explain",
    "export_onnx",
    "generate",
    "inspect",
    "load",
    "load_library",
    "lower",
    "perplexity",
    "prepare",
    "prepare_qat",
    "qat",
    "quantize",
    "quantizers",
    "tune",
]
