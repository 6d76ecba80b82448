"""Random small models under random configurations: chains of quantizable ops with residuals, shared inputs and shared modules.
Case rnd_<quantizer>_<seed> depends on its seed alone."""
import random
import torch
import torch.nn as nn
import torch.nn.functional as F
from case_registry import *  # noqa: F401,F403
from cases_small import FIX, SP, rl, rules

QUANTIZERS = ("xnnpack", "rules", "x86")


class RandomNet(nn.Module):
    """Walks a plan: each step takes earlier values by number and appends one."""

    def __init__(self, plan):
        super().__init__()
        self.plan = plan
        self.layers = nn.ModuleDict({key: make() for key, make in plan["modules"].items()})

    def forward(self, *inputs):
        values = list(inputs)
        for function, sources in self.plan["steps"]:
            values.append(function(self.layers, *(values[i] for i in sources)))
        return tuple(values[i] for i in self.plan["outputs"])


UNARY_MODULES = (nn.ReLU, nn.ReLU, nn.ReLU, nn.ReLU6, nn.Hardtanh, nn.Hardswish, nn.SiLU, nn.LeakyReLU, nn.Sigmoid, nn.Tanh, nn.GELU)
UNARY_FUNCTIONS = (F.relu, F.relu, torch.relu, torch.tanh, torch.sigmoid, lambda x: x + 0.5, lambda x: x * 2.0, lambda x: torch.softmax(x, -1), lambda x: x - 1.0)
BINARY = (lambda a, b: a + b, lambda a, b: a + b, lambda a, b: a * b, lambda a, b: torch.add(a, b), lambda a, b: a - b)


