"""torchvision's architectures. Its wheel on PyPI is built for CUDA and cannot be imported unchanged beside a torch for CPUs, so tools/setup.sh puts it into a
separate folder, where nothing finds it by chance."""
import functools
import os
import sys

import torch

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".venv", "share", "torchvision")


@functools.cache
def _library():
    """What importing torchvision looks up of its compiled extension; the architectures call none of it."""
    library = torch.library.Library("torchvision", "DEF")
    for op in ("nms", "qnms"):
        library.define(op + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


def torchvision_models():
    """The module torchvision.models."""
    if os.path.isdir(FOLDER):
        _library()
        if FOLDER not in sys.path:
            sys.path.append(FOLDER)
    import torchvision.models
    return torchvision.models
