"""octet qat: training from the command line, broken off and continued, and what it refuses."""
import os
import signal
import subprocess
import time
import unittest

import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401 registers the q/dq ops
from support import OCTET, CommandTest, SmallNet
from torch import nn

CLASSES = 4
os.environ["OMP_NUM_THREADS"] = "1"  # small tensors


def labeled(count, batch, seed):
    """Noise images with a stripe whose place and color tell the class."""
    generator = torch.Generator().manual_seed(seed)
    batches = []
    for _ in range(count):
        target = torch.randint(0, CLASSES, (batch,), generator=generator)
        x = 0.5 * torch.randn(batch, 3, 16, 16, generator=generator)
        for i, number in enumerate(target.tolist()):
            x[i, number % 3, 4 * number:4 * number + 4] += 1.5
        batches.append((x, target))
    return batches


class Qat(CommandTest):
    def train_data(self, count=24, batch=16):
        torch.manual_seed(0)
        net = SmallNet().train()
        example = (torch.randn(batch, 3, 16, 16),)
        torch.export.save(torch.export.export(net, example), self.path("model.pt2"))
        self.save("train.pt", labeled(count, batch, 1))
        self.save("validation.pt", labeled(4, batch, 2))
        return net

    def arguments(self, *more, output="q.pt2", rate="0.05"):
        files = ["--train", self.path("train.pt"), "--output", self.path(output)]
        return ["qat", self.path("model.pt2"), "--quantizer", "xnnpack", *files, "--lr", rate, *more]

    def accuracy(self, name):
        program = torch.export.load(self.path(name)).module()
        with torch.no_grad():
            return sum((program(x).argmax(1) == y).float().mean().item() for x, y in labeled(4, 16, 2)) / 4

    def test_a_network_with_batch_norms_learns_and_its_quantized_file_runs_in_pytorch_and_on_backends(self):
        self.train_data()
        for quantizer in ("xnnpack", "x86"):
            arguments = self.arguments("--epochs", "15", "--validation", self.path("validation.pt"), "--freeze-after", "12", rate="0.1")
            arguments[3] = quantizer
            errors = self.octet(*arguments)[1]
            self.assertIn("epoch 15/15: loss ", errors)
            self.assertIn("; validation loss ", errors)
            self.assertGreater(self.accuracy("q.pt2"), 0.9, errors)
            graph = torch.export.load(self.path("q.pt2")).graph_module.code
            self.assertNotIn("batch_norm", graph)
            x = labeled(1, 16, 2)[0][0]
            self.save("x.pt", (x,))
            self.octet("lower", self.path("q.pt2"), "--backend", "reference", "--output", self.path("m.octet"))
            self.octet("run", self.path("m.octet"), "--inputs", self.path("x.pt"), "--outputs", self.path("y.pt"))
            with torch.no_grad():
                want = torch.export.load(self.path("q.pt2")).module()(x)
            self.assertLess((torch.load(self.path("y.pt"))[0] - want).abs().max().item(), 0.1 * want.abs().max().item())

    def test_killed_in_an_epoch_it_continues_to_the_result_of_an_unbroken_run(self):
        self.train_data(count=40)
        options = ["--epochs", "6", "--optimizer", "adamw", "--freeze-after", "3", "--patience", "9"]
        whole = self.arguments(*options, output="whole.pt2", rate="0.005")
        self.octet(*whole)
        broken = [a.replace("whole.pt2", "broken.pt2") for a in whole] + ["--checkpoint", self.path("c.pt"), "--checkpoint-every", "7"]
        kills = 0
        for delay in (0.0, 0.4, 0.9):
            before = os.stat(self.path("c.pt")).st_mtime_ns if os.path.exists(self.path("c.pt")) else 0
            process = subprocess.Popen([OCTET, *broken], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while process.poll() is None and not (os.path.exists(self.path("c.pt")) and os.stat(self.path("c.pt")).st_mtime_ns != before):
                time.sleep(0.001)
            time.sleep(delay)
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                kills += 1
            process.wait()
        self.assertGreater(kills, 0, "the run was over before it could be killed")
        errors = self.octet(*broken)[1]
        self.assertIn("resumed from ", errors)
        want, got = (torch.export.load(self.path(name)) for name in ("whole.pt2", "broken.pt2"))
        self.assertEqual(want.graph_module.code, got.graph_module.code)
        self.assertEqual(set(want.state_dict), set(got.state_dict))
        for name, tensor in {**want.state_dict, **want.constants}.items():
            other = got.state_dict[name] if name in got.state_dict else got.constants[name]
            self.assertTrue(torch.equal(tensor, other), name)

    def test_training_begins_with_the_ranges_of_a_calibration_and_learns_them(self):
        net = self.train_data(count=8)
        self.save("calibration.pt", [(x,) for x, _ in labeled(8, 16, 1)])
        torch.export.save(torch.export.export(net.eval(), (torch.randn(16, 3, 16, 16),)), self.path("eval.pt2"))
        self.octet("calibrate", self.path("eval.pt2"), "--quantizer", "xnnpack", "--calibration", self.path("calibration.pt"), "--state", self.path("s.json"))
        more = ["--state", self.path("s.json"), "--learn-ranges", "0", "--epochs", "8", "--schedule", "cosine"]
        errors = self.octet(*self.arguments(*more))[1]
        self.assertRegex(errors, "[0-9]+ ranges from .*s.json\n")
        losses = [float(line.split("loss ")[1].split(",")[0]) for line in errors.splitlines() if line.startswith("epoch ")]
        self.assertLess(losses[-1], 0.5 * losses[0])
        self.octet(*self.arguments("--state", self.path("s.json"), "--freeze-after", "0"))

    def test_broken_off_while_ranges_are_learned_it_continues_to_the_same_result(self):
        self.train_data(count=6)
        options = ["--learn-ranges", "1", "--schedule", "cosine", "--epochs", "3", "--checkpoint", self.path("c.pt")]
        self.octet(*self.arguments("--learn-ranges", "1", "--schedule", "cosine", "--epochs", "3", output="whole.pt2"))
        process = subprocess.Popen([OCTET, *self.arguments(*options, "--checkpoint-every", "2", output="broken.pt2")], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        while process.poll() is None and not os.path.exists(self.path("c.pt")):
            time.sleep(0.001)
        process.kill()
        process.wait()
        self.octet(*self.arguments(*options, output="broken.pt2"))
        want, got = (torch.export.load(self.path(name)) for name in ("whole.pt2", "broken.pt2"))
        self.assertEqual(want.graph_module.code, got.graph_module.code)

    def test_distillation_needs_no_targets_and_early_stop_takes_the_best_epoch(self):
        self.train_data(count=4)
        self.save("train.pt", [(x,) for x, _ in labeled(4, 16, 1)])
        errors = self.octet(*self.arguments("--loss", "distill", "--epochs", "40", "--patience", "2"))[1]
        losses = [float(line.split("loss ")[1]) for line in errors.splitlines() if line.startswith("epoch ")]
        self.assertLess(len(losses), 40)
        self.assertIn(f"stopped: no lower loss than {min(losses):.6g} for 2 epochs", errors)

    def test_mean_squared_error(self):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        torch.export.save(torch.export.export(net, (torch.randn(8, 4),)), self.path("model.pt2"))
        xs = [torch.randn(8, 4) for _ in range(8)]
        self.save("train.pt", [(x, x[:, :2] - x[:, 2:]) for x in xs])
        errors = self.octet(*self.arguments("--loss", "mse", "--epochs", "60"))[1]
        losses = [float(line.split("loss ")[1]) for line in errors.splitlines() if line.startswith("epoch ")]
        self.assertLess(losses[-1], 0.1 * losses[0])

    def test_wrong_data_and_options_are_said(self):
        self.train_data(count=2)
        options = self.arguments()
        train = self.path("train.pt")
        self.save("train.pt", [(torch.randn(16, 3, 16, 16),)])
        self.assertEqual(self.fails(*options), "octet: train: epoch 1 batch 0: got 1 values, want 2: the model's inputs and then the target")
        self.save("train.pt", [(torch.randn(16, 3, 16, 16), torch.randn(16))])
        self.assertEqual(self.fails(*options), "octet: train: epoch 1 batch 0: the target is floating point, want class numbers; or use --loss mse")
        self.assertEqual(self.fails(*options, "--loss", "mse"),
                         "octet: train: epoch 1 batch 0: the target is [16], want the shape of the output, [16, 10]")
        self.save("train.pt", [(torch.full((16, 3, 16, 16), float("nan")), torch.zeros(16, dtype=torch.int64))])
        self.assertRegex(self.fails(*options), "octet: train: .*NaN")
        self.save("train.pt", labeled(2, 16, 1))
        self.assertEqual(self.fails(*options, "--checkpoint-every", "2"), "octet: qat: --checkpoint-every: needs --checkpoint; give it a file")
        self.assertRegex(self.fails(*options, "--freeze-after", "0"),
                         "octet: train: --freeze-after: got 0, but %.* has no range yet; freeze later, or give --state of a calibration")
        self.assertEqual(self.fails(*options, "--learn-ranges", "0", "--compat", "torchao"),
                         "octet: qat: --learn-ranges: torchao's quantizers have no learned ranges; leave out --compat torchao")
        self.assertRegex(self.fails(*options, "--state", self.path("none.json")), "octet: state: .*none.json: cannot be read; check the path")
        self.octet(*options, "--checkpoint", self.path("c.pt"))
        self.assertRegex(self.fails(*options, "--seed", "5", "--checkpoint", self.path("c.pt")), "octet: train: .*c.pt: belongs to another run, got .*seed 0.*want .*seed 5")
        self.assertIn("not a checkpoint of octet qat", self.fails(*options, "--checkpoint", self.save("x.pt", (torch.ones(2),))))
        frozen = SmallNet().requires_grad_(False)
        torch.export.save(torch.export.export(frozen, (torch.randn(16, 3, 16, 16),)), self.path("model.pt2"))
        self.assertEqual(self.fails(*options), "octet: train: model: no parameter requires gradients; export the model with parameters that do")
        self.octet("qat", self.path("model.pt2"), "--quantizer", "xnnpack", "--train", train, "--output", self.path("q.pt2"), "--loss", "hinge", code=2)
        self.assertFalse([name for name in os.listdir(self.folder) if name.startswith("q.pt2.")])


if __name__ == "__main__":
    unittest.main()
