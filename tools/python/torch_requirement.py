"""What the wheel `octet` needs: the minor version of torch that it is built beside, which is the one
that octet/_torch_version.py asks for at import. scikit-build-core calls this while it builds."""

import importlib.metadata


def dynamic_metadata(settings, project):
    """The field `dependencies`: `torch` of one minor version, and the other ones of the settings."""
    major, minor = importlib.metadata.version("torch").split("+")[0].split(".")[:2]
    return {"dependencies": [*settings["others"], f"torch=={major}.{minor}.*"]}

