"""The messages that the hand-written pages about errors quote: their fixed words."""
import re

from repository import DOCS

PAGES = DOCS / "errors"
QUOTED = re.compile(r"^## ([^\n]*)\n\n```text\n(.*?)\n```$", re.MULTILINE | re.DOTALL)


def quoted():
    """(name of the page, title of the section, quoted message) of each section."""
    return [(page.name, title, text) for page in sorted(PAGES.glob("*.md"))
            for title, text in QUOTED.findall(page.read_text())]


def parts(message):
    """The fixed words of a quoted message; what leads to the first of them is the subject."""
    fixed = [part.strip(" ") for part in re.split(r"<[^<>]*>", " ".join(message.split()))]
    fixed = [re.sub(r"^(batch|%|: |:)+", "", part).strip() for part in fixed]
    return [part for part in fixed if len(part) > 3]


def has_parts(text, wanted):
    """Whether a text has these parts in this order."""
    place = 0
    for part in wanted:
        place = text.find(part, place)
        if place < 0:
            return False
        place += len(part)
    return True


def anchor_of(title):
    """What the site calls a section: the slug of its title."""
    kept = re.sub(r"[^\w\- ]", "", title.lower().strip())
    return kept.replace(" ", "-")
