"""Misuse of octet.Quantizer: one line each, and no crash, while the graph is there and after it has gone."""

import unittest

import octet
import torch
from package_test import PackageTest

SPEC = octet.QuantizationSpec
INT8 = SPEC("int8", "min_max", qscheme="per_tensor_affine")


class Acts(octet.Quantizer):
    """Calls one function: name of a method -> function with its arguments."""

    def __init__(self, **acts):
        self.acts = acts

    def transform_for_annotation(self, graph):
        self.acts.get("transform", lambda graph: None)(graph)

    def annotate(self, graph, annotations, report):
        linear = graph.find_node("linear")
        self.acts.get("annotate", lambda *_: annotations.annotate(linear, output=INT8))(graph, annotations, report)

    def validate(self, graph, annotations):
        self.acts.get("validate", lambda *_: None)(graph, annotations)

    def prepare_obs_or_fq_callback(self, graph, observers):
        self.acts.get("callback", lambda *_: None)(graph, observers)


def output(spec):
    return lambda graph, annotations, report: annotations.annotate(graph.find_node("linear"), output=spec)


def derived(*places, **options):
    return octet.DerivedQuantizationSpec(list(places), **options)


def group(size):
    return SPEC("int8", {"name": "affine_min_max", "granularity": "per_group", "group_size": size})


ANNOTATE = [
    ("a dict for a spec", output({1: 2}), "got a spec for 1, want one for an octet.Value"),
    ("a spec of torch", output(torch.int8), "^annotate: a spec: got torch.int8"),
    ("dtype", output(SPEC("int9")), 'got "int9"'),
    ("dtype None", output(SPEC(None)), 'got "None"'),
    ("qscheme", output(SPEC(qscheme="per_moon")), 'got "per_moon"'),
    ("observer", output(SPEC(observer="eyes")), "eyes"),
    ("observer of a number", output(SPEC(observer=3)), "observer"),
    ("observer of a dict", output(SPEC(observer={"name": "min_max", "bins": -1})), "bins"),
    ("observer without a name", output(SPEC(observer={})), "name"),
    ("eps", output(SPEC(eps=-1.0)), r"^annotate: %linear: eps, the least scale of an observer, is -1, want"),
    ("eps of text", output(SPEC(eps="little")), "QuantizationSpec.eps: got 'little'"),
    ("average", output(SPEC(observer="moving_average_min_max", averaging_constant=7.0)), "^annotate: %linear: averaging_constant"),
    ("bins", output(SPEC(observer="histogram", bins=1)), "bins is 1"),
    ("percentile", output(SPEC(observer="percentile", percentile=200.0)), "percentile is 200"),
    ("one end", output(SPEC(quant_min=3)), "one end of its quant range"),
    ("a wide range", output(SPEC(quant_min=-500, quant_max=500)), "leaves int8"),
    ("no axis", output(SPEC(observer="per_channel_min_max", qscheme="per_channel_symmetric")), "ch_axis"),
    ("groups", output(group(0)), "group_size"),
    ("fixed", output(octet.FixedQParamsQuantizationSpec("int8", 0.0, 0)), "^annotate: %linear: .*scale"),
    ("fixed text", output(octet.FixedQParamsQuantizationSpec("int8", "one", 0)), "scale: got 'one'"),
    ("shared with nothing", output(octet.SharedQuantizationSpec(None)), "got None, want a value"),
    ("shared with text", output(octet.SharedQuantizationSpec("x")), "got 'x', want a value"),
    ("shared with a number", output(octet.SharedQuantizationSpec(3)), "got 3, want a value"),
    ("derived from nothing", output(derived()), "derive"),
    ("derived from text", output(derived("x")), "got 'x', want a value"),
    ("derived by nothing", output(derived("x", derive=None)), "want a value"),
    ("inputs", lambda g, a, r: a.annotate(g.find_node("linear"), inputs=[1]), r"^annotate: inputs: got \[1\], want a dict"),
    ("inputs by name", lambda g, a, r: a.annotate(g.find_node("linear"), inputs={"x": INT8}), "got a spec for 'x'"),
    ("a value for a node", lambda g, a, r: a.annotate(g.find_node("linear").output), "annotate: node: got octet.Value, want Node"),
    ("None for a node", lambda g, a, r: a.annotate(g.find_node("nowhere")), "annotate: node: got NoneType, want Node"),
    ("an input of another", lambda g, a, r: a.annotate(g.find_node("linear"), inputs={g.find_node("add").output: INT8}), "does not read %add"),
    ("a pattern", lambda g, a, r: g.match("linear(x, w"), "^pattern: "),
    ("an empty pattern", lambda g, a, r: g.match(""), "^pattern: "),
    ("an edit", lambda g, a, r: g.erase(g.find_node("linear")), r"^annotate: the graph: is edited in annotate\(\); edit it in transform_for_annotation\(\)$"),
    ("a new node", lambda g, a, r: g.insert("aten.relu.default", {}), r"is edited in annotate\(\)"),
    ("a new constant", lambda g, a, r: g.add_constant("x", torch.ones(1)), r"is edited in annotate\(\)"),
    ("ops of text", lambda g, a, r: a.propagate_sharing("relu", 3), r"propagate_sharing: ops: got str, want list\[str\]; accepts: got int"),
    ("a reason of a number", lambda g, a, r: r.float_op(g.find_node("linear"), 3), "float_op: reason: got int, want str"),
]


def insert(**arguments):
    return lambda graph: graph.insert("aten.relu.default", arguments)


