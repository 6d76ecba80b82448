#!/usr/bin/env python3
"""Finds phrases that read as if translated, in pages, comments, docstrings and messages, and British
spellings.

    plain_english.py ROOT

Prints one line per place, and exits with 1 when there is any.
"""
import io
import pathlib
import re
import subprocess
import sys
import tokenize

# phrase: what to write instead
PHRASES = {
    r"(?<!there )\b(?:is|are|was|were) no\b(?! (?:longer|more|less|way|such|narrower))":
        "is not a ..., has no ...",
    r"\b(?:stands?|stood)\b(?! (?:for|alone)\b|-)": "is, is in, comes",
    r"(?<!left )\bbehind\b": "after, of, that follows",
    r"\bof (?:one's|its|their|the user's) own\b": "its, a separate",
    r"\b(?:what|as \w+ as) it takes\b": "what is needed",
    r"(?<!such )(?<!long )\bas (?:it is|they are|they stand|it stands)\b": "unchanged",
    r"\bmends?\b": "fixes",
    r"\bso-manieth\b": "every n-th",
    r"\bthose who\b|\bwhoever\b": "name the subject",
    r"\bthe way (?:through|out)\b": "walkthrough, what to do",
    r"\bsomething else than\b": "something other than",
    r"\banew\b": "again, over",
    r"\bbut for\b": "except for",
    r"\bequally many\b": "equal numbers of, as many",
    r"\bby way of\b": "through",
    r"\b(?<!there )(?:is|are) of\b(?! (?:one|the same|each)\b)": "has, belongs to, applies to",
    r"\bha(?:s|ve) not (?:a|an|the|this|one|exactly)\b": "does not have",
    r"\bso many (?:of|batches|seconds|parameters|arguments)\b": "this many",
    r"\bgo(?:es)? on\b": "continues, resumes, still does",
    r"\bin front of\b": "before",
    r"\bof before\b": "existing, earlier",
    r"\bcalled how\b|\bwhat is what\b": "terminology",
    r"\bwhose wish\b": "name the subject",
    r"\bso that (?:it|they|these|both|users?) may\b": "can, to",
    r"\b(?:hence|whence|thereof|therein|thereby|whereof|wherein|whereby)\b": "so, from it, in it",
    r"\bheed(?:s|ed)?\b": "obeys, respects",
    r"\ba (?:line|word|file|row|process) each\b": "one ... per ...",
    r"\bas far as they (?:go|tell)\b": "if they say it",
    r"\bfor want of\b": "without",
    r"\b(?:is|are) to be (?:had|found|seen|kept)\b": "exists, is, keep",
}
STEMS = ("amort author canonical categor critic custom character discret emphas equal factor final "
         "formal general harmon initial linear local material maxim memor minim modern normal "
         "optim organ parallel penal prior quant random real recogn sanit serial special stabil "
         "standard summar synchron token util vector visual").split()
# Everywhere, names in code included.
BRITISH = re.compile(
    rf"(?:{'|'.join(STEMS)})is(?:e|ed|es|er|ers|ing|ations?)(?![a-z])|analys(?:e|ed|es|ing)(?![a-z])"
    r"|(?:behavi|col|fav|flav|harb|hon|lab|neighb)our|(?:label|model|travel|cancel)l(?:ed|ing)(?!by)"
    r"|centre|licence|catalogue|artefact|misspelt|(?<![a-z])(?:grey|metres?|towards)(?![a-z])",
    re.IGNORECASE)
OPENINGS = r"(?:Of|Those|Likewise|The same|See the header)\b"
ANY = [(re.compile(phrase, re.IGNORECASE), advice) for phrase, advice in PHRASES.items()]
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
CPP = re.compile(r'R"([^()\s]*)\(.*?\)\1"|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\''
                 r"|//[^\n]*(?:\n[ \t]*//[^\n]*)*", re.DOTALL)


def blank(match):
    """Nothing but the line ends, so that line numbers stay."""
    return "\n" * match[0].count("\n")


def text_of_page(text):
    yield 1, CODE.sub("``", FENCE.sub(blank, text)), False


def texts_of_cpp(text):
    """(line, text, is a comment) of each comment and each string."""
    for match in CPP.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match[0].startswith("//"):
            yield line, re.sub(r"(?m)^[ \t]*// ?", "", match[0]), True
        elif match[0].startswith('"'):
            yield line, match[0][1:-1], False


def texts_of_python(text):
    """As texts_of_cpp. Docstrings count as comments."""
    previous = None
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        line = token.start[0]
        if token.type == tokenize.COMMENT:
            yield line, token.string.lstrip("#! "), previous != line - 1
            previous = line
        elif token.type == tokenize.STRING:
            is_docstring = token.string.startswith(('"""', "'''"))
            yield line, token.string.strip("\"'rbfu"), is_docstring


def texts_of_shell(text):
    for match in re.finditer(r"(?:^[ \t]*#[^\n]*\n)+", text, re.MULTILINE):
        comment = re.sub(r"(?m)^[ \t]*# ?", "", match[0])
        yield text.count("\n", 0, match.start()) + 1, comment, True


def texts_of_schema(text):
    for match in re.finditer(r'"(?:description|title)": "((?:[^"\\\\]|\\\\.)*)"', text):
        yield text.count("\n", 0, match.start()) + 1, match[1], False


READERS = {".md": text_of_page, ".py": texts_of_python, ".schema.json": texts_of_schema,
           ".sh": texts_of_shell, ".cmake": texts_of_shell, "CMakeLists.txt": texts_of_shell,
           **dict.fromkeys((".h", ".hpp", ".cpp", ".def", ".inc", ".c", ".js"), texts_of_cpp),
           **dict.fromkeys((".html", ".css", ".yml", ".json", ".csv"), lambda text: ())}


def found_in(path):
    """(line, phrase, advice) of each phrase in a file."""
    reader = next(READERS[suffix] for suffix in READERS if path.name.endswith(suffix))
    whole = path.read_text(encoding="utf-8")
    words = "\n".join(set(re.findall(r"[A-Za-z]{4,}", whole)))  # each once: a quick look
    for match in BRITISH.finditer(whole) if BRITISH.search(words) else ():
        yield whole.count("\n", 0, match.start()) + 1, match[0], "the American spelling"
    for line, text, opens in reader(whole):
        if opens and re.match(OPENINGS, text):
            yield line, text.split("\n")[0][:40], "say what it is about"
        joined = text.replace("\n", " ")  # a phrase may be wrapped
        for phrase, advice in ANY:
            for match in phrase.finditer(joined):
                yield line + text.count("\n", 0, match.start()), match[0], advice


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    patterns = [f"*{suffix}" for suffix in READERS]
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard",
                            *patterns], cwd=root, text=True, check=True,
                           stdout=subprocess.PIPE).stdout.split()
    count = 0
    for name in names:
        path = root / name
        if not path.exists() or "/vendor/" in name or path == pathlib.Path(__file__).resolve():
            continue
        for line, phrase, advice in found_in(path):
            count += 1
            print(f'{name}:{line}: "{phrase}"; write: {advice}')
    print(f"plain_english: {len(names)} files, {count} violations")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
