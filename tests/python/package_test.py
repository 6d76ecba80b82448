"""What the tests of the Python packages share with those of the command."""

import os
import subprocess
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools"))

from support import OCTET, CommandTest, SmallNet, sqnr  # noqa: E402

__all__ = ["OCTET", "PackageTest", "SmallNet", "sqnr"]


class PackageTest(CommandTest):
    """A scratch folder a test, small programs and data."""

    def small_program(self):
        """(ExportedProgram, calibration batches, an input); the command's files of them are made
        by small_model() with the same seed."""
        net, x = self.small_model()
        program = torch.export.load(self.path("model.pt2"))
        batches = torch.load(self.path("calibration.pt"))
        return program, batches, x

    def lowered_files(self, *backends):
        """q.pt2 of the command and BACKEND.octet for each; returns an input."""
        _, x = self.quantized_model()
        for backend in backends:
            self.octet("lower", self.path("q.pt2"), "--backend", backend, "--output", self.path(backend + ".octet"))
        return x

    def bytes_of(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def python(self, script, *arguments):
        """What another process prints."""
        result = subprocess.run(
            [sys.executable, "-B", "-c", script, *arguments],
            capture_output=True,
            text=True,
            timeout=900,
        )
        self.assertEqual(result.returncode, 0, result.stderr[-3000:])
        return result.stdout
