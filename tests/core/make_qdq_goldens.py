"""Runs torch's own quantized_decomposed ops: make_qdq_goldens.py FILE.

Writes a list of tuples (op, label, number of arguments, arguments..., results...); dtypes are strings, a call that raises has the one result
"raises", a tensor after the string "as torch.uint16" is one of that dtype in other clothes, and one after "as list" is a list of ints.
"""

import sys

import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401  (registers the ops)

OPS = torch.ops.quantized_decomposed
RANGES = {
    torch.uint8: (0, 255),
    torch.int8: (-128, 127),
    torch.uint16: (0, 65535),
    torch.int16: (-32768, 32767),
    torch.int32: (-(2**31), 2**31 - 1),
    torch.float8_e4m3fn: (-448, 448),
    torch.float8_e5m2: (-57344, 57344),
}
# Dtypes that LibTorch's unpickler does not read: stored as the bytes of another one, after a string that names them.
STORED_AS = {torch.uint16: torch.int16, torch.float8_e4m3fn: torch.int8, torch.float8_e5m2: torch.int8}
calls = []


def stored(values):
    for value in values:
        if isinstance(value, torch.Tensor) and value.dtype in STORED_AS:
            yield f"as {value.dtype}"
            yield value.view(STORED_AS[value.dtype])
        elif isinstance(value, list):
            yield "as list"
            yield torch.tensor(value, dtype=torch.int64)
        else:
            yield str(value) if isinstance(value, torch.dtype) else value


def record(target, op, label, *args, **kwargs):
    try:
        results = op(*args, **kwargs)
    except Exception:  # whatever it is, Octet must refuse too
        results = "raises"
    results = results if isinstance(results, tuple) else (results,)
    arguments = [*args, *kwargs.values()]
    calls.append((target, label, len(arguments), *stored(arguments), *stored(results)))
    return results


def call(name, label, *args, **kwargs):
    packet, overload = name.split(".")
    return record(f"quantized_decomposed.{name}", getattr(getattr(OPS, packet), overload), label, *args, **kwargs)


def inputs():
    torch.manual_seed(0)
    wide = torch.randn(3, 5, 7) * 10
    image = torch.randn(2, 3, 4, 5) * 3
    yield "ties", torch.arange(-40, 41).float() * 0.5
    yield "random", wide
    yield "scalar", torch.tensor(1.2345)
    yield "empty", torch.zeros(0, 3)
    yield "transposed", wide.transpose(0, 2)
    yield "strided", wide[:, ::2, 1:]
    yield "expanded", torch.randn(4, 1).expand(4, 6)
    yield "channels last", image.to(memory_format=torch.channels_last)
    yield "huge", torch.tensor([1e30, -1e30, 3e9, -3e9, 8388607.5, -8388607.5, 4194303.5, 4194304.5, 2097151.5, 16777217.0, 0.0, -0.0])
    yield "half", (torch.randn(4, 4) * 5).half()
    yield "bfloat16", (torch.randn(4, 4) * 5).bfloat16()


def per_tensor():
    for dtype, (low, high) in RANGES.items():
        for label, x in inputs():
            # A value beyond int32 has no defined conversion.
            if dtype == torch.int32 and label == "huge":
                continue
            for scale, zero_point in [(1.0, 0), (1.0, 1), (0.1, 3), (0.0123456789, 0), (1 / 3, -7)]:
                (q,) = call("quantize_per_tensor.default", label, x, scale, zero_point, low, high, dtype)
                call("dequantize_per_tensor.default", label, q, scale, zero_point, low, high, dtype)
        x = torch.randn(3, 4)
        q = call("quantize_per_tensor.default", "narrow range", x * 1000, 0.5, 2, max(low, -7), 7, dtype)[0]
        call("dequantize_per_tensor.default", "out_dtype", q, 0.3, 2, low, high, dtype, out_dtype=torch.float16)
        call("dequantize_per_tensor.default", "out_dtype", q, 0.3, 2, low, high, dtype, out_dtype=torch.float64)
        s, z = torch.tensor([0.7], dtype=torch.float64), torch.tensor(3)
        low_t, high_t = torch.tensor(low), torch.tensor(high)
        call("quantize_per_tensor.tensor", "tensor", x, s, z, low, high, dtype)
        call("quantize_per_tensor.tensor2", "tensor2", x, s, z, low_t, high_t, dtype)
        call("dequantize_per_tensor.tensor", "tensor", q, s, z, low, high, dtype)
        call("dequantize_per_tensor.tensor2", "tensor2", q, s, z, low_t, high_t, dtype)
        call("quantize_per_tensor.default", "range too wide", x, 1.0, 0, low - 1 if dtype != torch.int32 else low, high, dtype)
    call("quantize_per_tensor.default", "large zero point", torch.randn(9), 0.01, 2**21, -(2**31), 2**31 - 1, torch.int32)
    call("quantize_per_tensor.default", "large zero point", torch.randn(9), 0.01, -(2**21), -128, 127, torch.int8)
    call("quantize_per_tensor.default", "f64 input", torch.randn(3).double(), 1.0, 0, -128, 127, torch.int8)
    call("quantize_per_tensor.default", "int64 output", torch.randn(3), 1.0, 0, -128, 127, torch.int64)
    call("dequantize_per_tensor.default", "wrong dtype", torch.zeros(3, dtype=torch.uint8), 1.0, 0, -128, 127, torch.int8)
    call("quantize_per_tensor.tensor", "two scales", torch.randn(3), torch.ones(2), torch.tensor(0), -128, 127, torch.int8)


