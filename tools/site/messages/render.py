"""What a C++ expression of text says: its fixed words, with a hole for each part that varies."""
import itertools
import re
from dataclasses import dataclass

from . import cpp

HOLE = "…"
MOST = 4  # readings of an expression of several parts
MOST_OF_ONE = 40  # of one that has a single part with several readings
FIELD = re.compile(r"\{\{|\}\}|\{[^{}]*\}")


@dataclass(frozen=True)
class Param:
    """A parameter of the function around, by its place."""
    index: int


def simple(parts):
    """A reading with neighboring strings joined; `parts` are strings and Params."""
    joined = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        elif part != "":
            joined.append(part)
    return tuple(re.sub(f"{HOLE}(\\s*{HOLE})+", HOLE, part) if isinstance(part, str) else part
                 for part in joined)


def products(choices):
    """Each way to take one reading of every choice, joined; a choice that makes too many varies."""
    while True:
        total = 1
        for readings in choices:
            total *= len(readings)
        single = sum(len(readings) > 1 for readings in choices) < 2
        if total <= (MOST_OF_ONE if single else MOST):
            break
        widest = max(range(len(choices)), key=lambda at: len(choices[at]))
        choices[widest] = [(HOLE,)]
    return list(dict.fromkeys(simple(itertools.chain(*way)) for way in itertools.product(*choices)))


def has_words(reading):
    """Whether a reading says something by itself."""
    return any(re.search(r"[A-Za-z]{2}", part) for part in reading if isinstance(part, str))


def of_params(reading):
    return [part.index for part in reading if isinstance(part, Param)]


def telling(reading):
    """Whether what is put into a message adds to it: words, not a single name."""
    return any(isinstance(part, Param) for part in reading) or \
        bool(re.search(r"[A-Za-z]{2}.*\s|\s.*[A-Za-z]{2}", "".join(reading)))


def is_name(reading):
    """A function's name, say, that tells a user nothing."""
    return any(isinstance(part, str) and "_" in part for part in reading)


def filled(reading, arguments):
    """The readings where the parameters are replaced; `arguments`: the readings of each. A single
    name stays a hole of a message that has other words."""
    says = sum(len(word) for part in reading if isinstance(part, str)
               for word in re.findall(r"[A-Za-z]{2,}", part)) > 10
    choices = []
    for part in reading:
        given = [(part,)] if isinstance(part, str) else (
            arguments[part.index] if part.index < len(arguments) else [(HOLE,)])
        if not isinstance(part, str):
            given = list(dict.fromkeys(one if telling(one) or not says and not is_name(one)
                                       else (HOLE,) for one in given))
        choices.append(given)
    return products(choices)


def brief(readings):
    """Readings of a part of a message: a few of one word each become one, `weight/bias`."""
    plain = [reading[0] if len(reading) == 1 and isinstance(reading[0], str) else ""
             for reading in readings]
    if len(readings) < 2 or any(reading and not isinstance(reading[0], str)
                                for reading in readings):
        return readings
    if all(reading == () or re.fullmatch(r"\w{1,3}", text)
           for reading, text in zip(readings, plain)):
        return [max(readings, key=lambda r: len(r[0]) if r else 0)]
    if len(readings) <= 3 and all(re.fullmatch(r"[\w.-]+", text) for text in plain):
        return [("/".join(plain),)]
    return readings


def formatted(pattern, given):
    """The readings of a format string; `given`: those of its arguments."""
    choices, following = [], iter(range(len(given)))
    for part in pattern:
        if not isinstance(part, str):
            choices.append([(part,)])
            continue
        place = 0
        for hole in FIELD.finditer(part):
            choices.append([(part[place:hole.start()],)])
            place = hole.end()
            if hole[0] in ("{{", "}}"):
                choices.append([(hole[0][0],)])
                continue
            number = re.match(r"\{(\d+)", hole[0])
            index = int(number[1]) if number else next(following, -1)
            choices.append(given[index] if 0 <= index < len(given) else [(HOLE,)])
        choices.append([(part[place:],)])
    return products(choices)


