"""All C++ sources of the tree, and what a name in one of them means: found along the includes."""
import collections
import functools

from repository import FOLDERS, ROOT

from . import cpp

FOLDERS_READ = [folder for folder in FOLDERS if folder != "tests"]
EXAMPLE = ROOT / "tools/example_backend"  # to be copied, no part of the command


class Sources:
    """files: path from the root: cpp.File."""

    def __init__(self, texts):
        self.files = {path: cpp.read(path, text) for path, text in texts.items()}
        self.functions = collections.defaultdict(list)
        self.classes = collections.defaultdict(list)  # name: the files that define it
        self.constants = collections.defaultdict(list)  # kName: (file, first, last token)
        for path, file in self.files.items():
            for function in file.functions:
                self.functions[function.name].append(function)
            for name, _, _ in file.classes:
                self.classes[name].append(path)
            self.find_constants(file)

    def find_constants(self, file):
        """kName = ...; kName[] = ...; kName{...}; also of static members."""
        for at, token in enumerate(file.tokens[:-3]):
            if token.kind != "id" or not (token.text[:1] == "k" and token.text[1:2].isupper()):
                continue
            if at == 0 or file.tokens[at - 1].text not in ("char", "string", "string_view", "*",
                                                           "const", "auto"):
                continue
            begin = at + 1
            while file.tokens[begin].text in ("[", "]"):
                begin += 1
            if file.tokens[begin].text in ("=", "{", "("):
                end = begin
                while end < len(file.tokens) and file.tokens[end].text != ";":
                    end = file.matching.get(end, end) + 1
                self.constants[token.text].append((file, begin + 1, end))

    @functools.cache
    def distances(self, path):
        """How many includes lead from a file to each other one; X.h brings X.cpp along."""
        found, queue = {path: 0}, collections.deque([path])
        while queue:
            here = queue.popleft()
            for there in self.neighbors(here):
                if there not in found:
                    found[there] = found[here] + 1
                    queue.append(there)
        return found

    def neighbors(self, path):
        stem = path.rpartition(".")[0]
        twins = [stem + end for end in (".h", ".cpp") if stem + end in self.files]
        folder = path.rpartition("/")[0]
        for name in self.files[path].includes:
            for candidate in (name, f"{folder}/{name}"):
                if candidate in self.files:
                    twins.append(candidate)
                    break
        return twins

    def home(self, function, path):
        """How far a function is from a file: a method is where its class is."""
        near = self.distances(path)
        places = [function.file] + (self.classes.get(function.owner, []) if function.owner else [])
        return min((near.get(place, 999) for place in places), default=999)

    def called(self, file, at, name, count):
        """The functions that a call of `name` with this many arguments may mean, the nearest."""
        tokens = file.tokens
        before = tokens[at - 1].text if at else ""
        owner = tokens[at - 2].text if before == "::" and at > 1 else ""
        around = cpp.class_around(file, at) or self.owner_around(file, at)
        found = []
        for function in self.functions.get(name, ()):
            if count > len(function.params):
                continue
            if function.scope and not (function.file == file.path and
                                       function.scope[0] < at < function.scope[1]):
                continue
            if owner and function.owner != owner and function.owner and owner != "octet":
                continue
            if before in (".", "->") and not function.owner:
                continue
            if before not in (".", "->", "::") and function.owner and not around:
                continue
            hidden = function.file.endswith(".cpp") and not function.owner and not self.shown(
                function)
            if hidden and function.file != file.path:
                continue
            home = self.home(function, file.path)
            if home < 999:
                found.append((0 if function.scope else 1, home, len(function.params) - count,
                              function))
        if not found:
            return []
        best = min(entry[:2] for entry in found)
        return [entry[3] for entry in sorted(found, key=lambda e: e[:3]) if entry[:2] == best]

    def overloads(self, file, name, count):
        """The free functions of a name with this many parameters that a file can see."""
        return [function for function in self.functions.get(name, ())
                if not function.owner and not function.scope and len(function.params) == count
                and self.home(function, file.path) < 999
                and (function.file == file.path or self.shown(function))]

    def shown(self, function):
        """Whether a header names a free function of a .cpp file."""
        return function.name in self.names_in_headers()

    @functools.cache
    def names_in_headers(self):
        return {token.text for path, file in self.files.items() if path.endswith(".h")
                for token, behind in zip(file.tokens, file.tokens[1:])
                if token.kind == "id" and behind.text == "("}

    def owner_around(self, file, at):
        """The class of the method that is defined around a place outside of its class."""
        return next((function.owner for function in file.functions
                     if function.owner and function.body[0] <= at < function.body[1]), "")


@functools.cache
def of_tree():
    texts = {}
    for folder in FOLDERS_READ:
        for end in ("*.h", "*.cpp"):
            for path in sorted((ROOT / folder).rglob(end)):
                if EXAMPLE in path.parents:
                    continue
                texts[path.relative_to(ROOT).as_posix()] = path.read_text()
    return Sources(texts)
