"""Writes the programs that the archive tests read: make_models.py DIR. One .pt2 each, and <name>.inputs.pt with (args, kwargs)."""

import collections
import pathlib
import sys

import torch
from torch import nn
from torch.export import Dim, export, save

Pair = collections.namedtuple("Pair", ["first", "second"])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.fc = nn.Linear(4, 5)

    def forward(self, x):
        return self.fc(torch.relu(self.conv(x)).mean([2, 3]))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.head = nn.Linear(4, 10, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        return self.head(self.embed(tokens))


class Slices(nn.Module):
    """Views of one storage, strided and empty buffers, scalars."""

    def __init__(self):
        super().__init__()
        whole = torch.arange(12.0)
        self.register_buffer("first", whole[0:4])
        self.register_buffer("second", whole[4:8])
        self.register_buffer("every_second", whole[1::2])
        self.register_buffer("transposed", torch.randn(3, 4).t())
        self.register_buffer("empty", torch.zeros(0, 4))
        self.register_buffer("scalar", torch.tensor(2.5))
        self.register_buffer("f16", torch.randn(4).half())
        self.register_buffer("bf16", torch.randn(4).bfloat16())
        self.register_buffer("flags", torch.tensor([True, False, True, True]))
        self.register_buffer("u8", torch.arange(4, dtype=torch.uint8))
        self.register_buffer("c64", torch.tensor([1 + 2j, 0, 0, -1j]))

    def forward(self, x):
        y = (x + self.first * self.second) @ self.transposed + self.scalar
        z = x * self.f16.float() + self.bf16.float() + self.every_second[:4] + self.u8
        return y, torch.where(self.flags, z, 0.0), (self.c64 * x).real, torch.cat([x, self.empty])


class ChannelsLast(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3).to(memory_format=torch.channels_last)

    def forward(self, x):
        return self.conv(x).contiguous(memory_format=torch.contiguous_format)


class Constants(nn.Module):
    """Lifted constants, buffers that are in no state dict, infinities."""

    def __init__(self):
        super().__init__()
        self.register_buffer("hidden", torch.randn(4), persistent=False)
        self.plain = torch.randn(4)

    def forward(self, x):
        mask = torch.tensor([True, False, False, True])
        y = torch.masked_fill(x + self.hidden + self.plain, mask, float("-inf"))
        z = torch.full_like(x, float("inf")).clamp(max=float("inf"), min=-1.0)
        return y.softmax(-1), z, torch.nan_to_num(y, nan=float("nan"), neginf=1e-30)


class Mutating(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x, state):
        self.count.add_(1.0)
        state.mul_(2.0)
        return x * self.count + state


class Dynamic(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 3)

    def forward(self, x):
        y = x.reshape(x.shape[0], x.shape[1] * x.shape[2])
        return self.fc(y), torch.zeros(x.shape[0] + 1, x.shape[0] // 2 + 3), y.shape[0]


class Nested(nn.Module):
    def forward(self, a, pair, *, options):
        total = a + pair[0] * pair[1][0]
        return {"sum": total, "rest": (options["bias"] - total, [total * 2]), "none": None, "three": 3}


class Named(nn.Module):
    def forward(self, pair):
        return Pair(pair.first + 1, pair.second * 2)


class Plain(nn.Module):
    """Inputs that are not tensors."""

    def forward(self, x, count, factor, flag, nothing, word):
        y = x * count * factor
        return (y if flag and word == "word" else x), nothing, count


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda v: self.fc(v), lambda v: torch.relu(v) - 1, (x,))


class WhileLoop(nn.Module):
    def forward(self, count, x):
        return torch._higher_order_ops.while_loop(lambda i, v: i < 5, lambda i, v: (i + 1, v * 2), (count, x))


class Scan(nn.Module):
    def forward(self, x):
        from torch._higher_order_ops.scan import scan

        return scan(lambda carry, item: (carry + item, carry * item), torch.zeros(3), x, dim=0)


class Multiple(nn.Module):
    def forward(self, x):
        first, second, _ = torch.split(x, 2, dim=1)
        values, indices = torch.topk(first, 2)
        peak, _ = x.max(dim=1)
        return values, indices, second, peak, x[[0, 2], None]


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 4, batch_first=True)

    def forward(self, x):
        output, (hidden, _) = self.lstm(x)
        return output, hidden


