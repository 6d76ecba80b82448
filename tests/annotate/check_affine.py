"""Affine quantization and rare dtypes against the real torchao: check_affine.py TOOL WORK.

TOOL: octet_convert_rules. WORK: where to write. Makes small models and rules, lets torchao and Octet convert them with the same calibration data,
and compares the graphs (ops, arguments, stored tensors) and the outputs, in PyTorch and in Octet's interpreter. Prints one line per difference and
exits with 1 when there is any.
"""
import json
import operator
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "oracle"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import peer  # noqa: E402  the peer, and rules for it
from differences import compare  # noqa: E402
import numpy  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torchao.quantization import granularity as granularities  # noqa: E402
from torchao.quantization.pt2e import _affine_quantization as affine  # noqa: E402
from torchao.quantization.pt2e.observer import MappingType  # noqa: E402

AFFINE = {name: getattr(affine, name) for name in (
    "AffineQuantizedMinMaxObserver", "AffineQuantizedMovingAverageMinMaxObserver", "AffineQuantizedPlaceholderObserver")}
GRANULARITIES = {"per_tensor": "PerTensor", "per_axis": "PerAxis", "per_group": "PerGroup", "per_token": "PerToken", "per_row": "PerRow",
                 "per_block": "PerBlock"}


class Rules(peer.RuleQuantizer):
    """Rules with affine observers: their arguments become the peer's objects."""

    def spec(self, s, node):
        if not s or s.get("observer") not in AFFINE:
            return super().spec(s, node)
        args = dict(s["observer_args"])
        size = dict(args["granularity"])
        kind = GRANULARITIES[size.pop("kind")]
        if kind == "PerRow" and "axis" in size:
            size["dim"] = size.pop("axis")
        if "block_size" in size:
            size["block_size"] = tuple(size["block_size"])
        args["granularity"] = getattr(granularities, kind)(**size)
        args["mapping_type"] = MappingType[args["mapping_type"]]
        for key in ("scale_dtype", "zero_point_dtype"):
            if key in args:
                args[key] = getattr(torch, args[key])
        dtype = getattr(torch, s["dtype"])
        return peer.QuantizationSpec(dtype=dtype, quant_min=s.get("quant_min"), quant_max=s.get("quant_max"), is_dynamic=s.get("is_dynamic", False),
                                     observer_or_fake_quant_ctr=AFFINE[s["observer"]].with_args(target_dtype=dtype, **args))


def block(mapping, kind, dtype="int8", observer="AffineQuantizedMinMaxObserver", is_dynamic=False, quant=None, options=None, **size):
    spec = {"kind": "spec", "dtype": dtype, "observer": observer, "is_dynamic": is_dynamic,
            "observer_args": {"mapping_type": mapping, "granularity": {"kind": kind, **size}, **(options or {})}}
    if quant:
        spec["quant_min"], spec["quant_max"] = quant
    return spec


def plain(dtype, scheme, quant, observer="MinMaxObserver", **more):
    return {"kind": "spec", "dtype": dtype, "qscheme": scheme, "quant_min": quant[0], "quant_max": quant[1], "observer": observer, **more}


def on(target, act, weight=None, output=None):
    inputs = {"0": act} if act else {}
    if weight:
        inputs["1"] = weight
    return [{"target": target, "inputs": inputs, "output": output}]


S, N, A = "SYMMETRIC", "SYMMETRIC_NO_CLIPPING_ERR", "ASYMMETRIC"
MOVING, PLACEHOLDER = "AffineQuantizedMovingAverageMinMaxObserver", "AffineQuantizedPlaceholderObserver"
LINEAR, CONV = "aten.linear.default", "aten.conv2d.default"
PER_CHANNEL = plain("int8", "per_channel_symmetric", (-127, 127), "PerChannelMinMaxObserver", ch_axis=0, observer_args={"eps": 2**-30})
TOKEN_MOVING = block(S, "per_token", "uint8", MOVING, True, options={"averaging_constant": 1})
TOKEN_PLACEHOLDER = block(A, "per_token", "int8", PLACEHOLDER, True)
E4M3, E5M2 = (-448, 448), (-57344, 57344)

