"""Checks that the installed torch is the version that the compiled part was built with.

LibTorch has no stable binary interface across minor versions: at::Tensor, the dispatcher and
IValue are C++ classes whose layout and symbols change. A module linked to another version fails to
load or, worse, loads.
"""

import importlib.metadata

from octet._built_with import TORCH


def minor_version(version: str) -> str:
    """ "2.13.0+cpu" -> "2.13" """
    return ".".join(version.split("+")[0].split(".")[:2])


def check() -> None:
    """Raises a one-line ImportError if torch is missing or has another minor version."""
    wanted = minor_version(TORCH)
    try:
        found = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        found = None
    if found is None or minor_version(found) != wanted:
        raise ImportError(
            f"octet: torch: got {found or 'none'}, want {wanted}, which this build of octet is "
            f"for; pip install 'torch=={wanted}.*', or build octet from source beside that torch"
        )
