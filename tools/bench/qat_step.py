"""Time and memory of a training step with fake quantization: `octet qat` beside torchao's eager PT2E.

    OMP_NUM_THREADS=1 .venv/bin/python tools/bench/qat_step.py build/release/bin/octet [--rounds 5] [--epochs 5] [--steps 20]

The residual network of tools/models/qat_table.py with three times the channels, batch 64 of 28x28 images. A step: forward, backward, optimizer. Each side is a separate process, one
after the other in each round, and prints a line after each epoch; between two lines the system's clock of its processor time is read. The first epoch is not counted. Memory: the
largest resident set after the first epoch, and what of that is the step's: the same with batch 2 taken off, which is the process, the network and the state of the optimizer.
"""
import argparse
import os
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
LEAST = 2  # what torch.export takes for a symbol


def make_network():
    return nn.Sequential(*conv_bn(1, 24, 3), nn.ReLU(), Residual(24, 48), Residual(48, 96), *head(96))


def batches(count, batch):
    generator = torch.Generator().manual_seed(0)
    return [(torch.randn(batch, 1, 28, 28, generator=generator), torch.randint(0, 10, (batch,), generator=generator)) for _ in range(count)]


def torchao_steps(folder, name, epochs):
    """In a separate process."""
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
    from torchao.quantization.pt2e import move_exported_model_to_train
    from torchao.quantization.pt2e.quantize_pt2e import prepare_qat_pt2e
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True, is_qat=True))
    program = prepare_qat_pt2e(torch.export.load(os.path.join(folder, "model.pt2")).module(), quantizer)
    data = torch.load(os.path.join(folder, name))
    move_exported_model_to_train(program)
    optimizer = torch.optim.SGD(program.parameters(), lr=0.01, momentum=0.9)
    for epoch in range(epochs):
        for x, target in data:
            loss = nn.functional.cross_entropy(program(x), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}/{epochs}", flush=True)


def processor_time(pid):
    """In nanoseconds, of all threads."""
    tasks = f"/proc/{pid}/task"
    total = 0
    for task in os.listdir(tasks):
        with open(f"{tasks}/{task}/schedstat") as file:
            total += int(file.read().split()[0])
    return total


def resident_peak(pid):
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))


def measure(command, epochs):
    """Processor seconds of each epoch after the first, and the peak in MB since."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    marks, peak, text = [], 0, []
    for line in process.stdout:
        text.append(line)
        if not line.startswith("epoch "):
            continue
        marks.append(processor_time(process.pid))
        peak = resident_peak(process.pid)
        if len(marks) == 1:
            with open(f"/proc/{process.pid}/clear_refs", "w") as file:
                file.write("5")  # the peak begins again
    if process.wait() or len(marks) != epochs:
        sys.exit("".join(text))
    return [(end - begin) / 1e9 for begin, end in zip(marks, marks[1:])], peak


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("octet")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20, help="of an epoch")
    parser.add_argument("--torchao", nargs=2, metavar=("FOLDER", "DATA"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.torchao:
        return torchao_steps(*options.torchao, options.epochs)
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name)  # noqa: E731
        torch.manual_seed(0)
        torch.export.save(torch.export.export(make_network().train(), (batches(LEAST, BATCH)[0][0],), dynamic_shapes=({0: torch.export.Dim.AUTO},)), path("model.pt2"))
        for batch in (LEAST, BATCH):
            torch.save(batches(options.steps, batch), path(f"{batch}.pt"))
        own = lambda name: [options.octet, "qat", path("model.pt2"), "--quantizer", "xnnpack", "--train", path(name), "--epochs", str(options.epochs), "--momentum", "0.9",  # noqa: E731
                            "--output", path("q.pt2")]
        sides = {"Octet": own, "Octet --compat torchao": lambda name: [*own(name), "--compat", "torchao"],
                 "torchao, eager": lambda name: [sys.executable, os.path.abspath(__file__), options.octet, "--torchao", folder, name, "--epochs", str(options.epochs)]}
        base = {name: measure(command(f"{LEAST}.pt"), options.epochs)[1] for name, command in sides.items()}
        times, peaks = {name: [] for name in sides}, {name: [] for name in sides}
        for _ in range(options.rounds):
            for name, command in sides.items():
                epochs, peak = measure(command(f"{BATCH}.pt"), options.epochs)
                times[name].append(1000 * statistics.median(epochs) / options.steps)
                peaks[name].append(peak)
        print(f"| batch {BATCH}, {torch.get_num_threads()} thread(s) | ms a step, median of {options.rounds} | least to most | ratio to torchao: median of the rounds | peak MB | of a step |"
              "\n|---|---|---|---|---|---|")
        for name, values in times.items():
            ratio = statistics.median(ours / peer for ours, peer in zip(values, times["torchao, eager"]))
            peak = statistics.median(peaks[name])
            print(f"| {name} | {statistics.median(values):.1f} | {min(values):.1f} to {max(values):.1f} | {ratio:.2f} | {peak:.0f} | {peak - base[name]:.0f} |")


if __name__ == "__main__":
    main()
