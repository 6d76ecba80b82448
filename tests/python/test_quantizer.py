"""octet.Quantizer: quantizers that Python wrote, alone and beside others."""

import importlib.util
import unittest

import octet
import torch
from package_test import PackageTest, sqnr

INT8 = octet.QuantizationSpec("int8", observer="histogram", qscheme="per_tensor_affine")
WEIGHT = octet.QuantizationSpec(torch.int8, "per_channel_min_max", -127, 127, "per_channel_symmetric", 0)


class Linears(octet.Quantizer):
    def annotate(self, graph, annotations, report):
        for node in graph.nodes:
            if node.is_op("aten.linear"):
                x, weight, bias = node.input("input"), node.input("weight"), node.input("bias")
                derived = octet.DerivedQuantizationSpec([(x, node), (weight, node)], qscheme="per_channel_symmetric", ch_axis=0)
                annotations.annotate(node, inputs={x: INT8, weight: WEIGHT, bias: derived}, output=INT8, rule="mine")
            else:
                report.float_op(node, "is not a linear")
        report.note("all seen")


class Looks(octet.Quantizer):
    """Keeps what it has seen."""

    def annotate(self, graph, annotations, report):
        self.graph, self.seen = graph, {}
        for node in graph.nodes:
            self.seen[node.name] = (node.target, node.module, [v.name for v in node.inputs], node.output.shape, node.output.dtype)
            self.node = node
        conv = graph.find_node("conv2d")
        self.facts = {
            "stride": conv.argument("stride"),
            "groups": conv.argument("groups", 7),
            "weight": (conv.input("weight").fqn, conv.input("weight").is_constant, conv.input("weight").producer),
            "none": conv.input("nothing"),
            "users": [user.name for user in conv.output.users],
            "same": graph.find_value(conv.output.name) == conv.output and conv.output.producer == conv,
            "hash": len({conv, graph.find_node("conv2d")}),
            "output": [node.name for node in graph.nodes if node.output.is_output],
        }
        Linears().annotate(graph, annotations, report)


class Raises(octet.Quantizer):
    def __init__(self, act):
        self.act = act

    def annotate(self, graph, annotations, report):
        linear = [node for node in graph.nodes if node.is_op("aten.linear")][0]
        self.act(graph, annotations, linear)


