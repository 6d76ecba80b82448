"""octet.quantize and octet.lower: the same bits as the command, from programs in memory."""

import json
import os
import pickle
import tempfile
import unittest
import unittest.mock

import octet
import torch
from package_test import PackageTest, SmallNet, sqnr
from test_program_ops import FILE_OP, write_program_with
from torch import nn


class Two(nn.Module):
    """Two inputs, one of them by name."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x, *, scale):
        return self.b(torch.relu(self.a(x)) * scale)


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 4)

    def forward(self, pair, mask=None):
        return {"scores": self.a(pair[0] + pair[1])}


def qdq_of(inspected):
    return [node for node in inspected["nodes"] if "quantize" in node["target"]]


class Quantize(PackageTest):
    def command(self, *options):
        self.octet(
            "quantize", self.path("model.pt2"), "--quantizer", "x86", "--calibration", self.path("calibration.pt"),
            "--output", self.path("command.pt2"), *options,
        )

    def check_same(self, q, x):
        """The command's file has the same nodes, numbers and weights, and gives the same bits."""
        q.save(self.path("package.pt2"))
        ours, theirs = self.inspect("package.pt2"), self.inspect("command.pt2")
        self.assertGreater(len(qdq_of(ours)), 0)
        self.assertEqual(ours, theirs)
        one, other = (torch.export.load(self.path(name)) for name in ["package.pt2", "command.pt2"])
        self.assertEqual(list(one.state_dict), list(other.state_dict))
        for name, tensor in one.state_dict.items():
            self.assertTrue(torch.equal(tensor, other.state_dict[name]), name)
        self.assertTrue(torch.equal(one.module()(x), other.module()(x)))
        for backend in ["onednn", "xnnpack"]:
            octet.lower(q, backend=backend).save(self.path("package.octet"))
            self.octet("lower", self.path("command.pt2"), "--backend", backend, "--output", self.path("command.octet"))
            self.assertEqual(self.bytes_of("package.octet"), self.bytes_of("command.octet"))

    def test_the_same_bits_as_the_command(self):
        program, batches, x = self.small_program()
        self.command()
        self.check_same(octet.quantize(program, "x86", calibration=batches), x)

    def test_the_same_bits_with_settings(self):
        program, batches, x = self.small_program()
        config = {"module_name": {"head": None}}
        self.write_json("config.json", config)
        self.command("--config", self.path("config.json"), "--hold-out", "1", "--reduce-range", "--fold-bn", "off")
        q = octet.quantize(
            program, "x86", calibration=batches, config=config, hold_out=1, reduce_range=True, fold_bn="off"
        )
        self.check_same(q, x)
        self.assertIn("head", [op["module"] for op in q.report.float_ops])

    def test_the_same_bits_with_accuracy_passes(self):
        program, batches, x = self.small_program()
        self.command("--effort", "high")
        self.check_same(octet.quantize(program, "x86", calibration=batches, effort="high"), x)

    def test_the_result_is_a_plain_exported_program(self):
        program, batches, x = self.small_program()
        q = octet.quantize(program, "xnnpack", calibration=batches)
        quantized = q.exported_program()
        self.assertIsInstance(quantized, torch.export.ExportedProgram)
        y = quantized.module()(x)
        self.assertGreater(sqnr(program.module()(x), y), 15)
        again = torch.export.export(quantized.module(), (x,))
        self.assertTrue(torch.equal(again.module()(x), y))
        # What Octet runs differs from PyTorch's own kernels by roundings alone.
        model = octet.lower(quantized, backend="xnnpack", threads=1)
        self.assertGreater(sqnr(y, model(x)), 25)

    def test_a_module_with_example_inputs(self):
        torch.manual_seed(1)
        net = SmallNet().eval()
        x = torch.randn(1, 3, 32, 32)
        q = octet.quantize(net, "x86", example_inputs=(x,), calibration=[x, (x,)])
        self.assertGreater(sqnr(net(x).detach(), q.module()(x)), 15)
        with self.assertRaisesRegex(octet.Error, "quantize: example_inputs: are missing"):
            octet.quantize(net, "x86", calibration=iter([x]))
        first = octet.quantize(net, "x86", calibration=[x, (x,)])  # the example is the first batch
        self.assertTrue(torch.equal(first.module()(x), q.module()(x)))

    def test_nothing_replaces_what_a_program_was_made_from(self):
        self.small_model()
        os.link(self.path("model.pt2"), self.path("hard.pt2"))
        os.symlink("model.pt2", self.path("link.pt2"))
        self.write_json("c.json", {})
        q = octet.quantize(self.path("model.pt2"), "x86", calibration=self.path("calibration.pt"), config=self.path("c.json"))
        prepared = octet.prepare(self.path("model.pt2"), "x86")
        octet.calibrate(prepared, self.path("calibration.pt"))
        before = {name: self.bytes_of(name) for name in os.listdir(self.folder)}
        saves = (q.save, octet.convert(prepared).save, octet.lower(q, "onednn").save, octet.lower(q, "onednn").duplicate().save,
                 octet.lower(self.path("model.pt2"), "onednn").save, lambda path: octet.export_onnx(self.path("model.pt2"), path))
        for save in saves:
            for name in ("model.pt2", "hard.pt2", "link.pt2"):
                with self.assertRaisesRegex(octet.Error, f"{name}: is an input file and would be overwritten; name another one"):
                    save(self.path(name))
        with self.assertRaisesRegex(octet.Error, "output: .*c.json: is an input file and would be overwritten"):
            q.report.save(self.path("c.json"))
        for name in ("calibration.pt", "c.json"):
            with self.assertRaisesRegex(octet.Error, "would be overwritten"):
                q.save(self.path(name))
        self.assertEqual({name: self.bytes_of(name) for name in os.listdir(self.folder)}, before)
        q.save(self.path("q.pt2"))
        q.save(self.path("q.pt2"))  # its own output
        octet.lower(q, "onednn").save(self.path("m.octet"))
        octet.load(self.path("m.octet")).save(self.path("m.octet"))

    def test_programs_call_ops_that_compute(self):
        model, victim = write_program_with(self, nn.Linear(4, 4))
        program = torch.export.load(model)
        self.assertIn(FILE_OP, [f"torch.ops.{node.target}" for node in program.graph.nodes])
        refused = r'run: %full \(aten.from_file.default\): programs may not call aten.from_file: .*allow it with octet.allow_op\("aten.from_file"\)'
        for given in (model, program):
            for call in (lambda: octet.quantize(given, "x86", calibration=[torch.randn(2, 4)]), lambda: octet.lower(given, "onednn"),
                         lambda: octet.compare(given, given, [torch.randn(2, 4)])):
                with self.assertRaisesRegex(octet.Error, refused):
                    call()
        self.assertEqual(self.bytes_of(victim), bytes(16))
        octet.allow_op("aten.from_file")
        octet.lower(model, "onednn", fallback="torch")(torch.randn(2, 4))
        self.assertEqual(self.bytes_of(victim), torch.full((4,), 7.0).numpy().tobytes())

    def test_a_path_and_a_file_of_data(self):
        self.small_model()
        self.command()
        q = octet.quantize(self.path("model.pt2"), "x86", calibration=self.path("calibration.pt"))
        q.save(self.path("package.pt2"))
        self.assertEqual(self.inspect("package.pt2"), self.inspect("command.pt2"))

    def test_batches_by_name_and_nested(self):
        torch.manual_seed(2)
        x, scale = torch.randn(2, 8), torch.rand(2, 8)
        program = torch.export.export(Two().eval(), (x,), {"scale": scale})
        named = octet.quantize(program, "x86", calibration=[{"x": x, "scale": scale}] * 2)
        self.assertGreater(sqnr(program.module()(x, scale=scale).detach(), named.module()(x, scale=scale)), 15)
        program = torch.export.export(Nested().eval(), ((x, scale),))
        nested = octet.quantize(program, "x86", calibration=[((x, scale),)])
        self.assertEqual(list(nested.module()((x, scale))), ["scores"])
        model = octet.lower(nested, backend="reference")
        self.assertEqual(len(model.inputs), 2)
        for scores in (model((x, scale))["scores"], model(x, scale)["scores"]):
            self.assertGreater(sqnr(nested.module()((x, scale))["scores"], scores), 25)

    def test_a_generator_is_read_once(self):
        program, batches, x = self.small_program()
        q = octet.quantize(program, "x86", calibration=(batch for batch in batches))
        same = octet.quantize(program, "x86", calibration=batches)
        self.assertTrue(torch.equal(q.module()(x), same.module()(x)))

    def test_modes_that_need_no_data(self):
        program, _, x = self.small_program()
        for mode in ["dynamic", "weight-only"]:
            with self.subTest(mode):
                q = octet.quantize(program, "x86", mode=mode)
                self.assertGreater(sqnr(program.module()(x), q.module()(x)), 15)

    def test_quantized_inputs_and_outputs(self):
        program, batches, x = self.small_program()
        q = octet.quantize(program, "xnnpack", calibration=batches, quantized_io=True)
        entry = q.quantized_io["inputs"][0]
        integers = torch.clamp(torch.round(x / entry["scale"]) + entry["zero_point"], -128, 127).to(torch.int8)
        model = octet.lower(q, backend="xnnpack")
        self.assertEqual(model.inputs[0].dtype, "int8")
        self.assertAlmostEqual(model.inputs[0].scale, entry["scale"], places=6)
        self.assertEqual(model.inputs[0].zero_point, entry["zero_point"])
        self.assertEqual(model(integers).dtype, torch.int8)

    def test_report(self):
        program, batches, _ = self.small_program()
        q = octet.quantize(program, "xnnpack", calibration=batches, config={"module_name": {"head": None}})
        self.assertEqual(q.report.float_ops[0]["module"], "head")
        self.assertGreater(q.report.quality["int8_share"], 0.5)
        self.assertIn("%linear", str(q.report))
        self.assertIn("1 float", repr(q))
        q.report.save(self.path("report.json"))
        with open(self.path("report.json")) as file:
            self.assertEqual(json.load(file), q.report.data)
        q.report.save(self.path("report.html"))
        self.assertIn(b"<html", self.bytes_of("report.html"))
        self.assertTrue(q.report._repr_html_().startswith("<iframe srcdoc="))
        self.assertLess(len(q._repr_html_()), 4000)
        with self.assertRaisesRegex(octet.Error, "output: .*report.txt: want a name that ends in .html or .json"):
            q.report.save(self.path("report.txt"))

    def test_a_function_of_the_model_is_in_the_report(self):
        program, batches, x = self.small_program()
        self.export(self.small_model()[0], x)
        want = {key: m.module()(x).sum().item() for key, m in (("float", program), ("quantized", octet.quantize(program, "x86", calibration=batches)))}
        for model, data in ((program, batches), (self.path("model.pt2"), batches), (program, iter(batches))):
            q = octet.quantize(model, "x86", calibration=data, validate=lambda module: module.eval()(x).sum())
            self.assertEqual(q.report.quality["validation"], want)
            row = f"{want['quantized']:.4g}; float {want['float']:.4g}"
            self.assertTrue(str(q.report).startswith(f"validate {row}\nSQNR "), str(q.report))
            self.assertIn(row, q.report.html())
        never = iter(())  # a function that fails does so before calibration
        with self.assertRaisesRegex(ZeroDivisionError, "division"):
            octet.quantize(program, "x86", calibration=never, validate=lambda module: 1 / 0)
        for value in (None, float("nan"), float("inf"), "all"):
            with self.assertRaisesRegex(octet.Error, f"^quantize: validate: returned {value!r}, want a finite number$"):
                octet.quantize(program, "x86", calibration=never, validate=lambda module: value)
        with self.assertRaisesRegex(octet.Error, "^pt2: .*none.pt2: "):
            octet.quantize(self.path("none.pt2"), "x86", calibration=batches, validate=lambda module: 1)

    def test_a_function_of_the_model_does_not_change_the_program(self):
        class Counter(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(4, 4)
                self.register_buffer("calls", torch.zeros(1))

            def forward(self, x):
                self.calls.add_(1)
                return self.linear(x) + self.calls

        program = torch.export.export(Counter().eval(), (torch.ones(2, 4),))
        x = torch.ones(2, 4)
        octet.quantize(program, "x86", calibration=[(x,)], validate=lambda module: (module(x).sum(), module.double())[0])
        self.assertEqual(program.state_dict["calls"].item(), 0)
        self.assertEqual(program.state_dict["linear.weight"].dtype, torch.float32)

    def test_progress_in_bars_of_tqdm_s_protocol(self):
        program, batches, _ = self.small_program()
        bars = []

        class Bar:
            def __init__(self, total=None, desc=""):
                self.desc, self.total, self.done, self.is_closed = desc, total, 0, False
                bars.append(self)

            def update(self, n=1):
                self.done += n

            def close(self):
                self.is_closed = True

        octet.quantize(program, "x86", calibration=batches, progress=Bar)
        found = [(bar.desc, bar.done, bar.is_closed) for bar in bars]
        self.assertIn(("calibrate", len(batches), True), found)
        self.assertTrue(all(bar.is_closed for bar in bars), found)

        class Broken(Bar):
            def update(self, n=1):
                raise ValueError("no more paper")

        with self.assertRaisesRegex(ValueError, "no more paper"):
            octet.quantize(program, "x86", calibration=batches, progress=Broken)
        count = len(bars)
        octet.quantize(program, "x86", calibration=batches)
        self.assertEqual(len(bars), count)

    def test_pickles(self):
        program, batches, x = self.small_program()
        q = octet.quantize(program, "x86", calibration=batches)
        twin = pickle.loads(pickle.dumps(q))
        self.assertTrue(torch.equal(twin.module()(x), q.module()(x)))
        self.assertEqual(twin.report.data, q.report.data)
        self.assertEqual(octet.lower(twin, "onednn").to_bytes(), octet.lower(q, "onednn").to_bytes())

    def test_torchao_beside_it(self):
        # torchao registers ops of the same names; whichever comes first, both work.
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
        from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import (
            X86InductorQuantizer,
            get_default_x86_inductor_quantization_config,
        )

        program, batches, x = self.small_program()
        quantizer = X86InductorQuantizer().set_global(get_default_x86_inductor_quantization_config())
        prepared = prepare_pt2e(program.module(), quantizer)
        for batch in batches:
            prepared(*batch)
        theirs = torch.export.export(convert_pt2e(prepared), (x,))
        model = octet.lower(theirs, backend="onednn", threads=1)
        self.assertGreater(sqnr(theirs.module()(x), model(x)), 25)
        self.assertGreater(sqnr(program.module()(x), octet.quantize(program, "x86", calibration=batches).module()(x)), 15)

    def test_inspect_explain_compare(self):
        program, batches, x = self.small_program()
        q = octet.quantize(program, "x86", calibration=batches)
        model = octet.lower(q, backend="onednn")
        self.assertIn("conv2d", str(octet.inspect(program)))
        self.assertEqual(octet.inspect(q).data["float_ops"], 0)
        self.assertIn("onednn", octet.explain(model))
        self.assertIn("onednn", str(octet.inspect(model)))
        comparison = octet.compare(program, q, batches, lowered=model)
        self.assertGreater(len(comparison.nodes), 3)
        q.save(self.path("q.pt2"))
        model.save(self.path("q.octet"))
        self.octet(
            "compare", self.path("model.pt2"), self.path("q.pt2"), self.path("q.octet"), "--inputs",
            self.path("calibration.pt"), "--output", self.path("command.csv"),
        )
        comparison.save(self.path("package.csv"))

        def rows(name):  # without the measured time
            lines = self.bytes_of(name).decode().splitlines()
            columns = [i for i, name in enumerate(lines[0].split(",")) if "second" not in name and "ms" not in name]
            return [[line.split(",")[i] for i in columns[:8]] for line in lines]

        self.assertEqual(rows("package.csv"), rows("command.csv"))

    def test_a_comparison_replaces_none_of_its_inputs(self):
        program, batches, _ = self.small_program()
        octet.quantize(program, "x86", calibration=batches).save(self.path("q.pt2"))
        files = [self.path(name) for name in ("model.pt2", "q.pt2", "calibration.pt")]
        comparison = octet.compare(*files)
        before = [self.bytes_of(name) for name in files]
        for file in files:
            link = self.path("link.json")
            os.symlink(file, link)
            with self.assertRaisesRegex(octet.Error, "is an input file and would be overwritten"):
                comparison.save(link)
            os.remove(link)
        self.assertEqual([self.bytes_of(name) for name in files], before)
        comparison.save(self.path("comparison.json"))

    def test_no_file_is_left_behind(self):
        program, batches, x = self.small_program()
        folder = self.path("tmp")  # other tests make files in the machine's
        os.mkdir(folder)
        with unittest.mock.patch.dict(os.environ, TMPDIR=folder), unittest.mock.patch.object(tempfile, "tempdir", folder):
            q = octet.quantize(program, "x86", calibration=batches)
            q.exported_program()
            pickle.dumps(q)
            octet.lower(program, "reference")(x)
        self.assertEqual([name for name in os.listdir(folder) if name.startswith("octet-")], [])


if __name__ == "__main__":
    unittest.main()
