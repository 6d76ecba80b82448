"""Accuracy of a small residual network on Fashion-MNIST: float, quantized after training, and trained with fake quantization, beside torchao's PT2E.

    apt-get install dataset-fashion-mnist
    OMP_NUM_THREADS=1 .venv/bin/python tools/qat_table.py build/release/bin/octet [--samples 60000] [--epochs 3] [--qat-epochs 2]

Every number is of the whole test set. The network trains in float first; both sides then start from the same weights, see the same batches of the
same size with the same learning rate, and freeze nothing. 4 bits: weights in -8 .. 7, one scale per output channel, activations int8.
"""
import argparse
import gzip
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401 registers the q/dq ops
from torch import nn

BATCH = 50


class Block(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(inputs, outputs, 3, 2, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        self.skip = nn.Sequential(nn.Conv2d(inputs, outputs, 1, 2, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return torch.relu(self.second(self.first(x)) + self.skip(x))


def make_network():
    stem = [nn.Conv2d(1, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    return nn.Sequential(*stem, Block(16, 32), Block(32, 64), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def read(folder, name, count=None):
    def load(kind, skip):
        with gzip.open(os.path.join(folder, f"{name}-{kind}-ubyte.gz")) as stream:
            return np.frombuffer(stream.read(), np.uint8, offset=skip)
    labels = torch.from_numpy(load("labels-idx1", 8).astype(np.int64))[:count]
    images = torch.from_numpy(load("images-idx3", 16).reshape(-1, 1, 28, 28)[: len(labels)].astype(np.float32))
    return list(zip(((images / 255 - 0.286) / 0.353).split(BATCH), labels.split(BATCH)))


def train(program, parameters, data, epochs, rate):
    optimizer = torch.optim.SGD(parameters, lr=rate, momentum=0.9)
    for epoch in range(epochs):
        order = torch.randperm(len(data), generator=torch.Generator().manual_seed(epoch)).tolist()
        for i in order:
            loss = nn.functional.cross_entropy(program(data[i][0]), data[i][1])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def accuracy(program, data):
    with torch.no_grad():
        return 100 * sum((program(x).argmax(1) == y).sum().item() for x, y in data) / sum(len(y) for _, y in data)


def octet(command, *arguments):
    result = subprocess.run([command, *arguments], capture_output=True, text=True)
    if result.returncode:
        sys.exit(result.stderr)
    return result.stderr


def of_file(path, data):
    return accuracy(torch.export.load(path).module(), data)


def of_octet(options, folder, test):
    """{(flow, bits): accuracy}, and the losses of each epoch."""
    path = lambda name: os.path.join(folder, name)  # noqa: E731
    results, curves = {}, {}
    for bits in (8, 4):
        weights = ["--weight-bits", str(bits), "--group-size", "0"] if bits == 4 else []
        octet(options.octet, "quantize", path("eval.pt2"), "--quantizer", "xnnpack", *weights, "--calibration", path("calibration.pt"), "--output", path("q.pt2"))
        results["PTQ", bits] = of_file(path("q.pt2"), test)
        log = octet(options.octet, "qat", path("train.pt2"), "--quantizer", "xnnpack", *weights, "--train", path("train.pt"), "--output", path("q.pt2"),
                    "--epochs", str(options.qat_epochs), "--lr", str(options.qat_rate))
        results["QAT", bits] = of_file(path("q.pt2"), test)
        curves[bits] = re.findall(r"loss ([0-9.e-]+), accuracy ([0-9.]+)", log)
    return results, curves


def of_torchao(options, folder, data, test):
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
    from torchao.quantization.pt2e import move_exported_model_to_eval, move_exported_model_to_train
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e, prepare_qat_pt2e
    results = {}
    for bits in (8, 4):
        ranges = {"weight_qmin": -8, "weight_qmax": 7} if bits == 4 else {}
        quantizer = lambda **more: XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True, **more, **ranges))  # noqa: E731
        program = prepare_pt2e(torch.export.load(os.path.join(folder, "eval.pt2")).module(), quantizer())
        with torch.no_grad():
            for x, _ in data[:20]:
                program(x)
        results["PTQ", bits] = accuracy(convert_pt2e(program), test)
        program = prepare_qat_pt2e(torch.export.load(os.path.join(folder, "train.pt2")).module(), quantizer(is_qat=True))
        move_exported_model_to_train(program)
        train(program, program.parameters(), data, options.qat_epochs, options.qat_rate)
        move_exported_model_to_eval(program)
        results["QAT", bits] = accuracy(convert_pt2e(program), test)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("octet")
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--samples", type=int, default=60000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--qat-epochs", type=int, default=2)
    parser.add_argument("--qat-rate", type=float, default=0.005)
    options = parser.parse_args()
    torch.manual_seed(0)
    data, test = read(options.data, "train", options.samples), read(options.data, "t10k")
    network = make_network().train()
    train(network, network.parameters(), data, options.epochs, 0.05)
    train(network, network.parameters(), data, 1, 0.005)
    with tempfile.TemporaryDirectory() as folder:
        example = (data[0][0],)
        torch.export.save(torch.export.export(network, example), os.path.join(folder, "train.pt2"))
        torch.export.save(torch.export.export(network.eval(), example), os.path.join(folder, "eval.pt2"))
        torch.save(data, os.path.join(folder, "train.pt"))
        torch.save([(x,) for x, _ in data[:20]], os.path.join(folder, "calibration.pt"))
        own, curves = of_octet(options, folder, test)
        peer = of_torchao(options, folder, data, test)
    print(f"{options.samples} training images, float {accuracy(network, test):.2f} %\n\n| | Octet | torchao |\n|---|---|---|")
    for flow, bits in own:
        print(f"| {flow}, int{bits} weights | {own[flow, bits]:.2f} % | {peer[flow, bits]:.2f} % |")
    for bits, epochs in curves.items():
        print(f"\nOctet, int{bits} weights, by epoch: " + ", ".join(f"loss {loss} ({right} %)" for loss, right in epochs))


if __name__ == "__main__":
    main()