class Quantizers(PackageTest):
    def test_its_annotations_become_the_program(self):
        program, batches, x = self.small_program()
        q = octet.quantize(program, Linears(), calibration=batches)
        rules = [op["rule"] for op in q.report.data["quantized_ops"] if op["rule"]]
        self.assertEqual(rules, ["mine"])
        self.assertIn("all seen", q.report.data["notes"])
        self.assertIn("is not a linear", {op["reason"] for op in q.report.float_ops})
        self.assertGreater(sqnr(program.module()(x), q.module()(x)), 25)
        targets = [node["target"] for node in octet.inspect(q).data["nodes"]]
        self.assertIn("quantized_decomposed.dequantize_per_channel.default", targets)
        self.assertEqual(octet.lower(q, "reference")(x).shape, (1, 10))

    def test_in_a_list_the_first_keeps_an_op(self):
        program, batches, x = self.small_program()
        q = octet.quantize(program, [Linears(), "xnnpack"], calibration=batches)
        rules = {op["module"]: op["rule"] for op in q.report.data["quantized_ops"]}
        self.assertEqual(rules["head"], "Linears: mine")
        self.assertTrue(rules["project"].startswith("xnnpack: "), rules)

    def test_settings_keep_ops_float(self):
        program, batches, _ = self.small_program()
        with self.assertRaisesRegex(octet.Error, 'quantizer "Linears" finds nothing to quantize'):
            octet.quantize(program, Linears(), calibration=batches, config={"module_name": {"head": None}})

    def test_what_it_sees(self):
        program, batches, _ = self.small_program()
        looks = Looks()
        octet.quantize(program, looks, calibration=batches)
        self.assertEqual(looks.seen["conv2d"][:2], ("aten.conv2d.default", "stem.0"))
        self.assertEqual(looks.seen["conv2d"][3:], ((1, 16, 16, 16), "float32"))
        facts = looks.facts
        self.assertEqual((facts["stride"], facts["groups"]), ([2, 2], 7))
        self.assertEqual(facts["weight"][1:], (True, None))
        self.assertIsNone(facts["none"])
        self.assertEqual((facts["same"], facts["hash"], facts["output"]), (True, 1, ["linear"]))
        for late in (lambda: looks.node.name, lambda: looks.graph.nodes, lambda: repr(looks.node)):
            with self.assertRaisesRegex(octet.Error, "annotate: the graph: is looked at after annotate"):
                late()

    def test_mistakes(self):
        program, batches, _ = self.small_program()
        spec = octet.QuantizationSpec

        def fails(act, pattern, error=octet.Error):
            with self.assertRaisesRegex(error, pattern):
                octet.quantize(program, Raises(act), calibration=batches)

        fails(lambda g, a, n: 1 / 0, "division by zero", ZeroDivisionError)
        fails(lambda g, a, n: a.annotate(n, inputs={n.output: INT8}), "annotate: %linear: does not read %linear")
        fails(lambda g, a, n: a.annotate(n, output=3), "annotate: a spec: got 3, want one of")
        fails(lambda g, a, n: a.annotate(n, output=spec("int9")), 'annotate: dtype: got "int9"')
        fails(lambda g, a, n: a.annotate(n, output=spec(qscheme="per_moon")), 'annotate: qscheme: got "per_moon"')
        fails(lambda g, a, n: a.annotate(n, output=spec(observer="eyes")), "eyes")
        fails(lambda g, a, n: a.annotate(n, output=spec(quant_min="a")), "annotate: QuantizationSpec.quant_min: got 'a'")
        fails(lambda g, a, n: a.annotate(n, output=spec(quant_min=5, quant_max=-5)), "annotate: ")
        fails(lambda g, a, n: a.annotate(n, output=octet.SharedQuantizationSpec(n)), "annotate: a shared or derived spec: got ")
        fails(lambda g, a, n: a.annotate(n, output=octet.DerivedQuantizationSpec([n.output], "none such")), "none such")
        with self.assertRaises(NotImplementedError):
            octet.quantize(program, octet.Quantizer(), calibration=batches)
        with self.assertRaisesRegex(octet.Error, "quantizer: type: want a name"):
            octet.quantize(program, Linears, calibration=batches)

    def test_fixed_and_shared(self):
        program, batches, _ = self.small_program()

        def annotate(graph, annotations, linear):
            fixed = octet.FixedQParamsQuantizationSpec("uint8", 1 / 16, 128)
            x = linear.input("input")
            annotations.annotate(linear, inputs={x: fixed}, output=octet.SharedQuantizationSpec((x, linear)))

        q = octet.quantize(program, Raises(annotate), calibration=batches)
        scales = [n["args"]["scale"] for n in octet.inspect(q).data["nodes"] if ".quantize_per_tensor" in n["target"]]
        self.assertEqual(scales, [1 / 16, 1 / 16])


