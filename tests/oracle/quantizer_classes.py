"""Runs the Quantizer classes of torchao and executorch through torchao and through Octet: quantizer_classes.py CSV [CLASS [ARCHITECTURE]].

Writes a row for each class and each model of architectures.py: the number of q/dq ops that torchao and Octet write, and whether the programs are equal
(the same q/dq ops with the same scales and zero points; outputs that differ by less than -60 dB) or what Octet says when it refuses. A class that does
not import here has a row with the reason.
"""
import collections
import copy
import csv
import functools
import importlib
import math
import os
import pathlib
import sys
import warnings

import octet
import torch
from architectures import ARCHITECTURES
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

os.environ.setdefault("QNN_SDK_ROOT", "")  # Qualcomm's quantizer would download its SDK, which annotating does not need
EXECUTORCH, TORCHAO = "executorch.backends.", "torchao.quantization.pt2e.quantizer."


def configured(module, name, make_config, **arguments):
    def make():
        found = importlib.import_module(module)
        return getattr(found, name)().set_global(getattr(found, make_config)(**arguments))

    return make


def plain(module, name):
    return lambda: getattr(importlib.import_module(module), name)()


def x86(module, name):
    return configured(TORCHAO + module, name, f"get_default_{module.removesuffix('_quantizer')}_quantization_config")


def exported_once(make_pattern):
    """make_pattern, which returns copies, since the matcher changes its pattern."""
    exported = functools.cache(make_pattern)

    def copied(*arguments, **keywords):
        return copy.deepcopy(exported(*arguments, **keywords))

    copied.exported = exported
    return copied


def core_ml():
    from coremltools.optimize.torch.quantization import LinearQuantizerConfig
    from executorch.backends.apple.coreml.quantizer import CoreMLQuantizer, _coreml_quantizer_utils

    for name in ("get_binary_op_act_pattern", "get_conv_pattern", "get_conv_bn_pattern", "get_linear_pattern", "get_linear_bn_pattern"):
        make_pattern = getattr(_coreml_quantizer_utils, name)  # exports the same patterns for each model, which takes minutes
        if not hasattr(make_pattern, "exported"):
            setattr(_coreml_quantizer_utils, name, exported_once(make_pattern))
    settings = {"quantization_scheme": "symmetric", "milestones": [0, 0, 10, 10], "activation_dtype": "quint8", "weight_dtype": "qint8", "weight_per_channel": True}
    return CoreMLQuantizer(LinearQuantizerConfig.from_dict({"global_config": settings}))


XNNPACK, SYMMETRIC = EXECUTORCH + "xnnpack.quantizer.xnnpack_quantizer", "get_symmetric_quantization_config"
CADENCE = EXECUTORCH + "cadence.aot.quantizer.quantizer"
CLASSES = {
    "torchao X86InductorQuantizer": x86("x86_inductor_quantizer", "X86InductorQuantizer"),
    "torchao ArmInductorQuantizer": x86("arm_inductor_quantizer", "ArmInductorQuantizer"),
    "torchao XPUInductorQuantizer": x86("xpu_inductor_quantizer", "XPUInductorQuantizer"),
    "torchao EmbeddingQuantizer": plain(TORCHAO + "embedding_quantizer", "EmbeddingQuantizer"),
    "torchao XNNPACKQuantizer": configured("torchao.testing.pt2e._xnnpack_quantizer", "XNNPACKQuantizer", SYMMETRIC),
    "executorch XNNPACKQuantizer": configured(XNNPACK, "XNNPACKQuantizer", SYMMETRIC, is_per_channel=True),
    "executorch XNNPACKQuantizer, dynamic": configured(XNNPACK, "XNNPACKQuantizer", SYMMETRIC, is_per_channel=True, is_dynamic=True),
    "executorch VulkanQuantizer": configured(EXECUTORCH + "vulkan.quantizer.vulkan_quantizer", "VulkanQuantizer", SYMMETRIC, is_dynamic=False),
    "executorch EnnQuantizer (Samsung)": plain(EXECUTORCH + "samsung.quantizer", "EnnQuantizer"),
    "executorch QnnQuantizer (Qualcomm)": plain(EXECUTORCH + "qualcomm.quantizer.quantizer", "QnnQuantizer"),
    "executorch ExampleQuantizer": plain(EXECUTORCH + "example.example_quantizer", "ExampleQuantizer"),
    "executorch CoreMLQuantizer": core_ml,
    **{f"executorch {name}": plain(CADENCE, name) for name in (
        "CadenceDefaultQuantizer", "CadenceNopQuantizer", "CadenceRmsNormNopQuantizer", "CadenceWithLayerNormQuantizer", "CadenceWakeWordQuantizer",
        "CadenceFusedConvReluQuantizer", "CadenceW8A32MixedQuantizer", "CadenceWithSoftmaxQuantizer", "CadenceWith16BitLinearActivationsQuantizer",
        "CadenceWith16BitConvActivationsQuantizer", "CadenceWith16BitMatmulActivationsQuantizer")},
    "executorch EthosUQuantizer (Arm)": plain(EXECUTORCH + "arm.quantizer.arm_quantizer", "EthosUQuantizer"),
    "executorch CortexMQuantizer": plain(EXECUTORCH + "cortex_m.quantizer.quantizer", "CortexMQuantizer"),
    "executorch OpenVINOQuantizer": plain(EXECUTORCH + "openvino.quantizer.quantizer", "OpenVINOQuantizer"),
    "executorch NeuropilotQuantizer (MediaTek)": plain(EXECUTORCH + "mediatek.quantizer.quantizer", "NeuropilotQuantizer"),
    "executorch NeutronQuantizer (NXP)": plain(EXECUTORCH + "nxp.quantizer.neutron_quantizer", "NeutronQuantizer"),
}


