"""The zoo's results as CSV files, and in a few lines."""
import csv
import math
import os
import platform
import re
from collections import Counter

import steps
from runner import read_result

WRONG = 3.0  # dB that rounding in other places may cost
MARGIN = 0.5  # dB below torchao
ALIKE = 0.02  # shares in int8 that differ by less are compared
NOTHING = "finds nothing to quantize"


def cpu():
    """The model of this machine's CPU, and what of it int8 kernels ask for."""
    with open("/proc/cpuinfo") as file:
        text = file.read()
    name = re.search(r"model name\s*: (.*)", text)
    flags = re.search(r"flags\s*: (.*)", text)
    flags = set(flags.group(1).split()) if flags else set()
    best = next((title for flag, title in (("amx_int8", "AMX"), ("avx512_vnni", "AVX512-VNNI"),
                                           ("avx_vnni", "AVX-VNNI"), ("avx2", "AVX2"))
                 if flag in flags), "")
    return (name.group(1) if name else platform.machine()) + (f", {best}" if best else "")


class Row:
    """All results of one model in one configuration."""

    def __init__(self, work, name, configuration):
        self.name, self.configuration = name, configuration
        read = lambda part: read_result(work, name, part, configuration)
        self.octet, self.peer, self.time = read("octet"), read("peer"), read("time")
        self.openvino = read("openvino")

    @property
    def is_empty(self):
        """The quantizer has nothing for such a network, as X86's dynamic one for convolutions."""
        return bool(self.octet) and NOTHING in self.octet.get("message", "")

    @property
    def is_lowered(self):
        """Quantized, lowered and run without LibTorch."""
        return bool(self.octet) and "failed" not in self.octet and "refused" not in self.octet

    @property
    def runs(self):
        return bool(self.octet) and "failed" not in self.octet

    @property
    def is_wrong(self):
        """Further from the q/dq graph than that is from float, and further from float."""
        if not self.runs:
            return False
        figures = [self.octet[key] for key in ("sqnr", "graph_sqnr", "first_sqnr", "to_graph")]
        if None in figures:
            return True
        _, graph, lowered, to_graph = figures
        return to_graph < graph and lowered < graph - WRONG

    @property
    def gain(self):
        """dB above torchao, or None."""
        octet, peer = (self.octet or {}).get("sqnr"), (self.peer or {}).get("sqnr")
        return None if octet is None or peer is None else octet - peer

    @property
    def is_like_peer(self):
        """Whether torchao has as much in int8, so that the dB can be compared."""
        shares = [(result or {}).get("share") for result in (self.octet, self.peer)]
        return None not in shares and abs(shares[0] - shares[1]) < ALIKE

    @property
    def ratio(self):
        """int8 time to float time."""
        if "int8_ms" not in (self.time or {}):
            return None
        return self.time["int8_ms"] / self.time["float_ms"]

    def state(self):
        if not self.octet:
            return ""
        if self.is_empty:
            return "nothing to quantize"
        if "failed" in self.octet:
            return f"{self.octet['failed']}: {shortened(self.octet['message'])}"
        return f"with LibTorch: {shortened(self.octet['refused'])}" if "refused" in self.octet \
            else "yes"

    def cells(self):
        share, peer_share = (f"{100 * result['share']:.0f} %" if "share" in result else ""
                             for result in (self.octet or {}, self.peer or {}))
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        sqnr = "" if self.is_empty else decibels(self.octet)
        return [share, self.state(), sqnr, decibels(self.peer), peer_share, ratio]


def shortened(message):
    text = re.sub(r"/\S*/(?=\w+\.pt2)", "", " ".join(message.replace("|", "/").split()))
    return text if len(text) <= 90 else text[:88] + " …"


def decibels(result):
    if not result:
        return ""
    if "failed" in result:
        return "fails"
    value = result["sqnr"]
    return "not finite" if value is None else "exact" if value >= 999 else f"{value:.1f}"


def rows(work, entries, configuration):
    return [Row(work, entry.name, configuration) for entry in entries
            if is_exported(work, entry)]


def is_exported(work, entry):
    result = read_result(work, entry.name, "export")
    return result is not None and "failed" not in result


