"""The version of the wheels, which is that of CMakeLists.txt, and what the wheel `octet` needs: the
same version of octet-runtime, and the minor version of torch that it is built beside, which is the
one that octet/_torch_version.py asks for at import. scikit-build-core calls this while it builds."""

import importlib.metadata
import os
import pathlib
import re


def version() -> str:
    text = (pathlib.Path(__file__).parents[2] / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"^project\(octet VERSION ([\d.]+)", text, re.MULTILINE)[1]


def built_beside() -> str:
    """The version of torch in the folder OCTET_TORCH_SITE (tools/dev/wheel.sh), else in the environment
    that builds. Of torch only LibTorch matters, which is the same for every Python."""
    folder = os.environ.get("OCTET_TORCH_SITE")
    if folder is None:
        return importlib.metadata.version("torch")
    return next(iter(importlib.metadata.distributions(name="torch", path=[folder]))).version


def dynamic_metadata(settings, project):
    """The fields `version`, and for octet, whose settings list other distributions, `dependencies`."""
    if "others" not in settings:
        return {"version": version()}
    major, minor = built_beside().split("+")[0].split(".")[:2]
    needed = [f"octet-runtime=={version()}", *settings["others"], f"torch=={major}.{minor}.*"]
    return {"version": version(), "dependencies": needed}
