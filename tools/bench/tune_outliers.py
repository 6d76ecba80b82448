#!/usr/bin/env python3
"""octet tune on planted outliers: how much of the noise that they make goes again, and at what price.

    tune_outliers.py [--models A,B] [--factor 60] [--channels 2] [--quantizer x86] [--effort high] [--octet BINARY] [--out FOLDER]

Plants outliers into networks without changing what they compute: some channels of one layer give --factor times what they gave, and the layers that read them
multiply with weights so much smaller. Between the two only positive factors pass unchanged (nothing, relu, max pooling, the weighted means of an attention).

    good     noise of the quantized network as it was, relative to the outputs' energy: 10^(-dB / 10), dB being the median over the inputs that are judged
    bad      the same with the outliers
    goal     good + (bad - good) / 5: tune is asked for that many dB. So four fifths of the drop come back
    back     (bad - tuned) / (bad - good), tuned being the noise of what tune gives
    float    the share of the multiply-accumulates that is in float beyond the quantized network's own

Weights are seeded (EfficientNet-Lite0 and MiniLM have real ones) and batch norms know the photographs; timm's come from PYTHONPATH. Prints a row for each.
"""
import argparse
import functools
import json
import math
import os
import subprocess
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", ".."))
for folder in ("models", "zoo"):
    sys.path.append(os.path.join(ROOT, "tools", folder))
import networks  # noqa: E402
import weights  # noqa: E402
from photographs import photographs  # noqa: E402
from sentences import sentences  # noqa: E402
from torchvision_apart import torchvision_models  # noqa: E402

IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
CALIBRATION, JUDGED = 12, 8
PROMISE = {"back": 0.8, "float": 0.1, "evaluations": 25}


def torchvision(name, **arguments):
    torch.manual_seed(0)
    return getattr(torchvision_models(), name)(weights=None, **arguments).eval()


def timm(name):
    import timm as library
    torch.manual_seed(0)
    return library.create_model(name, pretrained=False).eval()


# ---- how channels are scaled; `which`: their indices

def scale(tensor, which, factor, dim=0):
    index = [slice(None)] * tensor.dim()
    index[dim] = which
    tensor[tuple(index)] *= factor


def give(layer, which, factor):
    """A convolution, linear or norm gives `factor` times as much in these channels."""
    scale(layer.weight, which, factor)
    if layer.bias is not None:
        scale(layer.bias, which, factor)


def take(layer, which, factor):
    """A layer multiplies these channels with so much less; of a depthwise or grouped convolution all of its inputs count within their group."""
    groups = getattr(layer, "groups", 1)
    if groups == 1:
        scale(layer.weight, which, 1 / factor, 1)
        return
    per_group, outputs = layer.weight.shape[1], layer.weight.shape[0] // groups
    for channel in which:
        group, within = channel // per_group, channel % per_group
        layer.weight[group * outputs:(group + 1) * outputs, within] /= factor


def between(giver, *takers):
    """(net) -> the layers by their paths."""
    def plant(net, which, factor):
        give(net.get_submodule(giver), which, factor)
        for taker in takers:
            take(net.get_submodule(taker), which, factor)
    return plant


def values_of(path, joint, out):
    """An attention's values: the last third of a joint projection."""
    def plant(net, which, factor):
        attention = net.get_submodule(path)
        holder = attention if joint.endswith("weight") else attention.get_submodule(joint)
        weight = getattr(holder, joint if holder is attention else "weight")
        bias = getattr(holder, joint.replace("weight", "bias") if holder is attention else "bias")
        third = weight.shape[0] // 3
        rows = [2 * third + channel for channel in which]
        scale(weight, rows, factor)
        scale(bias, rows, factor)
        take(attention.get_submodule(out), which, factor)
    return plant


# name: (the network, where outliers are planted, side of the photographs; 0: sentences)
MODELS = {
    "efficientnet_lite0": (lambda: networks.efficientnet_lite0(None), between("_blocks.0._bn2", "_blocks.1._expand_conv"), 224),
    "mobilenet_v2": (lambda: torchvision("mobilenet_v2"), between("features.1.conv.2", "features.2.conv.0.0"), 224),
    "minilm": (networks.MiniLM, between("bert.encoder.layer.2.attention.self.value", "bert.encoder.layer.2.attention.output.dense"), 0),
    "deit3_small": (lambda: timm("deit3_small_patch16_224"), values_of("blocks.5.attn", "qkv", "proj"), 224),
    "resnet18": (lambda: torchvision("resnet18"), between("layer1.0.bn1", "layer1.0.conv2"), 128),
    "resnet50": (lambda: torchvision("resnet50"), between("layer2.1.bn2", "layer2.1.conv3"), 128),
    "vgg11_bn": (lambda: torchvision("vgg11_bn"), between("features.9", "features.11"), 64),
    "squeezenet1_1": (lambda: torchvision("squeezenet1_1"), between("features.6.squeeze", "features.6.expand1x1", "features.6.expand3x3"), 128),
    "shufflenet_v2": (lambda: torchvision("shufflenet_v2_x1_0"), between("stage3.1.branch2.4", "stage3.1.branch2.5"), 128),
    "regnet_x_400mf": (lambda: torchvision("regnet_x_400mf"), between("trunk_output.block2.block2-1.f.b.1", "trunk_output.block2.block2-1.f.c.0"), 128),
    "mnasnet1_0": (lambda: torchvision("mnasnet1_0"), between("layers.7", "layers.8.0.layers.0"), 128),
    "densenet121": (lambda: torchvision("densenet121"), between("features.denseblock2.denselayer3.norm1", "features.denseblock2.denselayer3.conv1"), 64),
    "mobilenet_v3_small": (lambda: torchvision("mobilenet_v3_small"), between("features.1.block.2.1", "features.2.block.0.0"), 128),
    "efficientnet_b0": (lambda: torchvision("efficientnet_b0"), between("features.1.0.block.2.1", "features.2.0.block.0.0"), 128),
    "convnext_tiny": (lambda: torchvision("convnext_tiny"), between("features.3.1.block.2", "features.3.1.block.3"), 96),
    "vit_small": (lambda: networks.vit_small(None), values_of("encoder.layers.encoder_layer_4.self_attention", "in_proj_weight", "out_proj"), 224),
}


