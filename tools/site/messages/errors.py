"""The messages of the C++ sources: wherever an Error, a refusal or a Verdict is made."""
import functools
import re
from dataclasses import dataclass

from . import cpp, sources
from .render import HOLE, Param, Renderer, filled, has_words, of_params, products, telling

# What makes a message: its kind; where in its arguments stage, subject and text are, None: it has
# none.
ROOTS = {
    "Error": ("error", 0, 1, 2),
    "NothingToQuantize": ("error", 0, 1, 2),
    "ValidationError": ("option", None, 0, 1),
    "Refusal": ("verdict", None, None, -1),
    "OpRefusal": ("verdict", None, 0, 1),
    "invalid_argument": ("verdict", None, None, 0),
    "runtime_error": ("verdict", None, None, 0),
}
VERDICT = ("verdict", None, None, 0)  # Verdict::refuse
NOTED = ("verdict", None, None, -1)  # refusals_.push_back({&node, why})
CHECKED = ("option", None, None, None)  # what a lambda returns that checks an option
REPORT = re.compile(r"report_?$")
REPORTED = ("verdict", None, None, -1)  # report.add({stage, node, target, module, reason})
# Variables that hold why something is refused, and functions that return it.
REASONS = re.compile(r"(^|_)(why|fault|reason|obstacle|last_error)_?$")
OBJECTIONS = re.compile(r"(^|_)(objection|fault|obstacle|reason)(_|$)")
# Where these are declared; nothing is thrown there.
DECLARED = {"core/base/error.h", "core/base/error.cpp", "core/base/report.h",
            "backends/onednn/form.h", "backends/onednn/ops.h", "backends/xnnpack/library.h"}


@dataclass(frozen=True)
class Message:
    stage: str  # "" of a refusal, HOLE where it varies
    subject: str
    text: str
    kind: str  # "error", "verdict", "option" of the command, "python"
    file: str
    line: int


@dataclass(frozen=True)
class Way:
    """A message with the parameters of a function in it."""
    stage: tuple
    subject: tuple
    text: tuple
    kind: str
    file: str
    line: int

    def params(self):
        return {*of_params(self.stage), *of_params(self.subject), *of_params(self.text)}


