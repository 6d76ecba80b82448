"""What can be worked with but is likely a mistake is said; what cannot is one line that says what to do."""
import collections
import importlib
import json
import os
import shutil
import unittest
import zipfile

import torch

from support import CommandTest


class Misuse(CommandTest):
    def setUp(self):
        super().setUp()
        self.small_model()

    def quantize(self, *more, model="model.pt2", calibration="calibration.pt"):
        """What the command says on stderr."""
        return self.octet("quantize", self.path(model), "--quantizer", "xnnpack", "--calibration", self.path(calibration), "--output", self.path("q.pt2"), *more)[1]

    def test_data_without_a_range_or_a_difference(self):
        self.save("zeros.pt", [(torch.zeros(1, 3, 32, 32),) for _ in range(3)])
        self.assertIn("warning: calibration: input 0 is 0 everywhere in all batches", self.quantize(calibration="zeros.pt"))
        one = torch.randn(1, 3, 32, 32)
        self.save("same.pt", [(one.clone(),) for _ in range(3)])
        self.assertIn("warning: calibration: the 3 batches are all the same", self.quantize(calibration="same.pt"))
        self.assertNotIn("warning", self.quantize())

    def test_data_far_from_what_calibrated(self):
        data = [(torch.rand(1, 3, 32, 32),) for _ in range(4)]
        self.save("seen.pt", data)
        for factor, part in ((255, "99 % of its values|100 % of its values"), (0.01, "uses few of the integers"), (0.9, None)):
            with self.subTest(factor=factor):
                other = self.save("other.pt", [(factor * torch.rand(1, 3, 32, 32),) for _ in range(2)])
                lines = self.quantize("--evaluate", other, calibration="seen.pt").splitlines()
                warnings = [line for line in lines if line.startswith("warning: ")]
                if part is None:
                    self.assertEqual(warnings, [])
                else:
                    self.assertRegex(warnings[0], part)
                    # The other one is about the outputs, which have nothing left of these inputs.
                    self.assertEqual(["dB to float" in line for line in warnings[1:]], [True] * (factor > 1), warnings)

    def test_names_and_numbers_that_no_option_takes(self):
        for command, said in (
            (["quantze", "x.pt2"], "quantze: is not a command; did you mean quantize?"),
            (["qat", "--lr", "0"], "--lr: got 0, want a number above 0"),
            (["qat", "--weight-decay", "-1"], "--weight-decay: got -1, want a number from 0"),
            (["quantize", "--hold-out", "-3"], "--hold-out: got -3, want a number from 0"),
            (["quantize", "--max-batches", "-3"], "--max-batches: got -3, want a number above 0"),
            (["quantize", "--max-batches", "2.5"], "--max-batches: got 2.5, want a whole number above 0"),
            (["quantize", "--weight-bits", "four"], "--weight-bits: got four, want a number"),
            (["quantize", "--group-size", "9" * 20], f"--group-size: got {'9' * 20}, want a whole number of at most 64 bits"),
        ):
            with self.subTest(command=command):
                self.assertEqual(self.octet(*command, code=2)[1].splitlines()[0], said)

    def test_data_that_nothing_observes(self):
        self.assertIn("warning: --calibration: nothing is observed in this mode", self.quantize("--mode", "dynamic"))

    def test_a_program_exported_in_training_mode(self):
        class Net(torch.nn.Sequential):
            def __init__(self):
                super().__init__(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Conv2d(4, 4, 3))

        torch.manual_seed(0)
        x = torch.randn(2, 3, 32, 32)
        self.save("data.pt", [(torch.randn(2, 3, 32, 32),) for _ in range(4)])
        training = self.path("training.pt2")
        torch.export.save(torch.export.export(Net().train(), (x,)), training)
        to, data = ["--output", self.path("no.pt2")], ["--calibration", self.path("data.pt")]
        said = r"octet: prepare: %batch_norm: it \(aten.batch_norm.default\) is the first of 2 ops in training mode.*model.eval\(\).*--training-mode ok"
        for command in (["quantize", *data, *to], ["quantize", "--mode", "dynamic", *to], ["calibrate", *data, "--state", self.path("s.json")]):
            with self.subTest(command=command[:2]):
                self.assertRegex(self.fails(command[0], training, "--quantizer", "xnnpack", *command[1:]), said)
        self.assertFalse(os.path.exists(self.path("no.pt2")))
        self.assertFalse(os.path.exists(self.path("s.json")))
        self.assertRegex(self.quantize("--training-mode", "ok", model="training.pt2", calibration="data.pt"), "note: prepare: %batch_norm: .* first of 2 ops in training mode; these stay float")
        self.export(Net(), x, name="evaluation.pt2")
        self.assertNotIn("training mode", self.quantize(model="evaluation.pt2", calibration="data.pt"))

    def test_norms_without_running_statistics_are_no_training_mode(self):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4, track_running_stats=False), torch.nn.Conv2d(4, 4, 3), torch.nn.InstanceNorm2d(4))
        self.export(net, torch.randn(2, 3, 32, 32), name="own.pt2")
        self.save("data.pt", [(torch.randn(2, 3, 32, 32),) for _ in range(4)])
        self.assertNotIn("training mode", self.quantize(model="own.pt2", calibration="data.pt"))

    def test_a_program_that_is_quantized_already(self):
        self.quantize()
        shutil.copy(self.path("q.pt2"), self.path("again.pt2"))
        command = ["quantize", self.path("again.pt2"), "--quantizer", "xnnpack", "--calibration", self.path("calibration.pt"), "--output", self.path("twice.pt2")]
        errors = self.octet(*command)[1]
        self.assertRegex(errors, r"warning: the program is quantized already: it has \d+ quantize ops; give the float one")

    def test_example_inputs_are_named_and_can_be_left_out(self):
        net = torch.nn.Conv2d(3, 4, 3)
        self.export(net, torch.randn(1, 3, 128, 128), name="large.pt2")
        self.save("large_data.pt", [(torch.randn(1, 3, 128, 128),) for _ in range(2)])
        errors = self.quantize(model="large.pt2", calibration="large_data.pt")
        self.assertRegex(errors, r"examples 0\.\d\d MB of the file are example inputs")
        before = os.path.getsize(self.path("q.pt2"))
        self.assertNotIn("examples", self.quantize("--drop-example-inputs", model="large.pt2", calibration="large_data.pt"))
        self.assertLess(os.path.getsize(self.path("q.pt2")), before - 190000)
        importlib.import_module("torch.ao.quantization.fx._decomposed")  # registers the ops
        self.assertIsNone(torch.export.load(self.path("q.pt2")).example_inputs)

    def test_a_flipped_bit_in_a_weight(self):
        with zipfile.ZipFile(self.path("model.pt2")) as archive:
            entry = max((e for e in archive.infolist() if "/weights/weight_" in e.filename), key=lambda e: e.file_size)
        with open(self.path("model.pt2"), "rb") as file:
            data = bytearray(file.read())
        name_length, extra_length = data[entry.header_offset + 26] + 256 * data[entry.header_offset + 27], data[entry.header_offset + 28] + 256 * data[entry.header_offset + 29]
        data[entry.header_offset + 30 + name_length + extra_length + 10] ^= 4
        with open(self.path("flipped.pt2"), "wb") as file:
            file.write(data)
        line = self.fails("quantize", self.path("flipped.pt2"), "--quantizer", "xnnpack", "--calibration", self.path("calibration.pt"), "--output", self.path("no.pt2"))
        self.assertIn("is damaged", line)
        self.assertFalse(os.path.exists(self.path("no.pt2")))

    def test_a_program_that_was_not_lowered(self):
        shutil.copy(self.path("model.pt2"), self.path("model.octet"))
        self.assertIn("is a zip, as torch.export.save writes; lower it first", self.fails("run", self.path("model.octet"), "--inputs", self.path("x.pt"), "--outputs", self.path("y.pt")))

    def test_data_of_other_types(self):
        self.save("dict.pt", collections.OrderedDict(x=torch.randn(1, 3, 32, 32)))
        line = self.fails("run", self.path("model.pt2"), "--inputs", self.path("dict.pt"), "--outputs", self.path("y.pt"))
        self.assertNotIn("report a bug", line)
        self.assertIn("want a torch.save file of a tuple or list of tensors", line)
        self.assertIn("a list of tuples is data, for --calibration", self.fails("run", self.path("model.pt2"), "--inputs", self.path("calibration.pt"), "--outputs", self.path("y.pt")))

    def test_settings_beside_the_place_for_them(self):
        with open(self.path("x86.json"), "w") as file:
            json.dump({"base": "x86", "reduce_range": True}, file)
        line = self.fails("quantize", self.path("model.pt2"), "--quantizer", self.path("x86.json"), "--calibration", self.path("calibration.pt"), "--output", self.path("no.pt2"))
        self.assertIn('/reduce_range: got true, want it within a setting, e.g. {"base": "x86", "global": {"reduce_range": true}}', line)


if __name__ == "__main__":
    unittest.main()
