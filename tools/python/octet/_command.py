"""The `octet` command of the package: the program in octet/bin, with torch's libraries."""

import os
import sys

import octet_runtime

from octet._torch_version import check


def main() -> None:
    """Becomes the command; does not return."""
    try:
        check()
    except ImportError as error:
        sys.exit(str(error))
    here = os.path.dirname(os.path.abspath(__file__))
    command = os.path.join(here, "bin", "octet")
    # What XNNPACK needs in turn stands beside it.
    libraries = os.path.join(os.path.dirname(os.path.abspath(octet_runtime.__file__)), "lib")
    path = os.environ.get("LD_LIBRARY_PATH")
    os.environ["LD_LIBRARY_PATH"] = f"{libraries}:{path}" if path else libraries
    os.execv(command, [command, *sys.argv[1:]])
