"""Uses torchao's Quantizers unchanged: copies their annotations of the GraphModule."""

import dataclasses
import functools
import sys

import torch
from octet_runtime._error import Error

from octet._quantizer import (
    DerivedQuantizationSpec,
    FixedQParamsQuantizationSpec,
    QuantizationSpec,
    Quantizer,
    SharedQuantizationSpec,
)

_QSCHEMES = {
    torch.per_tensor_affine: "per_tensor_affine",
    torch.per_tensor_symmetric: "per_tensor_symmetric",
    torch.per_channel_affine: "per_channel_affine",
    torch.per_channel_symmetric: "per_channel_symmetric",
    torch.per_channel_affine_float_qparams: "per_channel_affine_float_qparams",
}
_OBSERVERS = {
    "HistogramObserver": "histogram",
    "MinMaxObserver": "min_max",
    "MovingAverageMinMaxObserver": "moving_average_min_max",
    "PerChannelMinMaxObserver": "per_channel_min_max",
    "MovingAveragePerChannelMinMaxObserver": "moving_average_per_channel_min_max",
    "PlaceholderObserver": "placeholder",
    "NoopObserver": "noop",
}
_TAKEN = ("QuantizationSpec", "FixedQParamsQuantizationSpec", "DerivedQuantizationSpec")
_OPTIONS = ("eps", "bins", "averaging_constant")


def is_torchao(quantizer) -> bool:
    """Whether it is one of torchao's. Imports nothing."""
    module = sys.modules.get("torchao.quantization.pt2e.quantizer.quantizer")
    return module is not None and isinstance(quantizer, module.Quantizer)


def _observer(spec):
    """(observer, options) of a spec: octet's name for torchao's class, else its constructor."""
    constructor, options = spec.observer_or_fake_quant_ctr, {}
    while not isinstance(constructor, type):
        inner = getattr(constructor, "p", constructor)
        if not isinstance(inner, functools.partial):
            break
        options = {**inner.keywords, **options}
        constructor = inner.func
        constructor = getattr(constructor, "__self__", constructor)
    name = getattr(constructor, "__name__", str(constructor))
    if name in _OBSERVERS:
        return _OBSERVERS[name], {key: options[key] for key in _OPTIONS if key in options}
    arguments = dataclasses.asdict(spec)
    del arguments["observer_or_fake_quant_ctr"]
    if "PerChannel" not in name:  # torchao's rule
        del arguments["ch_axis"]

    def make():
        return spec.observer_or_fake_quant_ctr.with_args(**arguments)()

    make.__name__ = name
    return make, {}


class FromTorchao(Quantizer):
    """Gives octet's graph the annotations that a torchao Quantizer gives the program's module."""

    def __init__(self, quantizer, program):
        self.quantizer, self.program = quantizer, program
        base = sys.modules["torchao.quantization.pt2e.quantizer.quantizer"].Quantizer
        self.scalars_to_constants = (
            type(quantizer).transform_for_annotation is not base.transform_for_annotation
        )

    def _annotated(self):
        from torchao.quantization.pt2e.utils import _fuse_conv_bn_

        module = self.program.module()
        _fuse_conv_bn_(module)
        module = self.quantizer.transform_for_annotation(module)
        self.quantizer.annotate(module)
        self.quantizer.validate(module)
        return module

    def annotate(self, graph, annotations, report):
        values, nodes = {}, {}
        module = self._annotated()
        for fx in module.graph.nodes:
            if fx.op == "placeholder":
                values[fx] = graph.find_value(fx.name)
            node = graph.find_node(fx.name)
            if fx.op == "call_function" and node is not None:
                nodes[fx] = node
                values[fx] = node.output
                values.update(_arguments(fx, node, values))
        for fx, node in nodes.items():
            found = fx.meta.get("quantization_annotation")
            if found is None or not found._annotated:
                continue
            place = functools.partial(_place, fx, values, nodes)
            inputs = {
                _known(values, source, fx): _spec(spec, place)
                for source, spec in found.input_qspec_map.items()
                if spec is not None
            }
            output = None if found.output_qspec is None else _spec(found.output_qspec, place)
            annotations.annotate(
                node,
                inputs=inputs,
                output=output,
                rule=type(self.quantizer).__name__,
                allow_implicit_sharing=found.allow_implicit_sharing,
            )


def _arguments(fx, node, values):
    """Maps arguments of torch's node to octet's values, as constants have other names there."""
    found = {}
    schema = getattr(fx.target, "_schema", None)
    names = [argument.name for argument in schema.arguments] if schema else []
    for name, argument in [*zip(names, fx.args), *fx.kwargs.items()]:
        if isinstance(argument, torch.fx.Node) and values.get(argument) is None:
            value = node.input(name)
            if value is not None:
                found[argument] = value
    return found


def _known(values, source, fx):
    value = values.get(source)
    if value is None:
        raise Error("annotate", f"%{fx.name}", f"octet's graph has nothing for %{source.name}")
    return value


def _place(fx, values, nodes, given):
    if isinstance(given, tuple):
        source, user = given
        if user not in nodes:
            raise Error("annotate", f"%{fx.name}", f"octet's graph has nothing for %{user.name}")
        return _known(values, source, fx), nodes[user]
    return _known(values, given, fx)


def _spec(spec, place):
    kind = type(spec).__name__
    if kind == "SharedQuantizationSpec":
        return SharedQuantizationSpec(place(spec.edge_or_node))
    if kind not in _TAKEN:
        raise Error("annotate", kind, "is a kind of spec that is not taken over from torchao")
    numbers = {
        "dtype": spec.dtype,
        "quant_min": spec.quant_min,
        "quant_max": spec.quant_max,
        "qscheme": None if spec.qscheme is None else _QSCHEMES[spec.qscheme],
    }
    if kind == "FixedQParamsQuantizationSpec":
        return FixedQParamsQuantizationSpec(
            scale=spec.scale, zero_point=spec.zero_point, **numbers
        )
    if kind == "DerivedQuantizationSpec":
        return DerivedQuantizationSpec(
            [place(source) for source in spec.derived_from],
            spec.derive_qparams_fn,
            ch_axis=spec.ch_axis,
            **numbers,
        )
    observer, options = _observer(spec)
    return QuantizationSpec(
        observer=observer,
        ch_axis=spec.ch_axis,
        is_dynamic=bool(spec.is_dynamic),
        **numbers,
        **options,
    )
