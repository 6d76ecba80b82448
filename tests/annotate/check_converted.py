"""Loads what Octet quantized with PyTorch, runs it, and compares with the peer's outputs: check_converted.py TOOL WORK.

TOOL: octet_convert_rules. WORK: where to write. Needs OCTET_GOLDEN_DIR. Prints one line per difference and exits with 1 when there is any.
"""
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from differences import compare  # noqa: E402
import numpy  # noqa: E402
import torch  # noqa: E402
import torch.ao.quantization.fx._decomposed  # noqa: E402,F401  registers the q/dq ops


def check(folder, path):
    case = json.loads((folder / "case.json").read_text())
    program = torch.export.load(path)
    inputs = [torch.from_numpy(numpy.load(folder / f"example_arg{i}.npy")) for i in range(case["num_inputs"])]
    outputs = program.module()(*inputs)
    outputs = [outputs] if isinstance(outputs, torch.Tensor) else list(outputs)
    for i, output in enumerate(outputs):
        want = numpy.load(folder / f"quantized_out{i}.npy")
        off = abs(output.detach().numpy().astype("f8") - want).max()
        if off > case["tolerance"]["quantized_out_atol"]:
            yield f"output {i} is off by {off}"
    originals = torch.export.load(folder / "model.pt2").state_dict
    for name, tensor in program.state_dict.items():
        if name not in originals and not name.startswith(("_frozen_param", "_scale_", "_zero_point_")):
            yield f"{name} is an unknown tensor"
    frozen = sum(name.startswith("_frozen_param") for name in program.state_dict)
    kept = sum(tensor.dim() > 1 for name, tensor in program.state_dict.items() if name in originals)
    if frozen + kept > len(originals) + frozen:
        yield "float weights were kept"
    stacks = [node.meta.get("nn_module_stack") for node in program.graph.nodes if "dequantize" in str(node.target)]
    if stacks and not any(stacks):
        yield "no dequantize op knows its module"


def main():
    tool, work = sys.argv[1:]
    subprocess.run([tool, work], check=True)
    root = pathlib.Path(os.environ["OCTET_GOLDEN_DIR"])
    paths = sorted(pathlib.Path(work).glob("*.pt2"))
    return compare([path.stem for path in paths], lambda name: check(root / name, pathlib.Path(work) / f"{name}.pt2"))


if __name__ == "__main__":
    sys.exit(main())
