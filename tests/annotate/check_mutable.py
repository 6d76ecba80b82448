"""Models that write into their buffers or work in place, quantized by Octet and by torchao: check_mutable.py OCTET WORK.

With --compat torchao both must give the same ops, scales and zero points, and the same outputs over several calls in a row, which the state carries
on. Without, Octet must be as near to the float model as torchao, or nearer. Prints one line per difference and exits with 1 when there is any.
"""
import collections
import copy
import pathlib
import subprocess
import sys
import warnings

import torch
from torch import nn

warnings.filterwarnings("ignore")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from differences import run  # noqa: E402
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config  # noqa: E402
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e  # noqa: E402

CALLS = 3
NOT_AS_TORCHAO = {"decay"}  # with --compat torchao too


class Linears(nn.Module):
    """Two linears and a buffer; `step` says what happens to it."""

    def __init__(self, shape):
        super().__init__()
        self.register_buffer("state", torch.zeros(shape))
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 3)


class Accumulator(Linears):
    def forward(self, x):
        self.state.add_(self.first(x))
        return self.second(self.state * 1.0)


class IndexPut(Linears):
    def forward(self, x, position):
        self.state.index_put_((position,), self.first(x))
        return self.second(self.state)


class IndexPutView(Linears):
    def forward(self, x, position):
        view = self.state[0]
        view.index_put_((position,), self.first(x))
        return self.second(view)


class SliceCopy(Linears):
    def forward(self, x):
        self.state[1:3].copy_(self.first(x))
        return self.second(self.state)


class CopyBack(Linears):
    def forward(self, x):
        state = self.state + self.first(x)
        self.state.copy_(state)
        return self.second(state)


class CopyOfTanh(Linears):
    def forward(self, x):
        state = torch.tanh(self.first(x) + self.first(self.state))
        self.state.copy_(state)
        return self.second(state)


class Decay(Linears):
    """torchao computes what depends on constants and buffers alone once, at convert."""

    def forward(self, x):
        self.state.sub_(0.5)
        return self.second(self.first(x) + self.state)


class InPlace(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3)

    def forward(self, x):
        x = self.conv(x)
        x.add_(x)
        x.mul_(x)
        return x.relu_()


class TwoConvs(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3)
        self.second = nn.Conv2d(8, 4, 1)


class SliceScaled(TwoConvs):
    def forward(self, x):
        y = self.first(x)
        y[:, :4] *= 0.25
        return self.second(y)


class SelectFilled(TwoConvs):
    def forward(self, x):
        y = self.first(x)
        y[:, 0] = 3
        return self.second(y)


class OldName(TwoConvs):
    def forward(self, x):
        y = self.first(x)
        return self.second(y.relu_() * 2 + y)


class ReadView(TwoConvs):
    def forward(self, x):
        y = self.first(x)
        view = y.flatten(2)
        y.mul_(0.25)
        return self.second(view.unflatten(2, (4, 4)))


def images():
    return (torch.randn(1, 3, 6, 6),)


def tokens():
    return (torch.randn(2, 4),)


def tokens_at():
    return torch.randn(2, 4), torch.randperm(6)[:2]


MODELS = {
    "accumulator": (Accumulator, (2, 4), tokens),
    "index_put": (IndexPut, (6, 4), tokens_at),
    "index_put_view": (IndexPutView, (1, 6, 4), tokens_at),
    "slice_copy": (SliceCopy, (6, 4), tokens),
    "copy_back": (CopyBack, (2, 4), tokens),
    "copy_of_tanh": (CopyOfTanh, (2, 4), tokens),
    "decay": (Decay, (2, 4), tokens),
    "in_place": (InPlace, (), images),
    "slice_scaled": (SliceScaled, (), images),
    "select_filled": (SelectFilled, (), images),
    "old_name": (OldName, (), images),
    "read_view": (ReadView, (), images),
}


def quantize_with_peer(program, batches):
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
    module = program.module(check_guards=False)
    initial = {name: tensor.clone() for name, tensor in module.named_buffers()}
    prepared = prepare_pt2e(module, quantizer)
    for batch in batches:
        prepared(*batch)
    converted = convert_pt2e(prepared)
    for name, tensor in converted.named_buffers():
        if name in initial:
            tensor.copy_(initial[name])  # the peer saves the state that calibration left behind
    return converted


def ops(graph):
    return collections.Counter(str(node.target) for node in graph.nodes if node.op == "call_function" and "getitem" not in str(node.target))


def scales(graph):
    return sorted((round(node.args[1], 9), node.args[2]) for node in graph.nodes if "quantize_per_tensor" in str(node.target))


def quantize_with_octet(octet, work, name, *options):
    output = work / f"{name}_{len(options)}.pt2"
    command = [octet, "quantize", work / f"{name}.pt2", "--quantizer", "xnnpack", "--calibration", work / f"{name}.pt", "--output", output]
    subprocess.run([str(part) for part in [*command, *options]], check=True, capture_output=True, text=True)
    return torch.export.load(output).module(check_guards=False)


def sqnr(want, got):
    return 10 * torch.log10(want.square().sum() / (want - got).square().sum().clamp(min=1e-12)).item()


def differences(octet, work, name):
    make, shape, inputs = MODELS[name]
    torch.manual_seed(0)
    model = make(shape).eval()
    alone = copy.deepcopy(model)  # the exported program and torchao's share the buffers of `model`
    batches = [inputs() for _ in range(4)]
    program = torch.export.export(model, batches[0])
    torch.export.save(program, work / f"{name}.pt2")
    torch.save(batches, work / f"{name}.pt")
    peer = quantize_with_peer(program, batches)
    ours = quantize_with_octet(octet, work, name, "--compat", "torchao")
    own = quantize_with_octet(octet, work, name)
    is_alike = name not in NOT_AS_TORCHAO
    if is_alike and ops(ours.graph) != ops(peer.graph):
        yield f"other ops: +{ops(ours.graph) - ops(peer.graph)} -{ops(peer.graph) - ops(ours.graph)}"
    for (got, got_zero), (want, want_zero) in zip(scales(ours.graph), scales(peer.graph)):
        if is_alike and (abs(got - want) > 1e-5 * want or got_zero != want_zero):
            yield f"scale {got}, zero point {got_zero}; want {want}, {want_zero}"
    wants, gots, owns, floats = [], [], [], []
    for batch in batches[:CALLS]:
        for outputs, module in ((wants, peer), (gots, ours), (owns, own), (floats, alone)):
            outputs.append(module(*batch).detach().clone())
    for call, (want, got) in enumerate(zip(wants, gots)):
        if is_alike and not torch.allclose(want, got, atol=1e-6):
            yield f"call {call}: off by {(want - got).abs().max()}"
    peer_sqnr, own_sqnr = (sqnr(torch.stack(floats), torch.stack(outputs)) for outputs in (wants, owns))
    print(f"{name}: {own_sqnr:.1f} dB, torchao {peer_sqnr:.1f} dB")
    if own_sqnr < peer_sqnr - 3:
        yield "farther from the float model than torchao"


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(run(MODELS, differences))
