#!/usr/bin/env python3
"""Latency of .octet programs beside float eager PyTorch, one thread, in turns within one run.   latency.py MODEL.pt2 X.pt PROGRAM.octet [...]"""
import statistics
import sys

import torch

from demo_table import eager_ms, octet_ms


def main():
    model, inputs, programs = sys.argv[1], sys.argv[2], sys.argv[3:]
    torch.set_num_threads(1)
    net = torch.export.load(model).module()
    x = torch.load(inputs)[0]
    bursts = {"PyTorch eager, float": [], **{program: [] for program in programs}}
    for _ in range(5):
        bursts["PyTorch eager, float"].append(eager_ms(net, x))
        for program in programs:
            bursts[program].append(octet_ms(program, inputs))
    eager = statistics.median(bursts["PyTorch eager, float"])
    for name, values in bursts.items():
        print(f"{name:40s} {statistics.median(values):8.2f} ms   {eager / statistics.median(values):5.1f}x")


if __name__ == "__main__":
    main()
