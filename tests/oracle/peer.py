"""The real peer: torchao PT2E with ExecuTorch's XNNPACKQuantizer and torchao's X86InductorQuantizer, made from JSON descriptors."""
import argparse, contextlib, copy, functools, hashlib, json, logging, math, operator, os, sys, time, traceback, warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True, warn_only=True)

from torchao.quantization.pt2e import (  # noqa: E402
    FakeQuantize, FusedMovingAvgObsFakeQuantize, HistogramObserver, MinMaxObserver,
    MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver,
    PerChannelMinMaxObserver, PlaceholderObserver, FixedQParamsObserver,
    DerivedObserverOrFakeQuantize, disable_observer,
    move_exported_model_to_eval, move_exported_model_to_train,
)
from torchao.quantization.pt2e import observer as obs_mod  # noqa: E402
from torchao.quantization.pt2e.fake_quantize import FakeQuantizeBase  # noqa: E402
from torchao.quantization.pt2e.observer import PartialWrapper  # noqa: E402
from torchao.quantization.pt2e.quantize_pt2e import (  # noqa: E402
    convert_pt2e, prepare_pt2e, prepare_qat_pt2e,
)
from torchao.quantization.pt2e.quantizer import (  # noqa: E402
    ComposableQuantizer, DerivedQuantizationSpec,
    FixedQParamsQuantizationSpec, QuantizationAnnotation, QuantizationSpec,
    Quantizer, SharedQuantizationSpec,
)
from torchao.quantization.pt2e.quantizer.embedding_quantizer import EmbeddingQuantizer  # noqa: E402
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY  # noqa: E402
from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import (  # noqa: E402
    X86InductorQuantizer, get_default_x86_inductor_quantization_config,
    get_x86_inductor_linear_dynamic_fp16_config,
)
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (  # noqa: E402
    XNNPACKQuantizer, get_symmetric_quantization_config,
)
import torchao, executorch  # noqa: E402,F401
from importlib.metadata import version as _pkgver  # noqa: E402

# ---- speed only: the peer re-exports its (constant) match patterns on every call; memoize them.
import types as _types  # noqa: E402
import torchao.quantization.pt2e.utils as _tu  # noqa: E402
import torchao.quantization.pt2e.qat_utils as _qu  # noqa: E402
import torchao.quantization.pt2e.reference_representation_rewrite as _rr  # noqa: E402
import executorch.backends.xnnpack.quantizer.xnnpack_quantizer_utils as _xu  # noqa: E402

_orig_pat = _tu._get_aten_graph_module_for_pattern
_PAT_CACHE = {}


class _NoKey(Exception):
    pass


