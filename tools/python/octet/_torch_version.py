"""Whether the torch that is here is the one that the compiled part was built with.

LibTorch promises no binary interface from one minor version to the next: at::Tensor, the
dispatcher and IValue are C++ classes whose layout and symbols change. A module that was linked to
another version does not load, or worse, loads.
"""

import importlib.metadata

from octet._built_with import TORCH


def minor_version(version: str) -> str:
    """ "2.13.0+cpu" -> "2.13" """
    return ".".join(version.split("+")[0].split(".")[:2])


def check() -> None:
    """Raises ImportError, one line, when torch is missing or of another minor version."""
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
