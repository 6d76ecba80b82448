#!/usr/bin/env python3
"""Which ops of lowered programs work on 8-bit integers, by kind: int8_ops.py PROGRAM.octet ...

Ends with 1 when the programs differ in that: accuracy options must not make int8 ops float. Float ops may differ and are printed too.
"""
import collections
import json
import os
import subprocess
import sys

OCTET = os.environ.get("OCTET", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "build", "release", "bin", "octet"))
EIGHT_BITS = ("int8", "uint8")


def counts(path):
    """({kind: number of ops that take or give 8-bit integers}, {kind: of all others}, the former's share of all multiplications)"""
    ops = json.loads(subprocess.run([OCTET, "inspect", path, "--json"], check=True, capture_output=True, text=True).stdout)["ops"]
    given = lambda op: [value for value in op["inputs"] + op["outputs"] if value]  # null: an input that the op goes without
    is_int8 = lambda op: any(value["dtype"] in EIGHT_BITS for value in given(op))
    int8, others = (collections.Counter(op["kind"] for op in ops if is_int8(op) == wanted) for wanted in (True, False))
    total = sum(op["macs"] for op in ops)
    return int8, others, sum(op["macs"] for op in ops if is_int8(op)) / total if total else 0


def text(counter):
    return ", ".join(f"{number} {kind}" for kind, number in sorted(counter.items())) or "none"


def main():
    found = [counts(path) for path in sys.argv[1:]]
    for path, (int8, others, share) in zip(sys.argv[1:], found):
        print(f"{path}: {sum(int8.values())} int8 ops ({text(int8)}), {100 * share:.1f} % of the multiplications; float: {text(others)}")
    sys.exit(any(int8 != found[0][0] for int8, _, _ in found[1:]))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main()
