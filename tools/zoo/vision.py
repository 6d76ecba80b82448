"""torchvision's classifiers, segmentation networks and video networks."""
import functools
import os
import sys

import data
from entry import Entry, Named

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models"))
from torchvision_apart import torchvision_models  # noqa: E402

CLASSIFIERS = {  # builder: side of the input
    "alexnet": 96, "convnext_tiny": 96, "densenet121": 96, "efficientnet_b0": 96,
    "efficientnet_v2_s": 96, "googlenet": 96, "inception_v3": 128, "maxvit_t": 224,
    "mnasnet0_5": 96, "mnasnet1_0": 96, "mobilenet_v2": 96, "mobilenet_v3_large": 96,
    "mobilenet_v3_small": 96, "regnet_x_400mf": 96, "regnet_y_400mf": 96, "resnet18": 96,
    "resnet50": 96, "resnext50_32x4d": 96, "shufflenet_v2_x0_5": 96, "shufflenet_v2_x1_0": 96,
    "squeezenet1_0": 96, "squeezenet1_1": 96, "swin_t": 112, "swin_v2_t": 128, "vgg11_bn": 64,
    "vit_b_32": 224, "wide_resnet50_2": 64,
}
SEGMENTATION = {"deeplabv3_mobilenet_v3_large": 96, "fcn_resnet50": 64,
                "lraspp_mobilenet_v3_large": 96}
VIDEO = {  # builder: (frames, side)
    "mc3_18": (8, 56), "r2plus1d_18": (8, 56), "r3d_18": (8, 56),
    "swin3d_t": (8, 64),
}


def _network(name, **options):
    group = torchvision_models()
    for part in name.split(".")[:-1]:
        group = getattr(group, part)
    return getattr(group, name.split(".")[-1])(weights=None, **options)


def _classifier(name):
    options = {"inception_v3": {"init_weights": False, "aux_logits": False},
               "googlenet": {"init_weights": False, "aux_logits": False}}
    return _network(name, **options.get(name, {}))


def _segmentation(name):
    input_name = "input" if name.startswith("lraspp") else "x"
    net = _network("segmentation." + name, weights_backbone=None)
    return Named(net, (input_name,), "out")


def entries():
    for name, size in CLASSIFIERS.items():
        yield Entry("torchvision/" + name, functools.partial(_classifier, name),
                    functools.partial(data.images, size))
    for name, size in SEGMENTATION.items():
        yield Entry("torchvision/" + name, functools.partial(_segmentation, name),
                    functools.partial(data.images, size))
    for name, (frames, size) in VIDEO.items():
        yield Entry("torchvision/" + name, functools.partial(_network, "video." + name),
                    functools.partial(data.clips, frames, size))
