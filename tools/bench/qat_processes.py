"""Time of a training step in several processes beside one, each with one thread: the network and the batches of qat_step.py.

    .venv/bin/python tools/bench/qat_processes.py build/release/bin/octet [--processes 2] [--rounds 3] [--epochs 4] [--steps 10]

One process and several take turns. A step is what lies between two lines of progress, the first and the last epoch left out: by the clock, and as processor time of the process that takes most
(what a step would take on a machine that does nothing else, the waiting for others included). Prints the medians and their ratio.
"""
import argparse
import os
import statistics
import subprocess
import tempfile
import time

import torch
from qat_step import BATCH, LEAST, batches, make_network, processor_time


def ranks_of(process, count):
    if count == 1:
        return [process]
    with open(f"/proc/{process}/task/{process}/children") as file:
        return [int(number) for number in file.read().split()]


def run(octet, folder, count, options):
    """(seconds by the clock, of the processor) of a step, and the line on what was sent."""
    command = [octet, "qat", os.path.join(folder, "model.pt2"), "--quantizer", "xnnpack", "--train", os.path.join(folder, "train.pt"), "--output",
               os.path.join(folder, "q.pt2"), "--epochs", str(options.epochs)]
    if count > 1:
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(count), *command]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    marks, sent = [], ""
    for line in process.stderr:
        if line.startswith("epoch ") and ": loss" in line:
            marks.append((time.monotonic(), [processor_time(rank) * 1e-9 for rank in ranks_of(process.pid, count)]))
            if len(marks) == options.epochs - 1:  # after the last one, processes end
                break
    for line in process.stderr:
        sent = line.strip() if "in a step each gives" in line else sent
    if process.wait() != 0:
        raise SystemExit(f"octet qat failed in {count} processes")
    steps = (len(marks) - 1) * options.steps
    clock = (marks[-1][0] - marks[0][0]) / steps
    return clock, max((last - first) / steps for first, last in zip(marks[0][1], marks[-1][1], strict=True)), sent


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("octet")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5, help="at least 3; the first and the last are not counted")
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        shapes = ({0: torch.export.Dim("batch", min=LEAST)},)
        example = (batches(1, BATCH)[0][0],)
        torch.export.save(torch.export.export(make_network().train(), example, dynamic_shapes=shapes), os.path.join(folder, "model.pt2"))
        torch.save(batches(options.steps, BATCH), os.path.join(folder, "train.pt"))
        results = {count: [] for count in (1, options.processes)}
        for _ in range(options.rounds):
            for count in results:
                results[count].append(run(options.octet, folder, count, options))
    medians = {count: [statistics.median(result[i] for result in rounds) for i in (0, 1)] for count, rounds in results.items()}
    for count, (clock, processor) in medians.items():
        print(f"{count} processes: {1e3 * clock:.0f} ms a step, {1e3 * processor:.0f} ms of the processor")
    print(results[options.processes][0][2])
    print("ratio: " + ", ".join(f"{medians[options.processes][i] / medians[1][i]:.2f} {name}" for i, name in ((0, "by the clock"), (1, "of the processor"))))


if __name__ == "__main__":
    main()
