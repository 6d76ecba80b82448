"""Loads what Octet read and wrote again with PyTorch and compares: check_roundtrip.py TOOL MODELS WORK.

TOOL: octet_roundtrip. MODELS: a folder of make_models.py, or a folder of folders with a model.pt2 each. WORK: where to write.
Prints one line per difference and exits with 1 when there is any.
"""

import collections
import json
import pathlib
import subprocess
import sys
import zipfile

import torch

Pair = collections.namedtuple("Pair", ["first", "second"])
BARE = ("net", "slices", "constants", "while_loop")
WRITTEN_ANEW = (".data/", "byteorder")


def records(path):
    """Record name without the leading folder -> bytes."""
    with zipfile.ZipFile(path) as archive:
        return {name.split("/", 1)[1]: archive.read(name) for name in archive.namelist()}


def check_archives(before, after, fail):
    old, new = records(before), records(after)
    for name in sorted(set(old) | set(new)):
        if name.startswith(WRITTEN_ANEW):
            continue
        if name not in old or name not in new:
            fail(f"record {name} is only in the {'new' if name in new else 'old'} file")
        elif name.endswith(".json") and json.loads(old[name]) != json.loads(new[name]):
            fail(f"record {name} differs as JSON")
        elif name.endswith("_config.json") and list(json.loads(old[name])["config"]) != list(json.loads(new[name])["config"]):
            fail(f"record {name} has its entries in another order")
        elif not name.endswith(".json") and old[name] != new[name]:
            fail(f"record {name} differs, {len(old[name])} and {len(new[name])} bytes")


def equal(a, b):
    if isinstance(a, torch.Tensor):
        same_nan = {"equal_nan": True} if a.is_floating_point() or a.is_complex() else {}
        return (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride()) and torch.allclose(a, b, rtol=0, atol=0, **same_nan)
    return a == b


def check_programs(before, after, fail):
    extra_old, extra_new = {}, {}
    if "extra/notes.txt" in records(before):
        extra_old, extra_new = ({"notes.txt": "", "folder/version": ""} for _ in range(2))
    old = torch.export.load(before, extra_files=extra_old)
    new = torch.export.load(after, extra_files=extra_new)
    if extra_old != extra_new:
        fail(f"extra files: {extra_old} and {extra_new}")
    if str(old.range_constraints) != str(new.range_constraints):
        fail(f"range constraints: {old.range_constraints} and {new.range_constraints}")
    if str(old.graph_signature) != str(new.graph_signature):
        fail("graph signatures differ")
    if list(old.state_dict) != list(new.state_dict):
        fail("state dicts differ")
    example = pathlib.Path(str(before).replace(".pt2", ".inputs.pt"))
    calls = []
    if example.exists():
        calls.append(torch.load(example, weights_only=False))
        if before.stem == "dynamic":
            calls.append(((torch.randn(7, 2, 3),), {}))
    elif old.example_inputs is not None:
        calls.append(old.example_inputs)
    for args, kwargs in calls:
        copies = [torch.utils._pytree.tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, (args, kwargs)) for _ in range(2)]
        results = []
        for program, (a, k) in zip((old, new), copies):
            torch.manual_seed(0)
            with torch.no_grad():
                results.append(torch.utils._pytree.tree_flatten((program.module()(*a, **k), a, k)))
        if str(results[0][1]) != str(results[1][1]):
            fail("the structure of the outputs differs")
        elif not all(map(equal, results[0][0], results[1][0])):
            fail("the outputs differ")


def check_bare(tool, before, after, fail):
    """Without the original's calling convention, positional arguments give a tuple."""
    run = subprocess.run([tool, "--bare", str(before), str(after)], capture_output=True, text=True)
    if run.returncode != 0:
        return fail(run.stderr.strip())
    args, _ = torch.load(str(before).replace(".pt2", ".inputs.pt"), weights_only=False)
    with torch.no_grad():
        old, new = torch.export.load(before).module()(*args), torch.export.load(after).module()(*args)
    if not isinstance(new, tuple) or not all(map(equal, torch.utils._pytree.tree_leaves(old), new)):
        fail("the outputs of the file without extras differ")


def main():
    tool, models, work = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    work.mkdir(parents=True, exist_ok=True)
    torch.utils._pytree._register_namedtuple(Pair, serialized_type_name="octet.Pair")
    files = sorted(models.glob("*.pt2")) + sorted(models.glob("*/model.pt2"))
    failures = 0
    for before in files:
        name = before.stem if before.parent == models else before.parent.name
        problems = []
        after = work / f"{name}.pt2"
        run = subprocess.run([tool, str(before), str(after)], capture_output=True, text=True)
        if run.returncode != 0:
            problems.append(run.stderr.strip())
        else:
            check_archives(before, after, problems.append)
            check_programs(before, after, problems.append)
            if name in BARE:
                check_bare(tool, before, after, problems.append)
            after.unlink()
        for problem in problems:
            print(f"{name}: {problem}")
        failures += bool(problems)
    print(f"{len(files) - failures} of {len(files)} programs came back equal")
    return 1 if failures or not files else 0


if __name__ == "__main__":
    sys.exit(main())