# name: (model, shape of the input, dtype of the model, rules)
CASES = {
    # the peer's own three
    "channel_group": ("linear", (2, 128), None, on(LINEAR, block(S, "per_token", "uint8"), block(S, "per_group", "uint8", group_size=32))),
    "dynamic_act_per_channel_weight": ("linear", (2, 128), None, on(LINEAR, TOKEN_MOVING, PER_CHANNEL)),
    "dynamic_token_act_group_weight": (
        "linear", (2, 128), None, on(LINEAR, TOKEN_PLACEHOLDER, block(S, "per_group", quant=(-8, 7), group_size=32, options={"eps": 1e-6}))),
    # every granularity, mapping and dtype
    "per_tensor": ("linear", (3, 128), None, on(LINEAR, block(A, "per_tensor"), block(S, "per_tensor", "int16"))),
    "per_axis": ("linear", (3, 128), None, on(LINEAR, block(A, "per_axis", "uint8", axis=1), block(N, "per_axis", axis=0))),
    "per_row": ("linear", (3, 128), None, on(LINEAR, block(A, "per_row"), block(N, "per_row", axis=0))),
    "per_block": ("linear", (3, 128), None, on(LINEAR, None, block(A, "per_block", quant=(-8, 7), block_size=[4, 32]))),
    "per_block_filled_up": ("conv", (2, 4, 6, 6), None, on(CONV, None, block(S, "per_block", block_size=[2, 3, 3]))),
    "tokens_of_three_dimensions": ("linear", (2, 5, 128), None, on(LINEAR, block(A, "per_token", quant=(-100, 90)), block(S, "per_axis", axis=0))),
    "conv_per_image": ("conv", (2, 4, 6, 6), None, on(CONV, block(A, "per_axis", "int8", PLACEHOLDER, True, axis=0), PER_CHANNEL)),
    "moving_average": ("linear", (3, 128), None, on(LINEAR, block(A, "per_token", "int8", MOVING, options={"averaging_constant": 0.3}), PER_CHANNEL)),
    "no_clipping_uint8": ("linear", (3, 128), None, on(LINEAR, block(N, "per_token", "uint8", PLACEHOLDER, True), PER_CHANNEL)),
    "int32": ("linear", (3, 128), None, on(LINEAR, None, block(S, "per_axis", "int32", quant=(-1000, 1000), axis=0))),
    "stored_dtypes": ("linear", (3, 128), None, on(LINEAR, None, block(
        S, "per_group", group_size=64, options={"scale_dtype": "float16", "zero_point_dtype": "int8", "eps": 1e-5}))),
    "dynamic_dtypes": ("linear", (3, 128), None, on(LINEAR, block(
        A, "per_token", "int8", PLACEHOLDER, True, quant=(-127, 127), options={"scale_dtype": "float32", "zero_point_dtype": "int8", "eps": 1e-5}))),
    "affine_e4m3": ("linear", (3, 128), None, on(LINEAR, None, block(S, "per_axis", "float8_e4m3fn", axis=0))),
    "affine_e5m2": ("linear", (3, 128), None, on(LINEAR, None, block(S, "per_group", "float8_e5m2", group_size=64))),
    "bfloat16": ("linear", (3, 128), "bfloat16", on(LINEAR, block(A, "per_token", "int8", PLACEHOLDER, True), block(
        S, "per_group", quant=(-8, 7), group_size=32))),
    "float16": ("linear", (3, 128), "float16", on(LINEAR, None, block(A, "per_axis", axis=0))),
    # per tensor and per channel in the rarer dtypes
    "e4m3_per_tensor": ("linear", (3, 128), None, on(LINEAR, plain("float8_e4m3fn", "per_tensor_affine", E4M3), plain(
        "float8_e4m3fn", "per_tensor_symmetric", E4M3))),
    "e5m2_per_tensor": ("linear", (3, 128), None, on(LINEAR, plain("float8_e5m2", "per_tensor_symmetric", E5M2), plain(
        "float8_e5m2", "per_tensor_affine", E5M2), plain("float8_e5m2", "per_tensor_affine", E5M2))),
    "e4m3_conv_bfloat16": ("conv", (2, 4, 6, 6), "bfloat16", on(CONV, plain("float8_e4m3fn", "per_tensor_affine", E4M3), plain(
        "float8_e4m3fn", "per_tensor_affine", E4M3), plain("float8_e4m3fn", "per_tensor_affine", E4M3))),
    "int16": ("linear", (3, 128), None, on(LINEAR, plain("int16", "per_tensor_affine", (-2**15, 2**15 - 1)), plain(
        "int16", "per_tensor_affine", (-2**15, 2**15 - 1)), plain("int16", "per_tensor_affine", (-2**15, 2**15 - 1)))),
    "uint16_int32": ("linear", (3, 128), None, on(LINEAR, plain("uint16", "per_tensor_affine", (0, 65535)), plain(
        "int32", "per_tensor_symmetric", (-2**20, 2**20)))),
}


def make_model(kind, dtype):
    model = nn.Sequential(nn.Linear(128, 20)) if kind == "linear" else nn.Sequential(nn.Conv2d(4, 8, 3))
    with torch.no_grad():
        model[0].weight[0] *= 0.001  # scales of very different size
    return model.eval().to(getattr(torch, dtype) if dtype else torch.float32)


