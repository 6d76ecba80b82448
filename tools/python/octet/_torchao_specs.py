"""Converts torchao's specs and observers to octet's."""

import dataclasses
import functools

import torch
from octet_runtime._error import Error

from octet._quantizer import (
    DerivedQuantizationSpec,
    FixedQParamsQuantizationSpec,
    QuantizationSpec,
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
_OPTIONS = ("eps", "bins", "averaging_constant")


def _numbers(of):
    """The fields that specs and observers have in common."""
    return {
        "dtype": of.dtype,
        "quant_min": of.quant_min,
        "quant_max": of.quant_max,
        "qscheme": None if of.qscheme is None else _QSCHEMES[of.qscheme],
    }


def _choice(spec):
    """(observer, options, ch_axis) of a spec. observer: octet's name for torchao's class, else a
    constructor."""
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
        options = {key: options[key] for key in _OPTIONS if key in options}
        return _OBSERVERS[name], options, spec.ch_axis
    arguments = dataclasses.asdict(spec)
    del arguments["observer_or_fake_quant_ctr"]
    takes_axis = "PerChannel" in name  # torchao's rule
    if not takes_axis:
        del arguments["ch_axis"]

    def make():
        return spec.observer_or_fake_quant_ctr.with_args(**arguments)()

    make.__name__ = name
    axis = spec.ch_axis
    if not takes_axis and "per_channel" in str(spec.qscheme):
        axis = getattr(make(), "ch_axis", axis)
    return make, {}, axis


def from_spec(spec, place):
    """Octet's spec for one of torchao's that is not shared. place: converts an edge or node."""
    kind = type(spec).__name__
    if kind == "FixedQParamsQuantizationSpec":
        return FixedQParamsQuantizationSpec(
            scale=spec.scale, zero_point=spec.zero_point, **_numbers(spec)
        )
    if kind == "DerivedQuantizationSpec":
        return DerivedQuantizationSpec(
            [place(source) for source in spec.derived_from],
            spec.derive_qparams_fn,
            ch_axis=spec.ch_axis,
            **_numbers(spec),
        )
    if kind != "QuantizationSpec":
        raise Error("annotate", kind, "is a kind of spec that is not taken over from torchao")
    observer, options, axis = _choice(spec)
    return QuantizationSpec(
        observer=observer,
        ch_axis=axis,
        is_dynamic=bool(spec.is_dynamic),
        **_numbers(spec),
        **options,
    )


def from_observer(observer, place):
    """A spec that uses an observer of torchao's unchanged. place: converts one of its sources."""
    kind = type(observer).__name__
    if kind == "DerivedObserverOrFakeQuantize":
        sources = [place(source) for source in observer.obs_or_fqs]
        return DerivedQuantizationSpec(
            sources, observer.derive_qparams_fn, ch_axis=observer.ch_axis, **_numbers(observer)
        )
    if kind == "FixedQParamsObserver":
        scale, zero_point = (part.item() for part in observer.calculate_qparams())
        return FixedQParamsQuantizationSpec(
            scale=scale, zero_point=int(zero_point), **_numbers(observer)
        )
    axis = getattr(observer, "ch_axis", None)
    if kind in ("PlaceholderObserver", "NoopObserver"):
        return QuantizationSpec(
            observer=_OBSERVERS[kind],
            is_dynamic=bool(getattr(observer, "is_dynamic", False)),
            eps=getattr(observer, "eps", None),
            ch_axis=axis,
            **_numbers(observer),
        )

    def make():
        return observer

    make.__name__ = kind
    return QuantizationSpec(observer=make, ch_axis=axis, **_numbers(observer))
