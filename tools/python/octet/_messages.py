"""Passes messages of the compiled part to Python: warnings, and the logger "octet"."""

import contextlib
import logging
import re
import sys
import threading
import warnings
from collections.abc import Callable

from octet import _data, _octet
from octet_runtime._error import Error

_LOCK = threading.RLock()
_CALLS = 0  # how many are running, one within the other
_ALLOW = re.compile(r"--allow-op (\S+)")
_VALUES = "auto|dynamic|distill|high|mse|none|off|ok|onednn|static|torch|torchao|xnnpack"
_VALUE = re.compile(rf"--([a-z][a-z-]*[a-z]) ({_VALUES})\b(?![.-])")
_REPORT = re.compile(r"--report [A-Z]+[.](?:json|html)\b")
_FILE = re.compile(r"--([a-z][a-z-]*[a-z]) [A-Z]+[.](?:pt|json|so)\b")
_OPTION = re.compile(r"--([a-z][a-z-]*[a-z])")


def as_python(text: str) -> str:
    """Replaces the command's options by arguments: "--fold-bn" -> "fold_bn", "--fold-bn off" ->
    'fold_bn="off"', "--evaluate DATA.pt" -> "evaluate=...". `--library`, `--allow-op` and
    `--report FILE` become calls."""
    text = _ALLOW.sub(r'octet.allow_op("\1")', text)
    text = text.replace("--library LIB.so", "--library").replace("--library", "octet.load_library")
    text = _VALUE.sub(lambda match: f'{match[1].replace("-", "_")}="{match[2]}"', text)
    text = _REPORT.sub("report.save(...)", text)
    text = _FILE.sub(lambda match: f'{match[1].replace("-", "_")}=...', text)
    return _OPTION.sub(lambda match: match[1].replace("-", "_"), text)


def renamed(text: str, names: dict[str, str]) -> str:
    """Replaces the names of temporary files."""
    for path, name in names.items():
        text = text.replace(path, name)
    return text


class _Bars:
    """A bar for each stage of the work, made by tqdm or a class with its protocol."""

    def __init__(self, make):
        self._make, self._bar, self._stage, self._done = make, None, None, 0

    def __call__(self, stage, done, total):
        if self._bar is None or stage != self._stage or done < self._done:
            self.close()
            self._bar, self._stage, self._done = self._make(total=total or None, desc=stage), stage, 0
        self._bar.update(done - self._done)
        self._done = done

    def close(self):
        if self._bar is not None:
            self._bar.close()
        self._bar = None


@contextlib.contextmanager
def told(names: dict[str, str], progress: bool | Callable | None = False, depth: int = 5):
    """Wraps a call of the compiled part, one at a time: other threads wait.

    names: the names of temporary files for errors and warnings. progress: whether a bar is drawn on
    stderr; None: if stderr is a terminal; or what makes bars with tqdm's protocol. depth: the stack
    level that warnings point to.
    """
    with _LOCK:
        yield from _told(names, progress, depth)


def _told(names, progress, depth):
    global _CALLS

    def translated(text):
        return as_python(renamed(text, names))

    # A function of the user that a call calls may make others.
    is_outer = _CALLS == 0
    bars = _Bars(progress) if is_outer and callable(progress) else None
    if bars:
        _octet.set_quiet(True)
        _octet.set_progress(bars)
    elif is_outer:
        _octet.set_quiet(not (sys.stderr.isatty() if progress is None else progress))
    _CALLS += 1
    try:
        yield
    except Error as error:
        parts = (error.stage, translated(error.subject), translated(error.message))
        raise type(error)(*parts) from None
    finally:
        _CALLS -= 1
        if bars:
            _octet.set_progress(None)
            bars.close()
        if is_outer:
            _octet.set_quantizers({})
            _data.release()
        for is_warning, text in _octet.take_messages():
            if is_warning:
                warnings.warn(translated(text), stacklevel=depth)
            else:
                logging.getLogger("octet").info(translated(text))
