"""The figures of the tables in annotate/differences: figures.py OCTET WORK [WORDS].

Each row below is a small model under one configuration, which the real peer and Octet (without --compat torchao) quantize with the same data. Prints,
for the rows whose name begins with WORDS, what either gives: activations quantized (quantize ops), different scales among these, scales computed at run
time, ops with integer weights, SQNR to the float model on data that calibration did not see (dB), size of the program (kB); or what is raised; and what
Octet's report lists as float.
"""
import collections
import json
import math
import os
import pathlib
import subprocess
import sys

from peer import *  # noqa: F401,F403
from case_registry import Fn, IDX, R
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

Conv1d, Conv2d, Conv3d, Linear, Seq = nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear, nn.Sequential
XNNPACK = {"type": "xnnpack", "global": {"is_per_channel": True}}
X86 = {"type": "x86", "global": {}}
Row = collections.namedtuple("Row", "name model inputs peer octet")
ROWS = []


def row(name, model, inputs, peer=XNNPACK, octet=None):
    """peer: a descriptor as peer.make_quantizer takes it; octet: the settings of a JSON file when they are others."""
    ROWS.append(Row(name, model, inputs, peer, octet))


def settings(descriptor):
    """The JSON file for Octet that says what the descriptor says."""
    names = {"operator_type": "op_type", "function_type": "op_type"}
    result = {"base": descriptor["type"]}
    for key, value in descriptor.items():
        if key != "type":
            result[names.get(key, key)] = dict(value) if isinstance(value, list) else value
    return result


# ---- what is counted

def figures(module, inputs, want, path):
    """The figures of one converted module."""
    with torch.no_grad():
        got = module(*inputs)
    got = got[0] if isinstance(got, (tuple, list)) else got
    finite = want.isfinite()
    want, got = want.double()[finite], got.double()[finite]
    noise = (want - got).square().sum().item()
    torch.export.save(torch.export.export(module, inputs), path)
    nodes = [node for graph in module.modules() if isinstance(graph, torch.fx.GraphModule) for node in graph.graph.nodes]
    quantizers = [node for node in nodes if ".quantize" in str(node.target)]
    return {"q": len(quantizers), "scales": len({str(node.args[1:3]) for node in quantizers}),
            "dynamic": sum("choose_qparams" in str(node.target) for node in nodes),
            "weights": sum(has_integer_weight(node) for node in nodes),
            "dB": math.inf if noise == 0 else round(10 * math.log10(want.square().sum().item() / noise), 1) if math.isfinite(noise) else math.nan,
            "kB": round(path.stat().st_size / 1000)}


def has_integer_weight(node):
    """A convolution, linear op or embedding whose weight is dequantized."""
    name = str(node.target)
    position = 0 if "embedding" in name else 1 if "conv" in name or "linear" in name else None
    return position is not None and len(node.args) > position and "dequantize" in str(getattr(node.args[position], "target", ""))


def quantize_with_peer(program, batches, descriptor):
    prepared = prepare_pt2e(program.module(check_guards=False), descriptor() if callable(descriptor) else make_quantizer(descriptor))
    for batch in batches:
        prepared(*batch)
    return convert_pt2e(prepared)


def quantize_with_octet(octet, work, row):
    (work / "settings.json").write_text(json.dumps(row.octet or settings(row.peer)))
    command = [octet, "quantize", work / "model.pt2", "--quantizer", work / "settings.json", "--calibration", work / "data.pt", "--output",
               work / "octet.pt2", "--report", work / "report.json"]
    subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True)
    return torch.export.load(work / "octet.pt2").module(check_guards=False)


def attempt(function):
    try:
        return function()
    except subprocess.CalledProcessError as error:
        return error.stderr.strip().splitlines()[-1][:150]
    except BaseException as error:  # what the peer raises is the figure
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:150]


