"""The subcommands on a small model, from export to the two backends."""
import html.parser
import json
import os
import unittest

import torch

from support import CommandTest, last_scale, sqnr


class Page(html.parser.HTMLParser):
    """What a page is made of."""

    VOID = {"meta", "br", "input"}

    def __init__(self, source):
        super().__init__()
        self.open_tags, self.tags, self.ids, self.targets, self.text = [], set(), set(), [], []
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag not in self.VOID:
            self.open_tags.append(tag)
        attributes = dict(attrs)
        self.ids.add(attributes.get("id"))
        self.targets += [attributes[name] for name in ("href", "src") if name in attributes]

    def handle_endtag(self, tag):
        assert self.open_tags.pop() == tag, tag

    def handle_data(self, data):
        self.text.append(data)


def by_hand(real, facts):
    """What a caller does to a float tensor, by the parameters that the command printed."""
    return torch.ops.quantized_decomposed.quantize_per_tensor(real, facts["scale"], facts["zero_point"], facts["quant_min"], facts["quant_max"],
                                                              getattr(torch, facts["dtype"]))


class Command(CommandTest):
    def test_quantized_program_loads_in_pytorch_and_gives_the_same_output(self):
        net, x = self.quantized_model()
        import torch.ao.quantization.fx._decomposed  # noqa: F401 registers the q/dq ops
        program = torch.export.load(self.path("q.pt2"))
        with torch.no_grad():
            expected = program.module()(x)
            self.assertGreater(sqnr(net(x), expected), 20)
        torch.testing.assert_close(self.run_file("q.pt2")[0], expected, rtol=0, atol=1e-5)
        names = list(program.state_dict) + list(program.constants)
        self.assertNotIn("project.weight", names, "the float weight must be gone")

    def test_both_backends_stay_within_two_steps_of_the_interpreted_program(self):
        self.quantized_model()
        expected = self.run_file("q.pt2")[0]
        step = last_scale(self.inspect("q.pt2")["nodes"])
        for backend in ("onednn", "xnnpack", "reference"):
            with self.subTest(backend=backend):
                self.octet("lower", self.path("q.pt2"), "--backend", backend, "--output", self.path("m.octet"))
                result = self.run_file("m.octet")[0]
                self.assertLessEqual((result - expected).abs().max().item(), 2.001 * step)

    def test_integer_inputs_and_outputs_equal_quantizing_by_hand(self):
        import torch.ao.quantization.fx._decomposed  # noqa: F401 registers the q/dq ops
        _, x = self.quantized_model()
        printed = self.quantize_border()[0]
        io = json.loads(printed)
        (source,), (result,) = io["inputs"], io["outputs"]
        self.assertEqual((source["index"], source["name"], source["dtype"], result["index"], result["dtype"]), (0, "x", "int8", 0, "int8"))
        self.assertEqual(self.inspect("qi.pt2")["quantized_io"], io)
        self.save("xi.pt", (by_hand(x, source),))
        want = by_hand(self.run_file("q.pt2")[0], result)
        self.assertTrue(torch.equal(self.run_file("qi.pt2", "xi.pt")[0], want))
        extra = {"quantized_io.json": ""}
        program = torch.export.load(self.path("qi.pt2"), extra_files=extra)
        self.assertEqual(extra["quantized_io.json"], printed)
        self.assertTrue(torch.equal(program.module()(by_hand(x, source)), want))
        for backend in ("onednn", "xnnpack", "reference"):
            with self.subTest(backend=backend):
                for name in ("q", "qi"):
                    self.octet("lower", self.path(name + ".pt2"), "--backend", backend, "--output", self.path(name + ".octet"))
                self.assertTrue(torch.equal(self.run_file("qi.octet", "xi.pt")[0], by_hand(self.run_file("q.octet")[0], result)))
                program = self.inspect("qi.octet")
                self.assertFalse([op["kind"] for op in program["ops"] if "quantize" in op["kind"]])
                self.assertEqual((program["inputs"][0]["dtype"], program["outputs"][0]["dtype"]), ("int8", "int8"))
                self.assertEqual(program["inputs"][0]["zero_point"], source["zero_point"])

    def test_integer_borders_can_be_chosen_by_index(self):
        self.quantized_model()
        io = json.loads(self.quantize_border("--quantized-outputs", "0")[0])
        self.assertEqual((io["inputs"], [t["index"] for t in io["outputs"]]), ([], [0]))
        graph = self.inspect("qi.pt2")
        self.assertEqual((graph["inputs"][0]["dtype"], graph["outputs"][0]["dtype"]), ("float32", "int8"))

    def quantize_border(self, *options):
        return self.octet("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--calibration", self.path("calibration.pt"),
                          "--output", self.path("qi.pt2"), *(options or ("--quantized-io",)))

    def test_no_quantize_op_is_left_between_the_ops_of_a_backend(self):
        self.quantized_model()
        for backend in ("onednn", "xnnpack"):
            self.octet("lower", self.path("q.pt2"), "--backend", backend, "--output", self.path("m.octet"))
            ops = self.inspect("m.octet")["ops"]
            self.assertEqual({op["backend"] for op in ops if op["macs"] > 0}, {backend})
            self.assertEqual([op["kind"] for op in ops].count("quantize"), 1, "only the input is quantized")
            self.assertEqual([op["kind"] for op in ops].count("dequantize"), 1, "only the output is dequantized")

    def test_bench_prints_the_agreed_keys(self):
        self.quantized_model()
        result = json.loads(self.octet("bench", self.path("q.pt2"), "--json")[0])
        self.assertEqual(set(result), {"median_ms", "p90_ms", "runs", "threads", "threads_used", "load_ms", "peak_rss_mb"})
        self.assertGreater(result["runs"], 0)

    def test_bench_explains_each_kernel(self):
        self.quantized_model()
        self.octet("lower", self.path("q.pt2"), "--backend", "onednn", "--output", self.path("m.octet"))
        lines = self.octet("bench", self.path("m.octet"), "--explain")[0].splitlines()
        self.assertEqual(lines[0].split(), ["share", "us", "what", "kernel", "layout", "note", "ops"])
        self.assertTrue(any("u8 nhwc" in line for line in lines))
        self.assertAlmostEqual(sum(float(line.split("%")[0]) for line in lines[1:]), 100, delta=0.06 * len(lines))
        calls = json.loads(self.octet("bench", self.path("m.octet"), "--explain", "--json")[0])["kernels"]
        self.assertEqual(set(calls[0]), {"share", "us", "what", "kernel", "layout", "post_ops", "ops", "note"})
        self.assertEqual({call["note"] for call in calls}, {""})

    def test_bench_measures_throughput(self):
        self.quantized_model()
        self.octet("lower", self.path("q.pt2"), "--backend", "onednn", "--output", self.path("m.octet"))
        result = json.loads(self.octet("bench", self.path("m.octet"), "--streams", "2", "--seconds", "0.2", "--json")[0])
        self.assertEqual(set(result), {"runs_per_second", "streams", "threads", "threads_used", "peak_rss_mb"})
        self.assertGreater(result["runs_per_second"], 0)

    def test_inspect_prints_the_tabular_form_and_json(self):
        self.quantized_model()
        table = self.octet("inspect", self.path("q.pt2"))[0].splitlines()
        self.assertEqual(table[0].split(), ["opcode", "name", "target", "args", "kwargs", "type"])
        self.assertTrue(table[-1].startswith("output"))
        graph = self.inspect("q.pt2")
        self.assertEqual(set(graph), {"nodes", "inputs", "outputs", "quantized_ops", "float_ops"})
        self.assertEqual(set(graph["nodes"][0]), {"name", "target", "args", "dtype", "shape", "module"})
        self.assertEqual(graph["float_ops"], 0)
        self.assertEqual(graph["inputs"], [{"name": "x", "dtype": "float32", "shape": [1, 3, 32, 32]}])

    def test_fuse_folds_batch_norms_and_nothing_else(self):
        net, x = self.small_model()
        self.octet("fuse", self.path("model.pt2"), "--output", self.path("fused.pt2"))
        targets = [node["target"] for node in self.inspect("fused.pt2")["nodes"]]
        self.assertFalse([t for t in targets if "batch_norm" in t or "quantize" in t])
        torch.testing.assert_close(torch.export.load(self.path("fused.pt2")).module()(x), net(x), rtol=1e-4, atol=1e-5)

    def test_calibration_can_be_a_step_of_its_own(self):
        self.small_model()
        base = [self.path("model.pt2"), "--quantizer", "xnnpack"]
        self.octet("calibrate", *base, "--calibration", self.path("calibration.pt"), "--state", self.path("s.json"))
        self.octet("quantize", *base, "--state", self.path("s.json"), "--output", self.path("from_state.pt2"))
        self.octet("quantize", *base, "--calibration", self.path("calibration.pt"), "--output", self.path("direct.pt2"))
        self.assertTrue(torch.equal(self.run_file("from_state.pt2")[0], self.run_file("direct.pt2")[0]))

    def test_a_list_of_quantizers_takes_the_table_and_the_linear_op(self):
        import torch.ao.quantization.fx._decomposed  # noqa: F401 registers the q/dq ops

        class Tagger(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.table, self.head = torch.nn.Embedding(50, 16), torch.nn.Linear(16, 4)

            def forward(self, ids):
                return self.head(self.table(ids))
        torch.manual_seed(0)
        net, ids = Tagger().requires_grad_(False).eval(), torch.randint(0, 50, (1, 12))
        self.export(net, ids)
        self.save("calibration.pt", [(torch.randint(0, 50, (1, 12)),) for _ in range(4)])
        self.save("x.pt", (ids,))
        self.octet("quantize", self.path("model.pt2"), "--quantizer", "embedding,xnnpack", "--calibration", self.path("calibration.pt"),
                   "--output", self.path("q.pt2"), "--strict")
        program = torch.export.load(self.path("q.pt2"))
        self.assertFalse({"table.weight", "head.weight"} & (set(program.state_dict) | set(program.constants)), "the float weights must be gone")
        with torch.no_grad():
            self.assertGreater(sqnr(net(ids), self.run_file("q.pt2")[0]), 25)
        self.octet("quantize", self.path("model.pt2"), "--quantizer", "embedding", "--output", self.path("table.pt2"))
        with torch.no_grad():
            self.assertGreater(sqnr(net(ids), self.run_file("table.pt2")[0]), 35)

    def test_a_backend_declared_in_json_quantizes_as_its_table_says(self):
        net, x = self.small_model()
        act = {"dtype": "int8", "qscheme": "per_tensor_affine", "quant_min": -128, "quant_max": 127, "observer": {"name": "histogram", "eps": 2**-12}}
        weight = {"dtype": "int8", "qscheme": "per_channel_symmetric", "ch_axis": 0, "quant_min": -127, "quant_max": 127, "observer": "per_channel_min_max"}
        bias = {"derived_from": ["x", "w"], "derive": "product_of_scales", "dtype": "int32", "qscheme": "per_channel_symmetric", "ch_axis": 0}
        inputs = {"x": "act", "w": "weight", "b": "bias"}
        backend = {
            "name": "npu", "specs": {"act": act, "weight": weight, "bias": bias},
            "patterns": [
                {"name": "conv_clamp", "pattern": "{relu|relu6|hardtanh}(conv2d(x, w, b?))", "inputs": inputs, "output": "act"},
                {"name": "conv", "pattern": "conv2d(x, w, b?)", "inputs": inputs, "output": "act"},
                {"name": "linear", "pattern": "linear(x, w, b?)", "inputs": inputs, "output": "act"},
                {"name": "add", "pattern": "add(a, b)", "inputs": {"a": "act", "b": "act"}, "output": "act"},
                {"name": "pool", "pattern": "adaptive_avg_pool2d(x)", "inputs": {"x": "act"}, "output": {"same_as": {"edge": "x"}}},
            ],
            "module_name": {"project": None},
        }
        json.dump(backend, open(self.path("npu.json"), "w"))
        self.octet("quantize", self.path("model.pt2"), "--quantizer", self.path("npu.json"), "--calibration", self.path("calibration.pt"),
                   "--output", self.path("q.pt2"), "--report", self.path("r.json"))
        with torch.no_grad():
            self.assertGreater(sqnr(net(x), self.run_file("q.pt2")[0]), 20)
        reasons = [entry["reason"] for entry in json.load(open(self.path("r.json")))["float_ops"]]
        self.assertTrue(any("project" in reason for reason in reasons), reasons)
        graph = self.inspect("q.pt2")
        self.assertTrue(any(node["args"].get("dtype") == "torch.int32" for node in graph["nodes"] if "dequantize_per_channel" in node["target"]))

    def test_regexes_and_calls_leave_ops_float(self):
        self.small_model()
        with open(self.path("rows.json"), "w") as file:
            json.dump({"module_name_regex": {"depth.*": None}, "call_index": {"head": {"linear": {"0": None}}}}, file)
        for quantizer in ("xnnpack", "x86"):
            self.octet("quantize", self.path("model.pt2"), "--quantizer", quantizer, "--config", self.path("rows.json"),
                       "--calibration", self.path("calibration.pt"), "--output", self.path("q.pt2"), "--report", self.path("r.json"))
            reasons = [entry["reason"] for entry in json.load(open(self.path("r.json")))["float_ops"]]
            self.assertIn('excluded by module_name_regex "depth.*"', reasons)
            self.assertIn('excluded by call_index 0 of linear in module "head"', reasons)

    def test_report_lists_what_stayed_float_with_a_reason(self):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Sigmoid(), torch.nn.Linear(8, 4))
        self.export(net, torch.randn(2, 8))
        self.save("calibration.pt", [(torch.randn(2, 8),)])
        json.dump({"base": "xnnpack", "global": {"is_per_channel": True}, "module_name": {"2": None}}, open(self.path("quantizer.json"), "w"))
        self.octet("quantize", self.path("model.pt2"), "--quantizer", self.path("quantizer.json"), "--calibration", self.path("calibration.pt"),
                   "--output", self.path("q.pt2"), "--report", self.path("r.json"))
        report = json.load(open(self.path("r.json")))
        reasons = {entry["node"]: entry["reason"] for entry in report["float_ops"]}
        self.assertIn("linear_1", reasons)
        self.assertTrue(all(reasons.values()))

    def test_annotations_are_dumped_with_the_scales_of_the_quantized_program(self):
        self.small_model()
        for quantizer in ("xnnpack", "x86"):
            with self.subTest(quantizer=quantizer):
                self.octet("quantize", self.path("model.pt2"), "--quantizer", quantizer, "--calibration", self.path("calibration.pt"),
                           "--output", self.path("q.pt2"), "--dump-annotations", self.path("a.json"))
                dump = json.load(open(self.path("a.json")))
                self.assertEqual(set(dump), {"format", "nodes", "groups"})
                self.assertEqual(len([node for node in dump["nodes"] if node["target"] == "aten.conv2d.default"]), 3)
                scales = {group["qparams"]["scale"][0] for group in dump["groups"] if group["qparams"]["axis"] is None}
                used = {n["args"]["scale"] for n in self.inspect("q.pt2")["nodes"] if "quantize_per_tensor" in n["target"]}
                self.assertTrue(used <= scales, used - scales)
                members = [member for group in dump["groups"] for member in group["members"]]
                self.assertEqual(len(members), len(set(members)), "a tensor belongs to one group")
                self.assertTrue(any(len(group["qparams"]["scale"]) == 16 for group in dump["groups"]), "a scale per channel of the weights")

    def test_a_dump_of_programs_without_data_has_no_scales_of_activations(self):
        self.export(torch.nn.Linear(64, 64), torch.randn(2, 64))
        self.octet("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--mode", "dynamic", "--output", self.path("q.pt2"),
                   "--dump-annotations", self.path("a.json"), "--report", self.path("r.html"))
        groups = {tuple(group["members"]): group for group in json.load(open(self.path("a.json")))["groups"]}
        activation = next(group for members, group in groups.items() if "weight" not in members[0])
        self.assertTrue(activation["spec"]["is_dynamic"])
        self.assertIsNone(activation["qparams"])
        self.assertIn("computed at run time", open(self.path("r.html")).read())

    def test_report_lists_quantized_ops_with_their_groups(self):
        self.small_model()
        json.dump({"base": "xnnpack", "global": {"is_per_channel": True}, "module_name": {"head": None}}, open(self.path("quantizer.json"), "w"))
        self.octet("quantize", self.path("model.pt2"), "--quantizer", self.path("quantizer.json"), "--calibration", self.path("calibration.pt"),
                   "--output", self.path("q.pt2"), "--report", self.path("r.json"))
        report = json.load(open(self.path("r.json")))
        self.assertEqual(list(report), ["model", "quantizer", "summary", "quality", "quantized_ops", "float_ops", "notes", "details", "groups", "nodes"])
        self.assertEqual(report["summary"], {key: len(report[key]) for key in ("quantized_ops", "float_ops", "groups", "notes")})
        quantized = {op["node"] for op in report["quantized_ops"]}
        left = {op["node"] for op in report["float_ops"]}
        self.assertEqual(left, {"linear"})
        self.assertFalse(quantized & left)
        self.assertEqual(len([op for op in report["quantized_ops"] if op["target"] == "aten.conv2d.default"]), 3)
        numbers = {group["group"] for group in report["groups"]}
        used = {tensor["group"] for op in report["quantized_ops"] for tensor in [*op["inputs"], op["output"]] if tensor}
        self.assertEqual(used, numbers)

    def test_report_for_people_is_one_page_with_names_escaped(self):
        self.small_model()
        model, data = self.path("a<b>&'\"c.pt2"), self.path("calibration.pt")
        os.rename(self.path("model.pt2"), model)
        json.dump({"base": "xnnpack", "global": {"is_per_channel": True}, "module_name": {"head": None}}, open(self.path("quantizer.json"), "w"))
        base = ["quantize", model, "--quantizer", self.path("quantizer.json"), "--calibration", data, "--output", self.path("q.pt2")]
        self.octet(*base, "--report", self.path("r.html"))
        self.octet(*base, "--report", self.path("r.json"))
        report = json.load(open(self.path("r.json")))
        page = Page(open(self.path("r.html"), encoding="utf-8").read())
        self.assertEqual(page.open_tags, [], "each tag is closed")
        self.assertEqual(page.targets, [], "no other file is needed")
        self.assertNotIn("b", page.tags, "the name of the file is text")
        data = json.loads(next(text for text in page.text if text.startswith('{"kind":"quantize"')))
        self.assertEqual(data["title"], os.path.basename(model))
        self.assertIn(["ops", f"{report['summary']['quantized_ops']} quantized, 1 float; {report['summary']['groups']} groups of tensors with one scale"], data["summary"])
        self.assertIn("over the 4 calibration batches, which were also used to calibrate", data["summary"][0][1])
        nodes = {node["name"]: node for node in data["nodes"]}
        self.assertEqual(nodes["linear"]["reason"], report["float_ops"][0]["reason"])
        self.assertEqual((nodes["conv2d"]["target"], len(nodes["conv2d"]["weight"]["scale"])), ("aten.conv2d.default", 16))

    def test_strict_fails_when_a_compute_op_stays_float(self):
        class Mixed(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = torch.nn.Linear(8, 8), torch.nn.Bilinear(8, 8, 4)

            def forward(self, x):
                return self.b(self.a(x), x)
        self.export(Mixed(), torch.randn(2, 8))
        self.save("calibration.pt", [(torch.randn(2, 8),)])
        line = self.fails("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--calibration", self.path("calibration.pt"),
                          "--output", self.path("q.pt2"), "--strict")
        self.assertIn("stayed float", line)
        self.assertFalse(os.path.exists(self.path("q.pt2")))

    def test_strict_asks_of_a_mode_no_more_than_it_promises(self):
        net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Hardtanh(), torch.nn.Linear(64, 48)).eval()
        self.export(net, torch.randn(5, 64))
        for quantizer in ("xnnpack", "x86"):
            for mode in ("dynamic", "weight-only"):
                command = ["quantize", self.path("model.pt2"), "--quantizer", quantizer, "--mode", mode, "--output", self.path("q.pt2"), "--strict"]
                with self.subTest(quantizer=quantizer, mode=mode):
                    _, log = self.octet(*command, "--report", self.path("r.json"))
                    self.assertIn("float: 1 ops without weights, which the mode leaves float", log)
                    with open(self.path("r.json")) as file:
                        self.assertEqual([(op["target"], op["stage"]) for op in json.load(file)["float_ops"]], [("aten.hardtanh.default", "mode")])
                    line = self.fails(*command, "--weight-bits", "4", "--group-size", "48")
                    self.assertIn("group size 48 does not divide the rows of", line)

    def test_a_reduced_range_has_activations_of_seven_bits(self):
        net, x = self.small_model()
        model, data = self.path("model.pt2"), self.path("calibration.pt")
        self.save("train.pt", [(torch.randn(2, 3, 32, 32),)])
        for quantizer, whole, half in (("xnnpack", (-128, 127), (-64, 63)), ("x86", (0, 255), (0, 127))):
            start = [model, "--quantizer", quantizer, "--reduce-range"]
            self.octet("quantize", *start, "--calibration", data, "--output", self.path("q.pt2"))
            self.assertEqual(self.activation_ranges("q.pt2"), {half})
            with torch.no_grad():
                self.assertGreater(sqnr(net(x), self.run_file("q.pt2")[0]), 20)
            self.octet("calibrate", *start, "--calibration", data, "--state", self.path("s.json"))
            self.octet("quantize", *start, "--state", self.path("s.json"), "--output", self.path("s.pt2"))
            self.assertEqual(self.inspect("s.pt2"), self.inspect("q.pt2"))
            self.octet("quantize", *start[:-1], "--calibration", data, "--output", self.path("whole.pt2"))
            self.assertEqual(self.activation_ranges("whole.pt2"), {whole})
        with torch.enable_grad():
            torch.export.save(torch.export.export(net.train().requires_grad_(True), (torch.randn(2, 3, 32, 32),)), self.path("train_model.pt2"))
        self.octet("qat", self.path("train_model.pt2"), "--quantizer", "xnnpack", "--reduce-range", "--train", self.path("train.pt"), "--loss", "distill", "--epochs", "1",
                   "--output", self.path("trained.pt2"))
        self.assertEqual(self.activation_ranges("trained.pt2"), {(-64, 63)})

    def activation_ranges(self, name):
        """The ends of the range of every quantize op per tensor: those of activations."""
        nodes = [n for n in self.inspect(name)["nodes"] if "quantize_per_tensor" in n["target"]]
        return {(n["args"]["quant_min"], n["args"]["quant_max"]) for n in nodes}

    def test_activations_of_sixteen_bits_run_as_int16(self):
        for quantizer, backend in (("x86", "onednn"), ("xnnpack", "xnnpack")):
            with self.subTest(quantizer=quantizer):
                torch.manual_seed(0)
                net = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.Conv2d(16, 16, 3, groups=16), torch.nn.AvgPool2d(2),
                                          torch.nn.Flatten(), torch.nn.Linear(16 * 4 * 4, 10)).eval()
                x = torch.randn(1, 3, 12, 12)
                self.export(net, x)
                self.save("x.pt", (x,))
                for bits, options in (("8", ()), ("16", ("--activation-bits", "16")), ("both", ("--activation-bits", "16", "--weight-bits", "16"))):
                    self.octet("quantize", self.path("model.pt2"), "--quantizer", quantizer, *options, "--calibration", self.path("x.pt"),
                               "--output", self.path(f"q{bits}.pt2"))
                    self.octet("lower", self.path(f"q{bits}.pt2"), "--backend", backend, "--output", self.path(f"m{bits}.octet"))
                with torch.no_grad():
                    expected = net(x)
                both, wide, narrow = (sqnr(expected, self.run_file(f"m{bits}.octet")[0]) for bits in ("both", "16", "8"))
                self.assertGreater(wide, narrow + 3)
                self.assertGreater(both, wide + 20)
                self.assertGreater(sqnr(self.run_file("q16.pt2")[0], self.run_file("m16.octet")[0]), 80)
                for bits, weight in (("16", "int8"), ("both", "int16")):
                    products = [op for op in self.inspect(f"m{bits}.octet")["ops"] if op["macs"] > 0]
                    self.assertEqual({op["backend"] for op in products}, {backend})
                    self.assertEqual({tuple(value["dtype"] for value in op["inputs"][:2]) for op in products}, {("int16", weight)})

    def test_a_reason_is_given_when_nothing_is_quantized(self):
        self.export(torch.nn.Linear(8, 8).double(), torch.randn(2, 8).double())
        line = self.fails("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--mode", "dynamic", "--output", self.path("q.pt2"))
        self.assertIn('quantizer "xnnpack" finds nothing to quantize in 1 ops (%linear, aten.linear.default: ', line)
        self.assertIn("float64", line)

    def test_compat_names_the_version_of_torchao(self):
        self.small_model()
        files = []
        for compat in ("torchao", "torchao@0.18"):
            self.octet("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--calibration", self.path("calibration.pt"), "--compat", compat, "--output", self.path("q.pt2"))
            with open(self.path("q.pt2"), "rb") as file:
                files.append(file.read())
        self.assertEqual(*files)
        _, errors = self.octet("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--compat", "torchao@0.17", "--output", self.path("q.pt2"), code=2)
        self.assertIn("torchao@0.17", errors)

    def test_compat_gives_the_float_program_when_nothing_is_quantized(self):
        net, x = torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Softmax(-1)).eval(), torch.randn(2, 8)
        self.export(net, x)
        self.save("data.pt", [(x,)])
        self.save("x.pt", (x,))
        with open(self.path("empty.json"), "w") as file:
            file.write('{"base": "xnnpack"}')
        for quantizer in ("x86", self.path("empty.json")):
            for data in (["--calibration", self.path("data.pt")], []):
                with self.subTest(quantizer=quantizer, data=data):
                    _, errors = self.octet("quantize", self.path("model.pt2"), "--quantizer", quantizer, *data, "--compat", "torchao", "--output", self.path("q.pt2"))
                    self.assertIn("finds nothing to quantize in 2 ops", errors)
                    self.assertIn("; the program stays float", errors)
                    self.assertTrue(torch.equal(self.run_file("q.pt2")[0], net(x)))

    def test_dynamic_and_weight_only_modes_need_no_data(self):
        net = torch.nn.Sequential(torch.nn.Linear(64, 48), torch.nn.ReLU(), torch.nn.Linear(48, 64)).eval()
        x = torch.randn(5, 64)
        self.export(net, x)
        self.save("x.pt", (x,))
        for quantizer in ("xnnpack", "x86"):
            for mode, least in ((["dynamic"], 30), (["weight-only"], 30), (["weight-only", "--weight-bits", "4", "--group-size", "16"], 15),
                                (["dynamic", "--weight-bits", "4", "--group-size", "0"], 12)):
                with self.subTest(quantizer=quantizer, mode=mode):
                    self.octet("quantize", self.path("model.pt2"), "--quantizer", quantizer, "--mode", *mode, "--output", self.path("q.pt2"))
                    with torch.no_grad():
                        self.assertGreater(sqnr(net(x), self.run_file("q.pt2")[0]), least)
                    import torchao  # noqa: F401 registers the affine ops
                    self.assertFalse([name for name in torch.export.load(self.path("q.pt2")).state_dict if name.endswith("weight")])

    def test_a_scale_per_token_keeps_rows_of_different_size_apart(self):
        net = torch.nn.Linear(64, 64).eval()
        x = torch.randn(8, 64) * torch.logspace(-3, 0, 8)[:, None]
        self.export(net, x)
        self.save("x.pt", (x,))
        with torch.no_grad():
            expected = net(x) - net.bias
        result = {}
        for name, options in (("token", []), ("tensor", ["--compat", "torchao"])):
            self.octet("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--mode", "dynamic", *options, "--output", self.path("q.pt2"))
            result[name] = sqnr(expected[0], self.run_file("q.pt2")[0][0] - net.bias.detach())
        self.assertGreater(result["token"], 25)
        self.assertLess(result["tensor"], 10)

    def test_json_says_what_the_options_of_weights_say(self):
        net = torch.nn.Linear(64, 64).eval()
        self.export(net, torch.randn(2, 64))
        self.octet("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--mode", "weight-only", "--weight-bits", "4", "--output", self.path("a.pt2"))
        with open(self.path("q.json"), "w") as file:
            json.dump({"base": "xnnpack", "global": {"is_weight_only": True, "weight_bits": 4, "group_size": 32}}, file)
        self.octet("quantize", self.path("model.pt2"), "--quantizer", self.path("q.json"), "--output", self.path("b.pt2"))
        self.assertEqual(self.inspect("a.pt2"), self.inspect("b.pt2"))

    def test_usage_errors_exit_with_2(self):
        for arguments in ([], ["quantze"], ["quantize"], ["quantize", "a.pt2", "--quantizer", "xnnpack", "--output", "q.pt2", "--no-such-option"],
                          ["lower", "q.pt2", "--backend", "tpu", "--output", "m.octet"], ["run", "a.pt2", "--inputs", "x.pt"]):
            with self.subTest(arguments=arguments):
                self.octet(*arguments, code=2)

    def test_help_exits_with_0(self):
        self.assertIn("quantize", self.octet("--help")[0])


if __name__ == "__main__":
    unittest.main()
