"""The reference of messages: each error and refusal that the sources make, by stage."""
import collections
import hashlib
import re

from messages import errors, python_raises
from messages.quoted import anchor_of, has_parts, parts, quoted
from messages.render import HOLE

from .text import escaped

FOLDER = "reference/messages"
# page: title, what it holds, the stages of its errors.
STAGES = {
    "files": ("Files, models and data", "What cannot be read, written or run in float.",
              ("pt2", "graph", "verify", "run", "inputs", "input", "outputs", "output", "tensor",
               "torch", "text", "pattern", "library")),
    "quantizers": ("Quantizers and their JSON", "What a quantizer or its file says wrongly.",
                   ("quantizer", "annotate")),
    "quantizing": ("Quantizing", "Prepare, calibrate, convert, and the accuracy passes.",
                   ("quantize", "prepare", "calibrate", "convert", "state", "evaluate",
                    "quantized-io", "smooth", "ranges", "adaptive rounding",
                    "second-order rounding", "bias correction")),
    "training": ("Training, tuning, comparing", "`octet qat`, `octet tune`, `octet compare`.",
                 ("train", "qat", "tune", "compare", "metric", "mpi")),
    "running": ("Lowering and running", "From the q/dq graph to outputs, in C, C++ and Python.",
                ("lower", "artifact", "session", "backend", "octet", "shape", "bench", "doctor",
                 "inspect", "explain", "onednn", "xnnpack", "onnx",
                 "conformance", "new-backend", "plugin", "generate", "tokenizer",
                 "perplexity")),
}
# page: title, what it holds, the folders whose refusals these are.
REFUSALS = {
    "stays_float": ("Why an op stays float", "Reasons in the report of `octet quantize`, or after "
                    "the name of what they are about in a message.",
                    ("annotate", "quantizers")),
    "not_lowered": ("Why a program is not lowered", "Reasons of `octet lower` and `octet export`, "
                    "each after the name of an op, or within a message about a damaged file.",
                    ("lowering", "tools", "core", "backends/plugin")),
    "on_onednn": ("What oneDNN refuses", "Reasons in `octet lower --explain`: why an op does not "
                  "run on oneDNN.", ("backends/onednn", "backends/kernels", "backends/common")),
    "on_xnnpack": ("What XNNPACK refuses", "Reasons in `octet lower --explain`: why an op does not "
                   "run on XNNPACK.", ("backends/xnnpack",)),
    "on_reference": ("What the reference backend refuses", "Reasons in `octet lower`: why an op "
                     "does not run at all.", ("backends/reference", "backends/torch")),
}
OPTIONS = ("options", "Options of the command", "What is said about a single option. What else is "
           "wrong with a command line (an unknown option, a value that is missing) names it too.")
PYTHON = ("python", "In Python", "What the packages raise themselves. The errors of all other "
          "pages reach Python too, as `octet.Error`.")
# Files whose errors get their stage from their callers.
ANY_STAGE = {"core": "files", "annotate": "quantizing", "tools": "training"}


class Entry:
    """One message, of all places that make it."""

    def __init__(self, place, stage, text, made):
        self.place, self.stage, self.text = place, stage, text
        subjects = {message.subject for message in made}
        self.subject = subjects.pop() if len(subjects) == 1 else HOLE
        self.files = sorted({message.file for message in made})
        self.what, _, self.way_out = outside_brackets(text)

    @property
    def whole(self):
        return ": ".join(part for part in (self.stage, self.subject, self.text) if part)

    @property
    def anchor(self):
        """The anchor depends on this message only, not on other messages."""
        words = re.findall(r"[a-z0-9]+", self.text.lower())[:7]
        mark = hashlib.sha1("\n".join((*self.place, self.text)).encode()).hexdigest()[:6]
        return "-".join([*words, mark])


def outside_brackets(text):
    """Text at the first `; ` outside of brackets: (what is wrong, the separator, what to do)."""
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if not depth and text.startswith("; ", at):
            return text[:at], "; ", text[at + 2:]
    return text, "", ""


