"""quantize and tune in several processes: the program of one process, whatever the number."""
import json
import os
import unittest

import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401 registers the q/dq ops
from support import CommandTest, sqnr
from test_mpi import has_mpi, mpirun
from torch import nn

PREFIXES = ("octet: ", "resumed ", "warning: ", "effort: ")


class Attention(nn.Module):
    """Layer norms before linears, which smoothing changes, and outputs of [samples, classes]."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.wide = nn.Linear(16, 32)
        self.narrow = nn.Linear(32, 16)
        self.head = nn.Linear(16, 6)
        with torch.no_grad():
            self.norm.weight[3] *= 20

    def forward(self, x):
        x = x + self.narrow(torch.relu(self.wide(self.norm(x))))
        return self.head(x.mean(1))


class Together(CommandTest):
    """A small model with data, and calls of the command in one process and in several."""

    def setUp(self):
        super().setUp()
        self.net, self.x = self.small_model()
        self.batches = [(torch.randn(1, 3, 32, 32),) for _ in range(12)]
        self.save("data.pt", self.batches)
        # minima and maxima merge to the bit
        self.quantizer = self.write_json("observers.json", {"base": "xnnpack", "global": {
            "is_per_channel": True, "act_observer": "min_max", "weight_observer": "per_channel_min_max"}})

    def arguments(self, output, *more, data="data.pt"):
        return ["quantize", self.path("model.pt2"), "--quantizer", self.quantizer, "--calibration", self.path(data), "--output", self.path(output), *more]

    def together(self, count, *arguments):
        code, lines = mpirun(count, *arguments, prefixes=PREFIXES)
        self.assertEqual(code, 0, lines)
        return lines

    def fails_together(self, count, *arguments):
        code, lines = mpirun(count, *arguments, prefixes=PREFIXES)
        self.assertNotEqual(code, 0)
        self.assertEqual(len(lines), 1, lines)
        return lines[0]

    def constants(self, name):
        program = torch.export.load(self.path(name))
        return program.graph_module.code, {**program.state_dict, **program.constants}

    def check_same(self, one, other, most=0.002):
        """Checks that graphs and scales are equal, and that at most this share of the integers differs."""
        (code, constants), (other_code, others) = self.constants(one), self.constants(other)
        self.assertEqual(code, other_code)
        self.assertEqual(set(constants), set(others))
        for name, tensor in constants.items():
            if tensor.is_floating_point():
                self.assertTrue(torch.allclose(tensor, others[name], rtol=1e-5, atol=1e-7), name)
            else:
                self.assertLessEqual((tensor != others[name]).double().mean().item(), most, name)


@unittest.skipUnless(has_mpi(), "built without MPI, or mpirun is not installed")
class MpiEffort(Together):
    def test_plain_quantization_gives_the_file_of_one_process_bit_by_bit(self):
        self.octet(*self.arguments("one.pt2"))
        for count in (2, 4):
            self.together(count, *self.arguments("more.pt2"))
            self.check_same("one.pt2", "more.pt2", most=0)

    def test_the_passes_of_high_effort_choose_what_they_choose_in_one_process(self):
        one = json.loads(self.quality("one.pt2"))
        for count in (2, 4):
            more = json.loads(self.quality("more.pt2", count))
            self.check_same("one.pt2", "more.pt2")
            for name in ("median_sqnr_db", "worst_sqnr_db"):
                self.assertAlmostEqual(one["quality"][name], more["quality"][name], delta=0.2)
            changed = [[note.split(":")[0] for note in report["notes"]] for report in (one, more)]
            self.assertEqual(changed[0], changed[1])

    def quality(self, output, count=1):
        arguments = self.arguments(output, "--effort", "high", "--report", self.path("r.json"))
        self.octet(*arguments) if count == 1 else self.together(count, *arguments)
        with open(self.path("r.json")) as file:
            return file.read()

    def test_smoothing_and_rounding_by_descent_are_shared_too(self):
        torch.manual_seed(1)
        self.net = Attention().eval()
        self.export(self.net, torch.randn(2, 5, 16))
        self.save("data.pt", [(torch.randn(2, 5, 16),) for _ in range(13)])
        passes = ["--passes", "equalize,smooth,correct-bias,adaptive"]
        self.octet(*self.arguments("one.pt2", *passes))
        for count in (2, 4):
            self.together(count, *self.arguments("more.pt2", *passes))
            self.check_same("one.pt2", "more.pt2")

    def test_histograms_merge_within_what_merging_costs(self):
        self.quantizer = "xnnpack"
        self.octet(*self.arguments("one.pt2", "--effort", "high"))
        self.together(3, *self.arguments("more.pt2", "--effort", "high"))
        with torch.no_grad():
            want, one, more = self.net(self.x), *(torch.export.load(self.path(name)).module()(self.x) for name in ("one.pt2", "more.pt2"))
        self.assertGreater(sqnr(want, more), sqnr(want, one) - 3)

    def test_a_checkpoint_goes_on_in_any_number_of_processes(self):
        more = ["--effort", "high", "--checkpoint", self.path("c.pt")]
        self.together(2, *self.arguments("two.pt2", *more))
        lines = self.together(4, *self.arguments("four.pt2", *more))
        self.assertTrue(lines[0].startswith(f"resumed from {self.path('c.pt')} after "), lines)
        self.check_same("two.pt2", "four.pt2", most=0)
        self.octet(*self.arguments("one.pt2", *more))
        self.check_same("two.pt2", "one.pt2", most=0)

    def test_more_processes_than_batches_and_bad_data_end_all_with_one_line(self):
        self.save("few.pt", self.batches[:4])
        line = self.fails_together(4, *self.arguments("q.pt2", "--effort", "high", data="few.pt"))
        self.assertIn("3 of the 4 batches are for the passes, too few for 4 processes; start at most 3", line)
        self.save("bad.pt", [*self.batches[:11], (torch.full((1, 3, 32, 32), float("inf")),)])
        line = self.fails_together(2, *self.arguments("q.pt2", "--effort", "high", data="bad.pt"))
        self.assertIn("batch 11", line)
        self.assertFalse(os.path.exists(self.path("q.pt2")))


@unittest.skipUnless(has_mpi(), "built without MPI, or mpirun is not installed")
class MpiTune(Together):
    def tune(self, count, *more):
        arguments = ["tune", self.path("model.pt2"), "--quantizer", self.quantizer, "--calibration", self.path("data.pt"), "--output", self.path("q.pt2"),
                     "--save-config", self.path("c.json"), "--report", self.path("r.json"), *more]
        lines = self.octet(*arguments)[1].splitlines() if count == 1 else self.together(count, *arguments)
        files = []
        for name in ("c.json", "r.json"):
            with open(self.path(name)) as file:
                files.append(json.load(file))
        return lines, *files

    def test_the_search_is_that_of_one_process(self):
        self.save("data.pt", self.batches + [(3 * torch.randn(1, 3, 32, 32),) for _ in range(6)])
        _, config, report = self.tune(1, "--min-sqnr", "45", "--trials", "8")
        self.assertGreater(len(report["trials"]), 3)
        for count in (2, 4):
            _, other, others = self.tune(count, "--min-sqnr", "45", "--trials", "8")
            self.assertEqual(config, other)
            self.assertEqual([trial["config"] for trial in report["trials"]], [trial["config"] for trial in others["trials"]])
            for one, more in zip(report["trials"], others["trials"], strict=True):
                if "mse" in json.dumps(one["config"]):  # whose histograms merge within a bin
                    self.assertAlmostEqual(one["sqnr_db"], more["sqnr_db"], delta=3)
                else:
                    self.assertEqual(one["sqnr_db"], more["sqnr_db"], "bit by bit")

    def test_accuracy_and_time_are_those_of_all(self):
        self.save("labels.pt", torch.randint(0, 10, (12,)))
        lines = [self.tune(count, "--max-drop", "0.5", "--labels", self.path("labels.pt"), "--backend", "reference", "--checkpoint", self.path(f"c{count}"))[2]
                 for count in (1, 3)]
        for name in ("accuracy", "error", "float_share"):
            self.assertEqual(*([trial[name] for trial in report["trials"]] for report in lines))
        self.assertGreater(lines[1]["trials"][0]["latency_ms"], 0)

    def test_more_processes_than_batches_are_refused(self):
        self.save("few.pt", self.batches[:2])
        line = self.fails_together(3, "tune", self.path("model.pt2"), "--quantizer", self.quantizer, "--calibration", self.path("few.pt"), "--output",
                                   self.path("q.pt2"), "--save-config", self.path("c.json"), "--min-sqnr", "30")
        self.assertIn("2 batches to calibrate with for 3 processes; start at most one per batch", line)


if __name__ == "__main__":
    unittest.main()
