"""What a case is, and the generators of its inputs."""
import os
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
# --------------------------------------------------------------------------
# case registry
# --------------------------------------------------------------------------
CASES = {}


class Case:
    def __init__(self, name, split, quant, model, inputs, mode="ptq", kind="small", seed=0, tags=(), train_export=None,
                 reference=True, note="", fold_quantize=True, strict=False, dynamic_shapes=None, loose=False):
        self.__dict__.update(locals())
        assert name not in CASES, name
        CASES[name] = self


def case(name, quant, model, inputs, **kw):
    if kw.get("mode") is None:
        kw["mode"] = "ptq"
    return Case(name, "public", quant, model, inputs, **kw)


# ---- input generators: f(generator, batch_index) -> tensor (batch -1 = example input)

def R(*shape, s=1.0, b=0.0, grow=None):
    """normal(0,s)+b ; grow: per-batch multiplier list (batch index 0..3; the example uses 1.0)"""
    def f(g, k):
        t = torch.randn(shape, generator=g) * s + b
        return t * grow[k] if grow is not None and k >= 0 else t
    return f


def U(*shape, lo=0.0, hi=1.0):
    return lambda g, k: torch.rand(shape, generator=g) * (hi - lo) + lo


def IDX(hi, *shape, lo=0):
    return lambda g, k: torch.randint(lo, hi, shape, generator=g)


def CONST(v, *shape):
    return lambda g, k: torch.full(shape, float(v))


def BATCHES(*fs, example=None):
    """a different generator per calibration batch"""
    return lambda g, k: (fs[k] if k >= 0 else (example or fs[0]))(g, k)


def OUTLIER(*shape, v=50.0, every=97):
    def f(g, k):
        t = torch.randn(shape, generator=g)
        t.view(-1)[::every] *= v
        return t
    return f


def PHOTO(hw):
    """crops of scikit-learn's two sample photographs, scaled to [-1,1], NCHW"""
    def f(g, k):
        import sklearn.datasets
        from PIL import Image
        d = os.path.join(os.path.dirname(sklearn.datasets.__file__), "images")
        name, x, y = [("china.jpg", 60, 40), ("flower.jpg", 100, 30), ("china.jpg", 300, 20), ("flower.jpg", 300, 60), ("china.jpg", 180, 100)][k + 1]
        im = np.asarray(Image.open(os.path.join(d, name)).convert("RGB").crop((x, y, x + 320, y + 320)), dtype=np.float32)
        t = torch.from_numpy(im.copy()).permute(2, 0, 1)[None] / 127.5 - 1.0
        return F.interpolate(t, size=(hw, hw), mode="area").contiguous()
    return f


class Fn(nn.Module):
    """Fn(forward_fn, **submodules_or_tensors): forward_fn(self, *inputs)."""

    def __init__(self, fn, **mods):
        super().__init__()
        self.fn_ = fn
        for k, v in mods.items():
            if isinstance(v, torch.Tensor) and not isinstance(v, nn.Parameter):
                self.register_buffer(k, v)
            else:
                setattr(self, k, v)

    def forward(self, *xs):
        return self.fn_(self, *xs)


def randomize_bn(m):
    for mod in m.modules():
        if isinstance(mod, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)):
            with torch.no_grad():
                if mod.affine:
                    mod.weight.uniform_(0.6, 1.4)
                    mod.bias.normal_(0, 0.2)
                mod.running_mean.normal_(0, 0.2)
                mod.running_var.uniform_(0.5, 1.5)
    return m


# ---- shared quantizer descriptors
XT = {"type": "xnnpack", "global": {}}
XC = {"type": "xnnpack", "global": {"is_per_channel": True}}
XTQ = {"type": "xnnpack", "global": {"is_qat": True}}
XCQ = {"type": "xnnpack", "global": {"is_per_channel": True, "is_qat": True}}
XTD = {"type": "xnnpack", "global": {"is_dynamic": True}}
XCD = {"type": "xnnpack", "global": {"is_dynamic": True, "is_per_channel": True}}
X86 = {"type": "x86", "global": {}}
X86D = {"type": "x86", "global": {"is_dynamic": True}}
X86Q = {"type": "x86", "global": {"is_qat": True}}


def xg(**kw):
    return {"type": "xnnpack", "global": kw}


C2, C1, CT2, CT1, L = nn.Conv2d, nn.Conv1d, nn.ConvTranspose2d, nn.ConvTranspose1d, nn.Linear
B2, B1 = nn.BatchNorm2d, nn.BatchNorm1d
Sq = nn.Sequential