def page_of(message):
    """(page, section) of a message."""
    if message.kind == "python":
        return "python", message.stage or "other exceptions"
    if message.kind == "option":
        return "options", message.subject if message.subject.startswith("--") else "Names of files"
    if message.kind == "error" and message.stage == HOLE:
        return ANY_STAGE[message.file.partition("/")[0]], "several stages"
    if message.kind == "error":
        for page, (_, _, stages) in STAGES.items():
            if message.stage in stages:
                return page, message.stage
        raise ValueError(f"{message.file}:{message.line}: the stage {message.stage!r} is on no "
                         "page of the messages; add it to STAGES of tools/site/reference/messages.py")
    if message.file.startswith("backends/runtime/"):
        return "running", "octet"
    for page, (_, _, folders) in REFUSALS.items():
        for folder in folders:
            if message.file.startswith(folder + "/"):
                return page, message.file.rpartition("/")[0]
    raise ValueError(f"{message.file}:{message.line}: a refusal is on no page of the messages; add "
                     "its folder to REFUSALS of tools/site/reference/messages.py")


def entries(messages=None):
    """(page, section): its Entries, in order; of the tree's messages."""
    made = collections.defaultdict(list)
    if messages is None:
        messages = [*errors.found()[0], *python_raises.found()[0]]
    for message in messages:
        made[page_of(message), message.stage, message.text].append(message)
    found = collections.defaultdict(list)
    for (place, stage, text), messages in made.items():
        found[place].append(Entry(place, stage, text, messages))
    for listed in found.values():
        listed.sort(key=lambda entry: re.sub(r"^\W+", "", entry.text).lower() + entry.text)
    return found


def explanations(entry, known):
    """Links to the hand-written sections that quote a message."""
    return [f"[{escaped(title)}](../../errors/{page}#{anchor_of(title)})"
            for page, title, wanted in known if has_parts(entry.whole, wanted)]


def entry_text(entry, known):
    """A message under a separate heading, which the search finds."""
    lead = f"`{entry.stage}: {entry.subject}`" if entry.stage and entry.subject else \
        f"`{entry.stage or entry.subject}`" if entry.stage or entry.subject else ""
    # Braces would begin the heading's attributes.
    shown = escaped(entry.what).replace("{", "&#123;").replace("}", "&#125;")
    text = f"#### {shown} {{ #{entry.anchor} .message }}\n\n"
    if entry.way_out:
        text += f"{escaped(entry.way_out[:1].upper() + entry.way_out[1:])}.\n"
    links = explanations(entry, known)
    if links:
        text += f"Explained: {', '.join(links)}.\n"
    places = ", ".join(f"`{name}`" for name in entry.files)
    if entry.way_out or links:
        text = text.rstrip() + "<br>\n"
    return text + f"<small>{f'In {lead}, from' if lead else 'From'} {places}</small>\n\n"


def page_text(title, about, sections, known):
    text = f"# {title}\n\n{about} `{HOLE}` stands for what varies.\n\n"
    for section, listed in sections:
        shown = f"`{section}`" if re.fullmatch(r"[\w/-]+", section) else escaped(section)
        text += f"## {shown}\n\n" + "".join(entry_text(entry, known) for entry in listed)
    return text


def described():
    """page: (title, what it holds), in order."""
    pages = {name: row[:2] for name, row in {**STAGES, **REFUSALS}.items()}
    return {**pages, OPTIONS[0]: OPTIONS[1:], PYTHON[0]: PYTHON[1:]}


def pages():
    found = entries()
    known = [(page, title, parts(text)) for page, title, text in quoted()]
    count = sum(map(len, found.values()))
    index = (f"# Every message\n\nThe {count} errors and refusals of this version, read out of the "
             f"sources. `{HOLE}` stands for what varies. Paste a message into the search: it finds "
             "the entry, which says what to do, and a link where a "
             "[page about errors](../../errors/index.md) says more.\n\n| page | messages | |\n"
             "|---|---|---|\n")
    made = {}
    for name, (title, about) in described().items():
        sections = sorted((section, listed) for (page, section), listed in found.items()
                          if page == name)
        order = STAGES[name][2] if name in STAGES else ()
        sections.sort(key=lambda item: order.index(item[0]) if item[0] in order else len(order))
        made[f"{FOLDER}/{name}.md"] = page_text(title, about, sections, known)
        index += f"| [{title}]({name}.md) | {sum(len(s[1]) for s in sections)} | {about} |\n"
    return {f"{FOLDER}/index.md": index, **made}
