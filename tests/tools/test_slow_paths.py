"""What runs slower than it could is said: by lower, by run and bench, and call by call."""
import json
import os
import unittest

import torch

from support import CommandTest


class SlowPaths(CommandTest):
    def test_calls_in_floats_and_on_the_reference_are_marked_and_warned_of_once(self):
        class Net(torch.nn.Module):
            """Linear layers before and after an op that oneDNN lacks: two segments of it, one of the reference."""

            def __init__(self):
                super().__init__()
                self.table, self.first, self.second = torch.nn.Embedding(50, 32), torch.nn.Linear(32, 32), torch.nn.Linear(32, 8)

            def forward(self, x, i):
                return self.second(self.first(x) * self.table(i) + self.first(x))
        torch.manual_seed(0)
        inputs = torch.randn(4, 32), torch.randint(0, 50, (4,))
        self.export(Net(), *inputs)
        self.save("calibration.pt", [inputs])
        self.save("x.pt", inputs)
        self.octet("quantize", self.path("model.pt2"), "--quantizer", "x86", "--calibration", self.path("calibration.pt"), "--output", self.path("q.pt2"))
        self.octet("lower", self.path("q.pt2"), "--backend", "onednn", "--output", self.path("m.octet"))
        cause = "computed in floats, as this CPU has no AVX2"
        for command in (["run", "--inputs", self.path("x.pt"), "--outputs", self.path("y.pt")], ["bench", "--seconds", "0.01", "--streams", "2"],
                        ["bench", "--inputs", self.path("x.pt"), "--explain"]):
            out, errors = self.octet_at("SSE41", command[0], self.path("m.octet"), *command[1:])
            self.assertEqual(errors.count("warning: "), 1, errors)
            self.assertIn(cause, errors)
        lines = out.splitlines()
        notes = lines[lines.index("") + 1:]
        self.assertEqual([note[:4] for note in notes], [f"({n + 1}) " for n in range(len(notes))])
        self.assertTrue(any(cause in note for note in notes) and any("not on onednn: oneDNN has no embedding" in note for note in notes), out)
        calls = json.loads(self.octet_at("SSE41", "bench", self.path("m.octet"), "--inputs", self.path("x.pt"), "--explain", "--json")[0])["kernels"]
        self.assertEqual({call["kernel"] for call in calls if "not on onednn" in call["note"]}, {"reference"})
        self.assertTrue(all(cause in call["note"] for call in calls if "linear" in call["ops"]), calls)

    def test_programs_of_open_sizes_warn_too(self):
        torch.manual_seed(0)
        net, inputs = torch.nn.Linear(32, 8), (torch.randn(4, 32),)
        self.export(net, *inputs, dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=64)},))
        self.save("calibration.pt", [inputs])
        self.save("x.pt", (torch.randn(7, 32),))
        self.octet("quantize", self.path("model.pt2"), "--quantizer", "x86", "--calibration", self.path("calibration.pt"), "--output", self.path("q.pt2"))
        self.octet("lower", self.path("q.pt2"), "--backend", "onednn", "--output", self.path("m.octet"))
        for command in (["run", "--inputs", self.path("x.pt"), "--outputs", self.path("y.pt")], ["bench", "--seconds", "0.01"]):
            _, errors = self.octet_at("SSE41", command[0], self.path("m.octet"), *command[1:])
            self.assertEqual(errors.count("warning: linear: computed in floats, as this CPU has no AVX2"), 1, errors)

    def test_products_that_the_backend_lacks_are_warned_of(self):
        class Net(torch.nn.Module):
            """Two products of complex shape for XNNPACK, and one that it has."""

            def __init__(self):
                super().__init__()
                self.head, self.volume = torch.nn.Linear(16, 8), torch.nn.Conv3d(1, 1, 3, padding=1)

            def forward(self, x):
                return self.head(self.volume(self.volume(x)))
        torch.manual_seed(0)
        self.export(Net(), torch.randn(1, 1, 4, 4, 16))
        _, errors = self.octet("lower", self.path("model.pt2"), "--backend", "xnnpack", "--output", self.path("m.octet"))
        self.assertRegex(errors, "^warning: conv3d and 1 more: on the reference, which is slow: [^\n]+\n")
        # A second backend has them.
        out, errors = self.octet("lower", self.path("model.pt2"), "--backend", "xnnpack,onednn", "--output", self.path("m.octet"), "--explain")
        self.assertNotIn("warning", errors)
        self.assertRegex(out, r"(?m)^\d+ +onednn +conv +conv3d: .*  # xnnpack: [^;\n]+$")
        self.assertRegex(out, r"(?m)^\d+ +xnnpack +linear +linear: [^#\n]+$")
        program = json.loads(self.octet("inspect", self.path("m.octet"), "--json")[0])
        self.assertEqual(program["backend"], "xnnpack,onednn")
        self.assertEqual({op["backend"] for op in program["ops"] if op["macs"] > 0}, {"onednn", "xnnpack"})
        self.save("x.pt", (torch.randn(1, 1, 4, 4, 16),))
        self.octet("run", self.path("model.pt2"), "--inputs", self.path("x.pt"), "--outputs", self.path("want.pt"))
        self.octet("run", self.path("m.octet"), "--inputs", self.path("x.pt"), "--outputs", self.path("y.pt"))
        torch.testing.assert_close(torch.load(self.path("y.pt"))[0], torch.load(self.path("want.pt"))[0], rtol=1e-4, atol=1e-5)
        calls = json.loads(self.octet("bench", self.path("m.octet"), "--explain", "--json", "--seconds", "0.01")[0])["kernels"]
        self.assertTrue(any(call["note"].startswith("not on xnnpack: ") for call in calls), calls)
        self.octet("bench", self.path("m.octet"), "--streams", "2", "--seconds", "0.05")  # duplicates
        self.save("batches.pt", [(torch.randn(1, 1, 4, 4, 16),)])
        self.octet("compare", self.path("model.pt2"), self.path("m.octet"), "--inputs", self.path("batches.pt"), "--output", self.path("c.json"))
        with open(self.path("c.json")) as file:
            nodes = json.load(file)["nodes"]
        self.assertLessEqual({"onednn", "xnnpack"}, {node.get("backend") for node in nodes})
        self.assertIn("2 ops on onednn", self.octet("doctor", self.path("m.octet"))[0])

    def test_lists_of_backends_that_mean_nothing(self):
        self.export(torch.nn.Linear(4, 4), torch.randn(1, 4))
        for backends, message in [("xnnpack,,onednn", 'backend: "xnnpack,,onednn": has an empty name, want e.g. acme_npu,xnnpack'),
                                  ("xnnpack,xnnpack", "lower: xnnpack: is named twice; name each backend once"),
                                  ("xnnpack,reference", "lower: reference: is the fallback, not one of several backends; leave it out of the list")]:
            with self.subTest(backends=backends):
                self.assertEqual(self.fails("lower", self.path("model.pt2"), "--backend", backends, "--output", self.path("m.octet")), "octet: " + message)
        self.assertIn("tpu not in {", self.octet("lower", self.path("model.pt2"), "--backend", "xnnpack,tpu", "--output", self.path("m.octet"), code=2)[1])

    def octet_at(self, isa, *arguments):
        """As octet(), with oneDNN's kernels for older CPUs."""
        os.environ["ONEDNN_MAX_CPU_ISA"] = isa
        try:
            return self.octet(*arguments)
        finally:
            del os.environ["ONEDNN_MAX_CPU_ISA"]


if __name__ == "__main__":
    unittest.main()
