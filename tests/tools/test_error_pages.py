"""The messages that the site's pages about errors (tools/site/docs/errors/*.md) quote are in the
sources: the words between what is <variable> stand in one file, in one message."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ROOT / "tools/site/docs/errors"
QUOTED = re.compile(r"^## ([^\n]*)\n\n```text\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
FOLDERS = ("annotate", "backends", "core", "lowering", "quantizers", "tools")


def messages(text):
    """What a source says: its literals, joined where one follows the other, one a line."""
    joined = re.sub(r'(?<!\\)"\s*\n\s*"', "", text)
    return [literal.replace('\\"', '"') for literal in LITERAL.findall(joined)]


def parts(quoted):
    """The fixed words of a message; what leads to the first of them is the subject."""
    fixed = [part.strip(" ") for part in re.split(r"<[^<>]*>", " ".join(quoted.split()))]
    fixed = [re.sub(r"^(batch|%|: |:)+", "", part).strip() for part in fixed]
    return [part for part in fixed if len(part) > 3]


def stands_in(source, wanted):
    """Whether one literal, with those just before and after it, has these parts in order."""
    for at in range(len(source)):
        near, place = "\n".join(source[at:at + 4]), 0
        for part in wanted:
            place = near.find(part, place)
            if place < 0:
                break
            place += len(part)
        else:
            return True
    return False


class ErrorPages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.sources = [messages(path.read_text()) for folder in FOLDERS
                       for end in ("*.cpp", "*.h") for path in (ROOT / folder).rglob(end)]

    def quoted(self):
        return [(page.name, title, text) for page in sorted(PAGES.glob("*.md"))
                for title, text in QUOTED.findall(page.read_text())]

    def test_each_message_is_in_the_sources(self):
        found = self.quoted()
        self.assertGreaterEqual(len(found), 30)
        for page, title, text in found:
            with self.subTest(page=page, title=title):
                wanted = parts(text)
                self.assertGreaterEqual(sum(map(len, wanted)), 20, "too little to be found by")
                self.assertTrue(any(stands_in(source, wanted) for source in self.sources), wanted)

    def test_each_section_quotes_its_message(self):
        for page in sorted(PAGES.glob("*.md")):
            if page.name != "index.md":
                text = page.read_text()
                self.assertEqual(re.findall(r"^## (.*)$", text, re.MULTILINE),
                                 [title for title, _ in QUOTED.findall(text)])

    def test_words_that_are_not_there_are_missed(self):
        wanted = parts("<file>: schema version, got <7>, want <8>; export with torch 1.0")
        self.assertFalse(any(stands_in(source, wanted) for source in self.sources))

    def test_the_index_names_every_page(self):
        index = (PAGES / "index.md").read_text()
        for page in PAGES.glob("*.md"):
            if page.name != "index.md":
                self.assertIn(f"]({page.name})", index)


if __name__ == "__main__":
    unittest.main()
