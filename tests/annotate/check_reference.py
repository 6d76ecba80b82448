"""`octet quantize --reference`, read by PyTorch: check_reference.py OCTET WORK.

The program must load, hold no quantize or dequantize op, and compute what the q/dq program of the same run computes, except for rounding ties; with
--compat torchao it must run too. Small models of each pattern of the quantizers compute what their q/dq programs compute. So do linears with int4 weights
in groups, and torchao's own rewrite of that q/dq program must agree with them except for its bfloat16 scales. Needs OCTET_GOLDEN_DIR. Prints one line per
difference and exits with 1 when there is any.
"""
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from differences import run  # noqa: E402
import numpy  # noqa: E402
import torch  # noqa: E402
import torch.ao.quantization.fx._decomposed  # noqa: E402,F401  registers the q/dq ops
from torchao.quantization.pt2e.reference_representation_rewrite import reference_representation_rewrite  # noqa: E402

CASES = ["xnn_linear", "xnn_conv_bn_relu", "xnn_conv1d", "xnn_conv3d", "xnn_conv2d_padding_same", "xnn_add_relu", "xnn_residual", "xnn_mlp3",
         "xnn_maxpool_after_conv", "xnn_linear_per_tensor_nobias", "xnn_cat_convs"]


def arrays(folder, prefix, count):
    return tuple(torch.from_numpy(numpy.load(folder / f"{prefix}{i}.npy")) for i in range(count))


def quantize(octet, folder, work, *options):
    output = work / f"{folder.name}{''.join(options).replace('--', '_').replace(' ', '')}.pt2"
    quantizer = [] if "--quantizer" in options else ["--quantizer", "xnnpack"]
    command = [octet, "quantize", folder / "model.pt2", *quantizer, "--calibration", work / f"{folder.name}.pt", "--output", output]
    subprocess.run([str(part) for part in [*command, *options]], check=True, capture_output=True, text=True)
    return torch.export.load(output).module(check_guards=False)


def case_differences(octet, folder, work):
    count = json.loads((folder / "case.json").read_text())["num_inputs"]
    torch.save([arrays(folder, f"calib_{k:02}_arg", count) for k in range(4)], work / f"{folder.name}.pt")
    example = arrays(folder, "example_arg", count)
    expected = quantize(octet, folder, work)(*example)
    module = quantize(octet, folder, work, "--reference")
    left = [str(node.target) for node in module.graph.nodes if "quantize_per" in str(node.target)]
    if left:
        yield f"{left} stay"
    for want, got in zip(*[[out] if isinstance(out, torch.Tensor) else out for out in (expected, module(*example))]):
        off = (want - got).abs()
        if (off > 1e-5).float().mean() > 0.05:
            yield f"{(off > 1e-5).float().mean():.3} of the elements are off, by {off.max():.3} at most"
    quantize(octet, folder, work, "--reference", "--compat", "torchao")(*example)


class Call(torch.nn.Module):
    """What `function` makes of the layers and the inputs."""

    def __init__(self, function, *layers):
        super().__init__()
        self.function, self.layers = function, torch.nn.ModuleList(layers)

    def forward(self, *inputs):
        return self.function(self.layers, *inputs)


