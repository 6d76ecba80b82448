"""octet tune: outliers that someone planted are given back to float, and nothing else."""
import json
import math
import os
import unittest

import torch
from torch import nn

from support import CommandTest, SmallNet


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[layer for _ in range(6) for layer in (nn.Linear(32, 32), nn.ReLU())])
        self.head = nn.Linear(32, 8)

    def forward(self, x):
        return self.head(self.layers(x))


class Norms(nn.Module):
    """Layer norms with narrow channels before linears: the default smoothing scales them."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(32) for _ in range(4))
        self.up = nn.ModuleList(nn.Linear(32, 64) for _ in range(4))
        self.down = nn.ModuleList(nn.Linear(64, 32) for _ in range(4))
        self.head = nn.Linear(32, 8)
        with torch.no_grad():
            for norm in self.norms:
                norm.weight.copy_(torch.logspace(-2, 1, 32))

    def forward(self, x):
        for norm, up, down in zip(self.norms, self.up, self.down):
            x = x + down(torch.relu(up(norm(x))))
        return self.head(x)


class Deep(nn.Module):
    """Convolutions, most of the work in the first ones."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(inplace=True))
        self.body = nn.Sequential(*[layer for _ in range(5) for layer in (nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(inplace=True))])
        self.head = nn.Linear(16, 8)

    def forward(self, x):
        return self.head(self.body(self.stem(x)).mean((2, 3)))


class Tied(nn.Module):
    """A head that shares the table of the embedding, and a cache."""

    def __init__(self):
        super().__init__()
        self.words, self.body, self.head = nn.Embedding(64, 32), nn.Linear(32, 32), nn.Linear(32, 64, bias=False)
        self.head.weight = self.words.weight
        self.register_buffer("rows", torch.zeros(8, 32))

    def forward(self, ids, at):
        x = self.words(ids)
        return self.head(torch.relu(x + self.rows.index_copy_(0, at, self.body(x))[at]))


def noise(decibels):
    return 10 ** (-decibels / 10)


