"""Annotated, prepared and converted graphs of the peer as plain JSON."""
import hashlib, json, math, operator, os
import numpy as np
import torch
import torch.nn as nn
from peer import *  # noqa: F401,F403
# --------------------------------------------------------------------------
# serialization helpers
# --------------------------------------------------------------------------

def num(x):
    x = float(x)
    if math.isnan(x):
        return "nan"
    if math.isinf(x):
        return "inf" if x > 0 else "-inf"
    return x


def tnums(t):
    return [num(v) for v in t.detach().reshape(-1).to(torch.float64).tolist()]


def tints(t):
    return [int(v) for v in t.detach().reshape(-1).tolist()]


def tgt(n):
    t = n.target
    if n.op != "call_function":
        return str(t)
    if isinstance(t, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return "torch.ops." + str(t)
    return torch.fx.node._get_qualified_name(t)


def ser_arg(a):
    if isinstance(a, torch.fx.Node):
        return "%" + a.name
    if a is None or isinstance(a, (bool,)):
        return a
    if isinstance(a, int):
        return a
    if isinstance(a, float):
        return num(a)
    if isinstance(a, (list, tuple, torch.fx.immutable_collections.immutable_list)):
        return [ser_arg(x) for x in a]
    if isinstance(a, dict):
        return {k: ser_arg(v) for k, v in a.items()}
    if isinstance(a, (torch.dtype, torch.layout, torch.memory_format, torch.device, torch.qscheme)):
        return str(a)
    if isinstance(a, str):
        return {"str": a}
    return {"repr": str(a)}


def ser_val(v):
    if isinstance(v, torch.Tensor):
        return {"dtype": str(v.dtype), "shape": [int(s) if isinstance(s, int) else str(s) for s in v.shape]}
    if isinstance(v, (list, tuple)):
        return [ser_val(x) for x in v]
    if v is None:
        return None
    return {"repr": str(v)}


def ser_node(n):
    d = {"name": n.name, "op": n.op, "target": tgt(n), "args": ser_arg(n.args)}
    if n.kwargs:
        d["kwargs"] = ser_arg(dict(n.kwargs))
    if "val" in n.meta:
        d["val"] = ser_val(n.meta["val"])
    return d


def ser_ctr(c):
    if isinstance(c, PartialWrapper):
        kw = {}
        for k, v in c.p.keywords.items():
            if isinstance(v, PartialWrapper) or isinstance(v, type):
                kw[k] = ser_ctr(v)
            else:
                kw[k] = ser_arg(v)
        return {"cls": c.p.func.__name__, "args": kw}
    return {"cls": c.__name__, "args": {}}


def ser_eon(e):
    return {"edge": ["%" + e[0].name, "%" + e[1].name]} if isinstance(e, tuple) else {"node": "%" + e.name}


def ser_spec(s):
    if s is None:
        return None
    base = lambda: {"dtype": str(s.dtype), "quant_min": s.quant_min, "quant_max": s.quant_max,
                    "qscheme": str(s.qscheme) if s.qscheme is not None else None}
    if isinstance(s, SharedQuantizationSpec):
        return {"kind": "shared", "with": ser_eon(s.edge_or_node)}
    if isinstance(s, FixedQParamsQuantizationSpec):
        return {"kind": "fixed", **base(), "scale": num(s.scale), "zero_point": s.zero_point}
    if isinstance(s, DerivedQuantizationSpec):
        return {"kind": "derived", **base(), "ch_axis": s.ch_axis, "from": [ser_eon(e) for e in s.derived_from],
                "fn": next((k for k, v in DERIVE_FNS.items() if v is s.derive_qparams_fn), "?")}
    return {"kind": "spec", **base(), "ch_axis": s.ch_axis, "is_dynamic": s.is_dynamic,
            "observer": ser_ctr(s.observer_or_fake_quant_ctr)}


def ser_annotated(gm):
    out = []
    for n in gm.graph.nodes:
        d = ser_node(n)
        qa = n.meta.get(Q_ANNOTATION_KEY)
        if qa is not None:
            d["annotation"] = {
                "inputs": [["%" + k.name if isinstance(k, torch.fx.Node) else ser_arg(k), ser_spec(v)]
                           for k, v in qa.input_qspec_map.items()],
                "output": ser_spec(qa.output_qspec), "annotated": qa._annotated,
                "allow_implicit_sharing": qa.allow_implicit_sharing}
            if hasattr(qa, "_is_output_of_quantized_pattern"):
                d["annotation"]["is_output_of_quantized_pattern"] = qa._is_output_of_quantized_pattern
        if "nn_module_stack" in n.meta:
            d["nn_module_stack"] = [[k, v[0], v[1] if isinstance(v[1], str) else v[1].__module__ + "." + v[1].__qualname__]
                                    for k, v in n.meta["nn_module_stack"].items()]
        if "torch_fn" in n.meta:
            d["torch_fn"] = list(n.meta["torch_fn"])
        out.append(d)
    return out


def inner_obs(m):
    return m.activation_post_process if isinstance(m, FakeQuantizeBase) and hasattr(m, "activation_post_process") else m


def is_app(m):
    return isinstance(m, (obs_mod.ObserverBase, FakeQuantizeBase, obs_mod.AffineQuantizedObserverBase))


def obs_nodes(gm):
    """[(node, module, group)] - group numbered by first appearance in graph order."""
    ids, out = {}, []
    mods = dict(gm.named_modules(remove_duplicate=False))
    for n in gm.graph.nodes:
        if n.op == "call_module" and is_app(mods[n.target]):
            m = mods[n.target]
            g = ids.setdefault(id(m), len(ids))
            out.append((n, m, g))
    return out


def ser_observer(m):
    o = inner_obs(m)
    eps = getattr(o, "eps", None)
    d = {"cls": type(m).__name__, "dtype": str(m.dtype), "qscheme": str(getattr(m, "qscheme", None)),
         "quant_min": getattr(m, "quant_min", None), "quant_max": getattr(m, "quant_max", None),
         "eps": (num(eps.reshape(-1)[0]) if isinstance(eps, torch.Tensor) else (num(eps) if eps is not None else None)),
         "is_dynamic": bool(getattr(m, "is_dynamic", False)), "ch_axis": getattr(m, "ch_axis", None)}
    if o is not m:
        d["observer_cls"] = type(o).__name__
        d["observer_quant_min"], d["observer_quant_max"] = o.quant_min, o.quant_max
    for k in ("averaging_constant", "bins", "upsample_rate", "reduce_range"):
        if hasattr(o, k):
            d[k] = num(getattr(o, k)) if isinstance(getattr(o, k), float) else getattr(o, k)
    if isinstance(m, FixedQParamsObserver) or hasattr(o, "scale") and isinstance(o, FixedQParamsObserver):
        d["fixed_scale"], d["fixed_zero_point"] = num(o.scale), int(o.zero_point)
    return d


def dump_prepared(gm):
    on = {n: (m, g) for n, m, g in obs_nodes(gm)}
    nodes, groups = [], {}
    for n in gm.graph.nodes:
        d = ser_node(n)
        if n in on:
            m, g = on[n]
            src = n.args[0]
            d["observer"] = {"group": g, "observes": "%" + src.name, "users": ["%" + u.name for u in n.users]}
            groups.setdefault(g, ser_observer(m))
        nodes.append(d)
    return {"nodes": nodes, "groups": [groups[g] for g in sorted(groups)]}


def dump_qparams(gm, hist=None):
    res, seen = [], {}
    for n, m, g in obs_nodes(gm):
        site = {"node": "%" + n.name, "observes": "%" + n.args[0].name, "users": ["%" + u.name for u in n.users]}
        if g in seen:
            seen[g]["sites"].append(site)
            continue
        o = inner_obs(m)
        d = {"group": g, "cls": type(m).__name__, "sites": [site]}
        try:
            s, z = m.calculate_qparams()
            d["scale"], d["zero_point"] = tnums(s), tints(z)
            d["scale_shape"], d["zero_point_dtype"] = list(s.shape), str(z.dtype)
        except Exception as e:
            d["scale"], d["zero_point"], d["no_qparams"] = None, None, str(e)[:200]
        for k in ("min_val", "max_val"):
            if isinstance(getattr(o, k, None), torch.Tensor):
                d[k] = tnums(getattr(o, k))
        if isinstance(m, FakeQuantizeBase):
            d["fq_scale"], d["fq_zero_point"] = tnums(m.scale), tints(m.zero_point)
            d["fake_quant_enabled"], d["observer_enabled"] = int(m.fake_quant_enabled), int(m.observer_enabled)
        if hist is not None and isinstance(o, HistogramObserver):
            hist[f"group_{g}"] = o.histogram.detach().clone().numpy()
            try:
                a, b = o._non_linear_param_search() if o.min_val.numel() and torch.isfinite(o.min_val).all() else (None, None)
                if a is not None:
                    d["search_min"], d["search_max"] = num(a), num(b)
            except Exception as e:
                d["search_error"] = str(e)[:200]
        seen[g] = d
        res.append(d)
    return {"groups": res}


def get_attr_tensor(gm, target):
    o = gm
    for p in target.split("."):
        o = getattr(o, p)
    return o


def q_info(n, gm):
    t = str(n.target)
    if not t.startswith("quantized_decomposed."):
        return None
    name = t.split(".")[1]
    ov = (t.split(".") + [""])[2]  # the reference rewrite strips the overload name
    args = list(n.args)

    def val(a, integer=False):
        if isinstance(a, torch.fx.Node):
            if a.op == "get_attr":
                tt = get_attr_tensor(gm, a.target)
                return {"attr": "%" + a.name, "values": tints(tt) if integer else tnums(tt), "dtype": str(tt.dtype)}
            return "%" + a.name
        return int(a) if integer else num(a)
    if name in ("quantize_per_tensor", "dequantize_per_tensor"):
        d = {"kind": name.split("_")[0], "granularity": "per_tensor", "overload": ov, "scale": val(args[1]),
             "zero_point": val(args[2], True), "quant_min": args[3], "quant_max": args[4], "dtype": str(args[5])}
    elif name in ("quantize_per_channel", "dequantize_per_channel"):
        d = {"kind": name.split("_")[0], "granularity": "per_channel", "overload": ov, "scale": val(args[1]),
             "zero_point": val(args[2], True) if args[2] is not None else None, "axis": args[3], "quant_min": args[4],
             "quant_max": args[5], "dtype": str(args[6])}
    elif name.startswith("choose_qparams"):
        d = {"kind": name, "overload": ov, "quant_min": args[1], "quant_max": args[2], "eps": num(args[3]), "dtype": str(args[4])}
    else:
        return {"kind": name, "overload": ov}
    if n.kwargs:
        d["out_dtype"] = str(n.kwargs.get("out_dtype"))
    return d


def dump_converted(gm, attrs):
    nodes = []
    for n in gm.graph.nodes:
        d = ser_node(n)
        if n.op == "call_function":
            q = q_info(n, gm)
            if q:
                d["q"] = q
        elif n.op == "get_attr":
            t = get_attr_tensor(gm, n.target)
            if isinstance(t, torch.Tensor):
                t = t.detach()
                c = t.contiguous()
                attrs[n.target] = c.numpy().copy() if c.dtype != torch.bfloat16 else c.view(torch.int16).numpy().copy()
                d["attr"] = {"dtype": str(t.dtype), "shape": list(t.shape),
                             "sha256": hashlib.sha256(attrs[n.target].tobytes()).hexdigest()}
            else:
                d["attr"] = {"type": type(t).__name__}
        nodes.append(d)
    return {"nodes": nodes}


def flat_outs(o):
    return [t for t in torch.utils._pytree.tree_leaves(o) if isinstance(t, torch.Tensor)]


def save_outs(folder, stem, outs):
    names = []
    for i, t in enumerate(outs):
        t = t.detach().contiguous()
        if t.dtype in (torch.bfloat16,):
            t = t.float()
        np.save(os.path.join(folder, f"{stem}{i}.npy"), t.numpy())
        names.append(f"{stem}{i}.npy")
    return names


def wjson(path, o):
    with open(path, "w") as f:
        json.dump(o, f, indent=None, separators=(",", ":"), allow_nan=False)
        f.write("\n")


def sqnr(a, b):
    a, b = a.double(), b.double()
    n = ((a - b) ** 2).mean().item()
    s = (a ** 2).mean().item()
    if n == 0:
        return None
    return 10 * math.log10(s / n) if s > 0 else None
