"""Quantizers that annotate ops with several results: Octet's and torchao's, beside torchao's flow."""

import importlib.util
import unittest

import octet
import torch
from package_test import PackageTest, sqnr

INT8 = octet.QuantizationSpec("int8", observer="histogram", qscheme="per_tensor_affine")


class Branches(torch.nn.Module):
    """A unit of ShuffleNetV2, two results of a topk, and a number that is added."""

    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.branch = torch.nn.Sequential(torch.nn.Conv2d(4, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU())
        self.head = torch.nn.Linear(8 * 6, 5)

    def forward(self, x):
        left, right = torch.relu(self.stem(x)).chunk(2, 1)
        y = torch.cat([left, self.branch(right)], 1).mean(3)
        best, _ = y.topk(6, 2)
        return self.head(torch.flatten(best + 1.0, 1))


class SeveralResults(PackageTest):
    def program(self):
        torch.manual_seed(7)
        x = torch.randn(2, 3, 8, 8)
        return torch.export.export(Branches().eval(), (x,)), [(torch.randn(2, 3, 8, 8),) for _ in range(3)], x

    def ops(self, program):
        """The q/dq ops and their scales."""
        nodes = octet.inspect(program).data["nodes"]
        return sorted((n["target"], n["args"]["scale"]) for n in nodes if "quantize_per_tensor" in n["target"])

    def compared(self, make):
        """Both quantize with make(); checks that they give the same, and returns Octet's."""
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

        program, batches, x = self.program()
        prepared = prepare_pt2e(program.module(), make())
        for batch in batches:
            prepared(*batch)
        theirs = torch.export.export(convert_pt2e(prepared), (x,))
        ours = octet.quantize(program, make(), calibration=batches, compat="torchao")
        self.assertEqual(self.ops(ours), self.ops(theirs))
        self.assertGreater(sqnr(theirs.module()(x), ours.module()(x)), 60)
        return ours

    def quantizer(self, act, **methods):
        """A torchao Quantizer whose annotate() calls act(node) for each node of a call."""
        from torchao.quantization.pt2e.quantizer import Quantizer

        def annotate(self, model):
            for node in model.graph.nodes:
                if node.op == "call_function":
                    act(node)
            return model

        return type("Theirs", (Quantizer,), {"annotate": annotate, "validate": lambda self, model: None, **methods})

    @unittest.skipUnless(importlib.util.find_spec("executorch"), "executorch is for one version of torch alone")
    def test_a_cat_reads_a_result_of_chunk(self):
        from executorch.backends.xnnpack.quantizer import xnnpack_quantizer as xnnpack

        config = xnnpack.get_symmetric_quantization_config(is_per_channel=True)
        ours = self.compared(lambda: xnnpack.XNNPACKQuantizer().set_global(config))
        self.assertGreater(len(self.ops(ours)), 10)

    def annotations(self):
        from torchao.quantization.pt2e import MinMaxObserver
        from torchao.quantization.pt2e.quantizer import QuantizationAnnotation, QuantizationSpec, SharedQuantizationSpec

        spec = QuantizationSpec(torch.int8, MinMaxObserver, -128, 127, torch.per_tensor_affine)
        return QuantizationAnnotation, spec, SharedQuantizationSpec

    def test_annotations_of_results(self):
        annotation, spec, shared = self.annotations()

        def act(node):
            name = str(node.target)
            if name == "aten.chunk.default":
                node.meta["quantization_annotation"] = annotation({node.args[0]: spec}, shared((node.args[0], node)), _annotated=True)
            elif name == "aten.topk.default":
                node.meta["quantization_annotation"] = annotation({node.args[0]: spec}, spec, _annotated=True)
            elif "getitem" in name and "chunk" in str(node.args[0].target):
                # the first has its own scale, the second that of the chunk
                node.meta["quantization_annotation"] = annotation({}, shared(node.args[0]) if node.args[1] else spec, _annotated=True)
            elif "getitem" in name and node.args[1] == 0:
                node.meta["quantization_annotation"] = annotation({}, shared(node.args[0]), _annotated=True)

        ours = self.compared(self.quantizer(act))
        self.assertEqual(len(self.ops(ours)), 10)

    def test_annotations_that_have_no_place(self):
        annotation, spec, shared = self.annotations()
        program, batches, _ = self.program()

        def refused(act, pattern, **methods):
            with self.assertRaisesRegex(octet.Error, pattern):
                octet.quantize(program, self.quantizer(act, **methods)(), calibration=batches)

        def on(name, make):
            def act(node):
                if node.name == name:
                    node.meta["quantization_annotation"] = make(node)

            return act

        refused(on("getitem_1", lambda n: annotation({}, shared(n.args[0]))), "annotate: %getitem_1: shares the observer of %chunk, which has none")

    def test_an_annotation_of_an_input_of_the_program(self):
        annotation, spec, _ = self.annotations()

        def annotate(self, model):
            next(n for n in model.graph.nodes if n.op == "placeholder").meta["quantization_annotation"] = annotation({}, spec, _annotated=True)

        self.assertEqual(len(self.ops(self.compared(self.quantizer(None, annotate=annotate)))), 2)

    def test_nodes_that_transform_for_annotation_inserts(self):
        annotation, spec, _ = self.annotations()

        def transform(self, model):
            for node in list(model.graph.nodes):
                if str(node.target) == "aten.linear.default":
                    with model.graph.inserting_before(node):
                        neg = model.graph.call_function(torch.ops.aten.neg.default, (node.args[0],))
                        twice = model.graph.call_function(torch.ops.aten.neg.default, (neg,))
                        neg.meta["val"] = twice.meta["val"] = node.args[0].meta["val"]  # torchao skips outputs without it
                    node.replace_input_with(node.args[0], twice)
            model.recompile()
            return model

        def act(node):
            if str(node.target) in ("aten.linear.default", "aten.neg.default"):
                node.meta["quantization_annotation"] = annotation({n: spec for n in node.args[:2]}, spec, _annotated=True)

        ours = self.compared(self.quantizer(act, transform_for_annotation=transform))
        targets = [node["target"] for node in octet.inspect(ours).data["nodes"]]
        self.assertEqual(targets.count("aten.neg.default"), 2)
        self.assertIn("head", {op["module"] for op in ours.report.data["quantized_ops"]})

    def test_the_observer_callback(self):
        from torchao.quantization.pt2e import MinMaxObserver

        annotation, spec, _ = self.annotations()

        def act(node):
            if str(node.target) in ("aten.linear.default", "aten.conv2d.default"):
                node.meta["quantization_annotation"] = annotation({n: spec for n in node.args[:2]}, spec, _annotated=True)

        def callback(self, model, observers):
            linear = next(n for n in model.graph.nodes if str(n.target) == "aten.linear.default")
            convs = [n for n in model.graph.nodes if str(n.target) == "aten.conv2d.default"]
            observers[linear] = MinMaxObserver(dtype=torch.uint8, quant_min=0, quant_max=200, qscheme=torch.per_tensor_affine)
            observers[convs[0]] = observers[convs[1]]
            observers[linear.args[0], linear].eps = torch.tensor([0.5])
            del observers[convs[0].args[1], convs[0]]

        ours = self.compared(self.quantizer(act, prepare_obs_or_fq_callback=callback))
        scales = [scale for target, scale in self.ops(ours) if ".quantize_" in target]
        self.assertIn(0.5, scales)
        self.assertEqual(len(set(scales)), 5)

    def test_a_spec_for_each_result(self):
        program, batches, _ = self.program()

        def annotate(self, graph, annotations, report):
            chunk = graph.find_node("chunk")
            fixed = octet.FixedQParamsQuantizationSpec("uint8", 1 / 16, 3)
            annotations.annotate(chunk, inputs={chunk.inputs[0]: INT8}, output={chunk.outputs[1]: fixed})

        make = type("One", (octet.Quantizer,), {"annotate": annotate})
        scales = [scale for target, scale in self.ops(octet.quantize(program, make(), calibration=batches)) if ".quantize_" in target]
        self.assertEqual(len(scales), 2)
        self.assertIn(1 / 16, scales)

        def wrong(self, graph, annotations, report):
            chunk = graph.find_node("chunk")
            annotations.annotate(chunk, output={chunk.inputs[0]: INT8})

        with self.assertRaisesRegex(octet.Error, "annotate: %chunk: does not define %relu; want one of its results"):
            octet.quantize(program, type("Wrong", (octet.Quantizer,), {"annotate": wrong})(), calibration=batches)


if __name__ == "__main__":
    unittest.main()
