"""Runs torchao's own affine and float8 ops: make_affine_goldens.py FILE. The file's form is that of make_qdq_goldens.py."""

import sys

import torch
import torchao.quantization  # noqa: F401  (registers the ops)
from make_qdq_goldens import calls, record

OPS = torch.ops.torchao
MAPPINGS = ("SYMMETRIC", "SYMMETRIC_NO_CLIPPING_ERR", "ASYMMETRIC")


def call(name, label, *args):
    return record(f"torchao.{name}.default", getattr(OPS, name).default, label, *args)


def round_trip(label, x, block, mapping, dtype, low, high, eps=None, scale_dtype=None, zero_dtype=None, keepdim=False):
    results = call("choose_qparams_affine", label, x, mapping, block, dtype, low, high, eps, scale_dtype, zero_dtype, keepdim)
    if len(results) != 2:
        return
    scale, zero = results
    (q,) = call("quantize_affine", label, x, block, scale, zero, dtype, low, high)
    if not isinstance(q, str):
        call("dequantize_affine", label, q, block, scale, zero, dtype, low, high)
        call("dequantize_affine", label, q, block, scale, None, dtype, low, high, torch.bfloat16)
        call("dequantize_affine", label, q, block, scale, zero, dtype, low, high, torch.float16)


def inputs():
    torch.manual_seed(0)
    yield "random", torch.randn(4, 6, 8) * 3
    yield "positive", torch.rand(4, 6, 8) + 1
    yield "negative", -torch.rand(4, 6, 8) - 1
    yield "zeros", torch.zeros(4, 6, 8)
    yield "tiny", torch.full((4, 6, 8), 1e-39)
    yield "half", torch.randn(4, 6, 8).half() * 5
    yield "bfloat16", torch.randn(4, 6, 8).bfloat16() * 5
    yield "double", torch.randn(4, 6, 8).double()
    yield "transposed", torch.randn(8, 6, 4).transpose(0, 2)
    nan = torch.randn(4, 6, 8)
    nan[1, 2, 3] = float("nan")
    yield "nan", nan
    infinite = torch.randn(4, 6, 8)
    infinite[3, 5, 7] = float("inf")
    yield "infinite", infinite


def granularities():
    blocks = {"tensor": (4, 6, 8), "row": (1, 1, 8), "axis 0": (1, 6, 8), "axis 1": (4, 1, 8), "group": (1, 1, 4), "block": (2, 3, 4),
              "element": (1, 1, 1), "uneven": (1, 1, 3), "short": (6, 8), "minus one": (1, 1, -1)}
    ranges = [(torch.int8, None, None), (torch.int8, -127, 127), (torch.int8, -8, 7), (torch.uint8, 0, 255), (torch.uint8, 0, 15)]
    for label, x in inputs():
        for name, block in blocks.items():
            for mapping in MAPPINGS:
                for dtype, low, high in ranges:
                    # The conversion of NaN to an integer has no defined result.
                    if label in ("nan", "infinite"):
                        call("choose_qparams_affine", f"{label} {name}", x, mapping, list(block), dtype, low, high)
                    else:
                        round_trip(f"{label} {name}", x, list(block), mapping, dtype, low, high)


def options():
    torch.manual_seed(1)
    x = torch.randn(4, 8)
    for mapping in MAPPINGS:
        for dtype in (torch.int16, torch.int32, torch.int4, torch.uint4, torch.int2, torch.uint7, torch.float8_e4m3fn, torch.int64, torch.uint16):
            round_trip(f"{mapping} {dtype}", x, [1, 4], mapping, dtype, None, None)
        for scale_dtype in (torch.float64, torch.bfloat16, torch.float16):
            for zero_dtype in (None, torch.int8, torch.int64, torch.float32):
                round_trip("dtypes", x, [1, 8], mapping, torch.int8, -128, 127, 2**-12, scale_dtype, zero_dtype)
        round_trip("keepdim", x, [1, 4], mapping, torch.int8, -8, 7, None, None, torch.int32, True)
        round_trip("keepdim", x, [2, 8], mapping, torch.int8, -8, 7, 1e-5, torch.float32, torch.int32, True)
        round_trip("empty", torch.zeros(0, 4), [1, 4], mapping, torch.int8, None, None)
        round_trip("no columns", torch.zeros(2, 0), [1, 0], mapping, torch.int8, None, None)
        round_trip("scalar", torch.tensor(1.5), [], mapping, torch.int8, None, None)
        round_trip("float range", x, [1, 4], mapping, torch.int8, -7.5, 7.5)
        round_trip("range too wide", x, [1, 4], mapping, torch.int8, -129, 127)
    call("choose_qparams_affine", "unknown mapping", x, "PLAIN", [1, 4], torch.int8)
    call("choose_qparams_affine", "no input", None, "SYMMETRIC", [1, 4], torch.int8)
    ties = torch.arange(-8, 8).float().reshape(2, 8) * 0.5
    call("quantize_affine", "ties", ties, [1, 8], torch.ones(2), torch.ones(2, dtype=torch.int32), torch.int8, -128, 127)
    call("quantize_affine", "no zero point", ties, [1, 8], torch.ones(2), None, torch.int8, -128, 127)
    call("quantize_affine", "empty zero point", ties, [1, 8], torch.ones(2), torch.zeros(0), torch.int8, -128, 127)
    call("quantize_affine", "three scales", ties, [1, 8], torch.ones(3), torch.zeros(3), torch.int8, -128, 127)
    call("quantize_affine", "integers", ties.int(), [1, 8], torch.ones(2), torch.zeros(2), torch.int8, -128, 127)
    call("dequantize_affine", "wrong dtype", ties.to(torch.uint8), [1, 8], torch.ones(2), torch.zeros(2), torch.int8, -128, 127)
    call("dequantize_affine", "int output", ties.to(torch.int8), [1, 8], torch.ones(2), torch.zeros(2), torch.int8, -128, 127, torch.int32)
    call("dequantize_affine", "nibbles in int8", ties.to(torch.int8), [1, 8], torch.ones(2), torch.zeros(2), torch.uint4, 0, 15)
    call("dequantize_affine", "empty zero point", ties.to(torch.int8), [1, 8], torch.ones(2), torch.zeros(0), torch.int8, -128, 127)


def float8():
    torch.manual_seed(2)
    x = torch.randn(4, 8) * 100
    scales = [torch.tensor(0.5), torch.rand(1) + 0.1, torch.rand(4, 1) + 0.1, torch.rand(4, 2) + 0.1, torch.rand(2, 8) + 0.1, torch.rand(3, 1), torch.rand(8)]
    for scale in scales:
        for source in (x, x.half(), x.bfloat16(), torch.zeros(0, 8)):
            for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
                (q,) = call("quantize_affine_float8_non_decomposed", str(list(scale.shape)), source, scale, dtype)
                if not isinstance(q, str):
                    for out in (torch.float32, torch.bfloat16):
                        call("dequantize_affine_float8_non_decomposed", str(list(scale.shape)), q, scale, out)


def main():
    granularities()
    options()
    float8()
    torch.save(calls, sys.argv[1])
    print(len(calls), "calls,", sum(entry[-1] == "raises" if isinstance(entry[-1], str) else False for entry in calls), "of them raise")


if __name__ == "__main__":
    main()
