"""ImageNet's 1000 class names, read from the installed torchvision without importing it (its C extension is not needed for a list)."""
import ast
import importlib.util
import os


def imagenet_labels():
    folder = importlib.util.find_spec("torchvision").submodule_search_locations[0]
    tree = ast.parse(open(os.path.join(folder, "models", "_meta.py"), encoding="utf8").read())
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_IMAGENET_CATEGORIES":
            return ast.literal_eval(node.value)
    raise LookupError("torchvision/models/_meta.py: no _IMAGENET_CATEGORIES")
