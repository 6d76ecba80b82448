"""The documentation as a site: it builds without a warning, loads nothing from elsewhere, fits a
phone, and its search works without a network."""
import html.parser
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from browser import Browser, find_chromium

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRATCH = pathlib.Path(os.environ["OCTET_SCRATCH"])
SITE = SCRATCH / "site"
OCTET = os.environ["OCTET"]
PHONE, DESKTOP = (390, 844), (1280, 800)

sys.path.insert(0, str(ROOT / "tools/site"))
from repository import DOCS, markdown_pages, page_of  # noqa: E402


def build(folder, **environment):
    """`tools/site/build.sh`, which also makes .venv-site where setup.sh has not."""
    return subprocess.run([ROOT / "tools/site/build.sh", "--site-dir", folder],
                          env={**os.environ, **environment}, capture_output=True, text=True)


class Loaded(html.parser.HTMLParser):
    """What a page loads by itself, its text, and the anchors in it."""

    def __init__(self, path):
        super().__init__()
        self.targets, self.ids, self.classes, self.paragraphs, self.inside = [], set(), set(), [], 0
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        loads = tag != "a" and not (tag == "link" and attributes.get("rel") in ("canonical",
                                                                               "next", "prev"))
        self.targets += [value for name, value in attributes.items()
                         if loads and value and name in ("src", "href", "srcset", "data", "poster")]
        self.ids.add(attributes.get("id"))
        self.classes |= set((attributes.get("class") or "").split())
        if tag == "p":
            self.inside = 1
            self.paragraphs.append("")

    def handle_endtag(self, tag):
        if tag == "p":
            self.inside = 0

    def handle_data(self, data):
        if self.inside:
            self.paragraphs[-1] += data


class SiteTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not (SITE / "index.html").exists():
            shutil.rmtree(SITE, ignore_errors=True)
            result = build(SITE)
            if result.returncode:
                raise AssertionError(f"{result.stdout}\n{result.stderr}"[-6000:])
        cls.pages = sorted(set(SITE.rglob("*.html")) - {SITE / "404.html"})  # which servers show

    def html_of(self, source):
        """The built page of what MkDocs calls by this name."""
        path = SITE / re.sub(r"(^|/)README\.md$", r"\1index.md", source)
        return path.with_suffix(".html")


class Built(SiteTest):
    def test_every_page_of_the_tree_is_there(self):
        own = [page.relative_to(ROOT) for page in DOCS.rglob("*.md")]
        pages = markdown_pages()
        self.assertGreater(len(pages), 30)
        for page in pages + own:
            with self.subTest(page=page):
                self.assertTrue(self.html_of(page_of(page)).exists())

    def test_nothing_is_loaded_from_elsewhere(self):
        self.assertGreater(len(self.pages), 60)
        for page in self.pages:
            loaded = Loaded(page)
            with self.subTest(page=page.relative_to(SITE)):
                self.assertFalse([t for t in loaded.targets if re.match(r"(https?:)?//", t)])
                # For these two Material's script would ask other machines.
                self.assertFalse(loaded.classes & {"mermaid", "md-source"})
        for sheet in SITE.rglob("*.css"):
            self.assertNotRegex(sheet.read_text(), r"""(url\(\s*['"]?|@import\s+['"])(https?:)?//""")

    def test_lists_are_lists(self):
        """Markdown wants an empty line before one where other readers do not."""
        for page in self.pages:
            if "source" not in page.relative_to(SITE).parts:
                for paragraph in Loaded(page).paragraphs:
                    self.assertNotRegex(paragraph, r"\n- ", str(page))

    def test_every_option_has_an_entry(self):
        text = subprocess.run([OCTET, "--help"], check=True, capture_output=True, text=True).stdout
        commands = re.findall(r"^  (\w+)  ", text.partition("Subcommands:")[2], re.MULTILINE)
        self.assertIn("quantize", commands)
        for command in commands:
            text = subprocess.run([OCTET, command, "--help"], check=True, capture_output=True,
                                  text=True).stdout
            options = re.findall(r"^  (?:-h,)?--([\w-]+)", text, re.MULTILINE)
            self.assertIn("help", options)
            ids = Loaded(self.html_of(f"reference/command/{command}.md")).ids
            self.assertEqual(set(options) - ids, set(), command)

    def test_every_name_of_python_and_c_has_an_entry(self):
        for package in ("octet", "octet_runtime"):
            text = (ROOT / "tools/python" / package / "__init__.py").read_text()
            names = re.findall(r'"(\w+)"', text.partition("__all__ = ")[2])
            self.assertGreater(len(names), 3)
            ids = Loaded(self.html_of(f"reference/python/{package}.md")).ids
            self.assertEqual({name.lower() for name in names} - ids, set())
        header = (ROOT / "backends/runtime/octet.h").read_text()
        names = re.findall(r"^OCTET_API .*?\b(octet_\w+)\(", header, re.MULTILINE)
        self.assertGreater(len(names), 12)
        text = self.html_of("reference/c.md").read_text()
        headings = " ".join(re.findall(r"<h2 .*?</h2>", text, re.DOTALL))
        self.assertEqual([name for name in names if f">{name}<" not in headings], [])

    def test_without_the_command_it_says_what_is_missing(self):
        result = build(SCRATCH / "none", OCTET=str(SCRATCH / "no_octet"))
        self.assertEqual(result.returncode, 1)
        self.assertIn("build it with tools/setup.sh", result.stderr)
        self.assertNotIn("Traceback", result.stderr)
        self.assertFalse((SCRATCH / "none/index.html").exists())


