"""What MkDocs calls while it builds the site: takes in the tree's pages and the references.

Nothing is copied into the source tree: the pages exist within the build.
"""
import pathlib
import sys

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import charts  # noqa: E402
import reference  # noqa: E402
import tables  # noqa: E402
from repository import (DOCS, ROOT, links, markdown_pages, page_of, rewrite,  # noqa: E402
                        source_page, target_of, with_headings, with_sections)

# How much a word in a page counts for the search; others have 1. Guides come before messages, but
# a message that is pasted must be found.
BOOSTS = (("start/", 4), ("faq", 4), ("support", 4), ("glossary", 4), ("tutorials/", 2))


def on_files(files, config):
    """Adds pages, the pictures and sources that they link to, and the references."""
    try:
        generated = reference.pages()
    except reference.Missing as missing:
        raise PluginError(f"site: {missing}") from None
    for name in charts.LIBRARIES:
        files.append(File.generated(config, f"assets/vendor/{name}",
                                    abs_src_path=str(charts.VENDOR / name)))
    for name, text in generated.items():
        files.append(File.generated(config, name, content=text))
    own = [page.relative_to(ROOT) for page in sorted(DOCS.rglob("*.md"))]
    for page in markdown_pages() + own:
        text = (ROOT / page).read_text()
        if page not in own:
            text = with_headings(text)
            shown = with_charts(tables.with_tables(rewrite(text, page), page), page)
            files.append(File.generated(config, page_of(page), content=shown))
        for link in links(text):
            add_target(files, config, target_of(page, link)[0])
    return files


def with_charts(text, page):
    try:
        return charts.with_charts(text, page)
    except charts.Unfit as unfit:
        raise PluginError(f"site: {unfit}") from None


def add_target(files, config, path):
    """Adds a picture unchanged, a source or a folder as a page; pages are there already."""
    if path is None or not (ROOT / path).exists() or path.suffix == ".md":
        return
    if DOCS in (ROOT / path).parents or (ROOT / path / "README.md").exists():
        return
    name = page_of(path)
    if files.get_file_from_path(name) is not None:
        return
    if path.suffix in (".png", ".svg"):
        files.append(File.generated(config, name, abs_src_path=str(ROOT / path)))
    else:
        files.append(File.generated(config, name, content=source_page(path)))


def on_page_markdown(markdown, page, config, files):
    """Links of the site's own pages; the tree's are rewritten already."""
    for start, boost in BOOSTS:
        if page.file.src_uri.startswith(start):
            page.meta.setdefault("search", {}).setdefault("boost", boost)
            break
    if page.file.src_dir is None:
        return markdown
    own = (DOCS / page.file.src_uri).relative_to(ROOT)
    return with_sections(rewrite(with_headings(markdown), own))
