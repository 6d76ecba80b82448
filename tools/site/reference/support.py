"""The support matrix: what each backend of the command accepts, from `octet conformance`."""
import collections
import json
import pathlib
import subprocess
import tempfile

from .command import binary
from .text import escaped

BACKENDS = {"reference": "reference", "onednn": "oneDNN", "xnnpack": "XNNPACK"}
NUMBERS = ("float32", "integers")


def cells_of(backend):
    with tempfile.TemporaryDirectory(prefix="octet-support-") as folder:
        report = pathlib.Path(folder) / "report.json"
        subprocess.run([binary(), "conformance", "--quiet", "--backend", backend, "--json", report],
                       check=True, capture_output=True)
        return json.loads(report.read_text())["cells"]


def numbers_of(cell):
    return NUMBERS[0 if cell["cell"].split("/")[2].startswith("f32") else 1]


def share(cells):
    """Which of the cells are accepted."""
    accepted = sum(cell["outcome"] != "refused" for cell in cells)
    return ("" if not cells else "all" if accepted == len(cells) else "no" if accepted == 0
            else f"{accepted} of {len(cells)}")


def pages():
    of_op = {}  # op: numbers: backend: cells
    for backend in BACKENDS:
        for cell in cells_of(backend):
            op = of_op.setdefault(cell["op"], {numbers: {name: [] for name in BACKENDS}
                                               for numbers in NUMBERS})
            op[numbers_of(cell)][backend].append(cell)
    names = list(BACKENDS)
    head = [f"{BACKENDS[name]}, {numbers}" for numbers in NUMBERS for name in names]
    lines = ["# Which backend runs which op\n\nWhat the backends accept of the programs that ",
             "[`octet conformance`](../tutorials/conformance.md) runs, on the CPU that built this "
             "page. The reference\nruns what the others refuse. `model` stands for parts of "
             "networks, of which a backend runs at least one op.\n\n",
             f"| op | {' | '.join(head)} |\n|{'---|' * (len(head) + 1)}\n"]
    for op, forms in of_op.items():
        shares = [share(forms[numbers][name]) for numbers in NUMBERS for name in names]
        lines.append(f"| `{op}` | {' | '.join(shares)} |\n")
    for name in names:
        if not any(cell["outcome"] == "refused" for forms in of_op.values()
                   for numbers in NUMBERS for cell in forms[numbers][name]):
            continue
        lines.append(f"\n## What {BACKENDS[name]} refuses\n\n| op | reason | programs |\n|---|---|---|\n")
        for op, forms in of_op.items():
            reasons = collections.Counter(cell["detail"] for numbers in NUMBERS
                                          for cell in forms[numbers][name]
                                          if cell["outcome"] == "refused")
            lines += [f"| `{op}` | {escaped(reason)} | {count} |\n"
                      for reason, count in sorted(reasons.items())]
    return {"reference/support.md": "".join(lines)}
