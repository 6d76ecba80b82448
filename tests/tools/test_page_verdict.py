"""How the report page opens: the verdict, the op that is selected, what fits on which screen."""
import json
import os
import subprocess
import unittest

import page_data
from support import CommandTest
from test_page import PAGE_OF, VALIDATE, PageTest, Targets


def op(name, **more):
    return {"name": name, "target": "aten.linear.default", "status": "quantized", "inputs": [], **more}


class Verdict(CommandTest):
    def verdict_of(self, data):
        """The verdict in the page of data, and the page's size without its libraries and data."""
        self.write_json("data.json", {"kind": "compare", "title": "m", **data})
        subprocess.run([PAGE_OF, self.path("data.json"), self.path("p.html"), self.path("n.json")], check=True, timeout=120)
        with open(self.path("p.html"), encoding="utf-8") as file:
            text = json.loads(Targets(file.read()).texts["data"])
        VALIDATE(text)
        return text["verdict"]

    def test_the_level_follows_the_outputs(self):
        for decibels, level, said in ((35.2, "good", "by 1.7 % (35.2 dB)."), (30, "good", "by 3.2 % (30.0 dB)."), (29.9, "fair", "most classes stay the same"),
                                      (19.9, "poor", "by 10 % (19.9 dB): many results change"), ("inf", "good", "equal those of the float program"),
                                      ("-inf", "poor", "many results change"), (None, "unknown", "--evaluate DATA.pt")):
            with self.subTest(decibels=decibels):
                found = self.verdict_of({"nodes": [op("a")], "output_sqnr_db": decibels})
                self.assertEqual(found["level"], level)
                self.assertIn(said, found["text"])

    def test_three_ops_with_a_cause_of_their_own(self):
        nodes = [op(f"op{rank}", rank=rank, cause=cause, explanation=f"reason {rank}", suggestion=suggestion)
                 for rank, cause, suggestion in ((5, "weights", {"a": None}), (4, "clipped", {"a": {"act_observer": "min_max"}}), (1, "accumulated", None),
                                                 (2, "lowering", None), (3, "rounding", {"b": None}), (6, "none", None))]
        found = self.verdict_of({"nodes": nodes, "output_sqnr_db": 22})
        self.assertTrue(found["text"].endswith("Look at these 3 ops first:"), found["text"])
        self.assertEqual(found["ops"], [
            {"name": "op2", "text": "lowering: reason 2."},
            {"name": "op3", "text": "rounding: reason 3. Try it in float: its details have the setting."},
            {"name": "op4", "text": "clipped: reason 4. Try a wider range: its details have the setting."}])
        self.assertIn("octet tune", found["next"])
        good = self.verdict_of({"nodes": nodes, "output_sqnr_db": 40})
        self.assertEqual((good["ops"], good["next"]), ([], ""))

    def test_without_errors_ranges_and_weights_tell(self):
        nodes = [op("fine", output={"clipped_share": 0.001}, weight={"sqnr_db": [0, 40, "inf", None]}, macs=100),
                 op("weak", weight={"sqnr_db": [12.34, 1, 40]}), op("weaker", weight={"sqnr_db": [2, 40, 1]}), op("cut", output={"clipped_share": 0.0234}),
                 op("kept", status="float", reason="excluded by a rule", macs=50), op("small", status="float", reason="so", macs=1)]
        found = self.verdict_of({"kind": "quantize", "nodes": nodes, "output_sqnr_db": 15})
        self.assertEqual(found["ops"], [
            {"name": "kept", "text": "stays float, with 33 % of the arithmetic: excluded by a rule."},
            {"name": "cut", "text": "2.3 % of its values are clipped. Try the observer min_max."},
            {"name": "weaker", "text": "half of the channels of its weight have 2.0 dB or less. Try a scale per channel, or the op in float."}])
        self.assertIn("octet compare FLOAT.pt2 QUANTIZED.pt2", found["next"])
        one = self.verdict_of({"kind": "quantize", "nodes": nodes[:1] + nodes[4:], "output_sqnr_db": 33})
        self.assertEqual((one["level"], len(one["ops"]), one["next"]), ("good", 1, ""))

    def test_the_command_fills_it(self):
        self.small_model()
        self.octet("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--calibration", self.path("calibration.pt"), "--output", self.path("q.pt2"),
                   "--report", self.path("r.html"))
        self.octet("compare", self.path("model.pt2"), self.path("q.pt2"), "--inputs", self.path("calibration.pt"), "--output", self.path("c.html"))
        for name in ("r.html", "c.html"):
            with open(self.path(name), encoding="utf-8") as file:
                data = json.loads(Targets(file.read()).texts["data"])
            VALIDATE(data)
            self.assertEqual(data["verdict"]["level"], "good", name)
            self.assertIn(f"({data['output_sqnr_db']:.1f} dB).", data["verdict"]["text"])

    def test_the_page_itself_stays_small(self):
        """Notebooks embed it: at most 100 kB beside the libraries, of which a test has the hashes."""
        self.verdict_of({"nodes": []})
        vendor = os.path.join(os.path.dirname(__file__), "../../tools/page/vendor")
        libraries = sum(os.path.getsize(os.path.join(vendor, name)) for name in os.listdir(vendor) if name != "README.md")
        self.assertLess(os.path.getsize(self.path("p.html")) - libraries, 100_000)


