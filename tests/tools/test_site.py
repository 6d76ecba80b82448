"""The documentation as a site: it builds without a warning, loads nothing from elsewhere, fits a
phone, and its search works without a network."""
import html
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from PIL import Image

from browser import Browser, find_chromium

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRATCH = pathlib.Path(os.environ["OCTET_SCRATCH"])
SITE = SCRATCH / "site"
OCTET = os.environ["OCTET"]
PHONE, TABLET, DESKTOP = (390, 844), (768, 1024), (1280, 800)

sys.path.insert(0, str(ROOT / "tools/site"))
from reference import messages  # noqa: E402
from repository import DOCS, markdown_pages, page_of, with_headings  # noqa: E402


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
        commands = re.findall(r"^  ([\w-]+)  ", text.partition("Subcommands:")[2], re.MULTILINE)
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

    def test_search_has_every_message(self):
        """Each under its anchor, with the words of what is wrong and of what to do."""
        index = json.loads((SITE / "search/search_index.json").read_text())
        docs = {doc["location"]: html.unescape(re.sub(r"<[^>]*>", "", f"{doc['title']} {doc['text']}"))
                for doc in index["docs"]}
        found = messages.entries()
        self.assertGreater(sum(map(len, found.values())), 1200)
        for (page, _), listed in found.items():
            for entry in listed:
                said = docs.get(f"reference/messages/{page}.html#{entry.anchor}")
                with self.subTest(page=page, message=entry.whole):
                    self.assertIsNotNone(said, entry.anchor)
                    words = re.findall(r"\w+", entry.text.lower())
                    self.assertEqual([word for word in words if word not in said.lower()], [])

    def test_without_the_command_it_says_what_is_missing(self):
        result = build(SCRATCH / "none", OCTET=str(SCRATCH / "no_octet"))
        self.assertEqual(result.returncode, 1)
        self.assertIn("build it with tools/setup.sh", result.stderr)
        self.assertNotIn("Traceback", result.stderr)
        self.assertFalse((SCRATCH / "none/index.html").exists())


    def test_the_front_page_repeats_the_readme(self):
        """Its figures and its program are those of README.md."""
        readme = re.sub(r"[*`]", "", (ROOT / "README.md").read_text())
        page = (DOCS / "index.md").read_text()
        facts = page.partition("octet-facts")[2].partition("</div>")[0]
        numbers = re.findall(r"\d+(?:\.\d+)?x?", facts)
        self.assertGreater(len(numbers), 7)
        self.assertEqual([number for number in numbers if number not in readme], [])
        text = html.unescape(re.sub(r"<[^>]*>", "", (SITE / "index.html").read_text()))
        for line in ("import octet, torch", "tools/dev/wheel.sh", "torch.Size([1, 10])"):
            self.assertIn(line, text)

    def test_words_in_bold_before_a_paragraph_are_headings(self):
        for page, anchor in (("backends/runtime/README.md", "open-sizes"),
                             ("backends/onednn/README.md", "custom-convolutions")):
            self.assertRegex(self.html_of(page).read_text(), f'<h[34] id="{anchor}">')
        told = with_headings("## A\n\n**Lead.** Text.\n\n**Words** run.\n\n~~~\n\n**no** \n~~~\n")
        self.assertEqual(told, "## A\n\n### Lead\n\n Text.\n\n### Words\n\n**Words** run.\n\n"
                               "~~~\n\n**no** \n~~~\n")


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

    def picture(self, page, name):
        """A picture of the window, in gray."""
        page.screenshot(SCRATCH / name)
        with Image.open(SCRATCH / name) as picture:
            return picture.convert("L")

    def test_the_front_page_is_whole_on_every_screen(self):
        """From pictures of it: nothing but code, which scrolls, reaches into the margins; the
        program and the picture of the report are there. The scratch folder keeps the pictures."""
        for size in (PHONE, TABLET, DESKTOP):
            with self.subTest(width=size[0]):
                page = self.open(SITE / "index.html", size)
                page.wait_for("[...document.images].every(image => image.naturalWidth > 0)")
                tall = page.value("document.documentElement.scrollHeight")
                page.resize(size[0], tall, size == PHONE)
                top, bottom = page.value("(({top, bottom}) => [Math.ceil(top), Math.floor(bottom)])("
                                         "document.querySelector('article').getBoundingClientRect())")
                whole = self.picture(page, f"front_{size[0]}.png")
                self.assertEqual(whole.size, (size[0], tall))
                for shown in (".octet-hero h1", ".octet-facts li", "article pre code",
                              ".octet-picture img"):
                    box = page.value("(({left, top, right, bottom}) => [left, top, right, bottom])("
                                     f"document.querySelector('{shown}').getBoundingClientRect())")
                    colors = whole.crop(tuple(map(round, box))).getcolors()
                    self.assertGreater(len(colors), 10, f"{shown} is empty")
                page.value("document.querySelectorAll('.highlight').forEach("
                           "code => code.style.visibility = 'hidden')")
                rest = self.picture(page, "rest.png")
                for left in (0, size[0] - 8):
                    margin = rest.crop((left, top, left + 8, bottom))
                    self.assertEqual(len(margin.getcolors()), 1, "something is cut off")

    def test_figures_are_charts(self):
        """In the colors of the page, as wide as it; each bar with its number."""
        for name, count in (("overview.html", 2), ("backends/onednn/FIGURES.html", 2),
                            ("backends/xnnpack/FIGURES.html", 1)):
            for size in (PHONE, DESKTOP):
                page = self.open(SITE / name, size)
                page.wait_for("document.querySelectorAll('.octet-chart svg').length"
                              f" === {count}")
                for chart in page.value(
                        "[...document.querySelectorAll('.octet-chart')].map(place => ({"
                        "wanted: JSON.parse(place.dataset.chart).bars.map(bar => bar.text),"
                        "bars: [...place.querySelectorAll('rect')].map(r => r.getBBox().width),"
                        "said: place.querySelector('svg').textContent,"
                        "right: Math.max(...[...place.querySelectorAll('text, rect')].map("
                        "e => e.getBoundingClientRect().right))}))"):
                    with self.subTest(page=name, width=size[0]):
                        self.assertEqual(len(chart["bars"]), len(chart["wanted"]))
                        self.assertGreater(min(chart["bars"]), 0)
                        for text in chart["wanted"]:
                            self.assertIn(text, chart["said"])
                        self.assertLessEqual(chart["right"], size[0])
                colors = [self.colors_of(page, scheme) for scheme in ("default", "slate")]
                self.assertNotEqual(*[color["text"] for color in colors])
                self.assertNotEqual(*[color["bar"] for color in colors])

    def colors_of(self, page, scheme):
        page.value(f"document.body.setAttribute('data-md-color-scheme', '{scheme}')")
        return page.value("({text: getComputedStyle(document.querySelector("
                          "'.octet-chart svg text')).fill, bar: getComputedStyle("
                          "document.querySelector('.octet-chart svg rect')).fill})")

    def search(self, page, word):
        """Types a word into the search; returns the addresses of the results."""
        page.value("document.querySelector('[data-md-component=search-query]').focus()")
        page.type(word)
        page.wait_for("document.querySelector('.md-search-result__item a')")
        return self.links(page)

    def find(self, page, said, wanted, seconds=60):
        """Types into the search and waits until a result leads there; each letter is a query.
        Returns its address."""
        self.search(page, said)
        links = ("[...document.querySelectorAll('.md-search-result__item a')]"
                 ".map(link => link.href.replace(/[?]h=[^#]*/, ''))"
                 f".filter(link => link.includes({json.dumps(wanted)}))")
        page.wait_for(f"{links}.length > 0", seconds)
        self.assertEqual(page.troubles, [])
        return page.value(f"{links}[0]")

    def test_search_needs_no_network(self):
        page = self.open(SITE / "index.html", DESKTOP)
        page.call("Network.emulateNetworkConditions", offline=True, latency=0,
                  downloadThroughput=0, uploadThroughput=0)
        for word, name in (("reduce-range", "reference/command/quantize.html#reduce-range"),
                           ("pt2: m.pt2: schema version, got 7, want 8; export with torch 2.13 to 2.15",
                            "files.html#schema-version-got-want-export-with-torch"),
                           ("octet_bind", "reference/c.html")):
            with self.subTest(word=word):
                page.navigate(SITE / "index.html", ready="true")
                target = self.find(page, word, name)
        page.call("Page.navigate", url=target)
        page.wait_for(f"location.href === {target!r} && document.readyState === 'complete'")

    def test_a_message_that_is_pasted_is_found(self):
        """As the command prints it, with numbers and names where the sources have holes. One of the
        commonest words alone may come after others."""
        page = self.open(SITE / "index.html", DESKTOP)
        entries = [(place, entry) for (place, _), listed in sorted(messages.entries().items())
                   for entry in listed if len(set(re.findall(r"[a-z]{6,}", entry.text))) > 3]
        sample, missed = entries[::len(entries) // 25], []
        for place, entry in sample:
            said = "octet: " + entry.whole.replace("…", "layer3.conv")[:200]
            page.navigate(SITE / "index.html", ready="true")
            try:
                self.find(page, said, f"reference/messages/{place}.html#{entry.anchor}", 20)
            except TimeoutError:
                missed.append(said)
        self.assertLessEqual(len(missed), len(sample) // 10, missed)

    def test_options_and_names_in_quotes_are_found(self):
        page = self.open(SITE / "index.html", DESKTOP)
        for said, wanted in (("--reduce-range", "command/quantize.html#reduce-range"),
                             ("-h --hold-out: is 8", "command/quantize.html#hold-out"),
                             ('argument "conv7" is missing and has no default', "messages/files.html#"),
                             ('"hold-out"', "command/quantize.html#hold-out")):
            with self.subTest(said=said):
                page.navigate(SITE / "index.html", ready="true")
                self.find(page, said, wanted)

    def test_search_puts_guides_first(self):
        page = self.open(SITE / "index.html", DESKTOP)
        for said, wanted in (("dynamic batch", "faq.html#can-the-batch-size-be-dynamic"),
                             ("windows", "support.html#windows-and-macos"),
                             ("which quantizer", "start/command.html#which-quantizer"),
                             ("how much data", "start/command.html#how-much-data")):
            with self.subTest(said=said):
                page.navigate(SITE / "index.html", ready="true")
                self.find(page, said, wanted)
                links = self.links(page)
                at = next(i for i, link in enumerate(links) if wanted in link)
                self.assertLess(at, 4, links[:6])
                self.assertNotIn("messages", links[0])

    def links(self, page):
        """The results of a search, best first."""
        return page.value("[...document.querySelectorAll('.md-search-result__item a')].map("
                          "link => link.href.replace(/[?]h=[^#]*/, ''))")

    def test_code_of_100_columns_fits_and_tables_scroll(self):
        page = self.open(SITE / "start/command.html", DESKTOP)
        room = page.value("""(() => {
            const code = document.querySelector("article pre > code"), style = getComputedStyle(code);
            const context = document.createElement("canvas").getContext("2d");
            context.font = `${style.fontSize} ${style.fontFamily}`;
            return [context.measureText("x".repeat(100)).width,
                    code.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight)];
            })()""")
        self.assertLessEqual(*room)
        for size in (PHONE, TABLET, DESKTOP):
            page = self.open(SITE / "backends/onednn/FIGURES.html", size)
            page.wait_for("document.querySelectorAll('.md-typeset__scrollwrap').length > 5")
            cut = page.value("""[...document.querySelectorAll("article table")].filter(table => {
                const wrap = table.closest(".md-typeset__scrollwrap");
                return !wrap || (table.scrollWidth > table.clientWidth + 1)
                    || (wrap.scrollWidth > wrap.clientWidth && getComputedStyle(wrap).overflowX !== "auto");
                }).length""")
            self.assertEqual(cut, 0, size)

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
