"""Accuracy of two small networks on Fashion-MNIST: float, quantized after training, and trained with fake quantization, beside torchao's PT2E.

    apt-get install dataset-fashion-mnist
    OMP_NUM_THREADS=1 .venv/bin/python tools/models/qat_table.py build/release/bin/octet [--plot annotate/qat_curves.svg] [--net resnet,mobilenet]

Every number is for the whole test set. A network trains in float first; both sides then start from the same weights and see the same batches of the same
size with the same learning rate, which falls to 0 along a cosine. In the last epoch ranges and the statistics of batch norms stay unchanged. Octet learns
its scales after the first epoch. 4 bits: weights in -8 .. 7, one scale per output channel, activations int8. The plot (it needs matplotlib) shows the
accuracy on the test set by epoch. With --seeds a number of QAT is the median of as many orders of the batches, and the plot shows the first.
"""
import argparse
import gzip
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401 registers the q/dq ops
from torch import nn

BATCH = 100
CALIBRATION = 10  # batches
BITS = (8, 4)


def conv_bn(inputs, outputs, kernel, stride=1, groups=1):
    return [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs)]


class Residual(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.body = nn.Sequential(*conv_bn(inputs, outputs, 3, 2), nn.ReLU(), *conv_bn(outputs, outputs, 3))
        self.skip = nn.Sequential(*conv_bn(inputs, outputs, 1, 2))

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


class Inverted(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        wide = 4 * inputs
        self.body = nn.Sequential(*conv_bn(inputs, wide, 1), nn.ReLU6(), *conv_bn(wide, wide, 3, stride, wide), nn.ReLU6(), *conv_bn(wide, outputs, 1))
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.body(x) if self.adds else self.body(x)


def head(channels):
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10)]


NETWORKS = {
    "resnet": lambda: nn.Sequential(*conv_bn(1, 8, 3), nn.ReLU(), Residual(8, 16), Residual(16, 32), *head(32)),
    "mobilenet": lambda: nn.Sequential(*conv_bn(1, 8, 3, 2), nn.ReLU6(), Inverted(8, 12, 1), Inverted(12, 16, 2), Inverted(16, 16, 1), *conv_bn(16, 64, 1),
                                       nn.ReLU6(), *head(64)),
}


def read(folder, name, count=None):
    def load(kind, skip):
        with gzip.open(os.path.join(folder, f"{name}-{kind}-ubyte.gz")) as stream:
            return np.frombuffer(stream.read(), np.uint8, offset=skip)
    labels = torch.from_numpy(load("labels-idx1", 8).astype(np.int64))[:count]
    images = torch.from_numpy(load("images-idx3", 16).reshape(-1, 1, 28, 28)[: len(labels)].astype(np.float32))
    return [(x.clone(), y.clone()) for x, y in zip(((images / 255 - 0.286) / 0.353).split(BATCH), labels.split(BATCH))]  # torch.save writes whole storages


def train(program, data, epochs, rate, before_epoch, after_epoch, seed=0):
    optimizer = torch.optim.SGD(program.parameters(), lr=rate, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(data))
    for epoch in range(epochs):
        before_epoch()
        order = torch.randperm(len(data), generator=torch.Generator().manual_seed(1000 * seed + epoch)).tolist()
        for i in order:
            loss = nn.functional.cross_entropy(program(data[i][0]), data[i][1])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        after_epoch()


def accuracy(program, data):
    with torch.no_grad():
        return 100 * sum((program(x).argmax(1) == y).sum().item() for x, y in data) / sum(len(y) for _, y in data)


def train_float(network, options, data, test):
    curve = []
    train(network, data, options.epochs, 0.1, network.train, lambda: curve.append(accuracy(network.eval(), test)))
    return curve


def octet(command, *arguments):
    result = subprocess.run([command, *arguments], capture_output=True, text=True)
    if result.returncode:
        sys.exit(result.stderr)
    return result.stderr


def of_file(path, data):
    return accuracy(torch.export.load(path).module(), data)


def of_octet(options, folder, test):
    """{(flow, bits): accuracy of each seed} and {bits: accuracy after each epoch}."""
    path = lambda name: os.path.join(folder, name)  # noqa: E731
    results, curves = {}, {}
    for bits in BITS:
        flow = ["--quantizer", "xnnpack", *(["--weight-bits", str(bits), "--group-size", "0"] if bits == 4 else []), "--output", path("q.pt2")]
        octet(options.octet, "quantize", path("eval.pt2"), *flow, "--calibration", path("calibration.pt"))
        results["PTQ", bits] = [of_file(path("q.pt2"), test)]
        results["QAT", bits] = []
        for seed in range(options.seeds):
            log = octet(options.octet, "qat", path("train.pt2"), *flow, "--train", path("train.pt"), "--validation", path("test.pt"), "--epochs",
                        str(options.qat_epochs), "--lr", str(options.qat_rate), "--schedule", "cosine", "--learn-ranges", "1", "--freeze-after",
                        str(options.qat_epochs - 1), "--seed", str(seed))
            results["QAT", bits].append(of_file(path("q.pt2"), test))
            curves.setdefault(bits, [float(value) for value in re.findall(r"validation loss .*accuracy ([0-9.]+)", log)])
    return results, curves


def train_torchao(options, folder, quantizer, data, test, seed):
    """Accuracy of the quantized program, and after each epoch."""
    from torchao.quantization.pt2e import disable_observer, enable_observer, move_exported_model_to_eval, move_exported_model_to_train
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_qat_pt2e
    program = prepare_qat_pt2e(torch.export.load(os.path.join(folder, "train.pt2")).module(), quantizer)
    curve = []

    def before():
        move_exported_model_to_train(program)
        if len(curve) < options.qat_epochs - 1:
            program.apply(enable_observer)
            return
        for node in program.graph.nodes:  # as torchao's tutorial freezes statistics
            if node.target == torch.ops.aten.batch_norm.default:
                node.args = (*node.args[:5], False, *node.args[6:])
        program.recompile()

    def after():
        move_exported_model_to_eval(program)
        program.apply(disable_observer)
        curve.append(accuracy(program, test))
    train(program, data, options.qat_epochs, options.qat_rate, before, after, seed)
    return accuracy(convert_pt2e(program), test), curve