class Shown(SiteTest):
    """In Chromium, as files."""

    @classmethod
    def setUpClass(cls):
        if find_chromium() is None:
            raise unittest.SkipTest("no chromium; tools/setup.sh --test installs it")
        super().setUpClass()
        cls.browser = Browser(str(SCRATCH / "profile"))
        cls.addClassCleanup(cls.browser.close)

    def open(self, path, size):
        page = self.browser.open(path, width=size[0], height=size[1], mobile=size == PHONE,
                                 ready="true")
        self.addCleanup(page.close)
        self.addCleanup(lambda: self.assertEqual(page.troubles, []))
        return page

    def test_pages_fit_their_window(self):
        for size in (PHONE, DESKTOP):
            page = self.open(SITE / "index.html", size)
            for path in self.pages:
                if "source" in path.relative_to(SITE).parts and size == DESKTOP:
                    continue
                page.navigate(path, ready="true")
                with self.subTest(page=path.relative_to(SITE), width=size[0]):
                    wide = page.value("[document.scrollingElement.scrollWidth, innerWidth]")
                    self.assertLessEqual(wide[0], size[0])
                    self.assertEqual(wide[1], size[0], "the phone has zoomed out")

    def search(self, page, word):
        """Types a word into the search; returns the addresses of the results."""
        page.value("document.querySelector('[data-md-component=search-query]').focus()")
        page.type(word)
        page.wait_for("document.querySelector('.md-search-result__item a')")
        links = page.value("[...document.querySelectorAll('.md-search-result__item a')].map("
                           "link => link.href)")
        return [re.sub(r"\?h=[^#]*", "", link) for link in links]

    def test_search_needs_no_network(self):
        page = self.open(SITE / "index.html", DESKTOP)
        page.call("Network.emulateNetworkConditions", offline=True, latency=0,
                  downloadThroughput=0, uploadThroughput=0)
        for word, name in (("reduce-range", "reference/command/quantize.html#reduce-range"),
                           ("pt2: m.pt2: schema version, got 7, want 8; export with torch 2.13",
                            "errors/models_and_data.html#another-schema-version"),
                           ("octet_bind", "reference/c.html")):
            with self.subTest(word=word):
                page.navigate(SITE / "index.html", ready="true")
                results = self.search(page, word)
                self.assertTrue([link for link in results if link.endswith(name)],
                                [link.rpartition("/")[2] for link in results])
        target = results[0]
        page.value(f"location.assign({target!r})")
        page.wait_for(f"location.href === {target!r} && document.readyState === 'complete'")

    def test_on_a_phone_the_menu_leads_to_pages(self):
        page = self.open(SITE / "index.html", PHONE)
        page.click("label[for=__drawer].md-header__button")
        page.wait_for("document.querySelector('[data-md-toggle=drawer]').checked")
        links = page.value("[...document.querySelectorAll('.md-sidebar--primary a')].map("
                           "link => link.href)")
        self.assertIn("overview.html", " ".join(links))
        results = self.search(self.open(SITE / "overview.html", PHONE), "calibration")
        self.assertTrue(results)


if __name__ == "__main__":
    shutil.rmtree(SITE, ignore_errors=True)
    unittest.main()
