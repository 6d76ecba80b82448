"""Defines Error, for invalid arguments of a caller, and checks that the package is compiled."""

import pathlib

LONGEST_SUBJECT, LONGEST_MESSAGE = 300, 4000


def _shown(text: str, most: int) -> str:
    """Converts text to one printable line. Errors of the compiled part already are; with escapes
    they have at most five times `most` characters."""
    text = text.replace("\n", " ")
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    if len(text) <= 5 * most:
        return text
    half = most // 2
    return f"{text[:half]} ... ({len(text) - 2 * half} characters) ... {text[-half:]}"


def check_compiled(package: str, module: str) -> None:
    """Raises a one-line ImportError if the compiled module is not in the package's folder, as in a
    build folder where only the command was built."""
    folder = pathlib.Path(package).parent
    if not any(folder.glob(f"{module}.*so")):
        raise ImportError(
            f"{folder.name}: {folder}: {module} is not compiled; run tools/setup.sh --python in "
            "the source tree, or install the wheel"
        )


class Error(Exception):
    """One line: `stage: subject: what is wrong, got G, want W; what to do`.

    stage: "pt2", "prepare", "lower", "session", ...; subject: the file, node or input that it is
    about, "" if unknown; message: what follows.
    """

    def __init__(self, stage: str, subject: str, message: str):
        subject = _shown(subject, LONGEST_SUBJECT)
        message = _shown(message, LONGEST_MESSAGE)
        super().__init__(f"{stage}: {subject}: {message}" if subject else f"{stage}: {message}")
        self.stage = stage
        self.subject = subject
        self.message = message

    def __reduce__(self):
        return type(self), (self.stage, self.subject, self.message)