def of_torchao(options, folder, data, test):
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    results, curves = {}, {}
    for bits in BITS:
        ranges = {"weight_qmin": -8, "weight_qmax": 7} if bits == 4 else {}
        quantizer = lambda **more: XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True, **more, **ranges))  # noqa: E731
        program = prepare_pt2e(torch.export.load(os.path.join(folder, "eval.pt2")).module(), quantizer())
        with torch.no_grad():
            for x, _ in data[:CALIBRATION]:
                program(x)
        results["PTQ", bits] = [accuracy(convert_pt2e(program), test)]
        trained = [train_torchao(options, folder, quantizer(is_qat=True), data, test, seed) for seed in range(options.seeds)]
        results["QAT", bits] = [value for value, _ in trained]
        curves[bits] = trained[0][1]
    return results, curves


def kept(path, make):
    """What `make` gives, or gave when the file was written."""
    if not os.path.exists(path):
        torch.save(make(), path)
    return torch.load(path, weights_only=False)


def run(name, options, data, test):
    """Float curve, and what of_octet and of_torchao give."""
    network = NETWORKS[name]()
    with tempfile.TemporaryDirectory() as temporary:
        folder = os.path.join(options.keep or temporary, name)
        os.makedirs(folder, exist_ok=True)

        def trained():
            torch.manual_seed(0)
            network.apply(lambda part: part.reset_parameters() if hasattr(part, "reset_parameters") else None)
            curve = train_float(network, options, data, test)
            return network.state_dict(), curve
        state, curve = kept(os.path.join(folder, "float.pth"), trained)
        network.load_state_dict(state)
        print(f"{name}: in float {', '.join(f'{value:.2f}' for value in curve)} %", file=sys.stderr, flush=True)
        example = (data[0][0],)
        torch.export.save(torch.export.export(network.eval(), example), os.path.join(folder, "eval.pt2"))
        torch.export.save(torch.export.export(network.train(), example), os.path.join(folder, "train.pt2"))
        torch.save(data[: options.qat_samples // BATCH], os.path.join(folder, "train.pt"))
        torch.save(test, os.path.join(folder, "test.pt"))
        torch.save([(x,) for x, _ in data[:CALIBRATION]], os.path.join(folder, "calibration.pt"))
        peer = kept(os.path.join(folder, "torchao.pth"), lambda: of_torchao(options, folder, data[: options.qat_samples // BATCH], test))
        return curve, of_octet(options, folder, test), peer


def cell(values):
    ends = f" ({min(values):.2f} to {max(values):.2f})" if len(values) > 1 else ""
    return f"{statistics.median(values):.2f} %{ends}"


def print_table(name, curve, own, peer):
    print(f"\n| {name}, float {curve[-1]:.2f} % | Octet | torchao |\n|---|---|---|")
    for flow, bits in own:
        print(f"| {flow}, int{bits} weights | {cell(own[flow, bits])} | {cell(peer[flow, bits])} |")
    recovered = [(statistics.median(side["QAT", 4]) - side["PTQ", 4][0]) / max(curve[-1] - side["PTQ", 4][0], 1e-9) for side in (own, peer)]
    print("| of PTQ's loss at 4 bits, QAT recovers | " + " | ".join(f"{100 * part:.0f} %" for part in recovered) + " |", flush=True)


def plot(measured, path):
    import matplotlib
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "octet"
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(1, len(measured), figsize=(6 * len(measured), 4), squeeze=False)
    for axis, (name, (curve, own, peer)) in zip(axes[0], measured.items()):
        axis.plot(range(1, len(curve) + 1), curve, "k.-", label="float")
        for (side, (results, curves)), style in zip({"Octet": own, "torchao": peer}.items(), ("-", ":")):
            for bits, color in zip(BITS, ("tab:blue", "tab:orange")):
                values = [*results["PTQ", bits], *curves[bits]]
                axis.plot(range(len(curve), len(curve) + len(values)), values, style, marker=".", color=color, label=f"{side}, int{bits} weights")
        axis.set_title(name)
        axis.set_xlabel("epochs; those of QAT begin at what PTQ gives")
        axis.set_ylabel("accuracy on the test set, %")
        axis.legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("octet")
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--net", default=",".join(NETWORKS))
    parser.add_argument("--samples", type=int, default=60000, help="of training in float")
    parser.add_argument("--qat-samples", type=int, default=20000, help="the first of them, of QAT")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--qat-epochs", type=int, default=3)
    parser.add_argument("--qat-rate", type=float, default=0.01)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--keep", metavar="FOLDER", help="where the networks in float and torchao's results stay, and are taken from when they are there")
    parser.add_argument("--plot", help="an .svg file")
    options = parser.parse_args()
    data, test = read(options.data, "train", options.samples), read(options.data, "t10k")
    measured = {}
    begin = time.monotonic()
    for name in options.net.split(","):
        measured[name] = run(name, options, data, test)
        curve, (own, _), (peer, _) = measured[name]
        print_table(name, curve, own, peer)
    print(f"\n{options.samples} training images, {options.epochs} epochs in float, then {options.qat_epochs} of QAT with {options.qat_samples}; {(time.monotonic() - begin) / 60:.0f} minutes")
    if options.plot:
        plot(measured, options.plot)


if __name__ == "__main__":
    main()
