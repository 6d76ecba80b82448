"""Runs the peer on one case and writes its golden folder."""
import contextlib, copy, json, os, time, traceback
import numpy as np
import torch
from peer import *  # noqa: F401,F403
from serialize import *  # noqa: F401,F403
from cases_real import *  # noqa: F401,F403
# --------------------------------------------------------------------------
# runner
# --------------------------------------------------------------------------

def gen_inputs(c, k):
    g = torch.Generator().manual_seed(100003 * (c.seed + 1) + 7 * (k + 2))
    return tuple(f(g, k) for f in c.inputs)


def build(c):
    torch.manual_seed(c.seed)
    m = c.model()
    randomize_bn(m) if c.kind == "small" or getattr(m, "_rand_bn", False) else None
    return m


def hooked(quantizer, store):
    orig = quantizer.validate

    def validate(model):
        orig(model)
        store.append(ser_annotated(model))
    quantizer.validate = validate
    return quantizer


from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402


class Float64Compute(TorchDispatchMode):
    """numeric-noise probe: run the float compute kernels in float64 and round the result to float32"""
    OPS = {"convolution", "addmm", "mm", "bmm", "baddbmm", "native_layer_norm", "_softmax", "mean", "gelu", "tanh", "sigmoid", "exp",
           "silu", "hardswish", "avg_pool2d", "_adaptive_avg_pool2d", "native_batch_norm", "_native_batch_norm_legit_no_training",
           "upsample_bilinear2d", "rsqrt", "pow", "mkldnn_rnn_layer", "cudnn_batch_norm", "_batch_norm_impl_index"}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func.overloadpacket.__name__ in self.OPS:
            up = lambda t: t.double() if isinstance(t, torch.Tensor) and t.dtype == torch.float32 else t
            dn = lambda t: t.float() if isinstance(t, torch.Tensor) and t.dtype == torch.float64 else t
            args, kwargs = torch.utils._pytree.tree_map(up, (args, kwargs))
            return torch.utils._pytree.tree_map(dn, func(*args, **kwargs))
        return func(*args, **kwargs)


def strip_val(nodes):
    return [{k: v for k, v in n.items() if k != "val"} for n in nodes]


