"""The messages that the site's pages about errors (tools/site/docs/errors/*.md) quote are those of
the sources: the words between what is <variable> are in one message, in their order."""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/site"))

from messages.quoted import PAGES, QUOTED, has_parts, parts, quoted  # noqa: E402
from reference import messages  # noqa: E402


class ErrorPages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.messages = [entry.whole for listed in messages.entries().values() for entry in listed]

    def is_made(self, wanted):
        return any(has_parts(message, wanted) for message in self.messages)

    def test_each_message_is_in_the_sources(self):
        found = quoted()
        self.assertGreaterEqual(len(found), 25)
        for page, title, text in found:
            with self.subTest(page=page, title=title):
                wanted = parts(text)
                self.assertGreaterEqual(sum(map(len, wanted)), 20, "too little to be found by")
                self.assertTrue(self.is_made(wanted), wanted)

    def test_each_section_quotes_its_message(self):
        for page in sorted(PAGES.glob("*.md")):
            if page.name != "index.md":
                text = page.read_text()
                self.assertEqual(re.findall(r"^## (.*)$", text, re.MULTILINE),
                                 [title for title, _ in QUOTED.findall(text)])

    def test_words_that_are_not_there_are_missed(self):
        self.assertFalse(self.is_made(parts(
            "<file>: schema version, got <7>, want <8>; export with torch 1.0")))
        self.assertFalse(self.is_made(parts("<file>: want <8>, got <7>: schema version")))

    def test_the_index_names_every_page(self):
        index = (PAGES / "index.md").read_text()
        for page in PAGES.glob("*.md"):
            if page.name != "index.md":
                self.assertIn(f"]({page.name})", index)
        self.assertIn("](../reference/messages/index.md)", index)


if __name__ == "__main__":
    unittest.main()
