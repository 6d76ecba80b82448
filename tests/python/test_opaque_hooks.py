"""Opaque parts of octet.Quantizer: an observed form of a module, with Octet's observers, and its quantized form."""

import json
import pathlib
import re
import unittest

import octet
import torch
from package_test import PackageTest, sqnr
from torch import Tensor, nn

INT8 = octet.QuantizationSpec("int8", "min_max", -128, 127, "per_tensor_affine")
WEIGHT = octet.QuantizationSpec("int8", "min_max", -127, 127, "per_tensor_symmetric")


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.ih, self.hh = nn.Linear(4, 32), nn.Linear(8, 32)

    def forward(self, x, h, c):
        i, f, g, o = (self.ih(x) + self.hh(h)).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.head = Cell(), nn.Linear(8, 3)

    def forward(self, x):
        h = c = torch.zeros(2, 8)
        for t in range(3):
            h, c = self.cell(x[:, t], h, c)
        return self.head(h)


def rounded(x, scale, zero_point, low=-128):
    return (torch.clamp(torch.round(x / scale) + zero_point, low, 127) - zero_point) * scale


@torch.library.custom_op("octet_hooks::gates", mutates_args=())
def gates(x: Tensor, h: Tensor, w: Tensor, v: Tensor, b: Tensor) -> Tensor:
    return x @ w.T + h @ v.T + b


@torch.library.custom_op("octet_hooks::quantized_gates", mutates_args=())
def quantized_gates(x: Tensor, h: Tensor, w: Tensor, v: Tensor, b: Tensor, scales: list[float], points: list[int]) -> Tensor:
    x, h, w, v = (rounded(tensor.float(), scales[i], points[i]) for i, tensor in enumerate((x, h, w, v)))
    return rounded(x @ w.T + h @ v.T + b, scales[4], points[4])


@gates.register_fake
def _(x, h, w, v, b):
    return x.new_empty(x.shape[0], w.shape[0])


@quantized_gates.register_fake
def _(x, h, w, v, b, scales, points):
    return x.new_empty(x.shape[0], w.shape[0])


class Gates(octet.Quantizer):
    """Inside of the part: Octet's observers around the gates."""

    def annotate(self, graph, annotations, report):
        for node in graph.nodes:
            if node.is_op("octet_hooks.gates") and not annotations.is_annotated(node):
                x, h, w, v, _ = node.inputs
                annotations.annotate(node, inputs={x: INT8, h: INT8, w: WEIGHT, v: WEIGHT}, output=INT8)


class CellHooks:
    """The observed and the quantized form of a Cell; keeps the scales of each call."""

    def __init__(self):
        self.scales = []

    def part(self):
        return octet.OpaquePart(
            module="cell", quantizer=Gates(), float_to_observed=self.float_to_observed, observed_to_quantized=self.observed_to_quantized
        )

    def float_to_observed(self, graph, island):
        add = next(node for node in island.nodes if node.is_op("aten.add"))
        one, two = (value.producer for value in add.inputs)
        names = ("input", "weight")
        x, w, h, v = (node.input(name) for node in (one, two) for name in names)
        bias = graph.add_constant("cell.bias", one.input("bias").tensor + two.input("bias").tensor)
        observed = graph.insert("octet_hooks.gates.default", {"x": x, "h": h, "w": w, "v": v, "b": bias}, before=add)
        graph.replace_uses(add.output, observed.output)
        for node in (add, one, two):
            graph.erase(node)

    def observed_to_quantized(self, graph, island):
        observed = next(node for node in island.nodes if node.is_op("octet_hooks.gates"))
        arguments = {name: observed.input(name) for name in "xhwvb"}
        qparams = [island.qparams(value) for value in (*observed.inputs[:4], observed.output)]
        arguments["scales"] = [scale.item() for scale, _ in qparams]
        arguments["points"] = [point.item() for _, point in qparams]
        self.scales.append(arguments["scales"])
        quantized = graph.insert("octet_hooks.quantized_gates.default", arguments, before=observed)
        graph.replace_uses(observed.output, quantized.output)


class Outside(octet.Quantizer):
    def __init__(self, *parts):
        self.opaque_parts = parts

    def annotate(self, graph, annotations, report):
        pass


