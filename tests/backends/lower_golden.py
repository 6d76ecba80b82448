#!/usr/bin/env python3
"""Golden cases as .octet files for XNNPACK: lower_golden.py OCTET GOLDEN OUT [pattern...].

Each case's float program is quantized by the command with XNNPACK's quantizer on the case's calibration data, then lowered. What the command refuses is
named and left out; a program in which the quantizer finds nothing is lowered in float. tools/dev/aarch64.sh runs the files on another machine.
"""
import fnmatch
import json
import pathlib
import re
import subprocess
import sys

import numpy
import torch


def calibration(case):
    """One tuple of inputs for each calibration step: calib_<step>_arg<n>.npy."""
    steps = {}
    for path in sorted(case.glob("calib_*_arg*.npy")):
        step, argument = re.fullmatch(r"calib_(\d+)_arg(\d+)\.npy", path.name).groups()
        steps.setdefault(int(step), {})[int(argument)] = torch.from_numpy(numpy.load(path))
    return [tuple(step[i] for i in sorted(step)) for _, step in sorted(steps.items())]


def message(command):
    """The last line of a command that fails; empty for one that does not."""
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    return result.stderr.strip().splitlines()[-1] if result.returncode else ""


def lower(octet, case, out):
    """The message of the command that failed; empty when none did."""
    data, quantized = out / "calibration.pt", out / "q.pt2"
    torch.save(calibration(case), data)
    settings = {"base": "xnnpack", "global": {"is_per_channel": True, "is_dynamic": case.name.startswith("dyn_")}}
    quantizer = out / "quantizer.json"
    quantizer.write_text(json.dumps(settings))
    fault = message([octet, "quantize", case / "model.pt2", "--quantizer", quantizer, "--calibration", data, "--output", quantized])
    if fault and "finds nothing to quantize" not in fault:
        return fault
    program = case / "model.pt2" if fault else quantized
    return message([octet, "lower", program, "--backend", "xnnpack", "--output", out / (case.name + ".octet")])


def main(octet, golden, out, *patterns):
    golden, out = pathlib.Path(golden), pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    lowered = 0
    for case in sorted(golden.iterdir()):
        if not (case / "model.pt2").is_file() or not any(fnmatch.fnmatch(case.name, pattern) for pattern in patterns or ("xnn_*", "dyn_*")):
            continue
        fault = lower(octet, case, out)
        lowered += not fault
        if fault:
            print(f"{case.name}: {fault}", file=sys.stderr)
    for name in ("calibration.pt", "q.pt2", "quantizer.json"):
        (out / name).unlink(missing_ok=True)
    print(f"{lowered} lowered")


if __name__ == "__main__":
    main(*sys.argv[1:])
