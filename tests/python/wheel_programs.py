"""What tools/dev/wheel_check.sh runs: wheel_programs.py COMMAND FOLDER writes a small model with data,
and for each backend the program that the command makes of it and the result that it gives."""

import os
import subprocess
import sys

command, folder = sys.argv[1:]
os.environ.update(OCTET=command, OCTET_SCRATCH=folder)

import numpy  # noqa: E402
import torch  # noqa: E402

sys.path.insert(
    0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools")
)
from support import SmallNet  # noqa: E402


def path(name):
    return os.path.join(folder, name)


def octet(*arguments):
    subprocess.run([command, *arguments, "--quiet"], check=True, stdout=subprocess.DEVNULL)


torch.manual_seed(0)
net, x = SmallNet().requires_grad_(False).eval(), torch.randn(1, 3, 32, 32)
torch.export.save(torch.export.export(net, (x,)), path("model.pt2"))
torch.save([(torch.randn(1, 3, 32, 32),) for _ in range(4)], path("data.pt"))
torch.save((x,), path("x.pt"))
numpy.save(path("x.npy"), x.numpy())
octet(
    "quantize",
    path("model.pt2"),
    "--quantizer",
    "xnnpack",
    "--calibration",
    path("data.pt"),
    "--output",
    path("q.pt2"),
)
for backend in ("onednn", "xnnpack"):
    octet("lower", path("q.pt2"), "--backend", backend, "--output", path(backend + ".octet"))
    octet("run", path(backend + ".octet"), "--inputs", path("x.pt"), "--outputs", path("y.pt"))
    numpy.save(path(backend + ".npy"), torch.load(path("y.pt"))[0].numpy())