def patterns():
    """Name -> (module, example): a small one of each pattern of the quantizers."""
    nn, f, x, image = torch.nn, torch.nn.functional, torch.randn(2, 3, 8), torch.randn(2, 4, 8, 8)
    convolutions, transposed = (nn.Conv1d, nn.Conv2d, nn.Conv3d), (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
    found = {
        "add_alpha": (Call(lambda _, a, b: torch.add(a, b, alpha=3)), (x, x.flip(0))),
        "add_alpha_relu": (Call(lambda _, a, b: f.relu(torch.add(a, b, alpha=0.5))), (x, x.flip(0))),
        "sub_alpha": (Call(lambda m, a: torch.sub(m[0](a), m[1](a), alpha=2), nn.Linear(8, 8), nn.Linear(8, 8)), (x,)),
        "mul_relu": (Call(lambda _, a, b: f.relu(a * b)), (x, x.flip(0))),
        "matmul": (Call(lambda m, a: m[0](a) @ m[1](a).transpose(1, 2), nn.Linear(8, 8), nn.Linear(8, 8)), (x,)),
        "cat": (Call(lambda m, a: m[0](torch.cat([m[0](a), m[1](a)])), nn.Linear(8, 8), nn.Linear(8, 8)), (x,)),
        "lstm": (Call(lambda m, a: m[1](m[0](a)[0]), nn.LSTM(8, 6), nn.Linear(6, 4)), (x,)),
        "embedding": (nn.Sequential(nn.Embedding(16, 8), nn.Linear(8, 4)), (torch.randint(0, 16, (2, 3)),)),
        "pools": (Call(lambda m, a: m[0](f.adaptive_avg_pool2d(f.avg_pool2d(f.max_pool2d(m[0](a), 2, dilation=2), 2), 1)), nn.Conv2d(4, 4, 1)), (image,)),
    }
    for d, (conv, back) in enumerate(zip(convolutions, transposed), 1):
        tensor = torch.randn(2, 4, *[6] * d)
        for name, options in (("dilated", {"dilation": 2}), ("dilated_groups", {"dilation": 2, "groups": 4, "padding": "same"}), ("strided", {"stride": 2, "padding": 1})):
            found[f"conv{d}d_{name}"] = (nn.Sequential(conv(4, 4, 3, **options), nn.ReLU()), (tensor,))
        for name, options in (("strided", {"stride": 2, "output_padding": 1}), ("groups", {"groups": 2}), ("dilated", {"dilation": 2, "bias": False})):
            found[f"conv_transpose{d}d_{name}"] = (back(4, 4, 3, **options), (tensor,))
    return found


def pattern_differences(octet, work, name):
    torch.manual_seed(0)
    module, example = patterns()[name]
    folder = work / name
    folder.mkdir(exist_ok=True)
    torch.export.save(torch.export.export(module.requires_grad_(False).eval(), example), folder / "model.pt2")
    torch.save([example], work / f"{name}.pt")
    for quantizer in ("xnnpack", "x86"):
        try:
            expected = quantize(octet, folder, work, "--quantizer", quantizer)(*example)
        except subprocess.CalledProcessError as error:  # an x86 quantizer does not quantize an add alone
            if "finds nothing to quantize" not in error.stderr:
                raise
            continue
        off = (expected - quantize(octet, folder, work, "--quantizer", quantizer, "--reference")(*example)).abs()
        step = expected.abs().max() / 100  # two of 200 at most: rounding ties of two ops
        if off.max() > 2 * step or (off > 1e-5).float().mean() > 0.2:
            yield f"{quantizer}: off by {off.max():.3} of {expected.abs().max():.3}, {(off > 1e-5).float().mean():.3} of the elements"


def int4_differences(octet, work):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 48), torch.nn.ReLU(), torch.nn.Linear(48, 16)).eval()
    example = torch.randn(2, 5, 64)
    torch.export.save(torch.export.export(model, (example,), dynamic_shapes=({0: torch.export.Dim("batch", max=64)},)), work / "int4.pt2")
    modules = []
    for options in ([], ["--reference"]):
        output = work / f"int4_{len(options)}.pt2"
        command = [octet, "quantize", work / "int4.pt2", "--quantizer", "xnnpack", "--mode", "dynamic", "--weight-bits", "4", "--group-size", "16"]
        subprocess.run([str(part) for part in [*command, "--output", output, *options]], check=True, capture_output=True, text=True)
        modules.append(torch.export.load(output).module(check_guards=False))
    quantized, reference = modules
    for batch in (example, torch.randn(7, 5, 64)):
        error = (quantized(batch) - reference(batch)).abs().max()
        if error > 1e-5:
            yield f"off by {error} from the q/dq program"
    if any("dequantize" in str(node.target) for node in reference.graph.nodes):
        yield "dequantize ops stay"
    rewritten = reference_representation_rewrite(quantized)
    error = (rewritten(example) - reference(example)).abs().max()
    if not any("dqlinear_int4" in str(node.target) for node in rewritten.graph.nodes) or error > 0.01:
        yield f"off by {error} from torchao's rewrite"


def differences(octet, work, name):
    if name in patterns():
        return pattern_differences(octet, work, name)
    return int4_differences(octet, work) if name == "int4" else case_differences(octet, pathlib.Path(os.environ["OCTET_GOLDEN_DIR"]) / name, work)


if __name__ == "__main__":
    sys.exit(run([*CASES, *patterns(), "int4"], differences))
