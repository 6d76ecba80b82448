"""Runs exported programs with `octet run` and with PyTorch, and compares: check_interpreter.py OCTET MODELS WORK.

MODELS: a folder of make_models.py (<name>.pt2 with <name>.inputs.pt); programs that only the interpreter is asked about are exported here.
Prints one line per difference and exits with 1 when there is any.
"""

import collections
import pathlib
import subprocess
import sys

import torch
from torch import nn
from torch.export import Dim, export, load, save
from torch.utils import _pytree as pytree


Pair = collections.namedtuple("Pair", ["first", "second"])  # of make_models.py, in its pickles


class Autocast(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.fc(x)
        return y.float() + 1


class NoGrad(nn.Module):
    def forward(self, x):
        with torch.no_grad():
            y = x * 2
        return y + x


class MutatedInput(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("sum", torch.zeros(3))

    def forward(self, x, y):
        x.add_(y)
        self.sum.add_(x)
        return x * self.sum


class Numbers(nn.Module):
    def forward(self, x, n: int, flag: bool, nothing, scale: float):
        y = x * n if flag else x
        return y * scale, n, None


class Shapes(nn.Module):
    def forward(self, x):
        n = x.shape[0]
        y = torch.zeros(n // 2 + 1, n + n * 3 - 1) + n / 3
        z = x.reshape(-1)[: n * 2 - 1]
        return y, z, torch.full((2,), 1.5).expand(n, 2), n + 1


class Item(nn.Module):
    def forward(self, x):
        n = x.sum().item()
        torch._check(n >= 0)
        torch._check(n <= 40)
        return torch.arange(n), x * n


class Mapped(nn.Module):
    def forward(self, xs, y):
        from torch._higher_order_ops.map import map as map_rows

        return map_rows(lambda x, y: x.sin() + y, xs, y)


class Lists(nn.Module):
    def forward(self, x):
        parts = torch.split(x, [1, 3], 0)
        values, indices = torch.topk(x, 2, dim=1)
        mean = torch.var_mean(x, dim=0)
        return torch.cat(parts[::-1]), values, indices, mean, torch.meshgrid(x[0], x[1], indexing="ij"), x[[0, 2]], x[:, None, [1]]


PROGRAMS = {
    "autocast": (Autocast, (torch.randn(2, 8),), None),
    "no_grad": (NoGrad, (torch.randn(3),), None),
    "mutated_input": (MutatedInput, (torch.randn(3), torch.randn(3)), None),
    "numbers": (Numbers, (torch.randn(3), 3, True, None, 0.5), None),
    "shapes": (Shapes, (torch.randn(6, 4),), {"x": {0: Dim("n", min=2, max=64)}}),
    "item": (Item, (torch.tensor([3, 4]),), None),
    "mapped": (Mapped, (torch.randn(3, 4), torch.randn(4)), None),
    "lists": (Lists, (torch.randn(4, 5),), None),
}


def same(got, want):
    if isinstance(want, torch.Tensor):
        return isinstance(got, torch.Tensor) and got.dtype == want.dtype and got.shape == want.shape and torch.allclose(got, want, rtol=1e-5, atol=1e-6, equal_nan=True)
    return got == want


def compare(octet, program, args, kwargs, work, fail):
    flat, _ = pytree.tree_flatten((args, kwargs))
    inputs, outputs = work / "inputs.pt", work / "outputs.pt"
    torch.save(tuple(flat), inputs)
    outputs.unlink(missing_ok=True)
    done = subprocess.run([octet, "run", program, "--inputs", inputs, "--outputs", outputs], capture_output=True, text=True)
    if done.returncode != 0:
        return fail(f"exit {done.returncode}: {done.stderr.strip()}")
    with torch.no_grad():
        want, _ = pytree.tree_flatten(load(program).module(check_guards=False)(*args, **kwargs))
    got = torch.load(outputs)
    if len(got) != len(want):
        return fail(f"{len(got)} outputs, want {len(want)}")
    for i, (g, w) in enumerate(zip(got, want)):
        if not same(g, w):
            fail(f"output {i} differs: {g} instead of {w}")


def main():
    octet, models, work = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    work.mkdir(parents=True, exist_ok=True)
    pytree._register_namedtuple(Pair, serialized_type_name="octet.Pair")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    failures = []
    count = 0
    for path in sorted(models.glob("*.pt2")):
        inputs = path.with_suffix(".inputs.pt")
        if not inputs.exists():
            continue
        args, kwargs = torch.load(inputs, weights_only=False)
        count += 1
        compare(octet, path, args, kwargs, work, lambda text, name=path.stem: failures.append(f"{name}: {text}"))
    for name, (module, args, dynamic) in PROGRAMS.items():
        path = work / f"{name}.pt2"
        program = export(module().eval(), args, dynamic_shapes=dynamic)
        save(program, path)
        count += 1
        compare(octet, path, args, {}, work, lambda text, name=name: failures.append(f"{name}: {text}"))
        decomposed = work / f"{name}_decomposed.pt2"
        save(program.run_decompositions(), decomposed)
        count += 1
        compare(octet, decomposed, args, {}, work, lambda text, name=name: failures.append(f"{name} decomposed: {text}"))
    for failure in failures:
        print(failure)
    print(f"{count} programs, {len(failures)} differences")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