class FromTorchao(PackageTest):
    def scales(self, program):
        return sorted(n["args"]["scale"] for n in octet.inspect(program).data["nodes"] if ".quantize_per_tensor" in n["target"])

    def test_a_quantizer_of_torchao_s(self):
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
        from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import (
            X86InductorQuantizer,
            get_default_x86_inductor_quantization_config,
        )

        def quantizer():
            return X86InductorQuantizer().set_global(get_default_x86_inductor_quantization_config())

        program, batches, x = self.small_program()
        prepared = prepare_pt2e(program.module(), quantizer())
        for batch in batches:
            prepared(*batch)
        theirs = torch.export.export(convert_pt2e(prepared), (x,))
        ours = octet.quantize(program, quantizer(), calibration=batches, compat="torchao")
        self.assertEqual(self.scales(ours), self.scales(theirs))
        self.assertGreater(len(self.scales(ours)), 3)
        self.assertGreater(sqnr(theirs.module()(x), ours.module()(x)), 40)
        self.assertIn("X86InductorQuantizer", {op["rule"] for op in ours.report.data["quantized_ops"]})
        with self.assertRaisesRegex(octet.Error, "quantizer: X86InductorQuantizer: annotates a program in memory"):
            octet.quantize(self.path("model.pt2"), quantizer(), calibration=batches)

    def test_a_subclass_with_shared_and_fixed_specs(self):
        from torchao.quantization.pt2e import MinMaxObserver
        from torchao.quantization.pt2e.quantizer import (
            FixedQParamsQuantizationSpec,
            QuantizationAnnotation,
            QuantizationSpec,
            Quantizer,
            SharedQuantizationSpec,
        )

        class Theirs(Quantizer):
            def annotate(self, model):
                for node in model.graph.nodes:
                    if node.target != torch.ops.aten.linear.default:
                        continue
                    x, weight = node.args[:2]
                    fixed = FixedQParamsQuantizationSpec(torch.uint8, 1 / 16, 128, 0, 255, torch.per_tensor_affine)
                    plain = QuantizationSpec(torch.int8, MinMaxObserver.with_args(eps=0.5), -127, 127, torch.per_tensor_symmetric)
                    node.meta["quantization_annotation"] = QuantizationAnnotation(
                        input_qspec_map={x: fixed, weight: plain}, output_qspec=SharedQuantizationSpec((x, node)), _annotated=True
                    )
                return model

            def validate(self, model):
                pass

        program, batches, _ = self.small_program()
        q = octet.quantize(program, Theirs(), calibration=batches, compat="torchao")
        self.assertEqual(self.scales(q), [1 / 16, 1 / 16])
        dequantized = [n["args"]["scale"] for n in octet.inspect(q).data["nodes"] if "dequantize_per_tensor" in n["target"]]
        self.assertIn(0.5, dequantized)

    def theirs_and_ours(self, annotation_of):
        """The small program quantized by torchao and by octet with the same Quantizer, which annotates linears."""
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
        from torchao.quantization.pt2e.quantizer import Quantizer

        class Theirs(Quantizer):
            def annotate(self, model):
                for node in model.graph.nodes:
                    if node.target == torch.ops.aten.linear.default:
                        node.meta["quantization_annotation"] = annotation_of(node)
                return model

            def validate(self, model):
                pass

        program, batches, x = self.small_program()
        prepared = prepare_pt2e(program.module(), Theirs())
        for batch in batches:
            prepared(*batch)
        theirs = torch.export.export(convert_pt2e(prepared), (x,))
        ours = octet.quantize(program, Theirs(), calibration=batches, compat="torchao")
        self.assertGreater(sqnr(theirs.module()(x), ours.module()(x)), 60)
        return theirs, ours

    @unittest.skipUnless(importlib.util.find_spec("executorch"), "executorch is for one version of torch alone")
    def test_quantizers_of_vendors(self):
        """The quantizers of the executorch package that need no vendor SDK."""
        from executorch.backends.samsung.quantizer import EnnQuantizer
        from executorch.backends.vulkan.quantizer import vulkan_quantizer as vulkan
        from executorch.backends.xnnpack.quantizer import xnnpack_quantizer as xnnpack
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

        makers = (
            lambda: xnnpack.XNNPACKQuantizer().set_global(xnnpack.get_symmetric_quantization_config(is_per_channel=True)),
            lambda: xnnpack.XNNPACKQuantizer().set_global(xnnpack.get_symmetric_quantization_config(is_per_channel=True, is_dynamic=True)),
            lambda: vulkan.VulkanQuantizer().set_global(vulkan.get_symmetric_quantization_config(is_dynamic=False)),
            EnnQuantizer,
        )
        program, batches, x = self.small_program()
        for make in makers:
            prepared = prepare_pt2e(program.module(), make())
            for batch in batches:
                prepared(*batch)
            theirs = torch.export.export(convert_pt2e(prepared), (x,))
            ours = octet.quantize(program, make(), calibration=batches, compat="torchao")
            with self.subTest(type(make()).__name__):
                self.assertEqual(set(self.scales(ours)), set(self.scales(theirs)))
                self.assertGreater(sqnr(theirs.module()(x), ours.module()(x)), 60)

    def test_a_derived_spec(self):
        from torchao.quantization.pt2e import MinMaxObserver
        from torchao.quantization.pt2e.quantizer import DerivedQuantizationSpec, QuantizationAnnotation, QuantizationSpec

        def product(observers):
            (x, _), (weight, _) = (observer.calculate_qparams() for observer in observers)
            return (x * weight).float(), torch.zeros(1, dtype=torch.int32)

        def annotation_of(node, derive=product):
            x, weight, bias = node.args
            plain = QuantizationSpec(torch.int8, MinMaxObserver, -127, 127, torch.per_tensor_symmetric)
            derived = DerivedQuantizationSpec([(x, node), (weight, node)], derive, torch.int32, -(2**31), 2**31 - 1, torch.per_tensor_symmetric)
            return QuantizationAnnotation({x: plain, weight: plain, bias: derived}, _annotated=True)

        theirs, ours = self.theirs_and_ours(annotation_of)
        scales = [
            sorted(n["args"]["scale"] for n in octet.inspect(q).data["nodes"] if ".dequantize_per_tensor" in n["target"]) for q in (theirs, ours)
        ]
        self.assertEqual(scales[0], scales[1])
        self.assertEqual(len(scales[0]), 3)

        class Bad(octet.Quantizer):
            def __init__(self, given):
                self.given = given

            def annotate(self, graph, annotations, report):
                linear = graph.find_node("linear")
                x, weight, bias = (linear.input(name) for name in ("input", "weight", "bias"))
                derived = octet.DerivedQuantizationSpec([(x, linear), (weight, linear)], lambda observers: self.given)
                annotations.annotate(linear, inputs={x: INT8, weight: WEIGHT, bias: derived})

        program, batches, _ = self.small_program()
        for given, pattern in (
            (7, r"convert: .*returned 7, want \(scales, zero points\)"),
            (([0.5], [0.5]), "zero points whole"),
            (([0.5], [float("inf")]), "zero points whole"),
            (([0.5], [2.0**70]), "zero points whole"),
            (([float("nan")], [0]), r'convert: %.* -> %linear \(observer group \d\): the derive function "<lambda>" returned the scale nan at index 0, want'),
            (([0.5], [2**31]), "returned the zero point 2147483648 at index 0, want one within"),
            (([0.5, 0.5], [0, 0]), "returned 2 scales for a per-tensor spec, want 1"),
        ):
            with self.assertRaisesRegex(octet.Error, pattern):
                octet.quantize(program, Bad(given), calibration=batches)

    def test_an_observer_of_their_own(self):
        from torchao.quantization.pt2e import MinMaxObserver
        from torchao.quantization.pt2e.quantizer import QuantizationAnnotation, QuantizationSpec

        class Half(MinMaxObserver):
            def calculate_qparams(self):
                scale, zero_point = super().calculate_qparams()
                return scale / 2, zero_point

        def annotation_of(node):
            x, weight, _ = node.args
            half = QuantizationSpec(torch.int8, Half.with_args(eps=2**-12), -128, 127, torch.per_tensor_affine)
            plain = QuantizationSpec(torch.int8, MinMaxObserver, -127, 127, torch.per_tensor_symmetric)
            return QuantizationAnnotation({x: half, weight: plain}, _annotated=True)

        theirs, ours = self.theirs_and_ours(annotation_of)
        self.assertEqual(self.scales(ours), self.scales(theirs))
        self.assertEqual(len(self.scales(ours)), 1)


