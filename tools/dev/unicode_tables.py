#!/usr/bin/env python3
"""Writes backends/tokenizer/unicode_*.inc: what the regexes and normalizers of tokenizers need.

    .venv/bin/python tools/dev/unicode_tables.py

General categories are those of the regexes in the package tokenizers, so that `octet generate`
splits text as that package does; decompositions are Python's."""

import pathlib
import textwrap
import unicodedata

from tokenizers import Regex, pre_tokenizers

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "backends/tokenizer"
CATEGORIES = (
    "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split()
)
NONE = len(CATEGORIES)
CHARACTERS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def members(pattern):
    split = pre_tokenizers.Split(Regex(pattern), "removed")
    found = set()
    for start in range(0, len(CHARACTERS), 4096):
        part = "".join(CHARACTERS[start : start + 4096])
        rest = {c for piece, _ in split.pre_tokenize_str(part) for c in piece}
        found |= set(part) - rest
    return found


def category_runs():
    category = [NONE] * 0x110000
    for index, name in enumerate(CATEGORIES):
        for character in members(rf"\p{{{name}}}"):
            category[ord(character)] = index
    runs = []
    for value in category:
        if runs and runs[-1][1] == value:
            runs[-1][0] += 1
        else:
            runs.append([1, value])
    return runs


def decompositions():
    """(character, first, second or 0, whether NFC composes it again)"""
    for character in CHARACTERS:
        text = unicodedata.decomposition(character)
        if not text or text.startswith("<"):
            continue
        parts = [int(part, 16) for part in text.split()]
        parts += [0] * (2 - len(parts))
        is_composed = unicodedata.normalize("NFC", character) == character
        yield ord(character), *parts, int(is_composed)


def combining_classes():
    for character in CHARACTERS:
        if unicodedata.combining(character):
            yield ord(character), unicodedata.combining(character)


def write(name, comment, numbers):
    text = textwrap.fill(", ".join(str(number) for number in numbers) + ",", 99)
    path = FOLDER / name
    path.write_text(f"// {comment}\n// Written by tools/dev/unicode_tables.py.\n{text}\n")


def deltas(rows):
    last = 0
    for character, *rest in rows:
        yield from (character - last, *rest)
        last = character


def main():
    write(
        "unicode_categories.inc",
        "Runs of code points from 0 on: 32 times their number, plus their category.",
        [count * 32 + value for count, value in category_runs()],
    )
    write(
        "unicode_decompositions.inc",
        "Distance to the code point before, its two parts (the second may be 0), is composed.",
        deltas(decompositions()),
    )
    write(
        "unicode_marks.inc",
        "Distance to the code point before, its canonical combining class.",
        deltas(combining_classes()),
    )


if __name__ == "__main__":
    main()
