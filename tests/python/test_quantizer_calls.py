"""octet.Quantizer: all of its methods, and what it can ask of the program."""

import octet
import torch
from package_test import PackageTest

INT8 = octet.QuantizationSpec("int8", "histogram", qscheme="per_tensor_affine")
WEIGHT = octet.QuantizationSpec("int8", "per_channel_min_max", -127, 127, "per_channel_symmetric", 0)


class Linears(octet.Quantizer):
    def annotate(self, graph, annotations, report):
        for match in graph.match("linear(x, w, b?)"):
            if not annotations.is_annotated(match.root):
                inputs = {match.values["x"]: INT8, match.values["w"]: WEIGHT}
                annotations.annotate(match.root, inputs=inputs, output=INT8, rule="linear")


class Calls(PackageTest):
    def quantized(self, quantizer, **options):
        program, batches, x = self.small_program()
        return octet.quantize(program, quantizer, calibration=batches, **options), program, x

    def nodes(self, quantized):
        return octet.inspect(quantized).data["nodes"]

    def test_what_it_asks_of_the_program(self):
        seen = {}

        class Asks(Linears):
            def annotate(self, graph, annotations, report):
                conv, linear = graph.find_node("conv2d"), graph.find_node("linear")
                seen["module"] = conv.module, conv.module_type, [path for path, _ in conv.module_stack]
                seen["trace"] = conv.metadata["stack_trace"]
                seen["bias"] = linear.input("bias").tensor, linear.output.tensor
                forms = graph.match("{relu|hardtanh|relu6}?(conv2d(x, w, b?))")
                seen["forms"] = [[node.name for node in match.nodes] for match in forms]
                seen["values"] = {name: value.name for name, value in forms[0].values.items()}, forms[0].consumers["x"].name
                seen["list"] = graph.match("add[x, y]")[0].values.keys()
                parts = graph.source_partitions(["torch.nn.modules.conv.Conv2d"])
                seen["parts"] = [([node.name for node in part.nodes], len(part.output_nodes)) for part in parts]
                super().annotate(graph, annotations, report)

        _, program, _ = self.quantized(Asks())
        self.assertEqual(seen["module"], ("stem.0", "torch.nn.modules.conv.Conv2d", ["", "stem", "stem.0"]))
        self.assertIn("in forward", seen["trace"])
        torch.testing.assert_close(seen["bias"][0], program.state_dict["head.bias"].detach())
        self.assertIsNone(seen["bias"][1])
        self.assertEqual(seen["forms"], [["hardtanh", "conv2d"], ["relu", "conv2d_1"], ["conv2d_2"]])
        self.assertEqual(seen["values"][0].keys(), {"x", "w", "b"})
        self.assertEqual(seen["values"][1], "conv2d")
        self.assertEqual(seen["list"], {"x", "y"})
        self.assertEqual(seen["parts"], [(["conv2d"], 1), (["conv2d_1"], 1), (["conv2d_2"], 1)])

    def test_it_transforms(self):
        class Scales(Linears):
            def transform_for_annotation(self, graph):
                linear = graph.find_node("linear")
                factor = graph.add_constant("factor", torch.full((10,), 2.0))
                product = graph.insert("aten.mul.Tensor", {"self": linear.input("input"), "other": 1}, before=linear)
                assert (product.output.shape, product.output.dtype) == ((1, 16), "float32")
                scaled = graph.insert("aten.linear.default", {"input": product.output, "weight": linear.input("weight")}, like=linear.output, name="scaled")
                twice = graph.insert("aten.mul.Tensor", {"self": scaled.output, "other": factor})
                graph.replace_uses(linear.output, twice.output)
                graph.erase(linear)
                self.gone, self.values = linear, twice.output

        quantizer = Scales()
        q, program, x = self.quantized(quantizer)
        weight = program.state_dict["head.weight"]
        float_input = torch.linalg.lstsq(weight, (program.module()(x) - program.state_dict["head.bias"]).T).solution
        torch.testing.assert_close(q.module()(x).T, 2 * weight @ float_input, atol=0.05, rtol=0.05)
        self.assertIn("scaled", [node["name"] for node in self.nodes(q)])
        with self.assertRaisesRegex(octet.Error, r"^annotate: the graph: is looked at after transform_for_annotation\(\) has returned; keep names instead$"):
            quantizer.gone.name

    def test_it_validates(self):
        class Small(Linears):
            def validate(self, graph, annotations):
                self.found = [annotations.find(node) for node in graph.nodes if annotations.is_annotated(node)]
                if len(graph.nodes) > self.most:
                    raise ValueError("too many ops for the NPU")

        quantizer = Small()
        quantizer.most = 100
        self.quantized(quantizer)
        self.assertEqual([annotation.rule for annotation in quantizer.found], ["linear"])
        quantizer.most = 3
        with self.assertRaisesRegex(ValueError, "^too many ops for the NPU$"):
            self.quantized(quantizer)

    def test_it_reads_annotations(self):
        found = {}

        class Reads(octet.Quantizer):
            def annotate(self, graph, annotations, report):
                for name in ("linear", "conv2d_2", "add"):
                    found[name] = annotations.find(graph.find_node(name))
                self.node = graph.find_node("linear")
                found["weight"] = found["linear"].inputs[self.node.input("weight")]

        self.quantized([Linears(), "xnnpack", Reads()])
        self.assertEqual(found["linear"].rule, "Linears: linear")
        self.assertEqual((found["linear"].output, found["weight"]), (INT8, WEIGHT))
        self.assertEqual(len(found["linear"].inputs), 2)
        self.assertEqual(found["conv2d_2"].rule, "xnnpack: conv")
        self.assertEqual(found["conv2d_2"].output.qscheme, "per_tensor_affine")

    def test_specs_survive_a_round_trip(self):
        specs = [
            octet.QuantizationSpec("int16", "percentile", qscheme="per_tensor_symmetric", percentile=99.5, eps=0.25),
            octet.QuantizationSpec("int8", "moving_average_min_max", -8, 7, averaging_constant=0.5, is_dynamic=False),
            octet.QuantizationSpec("int8", {"name": "min_max", "reduce_range": True}, qscheme="per_tensor_affine"),
            octet.QuantizationSpec("int8", {"name": "affine_min_max", "granularity": "per_group", "group_size": 8}, -8, 7),
            octet.FixedQParamsQuantizationSpec("uint8", 0.5, 3, 0, 255),
        ]
        again = []

        class Trip(octet.Quantizer):
            def annotate(self, graph, annotations, report):
                linear = graph.find_node("linear")
                x, weight = linear.input("input"), linear.input("weight")
                derived = octet.DerivedQuantizationSpec([(x, linear), (weight, linear)], lambda sources: sources[0].calculate_qparams())
                for spec in [*specs, derived, octet.SharedQuantizationSpec((x, linear))]:
                    annotations.annotate(linear, output=spec)
                    read = annotations.find(linear).output
                    annotations.annotate(linear, output=read)
                    again.append((spec, read, annotations.find(linear).output))
                annotations.annotate(linear, inputs={x: INT8}, output=INT8)

        self.quantized(Trip())
        for index, (given, read, twice) in enumerate(again):
            self.assertEqual(read, twice)
            if not isinstance(getattr(given, "observer", None), dict):
                self.assertEqual(given, read, index)
        self.assertTrue(again[2][1].observer["reduce_range"])
        self.assertEqual(again[3][1].observer["group_size"], 8)

    def test_it_propagates_sharing(self):
        class Shares(Linears):
            def annotate(self, graph, annotations, report):
                conv = graph.find_node("conv2d")
                annotations.annotate(conv, output=INT8)
                self.counts = (
                    annotations.propagate_sharing(["aten.hardtanh"], lambda node: node.module == "nowhere"),
                    annotations.propagate_sharing(["aten.hardtanh", "relu"], lambda node: node.input("self") == conv.output),
                )
                shared = annotations.find(graph.find_node("hardtanh"))
                self.shared = shared.output.edge_or_node == conv.output, list(shared.inputs) == [conv.output]

        quantizer = Shares()
        q, _, _ = self.quantized(quantizer)
        self.assertEqual((quantizer.counts, quantizer.shared), ((0, 1), (True, True)))
        self.assertEqual(len({n["args"]["scale"] for n in self.nodes(q) if ".quantize_per_tensor" in n["target"]}), 1)

    def test_it_changes_observers(self):
        class Changes(Linears):
            def prepare_obs_or_fq_callback(self, graph, observers):
                linear = graph.find_node("linear")
                edge = (linear.input("input"), linear)
                self.names = {key if isinstance(key, octet._octet.Value) else key[0]: seen.name for key, seen in observers.items()}
                self.same = observers[edge] is observers[edge]
                self.change(observers, linear, edge)

        quantizer = Changes()

        def fixed(observers, linear, edge):
            observers[edge] = octet.FixedQParamsQuantizationSpec("int8", 0.125, 3)
            observers[linear.output] = observers[edge]
            observers[edge] = observers[linear.output] = octet.Observer(observers[edge])
            del observers[(linear.input("weight"), linear)]

        quantizer.change = fixed
        q, _, _ = self.quantized(quantizer)
        self.assertEqual(sorted(quantizer.names.values()), ["histogram", "histogram", "per_channel_min_max"])
        self.assertTrue(quantizer.same)
        quantized = [(n["target"], n["args"]["scale"], n["args"]["zero_point"]) for n in self.nodes(q) if ".quantize_per" in n["target"]]
        self.assertEqual(quantized, [("quantized_decomposed.quantize_per_tensor.default", 0.125, 3)] * 2)

        def elsewhere(observers, linear, edge):
            observers[linear.input("input").producer.output] = observers[edge]

        quantizer.change = elsewhere
        with self.assertRaisesRegex(octet.Error, r"^prepare: prepare_obs_or_fq_callback\(\): sets an observer in a place without a spec"):
            self.quantized(quantizer)
        quantizer.change = lambda observers, linear, edge: observers.update({edge: "min_max"})
        with self.assertRaisesRegex(octet.Error, "^annotate: a spec: got 'min_max', want one of octet's four specs$"):
            self.quantized(quantizer)

    def test_settings_that_split_a_pattern(self):
        """The convolution is on, the ReLU of its parent off: alike for all kinds of quantizers."""
        from torchao.quantization.pt2e import MinMaxObserver
        from torchao.quantization.pt2e.quantizer import QuantizationAnnotation, QuantizationSpec, Quantizer

        class Block(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = torch.nn.Conv2d(3, 4, 3)

            def forward(self, x):
                return torch.relu(self.conv(x))

        class Python(octet.Quantizer):
            def annotate(self, graph, annotations, report):
                for match in graph.match("relu?(conv2d(x, w, b?))", annotations):
                    annotations.annotate(match.nodes[-1], inputs={match.values["x"]: INT8, match.values["w"]: WEIGHT})
                    inputs = {match.values["x"]: INT8, match.values["w"]: WEIGHT} if len(match.nodes) == 1 else None
                    annotations.annotate(match.root, inputs=inputs, output=INT8)

        class Theirs(Quantizer):
            def annotate(self, model):
                for with_relu in (True, False):
                    for node in model.graph.nodes:
                        users = list(node.users)
                        pattern = [node, users[0]] if with_relu and users else [node]
                        if node.target != torch.ops.aten.conv2d.default or any("quantization_annotation" in n.meta for n in pattern):
                            continue
                        act = QuantizationSpec(torch.int8, MinMaxObserver, -128, 127, torch.per_tensor_affine)
                        for n in pattern:
                            n.meta["quantization_annotation"] = QuantizationAnnotation(_annotated=True)
                        node.meta["quantization_annotation"].input_qspec_map = {node.args[0]: act, node.args[1]: act}
                        pattern[-1].meta["quantization_annotation"].output_qspec = act
                return model

            def validate(self, model):
                pass

        spec = {"dtype": "int8", "qscheme": "per_tensor_affine", "observer": "min_max"}
        declared = {"name": "npu", "patterns": [
            {"name": "conv[_relu]", "pattern": "relu?(conv2d(x, w, b?))", "inputs": {"x": spec, "w": spec}, "output": spec}]}
        torch.manual_seed(0)
        batches = [(torch.randn(1, 3, 8, 8),) for _ in range(2)]
        program = torch.export.export(Block().eval(), batches[0])
        config = {"global": None, "module_type": {"torch.nn.Conv2d": {}}}
        for quantizer in ("xnnpack", declared, Python(), Theirs()):
            with self.subTest(quantizer):
                whole = octet.quantize(program, quantizer, calibration=batches)
                split = octet.quantize(program, quantizer, calibration=batches, config=config)
                order = [[n["target"].split(".")[1].split("_per")[0] for n in self.nodes(q)] for q in (whole, split)]
                self.assertEqual(order[0][-4:], ["conv2d", "relu", "quantize", "dequantize"])
                self.assertEqual(order[1][-4:], ["conv2d", "quantize", "dequantize", "relu"])

    def test_fake_quants_of_torchao(self):
        """torchao hands a spec's ch_axis only to classes that have PerChannel in their name, and
        later observers see the values that a fake-quant has quantized."""
        from torchao.quantization.pt2e import FakeQuantize, MovingAverageMinMaxObserver, PerChannelMinMaxObserver
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
        from torchao.quantization.pt2e.quantizer import QuantizationAnnotation, QuantizationSpec, Quantizer

        def spec(dtype, observer, qscheme, **more):
            return QuantizationSpec(dtype, FakeQuantize.with_args(observer=observer), qscheme=qscheme, **more)

        class Theirs(Quantizer):
            def __init__(self, axis):
                super().__init__()
                self.activation = spec(torch.uint8, MovingAverageMinMaxObserver, torch.per_tensor_affine)
                self.weight = spec(torch.int8, PerChannelMinMaxObserver, torch.per_channel_symmetric, ch_axis=axis)

            def annotate(self, model):
                for node in model.graph.nodes:
                    if node.target in (torch.ops.aten.linear.default, torch.ops.aten.conv2d.default):
                        inputs = {node.args[0]: self.activation, node.args[1]: self.weight}
                        node.meta["quantization_annotation"] = QuantizationAnnotation(inputs, self.activation, _annotated=True)
                return model

            def validate(self, model):
                pass

        program, batches, _ = self.small_program()
        prepared = prepare_pt2e(program.module(check_guards=False), Theirs(None))
        for batch in batches:
            prepared(*batch)
        theirs = [n.args[1:3] for n in convert_pt2e(prepared).graph.nodes if "dequantize_per_tensor" in str(n.target)]
        for axis in (None, 1):
            with self.subTest(axis):
                nodes = self.nodes(self.quantized(Theirs(axis))[0])
                axes = {n["args"]["axis"] for n in nodes if ".dequantize_per_channel" in n["target"]}
                self.assertEqual(axes, {0})
                ours = [n["args"] for n in nodes if ".dequantize_per_tensor" in n["target"]]
                self.assertEqual([(a["scale"], a["zero_point"]) for a in ours], theirs)

    def test_an_observer_by_itself(self):
        observer = octet.Observer(octet.QuantizationSpec("int8", "min_max", -127, 127, "per_tensor_symmetric"))
        self.assertEqual((repr(observer), repr(octet.Quantizer())), ("octet.Observer(min_max)", "octet.Quantizer(Quantizer)"))
        observer.observe(torch.tensor([-254.0, 3.0]))
        scale, zero_point = observer.calculate_qparams()
        self.assertEqual((scale.tolist(), zero_point.tolist()), ([2.0], [0]))
        with self.assertRaisesRegex(octet.Error, "want a torch.Tensor on the CPU"):
            observer.observe([1.0])
        with self.assertRaisesRegex(octet.Error, "NaN"):
            observer.observe(torch.tensor([float("nan")]))


if __name__ == "__main__":
    import unittest

    unittest.main()
