"""Runs the `octet` command of the package: the program in octet/bin, with torch's libraries."""

import argparse
import importlib.util
import os
import sys

import octet_runtime

from octet._torch_version import check


def _device(arguments: list[str]) -> str:
    """Where `octet qat` is to train; "cpu" for other commands."""
    if arguments[:1] != ["qat"] or {"-h", "--help"} & set(arguments):
        return "cpu"
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--device", nargs="?", default="cpu")
    return parser.parse_known_args(arguments)[0].device or "cpu"


def main() -> None:
    """Replaces this process by the command, except for `octet qat` on another device than the CPU,
    which PyTorch trains; does not return."""
    try:
        check()
    except ImportError as error:
        sys.exit(str(error))
    if _device(sys.argv[1:]) != "cpu":
        from octet import _qat_command

        sys.exit(_qat_command.main(sys.argv[2:]))
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