class Planner:
    """Draws one plan. A value is described by its shape: [n, c, h, w] or [n, c]."""

    def __init__(self, rng):
        self.rng = rng
        self.shapes, self.steps, self.modules, self.inputs = [], [], {}, []

    def draw(self):
        rng = self.rng
        is_image = rng.random() < 0.65
        shape = [rng.choice([1, 2]), rng.choice([3, 4]), 8, 8] if is_image else [rng.choice([2, 3]), rng.choice([4, 6])]
        for _ in range(rng.choice([1, 1, 1, 2])):
            self.inputs.append(R(*shape, s=rng.choice([0.5, 1.0, 3.0]), b=rng.choice([0.0, 0.0, 1.0]), grow=rng.choice([None, [1, 2, 3, 4], [4, 1, 2, 1]])))
            self.shapes.append(shape)
        for _ in range(rng.randint(3, 10)):
            self.step()
        used = {i for _, sources in self.steps for i in sources}
        leaves = [i for i in range(len(self.inputs), len(self.shapes)) if i not in used]
        if rng.random() < 0.2:  # a value that the graph itself uses as well
            leaves.append(rng.randrange(len(self.inputs), len(self.shapes)))
        return {"modules": self.modules, "steps": self.steps, "outputs": sorted(set(leaves))}, self.inputs

    def pick(self):
        """A value; recent ones are likelier."""
        n = len(self.shapes)
        return max(self.rng.randrange(n), self.rng.randrange(n))

    def append(self, function, sources, shape):
        self.steps.append((function, sources))
        self.shapes.append(shape)

    def module(self, kind, make):
        """The layer called `kind`; an earlier one of the same kind now and then."""
        same = [key for key in self.modules if key.startswith(kind + "_")]
        if same and self.rng.random() < 0.15:
            return self.rng.choice(same)
        key = f"{kind}_{len(self.modules)}"
        self.modules[key] = make
        return key

    def step(self):
        i = self.pick()
        shape = self.shapes[i]
        choices = [self.conv, self.conv, self.conv, self.unary, self.unary, self.binary, self.binary, self.pool, self.cat, self.view, self.to_vector] \
            if len(shape) == 4 else [self.linear, self.linear, self.linear, self.unary, self.unary, self.binary, self.binary, self.cat, self.view]
        self.rng.choice(choices)(i, shape)

    def conv(self, i, shape):
        rng = self.rng
        n, c, h, w = shape
        k = rng.choice([1, 3]) if h >= 3 else 1
        groups = rng.choice([1, 1, 1, c])
        out = rng.choice([4, c, 2 * c]) if groups == 1 else c
        bias, norm, relu = rng.random() < 0.6, rng.random() < 0.3, rng.choice([None, None, nn.ReLU, nn.ReLU6])
        stride = rng.choice([1, 1, 2]) if h >= 4 else 1

        def make():
            layers = [C2(c, out, k, stride=stride, padding=k // 2, groups=groups, bias=bias)]
            layers += [B2(out)] if norm else []
            layers += [relu()] if relu else []
            return Sq(*layers) if len(layers) > 1 else layers[0]
        key = self.module(f"conv{c}x{out}x{k}s{stride}g{groups}", make)
        self.append(lambda m, x: m[key](x), [i], [n, out, (h - 1) // stride + 1, (w - 1) // stride + 1])

    def linear(self, i, shape):
        n, c = shape
        out = self.rng.choice([4, c, 5])
        bias = self.rng.random() < 0.7
        key = self.module(f"linear{c}x{out}", lambda: L(c, out, bias=bias))
        self.append(lambda m, x: m[key](x), [i], [n, out])

    def unary(self, i, shape):
        if self.rng.random() < 0.5:
            kind = self.rng.choice(UNARY_MODULES)
            key = self.module(kind.__name__, kind)
            self.append(lambda m, x: m[key](x), [i], shape)
        else:
            function = self.rng.choice(UNARY_FUNCTIONS)
            self.append(lambda m, x: function(x), [i], shape)

    def binary(self, i, shape):
        same = [j for j, other in enumerate(self.shapes) if other == shape]
        j = self.rng.choice(same)
        function = self.rng.choice(BINARY)
        pair = [i, j] if self.rng.random() < 0.5 else [j, i]
        self.append(lambda m, a, b: function(a, b), pair, shape)

    def pool(self, i, shape):
        n, c, h, w = shape
        kind = self.rng.choice(["max", "avg", "adaptive", "mean"])
        if kind in ("max", "avg") and h >= 2:
            key = self.module(f"{kind}pool", (lambda: nn.MaxPool2d(2)) if kind == "max" else (lambda: nn.AvgPool2d(2)))
            self.append(lambda m, x: m[key](x), [i], [n, c, h // 2, w // 2])
        elif kind == "adaptive":
            key = self.module("adaptive", lambda: nn.AdaptiveAvgPool2d(1))
            self.append(lambda m, x: m[key](x), [i], [n, c, 1, 1])
        else:
            self.append(lambda m, x: x.mean([2, 3]), [i], [n, c])

    def cat(self, i, shape):
        same = [j for j, other in enumerate(self.shapes) if len(other) == len(shape) and other[0] == shape[0] and other[2:] == shape[2:]]
        parts = [i] + [self.rng.choice(same) for _ in range(self.rng.choice([1, 1, 2]))]
        self.append(lambda m, *xs: torch.cat(xs, 1), parts, [shape[0], sum(self.shapes[j][1] for j in parts)] + shape[2:])

    def view(self, i, shape):
        kind = self.rng.choice(["reshape", "slice", "contiguous", "dropout", "squeeze"])
        c = shape[1]
        if kind == "reshape":
            self.append(lambda m, x: x.reshape(-1, x.shape[1] * x.shape[0]).reshape(x.shape), [i], shape)
        elif kind == "slice" and c > 1:
            self.append(lambda m, x: x[:, 1:], [i], [shape[0], c - 1] + shape[2:])
        elif kind == "dropout":
            key = self.module("dropout", lambda: nn.Dropout(0.3))
            self.append(lambda m, x: m[key](x), [i], shape)
        elif kind == "squeeze":
            self.append(lambda m, x: x.unsqueeze(0).squeeze(0), [i], shape)
        else:
            self.append(lambda m, x: x.transpose(0, 1).contiguous().transpose(0, 1), [i], shape)

    def to_vector(self, i, shape):
        n, c, h, w = shape
        if self.rng.random() < 0.5:
            key = self.module("flatten", nn.Flatten)
            self.append(lambda m, x: m[key](x), [i], [n, c * h * w])
        else:
            self.append(lambda m, x: torch.flatten(x, 1), [i], [n, c * h * w])


# ---- configurations

def xnnpack_config(rng, dynamic=None):
    config = {"is_per_channel": rng.random() < 0.6}
    if (rng.random() < 0.25 if dynamic is None else dynamic):
        config["is_dynamic"] = True
    elif rng.random() < 0.3:
        config.update(rng.choice([{"act_qmin": -64, "act_qmax": 63}, {"weight_qmin": -8, "weight_qmax": 7}, {"act_qmin": 0, "act_qmax": 127}]))
    return config


def xnnpack_quantizer(rng, plan):
    quantizer = {"type": "xnnpack"}
    if rng.random() < 0.85:
        quantizer["global"] = xnnpack_config(rng)
    if rng.random() < 0.2:
        quantizer["operator_type"] = [[rng.choice(["aten.conv2d.default", "aten.linear.default"]), xnnpack_config(rng, False)]]
    if rng.random() < 0.2 and plan["modules"]:
        quantizer["module_name"] = [["layers." + rng.choice(sorted(plan["modules"])), xnnpack_config(rng, False)]]
    if rng.random() < 0.15:
        quantizer["module_type"] = [[rng.choice(["torch.nn.Linear", "torch.nn.Conv2d"]), xnnpack_config(rng, False)]]
    return quantizer


def x86_config(rng, dynamic=None):
    config = {"reduce_range": True} if rng.random() < 0.3 else {}
    if (rng.random() < 0.2 if dynamic is None else dynamic):
        config["is_dynamic"] = True
    return config


def x86_quantizer(rng, plan):
    quantizer = {"type": "x86"}
    if rng.random() < 0.85:
        quantizer["global"] = x86_config(rng)
    dynamic = quantizer.get("global", {}).get("is_dynamic", False)
    other = lambda: None if rng.random() < 0.4 else x86_config(rng, dynamic)
    if rng.random() < 0.25:
        quantizer["function_type"] = [[rng.choice(["torch.nn.functional.linear", "torch.nn.functional.conv2d", "torch.nn.functional.max_pool2d"]), other()]]
    if rng.random() < 0.2:
        quantizer["module_type"] = [[rng.choice(["torch.nn.Linear", "torch.nn.Conv2d"]), other()]]
    if rng.random() < 0.2 and plan["modules"]:
        quantizer["module_name"] = [["layers." + rng.choice(sorted(plan["modules"])), other()]]
    return quantizer


# dtype, (min, max) choices; None: the dtype's own range
RANGES = (("int8", (-128, 127)), ("int8", (-128, 127)), ("int8", (-100, 90)), ("uint8", (0, 255)), ("uint8", (0, 127)), ("int8", (None, None)), ("int16", (-32768, 32767)),
          ("uint16", (0, 65535)), ("int32", (-2 ** 31, 2 ** 31 - 1)))


def tensor_spec(rng):
    dtype, (low, high) = rng.choice(RANGES)
    observer = rng.choice(["MinMaxObserver", "MovingAverageMinMaxObserver", "HistogramObserver"])
    if observer == "HistogramObserver" and dtype == "int32":
        observer = "MinMaxObserver"
    extra = {}
    if observer == "HistogramObserver" and rng.random() < 0.3:
        extra["bins"] = rng.choice([128, 512])
    if observer == "MovingAverageMinMaxObserver" and rng.random() < 0.4:
        extra["averaging_constant"] = rng.choice([0.1, 0.5])
    if low is not None and dtype == "int8" and low == -128 and rng.random() < 0.1:
        extra["reduce_range"] = True
        low = high = None
    return SP(dtype, low, high, rng.choice(["per_tensor_affine", "per_tensor_symmetric"]), observer, eps=rng.choice([None, 2 ** -12, 1e-5]), **extra)


def weight_spec(rng, rank_two):
    if rng.random() < 0.4:
        return SP(lo=-127, hi=127, qs=rng.choice(["per_tensor_symmetric", "per_tensor_affine"]), obs=rng.choice(["MinMaxObserver", "MovingAverageMinMaxObserver", "HistogramObserver"]))
    return SP(lo=-127, hi=127, qs=rng.choice(["per_channel_symmetric", "per_channel_symmetric", "per_channel_affine"]),
              obs=rng.choice(["PerChannelMinMaxObserver", "MovingAveragePerChannelMinMaxObserver"]), ax=rng.choice([0, 0, 1]) if rank_two else 0)


def bias_spec(weight):
    is_channel = weight["qscheme"].startswith("per_channel") and weight["ch_axis"] == 0
    return {"kind": "derived", "from": [["$arg0", "$self"], ["$arg1", "$self"]], "fn": "bias_int32", "dtype": "int32", "quant_min": -2 ** 31,
            "quant_max": 2 ** 31 - 1, "qscheme": "per_channel_symmetric" if is_channel else "per_tensor_symmetric", **({"ch_axis": 0} if is_channel else {})}


def output_spec(rng, input_spec, has_input):
    draw = rng.random()
    if draw < 0.2:
        return None
    if draw < 0.35 and has_input:
        return {"kind": "shared", "edge": ["$arg0", "$self"]}
    if draw < 0.42:
        return rng.choice([FIX(1 / 256, 0), FIX(1 / 128, 0, "int8", -128, 127)])
    return input_spec if draw < 0.8 else tensor_spec(rng)


def rules_quantizer(rng, plan):
    result = []
    common = tensor_spec(rng)
    spec = lambda: common if rng.random() < 0.6 else tensor_spec(rng)
    sharing = lambda: {} if rng.random() < 0.8 else {"allow_implicit_sharing": False}
    for target, is_linear in (("aten.conv2d.default", False), ("aten.linear.default", True)):
        if rng.random() < 0.15:
            continue
        weight = weight_spec(rng, is_linear)
        if is_linear and rng.random() < 0.15:
            dynamic = SP("int8", -128, 127, "per_tensor_affine", "PlaceholderObserver", dyn=True)
            result.append(rl(target, {"0": dynamic, "1": weight}, None, **sharing()))
            continue
        inputs = {"0": spec(), "1": weight}
        if rng.random() < 0.2:
            inputs.pop(rng.choice(["0", "1"]))
        elif rng.random() < 0.3 and not (weight["qscheme"].startswith("per_channel") and weight["ch_axis"] == 1):
            inputs["2"] = bias_spec(weight)
        if rng.random() < 0.2:
            result.append(rl(target, {"0": spec(), "1": weight_spec(rng, is_linear)}, spec(), nth=0))
        result.append(rl(target, inputs, output_spec(rng, inputs.get("0"), "0" in inputs), **sharing()))
    for target in ("aten.add.Tensor", "aten.mul.Tensor"):
        if rng.random() < 0.7:
            first = spec()
            second = {"kind": "shared", "edge": ["$arg0", "$self"]} if rng.random() < 0.2 else spec()
            result.append(rl(target, {"0": first, "1": second}, output_spec(rng, first, True), **sharing()))
    if rng.random() < 0.7:
        one, first = rng.random() < 0.5, spec()
        shared = {"kind": "shared", "edge": ["$arg0.0", "$self"]}
        result.append(rl("aten.cat.default", {"0.0": first, "0.1": shared if one else spec(), "0.2": shared if one else spec()}, shared if one else spec()))
    for target in ("aten.relu.default", "aten.max_pool2d.default", "aten.flatten.using_ints", "aten.sigmoid.default", "aten.tanh.default", "aten.avg_pool2d.default"):
        if rng.random() < 0.5:
            first = spec()
            result.append(rl(target, {"0": first}, output_spec(rng, first, True), **sharing()))
    return rules(*result)


MAKERS = {"xnnpack": xnnpack_quantizer, "x86": x86_quantizer, "rules": rules_quantizer}


def add_random_cases(count, first_seed=0, quantizers=QUANTIZERS):
    """`count` cases of consecutive seeds, the quantizers in turn."""
    for seed in range(first_seed, first_seed + count):
        kind = quantizers[seed % len(quantizers)]
        rng = random.Random(seed)
        plan, inputs = Planner(rng).draw()
        quantizer = MAKERS[kind](rng, plan)
        case(f"rnd_{kind}_{seed:05d}", quantizer, lambda plan=plan: RandomNet(plan), inputs, seed=seed, tags=["random"], reference=False)