class Symbols(nn.Module):
    """Float, bool and int symbols as values."""

    def forward(self, x, mask):
        count = mask.sum().item()
        torch._check(count >= 2)
        torch._check(count <= 100)
        scale = x.max().item()
        return x * scale + count, torch.ones(count), x.new_full((2, x.shape[1]), count * 2)


def cases():
    x = torch.randn
    rows = Dim("rows", min=2, max=16)
    yield "net", Net(), (x(2, 3, 8, 8),), {}, {}
    yield "net_strict", Net(), (x(2, 3, 8, 8),), {}, {"strict": True}
    yield "tied", Tied(), (torch.tensor([[1, 2, 3]]),), {}, {}
    yield "slices", Slices(), (x(3, 4),), {}, {}
    yield "channels_last", ChannelsLast(), (x(1, 4, 6, 6).to(memory_format=torch.channels_last),), {}, {}
    yield "constants", Constants(), (x(2, 4),), {}, {}
    yield "mutating", Mutating(), (x(3), x(3)), {}, {}
    yield "mutating_decomposed", Mutating(), (x(3), x(3)), {}, {"decompose": True}
    yield "dynamic", Dynamic(), (x(4, 2, 3),), {}, {"dynamic_shapes": ({0: rows},)}
    yield "dynamic_strict", Dynamic(), (x(4, 2, 3),), {}, {"dynamic_shapes": ({0: rows},), "strict": True}
    yield "nested", Nested(), (x(3), (x(3), [x(3)])), {"options": {"bias": x(3)}}, {}
    yield "named", Named(), (Pair(x(3), x(3)),), {}, {}
    yield "plain", Plain(), (x(3), 2, 0.5, True, None, "word"), {}, {}
    yield "branch", Branch(), (x(4),), {}, {}
    yield "while_loop", WhileLoop(), (torch.tensor(0), x(3)), {}, {}
    yield "scan", Scan(), (x(5, 3),), {}, {}
    yield "multiple", Multiple(), (x(3, 6),), {}, {}
    yield "recurrent", Recurrent(), (x(2, 5, 3),), {}, {}
    yield "symbols", Symbols(), (x(2, 3), torch.tensor([True, True, True, False])), {}, {}
    yield "symbolic_inputs", Plain(), (x(3), 2, 0.5, True, None, "word"), {}, {
        "dynamic_shapes": (None, Dim.DYNAMIC, None, None, None, None)}


def tensor_files():
    base = torch.arange(24.0)
    yield "mixed", (base[:6].view(2, 3).clone(), 3, 0.25, True, None, "text")
    yield "strided", (base.view(4, 6).t(), base[3::5], torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last))
    yield "batches", [(torch.full((4,), float(i)), torch.randn(2)) for i in range(3)]
    yield "dict", {"x": base}
    yield "module", nn.Linear(2, 2)
    yield "empty_list", []


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.utils._pytree._register_namedtuple(Pair, serialized_type_name="octet.Pair")
    for name, module, args, kwargs, options in cases():
        torch.manual_seed(0)
        decompose = options.pop("decompose", False)
        program = export(module.eval(), tuple(args), kwargs or None, **options)
        program = program.run_decompositions() if decompose else program
        extra = {"notes.txt": "kept unchanged \u00e4", "folder/version": "3"} if name == "net" else None
        save(program, folder / f"{name}.pt2", extra_files=extra)
        torch.save((args, kwargs), folder / f"{name}.inputs.pt")
    for name, value in tensor_files():
        torch.save(value, folder / f"{name}.pt")
    (folder / "done").write_text("")


if __name__ == "__main__":
    main()