def _pat_key(o):
    if isinstance(o, _types.FunctionType):
        cells = tuple(_pat_key(c.cell_contents) for c in (o.__closure__ or ()))
        return ("fn", o.__code__, cells, _pat_key(o.__defaults__), _pat_key(o.__kwdefaults__))
    if isinstance(o, functools.partial):
        return ("partial", _pat_key(o.func), _pat_key(o.args), _pat_key(o.keywords))
    if isinstance(o, torch.Tensor):
        return ("t", o.dtype, tuple(o.shape))
    if isinstance(o, (list, tuple)):
        return (type(o).__name__,) + tuple(_pat_key(x) for x in o)
    if isinstance(o, dict):
        return ("d",) + tuple((k, _pat_key(v)) for k, v in o.items())
    if isinstance(o, nn.Module):
        if type(o).__name__ == "WrapperModule" and isinstance(getattr(o, "fn", None), (_types.FunctionType, functools.partial)):
            return ("wm", _pat_key(o.fn))
        raise _NoKey(type(o))
    if o is None or isinstance(o, (bool, int, float, str, type, torch.dtype, _types.BuiltinFunctionType, torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return ("v", type(o).__name__, o)
    raise _NoKey(type(o))


def _cached_pat(pattern, example_inputs, is_cuda=False, **kwargs):
    try:
        key = (_pat_key(pattern), _pat_key(tuple(example_inputs)), is_cuda, _pat_key(kwargs))
    except _NoKey:
        return _orig_pat(pattern, example_inputs, is_cuda, **kwargs)
    if key not in _PAT_CACHE:
        _PAT_CACHE[key] = _orig_pat(pattern, example_inputs, is_cuda, **kwargs)
    return copy.deepcopy(_PAT_CACHE[key])


def enable_pattern_cache():
    for m in (_tu, _qu, _rr, _xu):
        m._get_aten_graph_module_for_pattern = _cached_pat


VERSIONS = {"torch": torch.__version__, "torchao": _pkgver("torchao"),
            "executorch": _pkgver("executorch"), "numpy": np.__version__,
            "python": sys.version.split()[0]}
N_CALIB = 4
FORMAT_VERSION = 1

# --------------------------------------------------------------------------
# quantizer descriptors (plain JSON) -> quantizer objects
# --------------------------------------------------------------------------

def _resolve(path):
    """'torch.nn.Linear' / 'cases_small.Block' / 'torch.matmul' -> object"""
    if path.startswith("cases_small."):
        return getattr(sys.modules["cases_small"], path[len("cases_small."):])
    mod, obj = path.split("."), None
    obj = torch if mod[0] == "torch" else operator
    for p in mod[1:]:
        obj = getattr(obj, p)
    return obj


def _aten(path):  # 'aten.linear.default'
    o = torch.ops
    for p in path.split("."):
        o = getattr(o, p)
    return o


def xnn_cfg(kw):
    return None if kw is None else get_symmetric_quantization_config(**kw)


def x86_cfg(kw):
    if kw is None:
        return None
    if kw.get("preset") == "linear_dynamic_fp16":
        return get_x86_inductor_linear_dynamic_fp16_config()
    return get_default_x86_inductor_quantization_config(**kw)


OBSERVERS = {c.__name__: c for c in (
    HistogramObserver, MinMaxObserver, MovingAverageMinMaxObserver,
    PerChannelMinMaxObserver, MovingAveragePerChannelMinMaxObserver,
    PlaceholderObserver, FakeQuantize, FusedMovingAvgObsFakeQuantize)}


def derive_bias_qparams(obs_or_fqs):
    """scale = act_scale * weight_scale, zero_point = 0 (int32)."""
    act_s, _ = obs_or_fqs[0].calculate_qparams()
    w_s, _ = obs_or_fqs[1].calculate_qparams()
    return (act_s * w_s).to(torch.float32), torch.zeros_like(w_s, dtype=torch.int64)


def derive_sum_scale(obs_or_fqs):
    """scale = sum of the scales, zero_point = zero_point of the first."""
    qs = [o.calculate_qparams() for o in obs_or_fqs]
    return sum(q[0] for q in qs), qs[0][1]


DERIVE_FNS = {"bias_int32": derive_bias_qparams, "sum_scale": derive_sum_scale}


class RuleQuantizer(Quantizer):
    """A custom quantizer driven by a JSON list of rules.

    rule = {"target": "aten.conv2d.default", ["nth": k], ["name": "conv2d_1"],
            ["user_target": "aten.relu.default" (node has exactly one user, with this target)],
            "inputs": {"0": SPEC, "1": SPEC, ...}   argument index -> SPEC (flat index for list args: "0.1")
            "output": SPEC, ["allow_implicit_sharing": bool]}
    Rules run in order; for each rule the nodes are visited in graph order; a node that is
    already annotated is skipped.
    SPEC = {"kind":"spec","dtype","qscheme","quant_min","quant_max","ch_axis","is_dynamic",
            "observer","observer_args"} | {"kind":"shared","edge":[A,B]}|{"kind":"shared","node":A}
         | {"kind":"fixed",...,"scale","zero_point"} | {"kind":"derived","from":[[A,B]|A,...],"fn",...}
    A/B: "$self", "$argK" (producer of arg K of this node), or "%name" (node called name).
    """

    def __init__(self, rules):
        super().__init__()
        self.rules = rules

    @staticmethod
    def _arg(node, idx):
        a = node
        parts = str(idx).split(".")
        a = node.args[int(parts[0])]
        for p in parts[1:]:
            a = a[int(p)] if int(p) < len(a) else None
        return a

    def _ref(self, r, node):
        if r == "$self":
            return node
        if r.startswith("$arg"):
            return self._arg(node, r[4:])
        assert r.startswith("%")
        return next(n for n in node.graph.nodes if n.name == r[1:])

    def _eon(self, e, node):
        return tuple(self._ref(x, node) for x in e) if isinstance(e, list) else self._ref(e, node)

    def spec(self, s, node):
        if s is None:
            return None
        dt = lambda d: getattr(torch, d)
        qs = lambda q: getattr(torch, q) if q else None
        k = s["kind"]
        if k == "spec":
            ctr = OBSERVERS[s["observer"]]
            args = dict(s.get("observer_args", {}))
            if "observer" in args:
                args["observer"] = OBSERVERS[args["observer"]]
            if args:
                ctr = ctr.with_args(**args)
            return QuantizationSpec(dtype=dt(s["dtype"]), observer_or_fake_quant_ctr=ctr,
                                    quant_min=s.get("quant_min"), quant_max=s.get("quant_max"),
                                    qscheme=qs(s.get("qscheme")), ch_axis=s.get("ch_axis"),
                                    is_dynamic=s.get("is_dynamic", False))
        if k == "shared":
            return SharedQuantizationSpec(self._eon(s["edge"] if "edge" in s else s["node"], node))
        if k == "fixed":
            return FixedQParamsQuantizationSpec(dtype=dt(s["dtype"]), scale=s["scale"], zero_point=s["zero_point"],
                                                quant_min=s.get("quant_min"), quant_max=s.get("quant_max"),
                                                qscheme=qs(s.get("qscheme")))
        if k == "derived":
            return DerivedQuantizationSpec(derived_from=[self._eon(e, node) for e in s["from"]],
                                           derive_qparams_fn=DERIVE_FNS[s["fn"]], dtype=dt(s["dtype"]),
                                           quant_min=s.get("quant_min"), quant_max=s.get("quant_max"),
                                           qscheme=qs(s.get("qscheme")), ch_axis=s.get("ch_axis"))
        raise ValueError(k)

    def annotate(self, model):
        for rule in self.rules:
            k = -1
            for n in list(model.graph.nodes):
                if n.op != "call_function" or str(n.target) != rule["target"]:
                    continue
                k += 1
                if "nth" in rule and rule["nth"] != k:
                    continue
                if "name" in rule and rule["name"] != n.name:
                    continue
                if "user_target" in rule and not (len(n.users) == 1 and str(next(iter(n.users)).target) == rule["user_target"]):
                    continue
                if Q_ANNOTATION_KEY in n.meta and n.meta[Q_ANNOTATION_KEY]._annotated:
                    continue
                inputs = {}
                for idx, s in rule.get("inputs", {}).items():
                    top = int(str(idx).split(".")[0])
                    if top >= len(n.args):
                        continue
                    a = self._arg(n, idx)
                    if isinstance(a, torch.fx.Node) and a not in inputs:
                        inputs[a] = self.spec(s, n)
                n.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation(
                    input_qspec_map=inputs, output_qspec=self.spec(rule.get("output"), n),
                    allow_implicit_sharing=rule.get("allow_implicit_sharing", True), _annotated=True)
        return model

    def validate(self, model):
        pass


def make_quantizer(d):
    t = d["type"]
    if t == "xnnpack":
        q = XNNPACKQuantizer()
        if d.get("global") is not None:
            q.set_global(xnn_cfg(d["global"]))
        for name, c in d.get("module_name", []):
            q.set_module_name(name, xnn_cfg(c))
        for name, c in d.get("module_type", []):
            q.set_module_type(_resolve(name), xnn_cfg(c))
        for name, c in d.get("operator_type", []):
            q.set_operator_type(_aten(name), xnn_cfg(c))
        if "filter_exclude_names" in d:
            ex = set(d["filter_exclude_names"])
            q.set_filter_function(lambda n: n.name not in ex)
        return q
    if t == "x86":
        q = X86InductorQuantizer()
        if d.get("global") is not None:
            q.set_global(x86_cfg(d["global"]))
        for name, c in d.get("function_type", []):
            q.set_function_type_qconfig(_resolve(name), x86_cfg(c))
        for name, c in d.get("module_type", []):
            q.set_module_type_qconfig(_resolve(name), x86_cfg(c))
        for name, c in d.get("module_name", []):
            q.set_module_name_qconfig(name, x86_cfg(c))
        return q
    if t == "embedding":
        return EmbeddingQuantizer()
    if t == "composable":
        return ComposableQuantizer([make_quantizer(x) for x in d["quantizers"]])
    if t == "rules":
        return RuleQuantizer(d["rules"])
    raise ValueError(t)
