"""Training in several processes: the steps of one process, whatever the number; what ends it, and what resumes from a checkpoint."""
import os
import re
import signal
import subprocess
import time
import unittest

import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401 registers the q/dq ops
from support import CommandTest, SmallNet, sqnr
from test_mpi import ENVIRONMENT, has_mpi, mpirun, mpirun_command
from test_qat import labeled
from torch import nn

PREFIXES = ("octet: ", "resumed ", "warning: ", *(f"epoch {i}/" for i in range(1, 9)))


def children(process):
    with open(f"/proc/{process}/task/{process}/children") as file:
        return [int(number) for number in file.read().split()]


@unittest.skipUnless(has_mpi(), "built without MPI, or mpirun is not installed")
class MpiQat(CommandTest):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        self.export_open(SmallNet())
        self.save("validation.pt", labeled(3, 16, 2))

    def export_open(self, net, rows=16):
        """The network in training mode, with an open batch size."""
        program = torch.export.export(net.train(), (torch.randn(rows, 3, 16, 16),), dynamic_shapes=({0: torch.export.Dim("batch")},))
        torch.export.save(program, self.path("model.pt2"))

    def arguments(self, *more, train="train.pt", output="q.pt2", quantizer="xnnpack"):
        return ["qat", self.path("model.pt2"), "--quantizer", quantizer, "--train", self.path(train), "--output", self.path(output), "--lr", "0.02", *more]

    def lines(self, count, *arguments):
        code, lines = mpirun(count, *arguments, prefixes=PREFIXES)
        self.assertEqual(code, 0, lines)
        return lines

    def fails_together(self, count, *arguments):
        code, lines = mpirun(count, *arguments, prefixes=PREFIXES)
        self.assertNotEqual(code, 0)
        self.assertEqual(len(lines), 1, lines)
        return lines[0]

    def program(self, name):
        return torch.export.load(self.path(name)).module()

    def losses(self, lines):
        return [float(line.split("loss ")[1].split(",")[0]) for line in lines if re.match("epoch [0-9]+/[0-9]+: ", line)]

    def check_as_one(self, count, *more, least=30, **files):
        """`count` processes get where one does: the same losses, and outputs within what roundings that fall the other way cost."""
        arguments = self.arguments("--epochs", "2", *more, **files)
        one = [line for line in self.octet(*arguments)[1].splitlines() if line.startswith(PREFIXES)]
        x = labeled(1, 64, 3)[0][0]
        with torch.no_grad():
            want = self.program("q.pt2")(x)
            together = self.lines(count, *arguments)
            got = self.program("q.pt2")(x)
        self.assertEqual(len(self.losses(one)), 2, one)
        for own, shared in zip(self.losses(one), self.losses(together), strict=True):
            self.assertAlmostEqual(own, shared, delta=0.002 * own)
        self.assertGreater(sqnr(want, got), least, f"{count} processes {more}")

    def test_any_number_of_processes_takes_the_steps_of_one(self):
        self.save("train.pt", labeled(5, 16, 1))
        for count in (2, 4):
            self.check_as_one(count, "--validation", self.path("validation.pt"))

    def test_rows_that_do_not_divide_evenly_and_batches_smaller_than_the_processes(self):
        self.save("train.pt", [(x[:rows], y[:rows]) for (x, y), rows in zip(labeled(5, 16, 1), (16, 11, 3, 5, 2), strict=True)])
        self.check_as_one(4)

    def test_scales_that_are_learned_and_other_losses(self):
        self.save("train.pt", labeled(4, 16, 1))
        self.check_as_one(2, "--learn-ranges", "1")
        self.check_as_one(2, "--loss", "distill")
        self.save("train.pt", [(x, torch.randn(16, 10)) for x, _ in labeled(4, 16, 1)])
        self.check_as_one(2, "--loss", "mse", "--optimizer", "adamw")

    def test_labels_that_do_not_count_weigh_nothing(self):
        batches = labeled(4, 16, 1)
        for _, target in batches:
            target[:7] = -100
        self.save("train.pt", batches)
        self.check_as_one(2)

    def test_a_program_of_a_fixed_batch_gets_it_from_batches_that_are_as_many_times_larger(self):
        self.save("train.pt", labeled(5, 16, 1))
        arguments = self.arguments("--epochs", "1")
        one = self.losses(self.octet(*arguments)[1].splitlines())
        torch.manual_seed(0)
        torch.export.save(torch.export.export(SmallNet().train(), (torch.randn(8, 3, 16, 16),)), self.path("model.pt2"))
        two = self.losses(self.lines(2, *arguments))
        self.assertAlmostEqual(one[0], two[0], delta=0.01 * one[0])
        line = self.fails_together(4, *arguments)
        self.assertIn("4 processes cannot share it, as the program takes %x of [8, 3, 16, 16]; export the program with an open batch size", line)

    def test_a_killed_process_ends_all_and_any_number_goes_on_from_the_checkpoint(self):
        self.save("train.pt", labeled(40, 16, 1))
        options = ["--epochs", "3", "--checkpoint", self.path("c.pt"), "--checkpoint-every", "5"]
        whole = self.losses(self.octet(*self.arguments("--epochs", "3", output="whole.pt2"))[1].splitlines())
        for count, others in ((2, 4), (2, 1), (4, 2)):
            with self.subTest(count=count, others=others):
                if os.path.exists(self.path("c.pt")):
                    os.remove(self.path("c.pt"))
                process = subprocess.Popen(mpirun_command(count, *self.arguments(*options)), env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
                while process.poll() is None and not os.path.exists(self.path("c.pt")):
                    time.sleep(0.001)
                os.kill(children(process.pid)[-1], signal.SIGKILL)
                errors = process.communicate(timeout=60)[1]
                self.assertNotEqual(process.returncode, 0)
                own = [line for line in errors.splitlines() if line.startswith("octet: ")]
                self.assertEqual(own, [f"octet: interrupted; {self.path('c.pt')} holds the state of training; the same command resumes from it"])
                lines = self.lines(others, *self.arguments(*options, output="broken.pt2"))
                self.assertTrue(lines[0].startswith("resumed from "), lines)
                self.assertAlmostEqual(self.losses(lines)[-1], whole[-1], delta=0.05 * whole[0])
                self.program("broken.pt2")

    def test_dropout_goes_on_with_the_same_random_numbers(self):
        self.export_open(nn.Sequential(SmallNet(), nn.Dropout(0.5)))
        self.save("train.pt", labeled(6, 16, 1))
        options = ["--epochs", "2", "--checkpoint", self.path("c.pt")]
        self.lines(2, *self.arguments("--epochs", "2", output="whole.pt2"))
        self.lines(2, *self.arguments("--epochs", "1", *options[2:]))
        self.lines(2, *self.arguments(*options))
        x = labeled(1, 16, 3)[0][0]
        with torch.no_grad():
            self.assertTrue(torch.equal(self.program("whole.pt2")(x), self.program("q.pt2")(x)))

    def test_a_failure_in_one_process_ends_all_with_one_line(self):
        batches = labeled(5, 16, 1)
        batches[3][0][12] = float("nan")
        self.save("train.pt", batches)
        line = self.fails_together(2, *self.arguments())
        self.assertRegex(line, "^octet: train: %x: .*NaN.* \\(process 1 of 2\\)$")
        batches = labeled(5, 16, 1)
        batches[2][1][3] = 99
        self.save("train.pt", batches)
        line = self.fails_together(4, *self.arguments())
        self.assertRegex(line, "^octet: train: epoch 1 batch 2: .*99.* \\(process 0 of 4\\)$")
        self.assertFalse(os.path.exists(self.path("q.pt2")))

    def test_what_cannot_be_shared_is_refused_with_what_to_do(self):
        self.save("train.pt", labeled(2, 3, 1))
        line = self.fails_together(4, *self.arguments())
        self.assertIn(f"{self.path('train.pt')}: batches of 3 rows for 4 processes; start at most 3, or make larger batches", line)
        self.save("train.pt", labeled(2, 16, 1))
        self.write_json("h.json", {"base": "xnnpack", "global": {"is_per_channel": True, "is_qat": True, "act_observer": "fake_quantize(histogram)"}})
        line = self.fails_together(2, *self.arguments(quantizer=self.path("h.json")))
        self.assertIn("looks at more than minimum and maximum", line)


if __name__ == "__main__":
    unittest.main()
