"""What another version of torchao does differently, as a table.

drift.py GOLDEN OTHER                  compares two folders that oracle.py made
drift.py GOLDEN OTHER --torchao 0.19.0 makes OTHER first: installs that version beside it, runs oracle.py
                                       with it; --cases NAMES as for oracle.py

A row is a case whose results differ, with the first step that does and the first value that does.
Differences are not failures: the exit code is 0."""
import argparse
import json
import os
import pathlib
import subprocess
import sys

import numpy as np

FOLDER = pathlib.Path(__file__).resolve().parent
STEPS = {"annotated.json": "annotations", "prepared.json": "observers", "qparams.json": "ranges", "converted.json": "q/dq graph"}
TOLERANCE = 1e-5  # of scales, as in README.md


def first_difference(old, new, path=""):
    """ "nodes/conv2d/annotation: got None, before {...}"; None if equal up to TOLERANCE."""
    if isinstance(old, float) and isinstance(new, float):
        is_same = old == new or abs(old - new) <= TOLERANCE * max(abs(old), abs(new)) or (old != old and new != new)
        return None if is_same else f"{path}: got {new:.6g}, before {old:.6g}"
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            if key == "sha256":
                continue
            found = first_difference(old.get(key), new.get(key), f"{path}/{key}")
            if found:
                return found
        return None
    if isinstance(old, list) and isinstance(new, list):
        for index, (a, b) in enumerate(zip(old, new)):
            name = a.get("name", index) if isinstance(a, dict) else index
            found = first_difference(a, b, f"{path}/{name}")
            if found:
                return found
        return None if len(old) == len(new) else f"{path}: got {len(new)} entries, before {len(old)}"
    return None if old == new else f"{path}: got {shortened(new)}, before {shortened(old)}"


def shortened(value, most=60):
    text = json.dumps(value)
    return text if len(text) <= most else text[:most] + "..."


def outputs_differ(old, new, tolerance):
    for file in sorted(old.glob("quantized_out*.npy")):
        if not (new / file.name).exists():
            return f"{file.stem}: is missing"
        a, b = np.load(file), np.load(new / file.name)
        if a.shape != b.shape:
            return f"{file.stem}: got shape {b.shape}, before {a.shape}"
        if a.dtype.kind != "f":
            if not np.array_equal(a, b):
                return f"{file.stem}: got other values"
            continue
        is_near = (a == b) | (np.abs(a - b) <= tolerance["float_out_atol"]) | (np.isnan(a) & np.isnan(b))
        share = float(np.mean(~is_near)) if a.size else 0.0
        if share > tolerance["quantized_out_max_frac_beyond_float"]:
            return f"{file.stem}: {100 * share:.1f} % of the elements differ"
    return None


def drift_of(old, new):
    """(step, what) of the first difference of a case, or None."""
    before, after = (json.loads((folder / "case.json").read_text()) for folder in (old, new))
    if bool(before["peer_error"]) != bool(after["peer_error"]):
        error = after["peer_error"] or before["peer_error"]
        said = error["message"].split("\n")[0][:80]
        return "errors", f"fails in {error['stage']}: {said}" if after["peer_error"] else f"works, before: {said}"
    for file, step in STEPS.items():
        if (old / file).exists() and (new / file).exists():
            what = first_difference(*(json.loads((folder / file).read_text()) for folder in (old, new)))
            if what:
                return step, what.lstrip("/")
    what = None if before["peer_error"] else outputs_differ(old, new, before["tolerance"])
    return what and ("outputs", what)


def compare(golden, other):
    versions = [json.loads((folder / "index.json").read_text())["versions"] for folder in (golden, other)]
    names = sorted(path.parent.name for path in other.glob("*/case.json") if (golden / path.parent.name / "case.json").exists())
    rows = [(name, *found) for name in names if (found := drift_of(golden / name, other / name))]
    changed = [f"{key} {versions[0][key]} -> {versions[1][key]}" for key in versions[0] if versions[0][key] != versions[1].get(key)]
    print(f"{', '.join(changed) or 'the same versions'}: {len(rows)} of {len(names)} cases differ")
    if rows:
        width = max(len(row[0]) for row in rows)
        for name, step, what in [("case", "step", "first difference"), *rows]:
            print(f"{name:{width}}  {step:11}  {what}")


def make(other, version, cases):
    """Makes golden folders with a version of torchao, which is installed into a folder inside."""
    packages = other / f"packages-{version}"
    if not (packages / f"torchao-{version}.dist-info").is_dir():
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--upgrade",
                        "--target", packages, f"torchao=={version}"], check=True)
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    options = ["--no-noise", "--no-mem", "--no-reference", *(["--cases", cases] if cases else [])]
    subprocess.run([sys.executable, "-B", FOLDER / "oracle.py", "--out", other, *options], check=True, env=environment, stdout=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("golden", type=pathlib.Path)
    parser.add_argument("other", type=pathlib.Path)
    parser.add_argument("--torchao", metavar="VERSION")
    parser.add_argument("--cases", metavar="NAMES")
    options = parser.parse_args()
    if options.torchao:
        make(options.other, options.torchao, options.cases)
    for folder in (options.golden, options.other):
        if not (folder / "index.json").exists():
            parser.exit(2, f"drift: {folder}: has no index.json; make it with oracle.py --out {folder}\n")
    compare(options.golden, options.other)


if __name__ == "__main__":
    main()
