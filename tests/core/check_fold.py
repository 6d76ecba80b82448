"""Batch norms folded by `octet fuse`, read by PyTorch: check_fold.py OCTET WORK.

Each model is exported, folded and run: the result must be the float model's within 1e-5 of its largest element, with as many batch norms left as the
table says. It also reports what torchao's prepare_pt2e makes of the same program, which changes results where others read the convolution's output
and fails on grouped transposed convolutions. Prints one line per difference and exits with 1 when there is any.
"""
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
from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e  # noqa: E402
from torchao.quantization.pt2e.quantizer import Quantizer  # noqa: E402


class NoQuantizer(Quantizer):
    def annotate(self, model):
        return model

    def validate(self, model):
        pass


class TwoReaders(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x):
        y = self.conv(x)
        return self.norm(y) + y


class SharedConv(nn.Module):
    """One convolution called twice, with a separate batch norm after each call."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.first = nn.BatchNorm2d(3)
        self.second = nn.BatchNorm2d(3)

    def forward(self, x):
        return self.second(self.conv(self.first(self.conv(x))))


class TwoNorms(nn.Module):
    """A convolution that two batch norms read."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.first = nn.BatchNorm2d(4)
        self.second = nn.BatchNorm2d(4)

    def forward(self, x):
        y = self.conv(x)
        return self.first(y) - self.second(y)


class Transposed(nn.Module):
    """A linear over a sequence whose channels the batch norm finds in dimension 1."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(self.fc(x).transpose(1, 2))


class Positions(nn.Module):
    """A batch norm over positions, not channels: it cannot be folded."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x):
        return self.norm(self.fc(x))


def pair(layer, norm):
    return lambda: nn.Sequential(layer(), norm())


IMAGE, LINE, CUBE = (2, 3, 8, 8), (2, 3, 8), (2, 3, 5, 5, 5)
# name: (model, shape of the input, batch norms left)
MODELS = {
    "conv1d": (pair(lambda: nn.Conv1d(3, 4, 3), lambda: nn.BatchNorm1d(4)), LINE, 0),
    "conv2d": (pair(lambda: nn.Conv2d(3, 4, 3), lambda: nn.BatchNorm2d(4)), IMAGE, 0),
    "conv3d": (pair(lambda: nn.Conv3d(3, 4, 3), lambda: nn.BatchNorm3d(4)), CUBE, 0),
    "conv2d_no_bias": (pair(lambda: nn.Conv2d(3, 4, 3, bias=False), lambda: nn.BatchNorm2d(4)), IMAGE, 0),
    "conv2d_same": (pair(lambda: nn.Conv2d(3, 4, 3, padding="same"), lambda: nn.BatchNorm2d(4)), IMAGE, 0),
    "conv1d_same_dilated": (pair(lambda: nn.Conv1d(3, 4, 3, padding="same", dilation=2), lambda: nn.BatchNorm1d(4)), LINE, 0),
    "conv2d_depthwise": (pair(lambda: nn.Conv2d(3, 6, 3, groups=3), lambda: nn.BatchNorm2d(6)), IMAGE, 0),
    "conv2d_plain_norm": (pair(lambda: nn.Conv2d(3, 4, 3), lambda: nn.BatchNorm2d(4, affine=False)), IMAGE, 0),
    "conv2d_eps": (pair(lambda: nn.Conv2d(3, 4, 3), lambda: nn.BatchNorm2d(4, eps=1e-2)), IMAGE, 0),
    "conv2d_double": (pair(lambda: nn.Conv2d(3, 4, 3).double(), lambda: nn.BatchNorm2d(4).double()), IMAGE, 0),
    "transposed1d": (pair(lambda: nn.ConvTranspose1d(3, 4, 3), lambda: nn.BatchNorm1d(4)), LINE, 0),
    "transposed2d": (pair(lambda: nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1), lambda: nn.BatchNorm2d(4)), IMAGE, 0),
    "transposed3d": (pair(lambda: nn.ConvTranspose3d(3, 4, 3), lambda: nn.BatchNorm3d(4)), CUBE, 0),
    "transposed1d_groups": (pair(lambda: nn.ConvTranspose1d(3, 6, 3, groups=3), lambda: nn.BatchNorm1d(6)), LINE, 0),
    "transposed2d_groups": (pair(lambda: nn.ConvTranspose2d(3, 6, 3, groups=3), lambda: nn.BatchNorm2d(6)), IMAGE, 0),
    "transposed3d_groups": (pair(lambda: nn.ConvTranspose3d(3, 6, 3, groups=3), lambda: nn.BatchNorm3d(6, affine=False)), CUBE, 0),
    "linear": (pair(lambda: nn.Linear(3, 4), lambda: nn.BatchNorm1d(4)), (5, 3), 0),
    "linear_no_bias": (pair(lambda: nn.Linear(3, 4, bias=False), lambda: nn.BatchNorm1d(4, affine=False)), (5, 3), 0),
    "linear_sequence": (Transposed, (2, 8, 3), 0),
    "linear_positions": (Positions, (2, 8, 3), 1),
    "two_readers": (TwoReaders, IMAGE, 1),
    "shared_conv": (SharedConv, IMAGE, 0),
    "norm_behind_norm": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.BatchNorm2d(4)), IMAGE, 0),
    "two_norms": (TwoNorms, IMAGE, 2),
}


def make_model(make):
    torch.manual_seed(0)
    model = make()
    for norm in model.modules():
        if hasattr(norm, "running_var"):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
            if norm.affine:
                nn.init.normal_(norm.weight, 1, 0.5)
                nn.init.normal_(norm.bias)
    return model.eval()


def off(want, got):
    return ((want - got).abs().max() / want.abs().max()).item()


def peer_result(program, x, want):
    try:
        return f"off by {off(want, prepare_pt2e(program.module(check_guards=False), NoQuantizer())(x)):.1e}"
    except Exception as error:
        return f"{type(error).__name__}"


def differences(octet, work, name):
    make, shape, left = MODELS[name]
    model = make_model(make)
    x = torch.randn(shape, dtype=next(model.parameters()).dtype)
    program = torch.export.export(copy.deepcopy(model), (x,))
    source, target = work / f"{name}.pt2", work / f"{name}_folded.pt2"
    torch.export.save(program, source)
    subprocess.run([octet, "fuse", str(source), "--output", str(target)], check=True, capture_output=True, text=True)
    folded = torch.export.load(target)
    with torch.no_grad():
        want = model(x)
        error = off(want, folded.module()(x))
        print(f"{name}: off by {error:.1e}; torchao: {peer_result(program, x, want)}")
    if error > 1e-5:
        yield f"off by {error} of the largest element"
    norms = sum("batch_norm" in str(node.target) for node in folded.graph.nodes)
    if norms != left:
        yield f"{norms} batch norms left, want {left}"
    if left == 0 and any("running" in key for key in folded.state_dict):
        yield "statistics of folded batch norms are kept"


if __name__ == "__main__":
    sys.exit(run(MODELS, differences))
