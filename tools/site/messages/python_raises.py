"""What the Python packages raise: their Errors, and other exceptions with a text."""
import ast

from repository import ROOT

from .errors import Message
from .render import HOLE, has_words, products, telling

PACKAGES = ("octet", "octet_runtime")


def readings(node, local):
    """What an expression says, as readings of the C++ ones."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [(node.value,)]
    if isinstance(node, ast.JoinedStr):
        return products([readings(part, local) for part in node.values])
    if isinstance(node, ast.FormattedValue):
        found = readings(node.value, local)
        return found if all(map(telling, found)) else [(HOLE,)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return products([readings(node.left, local), readings(node.right, local)])
    if isinstance(node, ast.IfExp):
        return readings(node.body, local) + readings(node.orelse, local)
    if isinstance(node, ast.Name) and node.id in local:
        return [reading for given in local[node.id] for reading in readings(given, {})]
    return [(HOLE,)]


def assigned(function):
    """The texts that names of a function are set to."""
    found = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append(node.value)
    return found


def raised(text, path):
    """(messages, lines of all that is raised) of one source."""
    messages, lines = [], []
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    for function in functions:
        local = assigned(function)
        for node in ast.walk(function):
            if not isinstance(node, ast.Raise) or not isinstance(node.exc, ast.Call):
                continue
            lines.append(node.lineno)
            own = getattr(node.exc.func, "id", "") == "Error"
            given = [("".join(reading) for reading in readings(argument, local))
                     for argument in node.exc.args if not isinstance(argument, ast.Starred)]
            if own and len(given) == 3:
                stage, subject = next(given[0]), next(given[1])
                kept = [Message(stage, subject, said, "python", path, node.lineno)
                        for said in given[2]]
            else:
                kept = [Message("", "", said, "python", path, node.lineno)
                        for said in (given[0] if given else ())]
            messages += [message for message in kept if has_words((message.text,))]
    return sorted(messages, key=lambda message: message.line), sorted(lines)


def found():
    """(messages, places) of the packages."""
    messages, places = [], []
    for package in PACKAGES:
        for source in sorted((ROOT / "tools/python" / package).rglob("*.py")):
            path = source.relative_to(ROOT).as_posix()
            more, lines = raised(source.read_text(), path)
            messages += more
            places += [(path, line, "raise") for line in lines]
    return messages, places
