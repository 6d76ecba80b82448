"""Writes what torchao's observers and fake-quants make of data that both sides generate (see batch() and its twin in observer_cases.cpp).

Usage: python tests/annotate/make_observer_goldens.py
Writes observer_goldens.json and fake_quantize_goldens.json.
"""
import json
import os
import warnings

import torch
from torchao.quantization.pt2e import fake_quantize as peer_fake
from torchao.quantization.pt2e import observer as peer

warnings.filterwarnings("ignore")
torch.set_num_threads(1)


def batch(seed, shape, scale, shift, kind=""):
    """Bell-shaped numbers: sums of four 16-bit numbers of a linear congruential generator, exact in float32.

    kind: "empty" (no elements), "scalar" (the first element, without dimensions), "inf" (every 7th element infinite, with changing sign)."""
    if kind == "empty":
        return torch.empty([0] + list(shape)[1:])
    count = 1
    for size in shape:
        count *= size
    state, values = seed, []
    for _ in range(count):
        total = 0
        for _ in range(4):
            state = (state * 1664525 + 1013904223) % 2**32
            total += state >> 16
        values.append((total - 131072) / 32768)
    result = torch.tensor(values, dtype=torch.float32).reshape(shape) * scale + shift
    if kind == "inf":
        result.view(-1)[::14] = float("inf")
        result.view(-1)[7::14] = float("-inf")
    return result.view(-1)[0] if kind == "scalar" else result


CLASSES = {
    "min_max": peer.MinMaxObserver,
    "moving_average_min_max": peer.MovingAverageMinMaxObserver,
    "per_channel_min_max": peer.PerChannelMinMaxObserver,
    "moving_average_per_channel_min_max": peer.MovingAveragePerChannelMinMaxObserver,
    "histogram": peer.HistogramObserver,
}
FAST = [[1.0, 0.0], [2.0, 0.5], [0.5, -1.0], [3.0, 0.25]]  # [scale, shift] of each batch
GROWING = [[0.0009765625, 0.0], [1000.0, 0.0], [1.0, 0.0], [10.0, 3.0]]
SAME = [[1.0, 0.0]] * 4
POSITIVE = [[1.0, 2.5], [0.25, 4.0], [1.5, 3.0]]
CONSTANT = [[0.0, 0.75], [0.0, 0.75], [1.0, 0.0]]
ZERO = [[0.0, 0.0], [0.0, 0.0]]
CASES = []


def case(name, observer, batches, shape=(40, 50), **args):
    CASES.append({"name": name, "observer": observer, "shape": list(shape), "batches": batches, "args": args})


EPS = 2.0**-12
for dtype, low, high in [("int8", -128, 127), ("int8", -127, 127), ("uint8", 0, 255), ("uint8", 0, 127), ("int16", -32768, 32767), ("uint16", 0, 65535), ("int8", -8, 7)]:
    for scheme in ["affine", "symmetric"]:
        for kind in ["min_max", "histogram"]:
            case(f"{kind} {dtype} {low}..{high} {scheme}", kind, FAST, dtype=dtype, quant_min=low, quant_max=high, qscheme="per_tensor_" + scheme, eps=EPS)
        case(f"per channel {dtype} {low}..{high} {scheme}", "per_channel_min_max", FAST, (5, 60), dtype=dtype, quant_min=low, quant_max=high, qscheme="per_channel_" + scheme, eps=EPS, ch_axis=0)
for kind in ["min_max", "histogram"]:
    case(f"{kind} uint8 default range symmetric", kind, FAST, dtype="uint8", qscheme="per_tensor_symmetric")
    case(f"{kind} default range and eps", kind, FAST, dtype="int8", qscheme="per_tensor_affine")
    for name, batches in [("growing", GROWING), ("same", SAME), ("positive", POSITIVE), ("constant first", CONSTANT), ("zero", ZERO)]:
        case(f"{kind} {name}", kind, batches, dtype="int8", quant_min=-128, quant_max=127, qscheme="per_tensor_affine", eps=EPS)
