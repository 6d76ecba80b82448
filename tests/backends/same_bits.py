#!/usr/bin/env python3
"""Products of integers on oneDNN give the same bits with every instruction set that this CPU has.

    same_bits.py TEST_BACKENDS
"""
import os
import subprocess
import sys
import tempfile

LIMITS = ["AVX2", "AVX2_VNNI", "AVX512_CORE", "ALL"]


def outputs(binary, limit, folder):
    """Name and bytes of each output, in order."""
    path = os.path.join(folder, limit)
    subprocess.run([binary, "[bits]"], check=True, stdout=subprocess.DEVNULL, env={**os.environ, "ONEDNN_MAX_CPU_ISA": limit, "OCTET_BITS": path})
    found = []
    with open(path, "rb") as file:
        while line := file.readline():
            name, count = line.split()
            found.append((name.decode(), file.read(int(count))))
    return found


def main():
    with tempfile.TemporaryDirectory() as folder:
        wanted = outputs(sys.argv[1], "ALL", folder)
        failures = 0
        for limit in LIMITS:
            for (name, want), (_, got) in zip(wanted, outputs(sys.argv[1], limit, folder)):
                different = sum(a != b for a, b in zip(want, got))
                if different:
                    failures += 1
                    print(f"{name} with {limit}: {different} of {len(want)} bytes differ from those without a limit")
    print(f"{len(wanted)} outputs with {', '.join(LIMITS)}: {failures} differ")
    return 1 if failures or not wanted else 0


if __name__ == "__main__":
    sys.exit(main())
