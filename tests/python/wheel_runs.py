"""In an environment with a wheel (tools/dev/wheel_check.sh): wheel_runs.py PACKAGE FOLDER runs the
programs of wheel_programs.py, whose results must have the same bits; of octet the whole way."""

import importlib
import os
import pathlib
import subprocess
import sys
import types

import numpy

name, folder = sys.argv[1], pathlib.Path(sys.argv[2])
if name == "octet._octet":  # without octet/__init__.py, which imports torch
    site = pathlib.Path(importlib.import_module("octet_runtime").__file__).parents[1]
    sys.modules["octet"] = types.ModuleType("octet")
    sys.modules["octet"].__path__ = [str(site / "octet")]
package = importlib.import_module(name)
assert package.__file__.startswith(sys.prefix), package.__file__
assert name == "octet" or "torch" not in sys.modules
x = numpy.load(folder / "x.npy")
for backend in ("onednn", "xnnpack"):
    y = package.load(str(folder / f"{backend}.octet"), threads=2)(x)
    assert y.tobytes() == numpy.load(folder / f"{backend}.npy").tobytes(), backend
if name == "octet._octet":
    graph = package.Graph.read(str(folder / "q.pt2"))
    model, _, _ = package.lower(graph, "onednn", {}, {})
    assert model.to_bytes() == (folder / "onednn.octet").read_bytes()
if name == "octet":
    import torch

    def octet(*arguments):
        """The command of the package, in the folder."""
        command = os.path.join(sys.prefix, "bin", "octet")
        subprocess.run([command, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)

    def same(made, wanted):
        assert (folder / made).read_bytes() == (folder / wanted).read_bytes(), wanted

    # The whole way, and the command: the same bytes each time.
    data = torch.load(folder / "data.pt")
    q = package.quantize(str(folder / "model.pt2"), "xnnpack", calibration=data)
    package.export_onnx(q, str(folder / "again.onnx"))
    for backend in ("onednn", "xnnpack"):
        package.lower(q, backend).save(str(folder / "again.octet"))
        same("again.octet", f"{backend}.octet")
        octet("lower", "q.pt2", "--backend", backend, "--output", "again.octet")
        same("again.octet", f"{backend}.octet")
        octet("run", "again.octet", "--inputs", "x.pt", "--outputs", "again.pt")
        numpy.save(folder / "again.npy", torch.load(folder / "again.pt")[0].numpy())
        same("again.npy", f"{backend}.npy")
print(f"{name}: Python {sys.version.split()[0]}: the bits of the command")
