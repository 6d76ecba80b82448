"""A C++ source as far as messages need it: its tokens, functions, classes, calls and includes."""
import re
from dataclasses import dataclass, field

TOKEN = re.compile(r'''
    (?P<skip>\s+|//[^\n]*|/\*.*?\*/)
  | (?P<include>\#\s*include\s*"(?P<path>[^"\n]+)")
  | (?P<directive>\#(?:[^\n\\]|\\.)*(?:\\\n(?:[^\n\\]|\\.)*)*)
  | (?P<raw>(?:u8|[uUL])?R"(?P<end>[^()\s]*)\((?P<inside>.*?)\)(?P=end)")
  | (?P<str>"(?:[^"\\\n]|\\.)*")
  | (?P<char>'(?:[^'\\\n]|\\.)*')
  | (?P<num>\.?\d(?:[\w.']|(?<=[eEpP])[+-])*)
  | (?P<id>[A-Za-z_]\w*)
  | (?P<op>::|->|\+=|==|!=|<=|>=|&&|\|\||\+\+|--|\.\.\.|.)
''', re.VERBOSE | re.DOTALL)
ESCAPES = {"n": "\n", "t": "\t", '"': '"', "'": "'", "\\": "\\", "0": "\0", "r": "\r"}
CONTROL = {"if", "for", "while", "switch", "catch", "return", "sizeof", "decltype", "alignas",
           "constexpr", "static_assert", "noexcept", "requires", "throw", "new", "defined"}
ACCESS = {"public", "private", "protected"}
PAIRS = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True)
class Token:
    kind: str  # id, str, char, num, op
    text: str  # of a string: what it stands for
    line: int


@dataclass
class Function:
    """A function, method or named lambda that has a body."""
    name: str
    params: list  # their names, "" where one has none
    types: list  # as text
    body: tuple  # (first, last) token, those in braces
    file: object
    owner: str = ""  # its class
    scope: tuple = None  # a lambda: the tokens in which its name is known


@dataclass
class File:
    path: object
    tokens: list = field(default_factory=list)
    includes: list = field(default_factory=list)
    functions: list = field(default_factory=list)
    classes: list = field(default_factory=list)  # (name, first token, last token)
    matching: dict = field(default_factory=dict)  # a bracket's place: that of its partner


def unescaped(text):
    return re.sub(r"\\(.)", lambda m: ESCAPES.get(m[1], m[0]), text)


def tokens_of(text):
    """(tokens, paths of includes); adjacent literals are one."""
    tokens, includes, line = [], [], 1
    for match in TOKEN.finditer(text):
        kind = match.lastgroup if match.lastgroup not in ("path", "end", "inside") else None
        kind = kind or ("include" if match["include"] else "raw")
        if kind == "include":
            includes.append(match["path"])
        elif kind in ("str", "raw"):
            said = match["inside"] if kind == "raw" else unescaped(match["str"][1:-1])
            if tokens and tokens[-1].kind == "str":
                tokens[-1] = Token("str", tokens[-1].text + said, tokens[-1].line)
            else:
                tokens.append(Token("str", said, line))
        elif kind not in ("skip", "directive"):
            tokens.append(Token(kind, match[0], line))
        line += match[0].count("\n")
    return tokens, includes


def matching_of(tokens):
    """Each bracket's partner, both ways."""
    found, stack = {}, []
    for at, token in enumerate(tokens):
        if token.kind != "op":
            continue
        if token.text in PAIRS:
            stack.append(at)
        elif stack and token.text == PAIRS[tokens[stack[-1]].text]:
            found[stack[-1]], found[at] = at, stack[-1]
            stack.pop()
    return found


def split(file, first, last, separator=","):
    """The parts of tokens [first, last) between separators outside of brackets."""
    parts, start, at, angles = [], first, first, 0
    while at < last:
        text = file.tokens[at].text if file.tokens[at].kind == "op" else ""
        if text in PAIRS and at in file.matching:
            at = file.matching[at] + 1
            continue
        # A template's arguments: `<` after a name, if its `>` comes before anything else ends.
        if text == "<" and file.tokens[at - 1].kind == "id" and closes(file, at, last):
            angles += 1
        elif text == ">" and angles:
            angles -= 1
        elif text == separator and not angles:
            parts.append((start, at))
            start = at + 1
        at += 1
    if start < last or parts:
        parts.append((start, last))
    return parts


