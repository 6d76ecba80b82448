"""Tensor files between PyTorch and Octet: check_tensor_files.py TOOL WORK. TOOL: octet_roundtrip. Exits with 1 on a difference."""

import pathlib
import subprocess
import sys

import torch

STORED_DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64,
                 torch.bool, torch.complex64, torch.complex128]


def cases():
    base = torch.arange(24.0)
    yield "tensors", (torch.randn(2, 3), torch.tensor([1, 2], dtype=torch.int8))
    yield "list", [torch.randn(2), torch.randn(3)]
    yield "lone", torch.randn(3)
    yield "mixed", (torch.randn(2), 3, 0.25, True, None, "text")
    yield "strided", (base.view(4, 6).t(), base[3::5], base.view(2, 3, 4)[:, 1], base[2].expand(3, 2))
    yield "channels_last", (torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),)
    yield "shared", (base[:8], base[8:])
    yield "empty", (torch.zeros(0, 4), torch.tensor(2.5), torch.zeros(3, 0))
    yield "dtypes", tuple(torch.tensor([0, 1, 1]).to(dtype) for dtype in STORED_DTYPES)
    yield "gradient", (torch.randn(2, requires_grad=True), torch.nn.Parameter(torch.randn(2)))
    yield "numbers", (float("inf"), float("nan"), -1, 2**30, False)


def same(a, b):
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
    return type(a) is type(b) and (a == b or (a != a and b != b))


def main():
    tool, work = sys.argv[1], pathlib.Path(sys.argv[2])
    work.mkdir(parents=True, exist_ok=True)
    failures = []
    for name, value in cases():
        for mode, content in (("--tensors", value), ("--batches", [value, value])):
            before, after = work / f"{name}.pt", work / f"{name}.out.pt"
            torch.save(content, before)
            run = subprocess.run([tool, mode, str(before), str(after)], capture_output=True, text=True)
            if run.returncode != 0:
                failures.append(f"{name} {mode}: {run.stderr.strip()}")
                continue
            result = torch.load(after, weights_only=True)
            want = (value,) if isinstance(value, torch.Tensor) else tuple(value)
            if not isinstance(result, tuple) or len(result) != len(want) or not all(map(same, want, result)):
                failures.append(f"{name} {mode}: got {result}, want {want}")
    print("\n".join(failures) if failures else "all tensor files came back equal")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