def first_line(error):
    text = str(error).strip().split("\n")[0][:160]
    return text if isinstance(error, octet.Error) else f"{type(error).__name__}: {text}"


def program_of(architecture):
    """(ExportedProgram, calibration batches)"""
    torch.manual_seed(3)
    module, x = ARCHITECTURES[architecture]()
    for part in module.eval().modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.running_mean.uniform_(-0.5, 0.5)
            part.running_var.uniform_(0.5, 2)
    batches = [(torch.randn(x.shape) if x.is_floating_point() else torch.randint(0, 128, x.shape),) for _ in range(2)]
    with torch.no_grad():
        return torch.export.export(module, (x,), strict=False), batches


def by_torchao(program, batches, quantizer):
    prepared = prepare_pt2e(program.module(check_guards=False), quantizer)
    for batch in batches:
        prepared(*batch)
    return convert_pt2e(prepared)


def qdq_ops(module):
    """How often each q/dq op occurs with each scale and zero point; constants count by their values."""
    def plain_value(argument):
        if not isinstance(argument, torch.fx.Node):
            return str(argument)
        if argument.op != "get_attr":
            return "value"
        return str(torch.as_tensor(getattr_path(module, argument.target)).flatten().tolist())

    ops = collections.Counter()
    for node in module.graph.nodes:
        if ".quantize" in str(node.target) or ".dequantize" in str(node.target) or "choose_qparams" in str(node.target):
            ops[str(node.target), *(plain_value(argument) for argument in node.args[1:3])] += 1
    return ops


def getattr_path(module, path):
    for name in path.split("."):
        module = getattr(module, name)
    return module


def decibels(want, got):
    noise = (want - got).double().square().sum().item()
    return math.inf if noise == 0 else 10 * math.log10(want.double().square().sum().item() / noise)


def compared(make, program, batches):
    """(q/dq ops of torchao, of Octet, the result)"""
    theirs = ours = reason = failure = None
    with torch.no_grad():
        try:
            theirs = by_torchao(program, batches, make())
            want = theirs(*batches[0])
        except Exception as error:  # noqa: BLE001, whatever torchao raises
            failure, theirs = first_line(error), None
        try:
            ours = octet.quantize(program, make(), calibration=batches, compat="torchao").module()
            got = ours(*batches[0])
        except octet.Error as error:
            reason = first_line(error)
        except Exception as error:  # noqa: BLE001, of the quantizer
            reason = "wrong: " + first_line(error)
    a, b = (qdq_ops(module) if module is not None else None for module in (theirs, ours))
    counts = ["" if ops is None else sum(ops.values()) for ops in (a, b)]
    if failure is not None:
        return *counts, f"torchao fails: {failure}" + (f"; refused: {reason}" if reason else "")
    if reason is not None:
        return *counts, f"refused: {reason}" if not reason.startswith("wrong: ") else reason
    loss = decibels(want, got)
    if a == b and loss > 60:
        return *counts, "equal"
    return *counts, f"differs: {sum((a - b).values())} q/dq ops only in torchao, {sum((b - a).values())} only in Octet, outputs {loss:.1f} dB apart"


def main(path, name="", architecture=""):
    warnings.filterwarnings("ignore")
    rows = []
    for known, make in [(known, make) for known, make in CLASSES.items() if name in known]:
        try:
            make()
        except Exception as error:  # noqa: BLE001, most need a kit of the vendor
            rows.append((known, "", "", "", f"does not import: {first_line(error)}"))
    missing = {row[0] for row in rows}
    for model in [model for model in ARCHITECTURES if architecture in model]:
        given = program_of(model)
        for known, make in CLASSES.items():
            if name in known and known not in missing:
                rows.append((known, model, *compared(make, *given)))
                print(*rows[-1], sep=", ", flush=True)
    order = list(CLASSES)
    rows.sort(key=lambda row: order.index(row[0]))
    with pathlib.Path(path).open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("quantizer", "architecture", "q/dq ops of torchao", "of Octet", "result"), *rows])


if __name__ == "__main__":
    main(*sys.argv[1:])