class Observers(PackageTest):
    def quantize_with(self, observer):
        def annotate(graph, annotations, linear):
            annotations.annotate(linear, inputs={linear.input("input"): octet.QuantizationSpec("uint8", observer, 0, 255, "per_tensor_affine")})

        program, batches, _ = self.small_program()
        return octet.quantize(program, Raises(annotate), calibration=batches)

    def test_a_class(self):
        class Counts:
            seen = 0

            def __call__(self, x):
                Counts.seen += 1
                assert isinstance(x, torch.Tensor) and x.shape[-1] == 16

            def calculate_qparams(self):
                return torch.tensor([0.25]), torch.tensor([3])

        nodes = octet.inspect(self.quantize_with(Counts)).data["nodes"]
        given = [(n["args"]["scale"], n["args"]["zero_point"]) for n in nodes if ".quantize_per_tensor" in n["target"]]
        self.assertEqual(given, [(0.25, 3)])
        self.assertGreater(Counts.seen, 0)

    def test_mistakes(self):
        class Blind:
            def __call__(self, x):
                pass

        class Raising(Blind):
            def __call__(self, x):
                raise LookupError("no such thing")

        class Wrong(Blind):
            def calculate_qparams(self):
                return "a scale"

        class Negative(Blind):
            def calculate_qparams(self):
                return torch.tensor([-0.5]), torch.tensor([0])

        for observer, error, pattern in (
            (Blind, octet.Error, "convert: .*Blind 1 raised AttributeError: .*calculate_qparams"),
            (Raising, octet.Error, "calibrate: batch 0 .*Raising 1 raised LookupError: no such thing$"),
            (Wrong, octet.Error, "convert: .*returned 'a scale', want"),
            (Negative, octet.Error, r"convert: %.* -> %linear \(observer group 0\): the observer .*Negative 1.* returned the scale -0.5 at index 0, want"),
            (3, octet.Error, "QuantizationSpec.observer: got 3"),
        ):
            with self.assertRaisesRegex(error, pattern):
                self.quantize_with(observer)


if __name__ == "__main__":
    unittest.main()
