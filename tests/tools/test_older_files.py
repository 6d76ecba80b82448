"""Files of every version: each is read, or refused in one line that says what to do.

older_files/version_N.octet has the N-th format of .octet files: 1 and 2 a linear, 3 a convolution on XNNPACK, 4 a state, 5 a
branch, 6 a count, 7 a linear on oneDNN in bfloat16, 8 a cache of int8, 9 a weight of 3 bits with scales in bfloat16. state_2.json is what `octet calibrate` wrote about linear().
torch_V.pt2 is a convolution, a batch norm and a linear with an open batch, which version V of torch exported. The files
are never written again: a change that cannot read one of them breaks the promise of CHANGELOG.md.
"""
import json
import pathlib
import re
import shutil
import unittest
import zipfile

import torch
from support import CommandTest
from torch import nn

FILES = pathlib.Path(__file__).parent / "older_files"
# version -> (input, outputs of two calls) of those for the reference, which every build has
RUNS = {
    1: ([[1.0, -1.0]], [[4.0607614517211914, -3.5531659126281738]] * 2),
    2: ([[1.0, -1.0]], [[4.0607614517211914, -3.5531659126281738]] * 2),
    4: ([1.0, -2.0], [[2.0, -4.0], [4.0, -8.0]]),
    5: ([1.0, -2.0], [[2.0, -4.0]] * 2),
    6: ([1.0, -2.0], [[2.0]] * 2),
    8: ([[1.0, -1.0, 0.5, 0.25]], [[1.0, -1.0, 64 / 127, 32 / 127]] * 2),
    9: ([[1.0, -1.0, 0.5, 2.0] * 8 + [1.0, 0.25]], [[-1.852783203125]] * 2),
}
NEWEST = 9
READ = ("2.9", "2.10", "2.11", "2.12", "2.14", "2.15")  # what wrote torch_V.pt2; 2.13 writes the programs of all tests
REFUSED = {"2.6": "2.7 or older", "2.7": "2.7 or older", "2.8": "2.8"}


def linear():
    net = nn.Linear(2, 2)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[1.0, -2.0], [0.5, 4.0]]))
        net.bias.copy_(torch.tensor([1.0, 0.0]))
    return net


