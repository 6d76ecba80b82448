"""--effort high and --passes: more accuracy, the same int8 ops, and what cannot be combined."""
import json
import os
import signal
import subprocess
import sys
import time
import unittest

import torch
from torch import nn

from support import OCTET, CommandTest, sqnr

COUNT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "models", "int8_ops.py")

ARITHMETIC = ("conv2d", "linear", "add", "quantize_per_tensor", "dequantize_per_tensor", "dequantize_per_channel")


class Block(nn.Module):
    """A layer norm that a residual reads too, with a channel far larger than the others: what smoothing makes a copy for."""

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)
        with torch.no_grad():
            self.norm.weight[3] = 32
            self.up.weight[:, 3] /= 32

    def forward(self, x):
        x = self.norm(x)
        return x + self.down(nn.functional.gelu(self.up(x)))


class Uneven(nn.Module):
    """Two linears with a channel between them that is far larger than the others: what equalize is for."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Sequential(nn.Linear(8, 16), nn.ReLU()), nn.Linear(16, 8)
        with torch.no_grad():
            self.up[0].weight[3] *= 64
            self.down.weight[:, 3] /= 64

    def forward(self, x):
        return self.down(self.up(x))


class Effort(CommandTest):
    def setUp(self):
        super().setUp()
        self.net, self.x = self.small_model()

    def quantize(self, output, *arguments, **options):
        return self.octet("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--output", self.path(output), *arguments, **options)

    def op_counts(self, name):
        nodes = self.inspect(name)["nodes"]
        return {op: sum(node["target"].split(".")[1] == op for node in nodes) for op in ARITHMETIC}

    def test_high_effort_keeps_the_ops_and_says_how_long_it_took(self):
        data = ("--calibration", self.path("calibration.pt"))
        self.quantize("q.pt2", *data)
        _, errors = self.quantize("high.pt2", *data, "--effort", "high", "--report", self.path("r.json"))
        self.assertEqual(self.op_counts("high.pt2"), self.op_counts("q.pt2"))
        self.assertRegex(errors, r"effort: [0-9.]+ s: .*calibrate [0-9.]+ s")
        with open(self.path("r.json")) as file:
            notes = json.load(file)["notes"]
        self.assertTrue(any(note.startswith("correct-bias: ") for note in notes), notes)
        expected = self.net(self.x)
        self.assertGreater(sqnr(expected, self.run_file("high.pt2")[0]), sqnr(expected, self.run_file("q.pt2")[0]) - 0.5)
        self.octet("lower", self.path("high.pt2"), "--backend", "onednn", "--output", self.path("high.octet"))
        self.assertGreater(sqnr(expected, self.run_file("high.octet")[0]), 20)

    def count(self, *names):
        """int8_ops.py's exit code and lines."""
        result = subprocess.run([sys.executable, "-B", COUNT, *map(self.path, names)], capture_output=True, text=True, check=False)
        return result.returncode, result.stdout.splitlines()

    def test_the_default_smooths_behind_layer_norms_alone(self):
        class Wide(nn.Module):
            """One channel out of the norm is far larger than the others."""

            def __init__(self):
                super().__init__()
                self.norm, self.linear = nn.LayerNorm(32), nn.Linear(32, 32)
                with torch.no_grad():
                    self.norm.weight[3] = 64

            def forward(self, x):
                return self.linear(self.norm(x))

        torch.manual_seed(0)
        self.export(Wide().requires_grad_(False), torch.randn(2, 16, 32))
        data = self.save("calibration.pt", [(torch.randn(2, 16, 32),) for _ in range(8)])
        self.save("few.pt", [(torch.randn(2, 16, 32),) for _ in range(3)])
        held = self.save("held.pt", [(torch.randn(2, 16, 32),) for _ in range(4)])

        def quantized(*options, calibration=data):
            _, errors = self.octet("quantize", self.path("model.pt2"), "--quantizer", "x86", "--calibration", calibration, "--evaluate", held, "--output", self.path("q.pt2"),
                                   "--report", self.path("r.json"), *options)
            with open(self.path("r.json")) as file:
                return json.load(file)["quality"]["median_sqnr_db"], errors

        default, errors = quantized()
        self.assertIn("note: smooth: 1 of 1 sets of channels scaled", errors)
        plain, errors = quantized("--effort", "none")
        self.assertNotIn("note: smooth", errors)
        self.assertGreater(default, plain + 3)
        asked, _ = quantized("--passes", "smooth")
        self.assertEqual(default, asked)
        for options in (["--compat", "torchao"], ["--mode", "dynamic"]):
            self.assertNotIn("note: smooth", quantized(*options)[1])
        self.assertNotIn("note: smooth", quantized(calibration=self.path("few.pt"))[1])
        # between linears alone there is nothing to smooth by default
        self.export(nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32)).requires_grad_(False), torch.randn(2, 16, 32))
        self.assertNotIn("note: smooth", quantized()[1])

    def test_the_lowered_program_has_the_same_int8_ops(self):
        torch.manual_seed(0)
        net = Block().requires_grad_(False).eval()
        self.export(net, torch.randn(1, 16, 32))
        data = ("--calibration", self.save("calibration.pt", [(torch.randn(1, 16, 32),) for _ in range(8)]))
        for name, arguments in (("q", ("--effort", "none")), ("high", ("--effort", "high")), ("float", ())):
            command = ("fuse", self.path("model.pt2")) if name == "float" else ("quantize", self.path("model.pt2"), "--quantizer", "x86", *data, *arguments)
            self.octet(*command, "--output", self.path(name + ".pt2"))
            self.octet("lower", self.path(name + ".pt2"), "--backend", "onednn", "--output", self.path(name + ".octet"))
        code, lines = self.count("q.octet", "high.octet")
        self.assertEqual(code, 0, lines)
        self.assertIn("2 linear", lines[0])
        self.assertIn("100.0 % of the multiplications", lines[1])
        self.assertIn("1 layer_norm", lines[0])
        self.assertIn("2 layer_norm", lines[1])
        self.assertEqual(self.count("q.octet", "float.octet")[0], 1)

    def test_one_pass_alone(self):
        _, errors = self.quantize("q.pt2", "--calibration", self.path("calibration.pt"), "--passes", "correct-bias")
        self.assertRegex(errors, r"effort: [0-9.]+ s: calibrate [0-9.]+ s, correct-bias [0-9.]+ s")

    def test_figures_before_and_after(self):
        _, errors = self.quantize("q.pt2", "--calibration", self.path("calibration.pt"), "--effort", "high", "--report", self.path("r.json"))
        self.assertRegex(errors, r"\n +[0-9.]+ dB without the passes \(worst [0-9.]+ dB\)\n")
        self.quantize("plain.pt2", "--calibration", self.path("calibration.pt"), "--report", self.path("plain.json"))
        with open(self.path("r.json")) as high, open(self.path("plain.json")) as plain:
            before, without = json.load(high)["quality"]["before"], json.load(plain)["quality"]
        self.assertEqual(before, {key: without[key] for key in before})
        self.assertIsNone(without["before"])

    def high(self, output, *arguments, **options):
        """The slower passes with a checkpoint."""
        return self.quantize(output, "--calibration", self.path("calibration.pt"), "--passes", "ranges,correct-bias,round", *arguments, **options)

    def bytes_of(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def test_a_run_goes_on_from_its_checkpoint_to_the_same_bits(self):
        checkpoint = self.path("c")
        _, whole = self.high("whole.pt2", "--report", self.path("whole.json"))
        command = [OCTET, "quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--calibration", self.path("calibration.pt"), "--output",
                   self.path("q.pt2"), "--passes", "ranges,correct-bias,round", "--checkpoint", checkpoint]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            while process.poll() is None and not os.path.exists(checkpoint):
                time.sleep(0.001)
            time.sleep(0.05)  # for the line that says so
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        if process.returncode != 0:  # else it was done before the signal came
            self.assertRegex(errors, "interrupted.*; .*c holds the finished passes \\(correct-bias")
        _, errors = self.high("q.pt2", "--checkpoint", checkpoint, "--report", self.path("q.json"))
        self.assertRegex(errors, "resumed from .*c after correct-bias")
        self.assertEqual(self.bytes_of("q.pt2"), self.bytes_of("whole.pt2"))
        with open(self.path("q.json")) as got, open(self.path("whole.json")) as want:
            got, want = json.load(got), json.load(want)
        self.assertEqual([got[key] for key in ("notes", "details", "float_ops", "groups")], [want[key] for key in ("notes", "details", "float_ops", "groups")])
        _, errors = self.high("again.pt2", "--checkpoint", checkpoint)
        self.assertIn("after correct-bias, round, ranges", errors)
        self.assertEqual(self.bytes_of("again.pt2"), self.bytes_of("whole.pt2"))

    def test_checkpoints_that_do_not_fit(self):
        checkpoint = self.path("c")
        self.high("q.pt2", "--checkpoint", checkpoint)
        arguments = ("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--output", self.path("other.pt2"), "--calibration",
                     self.path("calibration.pt"), "--checkpoint", checkpoint, "--passes")
        self.assertRegex(self.fails(*arguments, "correct-bias"), "belongs to another run, got .*passes correct-bias, ranges, round, want .*passes correct-bias; remove it")
        self.assertIn("belongs to another run", self.fails(*arguments, "ranges,correct-bias,round", "--per-tensor"))
        whole = self.bytes_of("c")
        for damaged in (whole[: len(whole) // 2], b"", b"no zip"):
            with open(checkpoint, "wb") as file:
                file.write(damaged)
            self.fails(*arguments, "ranges,correct-bias,round")
        torch.save((torch.zeros(3),), checkpoint)
        self.assertIn("not a checkpoint of octet quantize", self.fails(*arguments, "ranges,correct-bias,round"))
        self.assertFalse(os.path.exists(self.path("other.pt2")))
        _, errors = self.quantize("q.pt2", "--calibration", self.path("calibration.pt"), "--checkpoint", checkpoint, code=2)
        self.assertIn("give --effort high or --passes too", errors)

    def equalized(self, *arguments):
        """How many sets of channels --passes equalize scales."""
        self.quantize("q.pt2", "--calibration", self.path("calibration.pt"), "--passes", "equalize", "--report", self.path("r.json"), *arguments)
        with open(self.path("r.json")) as file:
            notes = json.load(file)["notes"]
        return next(int(note.split()[1]) for note in notes if note.startswith("equalize: "))

    def test_passes_per_module(self):
        """Rows of a --config file take a pass from modules, and the strongest row decides."""
        torch.manual_seed(0)
        self.export(Uneven().eval(), torch.randn(4, 8))
        self.save("calibration.pt", [(torch.randn(4, 8),) for _ in range(4)])
        whole = self.equalized()
        self.assertGreater(whole, 0)
        for passes, expected in (
            ({}, whole),
            ({"module_name": {"down": []}}, 0),
            ({"module_type": {"torch.nn.Linear": []}}, 0),
            ({"op_type": {"aten.linear": []}}, 0),
            ({"op_type": {"aten.conv2d": []}}, whole),
            ({"global": []}, 0),
            ({"global": [], "op_type": {"linear": ["equalize"]}}, whole),
            ({"module_name_regex": {".*": []}, "module_name": {"up": ["equalize"]}}, 0),
            ({"module_name_regex": {".*": []}, "module_name": {"up": ["equalize"], "down": ["equalize"]}}, whole),
            ({"module_name": {"up": [], "up.0": ["equalize"]}}, whole),
        ):
            with self.subTest(passes=passes):
                self.assertEqual(self.equalized("--config", self.write_json("c.json", {"passes": passes})), expected)

    def test_wrong_rows_of_passes(self):
        command = ("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--output", self.path("q.pt2"), "--calibration", self.path("calibration.pt"))
        config = self.path("c.json")
        for passes, path, part in (
            ([], "/passes", "want an object"),
            ({"module_names": {}}, "/passes", "module_names"),
            ({"module_name": []}, "/passes/module_name", "want an object of lists of passes"),
            ({"module_name": {"head": "round"}}, "/passes/module_name/head", "want a list of passes"),
            ({"op_type": {"linear": ["round"]}}, "/passes/op_type/linear/0", 'got "round", want a pass of this run, correct-bias'),
        ):
            with self.subTest(passes=passes):
                self.write_json("c.json", {"passes": passes})
                line = self.fails(*command, "--passes", "correct-bias", "--config", config)
                self.assertIn(f"octet: quantizer: {config}: {path}", line)
                self.assertIn(part, line)
        self.write_json("c.json", {"passes": {"module_name": {"blok": []}}})
        self.assertIn("but none runs; give --effort high or --passes", self.fails(*command, "--config", config))
        _, errors = self.octet(*command, "--passes", "correct-bias", "--config", config, "--report", self.path("r.json"))
        with open(self.path("r.json")) as file:
            self.assertIn(f'passes: module_name "blok" of {config} matches nothing in the model', json.load(file)["notes"])

    def weights_of(self, name):
        """The integers that a q/dq program stores, by name."""
        import torchao  # noqa: F401, registers the ops of such programs
        program = torch.export.load(self.path(name))
        stored = {**program.state_dict, **program.constants}
        return {key: value for key, value in stored.items() if "frozen_param" in key}

    def test_effort_of_single_layers(self):
        """Rows of "effort" bring passes to what they name, and to nothing else."""
        torch.manual_seed(0)
        net = nn.Sequential(*[layer for _ in range(3) for layer in (nn.Linear(32, 32), nn.ReLU())], nn.Linear(32, 8)).eval()
        self.export(net, torch.randn(16, 32))
        mixing = torch.randn(32, 32)  # rounding gains where inputs go together
        self.save("calibration.pt", [(torch.randn(16, 32) @ mixing,) for _ in range(8)])
        data = ("--calibration", self.path("calibration.pt"), "--config", self.path("c.json"), "--report", self.path("r.json"))
        command = ("quantize", self.path("model.pt2"), "--quantizer", "x86", "--mode", "dynamic", "--weight-bits", "4", "--output")

        def changed(effort, *more):
            self.write_json("c.json", {"global": {}, "effort": effort})
            self.octet(*command, self.path("q.pt2"), *data, *more)
            with open(self.path("r.json")) as file:
                self.notes = json.load(file)["notes"]
            own = self.weights_of("q.pt2")
            return [index for index, key in enumerate(sorted(own)) if not torch.equal(own[key], plain[key])]

        self.octet(*command, self.path("plain.pt2"), "--calibration", self.path("calibration.pt"))
        plain = self.weights_of("plain.pt2")
        self.assertEqual(len(plain), 4)
        whole = changed({}, "--passes", "round")
        self.assertEqual(whole, [0, 1, 2, 3], self.notes)
        self.assertEqual(changed({"module_name": {"2": "none", "6": "none"}}, "--passes", "round"), [0, 2], self.notes)
        self.assertEqual(changed({"global": ["round"]}), whole)
        self.assertEqual(changed({"module_name": {"0": ["round"], "2": ["correct-bias", "round"]}}), [0, 1], self.notes)
        self.assertEqual(changed({"call_index": {"": {}}, "module_name": {"0": "high", "2": "high"}}), [0, 1], self.notes)
        self.assertEqual(changed({"module_name": {"0": "none"}}), [])
        self.assertEqual(changed({"module_name": {"blok": ["round"]}}), [])
        self.assertIn(f'effort: module_name "blok" of {self.path("c.json")} matches nothing in the model', self.notes)

    def test_wrong_rows_of_effort(self):
        command = ("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--output", self.path("q.pt2"))
        data, config = ("--calibration", self.path("calibration.pt")), self.path("c.json")
        for effort, path, part in (
            ([], "/effort", "want an object"),
            ({"module_names": {}}, "/effort", "module_names"),
            ({"module_name": []}, "/effort/module_name", "want an object of rows"),
            ({"module_name": {"head": "low"}}, "/effort/module_name/head", 'got "low", want "high", "none" or a list of passes'),
            ({"global": []}, "/effort/global", "that is not empty"),
            ({"global": ["rounding"]}, "/effort/global/0", 'got "rounding", want one of equalize, smooth'),
            ({"call_index": {"": {"aten.linear.default": {"one": "high"}}}}, "/effort/call_index//aten.linear.default/one", "is not the index of a call"),
            ({"call_index": {"": ["round"]}}, "/effort/call_index/", "want an object: module, op, number of the call"),
        ):
            with self.subTest(effort=effort):
                self.write_json("c.json", {"effort": effort})
                line = self.fails(*command, *data, "--config", config)
                self.assertIn(f"octet: quantizer: {config}: {path}", line)
                self.assertIn(part, line)
        self.write_json("c.json", {"effort": {"module_name": {"head": "high"}}})
        self.assertIn("give --calibration DATA.pt", self.fails(*command, "--config", config, "--mode", "weight-only"))
        self.assertIn("which --compat torchao fixes", self.fails(*command, *data, "--config", config, "--compat", "torchao"))
        line = self.fails("calibrate", self.path("model.pt2"), "--quantizer", "xnnpack", *data, "--state", self.path("s.json"), "--config", config)
        self.assertIn("/effort is for `octet quantize` and `octet tune`", line.replace(": is", " is"))

    def test_what_does_not_go_together_is_a_usage_error(self):
        data = ("--calibration", self.path("calibration.pt"))
        for arguments, part in (
            (("--effort", "high"), "give --calibration"),
            (("--effort", "high", "--state", "s.json"), "give --calibration"),
            ((*data, "--effort", "high", "--compat", "torchao"), "--compat torchao"),
            ((*data, "--effort", "highest"), "highest"),
            ((*data, "--passes", "smoothe"), "smoothe"),
            ((*data, "--passes", "smooth", "--effort", "high"), "--effort"),
        ):
            with self.subTest(arguments=arguments):
                _, errors = self.quantize("q.pt2", *arguments, code=2)
                self.assertIn(part, errors)

    def test_a_pass_named_twice(self):
        line = self.fails("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--output", self.path("q.pt2"), "--calibration",
                          self.path("calibration.pt"), "--passes", "round,round")
        self.assertEqual(line, 'octet: quantize: --passes: a pass runs once, got "round" twice; leave one out')


if __name__ == "__main__":
    unittest.main()
