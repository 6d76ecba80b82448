"""--effort high and --passes: more accuracy, the same int8 ops, and what cannot be combined."""
import json
import unittest

import torch

from support import CommandTest, sqnr

ARITHMETIC = ("conv2d", "linear", "add", "quantize_per_tensor", "dequantize_per_tensor", "dequantize_per_channel")


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

    def test_one_pass_alone(self):
        _, errors = self.quantize("q.pt2", "--calibration", self.path("calibration.pt"), "--passes", "correct-bias")
        self.assertRegex(errors, r"effort: [0-9.]+ s: calibrate [0-9.]+ s, correct-bias [0-9.]+ s")

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
