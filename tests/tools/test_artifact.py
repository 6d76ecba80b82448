"""The .octet file as others see it: Python's safetensors reads every constant by lowering/ARTIFACT.md alone, and the same input gives the same bytes."""
import json
import pathlib
import unittest

import numpy
import torch
from safetensors import safe_open
from support import CommandTest
from torch import nn

BACKENDS = ("reference", "onednn", "xnnpack")
QUANTIZE = {
    "static": ("--calibration", "data.pt"),
    "dynamic": ("--mode", "dynamic"),
    "weight_only": ("--mode", "weight-only"),
    "weight_only_4": ("--mode", "weight-only", "--weight-bits", "4"),
    "weight_only_3": ("--mode", "weight-only", "--weight-bits", "3"),
}


class Net(nn.Module):
    """Filters of every order: with many channels, depthwise, 1x1, one-dimensional; matrices."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 32, 3, padding=1)
        self.depthwise = nn.Conv2d(32, 32, 3, padding=1, groups=32)
        self.point = nn.Conv2d(32, 64, 1)
        self.second = nn.Conv2d(64, 24, 3, stride=2)
        self.line = nn.Conv1d(24, 8, 3)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        x = self.point(torch.relu(self.depthwise(torch.relu(self.first(x)))))
        return self.head(x.mean((2, 3))), self.line(self.second(x).flatten(2))


def in_blocks(parameters, shape):
    """One scale for each block, as one for each element."""
    for axis, size in enumerate(shape):
        parameters = numpy.repeat(parameters, size // parameters.shape[axis], axis=axis)
    return parameters


def tensor_of(file, name):
    tensor = file.get_tensor(name)
    return (tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor).numpy()


def integers_of(file, name, shape):
    """The integers of a float constant: packed, or plain."""
    for bits in (2, 3, 4):
        for letter in "iu":
            if f"{name}:{letter}{bits}" in file.keys():
                count = int(numpy.prod(shape))
                digits = numpy.unpackbits(tensor_of(file, f"{name}:{letter}{bits}"), bitorder="little")[:count * bits]
                values = digits.reshape(count, bits).astype("int32") @ (1 << numpy.arange(bits))
                if letter == "i":
                    values = numpy.where(values >= 1 << (bits - 1), values - (1 << bits), values)
                return f"{letter}{bits}", values.reshape(shape)
    return "values", tensor_of(file, f"{name}:values")


def read_constant(file, tensor):
    """(form, real numbers, step) of one constant, by the words of ARTIFACT.md."""
    name, shape = tensor["name"], tensor["shape"]
    optional = lambda key, otherwise: tensor_of(file, key) if key in file.keys() else otherwise
    if name in file.keys() or f"{name}:channels_last" in file.keys():
        form = "rows" if name in file.keys() else "channels_last"
        data = tensor_of(file, name) if form == "rows" else numpy.moveaxis(tensor_of(file, f"{name}:channels_last"), -1, 1)
        if "qparams" not in tensor:
            return form, data, None
        axis, slices = tensor["qparams"]["axis"], [1] * len(shape)
        if axis < 0:
            scale, zero = numpy.float32(tensor["qparams"]["scale"][0]), tensor["qparams"]["zero_point"][0]
        else:
            slices[axis] = shape[axis]
            scale = tensor_of(file, f"{name}:scale").reshape(slices)
            zero = optional(f"{name}:zero_point", numpy.zeros(shape[axis], "int32")).reshape(slices)
        return form, (data.astype("float32") - zero) * scale, scale
    form, values = integers_of(file, name, shape)
    scale = in_blocks(tensor_of(file, f"{name}:scale"), shape)
    zero = optional(f"{name}:zero_point", None)
    return form, (values.astype("float32") - (0 if zero is None else in_blocks(zero, shape))) * scale, scale


class Artifact(CommandTest):
    def quantized(self, output="q.pt2", mode="static"):
        options = [self.path(option) if option == "data.pt" else option for option in QUANTIZE[mode]]
        self.octet("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", *options, "--output", self.path(output))

    def lowered(self, backend, program="q.pt2", output="q.octet"):
        self.octet("lower", self.path(program), "--backend", backend, "--output", self.path(output))

    def model(self):
        torch.manual_seed(0)
        net = Net().requires_grad_(False).eval()
        self.export(net, torch.randn(1, 3, 16, 16))
        self.save("data.pt", [(torch.randn(1, 3, 16, 16),) for _ in range(2)])
        return {name: parameter.numpy() for name, parameter in net.named_parameters()}

    def check_constants(self, parameters):
        """Every constant is a parameter, within what rounding takes; returns the version and the forms."""
        with safe_open(self.path("q.octet"), framework="pt") as file:
            metadata, forms, met = file.metadata(), set(), set()
            for tensor in json.loads(metadata["program"])["tensors"]:
                if tensor["role"] != 2:
                    continue
                form, reals, step = read_constant(file, tensor)
                self.assertEqual(list(reals.shape), tensor["shape"])
                forms.add(form)
                like = {name: parameter for name, parameter in parameters.items() if parameter.shape == reals.shape}
                error, name = min((numpy.abs(reals - parameter).mean(), name) for name, parameter in like.items())
                met.add(name)
                if step is None:
                    self.assertEqual(error, 0, tensor["name"])
                else:
                    self.assertLess((numpy.abs(reals - parameters[name]) / step).mean(), 0.35, tensor["name"])
            self.assertEqual(met, set(parameters))
        return metadata["version"], forms

    def test_safetensors_reads_every_constant_of_every_form(self):
        parameters = self.model()
        met = set()
        for mode in QUANTIZE:
            self.quantized(mode=mode)
            for backend in BACKENDS:
                with self.subTest(mode=mode, backend=backend):
                    self.lowered(backend)
                    version, forms = self.check_constants(parameters)
                    self.assertEqual(version, "9" if mode[-1] in "34" else "3" if "channels_last" in forms else "2")
                    self.assertIn("conv", self.octet("inspect", self.path("q.octet"))[0])
                    met |= forms
        self.assertEqual(met, {"rows", "channels_last", "values", "i4", "i3"})

    def test_the_same_input_gives_the_same_bytes(self):
        self.model()
        read = lambda name: pathlib.Path(self.path(name)).read_bytes()
        for mode in QUANTIZE:
            with self.subTest(mode=mode):
                self.quantized("first.pt2", mode)
                self.quantized("second.pt2", mode)
                self.assertEqual(read("first.pt2"), read("second.pt2"))
                self.lowered("xnnpack", "first.pt2", "first.octet")
                self.lowered("xnnpack", "second.pt2", "second.octet")
                self.assertEqual(read("first.octet"), read("second.octet"))


if __name__ == "__main__":
    unittest.main()
