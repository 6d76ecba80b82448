"""The report page in Debian's Chromium: of a real model, of a large program, of hostile names."""
import csv
import hashlib
import html.parser
import io
import json
import os
import pathlib
import subprocess
import unittest

import fastjsonschema
import torch
from torch import nn

import page_data
from browser import Browser, find_chromium
from support import SCRATCH, CommandTest

PAGE_FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tools" / "page"
VALIDATE = fastjsonschema.compile(json.loads((PAGE_FOLDER / "page.schema.json").read_text()))
PAGE_OF = os.path.join(os.environ["OCTET_BUILD"], "bin", "page_of")
MEGABYTE = 1_000_000


class Targets(html.parser.HTMLParser):
    """What a page could load, and the text of its elements."""

    def __init__(self, text):
        super().__init__()
        self.targets, self.scripts, self.texts, self.at = [], 0, {}, None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.targets += [value for name, value in attributes.items() if name in ("src", "href", "action", "data") or name.startswith("on")]
        self.scripts += tag == "script"
        self.at = attributes.get("id", tag)

    def handle_endtag(self, tag):
        self.at = None

    def handle_data(self, data):
        self.texts[self.at] = self.texts.get(self.at, "") + data


class PageTest(CommandTest):
    @classmethod
    def setUpClass(cls):
        if find_chromium() is None:
            raise unittest.SkipTest("no chromium; tools/setup.sh --test installs it")
        cls.browser = Browser(os.path.join(SCRATCH, f"profile_{cls.__name__}"))
        cls.addClassCleanup(cls.browser.close)

    def page_of(self, data, name="page.html"):
        """Writes the page of data; returns its path and Model Explorer's data."""
        self.write_json("data.json", data)
        subprocess.run([PAGE_OF, self.path("data.json"), self.path(name), self.path("nodes.json")], check=True, timeout=120)
        with open(self.path("nodes.json")) as file:
            return self.path(name), json.load(file)

    def open(self, path, **options):
        page = self.browser.open(path, **options)
        self.addCleanup(page.close)
        self.addCleanup(lambda: self.assertEqual(page.troubles, []))
        return page

    def real_page(self):
        """The page of SmallNet with one op left float, and the report as JSON."""
        self.small_model()
        self.write_json("quantizer.json", {"base": "x86", "global": {}, "module_name": {"head": None}})
        command = ["quantize", self.path("model.pt2"), "--quantizer", self.path("quantizer.json"), "--calibration", self.path("calibration.pt"), "--output", self.path("q.pt2")]
        for name in ("r.html", "r.json", "r.model-explorer.json"):
            self.octet(*command, "--report", self.path(name))
        with open(self.path("r.json")) as file:
            return self.path("r.html"), json.load(file)

    # ---- what pages show

    def column(self, page, name):
        """Texts of a column of the table, by its heading's id."""
        return page.value(f"""(() => {{ addAllRows();
            const at = [...document.querySelectorAll("#ops thead th")].findIndex(head => head.dataset.id === {json.dumps(name)});
            return [...document.querySelectorAll("#ops tbody tr")].map(row => row.cells[at].textContent); }})()""")

    def boxes(self, page):
        """aria-label of each box: its aria-expanded (None for ops)."""
        return page.value("""Object.fromEntries([...document.querySelectorAll("#canvas g[data-id]")].map(
            box => [box.getAttribute("aria-label"), box.getAttribute("aria-expanded")]))""")

    def after_layout(self, page, action):
        before = page.value("Number(document.body.dataset.layouts)")
        action()
        page.wait_for(f"Number(document.body.dataset.layouts) > {before}")

    def box_of(self, page, start):
        """The selector of the box whose label begins so."""
        return f"#canvas g[data-id][aria-label^={json.dumps(start)}] > .box"