case("int32 symmetric", "min_max", FAST, dtype="int32", qscheme="per_tensor_symmetric")
case("int32 affine", "min_max", FAST, dtype="int32", qscheme="per_tensor_affine")
case("256 bins", "histogram", FAST, dtype="int8", qscheme="per_tensor_affine", bins=256, eps=EPS)
case("many values", "histogram", FAST, (64, 256), dtype="int8", qscheme="per_tensor_affine", eps=EPS)
for constant in [0.01, 0.25]:
    case(f"moving average {constant}", "moving_average_min_max", FAST, dtype="int8", qscheme="per_tensor_affine", averaging_constant=constant, eps=EPS)
    case(f"moving average {constant} per channel", "moving_average_per_channel_min_max", FAST, (3, 7, 20), dtype="int8", qscheme="per_channel_affine", averaging_constant=constant, eps=EPS, ch_axis=1)
case("per channel axis 1", "per_channel_min_max", FAST, (3, 7, 20), dtype="int8", quant_min=-127, quant_max=127, qscheme="per_channel_symmetric", eps=EPS, ch_axis=1)
case("per channel axis 2", "per_channel_min_max", FAST, (3, 7, 4), dtype="uint8", qscheme="per_channel_affine", eps=EPS, ch_axis=2)
case("float qparams", "per_channel_min_max", POSITIVE, (4, 30), dtype="uint8", quant_min=0, quant_max=255, qscheme="per_channel_affine_float_qparams", eps=EPS, ch_axis=0)
case("float qparams of zeros", "per_channel_min_max", ZERO, (4, 30), dtype="uint8", quant_min=0, quant_max=255, qscheme="per_channel_affine_float_qparams", eps=EPS, ch_axis=0)
EMPTY = [[1.0, 0.0, "empty"], [1.0, 0.5], [2.0, 0.0, "empty"], [2.0, -0.5]]
SCALAR = [[2.0, 1.0, "scalar"], [1.0, 0.5], [8.0, 4.0, "scalar"]]
INFINITE = [[1.0, 0.5, "inf"], [2.0, 0.0], [3.0, 1.0, "inf"]]
LATE = [[1.0, 0.0]] + [[1.0 + i / 8, i / 16] for i in range(20)]
for kind in ["min_max", "moving_average_min_max", "histogram"]:
    for name, batches in [("empty", EMPTY), ("scalars", SCALAR), ("constant", CONSTANT[:2]), ("21 batches", LATE)]:
        case(f"{kind} {name} batches", kind, batches, (9, 14), dtype="int8", qscheme="per_tensor_affine", eps=EPS)
case("histogram infinite batches", "histogram", INFINITE, (9, 14), dtype="int8", qscheme="per_tensor_affine", eps=EPS)
for kind in ["per_channel_min_max", "moving_average_per_channel_min_max"]:
    for name, batches in [("empty", EMPTY), ("constant", CONSTANT[:2]), ("21 batches", LATE)]:
        case(f"{kind} {name} batches", kind, batches, (9, 14), dtype="int8", qscheme="per_channel_symmetric", ch_axis=1, eps=EPS)
    case(f"{kind} float qparams", kind, POSITIVE, (4, 30), dtype="uint8", qscheme="per_channel_affine_float_qparams", eps=EPS, ch_axis=0)
    case(f"{kind} 4-bit float qparams", kind, FAST, (4, 30), dtype="uint8", quant_min=0, quant_max=15, qscheme="per_channel_affine_float_qparams", eps=EPS, ch_axis=0)
for kind, scheme in [("min_max", "per_tensor_"), ("moving_average_min_max", "per_tensor_"), ("histogram", "per_tensor_"), ("per_channel_min_max", "per_channel_")]:
    for dtype, low, high in [("int8", None, None), ("uint8", None, None), ("int8", -127, 127), ("uint8", 0, 200), ("int16", None, None)]:
        for symmetry in ["affine", "symmetric"]:
            limits = {} if low is None else {"quant_min": low, "quant_max": high}
            case(f"{kind} {dtype} {low}..{high} {symmetry} reduced", kind, FAST, (9, 14), dtype=dtype, qscheme=scheme + symmetry, eps=EPS, reduce_range=True, **limits)


FAKE_CLASSES = {"fake_quantize": peer_fake.FakeQuantize, "fused_moving_avg_obs_fake_quantize": peer_fake.FusedMovingAvgObsFakeQuantize}
FAKE_CASES = []


def fake_case(name, outer, inner, batches, shape=(4, 6), **args):
    FAKE_CASES.append({"name": name, "observer": f"{outer}({inner})", "shape": list(shape), "batches": batches, "args": args})