class Renderer:
    def __init__(self, sources):
        self.sources = sources

    def readings(self, file, first, last, function, depth=0):
        """The readings of tokens [first, last) of a file: a list of tuples of strings and Params."""
        tokens = file.tokens
        while last - first > 1 and tokens[first].text == "(" \
                and file.matching.get(first) == last - 1:
            first, last = first + 1, last - 1
        if first >= last or depth > 6:
            return [(HOLE,)]
        question = cpp.split(file, first, last, "?")
        if len(question) > 1:
            return self.of_choice(file, question[0][1] + 1, last, function, depth)
        terms = cpp.split(file, first, last, "+")
        if len(terms) > 1:
            return products([self.readings(file, *term, function, depth + 1) for term in terms])
        token = tokens[first]
        if token.kind == "str" and last == first + 1:
            return [simple((token.text,))]
        if token.kind == "id":
            return self.of_name(file, first, last, function, depth)
        return [(HOLE,)]

    def of_choice(self, file, first, last, function, depth):
        """What follows `?`: both sides of its colon."""
        at, depth_of = first, 0
        while at < last:
            text = file.tokens[at].text if file.tokens[at].kind == "op" else ""
            if text == "?":
                depth_of += 1
            elif text == ":":
                if not depth_of:
                    break
                depth_of -= 1
            at = file.matching[at] + 1 if text in cpp.PAIRS and at in file.matching else at + 1
        both = [*self.readings(file, first, at, function, depth + 1),
                *self.readings(file, at + 1, last, function, depth + 1)]
        return list(dict.fromkeys(both))[:MOST_OF_ONE]

    def of_name(self, file, first, last, function, depth):
        """A variable, a constant, or the call of a function, with what is done to its result."""
        tokens, at, path = file.tokens, first, [file.tokens[first].text]
        while at + 2 < last and tokens[at + 1].text == "::":
            at += 2
            path.append(tokens[at].text)
        if at + 1 == last:
            return self.of_variable(file, at, function, depth)
        if tokens[at + 1].text in ("(", "{") and file.matching.get(at + 1) is not None:
            close = file.matching[at + 1]
            if close + 1 == last:
                return self.of_call(file, path, at, cpp.split(file, at + 2, close), function, depth)
            if [t.text for t in tokens[close + 1:last]] in ([".", "c_str", "(", ")"],
                                                            [".", "string", "(", ")"]):
                return self.readings(file, first, close + 1, function, depth + 1)
        if tokens[at + 1].text == "." and tokens[at + 2].text in ("c_str", "str", "substr") and \
                file.matching.get(at + 3) == last - 1:
            return self.of_variable(file, at, function, depth)
        return [(HOLE,)]

    def of_call(self, file, path, at, arguments, function, depth):
        name = path[-1]
        if name == "format" and path[0] == "fmt" and arguments:
            return self.of_format(file, arguments, function, depth)
        if name in ("string", "string_view", "move", "runtime", "one_line") and arguments:
            return self.readings(file, *arguments[0], function, depth + 1)
        if depth > 3 or path[0] in ("std", "fmt", "nb", "at", "torch"):
            return [(HOLE,)]
        called = self.sources.called(file, at, name, len(arguments))
        if called and called[0].file != file.path and \
                len(self.sources.overloads(file, name, len(arguments))) > 1:
            return [(HOLE,)]  # which one is meant, the arguments' types say
        for called in called[:1]:
            given = [self.readings(file, *argument, function, depth + 1) for argument in arguments]
            found = [reading for part in self.returned(called, depth)
                     for reading in filled(part, given)]
            if found and len(found) <= MOST_OF_ONE and any(map(has_words, found)):
                return list(dict.fromkeys(found))
        return [(HOLE,)]

    def returned(self, called, depth):
        """What a function of text returns."""
        file = self.sources.files[called.file]
        found, at = [], called.body[0]
        while at < called.body[1]:
            if file.tokens[at].text == "return" and file.tokens[at].kind == "id":
                end = at + 1
                while end < called.body[1] and file.tokens[end].text != ";":
                    end = file.matching.get(end, end) + 1 if file.tokens[end].text in cpp.PAIRS \
                        else end + 1
                found += self.readings(file, at + 1, end, called, depth + 2)
                at = end
            at += 1
        return found

    def of_format(self, file, arguments, function, depth):
        ways = []
        for pattern in self.readings(file, *arguments[0], function, depth + 1):
            given = [self.of_field(file, argument, function, depth) for argument in arguments[1:]]
            made = formatted(pattern, given)
            if not any(map(has_words, made)):
                given = [self.readings(file, *argument, function, depth + 1)
                         for argument in arguments[1:]]
                made = formatted(pattern, given)
            ways += made
        return ways[:MOST_OF_ONE]

    def of_field(self, file, argument, function, depth):
        """What an argument of format() says; what has no words varies."""
        found = self.readings(file, *argument, function, depth + 1)
        if len(found) > 1 and file.tokens[argument[1] - 1].text == ")" and \
                len(cpp.split(file, *argument, "?")) == 1:
            return [(HOLE,)]  # a function's that has many
        found = brief(found)
        if any(of_params(reading) for reading in found):
            return found if len(found) == 1 else [(HOLE,)]
        says = any(telling(reading) or has_words(reading) and HOLE not in reading[0]
                   for reading in found)
        return found if says and len(found) <= 4 else [(HOLE,)]

    def of_variable(self, file, at, function, depth):
        name = file.tokens[at].text
        if function:
            if name in function.params:
                return [(Param(function.params.index(name)),)]
            found = self.assigned(file, at, name, function, depth)
            if found:
                return found
        near = self.sources.distances(file.path)
        known = [entry for entry in self.sources.constants.get(name, ()) if entry[0].path in near]
        for there, begin, end in sorted(known, key=lambda entry: near[entry[0].path])[:1]:
            return self.readings(there, begin, end, None, depth + 1)
        return [(HOLE,)]

    def of_table(self, file, name):
        """The texts in a table, one of which a loop takes."""
        tokens = file.tokens
        for at, token in enumerate(tokens[:-1]):
            if token.text == name and tokens[at + 1].text in ("=", "{"):
                end = at + 1
                while tokens[end].text != ";":
                    end = file.matching.get(end, end) + 1 if tokens[end].text in cpp.PAIRS \
                        else end + 1
                return [(t.text,) for t in tokens[at:end] if t.kind == "str" and " " in t.text]
        return []

    def assigned(self, file, at, name, function, depth):
        """What a local variable was given before this place."""
        tokens, found, more = file.tokens, [], []
        for here in range(function.body[0], at):
            if tokens[here].text == ":" and tokens[here - 1].text == "]" and here + 1 < at and \
                    tokens[here + 1].text[:1] == "k" and \
                    name in [t.text for t in tokens[file.matching[here - 1]:here]]:
                return self.of_table(file, tokens[here + 1].text)
            if tokens[here].text != name or tokens[here].kind != "id" or \
                    tokens[here - 1].text in (".", "->", "::"):
                continue
            following = tokens[here + 1].text
            if following not in ("=", "+=", "(", "{"):
                continue
            if following in ("(", "{"):
                if tokens[here - 1].kind != "id" or here + 1 not in file.matching:
                    continue
                begin, end = here + 2, file.matching[here + 1]
            else:
                begin = end = here + 2
                while end < function.body[1] and tokens[end].text not in (";", ")"):
                    end = file.matching.get(end, end) + 1 if tokens[end].text in cpp.PAIRS \
                        else end + 1
            if begin <= at < end:
                continue
            given = self.readings(file, begin, end, function, depth + 2)
            if following == "+=":
                more.append(given)
            else:
                found += given
        found = list(dict.fromkeys(found))[:MOST_OF_ONE]
        return products([found or [()], *more]) if found or more else []
