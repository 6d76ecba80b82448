"""octet.qat and octet.tune beside the command."""

import json
import os
import pickle
import subprocess
import sys
import unittest
import warnings

import numpy
import octet
import torch
from package_test import PackageTest
from torch import nn


class Search(PackageTest):
    def trained(self):
        torch.manual_seed(3)
        net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)).train()
        program = torch.export.export(net, (torch.randn(4, 8),))
        torch.export.save(program, self.path("model.pt2"))
        batches = [(torch.randn(4, 8), torch.randint(3, (4,))) for _ in range(8)]
        self.save("train.pt", batches)
        return program, batches

    def test_training_gives_the_command_s_bits(self):
        program, batches = self.trained()
        q = octet.qat(program, "xnnpack", train=batches, validation=batches[:2], epochs=2, lr=0.05, seed=4)
        self.save("validation.pt", batches[:2])
        self.octet(
            "qat", self.path("model.pt2"), "--quantizer", "xnnpack", "--train", self.path("train.pt"), "--validation",
            self.path("validation.pt"), "--epochs", "2", "--lr", "0.05", "--seed", "4", "--output", self.path("command.pt2"),
        )
        x = batches[0][0]
        self.assertTrue(torch.equal(q.module()(x), torch.export.load(self.path("command.pt2")).module()(x)))
        self.assertIn("quantized", repr(q))

    def test_files_train_on_other_devices(self):
        program, batches = self.trained()
        numpy.savez(self.path("train.npz"), *(torch.cat(part).numpy() for part in zip(*batches)))
        want = octet.qat(program, "xnnpack", train=batches, device="cpu:0").module()(batches[0][0])
        for name in ("train.pt", "train.npz"):
            q = octet.qat(program, "xnnpack", train=self.path(name), device="cpu:0")
            self.assertTrue(torch.equal(q.module()(batches[0][0]), want))
        with self.assertRaisesRegex(octet.Error, "inputs: .*none.npz: cannot be read"):
            octet.qat(program, "xnnpack", train=self.path("none.npz"), device="cpu:0")
        if not torch.cuda.is_available():
            with self.assertRaisesRegex(octet.Error, "^train: device: torch cannot use 'cuda': .*; give another$"):
                octet.qat(program, "xnnpack", train=self.path("train.npz"), device="cuda")

    def test_the_command_of_the_package_trains_on_other_devices(self):
        program, batches = self.trained()
        self.save("train.pt", batches)

        environment = {}

        def qat(*options):
            command = [sys.executable, "-m", "octet._command", "qat", self.path("model.pt2"), "--quantizer", "xnnpack", "--train", self.path("train.pt"), *options]
            return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})

        options = {"epochs": 2, "lr": 0.05, "seed": 4, "learn_ranges": 1, "per_tensor": True}
        said = qat("--device", "cpu:0", "--epochs", "2", "--lr=0.05", "--seed", "4", "--learn-ranges", "1", "--per-tensor", "-o", self.path("q.pt2"), "--report", self.path("r.json"))
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("octet: epoch 2/2: loss ", said.stderr)
        want = octet.qat(program, "xnnpack", train=batches, device="cpu:0", **options)
        self.assertTrue(torch.equal(want.module()(batches[0][0]), torch.export.load(self.path("q.pt2")).module()(batches[0][0])))
        with open(self.path("r.json")) as file:
            self.assertEqual(json.load(file)["summary"], want.report.data["summary"])
        model, both, lists = self.path("model.pt2"), self.path("both.json"), "--help lists the options"
        for code, line, options in (
            (1, "train: lr: is 0, want a number above 0", ("-o", "q.pt2", "--lr", "0")),
            (1, f"output: {model}: is an input file and would be overwritten; name another one", ("-o", model)),
            (1, "output: /missing/q.pt2: cannot be written; check that the folder exists and may be written to", ("-o", "/missing/q.pt2")),
            (1, "output: q.octet: want a name that ends in .pt2; octet.lower(q, backend).save() writes that form", ("-o", "q.octet")),
            (1, f"qat: {both}: is named by --output and by --report, want a separate file for each output; name another one", ("-o", both, "--report", both)),
            (2, f"qat: argument --report: r.txt: want a name that ends in .html or .json; {lists}", ("-o", "q.pt2", "--report", "r.txt")),
            (2, f"qat: argument --report: r.model-explorer.json: only --device cpu writes this form; {lists}", ("-o", "q.pt2", "--report", "r.model-explorer.json")),
            (2, f"qat: argument --epochs: invalid int value: 'two'; {lists}", ("-o", "q.pt2", "--epochs", "two")),
            (2, f"qat: the following arguments are required: -o/--output; {lists}", ()),
        ):
            said = qat("--device", "cpu:0", *options)
            self.assertEqual((said.returncode, said.stderr), (code, f"octet: {line}\n"))
        environment["OMPI_COMM_WORLD_SIZE"] = "2"
        said = qat("--device", "cpu:0", "-o", "q.pt2")
        self.assertEqual((said.returncode, said.stderr), (1, "octet: qat: --device: trains in one process; leave out mpirun\n"))

    def test_training_refuses(self):
        program, batches = self.trained()
        for settings, start in [
            ({"loss": "l1"}, 'train: loss: got "l1", want one of'),
            ({"epochs": 0}, "train: epochs: is 0"),
            ({"checkpoint_every": 3}, "qat: checkpoint_every: needs checkpoint"),
        ]:
            with self.assertRaises(octet.Error) as caught:
                octet.qat(program, "xnnpack", train=batches, **settings)
            self.assertTrue(str(caught.exception).startswith(start), caught.exception)
        with self.assertRaisesRegex(octet.Error, "train: "):
            octet.qat(program, "xnnpack", train=[(x,) for x, _ in batches])

    def test_tuning_gives_the_command_s_trials(self):
        program, batches, x = self.small_program()
        tuned = octet.tune(program, "xnnpack", calibration=batches, min_sqnr=30, trials=6)
        self.octet(
            "tune", self.path("model.pt2"), "--quantizer", "xnnpack", "--calibration", self.path("calibration.pt"), "--min-sqnr",
            "30", "--trials", "6", "--output", self.path("command.pt2"), "--save-config", self.path("config.json"),
            code=0 if tuned.reached else 1,
        )
        with open(self.path("config.json")) as file:
            self.assertEqual(json.load(file), tuned.config)
        expected = torch.export.load(self.path("command.pt2")).module()(x)
        self.assertTrue(torch.equal(tuned.module()(x), expected))
        twin = pickle.loads(pickle.dumps(tuned))
        self.assertTrue(torch.equal(twin.module()(x), expected))
        self.assertEqual(twin.trials, tuned.trials)
        self.assertEqual(octet.lower(tuned, "xnnpack")(x).shape, expected.shape)

    def test_a_goal_out_of_reach_is_a_warning(self):
        program, batches, _ = self.small_program()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tuned = octet.tune(program, "xnnpack", calibration=batches, min_sqnr=900, trials=2)
        self.assertFalse(tuned.reached)
        self.assertTrue(any("the goal was not reached in" in str(warning.message) for warning in caught))
        with self.assertRaisesRegex(octet.Error, "tune: "):
            octet.tune(program, "xnnpack", calibration=batches)


if __name__ == "__main__":
    unittest.main()