def measure(octet, work, row):
    torch.manual_seed(0)
    model = row.model().eval().requires_grad_(False)
    batches = [tuple(make(torch.Generator().manual_seed(100 * k + i), k) for i, make in enumerate(row.inputs)) for k in range(5)]
    held_out = batches.pop()
    program = torch.export.export(model, held_out)
    torch.export.save(program, work / "model.pt2")
    torch.save(batches, work / "data.pt")
    want = model(*held_out)
    want = want[0] if isinstance(want, (tuple, list)) else want
    peer = attempt(lambda: figures(quantize_with_peer(program, batches, row.peer), held_out, want, work / "peer.pt2"))
    own = attempt(lambda: figures(quantize_with_octet(octet, work, row), held_out, want, work / "own.pt2"))
    floats = []
    if not isinstance(own, str):
        report = json.loads((work / "report.json").read_text())
        floats = [op["target"].split(".")[1] for op in report["float_ops"]]
    text = lambda result: result if isinstance(result, str) else " ".join(f"{key}={value}" for key, value in result.items())
    print(f"{row.name}\n    peer  {text(peer)}\n    octet {text(own)}  float: {floats}", flush=True)


# ---- the rows

CFG = {"is_per_channel": True}
row("conv, ReLU6", lambda: Seq(Conv2d(3, 16, 3), nn.ReLU6(), Conv2d(16, 16, 1)), [R(1, 3, 16, 16, s=4.0)])
row("linear, hardtanh", lambda: Seq(Linear(32, 32), nn.Hardtanh(), Linear(32, 16)), [R(8, 32, s=4.0)])
row("add, ReLU6", lambda: Fn(lambda s, x, y: s.l(F.relu6(x + y)), l=Linear(32, 8)), [R(8, 32, s=4.0), R(8, 32, s=4.0)])
row("relu_ with several users", lambda: Fn(lambda s, x: (lambda y: s.e(y) + s.d(y.relu_()))(s.c(x)), c=Conv2d(3, 4, 1), d=Conv2d(4, 4, 1),
                                           e=Conv2d(4, 4, 1)), [R(1, 3, 8, 8)])


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.body, self.head = Seq(Conv2d(3, 8, 3), nn.ReLU()), Seq(Linear(8, 8), nn.ReLU()), Linear(8, 4)

    def forward(self, x):
        return self.head(self.body(self.stem(x).mean((2, 3))))


row("module_name stem", Named, [R(2, 3, 8, 8)], {"type": "xnnpack", "module_name": [["stem", CFG], ["body", CFG]]})
row("module_type Conv2d", Named, [R(2, 3, 8, 8)], {"type": "xnnpack", "module_type": [["torch.nn.Conv2d", CFG]]})
row("global and a module name", Named, [R(2, 3, 8, 8)], {"type": "xnnpack", "global": CFG, "module_name": [["stem", CFG]]})


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Fn(lambda s, x: s.head(torch.tanh(s.body(x))), body=Linear(8, 8), head=Linear(8, 4))

    def forward(self, x):
        return self.block(x)


row("block, then block.head per tensor", Block, [R(64, 8)],
    {"type": "xnnpack", "module_name": [["block", CFG], ["block.head", {"is_per_channel": False}]]})
row("null", Block, [R(2, 8)], {"type": "xnnpack", "global": CFG, "module_name": [["block.head", None]]})
row("misspelled name", Block, [R(2, 8)], {"type": "xnnpack", "module_name": [["blok", CFG]]})
row("op type conv2d", lambda: Fn(lambda s, x: s.c(s.b(s.a(x).unsqueeze(2)).unsqueeze(2)), a=Conv1d(3, 4, 1), b=Conv2d(4, 4, 1),
                                     c=Conv3d(4, 4, 1)), [R(1, 3, 8)],
    {"type": "xnnpack", "operator_type": [["aten.conv2d.default", CFG]]})
row("cat outside the filter", lambda: Fn(lambda s, x: torch.cat([s.l(x), x], 1), l=Linear(8, 8)), [R(2, 8)],
    {"type": "xnnpack", "module_name": [["l", CFG]]})
