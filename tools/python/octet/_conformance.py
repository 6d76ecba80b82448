"""Implements octet.conformance, which compares every op of a backend with the reference."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from octet_runtime._error import Error


class Conformance:
    """data: the JSON report, with the counts of each outcome and all cells. str() is the text that
    `octet conformance` prints."""

    def __init__(self, text: str, data: dict):
        self._text, self.data = text, data

    @property
    def passed(self) -> bool:
        """Whether no cell is wrong or crashed."""
        return self.data["wrong"] + self.data["crashed"] == 0

    def __str__(self):
        return self._text

    __repr__ = __str__


def conformance(
    backend: str,
    *,
    libraries: list[str | os.PathLike] | None = None,
    filter: str | None = None,
    quick: bool = False,
    seed: int = 1,
    timeout: float = 60,
    device_cmd: str | None = None,
) -> Conformance:
    """Runs small programs of every kind of op on a backend and on the reference and compares them:
    `octet conformance`, in a process of its command.

    backend: a name, also of a backend that one of the `libraries` registers. filter: a regular
    expression for names of cells. quick: every eighth cell of each op. timeout: seconds for one
    cell. device_cmd: a command that runs a cell on a device.

    Raises Error when the backend is unknown, no cell matches, or a library cannot be loaded. Cells
    that are wrong raise nothing; see `passed`.
    """
    with tempfile.TemporaryDirectory(prefix="octet-conformance-") as folder:
        report = pathlib.Path(folder) / "report.json"
        options = ["--backend", backend, "--seed", str(seed), "--timeout", str(timeout)]
        for library in libraries or []:
            options += ["--library", os.fspath(library)]
        options += ["--filter", filter] if filter is not None else []
        options += ["--device-cmd", device_cmd] if device_cmd is not None else []
        options += ["--quick"] if quick else []
        run = subprocess.run(
            [sys.executable, "-m", "octet._command", "conformance", "--quiet", *options]
            + ["--json", report],
            capture_output=True,
            text=True,
        )
        if not report.exists():
            line = (run.stderr.strip().splitlines() or [f"exit {run.returncode}"])[-1]
            stage, _, message = line.removeprefix("octet: ").partition(": ")
            raise Error(stage if message else "conformance", "", message or line)
        return Conformance(run.stdout, json.loads(report.read_text()))