for inner in ["moving_average_min_max", "min_max", "histogram"]:
    for dtype, low, high in [("int8", -128, 127), ("uint8", 0, 255), ("int8", -8, 7)]:
        for symmetry in ["affine", "symmetric"]:
            fake_case(f"{inner} {dtype} {low} {symmetry}", "fake_quantize", inner, FAST, dtype=dtype, quant_min=low, quant_max=high, qscheme="per_tensor_" + symmetry, eps=EPS)
            if inner == "moving_average_min_max":
                fake_case(f"fused {dtype} {low} {symmetry}", "fused_moving_avg_obs_fake_quantize", inner, FAST, dtype=dtype, quant_min=low, quant_max=high, qscheme="per_tensor_" + symmetry, eps=EPS)
for axis, shape in [(0, (4, 6)), (1, (2, 3, 4))]:
    for symmetry in ["affine", "symmetric"]:
        for outer in list(FAKE_CLASSES)[: 2 - axis]:  # the fused op takes axis 0 only
            fake_case(f"{outer} axis {axis} {symmetry}", outer, "moving_average_per_channel_min_max", FAST, shape, dtype="int8", quant_min=-127, quant_max=127, qscheme="per_channel_" + symmetry, eps=EPS, ch_axis=axis)
fake_case("float qparams", "fake_quantize", "moving_average_per_channel_min_max", POSITIVE, dtype="uint8", quant_min=0, quant_max=255, qscheme="per_channel_affine_float_qparams", eps=EPS, ch_axis=0, averaging_constant=1.0)
fake_case("averaging constant", "fake_quantize", "moving_average_min_max", FAST, dtype="int8", quant_min=-128, quant_max=127, qscheme="per_tensor_affine", averaging_constant=0.5)


def run_fake(entry):
    """Each batch is forwarded with both switches on; the first one once more, twice as large, with the observer off."""
    outer, inner = entry["observer"][:-1].split("(")
    args = {key: getattr(torch, value) if key in ("dtype", "qscheme") else value for key, value in entry["args"].items()}
    module = FAKE_CLASSES[outer](observer=CLASSES[inner], **args)
    steps = []
    for i, description in enumerate(entry["batches"] + [[2 * entry["batches"][0][0], entry["batches"][0][1]]]):
        if i == len(entry["batches"]):
            module.disable_observer()
        x = batch(1 + i, entry["shape"], *description).requires_grad_()
        y = module(x)
        y.sum().backward()
        steps.append({"output": y.detach().reshape(-1).tolist(), "gradient": x.grad.reshape(-1).tolist(), "scale": module.scale.tolist(), "zero_point": module.zero_point.tolist()})
    scale, zero_point = module.calculate_qparams()
    return {"steps": steps, "scale": scale.tolist(), "zero_point": zero_point.tolist()}


def run(entry):
    args = dict(entry["args"])
    args["dtype"] = getattr(torch, args["dtype"])
    args["qscheme"] = getattr(torch, args["qscheme"])
    observer = CLASSES[entry["observer"]](**args)
    for i, description in enumerate(entry["batches"]):
        observer(batch(1 + i, entry["shape"], *description))
    scale, zero_point = observer.calculate_qparams()
    result = {"scale": scale.tolist(), "zero_point": zero_point.tolist(), "zero_point_dtype": str(zero_point.dtype)[6:],
              "min": observer.min_val.reshape(-1).tolist(), "max": observer.max_val.reshape(-1).tolist()}
    if entry["observer"] == "histogram":
        low, high = observer._non_linear_param_search()
        weights = torch.arange(1, observer.bins + 1, dtype=torch.float64)
        result |= {"search_min": low.item(), "search_max": high.item(), "histogram_sum": observer.histogram.double().sum().item(),
                   "histogram_moment": (observer.histogram.double() * weights).sum().item()}
    return result


def write(name, cases, run_case):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    with open(path, "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(entry | {"want": run_case(entry)}) for entry in cases) + "\n]\n")
    print(f"{name}: {len(cases)} cases")


def main():
    write("observer_goldens.json", CASES, run)
    write("fake_quantize_goldens.json", FAKE_CASES, run_fake)


if __name__ == "__main__":
    main()
