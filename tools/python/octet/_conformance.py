"""Implements octet.conformance, which compares every op of a backend with the reference, and checks
quantizers."""

import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from octet_runtime._error import Error

from octet import _octet
from octet._files import Folder
from octet._messages import told
from octet._quantize import named
from octet._torchao import is_torchao
from octet._types import Path, QuantizerLike


class Conformance:
    """data: the JSON report, with the counts of each outcome and all cells. str() is the text that
    `octet conformance` prints."""

    def __init__(self, text: str, data: dict[str, Any]):
        self._text, self.data = text, data

    @property
    def passed(self) -> bool:
        """Whether no cell is wrong or crashed."""
        return self.data["wrong"] + self.data["crashed"] == 0

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__


def conformance(
    backend: str | Sequence[str] | None = None,
    *,
    quantizer: QuantizerLike | None = None,
    same_as: QuantizerLike | None = None,
    libraries: Sequence[Path] | None = None,
    models: Path | None = None,
    filter: str | None = None,
    quick: bool = False,
    seed: int = 1,
    timeout: float = 60,
    device_cmd: str | None = None,
) -> Conformance:
    """Runs small programs of every kind of op on a backend and on the reference and compares them;
    or checks a quantizer on small float programs. `octet conformance`, in a process of its command.

    backend: a name, also of a backend that one of the `libraries` registers; or several in order of
    preference, as for lower(). quantizer: as for quantize(), without those of torchao; it is
    checked, and the backend (by default the reference) must run what it annotates. same_as: a
    quantizer that must annotate as it does. models: a folder of .pt2 programs, each of which is a
    cell, too. filter: a regular expression for names of cells. quick: every eighth cell of each
    kind. timeout: seconds for one cell. device_cmd: a command that runs a cell on a device.

    Cells of an octet.Quantizer run in this process, without timeout; load its libraries with
    load_library(). What it raises, this function raises.

    Raises Error when the backend is unknown, no cell matches, or a library cannot be loaded. Cells
    that are wrong raise nothing; see `passed`.
    """
    if backend is not None and not isinstance(backend, str):
        backend = ",".join(backend)
    with Folder() as folder, told(folder.names, False):
        own, names = {}, []
        for given in (quantizer, same_as):
            parts = list(given) if isinstance(given, (list, tuple)) else [given]
            for part in (part for part in parts if is_torchao(part)):
                raise Error(
                    "conformance",
                    type(part).__name__,
                    "is torchao's, and annotates programs of Python only; write it as an "
                    "octet.Quantizer, in JSON or in C++",
                )
            names.append("" if given is None else named(folder, parts, own))
        if own:
            _octet.set_quantizers(own)
            texts = _octet.prove_quantizer(
                *names,
                backend or "reference",
                os.fspath(models) if models is not None else "",
                filter or "",
                quick,
                seed,
            )
            texts = [_COMMAND.sub(_as_call, text) for text in texts]
        else:
            options = ["--seed", str(seed), "--timeout", str(timeout)]
            options += ["--backend", backend] if backend is not None else []
            options += ["--quantizer", names[0]] if names[0] else []
            options += ["--same-as", names[1]] if names[1] else []
            for library in libraries or []:
                options += ["--library", os.fspath(library)]
            options += ["--models", os.fspath(models)] if models is not None else []
            options += ["--filter", filter] if filter is not None else []
            options += ["--device-cmd", device_cmd] if device_cmd is not None else []
            options += ["--quick"] if quick else []
            texts = _by_command(options, folder.path("report.json", "the report"))
        for path, name in folder.names.items():
            texts = [text.replace(path, name) for text in texts]
        return Conformance(texts[0], json.loads(texts[1]))


# What the reports say about a quantizer of Python, which the command does not know.
_COMMAND = re.compile(
    r"octet conformance --quantizer (\S+) --backend (\S+) --seed (\d+) --filter '([^']*)'"
    r'(?: --models ([^\n"]+))?'
)


def _as_call(match):
    quantizer, backend, seed, cells, models = match.groups()
    more = "" if models is None else f", models='{models}'"
    return (
        f"octet.conformance('{backend}', quantizer={quantizer}(), seed={seed}, "
        f"filter=r'{cells}'{more})"
    )


def _by_command(options, report):
    """The text and the JSON that the command writes."""
    run = subprocess.run(
        [sys.executable, "-m", "octet._command", "conformance", "--quiet", *options]
        + ["--json", report],
        capture_output=True,
        text=True,
    )
    if not os.path.exists(report):
        line = (run.stderr.strip().splitlines() or [f"exit {run.returncode}"])[-1]
        stage, _, message = line.removeprefix("octet: ").partition(": ")
        raise Error(stage if message else "conformance", "", message or line)
    return [run.stdout, pathlib.Path(report).read_text()]
