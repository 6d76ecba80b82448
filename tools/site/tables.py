"""Tables that the tree keeps as data. A page names one in a comment on a separate line,

    <!-- table: results.csv -->  or  <!-- table: results.csv, by configuration -->
    <!-- figures: load and memory -->

and the site shows it there. With `by`, each value of that column gets a heading and a table.
`figures` is a table with `cells` in the figures.json beside the page.
"""
import csv
import json
import re

from repository import ROOT

TABLE = re.compile(r"^<!-- table: (\S+?\.csv)(?:, by (\w+))? -->$", re.MULTILINE)
FIGURES = re.compile(r"^<!-- figures: (.+) -->$", re.MULTILINE)


def markdown(columns, rows):
    head, *lines = (f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n"
                    for line in (columns, *rows))
    return f"{head}|{'---|' * len(columns)}\n{''.join(lines)}"


def shown(path, column):
    """A CSV file as Markdown."""
    with open(path, newline="", encoding="utf-8") as file:
        columns, *rows = csv.reader(file)
    if column is None:
        return markdown(columns, rows)
    at = columns.index(column)
    parts = {}
    for row in rows:
        parts.setdefault(row[at], []).append(row[:at] + row[at + 1:])
    return "\n".join(f"## {title}\n\n{markdown(columns[:at] + columns[at + 1:], part)}"
                     for title, part in parts.items())


def with_tables(text, page):
    """The text of a page with the tables that it names."""
    folder = (ROOT / page).parent
    text = TABLE.sub(lambda match: shown(folder / match[1], match[2]), text)
    if not FIGURES.search(text):
        return text
    listed = json.loads((folder / "figures.json").read_text())["tables"]
    known = {table["name"]: table for table in listed if "cells" in table}
    return FIGURES.sub(lambda match: markdown(known[match[1]]["columns"], known[match[1]]["cells"]),
                       text)
