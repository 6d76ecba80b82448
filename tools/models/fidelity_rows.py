"""The rows of fidelity.py's table: ways to quantize a folder of export.py to a .pt2, by Octet and by the peers."""
import json
import os
import re
import subprocess
import tempfile

import torch

MIN_MAX = {"weight_observer": "per_channel_min_max"}
FAMILIES = ["xnnpack", "x86", "xnnpack dynamic", "x86 dynamic", "xnnpack weight-only"]


class OctetRow:
    """`octet quantize` with these options; `settings`: of the global configuration."""

    def __init__(self, title, quantizer, arguments=(), settings=None, mode="static", is_for_sentences=False):
        self.title, self.quantizer, self.arguments, self.settings = title, quantizer, list(arguments), settings
        self.mode, self.is_for_sentences = mode, is_for_sentences
        self.family = None if "--compat" in self.arguments else quantizer if mode == "static" else f"{quantizer} {mode}"

    def quantize(self, octet, folder, output):
        command = [octet, "quantize", os.path.join(folder, "model.pt2"), "--output", output, "--mode", self.mode] + self.arguments
        if self.mode == "static":
            command += ["--calibration", os.path.join(folder, "calibration.pt")]
        with tempfile.TemporaryDirectory() as scratch:
            quantizer = self.quantizer
            if self.settings:
                quantizer = os.path.join(scratch, "q.json")
                per_channel = {"is_per_channel": True} if self.quantizer == "xnnpack" else {}
                json.dump({"base": self.quantizer, "global": {**per_channel, **self.settings}}, open(quantizer, "w"))
            subprocess.run(command + ["--quantizer", quantizer], check=True, capture_output=True, text=True)


class PeerRow:
    """torchao's PT2E flow with torchao's own quantizer or ExecuTorch's."""
    family = None

    def __init__(self, title, make_quantizer, is_dynamic=False, is_for_sentences=False):
        self.title, self.make_quantizer, self.is_dynamic, self.is_for_sentences = title, make_quantizer, is_dynamic, is_for_sentences

    def quantize(self, _octet, folder, output):
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
        module = torch.export.load(os.path.join(folder, "model.pt2")).module(check_guards=False)
        batches = torch.load(os.path.join(folder, "calibration.pt"))
        with torch.no_grad():
            prepared = prepare_pt2e(module, self.make_quantizer(self.is_dynamic))
            for batch in batches:
                prepared(*batch)
            torch.export.save(torch.export.export(convert_pt2e(prepared), batches[0]), output)


class CitedRow:
    """Figures that were measured elsewhere, with the same model and data."""
    family = None
    quantize = None

    def __init__(self, title):
        self.title = title


def xnnpack_peer(is_dynamic):
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
    return XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True, is_dynamic=is_dynamic))


def x86_peer(is_dynamic):
    import torchao.quantization.pt2e.quantizer.x86_inductor_quantizer as x86
    return x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config(is_dynamic=is_dynamic))


def register_ops():
    """What quantized programs call: decomposed ops of PyTorch, affine ones of torchao."""
    import torch.ao.quantization.fx._decomposed  # noqa: F401
    import torchao.quantization  # noqa: F401


OPENVINO, ORT, ORT_DYNAMIC = "OpenVINO 2026.4, NNCF 3.4", "ONNX Runtime 1.31, uint8 x int8", "ONNX Runtime 1.31, dynamic"
EXECUTORCH, EXECUTORCH_DYNAMIC = "ExecuTorch 1.5.1 on its own runtime", "ExecuTorch 1.5.1 on its own runtime, dynamic"  # one scale per token there
# With the same model, calibration and evaluation data as export.py --held-out 96 gives.
CITED = {
    (OPENVINO, "efficientnet_lite0_plain"): {"sqnr": 10.55, "top1": 73},
    (ORT, "efficientnet_lite0_plain"): {"sqnr": 18.12, "top1": 76},
    (EXECUTORCH, "efficientnet_lite0_plain"): {"sqnr": 6.53, "top1": 57},
    (EXECUTORCH, "minilm"): {"sqnr": 5.98},
    (EXECUTORCH_DYNAMIC, "minilm"): {"sqnr": 26.93},
    (OPENVINO, "minilm"): {"sqnr": 19.87},
    (ORT, "minilm"): {"sqnr": 9.49},
    (ORT_DYNAMIC, "minilm"): {"sqnr": 18.84},
}


