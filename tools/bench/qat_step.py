"""Time and memory of a training step with fake quantization: `octet qat` beside torchao's eager PT2E.

    OMP_NUM_THREADS=1 .venv/bin/python tools/bench/qat_step.py build/release/bin/octet [--rounds 5] [--steps 40]

The residual network of tools/qat_table.py with three times the channels, batch 64 of 28x28 images. A step: forward, backward, optimizer. Each side is a process of its own that
trains N and then 2 N steps: the difference in processor time is that of N steps without what happens once. Memory: peak of the resident set, less that of
the process before the model came.
"""
import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile

import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401 registers the q/dq ops
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from qat_table import Residual, conv_bn, head  # noqa: E402

BATCH = 64


def make_network():
    return nn.Sequential(*conv_bn(1, 24, 3), nn.ReLU(), Residual(24, 48), Residual(48, 96), *head(96))


def batches(count):
    generator = torch.Generator().manual_seed(0)
    return [(torch.randn(BATCH, 1, 28, 28, generator=generator), torch.randint(0, 10, (BATCH,), generator=generator)) for _ in range(count)]


def torchao_steps(folder, steps):
    """In a process of its own: prints the peak before the training."""
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
    from torchao.quantization.pt2e import move_exported_model_to_train
    from torchao.quantization.pt2e.quantize_pt2e import prepare_qat_pt2e
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True, is_qat=True))
    program = torch.export.load(os.path.join(folder, "model.pt2")).module()
    data = torch.load(os.path.join(folder, f"{steps}.pt"))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    program = prepare_qat_pt2e(program, quantizer)
    move_exported_model_to_train(program)
    optimizer = torch.optim.SGD(program.parameters(), lr=0.01, momentum=0.9)
    for x, target in data:
        loss = nn.functional.cross_entropy(program(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def measure(command):
    """Processor seconds and peak in MB of a process, and what it printed."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{command[0]} ended with {status}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, printed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("octet")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--torchao", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.torchao:
        return torchao_steps(options.torchao, options.steps)
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name)  # noqa: E731
        torch.manual_seed(0)
        torch.export.save(torch.export.export(make_network().train(), (batches(1)[0][0],)), path("model.pt2"))
        for count in (1, options.steps, 2 * options.steps):
            torch.save(batches(count), path(f"{count}.pt"))
        own = lambda count: [options.octet, "qat", path("model.pt2"), "--quantizer", "xnnpack", "--train", path(f"{count}.pt"), "--output", path("q.pt2")]  # noqa: E731
        sides = {"Octet": own, "Octet --compat torchao": lambda count: [*own(count), "--compat", "torchao"],
                 "torchao": lambda count: [sys.executable, __file__, options.octet, "--torchao", folder, "--steps", str(count)]}
        times, peaks, before = {name: [] for name in sides}, {}, {}
        for _ in range(options.rounds):
            for name, command in sides.items():
                few, _, _ = measure(command(options.steps))
                many, peak, printed = measure(command(2 * options.steps))
                times[name].append(1000 * (many - few) / options.steps)
                peaks[name] = peak
                before[name] = int(printed) / 1024 if printed.strip() else None
        print(f"| batch {BATCH}, {torch.get_num_threads()} thread(s) | ms a step, median of {options.rounds} | least to most | ratio to torchao | peak MB |\n|---|---|---|---|---|")
        peer = statistics.median(times["torchao"])
        for name, values in times.items():
            middle = statistics.median(values)
            memory = f"{peaks[name]:.0f}" + (f" ({before[name]:.0f} before the training)" if before[name] else "")
            print(f"| {name} | {middle:.1f} | {min(values):.1f} to {max(values):.1f} | {middle / peer:.2f} | {memory} |")


if __name__ == "__main__":
    main()