@functools.cache
def data_of(side):
    if side == 0:
        parts = sentences(CALIBRATION, JUDGED, networks.minilm_folder(), False)
    else:
        parts = photographs(CALIBRATION, JUDGED, *IMAGENET, side)
    return [[inputs if isinstance(inputs, tuple) else (inputs,) for _, inputs in part] for part in parts]


def octet(binary, *arguments):
    done = subprocess.run([binary, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode not in (0, 1):
        sys.exit(done.stderr)
    return done


def report_of(path):
    with open(path) as file:
        return json.load(file)


def decibels_of(binary, folder, quantizer):
    path = lambda name: os.path.join(folder, name)
    octet(binary, "quantize", path("model.pt2"), "--quantizer", quantizer, "--calibration", path("calibration.pt"), "--evaluate", path("judged.pt"),
          "--output", path("plain.pt2"), "--report", path("plain.json"))
    return report_of(path("plain.json"))["quality"]["median_sqnr_db"]


def noise(decibels):
    return 10 ** (-decibels / 10)


def export(net, example, folder):
    with torch.no_grad():
        torch.export.save(torch.export.export(net, example), os.path.join(folder, "model.pt2"))


def measure(name, options, folder):
    make, plant, side = MODELS[name]
    calibration, judged = data_of(side)
    net = make().requires_grad_(False)
    if name not in ("efficientnet_lite0", "minilm"):
        weights.wake(net)
        weights.settle_batch_norms(net, calibration)
    path = lambda file: os.path.join(folder, file)
    torch.save(calibration, path("calibration.pt"))
    torch.save(judged, path("judged.pt"))
    export(net, calibration[0], folder)
    good = noise(decibels_of(options.octet, folder, options.quantizer))
    with torch.no_grad():
        before = net(*judged[0])
        plant(net, list(range(1, 1 + options.channels)), options.factor)
        after = net(*judged[0])
        difference = ((before - after).square().sum() / before.square().sum()).item()
    if difference > 1e-6:
        sys.exit(f"{name}: planting changes the outputs, {difference:.2g} of their energy")
    export(net, calibration[0], folder)
    bad = noise(decibels_of(options.octet, folder, options.quantizer))
    row = {"model": name, "good": -10 * math.log10(good), "bad": -10 * math.log10(bad)}
    if bad < 1.1 * good:  # nothing to give back
        return row
    goal = -10 * math.log10(good + (bad - good) / 5)
    done = octet(options.octet, "tune", path("model.pt2"), "--quantizer", options.quantizer, "--calibration", path("calibration.pt"), "--evaluate",
                 path("judged.pt"), "--min-sqnr", f"{goal:.4f}", "--effort", options.effort, "--output", path("tuned.pt2"), "--save-config", path("tuned.json"),
                 "--report", path("tuned_report.json"))
    report = report_of(path("tuned_report.json"))
    trials = report["trials"]
    best = next((point for point in report["pareto"] if point["chosen"]), trials[-1])
    row.update({"tuned": best["sqnr_db"], "back": (bad - noise(best["sqnr_db"])) / (bad - good), "float": best["float_share"] - trials[0]["float_share"],
                "evaluations": len(trials), "what": best["label"], "is_reached": done.returncode == 0})
    return row


def keeps_promise(row):
    return row["back"] >= PROMISE["back"] - 1e-3 and row["float"] <= PROMISE["float"] and row["evaluations"] <= PROMISE["evaluations"]


def line_of(row):
    start = f"| {row['model']} | {row['good']:.1f} | {row['bad']:.1f} | "
    if "back" not in row:
        return start + "- | - | - | - | nothing is lost |"
    return start + (f"{row['tuned']:.1f} | {100 * row['back']:.0f} % | {100 * row['float']:.1f} % | {row['evaluations']} | {row['what']}"
                    f"{'' if keeps_promise(row) else ' (missed)'} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--factor", type=float, default=60)
    parser.add_argument("--channels", type=int, default=2)
    parser.add_argument("--quantizer", default="x86")
    parser.add_argument("--effort", choices=["default", "high"], default="default", help="of octet tune")
    parser.add_argument("--octet", default=os.path.join(os.environ.get("OCTET_BINARIES", os.path.join(ROOT, "build", "release", "bin")), "octet"))
    parser.add_argument("--out", help="a folder for rows.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| model | dB before | dB with outliers | dB tuned | back | float | evaluations | |\n|---|---|---|---|---|---|---|---|")
    rows = []
    for name in options.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measure(name, options, folder))
        print(line_of(rows[-1]), flush=True)
    if options.out:
        os.makedirs(options.out, exist_ok=True)
        with open(os.path.join(options.out, "rows.json"), "w") as file:
            json.dump(rows, file, indent=1)
    lost = [row for row in rows if "back" in row]
    kept = sum(keeps_promise(row) for row in lost)
    print(f"\n{kept} of {len(lost)} models with a loss: at least 80 % of it back, at most 10 % more in float, at most 25 evaluations")


if __name__ == "__main__":
    main()
