"""Golden files from the real peer: one folder a case.  oracle.py --out DIR [--kind small|real] [--cases NAMES]; --list lists the cases.
The layout of a folder is in README.md."""
import argparse, hashlib, json, os, sys, time
import numpy as np
import torch
from cases_random import QUANTIZERS, add_random_cases
from runner import *  # noqa: F401,F403

def verify_case(folder):
    """reload every golden file; returns a list of problems"""
    bad = []
    meta = json.load(open(os.path.join(folder, "case.json")))
    for f in sorted(os.listdir(folder)):
        p = os.path.join(folder, f)
        try:
            if f.endswith(".json"):
                json.load(open(p))
            elif f.endswith(".npy"):
                a = np.load(p)
                if a.dtype.kind == "f" and not np.isfinite(a).all():
                    bad.append(f"{f}: non-finite values")
            elif f.endswith(".npz"):
                z = np.load(p)
                [z[k] for k in z.files]
            elif f.endswith(".pt2"):
                gm = torch.export.load(p).module(check_guards=False)
                if meta["peer_error"] is None and meta.get("export_mode") == "eval":
                    ex = [torch.from_numpy(np.load(os.path.join(folder, f"example_arg{i}.npy"))) for i in range(meta["num_inputs"])]
                    with torch.no_grad():
                        o = flat_outs(gm(*ex))
                    for i, t in enumerate(o):
                        g = np.load(os.path.join(folder, f"float_out{i}.npy"))
                        if not np.array_equal(g, t.numpy(), equal_nan=True):
                            bad.append(f"float_out{i} differs after reload")
        except Exception as e:
            bad.append(f"{f}: {type(e).__name__}: {e}"[:200])
    if meta["peer_error"] is None:
        for need in ("model.pt2", "annotated.json", "prepared.json", "qparams.json", "converted.json", "quantized_out0.npy", "float_out0.npy", "example_arg0.npy", "calib_03_arg0.npy"):
            if not os.path.exists(os.path.join(folder, need)):
                bad.append("missing " + need)
    return bad


def fingerprint():
    """Hash of these scripts and of the peer's versions."""
    digest = hashlib.sha256(repr(sorted(VERSIONS.items())).encode())
    folder = os.path.dirname(os.path.abspath(__file__))
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py"):
            digest.update(open(os.path.join(folder, name), "rb").read())
    return digest.hexdigest()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--out")
    ap.add_argument("--cases", help="comma separated names or prefixes ending in *")
    ap.add_argument("--list", action="store_true")
    ap.add_argument("--kind", choices=["small", "real", "all"], default="all")
    ap.add_argument("--random", type=int, default=60, metavar="N", help="also N random cases (rnd_*)")
    ap.add_argument("--random-seed", type=int, default=0, help="the first random case's seed")
    ap.add_argument("--random-quantizers", default=",".join(QUANTIZERS), help="taken in turn")
    ap.add_argument("--no-noise", action="store_true", help="skip the float-noise measurement")
    ap.add_argument("--no-mem", action="store_true", help="skip the in-memory vs loaded annotation comparison")
    ap.add_argument("--no-reference", action="store_true")
    ap.add_argument("--no-pattern-cache", action="store_true", help="do not memoize the peer's exported match patterns")
    ap.add_argument("--if-changed", action="store_true", help="do nothing when --out was made by these very scripts and versions")
    ap.add_argument("--verify", action="store_true", help="only reload and check an existing --out folder")
    ap.add_argument("-v", "--verbose", action="store_true")
    o = ap.parse_args()
    add_random_cases(o.random, o.random_seed, o.random_quantizers.split(","))
    sel = [c for c in CASES.values() if (o.kind in ("all", c.kind))]
    if o.cases:
        pats = o.cases.split(",")
        sel = [c for c in sel if any(c.name == p or (p.endswith("*") and c.name.startswith(p[:-1])) for p in pats)]
    if o.list:
        for c in sel:
            print(f"{c.name:40s} {c.split:9s} {c.kind:6s} {c.mode:8s} {c.quant['type']:11s} {','.join(c.tags)}")
        print(len(sel), "cases")
        return 0
    assert o.out, "--out DIR"
    if o.verify:
        nb = 0
        for c in sel:
            f = os.path.join(o.out, c.name)
            if not os.path.isdir(f):
                print("MISSING", c.name)
                nb += 1
                continue
            b = verify_case(f)
            if b:
                nb += 1
                print(c.name, b)
        print("verified", len(sel), "cases,", nb, "with problems")
        return 1 if nb else 0
    stamp = os.path.join(o.out, "made_by")
    if o.if_changed and os.path.exists(stamp) and open(stamp).read() == fingerprint():
        print("up to date:", o.out)
        return 0
    if not o.no_pattern_cache:
        enable_pattern_cache()
    os.makedirs(o.out, exist_ok=True)
    t0 = time.time()
    for c in sel:
        m = run_case(c, o.out, o)
        e = m["peer_error"]
        s = m.get("outputs", [{}])
        s = s[0].get("sqnr_db") if s else None
        print(f"{c.name:40s} {m['seconds']:6.2f}s {m['bytes']/1024:9.0f}K obs={m.get('num_observer_nodes')}/{m.get('num_observer_groups')} "
              f"q={m.get('num_q_nodes')} dq={m.get('num_dq_nodes')} sqnr={s if s is None else round(s,1)} ref={m.get('reference',{}).get('status')} "
              f"mem={m.get('same_annotation_in_memory')} zpn={m.get('noise',{}).get('recalibrated_zero_point_max_diff')} "
              + (f"PEER-ERROR[{e['stage']}] {e['type']}: {e['message'][:150]}" if e else ""), flush=True)
    index = []  # everything present in the folder
    for d in sorted(os.listdir(o.out)):
        p = os.path.join(o.out, d, "case.json")
        if os.path.exists(p):
            m = json.load(open(p))
            index.append({k: m.get(k) for k in ("name", "split", "kind", "mode", "tags", "note", "seconds", "bytes", "num_observer_nodes", "num_observer_groups",
                                                "num_q_nodes", "num_dq_nodes", "same_annotation_in_memory", "peer_error")}
                         | {"quantizer": m["quantizer"]["type"], "reference": m.get("reference", {}).get("status")})
    wjson(os.path.join(o.out, "index.json"), {"format_version": FORMAT_VERSION, "versions": VERSIONS, "cases": index})
    if not o.cases and o.kind == "all":
        open(stamp, "w").write(fingerprint())
    print(f"{len(sel)} cases in {time.time()-t0:.1f}s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