class Finder:
    def __init__(self, of_files):
        self.sources, self.renderer = of_files, Renderer(of_files)
        self.sites = []  # (file, line, name) of every place that makes one
        self.functions = {path: sorted(file.functions, key=lambda f: f.body[0])
                          for path, file in of_files.files.items()}

    def function_around(self, file, at):
        around = [f for f in self.functions[file.path] if f.body[0] <= at < f.body[1]]
        return max(around, key=lambda f: f.body[0]) if around else None

    def root_at(self, file, at):
        """What a name at this place makes, when it makes a message."""
        tokens = file.tokens
        token, following = tokens[at], tokens[at + 1].text
        if token.kind != "id" or following not in ("(", "{") or at + 1 not in file.matching:
            return None
        before = tokens[at - 1].text if at else ""
        if token.text == "refuse" and before == "::" and tokens[at - 2].text == "Verdict":
            return VERDICT
        if token.text == "push_back" and before == "." and tokens[at - 2].text == "refusals_":
            return NOTED
        if token.text == "check" and before in ("->", ".") and tokens[at + 2].text == "[":
            return CHECKED
        if token.text == "add" and before in (".", "->") and REPORT.match(tokens[at - 2].text):
            return REPORTED
        if token.text in ROOTS and before not in ("class", "struct", ".", "->", "~", "explicit",
                                                  "catch", "public"):
            return ROOTS[token.text]
        return None

    def arguments(self, file, at):
        parts = cpp.split(file, at + 2, file.matching[at + 1])
        if len(parts) == 1 and file.tokens[parts[0][0]].text == "{":
            parts = cpp.split(file, parts[0][0] + 1, file.matching[parts[0][0]])
        return parts

    def roots(self):
        """(a function or None, the Ways made at a place in it) of each place."""
        for path, file in self.sources.files.items():
            if path in DECLARED:
                continue
            for at in range(len(file.tokens) - 1):
                places = self.root_at(file, at)
                if places is None:
                    yield from self.reason_at(file, at)
                    continue
                function, line = self.function_around(file, at), file.tokens[at].line
                kind, *places = places
                parts = self.arguments(file, at)
                if not parts or max((p for p in places if p is not None), default=0) >= len(parts):
                    continue
                given = [[("",)] if place is None else
                         self.renderer.readings(file, *parts[place], function) for place in places]
                if kind == "option" and places[-1] is None:
                    checks = cpp.Function("", [], [], (at + 2, file.matching[at + 1]), path)
                    given[2] = self.renderer.returned(checks, 0)
                self.sites.append((path, line, file.tokens[at].text))
                yield function, [Way(stage, subject, text, kind, path, line)
                                 for stage in given[0][:3] for subject in given[1][:1]
                                 for text in given[2]]

    def reason_at(self, file, at):
        """What is kept in a variable, or returned, to be said later."""
        tokens, function = file.tokens, None
        token, following = tokens[at], tokens[at + 1].text
        if token.kind != "id" or token.text == "return" and following in ("{", ";"):
            return
        if token.text == "return":
            function, begin = self.function_around(file, at), at + 1
            if function is None or not OBJECTIONS.search(function.name):
                return
        elif following == "=" and REASONS.search(token.text):
            function, begin = self.function_around(file, at), at + 2
        elif token.text == "TORCH_CHECK" and at + 1 in file.matching:
            said = cpp.split(file, at + 2, file.matching[at + 1])[1:]
            readings = products([self.renderer.readings(file, *part, None) for part in said])
            yield None, [self.reason(file, at, reading) for reading in readings]
            return
        if function is None:
            return
        end = begin
        while end < function.body[1] and tokens[end].text not in (";", ")"):
            end = file.matching.get(end, end) + 1 if tokens[end].text in cpp.PAIRS else end + 1
        readings = self.renderer.readings(file, begin, end, function)
        yield function, [self.reason(file, at, reading) for reading in readings]

    @staticmethod
    def reason(file, at, reading):
        return Way(("",), ("",), reading, "verdict", file.path, file.tokens[at].line)

    def find(self):
        """All messages; those of a function that passes on its parameters where it is called."""
        open_ways, done = [], []
        for function, ways in self.roots():
            for way in ways:
                (open_ways if function and way.params() else done).append((function, way))
        for _ in range(6):
            passed = {}
            for function, way in open_ways:
                passed.setdefault(id(function), (function, []))[1].append(way)
            names = {function.name for function, _ in passed.values()}
            open_ways, used = [], set()
            for path, file in self.sources.files.items():
                for at, token in enumerate(file.tokens[:-1]):
                    if token.text in names and token.kind == "id" and \
                            file.tokens[at + 1].text in ("(", "{"):
                        for way, function, target in self.passed_on(file, at, passed):
                            used.add(target)
                            (open_ways if function and way.params() else done).append(
                                (function, way))
            # What nobody is seen to call says what it can.
            done += [(None, way) for key, (_, ways) in passed.items() for way in ways
                     if key not in used]
            if not open_ways:
                break
        done += open_ways
        return [message for message in (self.message(way) for _, way in done) if message]

    def passed_on(self, file, at, passed):
        """The Ways that a call makes of those of the function that it calls."""
        if at + 1 not in file.matching:
            return
        parts = cpp.split(file, at + 2, file.matching[at + 1])
        following = file.tokens[file.matching[at + 1] + 1].text
        if file.tokens[at - 1].kind == "id" and file.tokens[at - 1].text not in (
                "return", "throw", "else", "co_return") or following == "{" and \
                file.tokens[at - 1].text in (">", "&", "*", "::"):
            return  # a declaration or a definition
        targets = self.sources.called(file, at, file.tokens[at].text, len(parts))
        function = self.function_around(file, at)
        for target in targets:
            if id(target) not in passed or target is function:
                continue
            given = [self.renderer.readings(file, *part, function) for part in parts]
            given += [[(HOLE,)]] * (len(target.params) - len(given))
            self.sites.append((file.path, file.tokens[at].line, file.tokens[at].text))
            for way in passed[id(target)][1]:
                for text in filled(way.text, given):
                    told = any(telling(one) for part in of_params(way.text)
                               if part < len(given) for one in given[part])
                    place = (file.path, file.tokens[at].line) if told else (way.file, way.line)
                    yield Way(filled(way.stage, given)[0], filled(way.subject, given)[0], text,
                              way.kind, *place), function, id(target)

    @staticmethod
    def message(way):
        def plain(reading):
            return "".join(HOLE if isinstance(part, Param) else part for part in reading)
        text = " ".join(re.sub(r"\{(:[^{}]*)?\}", HOLE, plain(way.text)).split())
        if len(re.findall(r"\w+", text.replace(HOLE, " x "))) < 2 or not has_words((text,)):
            return None  # the name of a part at most, to which another message adds the words
        return Message(plain(way.stage), plain(way.subject), text, way.kind, way.file, way.line)


@functools.cache
def found():
    """(messages, places) of the tree's C++ sources."""
    finder = Finder(sources.of_tree())
    messages = finder.find()
    return messages, sorted(set(finder.sites))
