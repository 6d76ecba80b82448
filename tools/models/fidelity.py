#!/usr/bin/env python3
"""How close quantized programs stay to float on data that calibration did not see.

    fidelity.py DIR PROGRAM ...               these programs (.pt2 or .octet)
    fidelity.py DIR ... [--rows TEXT,...]     a table of what each option adds, in Markdown, beside the peers
    fidelity.py DIR ... --set passes          a table of what each accuracy pass adds, alone and to --effort high, and of the seconds it takes

Each DIR is what export.py wrote. Figures are medians over its held-out inputs: the signal to noise ratio of the outputs against the float ones (of
sentences: of the embeddings, pooled over the words that are there and normalized) and, of photographs, how many have the float label. A .pt2 runs
in PyTorch, an .octet through `octet run`. Results are kept in DIR/fidelity.json; --redo measures again what --rows names (parts of titles).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fidelity_rows  # noqa: E402
from demo_table import OCTET, sqnr  # noqa: E402


def load(folder, name):
    return torch.load(os.path.join(folder, name))


def pooled(states, mask):
    """The sentence's embedding, as sentence-transformers makes it."""
    weights = mask.double().unsqueeze(-1)
    mean = (states.double() * weights).sum(1) / weights.sum(1)
    return mean / mean.norm(dim=-1, keepdim=True)


def first(outputs):
    return outputs[0] if isinstance(outputs, (tuple, list)) else outputs


def program_outputs(path, folder):
    """The first output for each held-out input."""
    batches = load(folder, "held_out.pt")
    if path.endswith(".octet"):
        with tempfile.TemporaryDirectory() as scratch:
            for k in range(len(batches)):
                result = os.path.join(scratch, "y.pt")
                subprocess.run([OCTET, "run", path, "--inputs", os.path.join(folder, "inputs", f"{k:02d}.pt"), "--outputs", result], check=True)
                yield torch.load(result, weights_only=True)[0]
        return
    module = torch.export.load(path).module(check_guards=False)
    with torch.no_grad():
        for batch in batches:
            yield first(module(*batch))


def figures(path, folder):
    floats, batches = load(folder, "float.pt"), load(folder, "held_out.pt")
    results = list(program_outputs(path, folder))
    if len(batches[0]) == 2:  # sentences: token ids and mask
        floats, results = ([pooled(y, batch[1]) for y, batch in zip(ys, batches)] for ys in (floats, results))
    row = {"sqnr": statistics.median(sqnr(a, b) for a, b in zip(floats, results)), "count": len(floats)}
    if len(batches[0]) == 1:
        row["top1"] = sum(a.argmax().item() == b.argmax().item() for a, b in zip(floats, results))
    return row


def quantized_ops(path):
    return json.loads(subprocess.run([OCTET, "inspect", path, "--json"], check=True, capture_output=True, text=True).stdout)["quantized_ops"]


def measure(row, folder):
    """Quantizes the model as the row says and gives its figures; None where the row does not apply."""
    if row.is_for_sentences and len(load(folder, "held_out.pt")[0]) == 1:
        return None
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "q.pt2")
        start = time.perf_counter()
        row.quantize(OCTET, folder, path)
        seconds = time.perf_counter() - start
        return {**figures(path, folder), "ops": quantized_ops(path), "seconds": round(seconds, 1)}


def measured(folder, rows, wanted, redo):
    """{title: figures}, of this run and of former ones."""
    path = os.path.join(folder, "fidelity.json")
    results = json.load(open(path)) if os.path.exists(path) else {}
    for row in rows:
        is_wanted = row.quantize is not None and any(text in row.title for text in wanted)
        if not is_wanted or (row.title in results and not redo):
            continue
        try:
            results[row.title] = measure(row, folder)
        except subprocess.CalledProcessError as error:
            results[row.title] = {"error": (error.stderr or "").strip().splitlines()[-1:]}
        print(f"{os.path.basename(os.path.normpath(folder))}: {row.title}: {results[row.title]}", file=sys.stderr)
        json.dump(results, open(path, "w"), indent=1)
    return results


def cell(result):
    if result is None:
        return ""
    if "error" in result:
        return "fails"
    return f"{result['sqnr']:.2f}" + (f", {result['top1']}" if "top1" in result else "")


def print_seconds(names, rows, results):
    for row in rows:
        seconds = [f"{results[name][row.title]['seconds']:.0f} s" if "seconds" in (results[name].get(row.title) or {}) else "" for name in names]
        if "effort" in row.title and any(seconds):
            print(f"| {row.title}, time | " + " | ".join(seconds) + " |")


def print_table(folders, rows, results):
    names = [os.path.basename(os.path.normpath(folder)) for folder in folders]
    print("| SQNR in dB, equal labels | " + " | ".join(names) + " |")
    print("|---|" + "---|" * len(names))
    for row in rows:
        cells = [cell(fidelity_rows.CITED.get((row.title, name)) or results[name].get(row.title)) for name in names]
        if any(cells):
            print(f"| {row.title} | " + " | ".join(cells) + " |")
    print_seconds(names, rows, results)
    print()
    for name in names:
        for family in fidelity_rows.FAMILIES:
            counts = {row.title: results[name][row.title]["ops"] for row in rows
                      if row.family == family and "ops" in (results[name].get(row.title) or {})}
            if len(set(counts.values())) == 1:
                print(f"{name}, {family}: {next(iter(counts.values()))} int8 ops in all {len(counts)} rows")
            elif counts:
                print(f"{name}, {family}: int8 ops differ: {counts}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", help="folders, or one folder and programs")
    parser.add_argument("--rows", default="", help="only rows with one of these in their titles")
    parser.add_argument("--set", choices=["options", "passes"], default="options", help="which rows there are")
    parser.add_argument("--redo", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    fidelity_rows.register_ops()
    programs = [path for path in options.paths if not os.path.isdir(path)]
    if programs:
        for path in programs:
            row = figures(path, options.paths[0])
            labels = f"   top-1 {row['top1']}/{row['count']} = {row['top1'] / row['count']:.3f}" if "top1" in row else ""
            print(f"{path:40s} SQNR {row['sqnr']:6.2f} dB{labels}")
        return
    rows = fidelity_rows.pass_rows(OCTET) if options.set == "passes" else fidelity_rows.all_rows(OCTET)
    results = {os.path.basename(os.path.normpath(folder)): measured(folder, rows, options.rows.split(","), options.redo) for folder in options.paths}
    print_table(options.paths, rows, results)


if __name__ == "__main__":
    main()