class Tune(CommandTest):
    def prepare(self, net, shape):
        self.export(net, torch.randn(*shape))
        torch.manual_seed(5)
        self.save("calibration.pt", [(torch.randn(*shape),) for _ in range(16)])

    def tune(self, *more, quantizer="x86", code=0):
        out = self.octet("tune", self.path("model.pt2"), "--quantizer", quantizer, "--calibration", self.path("calibration.pt"),
                         "--output", self.path("q.pt2"), "--save-config", self.path("config.json"), "--report", self.path("r.json"), *more, code=code)[1]
        with open(self.path("r.json")) as file:
            return out, json.load(file)

    def plain(self, quantizer="x86", *more):
        """Calibrates with the batches that tune calibrates with: it holds out one of eight."""
        self.octet("quantize", self.path("model.pt2"), "--quantizer", quantizer, "--calibration", self.path("calibration.pt"),
                   "--output", self.path("plain.pt2"), "--report", self.path("plain.json"), "--hold-out", "2", *more)
        with open(self.path("plain.json")) as file:
            return json.load(file)["quality"]

    def test_planted_outliers_are_given_back(self):
        """Four fifths of the noise that they make goes again."""
        cases = [(Mlp, (16, 32), lambda net: net.layers[4], "xnnpack"),
                 (Mlp, (16, 32), lambda net: net.layers[2], "x86"),
                 (Deep, (2, 3, 16, 16), lambda net: net.stem[0], "x86"),
                 (Deep, (2, 3, 16, 16), lambda net: net.stem[0], "xnnpack")]
        for net_class, shape, place, quantizer in cases:
            with self.subTest(net=net_class.__name__, quantizer=quantizer):
                torch.manual_seed(0)
                net = net_class().eval()
                self.prepare(net, shape)
                good = noise(self.plain(quantizer)["median_sqnr_db"])
                module = place(net)
                with torch.no_grad():
                    following = net.layers[list(net.layers).index(module) + 2] if isinstance(net, Mlp) else None
                    module.weight[1] *= 400
                    module.bias[1] *= 400
                    if following is not None:
                        following.weight[:, 1] /= 400
                self.prepare(net, shape)
                bad = noise(self.plain(quantizer)["median_sqnr_db"])
                self.assertGreater(bad, 2 * good)
                goal = good + 0.2 * (bad - good)
                _, report = self.tune("--min-sqnr", f"{-10 * math.log10(goal):.3f}", quantizer=quantizer)
                best = next(point for point in report["pareto"] if point["chosen"])
                self.assertLessEqual(noise(best["sqnr_db"]), goal * 1.001)
                self.assertLessEqual(len(report["trials"]), 25)
                self.assertLessEqual(best["float_share"], 0.65)

    def test_torchao_has_no_activations_of_sixteen_bits(self):
        torch.manual_seed(0)
        self.prepare(Mlp().eval(), (16, 32))
        for compat, has_int16 in (((), True), (("--compat", "torchao"), False)):
            with self.subTest(compat=compat):
                _, report = self.tune("--min-sqnr", "58", "--trials", "12", *compat)
                self.assertEqual("activation_bits" in json.dumps(report["trials"]), has_int16)
                self.assertEqual(any(trial["int16_share"] > 0 for trial in report["trials"]), has_int16)

    def test_the_settings_give_the_same_program(self):
        torch.manual_seed(0)
        net = SmallNet().eval()
        self.prepare(net, (1, 3, 32, 32))
        before = self.plain()["median_sqnr_db"]
        _, report = self.tune("--min-sqnr", f"{before + 2:.2f}")
        best = next(point for point in report["pareto"] if point["chosen"])
        self.assertGreaterEqual(best["sqnr_db"], before + 2)
        after = self.plain("x86", "--config", self.path("config.json"))
        self.assertAlmostEqual(after["median_sqnr_db"], best["sqnr_db"], places=6)
        self.assert_same_program()
        self.assertGreater(1 - best["float_share"], 0)
        self.assertEqual(report["kind"], "tune")

    def assert_same_program(self):
        """plain.pt2, which `octet quantize` made with the settings, and tune's."""
        with open(self.path("plain.pt2"), "rb") as plain, open(self.path("q.pt2"), "rb") as tuned:
            self.assertEqual(plain.read(), tuned.read())

    def test_what_trials_hand_on_changes_no_bit(self):
        """Trials share what observers have seen and what smoothing has measured; `octet quantize` starts over."""
        for net, shape, gain in [(Norms, (16, 32), 3), (Deep, (2, 3, 16, 16), 4), (Mlp, (16, 32), 6)]:
            for quantizer in ["x86", "xnnpack"]:
                with self.subTest(net=net.__name__, quantizer=quantizer):
                    torch.manual_seed(0)
                    self.prepare(net().eval(), shape)
                    goal = self.plain(quantizer)["median_sqnr_db"] + gain
                    said, report = self.tune("--min-sqnr", f"{goal:.2f}", quantizer=quantizer)
                    self.assertGreater(len(report["trials"]), 1)
                    if net is Norms:
                        self.assertIn("smooth", said)
                    after = self.plain(quantizer, "--config", self.path("config.json"))
                    best = next(point for point in report["pareto"] if point["chosen"])
                    self.assertEqual(after["median_sqnr_db"], best["sqnr_db"])
                    self.assert_same_program()

    def weights_net(self):
        """One layer has a large weight in each group, so that 4 bits leave little of the others."""
        torch.manual_seed(0)
        net = Mlp().eval()
        with torch.no_grad():
            net.layers[4].weight[:, ::16] *= 30
        return net

    def test_weights_of_four_bits_get_eight_where_it_pays(self):
        for quantizer, mode in [("xnnpack", "weight-only"), ("x86", "weight-only"), ("xnnpack", "dynamic"), ("x86", "dynamic")]:
            with self.subTest(quantizer=quantizer, mode=mode):
                self.prepare(self.weights_net(), (16, 32))
                four = self.plain(quantizer, "--mode", mode, "--weight-bits", "4")["median_sqnr_db"]
                eight = self.plain(quantizer, "--mode", mode)["median_sqnr_db"]
                self.assertGreater(eight, four + 6)
                said, report = self.tune("--mode", mode, "--weight-bits", "4", "--min-sqnr", f"{(four + eight) / 2:.2f}", quantizer=quantizer)
                self.assertIn("with weights of 8 bits", said)
                best = next(point for point in report["pareto"] if point["chosen"])
                self.assertEqual(report["trials"][0]["weight_bits"], 4)
                self.assertGreater(best["weight_bits"], 4)
                self.assertLess(best["weight_bits"], 9)
                self.assertIn("with weights of 8 bits", best["label"])
                after = self.plain(quantizer, "--mode", mode, "--config", self.path("config.json"))
                self.assertAlmostEqual(after["median_sqnr_db"], best["sqnr_db"], places=6)

    def test_no_change_asks_for_what_is_so_already(self):
        torch.manual_seed(0)
        batches = [(torch.randint(0, 64, (4,)), torch.arange(4) + i % 5) for i in range(16)]
        self.export(Tied().requires_grad_(False), *batches[0])
        self.save("calibration.pt", batches)
        trials = []
        for goal, code in (("28", 0), ("46", 0), ("300", 1)):
            _, report = self.tune("--mode", "weight-only", "--weight-bits", "4", "--min-sqnr", goal, code=code)
            trials += report["trials"]
        configs = json.dumps([trial["config"] for trial in trials])
        self.assertIn('"body": {"weight_bits": 8', configs)
        self.assertIn('"head": null', configs)
        self.assertNotIn('"head": {"weight_bits": 8', configs)
        self.assertNotIn('"words": {"weight_bits": 8', configs)
        self.assertNotIn("aten.", configs)  # relu, add and index_copy are float

    def test_a_size_gets_the_best_mix_of_bits(self):
        self.prepare(self.weights_net(), (16, 32))
        base = ["--mode", "weight-only"]
        for quantizer in ("x86", "xnnpack"):
            with self.subTest(quantizer=quantizer):
                sizes = {}
                for bits in (3, 4, 8):
                    self.plain(quantizer, *base, "--weight-bits", str(bits))
                    self.octet("lower", self.path("plain.pt2"), "--backend", "reference", "--output", self.path("plain.octet"))
                    sizes[bits] = os.path.getsize(self.path("plain.octet")) / 1e6
                goal = (sizes[4] + sizes[8]) / 2
                said, report = self.tune(*base, "--max-size", f"{goal:.6f}", quantizer=quantizer)
                best = next(point for point in report["pareto"] if point["chosen"])
                four = next(trial for trial in report["trials"] if trial["label"] == "weights of 4 bits")
                self.assertLessEqual(best["bytes"], goal * 1e6)
                self.assertGreater(best["sqnr_db"], four["sqnr_db"] + 3)
                self.assertRegex(said, "best of [0-9]+ evaluations .*: weights of [34] to 8 bits")
                after = self.plain(quantizer, *base, "--config", self.path("config.json"))
                self.assertAlmostEqual(after["median_sqnr_db"], best["sqnr_db"], places=6)
                self.assert_same_program()
                self.octet("lower", self.path("q.pt2"), "--backend", "reference", "--output", self.path("q.octet"))
                self.assertLessEqual(os.path.getsize(self.path("q.octet")), goal * 1e6)
                # all fit
                _, report = self.tune(*base, "--max-size", "1", quantizer=quantizer)
                self.assertEqual(next(point for point in report["pareto"] if point["chosen"])["weight_bits"], 8)

    def test_a_size_resumes_from_its_checkpoint(self):
        self.prepare(self.weights_net(), (16, 32))
        options = ["--mode", "weight-only", "--max-size", "0.03", "--checkpoint", self.path("trials.json")]
        _, first = self.tune(*options)
        _, second = self.tune(*options)
        self.assertEqual(first["trials"], second["trials"])

    def test_a_size_for_rows_that_groups_do_not_divide(self):
        torch.manual_seed(0)
        nets = {"alone": nn.Linear(20, 400), "mixed": nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 20), nn.ReLU(), nn.Linear(20, 1000))}
        for name, net in nets.items():
            with self.subTest(net=name):
                self.prepare(net.eval(), (16, 20 if name == "alone" else 32))
                self.plain("x86", "--mode", "weight-only")
                self.octet("lower", self.path("plain.pt2"), "--backend", "reference", "--output", self.path("plain.octet"))
                size = os.path.getsize(self.path("plain.octet"))
                # with 3 bits the last layer is float
                _, report = self.tune("--mode", "weight-only", "--max-size", f"{(size + 1) / 1e6:.6f}")
                self.assertEqual(next(point for point in report["pareto"] if point["chosen"])["weight_bits"], 8)
        # less than with 8 bits: the last layer has 8, others fewer
        _, report = self.tune("--mode", "weight-only", "--max-size", f"{(size - 500) / 1e6:.6f}")
        best = next(point for point in report["pareto"] if point["chosen"])
        self.assertLessEqual(best["bytes"], size - 500)
        self.assertLess(best["weight_bits"], 8)

    def test_sizes_that_make_no_sense(self):
        self.prepare(self.weights_net(), (16, 32))
        base = ["tune", self.path("model.pt2"), "--calibration", self.path("calibration.pt"), "--output", self.path("t.pt2"), "--save-config", self.path("c.json")]
        x86 = [*base, "--quantizer", "x86", "--mode", "weight-only"]
        self.assertRegex(self.fails(*x86, "--max-size", "0.001"), r"tune: --max-size: got 0.001 MB, want at least 0.0[0-9], which the program takes with weights of 3 bits")
        self.write_json("null.json", {"global": None})
        self.assertIn('--config has "global": null', self.fails(*x86, "--max-size", "1", "--config", self.path("null.json")))
        self.assertIn("leave --weight-bits out", self.fails(*x86, "--max-size", "1", "--weight-bits", "4"))
        self.assertIn("--mode static", self.fails(*base, "--quantizer", "x86", "--max-size", "1"))
        self.assertIn("want one of --min-sqnr", self.fails(*x86, "--max-size", "1", "--min-sqnr", "20"))
        self.assertIn("is a goal by itself", self.fails(*x86, "--max-size", "1", "--effort", "high"))
        self.assertIn("got the quantizer embedding, want x86, xnnpack or qnnpack alone", self.fails(*base, "--quantizer", "embedding", "--mode", "weight-only", "--max-size", "1"))

    def test_bits_cost_the_time_that_a_backend_takes(self):
        self.prepare(self.weights_net(), (16, 32))
        for quantizer, backend in [("xnnpack", "xnnpack"), ("x86", "onednn")]:
            with self.subTest(backend=backend):
                _, report = self.tune("--mode", "dynamic", "--weight-bits", "4", "--min-sqnr", "25", "--backend", backend, "--trials", "8", quantizer=quantizer)
                self.assertTrue(all(trial["latency_ms"] > 0 for trial in report["trials"]))
                self.assertGreaterEqual(next(point for point in report["pareto"] if point["chosen"])["sqnr_db"], 25)

    def test_weights_of_a_tensor_get_channels(self):
        torch.manual_seed(0)
        net = Mlp().eval()
        with torch.no_grad():
            net.layers[4].weight[1] *= 60
            net.layers[4].bias[1] *= 60
            net.layers[6].weight[:, 1] /= 60
        self.prepare(net, (16, 32))
        one = self.plain("xnnpack", "--mode", "dynamic", "--per-tensor")["median_sqnr_db"]
        each = self.plain("xnnpack", "--mode", "dynamic")["median_sqnr_db"]
        self.assertGreater(each, one + 3)
        said, report = self.tune("--mode", "dynamic", "--per-tensor", "--min-sqnr", f"{(one + each) / 2:.2f}", quantizer="xnnpack")
        best = next(point for point in report["pareto"] if point["chosen"])
        self.assertIn("with weights per channel", said)
        self.assertEqual(best["weight_bits"], 8)
        with open(self.path("config.json")) as file:
            config = json.load(file)
        self.assertIs(config["global"]["is_per_channel"], False)
        self.assertIn({"is_per_channel": True}, list(config["module_name"].values()))
        after = self.plain("xnnpack", "--mode", "dynamic", "--config", self.path("config.json"))
        self.assertAlmostEqual(after["median_sqnr_db"], best["sqnr_db"], places=6)

    def test_weights_rounded_anew_cost_nothing(self):
        """Where the weights make the error, rounding them with the data in mind comes before float."""
        torch.manual_seed(0)
        net = Mlp().eval()
        self.export(net, torch.randn(16, 32))
        mixing = torch.randn(32, 32)
        self.save("calibration.pt", [(torch.randn(16, 32) @ mixing,) for _ in range(16)])
        options = ("--mode", "dynamic", "--weight-bits", "4")
        before = self.plain("x86", *options)["median_sqnr_db"]
        _, report = self.tune("--min-sqnr", f"{before + 1:.2f}", "--effort", "high", *options)
        trials = report["trials"]
        best = next(point for point in report["pareto"] if point["chosen"])
        self.assertIn("rounded again", best["label"])
        self.assertEqual(best["weight_bits"], trials[0]["weight_bits"])
        self.assertGreaterEqual(best["sqnr_db"], before + 1)
        with open(self.path("config.json")) as file:
            rows = json.load(file)["effort"]["module_name"]
        self.assertTrue(rows)
        self.assertTrue(all(row == ["correct-bias", "round"] for row in rows.values()), rows)
        after = self.plain("x86", "--mode", "dynamic", "--config", self.path("config.json"))
        self.assertAlmostEqual(after["median_sqnr_db"], best["sqnr_db"], places=6)
        # not without being asked to
        _, report = self.tune("--min-sqnr", f"{before + 1:.2f}", *options)
        self.assertFalse([trial for trial in report["trials"] if "effort" in trial["config"]])
        line = self.fails("tune", self.path("model.pt2"), "--quantizer", "x86", "--calibration", self.path("calibration.pt"), "--min-sqnr", "30", "--effort", "high",
                          "--compat", "torchao", "--output", self.path("q.pt2"), "--save-config", self.path("config.json"))
        self.assertIn("tune: --effort high: changes weights and ranges", line)

    def test_settings_to_start_from_stay(self):
        """Also the settings of an op, where another of its options changes."""
        self.prepare(self.weights_net(), (16, 32))
        base = {"global": {"weight_bits": 4, "group_size": 16}, "module_name": {"head": {"weight_bits": 4, "group_size": 0}, "layers.0": None}}
        self.write_json("base.json", base)
        before = self.plain("x86", "--mode", "weight-only", "--config", self.path("base.json"))["median_sqnr_db"]
        _, report = self.tune("--mode", "weight-only", "--config", self.path("base.json"), "--min-sqnr", f"{before + 3:.2f}", quantizer="x86")
        with open(self.path("config.json")) as file:
            config = json.load(file)
        self.assertEqual(config["global"], base["global"])
        self.assertIsNone(config["module_name"]["layers.0"])
        self.assertNotEqual(config["module_name"], base["module_name"])
        best = next(point for point in report["pareto"] if point["chosen"])
        after = self.plain("x86", "--mode", "weight-only", "--config", self.path("config.json"))
        self.assertAlmostEqual(after["median_sqnr_db"], best["sqnr_db"], places=6)
        self.write_json("bad.json", {"module_name": {"head": {"weight_bits": 5}}})
        line = self.fails("tune", self.path("model.pt2"), "--quantizer", "x86", "--mode", "weight-only", "--config", self.path("bad.json"), "--calibration",
                          self.path("calibration.pt"), "--min-sqnr", "30", "--output", self.path("t.pt2"), "--save-config", self.path("c.json"))
        self.assertIn("bad.json: /module_name/head", line)

    def test_a_goal_that_is_met_already_changes_nothing(self):
        self.small_model()
        _, report = self.tune("--min-sqnr", "3")
        self.assertEqual(len(report["trials"]), 1)
        with open(self.path("config.json")) as file:
            self.assertEqual(json.load(file), {})

    def test_what_cannot_be_reached_is_said_with_the_nearest(self):
        self.small_model()
        errors, report = self.tune("--min-sqnr", "400", "--trials", "4", code=1)
        self.assertIn("the goal was not reached in 4 evaluations; the nearest, ", errors)
        self.assertEqual(len(report["trials"]), 4)
        self.assertTrue(os.path.exists(self.path("q.pt2")))

    def test_latency_is_measured_on_the_backend(self):
        self.small_model()
        _, report = self.tune("--min-sqnr", "3", "--backend", "onednn")
        self.assertGreater(report["trials"][0]["latency_ms"], 0)
        errors, _ = self.tune("--min-sqnr", "3", "--backend", "onednn", "--max-latency", "0.0000001", "--trials", "3", code=1)
        self.assertIn("not reached", errors)

    def test_labels_and_drop(self):
        torch.manual_seed(0)
        net = SmallNet().eval()
        self.prepare(net, (4, 3, 32, 32))
        self.save("labels.pt", torch.cat([net(batch).argmax(1) for batch, in torch.load(self.path("calibration.pt"))]))
        _, report = self.tune("--max-drop", "0.2", "--labels", self.path("labels.pt"), "--evaluate", self.path("calibration.pt"))
        best = next(point for point in report["pareto"] if point["chosen"])
        self.assertGreaterEqual(best["accuracy"], 0.8)

    def test_a_run_that_was_broken_off_goes_on(self):
        torch.manual_seed(0)
        self.prepare(SmallNet().eval(), (1, 3, 32, 32))
        goal = f"{self.plain()['median_sqnr_db'] + 3:.2f}"
        _, whole = self.tune("--min-sqnr", goal, "--checkpoint", self.path("whole.json"))
        if len(whole["trials"]) > 2:
            self.tune("--min-sqnr", goal, "--trials", "2", "--checkpoint", self.path("part.json"), code=1)
        errors, resumed = self.tune("--min-sqnr", goal, "--checkpoint", self.path("part.json"))
        self.assertEqual(resumed["trials"], whole["trials"])
        with open(self.path("whole.json")) as file:
            trials = file.read()
        with open(self.path("part.json")) as file:
            self.assertEqual(json.loads(trials)["trials"], json.load(file)["trials"])
        # of another run, and damaged
        self.assertIn("another model", self.fails("tune", self.path("model.pt2"), "--quantizer", "xnnpack", "--calibration", self.path("calibration.pt"), "--min-sqnr", goal,
                                                  "--output", self.path("q.pt2"), "--save-config", self.path("c.json"), "--checkpoint", self.path("whole.json")))
        with open(self.path("cut.json"), "w") as file:
            file.write(trials[:40])
        self.assertIn("damaged", self.fails("tune", self.path("model.pt2"), "--quantizer", "x86", "--calibration", self.path("calibration.pt"), "--min-sqnr", goal,
                                            "--output", self.path("q.pt2"), "--save-config", self.path("c.json"), "--checkpoint", self.path("cut.json")))

    def test_bad_goals(self):
        self.small_model()
        base = ["tune", self.path("model.pt2"), "--quantizer", "x86", "--calibration", self.path("calibration.pt"), "--output", self.path("q.pt2"), "--save-config", self.path("c.json")]
        self.assertIn("want one of --min-sqnr", self.fails(*base))
        self.assertIn("want one of --min-sqnr", self.fails(*base, "--min-sqnr", "30", "--max-drop", "0.1"))
        self.assertIn("--labels", self.fails(*base, "--max-drop", "0.1"))
        self.assertIn("--backend", self.fails(*base, "--min-sqnr", "30", "--max-latency", "1"))
        for goal, wrong in (("--max-drop", "1"), ("--max-drop", "-0.1"), ("--min-sqnr", "inf")):
            self.assertIn(f"tune: {goal}: is {wrong}, want ", self.fails(*base, goal, wrong, "--labels", self.path("few.pt")))
        self.assertIn("--min-sqnr: got nan, want a number", self.octet(*base, "--min-sqnr", "nan", code=2)[1])
        self.save("few.pt", torch.zeros(3, dtype=torch.long))
        self.assertIn("holds 3 classes", self.fails(*base, "--max-drop", "0.1", "--labels", self.path("few.pt")))
        self.assertFalse(os.path.exists(self.path("q.pt2")))
        self.assertFalse(os.path.exists(self.path("c.json")))
        # --config is an input here as everywhere.
        self.write_json("c.json", {})
        self.octet(*base[:-2], "--config", self.path("c.json"), "--min-sqnr", "30", code=2)
        self.assertIn("c.json: is named by --config and by --save-config", self.fails(*base, "--config", self.path("c.json"), "--min-sqnr", "30"))
        with open(self.path("c.json")) as file:
            self.assertEqual(json.load(file), {})


if __name__ == "__main__":
    unittest.main()
