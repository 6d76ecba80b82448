"""The quantizer of acme_quantizer.cpp, in Python. It names an observer and a derive function of
libacme_quantizer.so; load that first: octet.load_library("build/libacme_quantizer.so")."""

import octet

ACT = octet.QuantizationSpec("int8", "acme_power_of_two", -127, 127, "per_tensor_symmetric")
WEIGHT = octet.QuantizationSpec("int8", "min_max", -127, 127, "per_tensor_symmetric")
PROBABILITY = octet.FixedQParamsQuantizationSpec("int8", 1 / 128, 0, qscheme="per_tensor_affine")
PRODUCTS = {"aten.conv2d": "conv", "aten.linear": "linear"}


def relu_of(node):
    """The relu that is the only reader of the node's result, or None."""
    users = node.output.users
    if len(users) == 1 and not node.output.is_output:
        if users[0].is_op("aten.relu") or users[0].is_op("aten.relu_"):
            return users[0]
    return None


class AcmeQuantizer(octet.Quantizer):
    scalars_to_constants = False  # x + 1 stays float

    def annotate(self, graph, annotations, report):
        for node in graph.nodes:
            if annotations.is_annotated(node):
                continue
            for op, rule in PRODUCTS.items():
                if node.is_op(op):
                    self.take(annotations, node, self.product_inputs(node), ACT, rule)
            if node.is_op("aten.add") and len(node.inputs) == 2:
                self.take(annotations, node, dict.fromkeys(node.inputs, ACT), ACT, "add")
            for op, rule in (("aten.max_pool2d", "max_pool"), ("aten.flatten", "flatten")):
                if node.is_op(op):
                    x = node.inputs[0]
                    shared = octet.SharedQuantizationSpec((x, node))
                    annotations.annotate(node, inputs={x: ACT}, output=shared, rule=rule)
            for op, output in (("aten.sigmoid", PROBABILITY), ("acme.swish", ACT)):
                if node.is_op(op):
                    rule = op.split(".")[1]
                    annotations.annotate(
                        node, inputs={node.inputs[0]: ACT}, output=output, rule=rule
                    )

    def product_inputs(self, node):
        x, w, bias = (node.input(name) for name in ("input", "weight", "bias"))
        inputs = {x: ACT, w: WEIGHT}
        if bias is not None:
            inputs[bias] = octet.DerivedQuantizationSpec(
                [(x, node), (w, node)], "acme_accumulator", qscheme="per_tensor_symmetric"
            )
        return inputs

    def take(self, annotations, node, inputs, output, rule):
        """Together with the relu after it, between which nothing is rounded."""
        relu = relu_of(node)
        if relu is None or annotations.is_annotated(relu):
            annotations.annotate(node, inputs=inputs, output=output, rule=rule)
        else:
            annotations.annotate(node, inputs=inputs, rule=rule + "_relu")
            annotations.annotate(relu, output=output, rule=rule + "_relu")
