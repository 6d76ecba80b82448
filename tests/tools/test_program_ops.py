"""A program computes and does nothing else: no command lets it read or write files of its choice."""
import json
import subprocess
import unittest
import zipfile

import torch
from support import OCTET, CommandTest, Function

FILE_OP = "torch.ops.aten.from_file.default"


def write_program_with(test, linear):
    """A program that maps victim.bin, four zeros, and fills it with 7: (its path, victim.bin)."""
    def forward(x):
        table = torch.full((4,), 2.0)
        table.fill_(7.0)
        return linear(x) + table

    net = Function(forward)
    net.linear = linear
    test.export(net, torch.randn(2, 4), name="plain.pt2")
    with zipfile.ZipFile(test.path("plain.pt2")) as source, zipfile.ZipFile(test.path("model.pt2"), "w") as target:
        for entry in source.namelist():
            data = source.read(entry)
            if entry.endswith("models/model.json"):
                program = json.loads(data)
                node = next(n for n in program["graph_module"]["graph"]["nodes"] if n["target"] == "torch.ops.aten.full.default")
                node["target"] = FILE_OP
                arguments = {"filename": {"as_string": test.path("victim.bin")}, "shared": {"as_bool": True}, "size": {"as_int": 4}}
                node["inputs"] = [{"name": key, "arg": value, "kind": 1} for key, value in arguments.items()]
                data = json.dumps(program).encode()
            target.writestr(entry, data)
    with open(test.path("victim.bin"), "wb") as file:
        file.write(bytes(16))
    return test.path("model.pt2"), test.path("victim.bin")


class ProgramOps(CommandTest):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        write_program_with(self, torch.nn.Linear(4, 4))
        data = [torch.randn(2, 4) for _ in range(4)]
        self.save("data.pt", [(x,) for x in data])
        self.save("train.pt", [(x, torch.zeros(2, dtype=torch.int64)) for x in data])
        self.save("x.pt", (data[0],))

    def victim(self):
        with open(self.path("victim.bin"), "rb") as file:
            return file.read()

    def commands(self):
        model, to = self.path("model.pt2"), ["--output", self.path("out.pt2")]
        quantizer, data = ["--quantizer", "x86"], ["--calibration", self.path("data.pt")]
        return {
            "run": [model, "--inputs", self.path("x.pt"), "--outputs", self.path("y.pt")],
            "bench": [model, "--seconds", "0.01"],
            "quantize": [model, *quantizer, *data, *to],
            "calibrate": [model, *quantizer, *data, "--state", self.path("s.json")],
            "lower": [model, "--backend", "onednn", "--output", self.path("out.octet")],
            "compare": [model, model, "--inputs", self.path("data.pt")],
            "qat": [model, *quantizer, "--train", self.path("train.pt"), *to],
            "tune": [model, *quantizer, *data, "--min-sqnr", "20", *to, "--save-config", self.path("c.json")],
            "fuse": [model, *to],
            "inspect": [model],
        }

    def test_no_command_lets_a_program_write_a_file(self):
        for name, arguments in self.commands().items():
            with self.subTest(name):
                if name in ("fuse", "inspect"):  # run nothing
                    self.octet(name, *arguments)
                else:
                    line = self.fails(name, *arguments)
                    self.assertIn("aten.from_file", line)
                self.assertEqual(self.victim(), bytes(16))
        self.assertRegex(
            self.fails("run", *self.commands()["run"]),
            r"^octet: run: %full \(aten.from_file.default\): programs may not call aten.from_file: it reads and writes files; leave it out of the "
            r"model, or allow it with --allow-op aten.from_file if you trust the file$",
        )

    def test_who_trusts_the_program_allows_the_op(self):
        for name in ("aten.from_file", "aten.from_file.default"):
            with self.subTest(name), open(self.path("victim.bin"), "wb") as file:
                file.write(bytes(16))
                file.flush()
                self.octet("run", *self.commands()["run"], "--allow-op", name)
                self.assertEqual(self.victim(), torch.full((4,), 7.0).numpy().tobytes())
        self.assertIn("aten.from_file", self.fails("run", *self.commands()["run"], "--allow-op", "aten.from_file.out"))
        self.assertIn("octet: run: from_file: cannot be allowed, want the name of an op with its namespace", self.fails("run", *self.commands()["run"], "--allow-op", "from_file"))

    def test_a_lowered_program_is_no_way_around(self):
        command = [self.path("model.pt2"), "--backend", "reference", "--fallback", "torch", "--output", self.path("p.octet")]
        self.octet("lower", *command, "--allow-op", "aten.from_file")
        with open(self.path("victim.bin"), "wb") as file:
            file.write(bytes(16))
        run = ["run", self.path("p.octet"), "--inputs", self.path("x.pt"), "--outputs", self.path("y.pt")]
        errors = subprocess.run([OCTET, *run], capture_output=True, text=True).stderr
        self.assertEqual(self.victim(), bytes(16), errors)


if __name__ == "__main__":
    unittest.main()