class Hooks(PackageTest):
    def net(self):
        torch.manual_seed(3)
        net = Net().eval()
        batches = [(torch.randn(2, 3, 4),) for _ in range(5)]
        return torch.export.export(net, batches[0]), batches

    def test_a_cell_with_octet_s_observers(self):
        program, batches = self.net()
        hooks = CellHooks()
        q = octet.quantize(program, [Outside(hooks.part()), "xnnpack"], calibration=batches)
        targets = [node["target"] for node in octet.inspect(q).data["nodes"]]
        self.assertEqual(targets.count("octet_hooks.quantized_gates.default"), 3)
        self.assertFalse({"octet_hooks.gates.default", "octet.observe.default"} & set(targets))
        self.assertEqual(len(hooks.scales), 3)
        seen = max(batch[0][:, 0].max().item() for batch in batches) - min(batch[0][:, 0].min().item() for batch in batches)
        self.assertAlmostEqual(hooks.scales[0][0], seen / 255, places=5)
        self.assertGreater(sqnr(program.module()(*batches[0]), q.module()(*batches[0])), 25)

    def test_its_state_is_saved_and_loaded(self):
        program, batches = self.net()
        hooks, again = CellHooks(), CellHooks()
        prepared = octet.prepare(program, [Outside(hooks.part()), "xnnpack"])
        octet.calibrate(prepared, batches)
        prepared.save_state(self.path("state.json"))
        first = octet.convert(prepared)
        with open(self.path("state.json")) as file:
            sites = [site for group in json.load(file)["groups"] for site in group["sites"]]
        self.assertIn("gates", sites)

        restored = octet.prepare(program, [Outside(again.part()), "xnnpack"])
        restored.load_state(self.path("state.json"))
        second = octet.convert(restored)
        self.assertEqual(hooks.scales, again.scales)
        torch.testing.assert_close(first.module()(*batches[1]), second.module()(*batches[1]), rtol=0, atol=0)
        other = octet.prepare(program, "xnnpack")
        with self.assertRaisesRegex(octet.Error, "^state: "):
            other.load_state(self.path("state.json"))

    def test_the_page(self):
        """Runs the block of annotate/OPAQUE.md."""
        page = pathlib.Path(__file__).resolve().parents[2] / "annotate/OPAQUE.md"
        names = {}
        exec(re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)[0], names)
        library = torch.library.Library("my_ns", "DEF")
        library.define("observed(Tensor input) -> Tensor")
        library.define("quantized(Tensor input, float scale) -> Tensor")
        library.impl("observed", torch.tanh, "CompositeExplicitAutograd")
        library.impl("quantized", lambda input, scale: input / scale, "CompositeExplicitAutograd")

        class Encoder(nn.Module):
            def __init__(self):
                super().__init__()
                self.encoder, self.head = nn.Module(), nn.Linear(4, 2)
                self.encoder.lstm = nn.Sequential(nn.Tanh(), nn.Linear(4, 4))

            def forward(self, x):
                return self.head(self.encoder.lstm(x))

        program = torch.export.export(Encoder().eval(), (torch.randn(2, 4),))
        quantizer = names["WithLstm"]()
        q = octet.quantize(program, [quantizer, "xnnpack"], calibration=[(torch.randn(2, 4),)])
        [scale] = [node["args"]["scale"] for node in octet.inspect(q).data["nodes"] if node["target"] == "my_ns.quantized.default"]
        self.assertEqual(scale, quantizer.opaque_parts[0].observed_to_quantized.__self__.scale.item())

    def test_borders_and_quantizers_by_name(self):
        program, batches = self.net()
        fixed = octet.FixedQParamsQuantizationSpec("int8", 0.5, 0)
        part = octet.OpaquePart(module="cell", quantizer={"base": "xnnpack", "global": {}}, quantized_inputs={0: fixed})
        q = octet.quantize(program, [Outside(part), "xnnpack"], calibration=batches)
        scales = [node["args"].get("scale") for node in octet.inspect(q).data["nodes"]]
        self.assertIn(0.5, scales)
        plain = octet.quantize(program, [Outside(octet.OpaquePart(ops=("aten.linear",))), "x86"], calibration=batches, mode="static", compat="torchao")
        self.assertNotIn("linear", {op["rule"] for op in plain.report.data["quantized_ops"]})

    def test_mistakes(self):
        program, batches = self.net()

        def fails(part, pattern, error=octet.Error):
            with self.assertRaisesRegex(error, pattern):
                octet.quantize(program, [Outside(part), "xnnpack"], calibration=batches)

        def hook(act):
            return octet.OpaquePart(module="cell", quantizer=Gates(), float_to_observed=act)

        fails(octet.OpaquePart(), "^quantizer: opaque part: names nothing, want exactly one of")
        fails(octet.OpaquePart(module="cell", op="aten.add"), "names several kinds of ops")
        fails(octet.OpaquePart(module="nowhere"), 'quantizer: module "nowhere": covers no op')
        fails(octet.OpaquePart(module=7), "has a field of another type")
        fails(octet.OpaquePart(module="cell", quantizer="none such"), "none such")
        fails(octet.OpaquePart(module="cell", quantized_inputs={9: INT8}), "cell")
        fails(octet.OpaquePart(module="cell", quantized_inputs={0: 3}), "^annotate: a spec: got 3")
        fails("cell", "^quantizer: opaque_parts: got 'cell', want a list of octet.OpaquePart$")
        fails(hook(lambda graph, island: 1 / 0), "division by zero", ZeroDivisionError)
        fails(hook(lambda graph, island: island.qparams(island.inputs[0])), "has no observers yet; ask in observed_to_quantized")
        fails(hook(lambda graph, island: graph.erase(island.nodes[0])), "is erased while %.* is used; call replace_uses")
        late = []
        octet.quantize(program, [Outside(hook(lambda graph, island: late.append(island))), "xnnpack"], calibration=batches)
        with self.assertRaisesRegex(octet.Error, r"is looked at after float_to_observed\(\) has returned"):
            late[0].nodes


if __name__ == "__main__":
    unittest.main()