row("cat of integers", lambda: Fn(lambda s, x, i: s.l(x) + torch.cat([i, i], 1), l=Linear(8, 8)), [R(2, 8), IDX(9, 2, 4)])
row("weight of two convolutions", lambda: Fn(lambda s, x: s.a(torch.tanh(s.a(x))), a=Conv2d(3, 3, 1)), [R(1, 3, 8, 8)])
row("F.adaptive_avg_pool2d", lambda: Fn(lambda s, x: s.l(torch.flatten(F.adaptive_avg_pool2d(torch.tanh(x), 1), 1)), l=Linear(8, 4)),
    [R(1, 8, 8, 8)])
row("pool called twice", lambda: Fn(lambda s, x: s.l(torch.flatten(s.p(torch.tanh(s.p(torch.tanh(x)))), 1)), p=nn.AdaptiveAvgPool2d(2),
                                   l=Linear(32, 4)), [R(1, 8, 8, 8)])
row("integer scalars", lambda: Fn(lambda s, i: s.l(s.e(i + 1)), e=nn.Embedding(12, 8), l=Linear(8, 4)), [IDX(10, 2, 3)])


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = Linear(8, 8), Linear(8, 8)
        self.register_buffer("mask", torch.triu(torch.full((6, 6), -3.0e38), 1))

    def forward(self, x):
        return torch.softmax(self.q(x) @ self.k(x).transpose(1, 2) + self.mask, 2)


row("mask", Masked, [R(1, 6, 8)])
row("float64", lambda: Linear(8, 4).double(), [lambda g, k: torch.randn((2, 8), generator=g).double()])
row("float16", lambda: Seq(Linear(8, 4), nn.ReLU()).half(), [lambda g, k: torch.randn((2, 8), generator=g).half()])
row("computed weight", lambda: Fn(lambda s, x, w: F.linear(x, torch.tanh(w)), w=nn.Parameter(torch.zeros(1))), [R(4, 8), R(3, 8)])
row("zero padding", lambda: Fn(lambda s, x: s.d(F.pad(s.c(x), (1, 1, 1, 1))), c=Conv2d(3, 8, 1), d=Conv2d(8, 8, 3)), [R(1, 3, 8, 8)])
row("movement", lambda: Fn(lambda s, x: s.d(F.pad(F.pixel_shuffle(F.interpolate(s.c(x), scale_factor=2), 2)[:, :, 1:].contiguous(), (0, 1))),
                           c=Conv2d(3, 8, 1), d=Conv2d(2, 8, 3)), [R(1, 3, 8, 8)])
row("relu that the settings exclude", Named, [R(2, 3, 8, 8)],
    {"type": "xnnpack", "global": CFG, "filter_exclude_names": ["relu"]},
    {"base": "xnnpack", "global": CFG, "call_index": {"stem.1": {"aten.relu.default": {"0": None}}}})
row("prelu, sigmoid, softmax, layer norm, matmul", lambda: Fn(
    lambda s, x: torch.softmax(torch.sigmoid(s.n(s.p(s.l(x)))) @ x.transpose(0, 1), 1), l=Linear(8, 8), p=nn.PReLU(), n=nn.LayerNorm(8)), [R(4, 8)])

# Dynamic activations, embeddings
DYNAMIC = {"type": "xnnpack", "global": {"is_per_channel": True, "is_dynamic": True}}
EMBEDDING = {"type": "embedding"}


def unlike_rows(*shape):
    """A batch whose members differ in magnitude."""
    return lambda g, k: torch.randn(shape, generator=g) * torch.logspace(0, -2, shape[0]).view(-1, *[1] * (len(shape) - 1))


