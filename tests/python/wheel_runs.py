"""In an environment with a wheel (tools/wheel_check.sh): wheel_runs.py PACKAGE FOLDER runs the
programs of wheel_programs.py, whose results must have the same bits; of octet the whole way."""

import importlib
import os
import pathlib
import subprocess
import sys

import numpy

name, folder = sys.argv[1], pathlib.Path(sys.argv[2])
package = importlib.import_module(name)
assert package.__file__.startswith(sys.prefix), package.__file__
assert name == "octet" or "torch" not in sys.modules
x = numpy.load(folder / "x.npy")
for backend in ("onednn", "xnnpack"):
    y = package.load(str(folder / f"{backend}.octet"), threads=2)(x)
    assert y.tobytes() == numpy.load(folder / f"{backend}.npy").tobytes(), backend
if name == "octet":
    import torch

    # The whole way, and the command of the package: the same bytes each time.
    q = package.quantize(
        str(folder / "model.pt2"), "xnnpack", calibration=torch.load(folder / "data.pt")
    )
    package.lower(q, "onednn").save(str(folder / "again.octet"))
    package.export_onnx(q, str(folder / "again.onnx"))
    assert (folder / "again.octet").read_bytes() == (folder / "onednn.octet").read_bytes()
    command = os.path.join(sys.prefix, "bin", "octet")
    for program in ("xnnpack", "onednn"):
        lower = [
            command,
            "lower",
            str(folder / "q.pt2"),
            "--backend",
            program,
            "--output",
            str(folder / "again.octet"),
        ]
        subprocess.run(lower, check=True, stdout=subprocess.DEVNULL)
        assert (folder / "again.octet").read_bytes() == (folder / f"{program}.octet").read_bytes()
        run = [
            command,
            "run",
            str(folder / "again.octet"),
            "--inputs",
            str(folder / "x.pt"),
            "--outputs",
            str(folder / "y.pt"),
        ]
        subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
        assert (
            torch.load(folder / "y.pt")[0].numpy().tobytes()
            == numpy.load(folder / f"{program}.npy").tobytes()
        )
print(f"{name}: Python {sys.version.split()[0]}: the bits of the command")
