"""Calibration in several processes: mpirun shares the data, process 0 merges the states."""
import json
import os
import shutil
import subprocess
import unittest

import torch

from support import OCTET, CommandTest

MPIRUN = shutil.which("mpirun")
os.environ["OMP_NUM_THREADS"] = "1"  # the same sums everywhere


def has_mpi():
    """Whether the command was built with MPI and mpirun is there."""
    with open(os.path.join(os.environ["OCTET_BUILD"], "CMakeCache.txt")) as file:
        found = any(line.startswith("MPI_C_LIB_NAMES:") and line.strip()[-1] != "=" for line in file)
    return found and MPIRUN is not None


ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def mpirun_command(count, *arguments):
    return [MPIRUN, "--oversubscribe", "--bind-to", "none", "-n", str(count), OCTET, *arguments]


def mpirun(count, *arguments, prefixes=("octet: ", "calibrate: ")):
    """Runs the command in `count` processes; returns (exit code, lines of stderr that are the command's)."""
    result = subprocess.run(mpirun_command(count, *arguments), env=ENVIRONMENT, capture_output=True, text=True, timeout=600)
    return result.returncode, [line for line in result.stderr.splitlines() if line.startswith(prefixes)]


@unittest.skipUnless(has_mpi(), "built without MPI, or mpirun is not installed")
class Mpi(CommandTest):
    def setUp(self):
        super().setUp()
        self.small_model()
        self.base = [self.path("model.pt2"), "--quantizer", "xnnpack"]
        self.batches = torch.load(self.path("calibration.pt")) + [(3 * torch.randn(1, 3, 32, 32),) for _ in range(3)]

    def use_observers(self, activations, weights):
        """A configuration in which the observers of that name see activations and weights."""
        with open(self.path("observers.json"), "w") as file:
            json.dump({"base": "xnnpack", "global": {"is_per_channel": True, "act_observer": activations, "weight_observer": weights}}, file)
        self.base[2] = self.path("observers.json")

    def arguments(self, name, batches):
        data = self.save(name + ".pt", batches)
        return ["calibrate", *self.base, "--calibration", data, "--state", self.path(name + ".json")]

    def calibrate(self, name, batches):
        self.octet(*self.arguments(name, batches))
        return self.path(name + ".json")

    def calibrate_together(self, name, count, batches):
        code, lines = mpirun(count, *self.arguments(name, batches))
        self.assertEqual((code, lines), (0, [f"calibrate: {count} processes"]))
        return self.path(name + ".json")

    def read(self, path):
        with open(path, "rb") as file:
            return file.read()

    def test_min_max_gives_the_state_of_one_process_bit_by_bit(self):
        self.use_observers("min_max", "per_channel_min_max")
        one = self.read(self.calibrate("one", self.batches))
        self.assertEqual(self.read(self.calibrate_together("three", 3, self.batches)), one)
        self.assertIn(b'"observer":"min_max"', one)
        self.assertEqual(self.read(self.calibrate_together("few", 3, self.batches[:2])), self.read(self.calibrate("two", self.batches[:2])),
                         "fewer batches than processes")

    def test_other_observers_merge_as_by_hand(self):
        for observer in ("histogram", "moving_average_min_max"):
            with self.subTest(observer=observer):
                self.use_observers(observer, "per_channel_mse")
                states = [self.calibrate(f"part{i}", part) for i, part in enumerate((self.batches[:2], self.batches[2:4], self.batches[4:]))]
                together = self.calibrate_together("together", 3, self.batches)
                for state, output in ((",".join(states), "by_hand.pt2"), (together, "together.pt2")):
                    self.octet("quantize", *self.base, "--state", state, "--output", self.path(output))
                self.save("x.pt", (torch.randn(1, 3, 32, 32),))
                self.assertTrue(torch.equal(self.run_file("by_hand.pt2")[0], self.run_file("together.pt2")[0]))

    def test_a_failure_in_one_process_ends_all_with_one_line(self):
        self.batches[5] = (torch.full((1, 3, 32, 32), float("nan")),)
        code, lines = mpirun(3, *self.arguments("bad", self.batches))
        self.assertNotEqual(code, 0)
        self.assertEqual(lines, ["octet: calibrate: batch 5 input 0 %x: the data holds NaN or infinities, want finite numbers; remove or clean this batch "
                                 "(process 2 of 3)"])
        self.assertFalse(os.path.exists(self.path("bad.json")))

    def test_a_failure_in_all_processes_is_told_once(self):
        code, lines = mpirun(3, "calibrate", *self.base, "--calibration", self.path("none.pt"), "--state", self.path("none.json"))
        self.assertNotEqual(code, 0)
        self.assertEqual(lines, [f"octet: inputs: {self.path('none.pt')}: cannot be read: No such file or directory (process 0 of 3)"])


if __name__ == "__main__":
    unittest.main()