row("dynamic linear, unlike rows", lambda: Linear(32, 16, bias=False), [unlike_rows(8, 32)], DYNAMIC)
row("dynamic linear, one input feature", lambda: Linear(1, 4), [R(8, 1)], DYNAMIC)
row("dynamic convolution, unlike images", lambda: Conv2d(3, 8, 3, bias=False), [unlike_rows(8, 3, 8, 8)], DYNAMIC)
row("dynamic convolution, relu", lambda: Seq(Conv2d(3, 8, 3), nn.ReLU()), [R(2, 3, 8, 8)], DYNAMIC)
row("embedding_bag", lambda: nn.EmbeddingBag(512, 64), [IDX(500, 4, 6)], EMBEDDING, {"base": "embedding", "global": {}})
row("4-bit table", lambda: nn.Embedding(512, 64), [IDX(500, 4, 6)], EMBEDDING, {"base": "embedding", "global": {"weight_bits": 4}})
row("float16 table", lambda: nn.Embedding(512, 64).half(), [IDX(500, 4, 6)], EMBEDDING, {"base": "embedding", "global": {}})
row("embeddings of an earlier quantizer", lambda: Fn(lambda s, i: s.l(s.e(i)), e=nn.Embedding(32, 8), l=Linear(8, 4)), [IDX(30, 4, 6)],
    {"type": "composable", "quantizers": [EMBEDDING, {"type": "embedding"}, XNNPACK]},
    {"compose": [{"base": "embedding", "global": {}}, {"base": "embedding", "global": {}}, {"base": "xnnpack", "global": CFG}]})

# Control flow
row("cond", lambda: Fn(lambda s, x: torch.cond(x.sum() > 0, lambda x: F.relu(s.a(x)), lambda x: F.relu(s.b(x)), (x,)), a=Linear(64, 64),
                        b=Linear(64, 64)), [R(4, 64)])


class Scan(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = Linear(64, 64)

    def forward(self, xs):
        from torch._higher_order_ops.scan import scan
        step = lambda h, x: (lambda y: (y, y.clone()))(F.relu(self.cell(x + h)))
        return scan(step, torch.zeros(2, 64), xs)[1]


row("scan", Scan, [R(5, 2, 64)])
row("scan, weights per tensor", Scan, [R(5, 2, 64)], {"type": "xnnpack", "global": {}})



# Writes in place
def written(write):
    return lambda: Fn(lambda s, x: s.d(write(s.c(x))), c=Conv2d(3, 8, 3), d=Conv2d(8, 8, 1))


def to_slice(y):
    y[:, :4] *= 0.25
    return y


def to_select(y):
    y[:, 0] = 3
    return y


row("write into a slice", written(to_slice), [R(2, 3, 8, 8)])
row("write into a select", written(to_select), [R(2, 3, 8, 8)])
row("write into a tensor whose view is read", written(lambda y: (lambda v: y.mul_(0.25).sum() * 0 + v.unflatten(2, (6, 6)))(y.flatten(2))),
    [R(2, 3, 8, 8)])

# X86
row("x86: GELU after a convolution, then pooling", lambda: Seq(Conv2d(3, 8, 3), nn.GELU(), nn.MaxPool2d(2), Conv2d(8, 8, 1)), [R(1, 3, 10, 10)], X86)
row("x86: SiLU after linear, cat", lambda: Fn(lambda s, x: s.o(torch.cat([F.silu(s.a(x)), F.silu(s.b(x))], 1)), a=Linear(8, 8), b=Linear(8, 8),
                                            o=Linear(16, 4)), [R(4, 8)], X86)
row("x86: hardtanh after a residual addition, pooling", lambda: Fn(lambda s, x: s.o(F.max_pool2d(F.hardtanh(s.a(x) + s.b(x)), 2)),
                                                                  a=Conv2d(3, 8, 1), b=Conv2d(3, 8, 1), o=Conv2d(8, 8, 1)), [R(1, 3, 8, 8)], X86)
row("x86: 1-d pooling", lambda: Seq(Conv1d(3, 8, 3), nn.ReLU(), nn.MaxPool1d(2), Conv1d(8, 8, 1), nn.ReLU()), [R(1, 3, 16)], X86)
row("x86: dropout before pooling", lambda: Seq(Conv2d(3, 8, 3), nn.ReLU(), nn.Dropout(), nn.MaxPool2d(2), Conv2d(8, 8, 1)), [R(1, 3, 10, 10)], X86)
row("x86: ReLU with another user", lambda: Fn(lambda s, x: (lambda y: s.d(s.r(y)) + s.e(y))(s.c(x)), c=Conv2d(3, 4, 1), d=Conv2d(4, 4, 1),
                                                 e=Conv2d(4, 4, 1), r=nn.ReLU()), [R(1, 3, 8, 8)], X86)
row("x86: module type Linear null, a function", lambda: Fn(lambda s, x: F.linear(s.l(x), s.w), l=Linear(8, 8), w=nn.Parameter(torch.randn(4, 8))),
    [R(4, 8)],
    {"type": "x86", "global": {}, "module_type": [["torch.nn.Linear", None]]})
row("x86: block and block.head", Block, [R(2, 8)], {"type": "x86", "global": {}, "module_name": [["block", {}], ["block.head", None]]})
row("x86: one op type", lambda: Seq(Conv2d(3, 8, 1), nn.ReLU(), nn.MaxPool2d(2), Conv2d(8, 8, 1)), [R(1, 3, 10, 10)],
    {"type": "x86", "function_type": [["torch.nn.functional.conv2d", {}]]})


def static_then_dynamic():
    quantizer = make_quantizer(X86)
    return quantizer.set_global(x86_cfg({"is_dynamic": True}))


row("x86: static global, then dynamic", lambda: Seq(Linear(8, 8), nn.ReLU(), Linear(8, 4)), [R(4, 8)], static_then_dynamic,
    {"base": "x86", "global": {"is_dynamic": True}})
row("x86: dynamic", lambda: Seq(Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), Linear(8, 4)), [R(4, 3, 10, 10)],
    {"type": "x86", "global": {"is_dynamic": True}})