def choose():
    cases = [("random", torch.randn(4, 6)), ("positive", torch.rand(5) + 1), ("negative", -torch.rand(5) - 1), ("zeros", torch.zeros(3)),
             ("half", torch.randn(4).half()), ("bfloat16", torch.randn(4).bfloat16()), ("f64", torch.randn(3).double()), ("tiny", torch.full((2,), 1e-12))]
    for label, x in cases:
        for dtype, low, high in [(torch.int8, -128, 127), (torch.int8, -127, 127), (torch.uint8, 0, 255), (torch.int16, -32768, 32767), (torch.int8, 1, 127)]:
            call("choose_qparams.tensor", label, x, low, high, 2**-12, dtype)
            call("choose_qparams_symmetric.tensor", label, x, low, high, 2**-12, dtype)
    for label, x in [("2d", torch.randn(4, 6)), ("3d", torch.randn(2, 3, 5)), ("half", torch.randn(3, 4).half()), ("bfloat16", torch.randn(3, 4).bfloat16()),
                     ("zeros", torch.zeros(2, 3)), ("positive", torch.rand(2, 3) + 4)]:
        call("choose_qparams_per_token.default", label, x, torch.int8)
        call("choose_qparams_per_token.default", label, x, torch.uint8)
        call("_choose_qparams_per_token_asymmetric_impl.default", label, x, torch.int8)
        s, z = call("choose_qparams_per_token_asymmetric.default", label, x, torch.int8)
        (q,) = call("quantize_per_token.default", label, x, s, z, -128, 127, torch.int8)
        call("dequantize_per_token.default", label, q, s, z, -128, 127, torch.int8, torch.float32)
    ties = torch.arange(-8, 8).float().reshape(2, 8) * 0.5
    call("quantize_per_token.default", "ties", ties, torch.ones(2, 1), torch.ones(2, 1, dtype=torch.int64), -128, 127, torch.int8)
    call("quantize_per_token.default", "three scales", ties, torch.ones(3, 1), torch.ones(3, 1), -128, 127, torch.int8)


def channels():
    for label, x in inputs():
        for axis in range(-1, x.dim() + 1):
            n = x.shape[axis] if -x.dim() <= axis < x.dim() and x.dim() else 1
            torch.manual_seed(axis + 1)
            for s, z in [(torch.rand(n) + 0.01, torch.randint(-5, 5, (n,))), (torch.rand(n).double() + 0.01, torch.zeros(n, dtype=torch.int32))]:
                if label == "huge":
                    continue
                for dtype in (torch.int8, torch.uint8, torch.int32):
                    low, high = RANGES[dtype]
                    (q,) = call("quantize_per_channel.default", label, x, s, z, axis, low, high, dtype)
                    if isinstance(q, str):
                        continue
                    call("dequantize_per_channel.default", label, q, s, z, axis, low, high, dtype)
                    call("dequantize_per_channel.default", label, q, s, None, axis, low, high, dtype, out_dtype=torch.float16)
                if axis >= 0:  # torch's adds a dimension for a negative one; Octet counts it from the end
                    call("fake_quant_per_channel.default", label, x, s, z, axis, -127, 127)
    w = torch.randn(4, 8)
    for group in (2, 4, 8, 3, 1):
        n = max(w.numel() // group, 1)
        s, z = torch.rand(n) + 0.1, torch.randint(-3, 3, (n,))
        (q,) = call("quantize_per_channel_group.default", f"group {group}", w, s, z, -8, 7, torch.int8, group)
        if not isinstance(q, str):
            call("dequantize_per_channel_group.default", f"group {group}", q, s, z, -8, 7, torch.int8, group, torch.float32)
            call("dequantize_per_channel_group.default", "no zero points", q, s, None, -8, 7, torch.int8, group, torch.float16)
    call("quantize_per_channel_group.default", "single column", w, torch.rand(4, 1) + 0.1, torch.zeros(4, 1), -8, 7, torch.int8, 128)
    call("quantize_per_channel_group.default", "nan", w * float("nan"), torch.rand(4, 1), torch.zeros(4, 1), -8, 7, torch.int8, 8)
    for dtype in (torch.float16, torch.float32, torch.int32):
        call("convert_element_type.no_fuse", "cast", w, dtype)


def main():
    per_tensor()
    choose()
    channels()
    torch.save(calls, sys.argv[1])
    print(len(calls), "calls")


if __name__ == "__main__":
    main()
