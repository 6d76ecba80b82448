#!/usr/bin/env python3
"""The demo's table: labels per photograph, SQNR against float, latency beside PyTorch's in this same run, file sizes.   demo_table.py DIR"""
import json
import math
import os
import statistics
import subprocess
import sys
import time

import torch

BACKENDS = ["onednn", "xnnpack"]
OCTET = os.environ.get("OCTET", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "build", "release", "bin", "octet"))


def sqnr(reference, result):
    """Signal to quantization noise in dB."""
    noise = (reference.double() - result.double()).pow(2).sum().item()
    return math.inf if noise == 0 else 10 * math.log10(reference.double().pow(2).sum().item() / noise)


def eager_ms(net, x):
    times = []
    with torch.no_grad():
        for _ in range(3):
            net(x)
        for _ in range(20):
            start = time.perf_counter()
            net(x)
            times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times)


def octet_ms(path, inputs):
    result = subprocess.run([OCTET, "bench", path, "--inputs", inputs, "--threads", "1", "--json"], check=True, capture_output=True, text=True)
    return json.loads(result.stdout)["median_ms"]


def main():
    folder = sys.argv[1]
    path = lambda *names: os.path.join(folder, *names)
    torch.set_num_threads(1)
    titles, labels = json.load(open(path("titles.json"))), json.load(open(path("labels.json")))
    logits = {"float": [y for y in torch.load(path("float.pt"))]}
    for backend in BACKENDS:
        logits[backend] = [torch.load(path(backend, f"{k:02d}.pt"), weights_only=True)[0] for k in range(len(titles))]
    top1 = {name: [y.argmax().item() for y in ys] for name, ys in logits.items()}

    print(f"{'photograph':24s}{'float':28s}{'oneDNN int8':28s}{'XNNPACK int8':28s}")
    for k, title in enumerate(titles):
        print(f"{title:24s}" + "".join(f"{labels[top1[name][k]][:26]:28s}" for name in ["float"] + BACKENDS))

    # Latency: bursts of the three in turn, so that a busy machine slows all alike; the median of the bursts.
    net = torch.export.load(path("model.pt2")).module()
    x = torch.load(path("held_out.pt"))[0][0]
    files = {"float": path("model.pt2"), **{b: path(f"int8.{b}.octet") for b in BACKENDS}}
    bursts = {name: [] for name in files}
    for _ in range(3):
        bursts["float"].append(eager_ms(net, x))
        for backend in BACKENDS:
            bursts[backend].append(octet_ms(files[backend], path("inputs", "00.pt")))
    latency = {name: statistics.median(values) for name, values in bursts.items()}

    def row(title, cell):
        print(f"{title:24s}" + "".join(f"{cell(name):28s}" for name in ["float"] + BACKENDS))

    print()
    row("", lambda name: {"float": "float (PyTorch eager)", "onednn": "oneDNN int8", "xnnpack": "XNNPACK int8"}[name])
    agreement = lambda name: sum(a == b for a, b in zip(top1["float"], top1[name]))
    row("top-1 as in float", lambda name: f"{agreement(name)}/{len(titles)}")
    row("SQNR, median", lambda name: "-" if name == "float" else
        f"{statistics.median(sqnr(a, b) for a, b in zip(logits['float'], logits[name])):.1f} dB")
    row("latency, 1 thread", lambda name: f"{latency[name]:.2f} ms ({latency['float'] / latency[name]:.1f}x)")
    row("file", lambda name: f"{os.path.getsize(files[name]) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