class RealModel(PageTest):
    def test_the_page_has_each_op_with_what_became_of_it(self):
        path, report = self.real_page()
        page = self.open(path)
        self.assertEqual(page.value("document.title"), "model.pt2")
        names, status = self.column(page, "name"), self.column(page, "status")
        by_name = dict(zip(names, status))
        self.assertEqual(by_name["linear"], "float")
        self.assertEqual(by_name["x"], "input")
        self.assertEqual({name for name in names if by_name[name] == "quantized"}, {op["node"] for op in report["quantized_ops"]})
        self.assertFalse([name for name in names if "quantize" in name], "q/dq ops are hidden")
        summary = page.value("document.getElementById('summary').textContent")
        self.assertIn("over the 4 calibration batches, which were also used to calibrate", summary)
        self.assertIn(f"{report['summary']['quantized_ops']} quantized, 1 float", summary)
        page.click("#ops tbody tr[data-index='%d'] td" % names.index("linear"))
        reason = report["float_ops"][0]["reason"]
        self.assertIn(f"Stays float: {reason}", page.value("document.getElementById('detail').textContent"))
        self.assertEqual(page.value("document.querySelectorAll('#canvas g.op.float').length"), 1)

    def test_the_data_fits_its_schema_and_the_program(self):
        path, report = self.real_page()
        page = self.open(path)
        data = page.value("JSON.parse(document.getElementById('data').textContent)")
        VALIDATE(data)
        nodes = {node["name"]: node for node in data["nodes"]}
        self.assertEqual({node["name"] for node in report["nodes"]}, set(nodes))
        conv = nodes["conv2d"]
        self.assertEqual(conv["inputs"], ["x"])
        self.assertEqual((conv["module_type"], conv["shape"]), ("torch.nn.modules.conv.Conv2d", [1, 16, 16, 16]))
        self.assertEqual(conv["macs"], 16 * 16 * 16 * 27)
        weight = conv["weight"]
        self.assertEqual((weight["axis"], weight["shape"]), (0, [16, 3, 3, 3]))
        for key in ("min", "max", "scale", "sqnr_db"):
            self.assertEqual(len(weight[key]), 16, key)
        for low, high, scale, ratio in zip(weight["min"], weight["max"], weight["scale"], weight["sqnr_db"]):
            self.assertGreater(scale, 0.7 * max(-low, high) / 127.5, "what is clipped is little")
            self.assertLess(scale, 1.3 * max(-low, high) / 127.5)
            self.assertGreater(ratio, 30)
        output = nodes["x"]["output"]
        low, high = output["range"]
        self.assertAlmostEqual(low, -output["scale"] * output["zero_point"], delta=1e-4)
        self.assertAlmostEqual(high - low, 255 * output["scale"], delta=1e-3)
        histogram = output["histogram"]
        self.assertAlmostEqual(sum(histogram["counts"]), 4 * 3 * 32 * 32, delta=1, msg="every element that was seen")
        self.assertEqual([histogram["min"], histogram["max"]], output["observed"])
        outside = sum(((x < low - output["scale"] / 2) | (x > high + output["scale"] / 2)).sum().item() for x, in torch.load(self.path("calibration.pt")))
        self.assertAlmostEqual(output["clipped_share"], outside / (4 * 3 * 32 * 32), delta=0.001)
        self.assertEqual(nodes["output"]["inputs"], ["linear"])
        with open(self.path("r.model-explorer.json")) as file:
            results = json.load(file)["graph"]["results"]
        self.assertEqual(results["linear"]["value"], "float")
        program = torch.export.load(self.path("model.pt2"))
        self.assertLessEqual(set(results) - {"batch_norm"}, {node.name for node in program.graph.nodes})

    def test_modules_fold_and_keys_reach_everything(self):
        path, _ = self.real_page()
        page = self.open(path)
        self.after_layout(page, lambda: page.click("#fold-all"))
        folded = self.boxes(page)
        group = next(label for label, expanded in folded.items() if expanded == "false")
        self.after_layout(page, lambda: page.click(self.box_of(page, group)))
        self.assertGreater(len(self.boxes(page)), len(folded))
        self.after_layout(page, lambda: page.click("#fold-all"))
        page.key("g")
        focused = "document.activeElement.getAttribute('aria-label')"
        for _ in range(len(folded)):
            page.key("ArrowUp")
        seen = {page.value(focused)}
        for _ in range(len(folded)):
            page.key("ArrowDown")
            seen.add(page.value(focused))
        self.assertEqual(seen, set(folded), "the arrow reaches each box of a chain")
        while not page.value("document.activeElement.getAttribute('aria-expanded')"):
            page.key("ArrowUp")
        for expanded in ("true", "false"):
            self.after_layout(page, lambda: page.key("Enter"))
            self.assertEqual(page.value("document.activeElement.getAttribute('aria-expanded')"), expanded)
        while not page.value(f"({focused}).startsWith('linear')"):
            page.key("ArrowDown")
        page.key("Enter")
        self.assertEqual(page.value("document.querySelector('#detail h2').textContent"), "linear")
        self.assertEqual(page.value("document.querySelector('#ops tr[aria-selected=true] td:nth-child(2)').textContent"), "linear")
        page.key("t", "Home")
        self.assertEqual(page.value("document.querySelector('#detail h2').textContent"), "x")
        page.key("ArrowDown")
        self.assertEqual(page.value("document.activeElement.dataset.index"), "1")
        page.key("Escape")
        self.assertIn("Select an op", page.value("document.getElementById('detail').textContent"))

    def test_every_mode_fits_the_schema(self):
        torch.manual_seed(0)
        self.export(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)), torch.randn(2, 64))
        data = ["--calibration", self.save("calibration.pt", [(torch.randn(2, 64),) for _ in range(2)])]
        for scales, channels, options in ((64, 64, data), (64, 64, ["--mode", "dynamic"]), (0, 64, ["--mode", "weight-only", "--weight-bits", "4", "--group-size", "32"]),
                                          (1, 64, [*data, "--per-tensor"]), (64, 64, [*data, "--compat", "torchao"]), (None, None, [*data, "--reference"])):
            with self.subTest(options=options):
                self.octet("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", *options, "--output", self.path("q.pt2"), "--report", self.path("r.html"))
                with open(self.path("r.html"), encoding="utf-8") as file:
                    page = json.loads(Targets(file.read()).texts["data"])
                VALIDATE(page)
                weight = next((node["weight"] for node in page["nodes"] if "weight" in node), None)
                self.assertEqual((len(weight.get("scale", [])), len(weight["sqnr_db"])) if weight else (None, None), (scales, channels))

    def test_training_writes_the_same_page(self):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3))
        torch.export.save(torch.export.export(net.train(), (torch.randn(2, 3, 8, 8),)), self.path("model.pt2"))
        self.save("train.pt", [(torch.randn(2, 3, 8, 8), torch.tensor([0, 2])) for _ in range(2)])
        self.octet("qat", self.path("model.pt2"), "--quantizer", "xnnpack", "--train", self.path("train.pt"), "--epochs", "1",
                   "--output", self.path("q.pt2"), "--report", self.path("r.html"))
        page = self.open(self.path("r.html"))
        data = page.value("JSON.parse(document.getElementById('data').textContent)")
        VALIDATE(data)
        self.assertEqual(data["kind"], "qat")
        linear = next(node for node in data["nodes"] if node["name"].startswith("linear"))
        self.assertEqual((linear["status"], len(linear["weight"]["min"])), ("quantized", 3))

    def test_other_names_are_refused_before_the_work(self):
        self.small_model()
        _, errors = self.octet("qat", self.path("model.pt2"), "--quantizer", "xnnpack", "--train", self.path("calibration.pt"), "--output", self.path("q.pt2"),
                               "--report", self.path("r.txt"), code=2)
        self.assertIn("ends in .json or .html", errors)
        self.assertFalse(os.path.exists(self.path("q.pt2")))


