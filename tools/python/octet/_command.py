"""Runs the `octet` command of the package: the program in octet/bin, with torch's libraries."""

import importlib.util
import os
import sys

import octet_runtime

from octet._torch_version import check


def main() -> None:
    """Replaces this process by the command; does not return."""
    try:
        check()
    except ImportError as error:
        sys.exit(str(error))
    here = os.path.dirname(os.path.abspath(__file__))
    command = os.path.join(here, "bin", "octet")
    # The command finds the libraries itself only if all three packages are in one folder. find_spec
    # does not import torch, which would take seconds.
    torch = importlib.util.find_spec("torch").submodule_search_locations[0]
    packages = [os.path.dirname(os.path.abspath(octet_runtime.__file__)), torch]
    folders = [os.path.join(package, "lib") for package in packages]
    path = os.environ.get("LD_LIBRARY_PATH")
    os.environ["LD_LIBRARY_PATH"] = ":".join([*folders, path] if path else folders)
    os.execv(command, [command, *sys.argv[1:]])


if __name__ == "__main__":
    main()
