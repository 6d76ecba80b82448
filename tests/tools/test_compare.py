"""octet compare: which op hurts, in the graph and as a backend runs it."""
import csv
import json
import math
import os
import signal
import subprocess
import time
import unittest
import zipfile

import torch
from torch import nn

from support import OCTET, CommandTest, SmallNet
from test_branches_and_loops import CASES, batches
from test_mpi import has_mpi, mpirun


class Tokens(nn.Module):
    """Numbers of tokens and their mask, beside a tensor that is quantized at the border; integers come out, too."""

    def __init__(self):
        super().__init__()
        self.table, self.norm = nn.Embedding(50, 32), nn.LayerNorm(32)
        self.more, self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 64), nn.Linear(64, 8)

    def forward(self, ids, mask, x):
        hidden = self.norm(self.table(ids) + self.more(x))
        hidden = self.down(torch.relu(self.up(hidden))) * mask.unsqueeze(-1).to(x.dtype)
        return hidden.sum(1), ids.argmax(1)


class Compare(CommandTest):
    def quantize(self, *more, quantizer="x86"):
        self.octet("quantize", self.path("model.pt2"), "--quantizer", quantizer, "--calibration", self.path("calibration.pt"),
                   "--output", self.path("q.pt2"), *more)
        return self.path("q.pt2")

    def lower(self, backend, name):
        self.octet("lower", self.path("q.pt2"), "--backend", backend, "--output", self.path(name))
        return self.path(name)

    def compare(self, *files):
        out, _ = self.octet("compare", *files, "--inputs", self.path("calibration.pt"), "--output", self.path("c.json"))
        with open(self.path("c.json")) as file:
            report = json.load(file)
        return out, {node["name"]: node for node in report["nodes"]}, report

    def outputs(self, name):
        values = []
        for i, batch in enumerate(torch.load(self.path("calibration.pt"))):
            self.save("x.pt", batch)
            self.octet("run", self.path(name), "--inputs", self.path("x.pt"), "--outputs", self.path("y.pt"))
            values.append(torch.load(self.path("y.pt"))[0].double())
        return torch.cat(values)

    def test_the_last_op_has_the_outputs_error(self):
        self.small_model()
        self.quantize()
        out, nodes, report = self.compare(self.path("model.pt2"), self.path("q.pt2"))
        want, got = self.outputs("model.pt2"), self.outputs("q.pt2")
        ratio = 10 * math.log10((want ** 2).sum() / ((want - got) ** 2).sum())
        last = next(node for node in nodes.values() if node.get("outputs_program"))
        self.assertAlmostEqual(last["errors"]["accumulated"]["sqnr_db"], ratio, places=3)
        self.assertAlmostEqual(last["errors"]["accumulated"]["max_abs"], (want - got).abs().max().item(), places=5)
        self.assertIn(f"{ratio:.1f} dB", out)
        samples = last["samples"]
        for index, *values in zip(samples["index"], samples["float"], samples["quantized"], strict=True):
            for whole, value in zip((want, got), values):
                self.assertAlmostEqual(whole[tuple(index)].item(), value, places=5)
        # batch norms are members of their convolutions, with module and source
        stem = next(node for node in nodes.values() if node.get("module") == "stem.0")
        self.assertEqual([member.split("_")[0] for member in stem["members"]], ["conv2d", "batch"])
        self.assertIn("forward", stem["stack_trace"])
        self.assertEqual(len(stem["weight"]["sqnr_db"]), 16)
        self.assertEqual(report["kind"], "compare")
        ranks = sorted(node["rank"] for node in nodes.values() if "rank" in node)
        self.assertEqual(ranks, list(range(1, len(ranks) + 1)))

    def test_the_first_suggestion_helps(self):
        """A depthwise channel far beyond the others: its op in float gives most of the error back."""
        net, _ = self.small_model()
        with torch.no_grad():
            net.head.weight[3] *= 40
            net.project.weight[5] *= 60
        self.export(net, torch.randn(1, 3, 32, 32))
        self.quantize("--per-tensor", quantizer="xnnpack")
        _, nodes, _ = self.compare(self.path("model.pt2"), self.path("q.pt2"))
        worst = min((node for node in nodes.values() if "rank" in node), key=lambda node: node["rank"])
        self.assertIsNotNone(worst["suggestion"])
        before = min(node["errors"]["isolated"]["sqnr_db"] for node in nodes.values() if node.get("rank") == 1)
        self.quantize("--per-tensor", "--config", self.write_json("config.json", worst["suggestion"]), quantizer="xnnpack")
        _, after, _ = self.compare(self.path("model.pt2"), self.path("q.pt2"))
        own = after[worst["name"]]["errors"]["isolated"]["sqnr_db"]
        self.assertTrue(own == "inf" or own > before + 3, (before, own))

    def test_a_float_program_lowered_as_it_is(self):
        """Lowering folds batch norms; each op is still next to the value that it gives."""
        self.small_model()
        self.octet("lower", self.path("model.pt2"), "--backend", "onednn", "--output", self.path("m.octet"))
        _, nodes, _ = self.compare(self.path("model.pt2"), self.path("m.octet"))
        compared = {name: node["errors"]["lowering"]["sqnr_db"] for name, node in nodes.items() if (node.get("errors") or {}).get("lowering")}
        self.assertGreater(len([name for name in compared if name.startswith("conv2d")]), 1)
        self.assertFalse([name for name in compared if name.startswith("batch_norm")])
        for name, ratio in compared.items():
            self.assertTrue(ratio == "inf" or ratio > 90, (name, ratio))

    def test_lowered_programs(self):
        self.small_model()
        self.quantize()
        onednn, xnnpack = self.lower("onednn", "m.octet"), self.lower("xnnpack", "x.octet")
        _, nodes, _ = self.compare(self.path("model.pt2"), self.path("q.pt2"), onednn)
        lowered = [node for node in nodes.values() if "lowering" in node.get("errors", {})]
        self.assertGreaterEqual(len(lowered), 5)
        for node in lowered:
            self.assertNotEqual(node.get("cause"), "lowering", node)
            steps = node["errors"]["lowering"]["max_steps"]
            self.assertTrue(steps is None or steps <= 1, node)
        self.assertTrue(any(node.get("latency_us", 0) > 0 for node in lowered))
        for files in [(self.path("q.pt2"), onednn), (onednn, xnnpack)]:
            out, nodes, _ = self.compare(*files)
            self.assertIn("lowered outputs", out)
            self.assertTrue(all("lowering" in node["errors"] for node in nodes.values() if "rank" in node))

    def test_limits_for_ci(self):
        self.small_model()
        self.quantize()
        lowered = self.lower("onednn", "m.octet")
        files = ("compare", self.path("model.pt2"), self.path("q.pt2"), lowered, "--inputs", self.path("calibration.pt"))
        self.octet(*files, "--min-sqnr", "10", "--max-steps", "1")
        self.assertRegex(self.fails(*files, "--min-sqnr", "90"),
                         r"^octet: compare: the outputs: have [\d.]+ dB, want at least 90\.0 \(--min-sqnr\)$")
        self.assertIn("--max-steps: applies to a lowered program", self.fails(*files[:3], *files[4:], "--max-steps", "1"))
        self.octet(*files, "--max-steps", "-1", code=2)
        # another program than the one that was lowered
        self.save("half.pt", [(x / 2,) for x, in torch.load(self.path("calibration.pt"))])
        self.octet("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--calibration",
                   self.path("half.pt"), "--output", self.path("q.pt2"))
        self.assertRegex(self.fails(*files, "--max-steps", "1"),
                         r"^octet: compare: \S+: is \d+ steps off on onednn, want at most 1 \(--max-steps\)$")

    def test_classes_that_change(self):
        self.small_model()
        self.save("calibration.pt", [(torch.randn(8, 3, 32, 32),) for _ in range(4)])
        net = SmallNet().eval()
        self.export(net, torch.randn(8, 3, 32, 32), name="float.pt2")
        with torch.no_grad():  # the least likely class becomes the most likely
            net.head.weight.neg_()
            net.head.bias.neg_()
        self.export(net, torch.randn(8, 3, 32, 32))
        self.quantize()
        self.save("labels.pt", torch.zeros(32, dtype=torch.long))
        data = ("--inputs", self.path("calibration.pt"))
        same = ("compare", self.path("model.pt2"), self.path("q.pt2"), self.lower("onednn", "m.octet"), *data)
        other = ("compare", self.path("float.pt2"), self.path("q.pt2"), *data)
        self.octet(*same, "--max-drop", "0.1")
        self.assertRegex(self.fails(*other, "--max-drop", "0.1"),
                         r"^octet: compare: the classes: differ for [\d.]+ % of the samples, want at most 10\.00 \(--max-drop\)$")
        self.octet(*same, "--max-drop", "0.1", "--labels", self.path("labels.pt"))
        self.octet(*other, "--max-drop", "2", code=2)
        self.octet(*other, "--labels", self.path("labels.pt"), code=2)

    def test_smoothed_and_equalized_programs_keep_their_twins(self):
        torch.manual_seed(0)
        net = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 8))
        with torch.no_grad():
            net[0].weight[4] *= 60
        self.export(net, torch.randn(4, 16))
        self.save("calibration.pt", [(torch.randn(4, 16),) for _ in range(16)])
        self.quantize("--effort", "high")
        _, nodes, report = self.compare(self.path("model.pt2"), self.path("q.pt2"))
        self.assertEqual(report["notes"], [])
        norm = next(node for node in nodes.values() if node["target"].startswith("aten.layer_norm"))
        # its channels have other factors, its error is that of rounding all the same
        self.assertGreater(norm["errors"]["accumulated"]["sqnr_db"], 25)

    def test_trained_programs(self):
        """Weights are others after training; their twins are found through the fused pairs."""
        self.small_model()
        self.save("train.pt", [(torch.randn(4, 3, 32, 32), torch.arange(4)) for _ in range(2)])
        net = SmallNet()
        self.export(net, torch.randn(4, 3, 32, 32), name="float.pt2")
        self.octet("qat", self.path("float.pt2"), "--quantizer", "xnnpack", "--train", self.path("train.pt"), "--epochs", "1", "--output", self.path("q.pt2"))
        self.save("calibration.pt", [(torch.randn(4, 3, 32, 32),) for _ in range(2)])
        _, nodes, report = self.compare(self.path("float.pt2"), self.path("q.pt2"))
        self.assertEqual(report["notes"], [])
        stem = next(node for node in nodes.values() if node.get("module") == "stem.0" and "weight" in node)
        self.assertEqual([member.split("_")[0] for member in stem["members"]], ["conv2d", "batch"])

    def test_a_checkpoint_of_training(self):
        """It is what `octet qat` writes when it ends there."""
        self.small_model()
        self.save("train.pt", [(torch.randn(4, 3, 32, 32), torch.arange(4)) for _ in range(2)])
        self.export(SmallNet(), torch.randn(4, 3, 32, 32), name="float.pt2")
        config = self.write_json("settings.json", {"module_name": {"head": {"weight_observer": "per_channel_min_max"}, "project": None}})
        self.octet("qat", self.path("float.pt2"), "--quantizer", "xnnpack", "--config", config, "--train", self.path("train.pt"), "--epochs", "2",
                   "--checkpoint", self.path("state.pt"), "--output", self.path("q.pt2"))
        self.save("calibration.pt", [(torch.randn(4, 3, 32, 32),) for _ in range(2)])
        os.remove(config)
        _, wanted, report = self.compare(self.path("float.pt2"), self.path("q.pt2"))
        _, nodes, got = self.compare(self.path("float.pt2"), self.path("state.pt"))
        self.assertEqual(got["summary"], report["summary"])
        self.assertEqual(nodes, wanted)
        inputs = ["--inputs", self.path("calibration.pt")]
        self.export(nn.Linear(3, 4), torch.randn(2, 3), name="linear.pt2")
        line = self.fails("compare", self.path("linear.pt2"), self.path("state.pt"), *inputs)
        self.assertIn("settings: ", line)
        self.octet("qat", self.path("float.pt2"), "--quantizer", "xnnpack", "--train", self.path("train.pt"), "--checkpoint", self.path("plain.pt"), "--output", self.path("q.pt2"))
        self.assertIn("belongs to a training of another model", self.fails("compare", self.path("linear.pt2"), self.path("plain.pt"), *inputs))
        self.assertIn("calibration.pt: holds a Tuple within another", self.fails("compare", self.path("float.pt2"), self.path("calibration.pt"), *inputs))
        tensors = list(torch.load(self.path("plain.pt")))
        for replaced, said in [({0: b"octet qat 1; loss 0"}, "another version of Octet"), ({1: b"{}"}, "is damaged"), ({1: b'{"quantizer": 3}'}, "is damaged")]:
            broken = [torch.tensor(list(replaced[i]), dtype=torch.uint8) if i in replaced else tensor for i, tensor in enumerate(tensors)]
            self.save("broken.pt", tuple(broken))
            self.assertIn(said, self.fails("compare", self.path("float.pt2"), self.path("broken.pt"), *inputs))
        self.save("broken.pt", tuple(tensors[:-1]))
        self.assertIn("another model", self.fails("compare", self.path("float.pt2"), self.path("broken.pt"), *inputs))
        with open(self.path("state.pt"), "rb") as file:
            cut = file.read()[:3000]
        with open(self.path("cut.pt"), "wb") as file:
            file.write(cut)
        self.assertIn("cut.pt", self.fails("compare", self.path("float.pt2"), self.path("cut.pt"), *inputs))

    def test_integers_at_the_border(self):
        """Programs that take and give integers have the errors of those that quantize themselves."""
        self.small_model()
        for quantizer, backend in [("xnnpack", "xnnpack"), ("x86", "onednn")]:
            with self.subTest(quantizer=quantizer):
                self.quantize(quantizer=quantizer)
                _, wanted, whole = self.compare(self.path("model.pt2"), self.path("q.pt2"), self.lower(backend, "q.octet"))
                self.quantize("--quantized-io", quantizer=quantizer)
                lowered = self.lower(backend, "io.octet")
                out, nodes, report = self.compare(self.path("model.pt2"), self.path("q.pt2"), lowered)
                self.assertEqual(report["summary"][:2], whole["summary"][:2])
                for name, node in wanted.items():
                    if "rank" in node:
                        for kind in ("accumulated", "isolated"):
                            self.assertEqual(nodes[name]["errors"].get(kind), node["errors"].get(kind), (name, kind))
                self.assertTrue(any((node.get("errors") or {}).get("lowering") for node in nodes.values()))
                self.compare(self.path("q.pt2"), lowered)
                # both of the kind
                _, _, report = self.compare(self.path("q.pt2"), self.path("q.pt2"))
                self.assertEqual(report["summary"][0], ["outputs", "equal"])
        archive = self.path("q.pt2")
        with zipfile.ZipFile(archive) as source, zipfile.ZipFile(self.path("bad.pt2"), "w") as target:
            for item in source.infolist():
                data = source.read(item)
                target.writestr(item, data.replace(b'"scale"', b'"scull"') if item.filename.endswith("quantized_io.json") else data)
        line = self.fails("compare", self.path("model.pt2"), self.path("bad.pt2"), "--inputs", self.path("calibration.pt"))
        self.assertIn("bad.pt2: the quantized_io.json in it is not what `octet quantize` wrote", line)

    def test_lowered_programs_of_tokens(self):
        """Two .octet that take token numbers, of every length, each op beside its own."""
        torch.manual_seed(0)
        batches = [(torch.randint(0, 50, (2, length)), torch.ones(2, length, dtype=torch.int64), torch.randn(2, length, 16)) for length in (5, 16, 9, 5)]
        length = torch.export.Dim("length", min=2, max=16)
        self.export(Tokens(), *batches[1], dynamic_shapes=({1: length},) * 3)
        self.save("calibration.pt", batches)
        self.quantize()
        files = [self.lower("onednn", "plain.octet"), self.lower("xnnpack", "plain_x.octet")]
        self.quantize("--quantized-io")
        files += [self.lower("onednn", "io.octet"), self.lower("xnnpack", "io_x.octet")]
        for first, second in [(0, 1), (2, 3), (0, 3), (3, 0)]:
            with self.subTest(first=files[first], second=files[second]):
                out, nodes, report = self.compare(files[first], files[second])
                self.assertEqual(report["summary"][0][0], "lowered outputs")
                ratio = report["summary"][0][1]
                self.assertTrue(ratio == "equal" or float(ratio.split()[0]) > 60, ratio)
                for name in ("linear", "linear_1", "embedding", "argmax"):
                    self.assertIsNotNone(nodes[name]["errors"].get("lowering"), (name, nodes[name]))
        # integers in the data where the programs take them
        scale = next(line for line in self.octet("inspect", files[2])[0].splitlines() if line.startswith("scale x = "))
        step, zero = (float(number) for number in scale.removeprefix("scale x = ").split(", "))
        self.save("calibration.pt", [(ids, mask, (x / step).round().add(zero).clamp(0, 255).to(torch.uint8)) for ids, mask, x in batches])
        self.assertEqual(self.compare(files[2], files[3])[2]["summary"], self.compare(files[0], files[3])[2]["summary"])
        self.save("calibration.pt", [(torch.randint(0, 50, (2, 17)), torch.ones(2, 17, dtype=torch.int64), torch.randn(2, 17, 16))])
        self.assertIn("17", self.fails("compare", files[0], files[1], "--inputs", self.path("calibration.pt")))
        self.save("calibration.pt", [(torch.randint(0, 50, (2,)), torch.ones(2, dtype=torch.int64), torch.randn(2, 16))])
        self.assertIn("got 1 dimensions, want 2", self.fails("compare", files[0], files[1], "--inputs", self.path("calibration.pt")))

    def bodies(self, case, steps=None):
        net, make = CASES[case]
        torch.manual_seed(0)
        data = steps or batches(make)
        self.export(net().requires_grad_(False), *data[0])
        self.save("calibration.pt", data)
        self.quantize(quantizer="xnnpack")
        return self.compare(self.path("model.pt2"), self.path("q.pt2"))

    @staticmethod
    def decibels(node, kind):
        error = node["errors"].get(kind)
        return None if error is None else math.inf if error["sqnr_db"] == "inf" else error["sqnr_db"]

    def test_ops_inside_of_loops(self):
        for case, call, linears in (("while_loop", "while_loop", 1), ("scan", "scan", 2), ("map", "map_impl", 1)):
            with self.subTest(case=case):
                out, nodes, report = self.bodies(case)
                inner = {name: node for name, node in nodes.items() if "/" in name and "rank" in node}
                self.assertTrue(all(name.startswith(call) for name in inner), list(inner))
                rows = [node for node in inner.values() if node["target"].startswith("aten.linear")]
                self.assertEqual(len(rows), linears, list(inner))
                for node in rows:
                    # by itself it has at most the error that it has after the earlier iterations
                    self.assertLess(10, self.decibels(node, "accumulated"))
                    self.assertGreater(self.decibels(node, "isolated"), self.decibels(node, "accumulated") - 1)
                    self.assertEqual(len(node["weight"]["sqnr_db"]), 8)
                self.assertIn(next(iter(inner)), out)

    def test_the_last_op_of_a_body_has_the_stacked_error(self):
        _, nodes, report = self.bodies("map")
        inner = {name: node for name, node in nodes.items() if name.startswith("map_impl/")}
        last = [node for node in inner.values() if node["target"].startswith("aten.add")]
        self.assertEqual(len(last), 1, list(inner))
        self.assertEqual(report["summary"][0][1], f"{self.decibels(last[0], 'accumulated'):.1f} dB")

    def test_ops_inside_of_branches(self):
        _, nodes, _ = self.bodies("cond")
        branches = {name.split("/")[1] for name in nodes if "/" in name}
        self.assertEqual(len(branches), 2, list(nodes))
        self.assertEqual(nodes["cond/true_graph_0/linear"]["cause"], "weights")
        # a branch that is never taken says nothing
        _, nodes, _ = self.bodies("cond", [(torch.rand(2, 8) + 0.1,) for _ in range(4)])
        ranked = {name.split("/")[1] for name, node in nodes.items() if "/" in name and "rank" in node}
        self.assertEqual(ranked, {"true_graph_0"})

    def test_tables(self):
        self.small_model()
        self.quantize()
        out, _ = self.octet("compare", self.path("model.pt2"), self.path("q.pt2"), "--inputs", self.path("calibration.pt"), "--batches", "1",
                            "--top", "2", "--output", self.path("c.csv"), "--output", self.path("c.json"))
        with open(self.path("c.csv")) as file:
            rows = list(csv.DictReader(file))
        with open(self.path("c.json")) as file:
            ranked = sorted((node for node in json.load(file)["nodes"] if "rank" in node), key=lambda node: node["rank"])
        self.assertEqual([row["name"] for row in rows], [node["name"] for node in ranked])
        self.assertEqual(float(rows[0]["isolated_db"]), ranked[0]["errors"]["isolated"]["sqnr_db"])
        self.assertIn(f"... and {len(rows) - 2} more", out)
        # for Model Explorer: by the names of both programs' nodes
        self.octet("compare", self.path("model.pt2"), self.path("q.pt2"), "--inputs", self.path("calibration.pt"), "--output", self.path("c.model-explorer.json"))
        with open(self.path("c.model-explorer.json")) as file:
            data = json.load(file)
        self.assertEqual(list(data), ["graph"])
        self.assertEqual(set(data["graph"]), {"results", "thresholds"})
        self.assertEqual(set(data["graph"]["results"]), {node["name"] for node in ranked})
        self.assertLessEqual(set(data["graph"]["results"]), {node.name for node in torch.export.load(self.path("model.pt2")).graph.nodes})
        self.assertLessEqual(set(data["graph"]["results"]), {node["name"] for node in self.inspect("q.pt2")["nodes"]} | {"x"})
        limits = [step["value"] for step in data["graph"]["thresholds"]]
        self.assertEqual(limits, sorted(limits))
        self.assertTrue(all(isinstance(result["value"], float) for result in data["graph"]["results"].values()))

    @unittest.skipUnless(has_mpi(), "built without MPI, or mpirun is not installed")
    def test_processes_share_the_data(self):
        self.small_model()
        self.save("calibration.pt", [(torch.randn(1, 3, 32, 32),) for _ in range(5)])
        self.quantize()
        files = [self.path("model.pt2"), self.path("q.pt2"), self.lower("onednn", "m.octet")]
        _, alone, whole = self.compare(*files)
        for count in (2, 4):
            code, _ = mpirun(count, "compare", *files, "--inputs", self.path("calibration.pt"), "--output", self.path("c.json"))
            self.assertEqual(code, 0)
            with open(self.path("c.json")) as file:
                report = json.load(file)
            self.assertEqual(dict(report["summary"])["batches"], "5")
            self.assertEqual(report["summary"], whole["summary"])
            for node in report["nodes"]:
                for kind, error in node.get("errors", {}).items():
                    want = alone[node["name"]]["errors"][kind]
                    if error is not None and error["sqnr_db"] != want["sqnr_db"]:
                        self.assertAlmostEqual(error["sqnr_db"], want["sqnr_db"], places=5)
                        self.assertEqual(error["max_abs"], want["max_abs"])
                self.assertEqual(node.get("weight"), alone[node["name"]].get("weight"))
        code, lines = mpirun(6, "compare", *files, "--inputs", self.path("calibration.pt"), "--output", self.path("c.json"))
        self.assertNotEqual(code, 0)
        self.assertEqual(len(lines), 1)
        self.assertIn("5 batches for 6 processes", lines[0])

    def test_bad_input(self):
        self.small_model()
        self.quantize()
        inputs = ["--inputs", self.path("calibration.pt")]
        torch.manual_seed(1)
        self.export(nn.Sequential(nn.Conv2d(3, 4, 1), nn.Tanh()), torch.randn(1, 3, 32, 32), name="other.pt2")
        line = self.fails("compare", self.path("other.pt2"), self.path("q.pt2"), *inputs)
        self.assertRegex(line, r"compare: %\S+ .*is the first of \d+ ops .*without a counterpart in .*other.pt2")
        self.export(nn.Linear(3, 4), torch.randn(2, 3), name="linear.pt2")
        self.assertIn("input %", self.fails("compare", self.path("linear.pt2"), self.path("q.pt2"), *inputs))
        self.save("wrong.pt", [(torch.randn(1, 3, 16, 16),)])
        self.assertIn("32", self.fails("compare", self.path("model.pt2"), self.path("q.pt2"), "--inputs", self.path("wrong.pt")))
        swapped = ("compare", self.path("q.pt2"), self.path("model.pt2"), *inputs)
        self.assertIn("compare: the programs: the first has quantize or dequantize ops and the second has none, want the float program first", self.fails(*swapped))
        self.octet("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--mode", "dynamic", "--output", self.path("dynamic.pt2"))
        self.assertIn("want the float program first", self.fails("compare", self.path("dynamic.pt2"), self.path("model.pt2"), *inputs))
        self.octet("compare", self.path("q.pt2"), self.path("q.pt2"), *inputs)
        self.octet("lower", self.path("model.pt2"), "--backend", "onednn", "--output", self.path("float.octet"))
        self.octet("compare", self.path("model.pt2"), self.path("float.octet"), *inputs)
        self.assertIn("the lowered one computes in float", self.fails("compare", self.path("q.pt2"), self.path("float.octet"), *inputs))
        self.lower("onednn", "m.octet")
        self.assertIn("in this order", self.fails("compare", self.path("m.octet"), self.path("q.pt2"), self.path("model.pt2"), *inputs))
        self.assertIn("put the .pt2 first", self.fails("compare", self.path("m.octet"), self.path("q.pt2"), *inputs))
        self.assertIn("neither .pt2 nor .octet", self.fails("compare", self.path("x.pt"), self.path("q.pt2"), *inputs))
        self.assertIn("not a checkpoint of octet qat", self.fails("compare", self.path("model.pt2"), self.path("x.pt"), *inputs))
        with open(self.path("text.txt"), "w") as file:
            file.write("no program")
        self.assertIn("text.txt", self.fails("compare", self.path("model.pt2"), self.path("text.txt"), *inputs))
        line = self.fails("compare", self.path("model.pt2"), self.path("q.pt2"), *inputs, "--output", self.path("none/c.json"))
        self.assertIn("none", line)
        self.octet("compare", self.path("model.pt2"), self.path("q.pt2"), *inputs, "--output", self.path("c.txt"), code=2)

    def test_ctrl_c_leaves_no_file(self):
        self.small_model()
        self.quantize()
        self.save("long.pt", [(torch.randn(1, 3, 32, 32),) for _ in range(20000)])
        process = subprocess.Popen([OCTET, "compare", self.path("model.pt2"), self.path("q.pt2"), "--inputs", self.path("long.pt"), "--output", self.path("c.json")],
                                   stderr=subprocess.PIPE, stdout=subprocess.PIPE)
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("c.json")], [])


if __name__ == "__main__":
    unittest.main()