class LargeProgram(PageTest):
    def test_two_thousand_ops_are_small_and_usable(self):
        data = page_data.large(2000, channels=1024)
        path, nodes = self.page_of(data)
        self.assertLess(os.path.getsize(path), 15 * MEGABYTE)
        results = nodes["graph"]["results"]
        self.assertEqual({name: result["value"] for name, result in results.items()},
                         {node["name"]: node["errors"]["accumulated"]["sqnr_db"] for node in data["nodes"] if "errors" in node})
        limits = [step["value"] for step in nodes["graph"]["thresholds"]]
        self.assertEqual(limits, sorted(limits))
        page = self.open(path)
        first = next(i for i, node in enumerate(data["nodes"]) if "weight" in node)
        whole, short = data["nodes"][first]["weight"], page.value(f"nodes[{first}].weight")
        self.assertEqual(short["channels"], 1024)
        for key, pick in (("min", min), ("max", max), ("scale", max), ("sqnr_db", min)):
            self.assertLess(len(short[key]), 1024)
            self.assertAlmostEqual(pick(short[key]), pick(whole[key]), places=3, msg="neighbors are joined to the worst of them")
        self.assertTrue(page.value("performance.getEntriesByName('first-contentful-paint').length"))
        self.assertLess(page.value("document.querySelectorAll('#canvas g[data-id]').length"), 100, "modules are folded at first")
        self.after_layout(page, lambda: page.click("#unfold-all"))
        labels = page.value("document.querySelectorAll('#canvas g.op').length")
        self.assertEqual(labels, 2002)
        self.after_layout(page, lambda: page.click("#fold-all"))

    def test_a_flat_program_is_cut_into_parts(self):
        path, _ = self.page_of(page_data.large(700, channels=4, modules=False))
        page = self.open(path)
        self.after_layout(page, lambda: page.click("#fold-all"))
        self.assertEqual([label.split(",")[0] for label in self.boxes(page)], [f"module part {i}" for i in range(1, 9)])

    def test_the_table_sorts_and_filters(self):
        data = page_data.large(200, channels=4)
        page = self.open(self.page_of(data)[0])
        ratios = {node["name"]: node["errors"]["accumulated"]["sqnr_db"] for node in data["nodes"] if "errors" in node}
        for order, sign in (("ascending", 1), ("descending", -1)):
            page.click("th[data-id=accumulated] button")
            self.assertEqual(page.value("document.querySelector('th[data-id=accumulated]').getAttribute('aria-sort')"), order)
            want = sorted(ratios, key=lambda name: sign * ratios[name])
            self.assertEqual(self.column(page, "name"), want + ["x", "output"], "what has no value comes last")
        page.click("th[data-id=name] button")
        self.assertEqual(self.column(page, "name")[:3], ["add_7", "add_9", "add_17"], "numbers in names count as numbers")
        for text, keeps in (("softmax", lambda node: "softmax" in node["name"]),
                            ("status=float sqnr<30", lambda node: node.get("status") == "float" and ratios[node["name"]] < 30),
                            ("-linear matmul", lambda node: "matmul" in node["name"]),
                            ("blocks.3. rank>0", lambda node: "blocks.3." in node.get("module", "") and node.get("rank")),
                            ("no such op", lambda node: False)):
            with self.subTest(filter=text):
                page.key("Escape", "/")
                page.type(text)
                self.assertEqual(set(self.column(page, "name")), {node["name"] for node in data["nodes"] if keeps(node)})
        self.assertEqual(page.value("document.getElementById('count').textContent"), "0 of 202 ops")
        page.key("Escape")
        rows = list(csv.reader(io.StringIO(page.value("csvText()"))))
        self.assertEqual(len(rows), 203)
        self.assertTrue({"name", "SQNR dB", "µs"} <= set(rows[0]))

    def test_an_op_shows_errors_cause_histogram_and_channels(self):
        data = page_data.large(200, channels=16)
        page = self.open(self.page_of(data)[0])
        worst = min((node for node in data["nodes"] if "weight" in node), key=lambda node: node["errors"]["accumulated"]["sqnr_db"])
        page.key("/")
        page.type(worst["name"])
        page.key("Tab", "Tab")
        page.value(f"select({data['nodes'].index(worst)}, 'key')")
        text = page.value("document.getElementById('detail').textContent")
        for expected in (worst["name"], f"{worst['errors']['accumulated']['sqnr_db']:.1f}", worst["cause"], worst["explanation"], "Suggestion for --config", "where it comes from"):
            self.assertIn(expected.lower(), text.lower())
        self.assertEqual(page.value("document.querySelectorAll('#detail figure svg').length"), 4)
        samples = page.value("[...document.querySelectorAll('#detail .worst')].map(row => [...row.cells].map(cell => cell.textContent))")
        self.assertEqual(samples, [["0, 2, 96", "3.4", str(round(3 / 0.0234) + worst["output"]["zero_point"]), "3", "-0.4"]])
        page.wait_for("document.querySelector('#canvas g.op.selected')")  # its modules unfold
        self.assertEqual(page.value("document.querySelector('#canvas g.op.selected').getAttribute('aria-label')").split(",")[0], worst["name"])
        link = page.value("document.querySelector('#detail .links button').textContent")
        page.click("#detail .links button")
        self.assertEqual(page.value("document.querySelector('#detail h2').textContent"), link)

    def test_tabs_have_the_plots_and_the_front(self):
        page = self.open(self.page_of(page_data.large(200, channels=4))[0])
        self.assertEqual(page.value("[...document.querySelectorAll('[role=tab]')].map(tab => tab.textContent)"),
                         ["Ops", "Errors", "Weights", "Latency", "Pareto front", "Notes (1)"])
        page.value("document.getElementById('tab-ops').focus()")
        for name, marks in (("errors", 400), ("weights", 30), ("latency", 40), ("pareto", 10)):
            page.key("ArrowRight")
            self.assertEqual(page.value("document.activeElement.id"), f"tab-{name}")
            self.assertGreaterEqual(page.value(f"document.querySelectorAll('#panel-{name} figure svg :is(circle, rect, path)').length"), marks)
            self.assertEqual(page.value("document.querySelectorAll('.panel:not([hidden])').length"), 1)
        rows = page.value("[...document.querySelectorAll('#panel-pareto tbody tr')].map(row => row.cells[1].textContent)")
        self.assertEqual(rows, ["front"] * 3 + ["chosen"] + ["front"] * 5 + [""])

    def test_dark_light_and_paper(self):
        page = self.open(self.page_of(page_data.large(60, channels=4))[0])
        color = "getComputedStyle(document.body).{}.match(/[0-9]+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0)"
        self.assertGreater(page.value(color.format("backgroundColor")), 700)
        page.emulate(dark=True)
        self.assertLess(page.value(color.format("backgroundColor")), 100)
        self.assertGreater(page.value(color.format("color")), 500)
        page.emulate(dark=True, media="print")
        self.assertGreater(page.value(color.format("backgroundColor")), 700, "paper is white")
        self.assertEqual(page.value("getComputedStyle(document.querySelector('.filter')).display + getComputedStyle(document.getElementById('fit')).display"), "nonenone")
        page.emulate()
        page.pdf(self.path("page.pdf"))
        self.assertEqual(page.value("document.querySelectorAll('#ops tbody tr').length"), 62, "all rows were printed")
        self.assertTrue(page.value("document.querySelectorAll('#panel-errors figure').length"), "and the plots of the other tabs")
        self.assertFalse(page.value("document.getElementById('canvas').hasAttribute('viewBox')"), "on the screen all is as before")

    def test_colors_can_be_read(self):
        page = self.open(self.page_of(page_data.large(60, channels=4))[0])
        for dark in (False, True):
            page.emulate(dark=dark)
            ratios = page.value("""(() => {
                const light = text => { const parts = text.match(/[0-9.]+/g).slice(0, 3).map(x => x / 255).map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
                  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]; };
                const probe = document.body.appendChild(document.createElement("span"));
                const ratio = (ink, back) => { probe.style.color = `var(${ink})`; probe.style.backgroundColor = `var(${back})`;
                  const style = getComputedStyle(probe), a = light(style.color), b = light(style.backgroundColor);
                  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); };
                const pairs = [["--text", "--back"], ["--soft", "--back"], ["--soft", "--raised"], ["--mark-text", "--mark"], ["--none-text", "--none"], ["--good-text", "--good"],
                  ...[0, 1, 2, 3, 4, 5].map(i => [`--t${i}`, `--e${i}`])];
                const result = pairs.map(([ink, back]) => [ink + " on " + back, ratio(ink, back)]);
                probe.remove();
                return result; })()""")
            for pair, ratio in ratios:
                self.assertGreaterEqual(ratio, 4.5, f"{pair}, dark: {dark}")

    def test_a_phone_scrolls_down_only(self):
        page = self.open(self.page_of(page_data.large(60, channels=4))[0], width=390, height=844, mobile=True)
        self.assertLessEqual(page.value("document.documentElement.scrollWidth"), 390)


