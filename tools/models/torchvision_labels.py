"""ImageNet's 1000 class names, read from torchvision's sources."""
import ast
import os

from torchvision_apart import FOLDER


def imagenet_labels():
    with open(os.path.join(FOLDER, "torchvision", "models", "_meta.py"), encoding="utf8") as file:
        tree = ast.parse(file.read())
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_IMAGENET_CATEGORIES":
            return ast.literal_eval(node.value)
    raise LookupError("torchvision/models/_meta.py: no _IMAGENET_CATEGORIES")