def figures(found):
    """Figures of a configuration: (title, text)."""
    done = [row for row in found if row.octet and not row.is_empty]
    if not done:
        return []
    gains = [row.gain for row in done if row.gain is not None and row.is_like_peer]
    ratios = [row.ratio for row in done if row.ratio is not None]
    share = lambda number: f"{number} of {len(done)}"
    result = [("lowered and run without LibTorch", share(sum(row.is_lowered for row in done))),
              ("with LibTorch for the rest", share(sum(row.runs for row in done))),
              ("not what the q/dq graph gives", str(sum(row.is_wrong for row in done)))]
    if gains:
        below = sum(gain < -MARGIN for gain in gains)
        above = sum(gain > MARGIN for gain in gains)
        result += [("where torchao has as much in int8: dB above it, median",
                    f"{sorted(gains)[len(gains) // 2]:.1f}"),
                   (f"there, more than {MARGIN} dB above torchao", f"{above} of {len(gains)}"),
                   (f"there, more than {MARGIN} dB below torchao", f"{below} of {len(gains)}")]
    less = [row for row in done if row.gain is not None and not row.is_like_peer]
    if less:
        result += [("torchao has another share in int8", f"{len(less)}")]
    failed = sum("failed" in (row.peer or {}) for row in done)
    if any(row.peer for row in done):
        result += [("torchao fails", f"{failed} of {sum(bool(row.peer) for row in done)}")]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        slow = sum(ratio > 1 for ratio in ratios)
        result += [("int8 time to float time, geometric mean", f"{mean:.2f}"),
                   ("int8 slower than float", f"{slow} of {len(ratios)}")]
    return result


def summary(work, entries):
    entries = [entry for entry in entries if read_result(work, entry.name, "export") is not None]
    exported = sum(is_exported(work, entry) for entry in entries)
    yield f"{len(entries)} models, {exported} of them exported; {cpu()}"
    for configuration in steps.CONFIGURATIONS:
        for title, text in figures(rows(work, entries, configuration)):
            yield f"{configuration}: {title}: {text}"


def failures(work, entries):
    """(message, number of models and configurations), the most frequent first."""
    counts = Counter()
    for configuration in steps.CONFIGURATIONS:
        for row in rows(work, entries, configuration):
            if row.octet and not row.is_lowered and not row.is_empty:
                counts[row.octet.get("refused") or row.octet["message"]] += 1
    return counts.most_common()


def _overview(work, entries):
    columns = {name: dict(figures(rows(work, entries, name))) for name in steps.CONFIGURATIONS}
    titles = list(dict.fromkeys(title for column in columns.values() for title in column))
    yield ["figure", *columns]
    for title in titles:
        yield [title, *(column.get(title, "") for column in columns.values())]


def _race(found):
    """Octet and OpenVINO on the same machine, in turns, for the models that were measured."""
    yield ["model", "Octet, ms", "OpenVINO, ms", "Octet to OpenVINO", "SQNR", "OpenVINO's"]
    for row in (row for row in found if row.openvino):
        if "failed" in row.openvino:
            cells = ["", "fails", "", decibels(row.octet), shortened(row.openvino["message"])]
        else:
            octet, other = row.openvino["octet_ms"], row.openvino["openvino_ms"]
            cells = [f"{octet:.2f}", f"{other:.2f}", f"{octet / other:.2f}", decibels(row.octet),
                     decibels(row.openvino)]
        yield [row.name, *cells]


def _results(work, entries):
    yield ["configuration", "model", "int8", "lowered", "SQNR", "torchao's", "its int8",
           "int8 time to float"]
    for configuration in steps.CONFIGURATIONS:
        for row in rows(work, entries, configuration):
            if row.octet:
                yield [configuration, row.name, *row.cells()]
    for entry in entries:
        result = read_result(work, entry.name, "export")
        if result and "failed" in result:
            yield ["not exported", entry.name, "", shortened(result["message"]), "", "", "", ""]


def write_tables(work, entries, folder):
    """Writes overview.csv, results.csv and openvino.csv, which README.md shows on the site."""
    entries = [entry for entry in entries if read_result(work, entry.name, "export") is not None]
    os.makedirs(folder, exist_ok=True)
    for name, lines in (("overview", _overview(work, entries)),
                        ("results", _results(work, entries)),
                        ("openvino", _race(rows(work, entries, steps.RACED)))):
        with open(os.path.join(folder, f"{name}.csv"), "w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(lines)
