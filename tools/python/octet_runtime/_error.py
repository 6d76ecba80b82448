"""Defines Error, for invalid arguments of a caller, and checks that the package is compiled."""

import ast
import pathlib
import re

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


# What arguments of a type may be, by the last part of the names of both.
_ALSO = {
    "float": {"int", "bool"},
    "int": {"bool"},
    "None": {"NoneType"},
    "PathLike": {"Path", "PosixPath", "WindowsPath"},
    "Sequence": {"list", "tuple"},
    "Iterable": {"list", "tuple"},
    "Mapping": {"dict"},
    "Tensor": {"Parameter"},
    "Callable": {"function", "method", "builtin_function_or_method"},
}
_UNFIT = re.compile(
    r"(\w+)\(\): incompatible function arguments\.[^\n]*\n(.*)\n\nInvoked with types: ?(.*)",
    re.DOTALL,
)


def plain_type_error(text: str) -> str:
    """`load: path: got int, want str or os.PathLike` for what nanobind says about arguments that no
    signature takes."""
    match = _UNFIT.match(text)
    if match is None:
        return text
    name, signatures, given = match.groups()
    signatures = [line.split(". ", 1)[1] for line in signatures.splitlines() if ". " in line]
    values, _, named = given.partition("kwargs = {")
    values = [value for value in values.split(", ") if value]
    named = dict(pair.split(": ", 1) for pair in named.strip(" }").split(", ") if pair)
    if name == "__init__" and values:
        name = values[0].split(".")[-1]
    faults = _faults(signatures[0], values, named) if len(signatures) == 1 else []
    if faults:
        return f"{name}: {'; '.join(faults)}"
    wanted = " or ".join(signature.split(" -> ")[0] for signature in signatures)
    return f"{name}: got ({given}), want {wanted}"


def _faults(signature: str, values: list, named: dict) -> list[str]:
    """What does not fit; nothing if the types do not show it."""
    try:
        arguments = ast.parse(f"def {signature}: pass").body[0].args
    except SyntaxError:
        return []
    if arguments.vararg or arguments.kwarg:
        return []
    places = arguments.posonlyargs + arguments.args
    required = places[: len(places) - len(arguments.defaults)]
    required += [a for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults) if d is None]
    if places and places[0].arg == "self":
        values = [places[0].annotation, *values[1:]]
    if len(values) > len(places):
        return [f"got {len(values)} arguments by position, want at most {len(places)}"]
    known = {argument.arg: argument for argument in places + arguments.kwonlyargs}
    bound = {place.arg: value for place, value in zip(places, values)} | named
    faults = [f"{name}: unknown argument" for name in bound if name not in known]
    faults += [f"{a.arg}: is missing" for a in required if a.arg not in bound]
    unsure = []  # a class with a dotted name may derive from what is wanted
    for name, got in bound.items():
        wanted = _alternatives(known[name].annotation) if name in known else []
        if wanted and name != "self" and not any(_takes(each, got) for each in wanted):
            fault = f"{name}: got {got}, want {' or '.join(map(ast.unparse, wanted))}"
            (unsure if "." in got else faults).append(fault)
    faults = faults or unsure
    return [re.sub(r"\b(octet|octet_runtime)\._\w+\.", r"\1.", fault) for fault in faults]


def _alternatives(annotation) -> list:
    """[A, B] of A | B."""
    if isinstance(annotation, ast.BinOp):
        return _alternatives(annotation.left) + _alternatives(annotation.right)
    return [annotation] if annotation is not None else []


def _takes(wanted, got: str) -> bool:
    if isinstance(wanted, ast.Subscript):
        wanted = wanted.value
    name, got = ast.unparse(wanted).split(".")[-1], got.split(".")[-1]
    return name in (got, "Any", "object") or got in _ALSO.get(name, ())


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
