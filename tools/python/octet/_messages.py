"""Passes messages of the compiled part to Python: warnings, and the logger "octet"."""

import contextlib
import logging
import re
import sys
import threading
import warnings

from octet import _octet
from octet_runtime._error import Error

_LOCK = threading.RLock()
_ALLOW = re.compile(r"--allow-op (\S+)")
_OPTION = re.compile(r"--([a-z][a-z-]*[a-z])")


def as_python(text: str) -> str:
    """Replaces names of the command's options by names of arguments: "--fold-bn" -> "fold_bn".
    `--library` and `--allow-op` become calls."""
    text = _ALLOW.sub(r'octet.allow_op("\1")', text)
    text = text.replace("--library LIB.so", "--library").replace("--library", "octet.load_library")
    return _OPTION.sub(lambda match: match[1].replace("-", "_"), text)


@contextlib.contextmanager
def told(names: dict[str, str], progress: bool | None = False, depth: int = 5):
    """Wraps a call of the compiled part, one at a time: other threads wait.

    names: the names of temporary files for errors and warnings. progress: whether a bar is drawn on
    stderr; None: if stderr is a terminal. depth: the stack level that warnings point to.
    """
    with _LOCK:
        yield from _told(names, progress, depth)


def _told(names, progress, depth):
    def renamed(text):
        for path, name in names.items():
            text = text.replace(path, name)
        return as_python(text)

    _octet.set_quiet(not (sys.stderr.isatty() if progress is None else progress))
    try:
        yield
    except Error as error:
        parts = (error.stage, renamed(error.subject), renamed(error.message))
        raise type(error)(*parts) from None
    finally:
        _octet.set_quantizers({})
        for is_warning, text in _octet.take_messages():
            if is_warning:
                warnings.warn(renamed(text), stacklevel=depth)
            else:
                logging.getLogger("octet").info(renamed(text))
