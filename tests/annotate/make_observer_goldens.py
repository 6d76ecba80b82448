"""Writes observer_goldens.json: what torchao's observers make of data that both sides generate (see batch() and its twin in test_observers.cpp).

Usage: python tests/annotate/make_observer_goldens.py
"""
import json
import os
import warnings

import torch
from torchao.quantization.pt2e import observer as peer

warnings.filterwarnings("ignore")
torch.set_num_threads(1)


def batch(seed, shape, scale, shift):
    """Bell-shaped numbers: sums of four 16-bit numbers of a linear congruential generator, exact in float32."""
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
    return torch.tensor(values, dtype=torch.float32).reshape(shape) * scale + shift


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


def run(entry):
    args = dict(entry["args"])
    args["dtype"] = getattr(torch, args["dtype"])
    args["qscheme"] = getattr(torch, args["qscheme"])
    observer = CLASSES[entry["observer"]](**args)
    for i, (scale, shift) in enumerate(entry["batches"]):
        observer(batch(1 + i, entry["shape"], scale, shift))
    scale, zero_point = observer.calculate_qparams()
    result = {"scale": scale.tolist(), "zero_point": zero_point.tolist(), "zero_point_dtype": str(zero_point.dtype)[6:],
              "min": observer.min_val.reshape(-1).tolist(), "max": observer.max_val.reshape(-1).tolist()}
    if entry["observer"] == "histogram":
        low, high = observer._non_linear_param_search()
        weights = torch.arange(1, observer.bins + 1, dtype=torch.float64)
        result |= {"search_min": low.item(), "search_max": high.item(), "histogram_sum": observer.histogram.double().sum().item(),
                   "histogram_moment": (observer.histogram.double() * weights).sum().item()}
    return result


def main():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "observer_goldens.json")
    with open(path, "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(entry | {"want": run(entry)}) for entry in CASES) + "\n]\n")
    print(f"{len(CASES)} cases")


if __name__ == "__main__":
    main()
