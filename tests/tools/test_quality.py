"""What `octet quantize` reports about its result."""
import json
import math
import os
import unittest

import torch
from torch import nn

from support import CommandTest


def sqnr(want, got):
    return 10 * math.log10((want.double() ** 2).sum() / ((want - got).double() ** 2).sum())


class Quality(CommandTest):
    def report(self):
        with open(self.path("r.json")) as file:
            return json.load(file)

    def quantize(self, *more, calibration="calibration.pt"):
        """The lines on stderr and the report's "quality"."""
        data = ["--calibration", self.path(calibration)] if calibration else []
        _, errors = self.octet("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", *data, "--output", self.path("q.pt2"), "--report", self.path("r.json"), *more)
        return errors, self.report()["quality"]

    def outputs(self, model, x):
        self.save("one_x.pt", (x,))
        self.octet("run", self.path(model), "--inputs", self.path("one_x.pt"), "--outputs", self.path("one_y.pt"))
        return torch.load(self.path("one_y.pt"))[0]

    def data(self, name, batches, samples=1):
        torch.manual_seed(batches)
        values = [(torch.randn(samples, 3, 32, 32),) for _ in range(batches)]
        self.save(name, values)
        return values

    def test_ratios_are_those_of_the_outputs(self):
        self.small_model()
        batches = self.data("held.pt", 3)
        self.check_ratios(batches)
        self.check_ratios(batches, "--effort", "high")  # changes weights, and not those of the float program

    def check_ratios(self, batches, *more):
        errors, quality = self.quantize("--evaluate", self.path("held.pt"), *more)
        want = sorted(sqnr(self.outputs("model.pt2", x), self.outputs("q.pt2", x)) for x, in batches)
        self.assertAlmostEqual(quality["median_sqnr_db"], want[1], places=3)
        self.assertAlmostEqual(quality["worst_sqnr_db"], want[0], places=3)
        self.assertIn(f"SQNR     {want[1]:.1f} dB to float (median; worst {want[0]:.1f} dB), over all of ", errors)
        self.assertEqual(quality["int8_share"], 1)
        self.assertLess(quality["bytes"], quality["float_bytes"] / 2)
        self.assertIn("int8     100.0 % of the multiply-accumulates", errors)

    def test_the_share_of_a_backend_is_what_runs_in_integers(self):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ConvTranspose2d(8, 4, 3)).eval()
        self.export(net, torch.randn(1, 3, 32, 32))
        self.data("calibration.pt", 2)
        errors, quality = self.quantize()
        self.assertEqual((quality["backend"], quality["backend_share"]), ("xnnpack", quality["int8_share"]))
        self.assertNotIn(" on xnnpack", errors)
        errors, quality = self.quantize("--for-backend", "reference")
        self.assertEqual((quality["backend"], quality["backend_share"]), ("reference", 0))
        self.assertIn("int8     0.0 % of the multiply-accumulates on reference; 100.0 % are quantized", errors)
        self.assertIn("--for-backend: got --mode dynamic, want static", self.octet(
            "quantize", self.path("model.pt2"), "--quantizer", "x86", "--mode", "dynamic", "--for-backend", "onednn",
            "--output", self.path("q.pt2"), code=1)[1])
        _, errors = self.octet("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--for-backend", "no", "--calibration",
                               self.path("calibration.pt"), "--output", self.path("q.pt2"), code=1)
        self.assertIn("backend: no", errors)

    def test_the_reference_representation_counts_its_products(self):
        self.small_model()
        self.data("calibration.pt", 2)
        _, quality = self.quantize("--reference")
        # all but the convolution before ReLU6, which has no integer form
        self.assertAlmostEqual(quality["int8_share"], 1 - 110592 / 213152, places=6)

    def test_the_last_batches_are_held_out_of_many(self):
        self.small_model()
        batches = self.data("many.pt", 17)
        self.save("first.pt", batches[:15])
        scales = lambda: [group["qparams"]["scale"] for group in self.report()["groups"]]
        errors, _ = self.quantize("--hold-out", "2", calibration="many.pt")
        self.assertIn("over the last 2 of 17 calibration batches, held out", errors)
        held_out = scales()
        errors, _ = self.quantize(calibration="first.pt")
        self.assertIn("over the last 8 of 15 calibration batches, which were also used to calibrate", errors)
        self.assertEqual(scales(), held_out)
        errors, _ = self.quantize("--effort", "high", calibration="many.pt")
        self.assertIn("over the last 2 of 17 calibration batches, held out", errors)

    def test_ranges_are_of_all_batches(self):
        self.small_model()
        self.data("many.pt", 17)
        scales = lambda: [group["qparams"]["scale"] for group in self.report()["groups"]]
        self.quantize("--hold-out", "2", calibration="many.pt")
        held_out = scales()
        self.quantize("--hold-out", "0", calibration="many.pt")
        everything = scales()
        self.assertNotEqual(everything, held_out)
        for more in ((), ("--compat", "torchao")):
            errors, _ = self.quantize(*more, calibration="many.pt")
            self.assertIn("over the last 8 of 17 calibration batches, which were also used to calibrate", errors)
            if not more:
                self.assertEqual(scales(), everything)
        self.assertIn("--hold-out: is 17, want less than the 17 batches", self.fails(
            "quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--calibration", self.path("many.pt"), "--output", self.path("q.pt2"), "--hold-out", "17"))

    def test_max_batches_takes_the_first_ones(self):
        """Each command that reads data gives the same result as for a file with these batches alone."""
        self.small_model()
        batches = self.data("many.pt", 17)
        self.save("few.pt", batches[:3])
        target = [(x, torch.zeros(1, 10)) for x, in batches]
        trained = torch.export.export(nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)), batches[0])
        torch.export.save(trained, self.path("trained.pt2"))
        self.save("train.pt", target)
        self.save("few_train.pt", target[:3])
        base = [self.path("model.pt2"), "--quantizer", "xnnpack"]
        for command in (
            lambda data, out, *more: ["quantize", *base, "--calibration", data, "--output", out, *more],
            lambda data, out, *more: ["calibrate", *base, "--calibration", data, "--state", out, *more],
            lambda data, out, *more: ["tune", *base, "--calibration", data, "--min-sqnr", "20", "--trials", "1", "--output", self.path("t.pt2"), "--save-config", out, *more],
            lambda data, out, *more: ["qat", self.path("trained.pt2"), "--quantizer", "xnnpack", "--loss", "mse", "--lr", "0.001",
                                      "--train", data.replace("few", "few_train").replace("many", "train"), "--output", out, *more],
        ):
            few = self.octet(*command(self.path("few.pt"), self.path("few.json")))[1]
            limited = self.octet(*command(self.path("many.pt"), self.path("limited.json"), "--max-batches", "3"))[1]
            with open(self.path("few.json"), "rb") as one, open(self.path("limited.json"), "rb") as other:
                self.assertEqual(one.read(), other.read(), (few, limited))
            _, errors = self.octet(*command(self.path("few.pt"), self.path("none.json"), "--max-batches", "0"), code=2)
            self.assertTrue(errors.startswith("--max-batches: "), errors)
        errors, _ = self.quantize("--max-batches", "3", calibration="many.pt")
        self.assertIn("over the 3 calibration batches, which were also used to calibrate", errors)
        errors, _ = self.quantize("--max-batches", "16", calibration="many.pt")
        self.assertIn("over the last 8 of 16 calibration batches, which were also used to calibrate", errors)

    def test_labels_give_the_accuracy_of_both(self):
        net, _ = self.small_model()
        batches = self.data("held.pt", 4, samples=1)
        with torch.no_grad():
            classes = torch.cat([net(x).argmax(1) for x, in batches])
        wrong = (classes + torch.tensor([1, 0, 0, 0])) % 10
        self.save("labels.pt", wrong)
        errors, quality = self.quantize("--evaluate", self.path("held.pt"), "--labels", self.path("labels.pt"))
        self.assertEqual(quality["float_accuracy"], 0.75)
        self.assertIn(", float 75.00 %", errors)
        self.save("short.pt", wrong[:3])
        base = ["quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--calibration", self.path("calibration.pt"), "--output", self.path("no.pt2"),
                "--evaluate", self.path("held.pt"), "--labels"]
        self.assertIn("holds 3 classes, want one for each of the 4 samples", self.fails(*base, self.path("short.pt")))
        for beyond in (10, -1):
            self.save("beyond.pt", torch.cat([wrong[:3], torch.tensor([beyond])]))
            self.assertIn(f"beyond.pt: holds the class {beyond}, want 0 to 9, as the program tells 10 classes apart", self.fails(*base, self.path("beyond.pt")))
        self.save("floats.pt", torch.rand(4))
        self.assertIn("not a list of classes", self.fails(*base, self.path("floats.pt")))
        self.assertIn("--labels: needs --evaluate", self.fails("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--mode", "dynamic", "--output", self.path("no.pt2"),
                                                        "--labels", self.path("labels.pt")))

    def test_what_stays_float_is_weighed(self):
        self.small_model()
        with open(self.path("quantizer.json"), "w") as file:
            json.dump({"base": "xnnpack", "global": {"is_per_channel": True}, "module_name": {"project": None}}, file)
        _, errors = self.octet("quantize", self.path("model.pt2"), "--quantizer", self.path("quantizer.json"), "--calibration", self.path("calibration.pt"),
                               "--output", self.path("q.pt2"), "--report", self.path("r.json"))
        quality = self.report()["quality"]
        stem, depthwise, project, head = 16 * 16 * 16 * 27, 16 * 16 * 16 * 9, 16 * 16 * 16 * 16, 160
        share = project / (stem + depthwise + project + head)
        self.assertAlmostEqual(quality["int8_share"], 1 - share, places=6)
        self.assertAlmostEqual(quality["reasons"][0]["share"], share, places=6)
        self.assertIn(f"float    {quality['reasons'][0]['ops']} op", errors)

    def test_little_in_int8_is_a_warning_and_strict_fails(self):
        self.small_model()
        self.write_json("quantizer.json", {"base": "xnnpack", "global": {"is_per_channel": True}, "module_name": {"project": None, "head": None}})
        command = ["quantize", self.path("model.pt2"), "--quantizer", self.path("quantizer.json"), "--calibration", self.path("calibration.pt"), "--output", self.path("q.pt2")]
        _, errors = self.octet(*command, "--report", self.path("r.json"))
        quality = self.report()["quality"]
        self.assertEqual(quality["eligible_share"], 1)
        self.assertAlmostEqual(quality["quantized_share"], quality["int8_share"])
        self.assertEqual(quality["reasons"][0]["node"], "conv2d_2")
        said = f"{100 * quality['int8_share']:.1f} % of the multiply-accumulates that can be quantized are, want 90 %; "
        reason = f"{quality['reasons'][0]['ops']} op, %conv2d_2 the largest ({100 * quality['reasons'][0]['share']:.1f} %): {quality['reasons'][0]['reason']}"
        self.assertIn(f"warning: {said}{reason}", errors)
        os.remove(self.path("q.pt2"))
        line = self.fails(*command, "--strict")
        self.assertIn(f"quantize: {self.path('model.pt2')}: {said}{reason}", line)
        self.assertFalse(os.path.exists(self.path("q.pt2")))

    def test_outputs_far_from_float_are_a_warning_with_ways_out(self):
        # One calibration input is 10,000 times as large as what comes later.
        torch.manual_seed(0)
        x = torch.randn(1, 32)
        program = torch.export.export(torch.nn.Linear(32, 8, bias=False).eval(), (x,))
        torch.export.save(program, self.path("model.pt2"))
        self.save("calibration.pt", [(1e4 * x,)])
        self.save("held.pt", [(x,)])
        errors, quality = self.quantize("--evaluate", self.path("held.pt"))
        self.assertLess(quality["median_sqnr_db"], 10)
        self.assertIn(f"warning: the outputs have {quality['median_sqnr_db']:.1f} dB to float, under 10; `octet compare` names the ops", errors)
        errors, quality = self.quantize()
        self.assertGreater(quality["median_sqnr_db"], 10)
        self.assertNotIn("dB to float, under", errors)

    def test_what_a_mode_is_not_for_is_not_eligible(self):
        class Attention(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.q, self.k = torch.nn.Linear(32, 32), torch.nn.Linear(32, 32)

            def forward(self, x):
                return self.q(x) @ self.k(x).transpose(1, 2)

        self.export(Attention(), torch.randn(2, 64, 32))
        linears, product = 2 * 2 * 64 * 32 * 32, 2 * 64 * 64 * 32
        for mode, int8 in (("dynamic", linears), ("weight-only", 0)):
            with self.subTest(mode=mode):
                errors, quality = self.quantize("--mode", mode, calibration=None)
                self.assertAlmostEqual(quality["int8_share"], int8 / (linears + product), places=6)
                self.assertAlmostEqual(quality["eligible_share"], linears / (linears + product), places=6)
                self.assertEqual(quality["quantized_share"], 1)
                self.assertNotIn("warning", errors)
                self.assertIn("quantized: 100.0 % of the 50.0 % that the mode is for", errors)
        self.save("data.pt", [(torch.randn(2, 64, 32),) for _ in range(2)])
        _, errors = self.octet("quantize", self.path("model.pt2"), "--quantizer", "x86", "--calibration", self.path("data.pt"), "--output", self.path("q.pt2"),
                               "--report", self.path("r.json"))
        quality = self.report()["quality"]
        self.assertEqual((quality["eligible_share"], quality["quantized_share"]), (1, linears / (linears + product)))
        self.assertRegex(errors, "warning: 50.0 % of the multiply-accumulates .* %matmul the largest")

    def test_recurrent_ops_and_attention_count(self):
        torch.manual_seed(0)
        self.export(torch.nn.LSTM(16, 8, batch_first=True), torch.randn(2, 5, 16))
        errors, quality = self.quantize("--mode", "weight-only", calibration=None)
        self.assertEqual((quality["int8_share"], quality["quantized_share"]), (0, 1))
        self.assertNotIn("warning", errors)

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.q = torch.nn.Linear(32, 32)

            def forward(self, x):
                q = self.q(x)
                return torch.nn.functional.scaled_dot_product_attention(q, q, q)

        self.export(Net(), torch.randn(2, 64, 32))
        self.save("data.pt", [(torch.randn(2, 64, 32),) for _ in range(2)])
        _, quality = self.quantize(calibration="data.pt")
        self.assertAlmostEqual(quality["int8_share"], 32 / (32 + 2 * 64), places=6)

    def test_a_program_without_products_has_no_share(self):
        self.export(torch.nn.ReLU(), torch.randn(2, 3, 8, 8))

        class Sum(torch.nn.Module):
            def forward(self, x):
                return x + x

        self.export(Sum(), torch.randn(2, 8))
        self.save("data.pt", [(torch.randn(2, 8),) for _ in range(2)])
        errors, quality = self.quantize(calibration="data.pt")
        self.assertIsNone(quality["quantized_share"])
        self.assertNotIn("warning", errors)

    def test_factors_of_layer_scale_do_not_vanish(self):
        class Block(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.norm, self.linear = torch.nn.LayerNorm(32), torch.nn.Linear(32, 32)
                self.gamma = torch.nn.Parameter(torch.full((32,), 1e-6))

            def forward(self, x):
                branch = self.gamma * self.linear(self.norm(x))
                return branch, x + branch

        torch.manual_seed(0)
        x = torch.randn(2, 16, 32)
        net = Block().requires_grad_(False).eval()
        self.export(net, x)
        self.save("data.pt", [(torch.randn(2, 16, 32),) for _ in range(4)])
        branch = net(x)[0]
        errors, _ = self.quantize(calibration="data.pt")
        self.assertGreater(sqnr(branch, self.outputs("q.pt2", x)), 25)
        self.assertRegex(errors, "note: scale: .*%mul.* got finer ones")
        for backend in ("onednn", "xnnpack"):
            if backend in self.octet("doctor")[0]:
                self.octet("lower", self.path("q.pt2"), "--backend", backend, "--output", self.path("q.octet"))
                self.assertGreater(sqnr(branch, self.outputs("q.octet", x)), 25, backend)
        errors, _ = self.quantize("--compat", "torchao", calibration="data.pt")
        self.assertEqual(self.outputs("q.pt2", x).abs().max(), 0)
        self.assertIn("below the least scale that torchao asks for: they become zero", errors)

    def test_without_data_there_is_no_ratio(self):
        self.export(torch.nn.Linear(64, 64), torch.randn(2, 64))
        errors, quality = self.quantize("--mode", "dynamic", calibration=None)
        self.assertIsNone(quality["median_sqnr_db"])
        self.assertNotIn("SQNR", errors)
        self.assertEqual(quality["int8_share"], 1)


if __name__ == "__main__":
    unittest.main()
