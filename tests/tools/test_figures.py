"""Checks that the tables on pages equal the figures.json beside them, from which the site makes its
charts, and that pages name each table that figures.json holds for them."""
import copy
import pathlib
import re
import sys
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/site"))

import charts  # noqa: E402
import tables  # noqa: E402


def shown(page):
    """The text of a page as the site shows it, before the charts."""
    return tables.with_tables((ROOT / page).read_text(), page)


class Figures(unittest.TestCase):
    def test_tables_and_figures_are_equal(self):
        for page, value in charts.figures().items():
            text, source = shown(page), (ROOT / page).read_text()
            for table in value["tables"]:
                named = source.count(f"<!-- figures: {table['name']} -->\n")
                self.assertEqual(named, int("cells" in table), table["name"])
                if named:
                    continue
                _, _, rows = charts.table_of(text, table, page)
                for name, row in table["rows"].items():
                    with self.subTest(page=page, table=table["name"], row=name):
                        self.assertEqual([charts.numbers(cell) for cell in rows[name]], row)

    def test_every_file_says_how_and_where_it_was_measured(self):
        self.assertEqual({(ROOT / name).resolve() for name in charts.FILES},
                         {path for path in ROOT.glob("*/**/figures.json")
                          if "build" not in path.relative_to(ROOT).parts})
        for value in charts.figures().values():
            self.assertIn("thread", value["cpu"])
            for script in re.findall(r"tools/[\w/]+\.py", value["command"]):
                self.assertTrue((ROOT / script).exists(), script)
            self.assertTrue(value["tables"])

    def test_ratios_are_those_of_the_times(self):
        """As far as the rounded times tell."""
        table = charts.figures()["backends/onednn/FIGURES.md"]["tables"][0]
        for name, row in table["rows"].items():
            best = min(time for time in row[1:4] if time is not None)
            self.assertAlmostEqual(row[0] / best, row[4], delta=0.011, msg=name)
        table = charts.figures()["backends/xnnpack/FIGURES.md"]["tables"][0]
        for name, ((own, other), ratio, *_) in table["rows"].items():
            self.assertAlmostEqual(own / other, ratio, delta=0.011, msg=name)

    def test_charts_show_numbers_of_their_tables(self):
        for page, value in charts.figures().items():
            for chart in value["charts"]:
                bars = charts.bars(chart, value, {
                    table["name"]: charts.table_of(shown(page), table, page)[2]
                    for table in value["tables"] if table["name"] in chart["tables"]})
                with self.subTest(page=page, chart=chart["title"]):
                    self.assertGreater(len(bars), 4)
                    self.assertEqual([bar["value"] for bar in bars],
                                     [float(bar["text"]) for bar in bars])
                    self.assertTrue(set(chart["own"]) < {bar["bar"] for bar in bars})
                    if "relative" in chart:  # each group has what it is drawn to
                        based = {b["group"] for b in bars if b["bar"] == chart["relative"]}
                        self.assertEqual(based, {b["group"] for b in bars})

    def test_a_chart_follows_its_table(self):
        page = pathlib.Path("backends/xnnpack/FIGURES.md")
        text = charts.with_charts(shown(page), page)
        row, place = text.index("| EfficientNet-Lite0 | 3.02"), text.index("octet-chart")
        self.assertLess(row, place)
        self.assertLess(place, text.index("Float programs take"))
        self.assertIn('src="../../assets/vendor/plot.min.js"', text)
        other = pathlib.Path("core/README.md")
        self.assertEqual(charts.with_charts("# Core", other), "# Core")

    def test_a_table_that_has_changed_is_told(self):
        page = "backends/xnnpack/FIGURES.md"
        value = copy.deepcopy(charts.figures()[page])
        value["tables"][0]["rows"]["VGG"] = []
        with mock.patch.object(charts, "figures", lambda: {page: value}):
            with self.assertRaisesRegex(charts.Unfit, "change them together"):
                charts.with_charts(shown(page), pathlib.Path(page))

    def test_cells(self):
        for cell, wanted in (("**19.8 dB**", 19.8), ("58 of 96", [58, 96]), ("", None), ("-", None),
                             ("**1.37 ms** (17.6x)", [1.37, 17.6]), ("5.42, 5.70", [5.42, 5.7])):
            self.assertEqual(charts.numbers(cell), wanted)


if __name__ == "__main__":
    unittest.main()
