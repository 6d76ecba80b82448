"""The tables and the plot of a race.   race_report.py FOLDER   (of race.py: results.json, and MODEL/float.pt beside the outputs)"""
import json
import math
import os
import statistics
import sys

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "models"))
from demo_table import sqnr  # noqa: E402
from fidelity import pooled  # noqa: E402

COLUMNS = ["model", "threads", "variant", "best peer", "its ms", "Octet ms", "ratio", "Octet GOP/s", "of kernel peak", "load ms", "peak MB"]
XNNPACK_COLUMNS = ["model", "threads", "variant", "Octet with", "its ms", "ExecuTorch ms", "ratio", "load ms", "ExecuTorch", "memory MB", "ExecuTorch", "file MB",
                   "ExecuTorch"]
OCTETS = {"octet_xnnpack": "XNNPACK 2022-02", "octet_xnnpack13": "XNNPACK 2024-11"}
COLORS = {"octet": "#1a5fb4", "octet_xnnpack": "#62a0ea", "octet_xnnpack13": "#99c1f1", "openvino": "#8f8f8f", "ort": "#b5835a", "inductor": "#c061cb", "executorch": "#e5a50a", "eager": "#d0d0d0"}


def markdown(header, rows):
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in [header, ["---"] * len(header), *rows])


def of(results, **wanted):
    return [row for row in results if "error" not in row and all(row[key] == value for key, value in wanted.items())]


def latency_rows(measured):
    """Octet against the fastest peer in each cell, and the ratios by (threads, variant)."""
    results, rows, ratios = measured["results"], [], {}
    for ours in of(results, peer="octet"):
        model, threads, variant = ours["model"], ours["threads"], ours["variant"]
        rivals = [row for row in of(results, model=model, threads=threads, variant=variant) if row["peer"] not in ("octet", "eager", *OCTETS)]
        if not rivals:
            continue
        best = min(rivals, key=lambda row: row["median_ms"])
        ratio = ours["median_ms"] / best["median_ms"]
        ratios.setdefault((threads, variant), []).append(ratio)
        speed = measured["gop"][model] / ours["median_ms"] * 1e3
        peak = of(measured["peaks"], model=model, threads=threads)[0].get(variant if variant in ("float", "bfloat16") else "int8")
        rows.append([model, threads, variant, best["peer"], f"{best['median_ms']:.2f}", f"{ours['median_ms']:.2f}", f"**{ratio:.2f}**", f"{speed:.0f}",
                     "" if peak is None else f"{100 * speed / peak:.0f} %", f"{ours['load_ms']:.0f}", f"{ours['peak_rss_mb']:.0f}"])
    return rows, ratios


def memory(row):
    """What loading and running took, without the process's own libraries."""
    return row["peak_rss_mb"] - row.get("start_rss_mb", 0)


def xnnpack_rows(results):
    """Octet on XNNPACK against ExecuTorch's XNNPACK, cell by cell."""
    for ours in results:
        theirs = of(results, peer="executorch", model=ours["model"], threads=ours["threads"], variant=ours["variant"])
        if ours["peer"] in OCTETS and "error" not in ours and theirs:
            yield [ours["model"], ours["threads"], ours["variant"], OCTETS[ours["peer"]], f"{ours['median_ms']:.2f}", f"{theirs[0]['median_ms']:.2f}",
                   f"**{ours['median_ms'] / theirs[0]['median_ms']:.2f}**", *(f"{row['load_ms']:.0f}" for row in (ours, theirs[0])),
                   *(f"{memory(row):.0f}" for row in (ours, theirs[0])), *(f"{row.get('file_mb', math.nan):.1f}" for row in (ours, theirs[0]))]


def all_rows(results):
    return [[row["model"], row["threads"], row["variant"], row["peer"], f"{row['median_ms']:.2f}", f"{row['spread_ms']:.2f}", f"{row['load_ms']:.0f}",
             f"{row['peak_rss_mb']:.0f}"] if "error" not in row else [row["model"], row["threads"], row["variant"], row["peer"], row["error"], "", "", ""]
            for row in results]


def fidelity_rows(folder, results):
    for row in of(results, threads=1):
        if "outputs" not in row or row["variant"] == "float":
            continue
        outputs, floats = torch.load(row["outputs"]), torch.load(os.path.join(folder, row["model"], "float.pt"))
        batches = torch.load(os.path.join(folder, row["model"], "held_out.pt"))
        pairs = [(a.reshape(b.shape), b) for a, b in zip(floats, outputs)]
        if len(batches[0]) == 2:  # sentences: token ids and mask; padding is nobody's result
            pairs = [(pooled(a, batch[1]), pooled(b, batch[1])) for (a, b), batch in zip(pairs, batches)]
        is_classifier = len(batches[0]) == 1
        same = sum(torch.equal(a.argmax(-1), b.argmax(-1)) for a, b in pairs) if is_classifier else None
        yield [row["model"], row["variant"], row["peer"], f"{statistics.median(sqnr(a, b) for a, b in pairs):.2f}", "" if same is None else f"{same} of {len(pairs)}"]


def plot(results, path):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    threads = sorted({row["threads"] for row in results})
    figure, axes = pyplot.subplots(len(threads), 1, figsize=(11, 4 * len(threads)), squeeze=False)
    for axis, count in zip(axes[:, 0], threads):
        models = list(dict.fromkeys(row["model"] for row in results))
        peers = [peer for peer in COLORS if of(results, peer=peer, threads=count, variant="int8")]
        for k, peer in enumerate(peers):
            for x, model in enumerate(models):
                ours, row = of(results, peer="octet", model=model, threads=count, variant="int8"), of(results, peer=peer, model=model, threads=count, variant="int8")
                if ours and row:
                    axis.bar(x + 0.8 * k / len(peers), row[0]["median_ms"] / ours[0]["median_ms"], 0.8 / len(peers), color=COLORS[peer], label=peer if x == 0 else None)
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set_xticks([x + 0.4 for x in range(len(models))], models)
        axis.set_ylabel("int8 latency, Octet = 1")
        axis.set_title(f"{count} thread{'s' if count > 1 else ''}, batch 1")
        if axis.get_legend_handles_labels()[0]:
            axis.legend()
    figure.tight_layout()
    figure.savefig(path)


def main():
    folder = sys.argv[1]
    measured = json.load(open(os.path.join(folder, "results.json")))
    rows, ratios = latency_rows(measured)
    if rows:
        print(markdown(COLUMNS, rows))
    for (threads, variant), values in sorted(ratios.items()):
        mean = math.exp(statistics.fmean(map(math.log, values)))
        print(f"\n{variant}, {threads} thread(s): geometric mean of the ratios {mean:.3f} over {len(values)} models, worst {max(values):.2f}")
    on_xnnpack = list(xnnpack_rows(measured["results"]))
    if on_xnnpack:
        print("\n" + markdown(XNNPACK_COLUMNS, on_xnnpack))
        sizes = measured.get("library_mb", {})
        print("\nLibraries, stripped, in MB: " + ", ".join(f"{peer} {sizes[peer]:.1f}" for peer in (*OCTETS, "executorch") if sizes.get(peer)))
    print("\n" + markdown(["model", "threads", "variant", "peer", "ms", "spread", "load ms", "peak MB"], all_rows(measured["results"])))
    print("\n" + markdown(["model", "variant", "peer", "SQNR dB, median", "top-1 as in float"], list(fidelity_rows(folder, measured["results"]))))
    plot(measured["results"], os.path.join(folder, "latency.svg"))


if __name__ == "__main__":
    main()
