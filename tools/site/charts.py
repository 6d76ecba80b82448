"""Charts of the figures that pages show: figures.json beside a page has its tables' numbers.

Each chart follows its table (the last of its tables); docs/assets/charts.js draws it.
"""
import html
import json
import os
import re

from repository import ROOT, page_of

FILES = ("tools/models/figures.json", "annotate/figures.json", "backends/onednn/figures.json",
         "backends/xnnpack/figures.json")
LIBRARIES = ("d3.min.js", "plot.min.js")  # of the report page
VENDOR = ROOT / "tools/page/vendor"
TABLE = re.compile(r"^\|[^\n]*\|\n\|(?:---\|)+\n(?:\|[^\n]*\|\n?)+", re.MULTILINE)
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?")


class Unfit(Exception):
    """Figures that do not belong to their page; the text says what to do."""


def figures():
    """page: what its figures.json says."""
    found = {}
    for name in FILES:
        value = json.loads((ROOT / name).read_text())
        for table in value["tables"]:
            table.setdefault("rows", {row[0]: [numbers(cell) for cell in row[1:]]
                                      for row in table.get("cells", ())})
        found[value["page"]] = value
    return found


def cells(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def numbers(cell):
    """What a cell says: nothing, a number, or several."""
    found = [float(number) for number in NUMBER.findall(cell.replace("**", ""))]
    return None if not found else found[0] if len(found) == 1 else found


def tables(text):
    """(end of the table in the text, its columns, its rows as name: cells) of each table."""
    for match in TABLE.finditer(text):
        head, _, *rows = match[0].strip().split("\n")
        yield match.end(), cells(head), {cells(row)[0]: cells(row)[1:] for row in rows}


def table_of(text, wanted, page):
    """The table of a page that has these columns and rows."""
    for found in tables(text):
        if found[1] == wanted["columns"] and list(found[2]) == list(wanted["rows"]):
            return found
    raise Unfit(f"{page}: no table has the columns and rows of \"{wanted['name']}\" of its "
                "figures.json; change them together")


def bars(chart, of_page, shown):
    """What a chart shows: group (a row, or a whole table), bar, value and its text of each.

    shown: the rows of each table as on the page, by its name.
    """
    made = []

    def add(group, bar, value, text):
        made.append({"group": group, "bar": bar, "value": value, "text": text})

    for name in chart["tables"]:
        table = next(table for table in of_page["tables"] if table["name"] == name)
        for row, values in table["rows"].items():
            if chart.get("row", row) != row:
                continue
            group = name if "row" in chart else row
            for column, value, cell in zip(table["columns"][1:], values, shown[name][row]):
                texts = NUMBER.findall(cell.replace("**", ""))
                if "pair" in chart and column == chart["pair"]["column"]:
                    for bar, *both in zip(chart["pair"]["bars"], value, texts):
                        add(group, bar, *both)
                elif column in chart.get("bars", ()) and value is not None:
                    add(group, column, value[0] if isinstance(value, list) else value, texts[0])
    return made


def element(chart, of_page, shown):
    """The place of a chart; charts.js finds what to draw in it."""
    data = {key: chart[key] for key in ("title", "own", "relative") if key in chart}
    data["bars"] = bars(chart, of_page, shown)
    text = html.escape(json.dumps(data, ensure_ascii=False), quote=True)
    return f'\n<div class="octet-chart" data-chart="{text}"></div>\n'


def with_charts(text, page):
    """A page's text with its charts, and the scripts that draw them."""
    of_page = figures().get(page.as_posix())
    if of_page is None or not of_page["charts"]:
        return text
    charted = {name for chart in of_page["charts"] for name in chart["tables"]}
    found = {table["name"]: table_of(text, table, page) for table in of_page["tables"]
             if table["name"] in charted}
    shown = {name: rows for name, (_, _, rows) in found.items()}
    inserted = sorted(((max(found[name][0] for name in chart["tables"]),
                        element(chart, of_page, shown))
                       for chart in of_page["charts"]), key=lambda item: item[0])
    for place, chart in reversed(inserted):
        text = text[:place] + chart + text[place:]
    here = os.path.dirname(page_of(page)) or "."
    scripts = [f"assets/vendor/{name}" for name in LIBRARIES] + ["assets/charts.js"]
    return text + "\n" + "".join(f'<script src="{os.path.relpath(script, here)}"></script>\n'
                                 for script in scripts)
