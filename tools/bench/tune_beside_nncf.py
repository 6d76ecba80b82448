#!/usr/bin/env python3
"""octet tune beside NNCF's quantize_with_accuracy_control: the same goal, the same data to calibrate with and to be judged on, one thread.

    tune_beside_nncf.py [--models A=GOAL,B=GOAL] [--folder build/tune] [--only octet|nncf] [--octet BINARY]

The goal is a ratio at the outputs in dB, the median over the held-out inputs. Prints a table: ratio, latency, evaluations, seconds of the processor (user) of
both. NNCF runs in a separate environment (.venv-peers, tools/bench/requirements-peers.txt). NNCF stops at --trials evaluations.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", ".."))
GOALS = "efficientnet_lite0=27,mobilenet_v2=17,minilm=24"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def user_seconds(who=resource.RUSAGE_CHILDREN):
    return resource.getrusage(who).ru_utime


class Enough(Exception):
    """NNCF has had its evaluations."""


def nncf_work(folder, goal, most):
    """In .venv-peers; prints a line of JSON."""
    import nncf
    import numpy
    import openvino
    import torch
    sys.path.insert(0, HERE)
    from race_peers import is_transformer
    torch.set_num_threads(1)
    load = lambda name: [[x.numpy() for x in batch] for batch in torch.load(os.path.join(folder, name))]
    calibration, held_out = load("calibration.pt"), load("held_out.pt")
    settings = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}
    program = openvino.convert_model(torch.export.load(os.path.join(folder, "model.pt2")))
    program.reshape({k: list(x.shape) for k, x in enumerate(calibration[0])})
    start = user_seconds(resource.RUSAGE_SELF)
    core = openvino.Core()
    core.set_property("CPU", settings)
    outputs = lambda compiled, batch: list(compiled(dict(enumerate(batch))).values())
    compiled_float = core.compile_model(program, "CPU")
    floats = {id(batch): outputs(compiled_float, batch) for batch in held_out}
    most_db = 100.0  # of equal outputs
    seen = []

    def ratio(want, got):
        noise = sum(float(numpy.square(a.astype(numpy.float64) - b).sum()) for a, b in zip(want, got))
        signal = sum(float(numpy.square(a.astype(numpy.float64)).sum()) for a in want)
        return most_db if noise == 0 else min(most_db, 10 * numpy.log10(signal / noise))

    def validate(compiled, data):
        if len(seen) >= most:
            raise Enough
        ratios = [ratio(floats[id(batch)], outputs(compiled, batch)) for batch in data]
        seen.append(float(numpy.median(ratios)))
        return seen[-1], ratios

    result = {"evaluations": 0, "db": None, "ms": None}
    try:
        tuned = nncf.quantize_with_accuracy_control(program, nncf.Dataset(calibration), nncf.Dataset(held_out), validate, max_drop=most_db - goal,
                                                    drop_type=nncf.DropType.ABSOLUTE, subset_size=len(calibration),
                                                    model_type=nncf.ModelType.TRANSFORMER if is_transformer(folder) else None)
        result["seconds"] = user_seconds(resource.RUSAGE_SELF) - start
        compiled = core.compile_model(tuned, "CPU")
        result["db"] = float(numpy.median([ratio(floats[id(batch)], outputs(compiled, batch)) for batch in held_out]))
        request, times = compiled.create_infer_request(), []
        for _ in range(30):
            begin = time.perf_counter()
            request.infer(dict(enumerate(held_out[0])))
            times.append(time.perf_counter() - begin)
        result["ms"] = 1000 * min(times)
    except Enough:
        result["seconds"] = user_seconds(resource.RUSAGE_SELF) - start
    result["evaluations"] = len(seen)
    print(json.dumps(result))


def run_nncf(folder, goal, most):
    code = [os.path.join(ROOT, ".venv-peers", "bin", "python"), os.path.abspath(__file__), "--nncf-work", folder, "--goal", str(goal), "--trials", str(most)]
    done = subprocess.run(code, capture_output=True, text=True, env={**os.environ, **ONE_THREAD}, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def run_octet(binary, folder, goal):
    path = lambda name: os.path.join(folder, name)
    before = user_seconds()
    done = subprocess.run([binary, "tune", path("model.pt2"), "--quantizer", "x86", "--calibration", path("calibration.pt"), "--evaluate", path("held_out.pt"),
                           "--min-sqnr", str(goal), "--backend", "onednn", "--output", path("tuned.pt2"), "--save-config", path("tuned.json"),
                           "--report", path("tuned_report.json")], stderr=subprocess.PIPE, text=True, env={**os.environ, **ONE_THREAD}, check=False)
    seconds = user_seconds() - before
    if not os.path.exists(path("tuned_report.json")):
        sys.exit(done.stderr)
    with open(path("tuned_report.json")) as file:
        report = json.load(file)
    best = next((point for point in report["pareto"] if point["chosen"]), report["trials"][-1])
    return {"evaluations": len(report["trials"]), "db": best["sqnr_db"], "ms": best["latency_ms"], "seconds": seconds}


def cell(row):
    if row is None:
        return "-"
    found = "stopped" if row["db"] is None else f"{row['db']:.1f} dB, {row['ms']:.1f} ms"
    return f"{found}, {row['evaluations']}, {row['seconds']:.0f} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=GOALS)
    parser.add_argument("--folder", default=os.path.join(ROOT, "build", "tune"))
    parser.add_argument("--only", choices=["octet", "nncf"])
    parser.add_argument("--octet", default=os.path.join(os.environ.get("OCTET_BINARIES", os.path.join(ROOT, "build", "release", "bin")), "octet"))
    parser.add_argument("--trials", type=int, default=200, help="evaluations that NNCF gets at most")
    parser.add_argument("--nncf-work", help=argparse.SUPPRESS)
    parser.add_argument("--goal", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.nncf_work:
        nncf_work(options.nncf_work, options.goal, options.trials)
        return
    print("| | goal | NNCF: ratio, latency, evaluations, time | Octet: ratio, latency, evaluations, time |\n|---|---|---|---|")
    for name, goal in (entry.split("=") for entry in options.models.split(",")):
        folder = os.path.join(options.folder, name)
        if not os.path.exists(os.path.join(folder, "float.pt")):
            subprocess.run([sys.executable, os.path.join(ROOT, "tools", "models", "export.py"), name, "--out", folder], check=True, stdout=subprocess.DEVNULL)
        nncf = run_nncf(folder, float(goal), options.trials) if options.only != "octet" else None
        octet = run_octet(options.octet, folder, float(goal)) if options.only != "nncf" else None
        print(f"| {name} | {goal} dB | {cell(nncf)} | {cell(octet)} |", flush=True)


if __name__ == "__main__":
    main()
