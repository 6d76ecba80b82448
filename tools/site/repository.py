"""The repository as the site sees it: its pages where they are, and where a link in one leads.

A page of the site is a page of tools/site/docs, a Markdown page of the tree, or the text of a file
or the list of a folder that one of these links to.
"""
import os
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "tools/site/docs"
FOLDERS = ("annotate", "backends", "core", "lowering", "quantizers", "tests", "tools")
FENCE = re.compile(r"^( *)(`{3,}|~{3,}).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
HEADING = re.compile(r"^(#+) .*$|(?<=\n\n)\*\*([^*\n]+)\*\*(?= )", re.MULTILINE)
SECTION = re.compile(r"^<!-- section: (\S+), (.+) -->$", re.MULTILINE)
LANGUAGES = {".h": "cpp", ".cpp": "cpp", ".c": "c", ".py": "python", ".json": "json", ".sh": "sh",
             ".cmake": "cmake", ".js": "js", ".css": "css"}


def markdown_pages():
    """The tree's own pages, as paths from its root; without those of the site."""
    found = list(ROOT.glob("*.md"))
    for folder in FOLDERS:
        found += (ROOT / folder).rglob("*.md")
    return sorted(page.relative_to(ROOT) for page in found if DOCS not in page.parents)


def page_of(path):
    """The site's page (as MkDocs names its source) of a file or folder, both from the root."""
    if (ROOT / path).is_dir():
        path = path / "README.md" if (ROOT / path / "README.md").exists() else path / "_list.md"
    if DOCS in (ROOT / path).parents:
        return (ROOT / path).relative_to(DOCS).as_posix()
    if path.as_posix() == "README.md":
        return "overview.md"
    if path.name == "_list.md":
        return f"source/{path.parent.as_posix()}/index.md"
    if path.suffix in (".md", ".png", ".svg"):
        return path.as_posix()
    return f"source/{path.as_posix()}.md"


def outside_fences(text, change):
    """The text with `change` applied outside of fenced blocks."""
    parts, at = [], 0
    for fence in FENCE.finditer(text):
        parts += [change(text[at:fence.start()]), fence.group()]
        at = fence.end()
    return "".join(parts + [change(text[at:])])


def links(text):
    """Where the links of a page's text lead."""
    found = []
    outside_fences(text, lambda part: found.extend(m[1] for m in LINK.findall(part)) or part)
    return [link for link in found if not re.match(r"[a-z]+:|#", link)]


def target_of(page, link):
    """(path from the root, anchor) of a link in a page; None where it leads out of the tree."""
    name, _, anchor = link.partition("#")
    path = pathlib.Path(os.path.normpath((ROOT / page).parent / name))
    return (path.relative_to(ROOT), anchor) if ROOT in path.parents else (None, anchor)


def rewrite(text, page):
    """The page's text with links from place to place in the site instead of the tree."""
    here = os.path.dirname(page_of(page))

    def site_link(match):
        link = match[2]
        if re.match(r"[a-z]+:|#", link):
            return match.group()
        path, anchor = target_of(page, link)
        if path is None or not (ROOT / path).exists():
            return match.group()  # MkDocs tells
        place = os.path.relpath(page_of(path), here or ".")
        return f"{match[1]}{place}{'#' if anchor else ''}{anchor}{match[3]}"

    return outside_fences(text, lambda part: LINK.sub(site_link, part))


def with_headings(text):
    """The text with a heading for each paragraph that starts with words in bold: search finds
    headings, and says where they are."""
    level = 1

    def heading(match):
        nonlocal level
        if match[1]:
            level = len(match[1])
            return match.group()
        title = match[2].rstrip(".:")
        rest = "" if title != match[2] else match.group()
        return f"{'#' * min(level + 1, 6)} {title}\n\n{rest}"

    return outside_fences(text, lambda part: HEADING.sub(heading, part))


def with_sections(text):
    """The text with the sections that it names, as <!-- section: README.md, Install -->, of pages
    in the same folder of the site."""
    def section(match):
        found = pathlib.Path(match[1])
        whole = (ROOT / found).read_text()
        start = whole.index(f"\n## {match[2]}\n")
        end = whole.find("\n## ", start + 1)
        return rewrite(whole[start:end if end > 0 else None], found)

    return SECTION.sub(section, text)


def source_page(path):
    """A page with a file's text, or with what is in a folder. Search leaves it out."""
    head = f"---\ntitle: {path.name}\nsearch:\n  exclude: true\n---\n\n# `{path.as_posix()}`\n\n"
    if (ROOT / path).is_dir():
        names = sorted(entry.name for entry in (ROOT / path).iterdir()
                       if entry.suffix in (".h", ".cpp"))
        rows = [f"| `{name}` | {first_comment(ROOT / path / name)} |\n" for name in names]
        return head + "| file | what it holds |\n|---|---|\n" + "".join(rows)
    text = (ROOT / path).read_text()
    language = LANGUAGES.get(path.suffix, "text")
    return f"{head}~~~~{language}\n{text}{'' if text.endswith(chr(10)) else chr(10)}~~~~\n"


def first_comment(path):
    """The sentence that a source begins with."""
    lines = []
    for line in path.read_text().splitlines():
        if not line.startswith("//"):
            break
        lines.append(line.removeprefix("//").strip())
    return re.split(r"(?<=[.:;]) ", " ".join(lines))[0].replace("|", "\\|").replace("<", "&lt;")
