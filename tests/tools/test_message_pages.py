"""The reference of messages holds every error and refusal that the sources make.

What the sources say is found here once more and more simply: by the names of what makes messages,
and by words that messages alone have. No literal of these is missing in the reference.
"""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/site"))

from messages import errors, python_raises  # noqa: E402
from messages.quoted import anchor_of, quoted  # noqa: E402
from messages.render import HOLE  # noqa: E402
from messages.sources import EXAMPLE, FOLDERS_READ, Sources  # noqa: E402
from reference import messages as reference  # noqa: E402

COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
# Names of what makes a message, whatever it is: a class, a function, a lambda, a method.
MAKES = re.compile(r"\b((?:\w+_)?(?:Error|Refusal|error|fault|refused?|fail|want)(?:_\w+)?"
                   r"|ValidationError|invalid_argument)\s*[({]")
# Words that only messages have.
SAYS = re.compile(r", want |, got |; the file is damaged|; lower the |; give |; leave |; use ")
# What reads as one and stops nothing.
NO_MESSAGES = {
    "core/base/error.cpp": "bugs of Octet, which name the place",
    "lowering/program/packed_cache.cpp": "a warning: the file is rewritten",
    "tools/cli/quantize/data_checks.cpp": "warnings about data",
}


def sources():
    for folder in FOLDERS_READ:
        for end in ("*.h", "*.cpp"):
            for path in sorted((ROOT / folder).rglob(end)):
                name = path.relative_to(ROOT).as_posix()
                if EXAMPLE not in path.parents and name not in NO_MESSAGES:
                    text = COMMENT.sub(lambda m: m[0] if m[0][0] == '"' else " ", path.read_text())
                    yield name, re.sub(r'(?<!\\)"\s*\n\s*"', "", text)


def arguments_at(text, at):
    """The text in the brackets that open at `at`."""
    depth, place = 0, at
    pieces = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|[(){}\[\];]')
    for piece in pieces.finditer(text, at):
        depth += (piece[0] in "({[") - (piece[0] in ")}]")
        place = piece.end()
        if not depth or piece[0] == ";" and depth == 0:
            break
    return text[at:place]


def fixed_words(literal):
    """The parts of a literal between its fields that say something: two words or more."""
    plain = re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], literal)
    plain = plain.replace("{{", "\0").replace("}}", "\1")
    found = [part.replace("\0", "{").replace("\1", "}") for part in re.split(r"\{[^{}]*\}", plain)]
    return [part for part in found if len(re.findall(r"[A-Za-z]\w+", part)) > 1]