class HostileNames(PageTest):
    def check(self, page):
        self.assertIsNone(page.value("window.taken ?? null"))
        self.assertEqual(page.value("document.querySelectorAll('img, iframe, object, embed, link, a[href], svg[onload], [onerror]').length"), 0)
        self.assertEqual(page.value("document.querySelectorAll('script').length"), 6)

    def test_names_are_text_wherever_they_stand(self):
        data = page_data.hostile()
        path, nodes = self.page_of(data)
        with open(path, encoding="utf-8") as file:
            parsed = Targets(file.read())
        self.assertEqual(parsed.targets, [], "the page needs no other file")
        self.assertEqual(parsed.scripts, 6)
        self.assertEqual(parsed.texts["title"], page_data.HOSTILE[0])
        self.assertNotIn("<", parsed.texts["data"])
        self.assertIsInstance(nodes["graph"]["results"], dict)
        page = self.open(path)
        self.assertEqual(len(self.column(page, "name")), len(data["nodes"]))
        for i in range(len(data["nodes"])):
            page.value(f"select({i}, 'key')")
            page.wait_for("document.querySelector('#detail h2')")
        self.after_layout(page, lambda: page.click("#unfold-all"))
        for name in page.value("[...document.querySelectorAll('[role=tab]')].map(tab => tab.id)"):
            page.click(f"#{name}")
        for text in page_data.HOSTILE:
            page.key("Escape", "/")
            page.type(text[:200])
        page.value("document.getElementById('metric').options.length")
        for i in range(page.value("document.getElementById('metric').options.length")):
            self.after_layout(page, lambda: page.value(
                f"(() => {{ const box = document.getElementById('metric'); box.value = {i}; box.dispatchEvent(new Event('change')); }})()"))
        self.check(page)
        seen = page.value("document.body.innerText")
        self.assertNotIn("\u202e", seen, "nothing reverses the text after it")
        self.assertIn("\\u202egnp.exe", page.value("nodes[5].name"))
        page.pdf(self.path("page.pdf"))
        self.check(page)
        formulas = [row for row in csv.reader(io.StringIO(page.value("Object.assign(table, {shown: nodes.map(node => node.index)}) && csvText()"))) if row[1].startswith("=")]
        self.assertEqual(formulas, [], "no cell is a formula to a spreadsheet")

    def test_modules_of_a_real_model_have_any_names(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.names = ["</script><img src=x onerror=alert(1)>", "\"'><b>", "__proto__"]
                for name in self.names:
                    self.add_module(name, nn.Linear(8, 8))

            def forward(self, x):
                for name in self.names:
                    x = self._modules[name](x)
                return x

        self.export(Net(), torch.randn(2, 8))
        self.save("calibration.pt", [(torch.randn(2, 8),)])
        os.rename(self.path("model.pt2"), self.path("<b>&'\"c.pt2"))
        self.octet("quantize", self.path("<b>&'\"c.pt2"), "--quantizer", "xnnpack", "--calibration", self.path("calibration.pt"), "--output", self.path("q.pt2"),
                   "--report", self.path("r.html"))
        page = self.open(self.path("r.html"))
        self.check(page)
        self.assertEqual(page.value("document.title"), "<b>&'\"c.pt2")
        self.assertIn("</script><img src=x onerror=alert(1)>", self.column(page, "module"))

    def test_a_page_without_ops_says_so(self):
        page = self.open(self.page_of({"kind": "quantize", "title": "", "nodes": []})[0])
        self.assertIn("No ops", page.value("document.getElementById('detail').textContent"))
        self.assertEqual(page.value("document.querySelectorAll('[role=tab]').length"), 1)


class Files(unittest.TestCase):
    def test_libraries_are_the_ones_that_were_looked_at(self):
        sums = dict(reversed(line.split()) for line in (PAGE_FOLDER / "vendor" / "SHA256SUMS").read_text().splitlines())
        self.assertEqual(set(sums), {path.name for path in (PAGE_FOLDER / "vendor").glob("*.js")})
        for name, value in sums.items():
            self.assertEqual(hashlib.sha256((PAGE_FOLDER / "vendor" / name).read_bytes()).hexdigest(), value, name)
            self.assertTrue((PAGE_FOLDER / "vendor" / name.replace(".min.js", ".LICENSE")).read_text().strip())

    def test_scripts_make_no_markup_of_text(self):
        for path in (PAGE_FOLDER / "scripts").glob("*.js"):
            for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", ".html(", "srcdoc"):
                self.assertNotIn(word, path.read_text(), path.name)

    def test_examples_fit_the_schema(self):
        VALIDATE(page_data.large(30, channels=4))
        for wrong in ({"kind": "other", "title": "", "nodes": []}, {"kind": "tune", "title": "", "nodes": [{"name": "x"}]},
                      {"kind": "tune", "title": "", "nodes": [], "pareto": [{"latency_ms": "fast"}]}):
            with self.assertRaises(fastjsonschema.JsonSchemaException):
                VALIDATE(wrong)


if __name__ == "__main__":
    unittest.main()