def closes(file, at, last):
    depth = 0
    for token in file.tokens[at:min(last, at + 40)]:
        if token.kind == "str" or token.text in (";", "{", "&&", "||", "(", "?"):
            return False
        depth += (token.text == "<") - (token.text == ">")
        if depth == 0:
            return True
    return False


def parameters(file, first, last):
    """(names, types) between the parentheses of a definition."""
    names, types = [], []
    for begin, end in split(file, first, last):
        given = next((at for at in range(begin, end) if file.tokens[at].text == "="), end)
        ids = [at for at in range(begin, given) if file.tokens[at].kind == "id"]
        named = len(ids) > 1 and ids[-1] == given - 1
        names.append(file.tokens[ids[-1]].text if named else "")
        types.append(" ".join(t.text for t in file.tokens[begin:given - named]))
    return names, types


def body_after(file, at):
    """The place of the brace that begins a function's body after its parameters, or None."""
    tokens = file.tokens
    while at < len(tokens):
        text = tokens[at].text
        if text == "{" and tokens[at].kind == "op":
            return at
        if text in ("const", "noexcept", "override", "final", "mutable", "try", "&", "&&"):
            at += 1
        elif text == "->":
            while at < len(tokens) and tokens[at].text not in ("{", ";", ",", ")", "="):
                at += 1
        elif text == ":":  # a constructor's initializers
            at += 1
            while at < len(tokens) and tokens[at].text not in ("(", "{", ";"):
                at += 1
            at = file.matching.get(at, len(tokens)) + 1
            while at < len(tokens) and tokens[at].text == ",":
                while at < len(tokens) and tokens[at].text not in ("(", "{", ";"):
                    at += 1
                at = file.matching.get(at, len(tokens)) + 1
        else:
            return None
    return None


def find_classes(file):
    tokens = file.tokens
    for at, token in enumerate(tokens):
        if token.text not in ("class", "struct") or (at and tokens[at - 1].text in ("enum", "<")):
            continue
        name, end = "", at + 1
        while end < len(tokens) and tokens[end].text not in ("{", ";", "(", ")", ",", ">", "="):
            if tokens[end].kind == "id" and not name and tokens[end].text != "final":
                name = tokens[end].text
            end += 1
        if name and end < len(tokens) and tokens[end].text == "{" and end in file.matching:
            file.classes.append((name, end, file.matching[end]))


def class_around(file, at):
    around = [c for c in file.classes if c[1] < at < c[2]]
    return max(around, key=lambda c: c[1])[0] if around else ""


def find_functions(file):
    tokens = file.tokens
    for at, token in enumerate(tokens):
        if token.text != "(" or token.kind != "op" or at not in file.matching or at == 0:
            continue
        before, close = tokens[at - 1], file.matching[at]
        named = before.kind == "id" and before.text not in CONTROL
        if named and at > 2 and (tokens[at - 2].text == "," or tokens[at - 2].text == ":"
                                 and tokens[at - 3].text not in ACCESS):
            continue  # a member that a constructor initializes
        if not named and before.text != "]":
            continue
        brace = body_after(file, close + 1)
        if brace is None or brace not in file.matching:
            continue
        names, types = parameters(file, at + 1, close)
        made = Function(before.text, names, types, (brace + 1, file.matching[brace]), file.path)
        if named:
            qualified = at > 2 and tokens[at - 2].text == "::" and tokens[at - 3].kind == "id"
            made.owner = tokens[at - 3].text if qualified else class_around(file, at)
        else:
            bracket = file.matching.get(at - 1, 0)
            if bracket < 2 or tokens[bracket - 1].text != "=" or tokens[bracket - 2].kind != "id":
                continue
            made.name = tokens[bracket - 2].text
            made.scope = block_around(file, bracket)
        file.functions.append(made)


def block_around(file, at):
    """The innermost braces around a place."""
    around = [(first, last) for first, last in file.matching.items()
              if first < at < last and file.tokens[first].text == "{"]
    return max(around, default=(0, len(file.tokens)))


def read(path, text):
    """The file of this text."""
    file = File(path)
    file.tokens, file.includes = tokens_of(text)
    file.matching = matching_of(file.tokens)
    find_classes(file)
    find_functions(file)
    return file
