"""What the wheel `octet` needs: the minor version of torch that it is built beside, which is the one
that octet/_torch_version.py asks for at import. scikit-build-core calls this while it builds."""

import importlib.metadata
import os


def built_beside() -> str:
    """The version of torch in the folder OCTET_TORCH_SITE (tools/dev/wheel.sh), else in the environment
    that builds. Of torch only LibTorch matters, which is the same for every Python."""
    folder = os.environ.get("OCTET_TORCH_SITE")
    if folder is None:
        return importlib.metadata.version("torch")
    return next(iter(importlib.metadata.distributions(name="torch", path=[folder]))).version


def dynamic_metadata(settings, project):
    """The field `dependencies`: `torch` of one minor version, and the other ones of the settings."""
    major, minor = built_beside().split("+")[0].split(".")[:2]
    return {"dependencies": [*settings["others"], f"torch=={major}.{minor}.*"]}
