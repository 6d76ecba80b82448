"""Every block of every page is in PLAN (page_blocks.py), with a test that runs it or a reason, and links between pages lead somewhere."""
import os
import pathlib
import re
import unittest

import test_page_blocks
from page_blocks import BLOCK, PLAN, ROOT, By, NotRun, Run, blocks, fate, pages
from test_json_schema import examples_of

MADE = ROOT / "tools/site/docs/reference"  # by the build of the site; test_site.py follows these
LINK = re.compile(r"\]\(([^)\s]+)\)")
SCRIPT = re.compile(r"(?<![\w/.-])tools/[\w/]+\.(?:py|sh)")


def anchors(text):
    """The anchors of a page's headings, made from their words."""
    words = re.findall(r"^#+ (.*)$", BLOCK.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in words}


class Accounts(unittest.TestCase):
    """Nothing on the pages is left out."""

    def test_every_block_is_planned(self):
        used = set()
        for block in blocks():
            with self.subTest(block=str(block)):
                self.assertNotEqual(block.language, "", "a drawing is text, commands are sh")
                if block.language == "json":
                    self.assertTrue(list(examples_of(f"```json\n{block.text}```")))
                elif block.language != "text":
                    self.assertIsNotNone(fate(block), "no entry in PLAN: run it or say why not")
                    used.add(next((block.page, start) for start in PLAN[block.page]
                                  if block.text.startswith(start)))
        self.assertEqual(used, {(page, start) for page in PLAN for start in PLAN[page]})

    def test_every_plan_is_kept(self):
        for entries in PLAN.values():
            for entry in entries.values():
                if isinstance(entry, Run):
                    self.assertTrue(hasattr(test_page_blocks.Pages, "test_" + entry.method), entry)
                elif isinstance(entry, By):
                    self.assertIn(".md", (ROOT / "tests/tools" / entry.script).read_text())
                else:
                    self.assertTrue(entry.reason)

    def test_scripts_that_are_not_run_have_the_options_that_the_pages_name(self):
        for block in blocks():
            if not isinstance(fate(block), NotRun):
                continue
            for line in block.text.replace("\\\n", " ").splitlines():
                for call in re.split(r";|&&|#", line):
                    for script in SCRIPT.findall(call):
                        with self.subTest(block=str(block), script=script):
                            source = (ROOT / script).read_text()
                            # of Python and of the shell's `case`
                            form = '"{}"' if script.endswith(".py") else "{})"
                            for option in re.findall(r"(?<=\s)--[a-z][a-z-]*", call):
                                self.assertIn(form.format(option), source)

    def test_links_between_pages_lead_somewhere(self):
        texts = pages()
        for page, text in texts.items():
            for link in LINK.findall(BLOCK.sub("", text)):
                if link.startswith("http"):
                    continue
                name, _, anchor = link.partition("#")
                with self.subTest(page=page, link=link):
                    target = (ROOT / page).parent / name if name else ROOT / page
                    target = pathlib.Path(os.path.normpath(target))
                    if MADE in target.parents:
                        continue
                    self.assertTrue(target.exists())
                    if anchor:
                        self.assertIn(anchor, anchors(target.read_text()))


if __name__ == "__main__":
    unittest.main()