class Complete(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.entries = [entry for listed in reference.entries().values() for entry in listed]
        cls.all = "\n".join(entry.whole for entry in cls.entries)

    def missing(self, literal):
        if re.sub(r"\\(.)", r"\1", literal) in self.all:  # a string that is not a format may have braces
            return []
        return [part for part in fixed_words(literal)
                if re.sub(r"\s+", " ", part.strip()) not in self.all]

    def test_what_makes_a_message_is_in_the_reference(self):
        places = 0
        for path, text in sources():
            for match in MAKES.finditer(text):
                said = LITERAL.findall(arguments_at(text, match.end() - 1))
                places += bool(said)
                for literal in said:
                    with self.subTest(path=path, literal=literal):
                        self.assertEqual(self.missing(literal), [])
        self.assertGreater(places, 1000)

    def test_what_reads_as_a_message_is_in_the_reference(self):
        count = 0
        for path, text in sources():
            for literal in LITERAL.findall(text):
                if SAYS.search(literal):
                    count += 1
                    with self.subTest(path=path, literal=literal):
                        self.assertEqual(self.missing(literal), [])
        self.assertGreater(count, 550)


class Links(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.found = reference.entries()
        cls.pages = reference.pages()

    def test_each_message_has_an_anchor_of_its_own(self):
        for page, text in self.pages.items():
            anchors = re.findall(r"^#### .* \{ #(\S+) \.message \}$", text, re.MULTILINE)
            self.assertEqual(len(anchors), len(set(anchors)), page)
        anchors = [entry.anchor for listed in self.found.values() for entry in listed]
        self.assertGreater(len(anchors), 1200)
        self.assertEqual(len(anchors), len(set(anchors)))
        written = sum(len(re.findall(r"^#### ", text, re.MULTILINE))
                      for text in self.pages.values())
        self.assertEqual(written, len(anchors))

    def test_what_is_explained_by_hand_is_linked(self):
        everything = "".join(self.pages.values())
        for page, title, text in quoted():
            with self.subTest(page=page, title=title):
                self.assertIn(f"](../../errors/{page}#{anchor_of(title)})", everything)

    def test_the_menu_has_every_page(self):
        menu = (ROOT / "tools/site/mkdocs.yml").read_text()
        for page in self.pages:
            self.assertIn(f" {page}\n", menu)


def messages_of(text, **others):
    """What the reader finds in a source, (stage, subject, text) in order."""
    texts = {"core/a.cpp": text, **{f"core/{name}.h": other for name, other in others.items()}}
    return sorted({(m.stage, m.subject, m.text) for m in errors.Finder(Sources(texts)).find()})


class Forms(unittest.TestCase):
    """The ways in which sources make messages."""

    def test_what_varies_is_a_hole(self):
        self.assertEqual(
            messages_of('void f() { throw Error("pt2", path, fmt::format("has {} {{x}}, want " '
                        '"{:g}", n, m)); }'),
            [("pt2", HOLE, f"has {HOLE} {{x}}, want {HOLE}")])
        self.assertEqual(messages_of('void f() { throw Error("a", "b", "got " + n + ", want"); }'),
                         [("a", "b", f"got {HOLE}, want")])

    def test_both_ways_of_a_condition(self):
        self.assertEqual(
            [text for _, _, text in messages_of(
                'void f() { throw Error("a", "", x ? "no x here" : n > 1 ? "no y here" : z); }')],
            ["no x here", "no y here"])

    def test_what_passes_a_text_on(self):
        source = """
            [[noreturn]] void fail(const std::string& where, const std::string& what) {
              throw Error("run", where, what + "; try again"); }
            void f() { const auto refuse = [&](const std::string& said) { fail("%x", said); };
              refuse("is not a number"); }
            void g() { const std::string refuse = "not this"; fail("%y", "is not a list"); }"""
        self.assertEqual(messages_of(source), [("run", "%x", "is not a number; try again"),
                                               ("run", "%y", "is not a list; try again")])

    def test_methods_of_headers(self):
        header = ('struct Place { void want(const std::string& w) const { '
                  'throw Error("json", text(), "want " + w); } };')
        source = '#include "core/place.h"\nvoid f() { place.at(1).want("an int"); }'
        self.assertEqual(messages_of(source, place=header), [("json", HOLE, "want an int")])

    def test_constants_variables_and_functions(self):
        source = """
            constexpr const char* kStage = "tune";
            std::string advice(int n) { return fmt::format("give {} more", n); }
            void f() { std::string text = "is too small"; if (x) text += "; " + advice(3);
              throw Error(kStage, "--trials", text); }"""
        self.assertEqual(messages_of(source),
                         [("tune", "--trials", f"is too small; give {HOLE} more")])

    def test_refusals_and_reasons(self):
        source = """
            Verdict f() { return Verdict::refuse("the bias is not constant"); }
            void g() { throw Refusal{"negative padding"}; }
            std::string objection(int x) { if (x) return "it has no rows"; return {}; }
            void h() { report.add({"prepare", name, "", "", "it is not observed"}); }"""
        self.assertEqual([text for _, _, text in messages_of(source)],
                         ["it has no rows", "it is not observed", "negative padding",
                          "the bias is not constant"])

    def test_comments_and_declarations_are_no_messages(self):
        self.assertEqual(messages_of("""
            // throw Error("a", "b", "no message at all");
            [[noreturn]] void fail(const std::string& what);
            class Error;"""), [])

    def test_python(self):
        source = """
def f(x):
    words = "one of two"
    if x:
        raise Error("tune", "trials", f"is {x}, want {words}")
    raise ValueError("no such thing")
"""
        found, lines = python_raises.raised(source, "a.py")
        self.assertEqual([(m.stage, m.text) for m in found],
                         [("tune", f"is {HOLE}, want one of two"), ("", "no such thing")])
        self.assertEqual(lines, [5, 6])

    def test_every_raise_of_the_packages_is_read(self):
        count = sum(len(re.findall(r"^ +raise \w[\w.]*\(", path.read_text(), re.MULTILINE))
                    for package in python_raises.PACKAGES
                    for path in (ROOT / "tools/python" / package).rglob("*.py"))
        self.assertGreaterEqual(count, 25)
        self.assertEqual(len(python_raises.found()[1]), count)

    def test_an_anchor_is_of_its_message_alone(self):
        one = errors.Message("pt2", "", "is damaged; copy it again", "error", "core/a.cpp", 1)
        more = [errors.Message("pt2", "x", "is gone", "error", "core/b.cpp", 7),
                errors.Message("lower", "", "is damaged; copy it again", "error", "core/c.cpp", 7)]
        alone, = reference.entries([one])["files", "pt2"]
        among = [e.anchor for listed in reference.entries([*more, one]).values() for e in listed]
        self.assertEqual(len(set(among)), 3)
        self.assertIn(alone.anchor, among)

    def test_a_stage_that_no_page_has_is_told(self):
        unknown = errors.Message("brew", "", "no water, want some", "error", "core/a.cpp", 3)
        with self.assertRaisesRegex(ValueError, "core/a.cpp:3: the stage 'brew' is on no page"):
            reference.entries([unknown])
        with self.assertRaisesRegex(ValueError, "a refusal is on no page"):
            reference.entries([errors.Message("", "", "no water", "verdict", "brew/a.cpp", 3)])


if __name__ == "__main__":
    unittest.main()