class Opening(PageTest):
    def data(self):
        return page_data.large(200, channels=16) | {"output_sqnr_db": 22.5}

    def test_the_worst_op_is_selected(self):
        page = self.open(self.page_of(self.data())[0])
        worst = next(node["name"] for node in self.data()["nodes"] if node.get("rank") == 1)
        self.assertEqual(page.value("document.querySelector('#detail h2').textContent"), worst)
        self.assertEqual(page.value("document.querySelector('#ops tr[aria-selected=true] .mono').textContent"), worst)
        self.assertEqual(page.value("document.querySelector('#canvas g.op.selected').getAttribute('aria-label')").split(",")[0], worst)
        self.assertEqual(page.value("location.hash"), "", "the reader has chosen nothing")
        says = page.value("document.getElementById('says').innerText")
        self.assertIn("Fair The outputs differ from the float program's by 7.5 % (22.5 dB)", says)
        page.click("#says li:nth-child(3) button")
        third = next(node["name"] for node in self.data()["nodes"] if node.get("rank") == 3)
        self.assertEqual(page.value("document.querySelector('#detail h2').textContent"), third)

    def test_a_link_leads_to_the_op(self):
        path = self.page_of(self.data())[0]
        page = self.open(path)
        page.value("select(30, 'table')")
        name = self.data()["nodes"][30]["name"]
        self.assertEqual(page.value("location.hash"), f"#op={name}")
        self.assertIn("Copy link", page.value("document.querySelector('#detail .head').textContent"))
        page.value("location.hash = '#op=linear_41'")
        page.wait_for("document.querySelector('#detail h2').textContent === 'linear_41'")
        for fragment in ("#op=nothing", "#op=%E0%A4%A", "#other"):
            page.value(f"location.hash = {fragment!r}")
        self.assertEqual(page.value("document.querySelector('#detail h2').textContent"), "linear_41", "what names no op changes nothing")
        page.key("Escape")
        self.assertEqual(page.value("location.hash"), "")
        again = self.browser.open(path, ready="true")
        self.addCleanup(again.close)
        again.call("Page.navigate", url="about:blank")
        again.call("Page.navigate", url=f"file://{path}#op=linear_41")
        again.wait_for("document.querySelector('#detail h2')?.textContent === 'linear_41'")

    def test_bars_count_the_ops_and_filter_them(self):
        data = self.data()
        page = self.open(self.page_of(data)[0])
        ratios = [node["errors"]["accumulated"]["sqnr_db"] for node in data["nodes"] if "errors" in node]
        wanted = [sum(low <= ratio < high for ratio in ratios) for low, high in ((50, 999), (40, 50), (30, 40), (20, 30), (10, 20), (-999, 10))] + [2]
        self.assertEqual(page.value("[...document.querySelectorAll('#legend button')].map(bar => Number(bar.firstChild.textContent))"), wanted)
        page.click("#legend button:nth-child(3)")
        self.assertEqual(page.value("document.getElementById('filter').value"), "accumulated>=30 accumulated<40")
        self.assertEqual(len(self.column(page, "name")), wanted[2])
        page.click("#legend button:nth-child(3)")
        self.assertEqual(len(self.column(page, "name")), len(data["nodes"]), "a second click shows all")

    def test_float_and_integers_side_by_side(self):
        page = self.open(self.page_of(self.data())[0], width=1280)
        page.value("select(nodes.findIndex(node => node.output), 'key')")
        boxes = page.value("[...document.querySelectorAll('#detail .pair figure')].map(f => f.getBoundingClientRect().top)")
        self.assertEqual(len(boxes), 2)
        self.assertEqual(boxes[0], boxes[1])
        levels = page.value("levelsOf([{count: 8, from: -1, to: 1}, {count: 2, from: 1, to: 3}], 0, 2, 1)")
        self.assertEqual(levels, [6, 2.5, 1.5], "half of what lies at a border goes to each side; the ends take what is clipped")
        self.assertEqual(page.value("levelsOf([{count: 3, from: 1, to: 1}], 0, 2, 1)"), [0, 3, 0])

    def test_bars_and_columns_fit(self):
        for width in (390, 768, 1280):
            page = self.open(self.page_of(self.data())[0], width=width, height=800, mobile=width == 390)
            with self.subTest(width=width):
                self.assertLessEqual(page.value("document.documentElement.scrollWidth"), width)
                self.assertLess(page.value("document.querySelector('#graph .bar').offsetHeight"), 40, "one row")
                if width == 1280:
                    self.assertLess(page.value("document.querySelector('#panels .bar').offsetHeight"), 40, "one row")
                wide = "document.getElementById('panel-ops').scrollWidth - document.getElementById('panel-ops').clientWidth"
                page.wait_for(f"{wide} <= 0")
                for name in ("name", "accumulated"):
                    self.assertTrue(page.value(f"document.querySelector('th[data-id={name}]').offsetWidth"))
                page.click("#all-columns")
                page.wait_for("[...document.querySelectorAll('#ops th')].every(head => head.offsetWidth)")

    def test_on_a_phone_the_details_are_a_sheet(self):
        page = self.open(self.page_of(self.data())[0], width=390, height=844, mobile=True)
        top = "document.getElementById('detail').getBoundingClientRect().top"
        self.assertGreater(page.value(top), 780, "only its headline at first")
        self.assertLess(page.value(top), 844)
        page.click("#ops tbody tr td.mono")
        self.assertLess(page.value(top), 500)
        page.click("#detail .fold")
        self.assertGreater(page.value(top), 780)

    def test_terms_are_explained(self):
        page = self.open(self.page_of(self.data())[0])
        self.assertIn("10 %", page.value("[...document.querySelectorAll('#says abbr')].find(word => word.textContent === 'dB').title"))
        self.assertIn("signal-to-quantization-noise", page.value("document.querySelector('th[data-id=accumulated] button').title"))
        page.click("#help-button")
        self.assertEqual(page.value("document.querySelectorAll('#words dt').length"), page.value("Object.keys(kWords).length"))


if __name__ == "__main__":
    unittest.main()
