"""What several threads cost and gain on a CPU that is free and on one that other processes keep busy.

    .venv/bin/python tools/bench/busy_threads.py build/release/bin/octet [more binaries] [--rounds 5] [--loops 4] [--seconds 1]
        [--realtime]

Measures `octet bench` of a small and a large int8 program on oneDNN and XNNPACK with one thread and with all, binaries and counts in turn,
once beside nothing and once, with `nice -n 10`, beside --loops endless loops. Prints the least of the medians beside nothing and the
greatest beside the loops, in ms, as rows of a table. --realtime (root alone): beside nothing with `chrt -f 20`, before all other work
of the machine.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import torch
from torch import nn

NETS = {
    "small": (nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 64)), torch.randn(4, 256)),
    "large": (
        nn.Sequential(
            nn.Conv2d(3, 32, 3, 2, 1),
            nn.ReLU(),
            *[layer for _ in range(6) for layer in (nn.Conv2d(32, 32, 3, 1, 1), nn.ReLU())],
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(32, 10),
        ),
        torch.randn(1, 3, 112, 112),
    ),
}
BACKENDS = {"onednn": "x86", "xnnpack": "xnnpack"}


def make_programs(octet, folder):
    paths = {}
    for name, (net, x) in NETS.items():
        model, data = os.path.join(folder, name + ".pt2"), os.path.join(folder, name + ".pt")
        torch.export.save(torch.export.export(net.eval(), (x,)), model)
        torch.save([(torch.randn_like(x),) for _ in range(4)], data)
        for backend, quantizer in BACKENDS.items():
            q, path = os.path.join(folder, f"{name}_{backend}.pt2"), os.path.join(folder, f"{name}_{backend}.octet")
            common = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            subprocess.run([octet, "quantize", model, "--calibration", data, "--quantizer", quantizer, "--output", q], **common)
            subprocess.run([octet, "lower", q, "--backend", backend, "--output", path], **common)
            paths[name, backend] = path
    return paths


def median(octet, path, threads, before, seconds):
    command = [*before, octet, "bench", path, "--threads", str(threads), "--seconds", str(seconds), "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["median_ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("octet", nargs="+")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--loops", type=int, default=2 * len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--realtime", action="store_true")
    options = parser.parse_args()
    counts = [1, len(os.sched_getaffinity(0))]
    print("| program | beside | binary | " + " | ".join(f"{n} thread{'s' * (n > 1)}" for n in counts) + " | ratio |")
    print("|---|---|---|" + "---|" * (len(counts) + 1))
    with tempfile.TemporaryDirectory() as folder:
        paths = make_programs(options.octet[0], folder)
        for loops in sorted({0, options.loops}):
            before = ["nice", "-n", "10"] if loops else ["chrt", "-f", "20"] if options.realtime else []
            others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
            try:
                for (name, backend), path in paths.items():
                    found = {}
                    for _ in range(options.rounds):
                        for octet in options.octet:
                            for threads in counts:
                                found.setdefault((octet, threads), []).append(median(octet, path, threads, before, options.seconds))
                    for octet in options.octet:
                        times = [(max if loops else min)(found[octet, threads]) for threads in counts]
                        row = [f"{name}, {backend}", f"{loops} loops" if loops else "nothing", octet, *(f"{t:.4f}" for t in times)]
                        print("| " + " | ".join([*row, f"{times[-1] / times[0]:.2f}"]) + " |", flush=True)
            finally:
                for process in others:
                    process.kill()
                    process.wait()


if __name__ == "__main__":
    main()