class OlderFiles(CommandTest):
    def setUp(self):
        super().setUp()
        x = torch.tensor([[1.0, -1.0]])
        self.export(linear(), x)
        self.save("data.pt", [(x,), (x * -3,)])

    def quantize(self, *options, call=None):
        return (call or self.octet)("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", *options, "--output", self.path("q.pt2"))

    def test_octet_files_of_all_versions_are_read(self):
        for version in range(1, NEWEST + 1):
            with self.subTest(version):
                text, _ = self.octet("inspect", str(FILES / f"version_{version}.octet"))
                self.assertTrue(text.startswith("input "), text)

    def test_they_give_the_results_of_their_time(self):
        for version, (x, wanted) in RUNS.items():
            with self.subTest(version):
                shutil.copy(FILES / f"version_{version}.octet", self.path("m.octet"))
                steps = [(torch.tensor(x),)] * 2
                self.octet("run", self.path("m.octet"), "--steps", "--inputs", self.save("steps.pt", steps), "--outputs", self.path("y.pt"))
                for got, want in zip(torch.load(self.path("y.pt")), wanted, strict=True):
                    torch.testing.assert_close(got[0].flatten(), torch.tensor(want), rtol=1e-6, atol=0)

    def test_programs_of_every_torch(self):
        x = (torch.arange(32, dtype=torch.float32).reshape(2, 1, 4, 4) % 9 - 4) / 4
        want = torch.tensor([[0.26443, 0.328206, 0.407364], [0.272795, 0.329416, 0.397789]])
        for version in READ:
            with self.subTest(version):
                file, quantized = str(FILES / f"torch_{version}.pt2"), self.path("q.pt2")
                self.octet("quantize", file, "--quantizer", "xnnpack", "--calibration", self.save("data.pt", [(x,)]), "--output", quantized)
                self.octet("lower", quantized, "--backend", "reference", "--output", self.path("q.octet"))
                for program, error in ((file, 1e-6), (quantized, 0.02), (self.path("q.octet"), 0.02)):
                    for size in (1, 2):
                        self.octet("run", program, "--inputs", self.save("x.pt", (x[:size],)), "--outputs", self.path("y.pt"))
                        torch.testing.assert_close(torch.load(self.path("y.pt"))[0], want[:size], rtol=0, atol=error)

    def test_programs_of_an_old_torch_are_refused(self):
        for version, said in REFUSED.items():
            with self.subTest(version):
                line = self.fails("inspect", str(FILES / f"torch_{version}.pt2"))
                self.assertTrue(line.endswith(f": is a program of torch {said}, want one of torch 2.9 to 2.15; export the model again"), line)

    def test_a_newer_octet_file_is_refused(self):
        data = (FILES / f"version_{NEWEST}.octet").read_bytes()
        changed = data.replace(f'"version":"{NEWEST}"'.encode(), f'"version":"{NEWEST + 1}"'.encode())
        self.assertNotEqual(data, changed)
        pathlib.Path(self.path("m.octet")).write_bytes(changed)
        line = self.fails("inspect", self.path("m.octet"))
        self.assertEqual(line, f"octet: artifact: {self.path('m.octet')}: has format version {NEWEST + 1}, want 1 to {NEWEST}; "
                         "lower the model again with this build")

    def test_states(self):
        self.quantize("--calibration", self.path("data.pt"))
        want = pathlib.Path(self.path("q.pt2")).read_bytes()
        self.quantize("--state", str(FILES / "state_2.json"))
        self.assertEqual(pathlib.Path(self.path("q.pt2")).read_bytes(), want)
        state = json.loads((FILES / "state_2.json").read_text())
        self.write_json("state.json", {**state, "format": 1})
        line = self.quantize("--state", self.path("state.json"), call=self.fails)
        self.assertRegex(line, "unknown format, got 1, want 2; calibrate again with this version$")

    def test_checkpoints(self):
        target = torch.tensor([0, 1])
        self.save("train.pt", [(torch.ones(2, 2), target)])
        self.export(linear(), torch.ones(2, 2), name="two.pt2")
        passes = ("quantize", self.path("model.pt2"), "--calibration", self.path("data.pt"), "--passes", "ranges")
        training = ("qat", self.path("two.pt2"), "--train", self.path("train.pt"), "--epochs", "1")
        for name, command in (("effort", passes), ("qat", training)):
            with self.subTest(name):
                file = self.path(f"{name}.pt")
                command = (*command, "--quantizer", "xnnpack", "--checkpoint", file, "--output", self.path("q.pt2"))
                self.octet(*command)
                self.octet(*command)
                head, *tensors = torch.load(file)
                text = bytes(head.tolist())
                self.assertTrue(re.search(f"octet {name} [23]".encode(), text), text[:80])
                older = re.sub(f"octet {name} [23]".encode(), f"octet {name} 1".encode(), text)
                self.save(f"{name}.pt", (torch.tensor(list(older), dtype=torch.uint8), *tensors))
                line = self.fails(*command)
                self.assertTrue(line.endswith(f"{name}.pt: is a checkpoint of another version of Octet; remove it to start over"), line)

    def with_newer_minor(self, change):
        """A copy of the model as a later torch would write it."""
        with zipfile.ZipFile(self.path("model.pt2")) as source, zipfile.ZipFile(self.path("newer.pt2"), "w") as target:
            for entry in source.namelist():
                data = source.read(entry)
                if entry.endswith("models/model.json"):
                    program = json.loads(data)
                    program["schema_version"]["minor"] = 99
                    change(program, program["graph_module"]["graph"])
                    data = json.dumps(program)
                target.writestr(entry, data)
        shutil.move(self.path("newer.pt2"), self.path("model.pt2"))

    def test_a_newer_schema_is_read_when_nothing_new_is_used(self):
        def add_fields(program, graph):
            tensors = list(graph["tensor_values"].values())
            nodes = graph["nodes"]
            for place in (program, program["graph_module"], graph, program["graph_module"]["signature"], *tensors, *nodes, *nodes[0]["inputs"]):
                place["of_a_later_version"] = [{"as_int": 3}]

        self.quantize("--calibration", self.path("data.pt"))
        want = self.octet("inspect", self.path("q.pt2"))
        self.with_newer_minor(add_fields)
        self.quantize("--calibration", self.path("data.pt"))
        self.assertEqual(self.octet("inspect", self.path("q.pt2")), want)
        torch.export.load(self.path("model.pt2"))

    def test_a_newer_schema_that_is_used_is_refused(self):
        def use(program, graph):
            graph["nodes"][0]["inputs"][0]["arg"] = {"as_later": 1}

        self.with_newer_minor(use)
        line = self.quantize("--calibration", self.path("data.pt"), call=self.fails)
        self.assertEqual(line, "octet: pt2: model.pt2: models/model.json (schema 8.99, want at most 8.20; export with torch 2.13 to 2.15) "
                         "does not follow the schema: an alternative is missing or unknown")


if __name__ == "__main__":
    unittest.main()
