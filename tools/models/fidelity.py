#!/usr/bin/env python3
"""How close quantized programs stay to float on data that calibration did not see.

    fidelity.py DIR [PROGRAM ...] [--peer]

DIR is what export.py wrote. Each PROGRAM (.pt2 or .octet) runs through `octet run`; --peer adds torchao's PT2E flow with ExecuTorch's
XNNPACKQuantizer on the same model and calibration data. Prints the median SQNR and the share of equal top-1 labels.
"""
import argparse
import glob
import os
import statistics
import subprocess
import sys
import tempfile

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from demo_table import OCTET, sqnr  # noqa: E402


def octet_outputs(program, folder):
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "y.pt")
        for inputs in sorted(glob.glob(os.path.join(folder, "inputs", "*.pt"))):
            subprocess.run([OCTET, "run", program, "--inputs", inputs, "--outputs", path], check=True)
            yield torch.load(path, weights_only=True)[0]


def peer_outputs(folder):
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    module = torch.export.load(os.path.join(folder, "model.pt2")).module(check_guards=False)
    prepared = prepare_pt2e(module, XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True)))
    with torch.no_grad():
        for batch in torch.load(os.path.join(folder, "calibration.pt")):
            prepared(*batch)
        converted = convert_pt2e(prepared)
        for batch in torch.load(os.path.join(folder, "held_back.pt")):
            yield converted(*batch)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("programs", nargs="*")
    parser.add_argument("--peer", action="store_true")
    options = parser.parse_args()
    floats = torch.load(os.path.join(options.folder, "float.pt"))
    rows = [(program, octet_outputs(program, options.folder)) for program in options.programs]
    if options.peer:
        rows.append(("torchao + XNNPACKQuantizer", peer_outputs(options.folder)))
    for name, outputs in rows:
        results = list(outputs)
        agreement = sum(a.argmax().item() == b.argmax().item() for a, b in zip(floats, results))
        ratio = statistics.median(sqnr(a, b) for a, b in zip(floats, results))
        print(f"{name:40s} SQNR {ratio:6.2f} dB   top-1 {agreement}/{len(floats)} = {agreement / len(floats):.3f}")


if __name__ == "__main__":
    main()