TRANSFORM = [
    ("an unknown op", lambda g: g.insert("my_ns.none.default", {}), "the dtype and shape of its result are not known"),
    ("no arguments", insert(), "the dtype and shape of its result are not known"),
    ("an object", insert(self=object()), 'argument "self": got <object'),
    ("a mixed list", insert(self=[1, "x"]), r'argument "self": got \[1, \'x\'\]'),
    ("an argument too many", lambda g: g.insert("aten.relu.default", {"self": g.find_node("linear").output, "mood": 1}), 'no argument "mood"'),
    ("a wrong shape", lambda g: g.replace_uses(g.find_node("linear").output, g.insert("aten.relu.default", {"self": g.find_node("add").output}, like=g.find_node("linear").output).output), r"says that %relu.* is f32\[1, 10\], but aten.relu.default gives f32\[1, 16, 16, 16\]"),
    ("too early", lambda g: g.insert("aten.relu.default", {"self": g.find_node("linear").output}, before=g.find_node("add")), "before its definition"),
    ("erased in use", lambda g: g.erase(g.find_node("linear")), "%linear: is erased while %linear is used; call replace_uses"),
    ("a constant of a list", lambda g: g.add_constant("c", [1.0]), "want a torch.Tensor on the CPU"),
    ("a constant elsewhere", lambda g: g.add_constant("c", torch.ones(1, device="meta")), "want a torch.Tensor on the CPU"),
]


class Misuse(PackageTest):
    def setUp(self):
        super().setUp()
        self.program, self.batches, _ = self.small_program()

    def fails(self, quantizer, pattern):
        with self.assertRaisesRegex((octet.Error, TypeError, ValueError), pattern) as raised:
            octet.quantize(self.program, quantizer, calibration=self.batches)
        if isinstance(raised.exception, octet.Error):
            self.assertNotIn("\n", str(raised.exception))

    def test_while_it_annotates(self):
        for what, act, pattern in ANNOTATE:
            with self.subTest(what):
                self.fails(Acts(annotate=act), pattern)

    def test_while_it_transforms(self):
        for what, act, pattern in TRANSFORM:
            with self.subTest(what):
                self.fails(Acts(transform=act), pattern)

    def test_an_erased_node(self):
        kept = []

        def transform(graph):
            linear = graph.find_node("linear")
            again = graph.insert("aten.relu.default", {"self": linear.output})
            kept.append((again, again.output))
            graph.erase(again)
            again.name

        self.fails(Acts(transform=transform), "^annotate: %relu_1: is not in the graph any more; it was erased or renamed$")

    def test_annotations_are_final_in_validate(self):
        self.fails(Acts(validate=lambda g, a: a.annotate(g.find_node("linear"))), r"the annotations: are changed in validate\(\); annotate in annotate\(\)$")
        self.fails(Acts(validate=lambda g, a: g.erase(g.find_node("linear"))), r"is edited in validate\(\)")
        self.fails(Acts(callback=lambda g, o: g.add_constant("c", torch.ones(1))), r"is edited in prepare_obs_or_fq_callback\(\)")
        self.fails(Acts(callback=lambda g, o: o.update(x=octet.Observer(INT8))), "sets an observer in a place without a spec")
        self.fails(Acts(callback=lambda g, o: o.update(dict.fromkeys(o, 3))), "got 3, want one of octet's four specs")

    def test_after_the_call(self):
        kept = {}

        def annotate(graph, annotations, report):
            linear = graph.find_node("linear")
            annotations.annotate(linear, output=INT8)
            match = graph.match("linear(x, w, b?)")[0]
            kept.update(graph=graph, annotations=annotations, report=report, node=linear, value=linear.output, match=match)
            kept["spec"] = octet.SharedQuantizationSpec((linear.input("input"), linear))

        octet.quantize(self.program, Acts(annotate=annotate, callback=lambda graph, observers: kept.update(observers=observers)), calibration=self.batches)
        node, annotations, graph, value = (kept[name] for name in ("node", "annotations", "graph", "value"))
        late = [
            lambda: graph.nodes, lambda: graph.find_node("linear"), lambda: graph.match("relu(x)"), lambda: graph.source_partitions(["x"]),
            lambda: graph.erase(node), lambda: node.inputs, lambda: node.metadata, lambda: node.module_stack, lambda: node.argument("x"),
            lambda: repr(node), lambda: value.users, lambda: value.tensor, lambda: value.shape, lambda: repr(value),
            lambda: annotations.annotate(node), lambda: annotations.find(node), lambda: annotations.is_annotated(node),
            lambda: annotations.propagate_sharing(["relu"]), lambda: kept["report"].note("x"), lambda: kept["report"].float_op(node, "x"),
            lambda: kept["match"].root.name, lambda: kept["match"].values["x"].name,
        ]  # fmt: skip
        for call in late:
            with self.assertRaisesRegex(octet.Error, r"(is looked at after|is edited in) annotate\(\)"):
                call()
        self.assertEqual(len({node, node, value}), 2)
        self.assertIn(value, kept["observers"])
        self.assertEqual([seen.name for seen in kept["observers"].values()], ["min_max"])

        def other(graph, annotations, report):
            annotations.annotate(graph.find_node("linear"), output=kept["spec"])

        self.fails(Acts(annotate=other), r"is looked at after annotate\(\)")
        self.fails(Acts(annotate=lambda g, a, r: a.annotate(node)), r"is looked at after annotate\(\)")
        self.fails(Acts(annotate=lambda g, a, r: annotations.annotate(g.find_node("linear"))), r"is looked at after annotate\(\)")

    def test_wrong_parts(self):
        for parts, pattern in ((7, "not iterable"), (["cell"], "want a list of octet.OpaquePart"), ([octet.OpaquePart(op=3)], "has a field of another type")):
            quantizer = Acts()
            quantizer.opaque_parts = parts
            self.fails(quantizer, pattern)


if __name__ == "__main__":
    unittest.main()