def run_case(c, out_root, opts):
    t0 = time.time()
    folder = os.path.join(out_root, c.name)
    os.makedirs(folder, exist_ok=True)
    for f in os.listdir(folder):
        os.remove(os.path.join(folder, f))
    P = lambda f: os.path.join(folder, f)
    torch._dynamo.reset()
    meta = {"format_version": FORMAT_VERSION, "name": c.name, "split": c.split, "kind": c.kind, "mode": c.mode, "seed": c.seed,
            "tags": list(c.tags), "note": c.note, "quantizer": c.quant, "versions": VERSIONS, "num_calib_batches": N_CALIB,
            "fold_quantize": c.fold_quantize, "files": {}, "peer_error": None}
    stage = "build"
    qat = c.mode == "qat"
    try:
        m = build(c)
        train_export = qat if c.train_export is None else c.train_export
        m = m.train() if train_export else m.eval()
        meta["export_mode"] = "train" if train_export else "eval"
        example = gen_inputs(c, -1)
        calib = [gen_inputs(c, k) for k in range(N_CALIB)]
        for i, t in enumerate(example):
            np.save(P(f"example_arg{i}.npy"), t.numpy())
        for k, b in enumerate(calib):
            for i, t in enumerate(b):
                np.save(P(f"calib_{k:02d}_arg{i}.npy"), t.numpy())
        meta["num_inputs"] = len(example)
        stage = "export"
        with torch.no_grad() if not qat else contextlib.nullcontext():
            ep = torch.export.export(m, example, strict=c.strict, dynamic_shapes=c.dynamic_shapes)
        torch.export.save(ep, P("model.pt2"))
        ep2 = torch.export.load(P("model.pt2"))
        gm = ep2.module(check_guards=False)
        stage = "float"
        fl = copy.deepcopy(gm)
        if train_export:
            move_exported_model_to_eval(fl)
        with torch.no_grad():
            fouts = flat_outs(fl(*example))
        meta["files"]["float_out"] = save_outs(folder, "float_out", fouts)
        del fl

        stage = "prepare"
        prep = prepare_qat_pt2e if qat else prepare_pt2e
        ann = []
        n_float = len(gm.graph.nodes)
        prepared = prep(gm, hooked(make_quantizer(c.quant), ann))
        wjson(P("annotated.json"), {"nodes": ann[0]})
        pd = dump_prepared(prepared)
        wjson(P("prepared.json"), pd)
        meta["num_nodes_float"], meta["num_nodes_prepared"] = n_float, len(pd["nodes"])
        meta["num_observer_nodes"], meta["num_observer_groups"] = sum("observer" in n for n in pd["nodes"]), len(pd["groups"])
        if not opts.no_mem:
            try:
                ann2 = []
                gmm = ep.module(check_guards=False)
                p2 = prep(gmm, hooked(make_quantizer(c.quant), ann2))
                same = strip_val(dump_prepared(p2)["nodes"]) == strip_val(pd["nodes"])
                meta["same_annotation_in_memory"] = bool(same)
                del p2, gmm
            except Exception as e:
                meta["same_annotation_in_memory"] = False
                meta["in_memory_error"] = f"{type(e).__name__}: {e}"[:300]
        del ep

        stage = "calibrate"
        noise_p = copy.deepcopy(prepared) if not (opts.no_noise or qat) else None
        if qat:
            move_exported_model_to_train(prepared)
            sd = lambda: {k: v.detach().clone().contiguous().numpy() for k, v in prepared.state_dict().items()}
            np.savez(P("qat_state_step0.npz"), **sd())
            params = [p for p in prepared.parameters() if p.requires_grad]
            lr = 0.05
            opt = torch.optim.SGD(params, lr=lr)
            losses, steps = [], 2
            for k in range(steps):
                o = flat_outs(prepared(*calib[k]))
                save_outs(folder, f"qat_train_step{k}_out", o)
                loss = sum((t ** 2).mean() for t in o)
                opt.zero_grad()
                loss.backward()
                if k == 0:
                    np.savez(P("qat_grad_step0.npz"), **{n: p.grad.detach().clone().numpy() for n, p in prepared.named_parameters() if p.grad is not None})
                opt.step()
                losses.append(num(loss.item()))
                np.savez(P(f"qat_state_step{k+1}.npz"), **sd())
            meta["qat"] = {"steps": steps, "optimizer": "SGD", "lr": lr, "loss": "sum over outputs of mean(out**2)", "losses": losses,
                           "batches": list(range(steps)),
                           "note": "state_stepK = state_dict after K optimizer steps (incl. fake-quant buffers); step k trains on calib batch k"}
            move_exported_model_to_eval(prepared)
            prepared.apply(disable_observer)
            with torch.no_grad():
                meta["files"]["qat_eval_out"] = save_outs(folder, "qat_eval_out", flat_outs(prepared(*example)))
        else:
            with torch.no_grad():
                for b in calib:
                    prepared(*b)
        hist = {} if c.kind == "small" else None
        qp = dump_qparams(prepared, hist)
        wjson(P("qparams.json"), qp)
        if hist:
            np.savez(P("histograms.npz"), **hist)

        ref_src = copy.deepcopy(prepared) if (c.reference and not opts.no_reference) else None
        stage = "convert"
        conv = convert_pt2e(prepared, fold_quantize=c.fold_quantize)
        attrs = {}
        cd = dump_converted(conv, attrs)
        wjson(P("converted.json"), cd)
        if c.kind == "real":  # unchanged float weights are in model.pt2 under the same name
            fsd = {**ep2.state_dict, **{k: v for k, v in ep2.constants.items() if isinstance(v, torch.Tensor)}}
            attrs = {k: v for k, v in attrs.items() if not (k in fsd and fsd[k].numpy(force=True).shape == v.shape and np.array_equal(fsd[k].numpy(force=True), v))}
            meta["converted_attrs_note"] = "attrs bit-identical to the tensor of the same name in model.pt2 are left out"
        np.savez(P("converted_attrs.npz"), **attrs)
        meta["num_nodes_converted"] = len(cd["nodes"])
        meta["num_q_nodes"] = sum(1 for n in cd["nodes"] if "q" in n and n["q"]["kind"].startswith("quantize"))
        meta["num_dq_nodes"] = sum(1 for n in cd["nodes"] if "q" in n and n["q"]["kind"].startswith("dequantize"))
        stage = "run_converted"
        with torch.no_grad():
            qouts = flat_outs(conv(*example))
        meta["files"]["quantized_out"] = save_outs(folder, "quantized_out", qouts)

        # ---- reference representation
        stage = "reference"
        meta["reference"] = {"status": "skipped"}
        if ref_src is not None:
            try:
                rg = convert_pt2e(ref_src, use_reference_representation=True, fold_quantize=c.fold_quantize)
                rattrs = {}
                wjson(P("reference.json"), dump_converted(rg, rattrs))
                meta["reference"] = {"status": "converted"}
                with torch.no_grad():
                    routs = flat_outs(rg(*example))
                meta["files"]["reference_out"] = save_outs(folder, "reference_out", routs)
                meta["reference"] = {"status": "ok", "max_abs_diff_vs_quantized":
                                     [num((a.double() - b.double()).abs().max()) if a.numel() else 0.0 for a, b in zip(routs, qouts)]}
            except Exception as e:
                meta["reference"]["status"] = "error"
                meta["reference"]["error"] = f"{type(e).__name__}: {e}"[:400]
                if opts.verbose:
                    traceback.print_exc()
        del ref_src

        # ---- measured float noise -> tolerance advice
        stage = "noise"
        meta["outputs"] = []
        for a, b in zip(fouts, qouts):
            d = {"shape": list(b.shape), "dtype": str(b.dtype)}
            if a.is_floating_point() and a.numel():
                d.update(float_absmax=num(a.abs().max()), sqnr_db=sqnr(a, b), max_abs_err_vs_float=num((a.double() - b.double()).abs().max()))
            meta["outputs"].append(d)
        noise = {}
        if not opts.no_noise:
            mad = lambda xs: [num((a.double() - b.double()).abs().nan_to_num().max()) if a.numel() else 0.0 for a, b in zip(xs, qouts)]
            ftol = [1e-5 * max(1.0, num(b.abs().max()) if b.is_floating_point() and b.numel() else 1.0) for b in qouts]
            frac = lambda xs: [float(((a.double() - b.double()).abs() > f).double().mean()) if a.numel() else 0.0 for a, b, f in zip(xs, qouts, ftol)]
            snr = lambda xs: [sqnr(b, a) if a.numel() else None for a, b in zip(xs, qouts)]
            with torch.no_grad(), torch.backends.mkldnn.flags(enabled=False), Float64Compute():
                o2 = flat_outs(conv(*example))
                noise["same_qparams_out_max_abs"], noise["same_qparams_out_frac_beyond_float"], noise["same_qparams_sqnr_db"] = mad(o2), frac(o2), snr(o2)
                if noise_p is not None:
                    for b in calib:
                        noise_p(*b)
            if noise_p is not None:
                qp2 = dump_qparams(noise_p)
                rel, zpd, nsc, nbad = 0.0, 0, 0, 0
                for g1, g2 in zip(qp["groups"], qp2["groups"]):
                    if g1["scale"] is None:
                        continue
                    for s1, s2 in zip(g1["scale"], g2["scale"]):
                        nsc += 1
                        if s1 != s2:
                            r = abs(s1 - s2) / max(abs(s1), 1e-30)
                            rel = max(rel, r)
                            nbad += r > 1e-5
                    zpd = max([zpd] + [abs(z1 - z2) for z1, z2 in zip(g1["zero_point"], g2["zero_point"])])
                noise["recalibrated_scale_max_rel"], noise["recalibrated_zero_point_max_diff"] = rel, zpd
                noise["recalibrated_scales_off_by_more_than_1e-5"] = [nbad, nsc]
                conv2 = convert_pt2e(noise_p, fold_quantize=c.fold_quantize)
                with torch.no_grad():
                    o3 = flat_outs(conv2(*example))
                noise["recalibrated_out_max_abs"], noise["recalibrated_out_frac_beyond_float"], noise["recalibrated_sqnr_db"] = mad(o3), frac(o3), snr(o3)
        meta["noise"] = noise
        # one LSB = the largest per-tensor activation scale in the converted graph
        scales = [n["q"]["scale"] for n in cd["nodes"] if "q" in n and n["q"].get("granularity") == "per_tensor"
                  and n["q"]["kind"] == "quantize" and isinstance(n["q"]["scale"], float)]
        last = scales[-1] if scales else None
        fam = max([d.get("float_absmax", 0.0) or 0.0 for d in meta["outputs"]] + [0.0])
        measured = max([0.0] + [x for k in ("same_qparams_out_max_abs", "recalibrated_out_max_abs") for x in noise.get(k, [])])
        dyn = any("q" in n and n["q"]["kind"].startswith("choose_qparams") for n in cd["nodes"])  # one flipped int8 value spreads
        meta["tolerance"] = {
            "graph_structure": "exact (node order, targets, args; names may differ unless stated)",
            "zero_point_atol": 0 if noise.get("recalibrated_zero_point_max_diff", 0) == 0 else noise["recalibrated_zero_point_max_diff"],
            "scale_rtol": max(1e-5, 4 * noise.get("recalibrated_scale_max_rel", 0.0)),
            "float_out_atol": 1e-5 * max(1.0, fam),
            "last_q_scale": last,
            "quantized_out_atol": max(1e-5 * max(1.0, fam), 2 * measured, (1.001 * last if last else 0.0), (0.01 * fam if dyn else 0.0)),
            "quantized_out_max_frac_beyond_float": min(1.0, max([0.01 if not dyn else (0.05 if c.kind == "small" else 0.5)] + [2 * x for k in ("same_qparams_out_frac_beyond_float", "recalibrated_out_frac_beyond_float") for x in noise.get(k, [])])),
            "quantized_out_min_sqnr_db": min([40.0] + [x - 6 for k in ("same_qparams_sqnr_db", "recalibrated_sqnr_db") for x in noise.get(k, []) if x is not None]),
            "hint": "most elements must agree to float noise; isolated elements may differ by one LSB (last_q_scale) through rounding ties",
        }
    except Exception as e:
        meta["peer_error"] = {"stage": stage, "type": type(e).__name__, "message": str(e)[:600]}
        if opts.verbose:
            traceback.print_exc()
    meta["seconds"] = round(time.time() - t0, 2)
    meta["bytes"] = sum(os.path.getsize(P(f)) for f in os.listdir(folder))
    wjson(P("case.json"), meta)
    return meta
