#!/usr/bin/env python3
"""Finds phrases that read as if translated, in pages, comments, docstrings and messages.

    plain_english.py ROOT [FOLDER...]    with folders: also lists every place in their sources

Pages must have none. The sources of a folder may have at most BOUNDS[folder]; lower a bound when
the count falls, and never raise one. Exits with 1 when a count is too high.
"""
import io
import pathlib
import re
import subprocess
import sys
import tokenize

# phrase: what to write instead
PHRASES = {
    r"(?<!there )(?:is|are|was|were) no\b(?! (?:longer|more|less|way|such))": "is not a ..., has no ...",
    r"\b(?:stands|stood)\b(?! for\b)": "is, is in, comes",
    r"\bbehind\b": "after, of, that follows",
    r"\bof (?:one's|its|their|the user's) own\b": "its, a separate",
    r"\b(?:what|as \w+ as) it takes\b": "what is needed",
    r"(?<!such )\bas (?:it is|they are|they stand|it stands)\b": "unchanged",
    r"\bmends?\b": "fixes",
    r"\bso-manieth\b": "every n-th",
    r"\bthose who\b|\bwhoever\b": "name the subject",
    r"\bthe way (?:through|out)\b": "walkthrough, what to do",
    r"\bcalled how\b|\bwhat is what\b": "terminology",
}
OPENINGS = r"(?:Of|Those|Likewise|The same|See the header)\b"
# Counts of the sources. Only ever lower these.
BOUNDS = {"core": 14, "annotate": 19, "quantizers": 23, "lowering": 30, "backends": 10, "tools": 16,
          "tests": 119}
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


READERS = {".md": text_of_page, ".h": texts_of_cpp, ".cpp": texts_of_cpp, ".py": texts_of_python}


def found_in(path):
    """(line, phrase, advice) of each phrase in a file."""
    for line, text, opens in READERS[path.suffix](path.read_text(encoding="utf-8")):
        if opens and re.match(OPENINGS, text):
            yield line, text.split("\n")[0][:40], "say what it is about"
        joined = text.replace("\n", " ")  # a phrase may be wrapped
        for phrase, advice in ANY:
            for match in phrase.finditer(joined):
                yield line + text.count("\n", 0, match.start()), match[0], advice


def main():
    root, listed = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    patterns = [f"*{suffix}" for suffix in READERS]
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard",
                            *patterns], cwd=root, text=True, check=True,
                           stdout=subprocess.PIPE).stdout.split()
    counts, wrong = dict.fromkeys(BOUNDS, 0), 0
    for name in names:
        folder = name.split("/")[0]
        path = root / name
        if not path.exists() or path == pathlib.Path(__file__).resolve():
            continue
        is_page = path.suffix == ".md"
        if not is_page and folder not in counts:
            continue
        for line, phrase, advice in found_in(path):
            if not is_page:
                counts[folder] += 1
            wrong += is_page
            if is_page or folder in listed:
                print(f'{name}:{line}: "{phrase}"; write: {advice}')
    for folder, count in counts.items():
        if count > BOUNDS[folder]:
            wrong += 1
            print(f"{folder}: {count} phrases, want at most {BOUNDS[folder]}; list them with "
                  f"{sys.argv[0]} {sys.argv[1]} {folder}")
    if any(count < BOUNDS[folder] for folder, count in counts.items()):
        print(f"fewer than before; set BOUNDS = {counts}")
    print(f"plain_english: {len(names)} files, {wrong} violations")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
