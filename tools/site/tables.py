"""Tables that the tree keeps as CSV. A page names a file in a comment of its own line,

    <!-- table: results.csv -->  or  <!-- table: results.csv, by configuration -->

and the site shows the table there. With `by`, each value of that column gets a heading and a table.
"""
import csv
import re

from repository import ROOT

MARK = re.compile(r"^<!-- table: (\S+?\.csv)(?:, by (\w+))? -->$", re.MULTILINE)


def markdown(columns, rows):
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n"
                   for line in lines)


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
    return MARK.sub(lambda match: shown((ROOT / page).parent / match[1], match[2]), text)
