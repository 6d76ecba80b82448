"""The parts of a model's way through the zoo. Each takes its folder and gives a dictionary for the
table, or raises Failed with the step that failed.

export   the network with its data: model.pt2, calibration.pt, x0.pt.., y.pt (float outputs)
octet    quantized, lowered, run, and compared with float and with the q/dq graph interpreted
peer     the same data through torchao's quantizer and PyTorch
time     the lowered program beside the float program lowered for the same backend
openvino  the lowered program of x86, static, beside OpenVINO's int8 program of the same model
"""
import json
import math
import os
import re
import subprocess
import sys
import time as clock

import torch

import shares
import weights

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models"))
import fidelity_rows  # noqa: E402
from demo_table import OCTET  # noqa: E402
from int8_ops import EIGHT_BITS  # noqa: E402

CALIBRATED = 6  # batches for a static quantizer
BACKENDS = {"x86": "onednn", "xnnpack": "xnnpack"}
CONFIGURATIONS = [f"{quantizer}-{mode}" for quantizer in BACKENDS for mode in ("static", "dynamic")]
SECONDS = 0.2  # of a burst of octet bench
ROUNDS = 2
LIMIT = 600  # seconds for one call of the command
RACED = "x86-static"  # what is set beside OpenVINO
ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PEERS = os.path.join(ROOT, ".venv-peers", "bin", "python")


class Failed(Exception):
    """A step that failed, and what it said."""

    def __init__(self, step, message):
        super().__init__(message)
        self.step = step


def command(step, *arguments):
    """Calls octet and gives its stdout."""
    try:
        result = subprocess.run([OCTET, *arguments], capture_output=True, text=True, timeout=LIMIT,
                                env={**os.environ, "OMP_NUM_THREADS": "1"})
    except subprocess.TimeoutExpired as error:
        raise Failed(step, f"not done after {LIMIT} s") from error
    if result.returncode != 0:
        lines = [line for line in result.stderr.splitlines() if line.startswith("octet: ")]
        text = (lines or result.stderr.splitlines() or ["no message"])[-1]
        raise Failed(step, text if lines else f"ended with {result.returncode}: {text}")
    return result.stdout


def sqnr(references, results):
    """dB over all pairs together; None where one is not finite or the shapes differ."""
    signal = noise = 0.0
    for want, got in zip(references, results):
        if want.shape != got.shape or not torch.isfinite(got).all():
            return None
        signal += want.double().pow(2).sum().item()
        noise += (want.double() - got.double()).pow(2).sum().item()
    return 999.0 if noise == 0 else 10 * math.log10(max(signal, 1e-30) / noise)


def first(outputs):
    return outputs[0] if isinstance(outputs, (tuple, list)) else outputs


def held_out(folder):
    names = sorted(name for name in os.listdir(folder) if re.fullmatch(r"x\d\.pt", name))
    return [os.path.join(folder, name) for name in names]


def export(entry, folder):
    torch.manual_seed(0)
    net = entry.make().eval().requires_grad_(False)
    weights.wake(net)
    calibration, evaluation = entry.data()
    weights.settle_batch_norms(net, calibration if entry.is_batched else calibration[:1])
    with torch.no_grad():
        outputs = [first(net(*inputs)) for inputs in evaluation]
        if not weights.has_finite_outputs(outputs):
            raise Failed("float", "outputs are not finite")
        try:
            program = torch.export.export(net, evaluation[0], strict=False)
        except Exception as error:
            raise Failed("export", f"{type(error).__name__}: {str(error).strip()}") from error
    torch.export.save(program, os.path.join(folder, "model.pt2"))
    torch.save(calibration[:CALIBRATED], os.path.join(folder, "calibration.pt"))
    for k, inputs in enumerate(evaluation):
        torch.save(inputs, os.path.join(folder, f"x{k}.pt"))
    torch.save(outputs, os.path.join(folder, "y.pt"))
    parameters = sum(p.numel() for p in net.parameters())
    return {"parameters": parameters, "nodes": len(program.graph.nodes)}


def int8_share(program):
    """The share of multiply-accumulates on 8-bit integers, those of scales found at run time
    included."""
    ops = json.loads(command("inspect", "inspect", program, "--json"))["ops"]
    dynamic = {value["name"] for op in ops if op["kind"] == "fake_quantize_dynamic"
               for value in op["outputs"]}
    total = int8 = 0
    for op in ops:
        values = [value for value in op["inputs"] + op["outputs"] if value]
        total += op["macs"]
        if any(v["dtype"] in EIGHT_BITS or v["name"] in dynamic for v in values):
            int8 += op["macs"]
    return int8 / total if total else 0


def _run(step, program, inputs, output):
    command(step, "run", program, "--inputs", inputs, "--outputs", output, "--threads", "1")
    return torch.load(output, weights_only=True)[0]