def pass_rows(octet):
    """What each accuracy pass adds, alone and to the bundle that --effort high is: each of its passes left out, each other one put in."""
    text = " ".join(subprocess.run([octet, "quantize", "--help"], capture_output=True, text=True, check=True).stdout.split())
    bundle = re.search(r"the same as --passes ([a-z,-]+)", text).group(1).split(",")
    names = re.search(r"Accuracy passes of your choice, in any order, with commas between: ([a-z]+(?:(?:-|, )[a-z]+)*)", text).group(1).split(", ")
    rows = []
    for quantizer in ("xnnpack", "x86"):
        passes = lambda *chosen: ["--passes", ",".join(chosen)]
        rows.append(OctetRow(f"`{quantizer}`", quantizer))
        rows.append(OctetRow(f"`{quantizer}`, `--effort none`", quantizer, ["--effort", "none"]))
        rows.append(OctetRow(f"`{quantizer}`, weights min-max", quantizer, settings=MIN_MAX))
        rows += [OctetRow(f"`{quantizer}`, `{name}`", quantizer, passes(name)) for name in names]
        rows.append(OctetRow(f"`{quantizer}`, `--effort high`", quantizer, ["--effort", "high"]))
        for name in names:
            if name in bundle:
                rows.append(OctetRow(f"`{quantizer}`, high without `{name}`", quantizer, passes(*[one for one in bundle if one != name])))
            else:
                rows.append(OctetRow(f"`{quantizer}`, high with `{name}`", quantizer, passes(*bundle, name)))
    return rows


def static_rows(quantizer, has_effort):
    rows = [OctetRow(f"`{quantizer}`", quantizer)]
    if has_effort:
        rows.append(OctetRow(f"`{quantizer}`, `--effort high`", quantizer, ["--effort", "high"]))
    return rows + [
        OctetRow(f"`{quantizer}`, weights min-max", quantizer, settings=MIN_MAX),
        OctetRow(f"`{quantizer}`, activations `mse`", quantizer, settings={"act_observer": "mse"}),
        OctetRow(f"`{quantizer}`, activations `min_max`", quantizer, settings={"act_observer": "min_max"}),
        OctetRow(f"`{quantizer}`, activations `percentile` 99.999", quantizer,
                 settings={"act_observer": {"name": "percentile", "percentile": 99.999}}),
        OctetRow(f"`{quantizer} --compat torchao`", quantizer, ["--compat", "torchao"]),
    ]


def all_rows(octet):
    """In the table's order. --effort high where this build has it."""
    has_effort = "--effort" in subprocess.run([octet, "quantize", "--help"], capture_output=True, text=True).stdout
    rows = static_rows("xnnpack", has_effort) + [PeerRow("ExecuTorch's XNNPACKQuantizer", xnnpack_peer)]
    rows += static_rows("x86", has_effort) + [PeerRow("torchao's X86InductorQuantizer", x86_peer), CitedRow(OPENVINO), CitedRow(ORT), CitedRow(EXECUTORCH)]
    sentences = {"is_for_sentences": True}
    for quantizer, title, peer in (("xnnpack", "ExecuTorch's XNNPACKQuantizer", xnnpack_peer), ("x86", "torchao's X86InductorQuantizer", x86_peer)):
        rows += [
            OctetRow(f"`{quantizer} --mode dynamic`", quantizer, mode="dynamic", **sentences),
            OctetRow(f"`{quantizer} --mode dynamic`, weights min-max", quantizer, settings=MIN_MAX, mode="dynamic", **sentences),
            OctetRow(f"`{quantizer} --mode dynamic --compat torchao`", quantizer, ["--compat", "torchao"], mode="dynamic", **sentences),
            PeerRow(f"{title}, dynamic", peer, True, **sentences),
        ]
    four = ["--weight-bits", "4"]
    return rows + [
        CitedRow(ORT_DYNAMIC),
        CitedRow(EXECUTORCH_DYNAMIC),
        OctetRow("`xnnpack --mode weight-only`", "xnnpack", mode="weight-only"),
        OctetRow("`xnnpack --mode weight-only`, weights min-max", "xnnpack", settings=MIN_MAX, mode="weight-only"),
        OctetRow("`xnnpack --mode weight-only --weight-bits 4`", "xnnpack", four, mode="weight-only"),
        OctetRow("`xnnpack --mode weight-only --weight-bits 4`, ranges not searched", "xnnpack", four, {"search_weight_ranges": False}, "weight-only"),
    ]