row("x86: float16", lambda: Seq(Conv2d(3, 64, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), Linear(64, 512)), [R(4, 3, 10, 10)],
    {"type": "x86", "global": {"preset": "linear_dynamic_fp16"}})
row("x86: float16, linear alone", lambda: Seq(Linear(64, 512)), [R(4, 64)], {"type": "x86", "global": {"preset": "linear_dynamic_fp16"}})
row("x86: ops of every kind", lambda: Fn(lambda s, x: torch.softmax(s.n(torch.tanh(s.l(x)) / 2), 1), l=Linear(8, 8),
                                            n=nn.LayerNorm(8)), [R(4, 8)], X86)
row("x86: float64", lambda: Linear(8, 4).double(), [lambda g, k: torch.randn((2, 8), generator=g).double()], X86)
row("x86: computed weight", lambda: Fn(lambda s, x, w: F.linear(x, torch.tanh(w)), w=nn.Parameter(torch.zeros(1))), [R(4, 8), R(3, 8)], X86)
row("x86: infinite constant", lambda: Fn(lambda s, x: s.l(x) * s.m, l=Linear(8, 8), m=nn.Parameter(torch.tensor([[1.0] * 7 + [math.inf]] * 4))),
    [R(4, 8)], X86)
row("x86: added to itself", lambda: Fn(lambda s, x: (lambda y: y + y)(s.c(x)), c=Conv2d(3, 4, 1)), [R(1, 3, 8, 8)], X86)
row("x86: zero padding", lambda: Fn(lambda s, x: s.d(F.pad(s.c(x), (1, 1, 1, 1))), c=Conv2d(3, 8, 1), d=Conv2d(8, 8, 3)), [R(1, 3, 8, 8)], X86)


def main():
    octet, work, words = sys.argv[1], pathlib.Path(sys.argv[2]), " ".join(sys.argv[3:])
    work.mkdir(parents=True, exist_ok=True)
    for each in ROWS:
        if each.name.startswith(words):
            measure(octet, work, each)


if __name__ == "__main__":
    main()