def _lower(source, backend, target, result):
    """Without LibTorch where that goes; with it otherwise."""
    arguments = ("lower", source, "--backend", backend, "--output", target)
    try:
        command("lower", *arguments)
    except Failed as failure:
        result["refused"] = str(failure)
        command("lower with torch", *arguments, "--fallback", "torch")
    result["fallback"] = "torch" if "refused" in result else "reference"


def octet(folder, configuration):
    quantizer, mode = configuration.split("-")
    path = lambda name: os.path.join(folder, name)
    inside = lambda name: os.path.join(folder, configuration, name)
    os.makedirs(inside(""), exist_ok=True)
    data = ("--calibration", path("calibration.pt")) if mode == "static" else ()
    command("quantize", "quantize", path("model.pt2"), "--quantizer", quantizer, "--mode", mode,
            *data, "--output", inside("q.pt2"))
    result = {}
    _lower(inside("q.pt2"), BACKENDS[quantizer], inside("m.octet"), result)
    result["share"] = int8_share(inside("m.octet"))
    floats = torch.load(path("y.pt"))
    lowered = [_run("run", inside("m.octet"), x, inside("y.pt")) for x in held_out(folder)]
    graph = [_run("interpret", inside("q.pt2"), held_out(folder)[0], inside("y.pt"))]
    return {**result, "sqnr": sqnr(floats, lowered), "graph_sqnr": sqnr(floats, graph),
            "first_sqnr": sqnr(floats, lowered[:1]), "to_graph": sqnr(graph, lowered)}


def peer(folder, configuration):
    """Figures of torchao's flow, with its own (x86) or ExecuTorch's (xnnpack) quantizer."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    quantizer, mode = configuration.split("-")
    make = {"x86": fidelity_rows.x86_peer, "xnnpack": fidelity_rows.xnnpack_peer}[quantizer]
    path = lambda name: os.path.join(folder, name)
    try:
        with torch.no_grad():
            module = torch.export.load(path("model.pt2")).module(check_guards=False)
            prepared = prepare_pt2e(module, make(mode == "dynamic"))
            batches = torch.load(path("calibration.pt"))
            for batch in batches if mode == "static" else batches[:1]:
                prepared(*batch)
            converted = convert_pt2e(prepared)
            results = [first(converted(*torch.load(x))) for x in held_out(folder)]
    except Exception as error:
        raise Failed("peer", f"{type(error).__name__}: {str(error).strip()}") from error
    with torch.no_grad():
        share = shares.int8_share(converted, torch.load(held_out(folder)[0]))
    return {"sqnr": sqnr(torch.load(path("y.pt")), results), "share": share}


def median_ms(program, inputs, seconds=SECONDS):
    return json.loads(command("time", "bench", program, "--inputs", inputs, "--threads", "1",
                              "--seconds", str(seconds), "--json"))["median_ms"]


def burst_ms(run, seconds):
    """The median time of run() over this many seconds."""
    for _ in range(3):
        run()
    times, end = [], clock.perf_counter() + seconds
    while len(times) < 5 or clock.perf_counter() < end:
        start = clock.perf_counter()
        run()
        times.append(1e3 * (clock.perf_counter() - start))
    return sorted(times)[len(times) // 2]


def _lowered_program(step, folder, configuration):
    path = os.path.join(folder, configuration, "m.octet")
    if not os.path.exists(path):
        raise Failed(step, "there is no lowered program")
    return path


def time(folder, configuration):
    """The least of some bursts' medians, taken in turns."""
    backend = BACKENDS[configuration.split("-")[0]]
    lowered = _lowered_program("time", folder, configuration)
    floating = os.path.join(folder, f"float.{backend}.octet")
    if not os.path.exists(floating):
        try:
            _lower(os.path.join(folder, "model.pt2"), backend, floating, {})
        except Failed as failure:
            raise Failed("lower float", str(failure)) from failure
    x = held_out(folder)[0]
    pairs = [(median_ms(lowered, x), median_ms(floating, x)) for _ in range(ROUNDS)]
    int8, own = (min(column) for column in zip(*pairs))
    return {"int8_ms": int8, "float_ms": own}


def openvino(folder, configuration):
    if not os.path.exists(PEERS):
        raise Failed("openvino", "no .venv-peers; run tools/bench/race.py --stages setup")
    script = os.path.join(ROOT, "tools", "zoo", "openvino_turns.py")
    lowered = _lowered_program("openvino", folder, configuration)
    result = subprocess.run([PEERS, script, folder, lowered], capture_output=True, text=True,
                            env={**os.environ, "OMP_NUM_THREADS": "1"})
    if result.returncode != 0:
        raise Failed("openvino", (result.stderr.strip().splitlines() or ["no message"])[-1])
    return json.loads(result.stdout.splitlines()[-1])