def export(folder, kind, shape, dtype):
    """Writes the folder of one case, as the oracle's cases have it; returns (program, batches)."""
    torch.manual_seed(7)
    model = make_model(kind, dtype)
    batches = [torch.randn(shape) * (1 + i) + 0.3 for i in range(3)]
    example = batches[0].to(model[0].weight.dtype)
    program = torch.export.export(model, (example,))
    folder.mkdir(parents=True, exist_ok=True)
    torch.export.save(program, folder / "model.pt2")
    return program, [batch.to(example.dtype) for batch in batches]


def as_named(node):
    """Arguments by the names of the op's schema, defaults filled in."""
    target = node.target.default if hasattr(node.target, "overloads") else node.target
    schema = target._schema
    named = {argument.name: argument.default_value for argument in schema.arguments if argument.has_default_value()}
    named.update({argument.name: value for argument, value in zip(schema.arguments, node.args)})
    named.update(node.kwargs)
    return str(target), named


def tensor_of(module, name):
    for part in name.split("."):
        module = getattr(module, part)
    return module


def describe(module, value, known):
    if isinstance(value, torch.fx.Node):
        if value not in known:
            known[value] = describe_node(module, value, known)
        return known[value]
    if isinstance(value, (list, tuple, torch.Size)):
        return "[" + ", ".join(describe(module, item, known) for item in value) + "]"
    if isinstance(value, torch.dtype) or value is None or isinstance(value, (str, bool)):
        return str(value)
    return repr(float(value)) if isinstance(value, (int, float)) else repr(value)


def describe_node(module, node, known):
    if node.op == "placeholder":
        return "input"
    if node.op == "get_attr":
        tensor = tensor_of(module, node.target).detach()
        flat = tensor.to(torch.float64).flatten().tolist()
        return f"{tensor.dtype}{list(tensor.shape)}#{hash(tuple(flat))}"
    if node.op == "output":
        return describe(module, node.args, known)
    if node.target is operator.getitem:
        return f"{describe(module, node.args[0], known)}[{node.args[1]}]"
    target, named = as_named(node)
    return f"{target}(" + ", ".join(f"{name}={describe(module, value, known)}" for name, value in sorted(named.items())) + ")"


def text_of(module):
    """The output as one expression; equal texts are equal programs."""
    known = {}
    return describe(module, next(node for node in module.graph.nodes if node.op == "output"), known).replace("[[", "[").replace("]]", "]")


def quantize_with_peer(program, batches, rules):
    prepared = peer.prepare_pt2e(program.module(check_guards=False), Rules(rules))
    for batch in batches:
        prepared(batch)
    return peer.convert_pt2e(prepared)


def differences(root, out, name, peers):
    wanted, example = peers[name]
    got = torch.export.load(out / f"cus_{name}.pt2").module(check_guards=False)
    want_text, got_text = text_of(wanted), text_of(got)
    if want_text != got_text:
        yield f"graphs differ:\n  torchao {want_text}\n  octet   {got_text}"
    with torch.no_grad():
        want, result = wanted(example), got(example)
    want = want[0] if isinstance(want, (tuple, list)) else want
    result = result[0] if isinstance(result, (tuple, list)) else result
    if not torch.equal(want, result):
        yield f"outputs differ by {(want.double() - result.double()).abs().max().item()}"
    run = torch.load(out / f"cus_{name}.outputs.pt")[0]
    if not torch.equal(want, run):
        yield f"Octet's interpreter is off by {(want.double() - run.double()).abs().max().item()}"
    names = [key for key, value in got.state_dict().items()
             if value.dim() > 1 and value.is_floating_point() and not key.startswith(("_scale", "_zero_point"))]
    weight = CASES[name][3][0]["inputs"].get("1")
    if names and weight and not weight["dtype"].startswith("float8"):
        yield f"float weights were kept: {names}"


def main():
    tool, work = sys.argv[1], pathlib.Path(sys.argv[2])
    root, out = work / "cases", work / "converted"
    peers = {}
    for name, (kind, shape, dtype, rules) in CASES.items():
        folder = root / f"cus_{name}"
        program, batches = export(folder, kind, shape, dtype)
        for i, batch in enumerate(batches):
            # numpy has no bfloat16: the tool casts to what the program wants
            numpy.save(folder / f"calib_{i:02}_arg0.npy", batch.float().numpy())
        case = {"peer_error": None, "num_inputs": 1, "num_calib_batches": len(batches), "quantizer": {"rules": rules}}
        (folder / "case.json").write_text(json.dumps(case))
        peers[name] = (quantize_with_peer(program, batches, rules), batches[1])
    subprocess.run([tool, str(out)], check=True, env={**os.environ, "OCTET_GOLDEN_DIR": str(root)})
    return compare(CASES, lambda name: differences(root, out, name, peers))


if __name__ == "__main__":
    sys.exit(main())
