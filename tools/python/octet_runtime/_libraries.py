"""The libraries that an installed package carries, opened where the dynamic linker does not look.

The module opens XNNPACK and oneDNN by its own run path. What XNNPACK needs in turn is looked for in
the system's folders alone, unless it is open already.
"""

import ctypes
import os

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")
_NAMES = ("libcpuinfo.so.0", "libpthreadpool.so.0")


def open_carried() -> None:
    """Does nothing in a build folder, where the system's libraries are used.

    As backends/README.md says: others do not see their symbols, and they see their own first.
    """
    mode = os.RTLD_NOW | os.RTLD_LOCAL | getattr(os, "RTLD_DEEPBIND", 0)
    for name in _NAMES:
        path = os.path.join(_FOLDER, name)
        if os.path.exists(path):
            ctypes.CDLL(path, mode=mode)
