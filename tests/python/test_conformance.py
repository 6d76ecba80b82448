"""octet.conformance beside the command."""

import json
import pathlib
import unittest

import octet
import torch
from package_test import PackageTest

ACT = octet.QuantizationSpec("int8", qscheme="per_tensor_affine")
WEIGHT = octet.QuantizationSpec("int8", "per_channel_min_max", -127, 127, "per_channel_symmetric", 0)


class Linears(octet.Quantizer):
    def annotate(self, graph, annotations, report):
        for node in self.chosen(graph):
            x, weight = node.inputs[:2]
            annotations.annotate(node, inputs={x: ACT, weight: WEIGHT}, output=ACT)

    def chosen(self, graph):
        return [node for node in graph.nodes if node.target == "aten.linear.default"]


class FirstLinear(Linears):
    """Depends on names."""

    def chosen(self, graph):
        return [node for node in super().chosen(graph) if "linear" in node.name]


class Divides(Linears):
    def chosen(self, graph):
        return 1 // 0


class Conformance(PackageTest):
    def test_it_reports_what_the_command_does(self):
        cells = {"filter": "^(conv/odd|add/one)/", "seed": 2}
        report = octet.conformance("xnnpack", **cells)
        text, _ = self.octet("conformance", "--backend", "xnnpack", "--filter", cells["filter"],
                             "--seed", "2", "--json", self.path("r.json"))
        self.assertTrue(report.passed)
        self.assertEqual(str(report), text)
        expected = json.loads(pathlib.Path(self.path("r.json")).read_text())
        for cell in (*expected["cells"], *report.data["cells"]):
            del cell["seconds"]
        self.assertEqual(report.data, expected)

    def test_failed_cells_are_data(self):
        report = octet.conformance("xnnpack", filter="^conv/odd/f32$", device_cmd="false")
        self.assertFalse(report.passed)
        self.assertIn("the device command ended with status", report.data["cells"][0]["detail"])

    def test_a_quantizer_written_in_python(self):
        threads = torch.get_num_threads()
        report = octet.conformance("xnnpack", quantizer=Linears(), filter="^linear/")
        self.assertTrue(report.passed, str(report))
        self.assertGreater(report.data["passed"], 40)
        self.assertEqual(torch.get_num_threads(), threads)

    def test_a_wrong_one(self):
        report = octet.conformance("xnnpack", quantizer=FirstLinear(), filter="^network/mlp$")
        self.assertIn("wrong: renamed: ", str(report))
        self.assertIn("octet.conformance('xnnpack', quantizer=FirstLinear(), seed=1, "
                      "filter=r'^network/mlp$')", str(report))

    def test_an_exception_passes(self):
        with self.assertRaises(ZeroDivisionError):
            octet.conformance(quantizer=Divides(), filter="^linear/")

    def test_two_forms(self):
        both = {"filter": "^linear/2d", "quick": True}
        dictionary = {"base": "xnnpack", "global": {"is_per_channel": True}}
        self.assertTrue(octet.conformance(quantizer=dictionary, same_as="xnnpack", **both).passed)
        report = octet.conformance(quantizer=Linears(), same_as=dictionary, **both)
        self.assertIn("wrong: same: ", str(report))

    def test_models_and_several_backends(self):
        torch.manual_seed(0)
        net, x = torch.nn.Sequential(torch.nn.Linear(8, 4)), torch.randn(2, 8)
        torch.export.save(torch.export.export(net.eval(), (x,)), self.path("net.pt2"))
        cells = {"models": self.folder, "filter": "^file/"}
        report = octet.conformance(["xnnpack", "onednn"], **cells)
        self.assertEqual(report.data["backend"], "xnnpack,onednn")
        self.assertEqual([cell["cell"] for cell in report.data["cells"]], ["file/net"])
        self.assertTrue(report.passed, str(report))
        for quantizer in ("xnnpack", Linears()):
            report = octet.conformance(["xnnpack", "onednn"], quantizer=quantizer, **cells)
            self.assertEqual(report.data["passed"], 1, str(report))
        pathlib.Path(self.path("net.pt2")).write_bytes(b"PK")
        report = octet.conformance("xnnpack", quantizer=Linears(), **cells)
        self.assertIn(f"filter=r'^file/net$', models='{self.folder}')", str(report))

    def test_bad_arguments(self):
        for arguments, message in (({"backend": "acme"}, "backend: acme: "),
                                   ({"backend": "xnnpack", "filter": "("}, "regular expression"),
                                   ({"backend": "xnnpack", "libraries": ["absent.so"]}, "absent.so")):
            with self.assertRaisesRegex(octet.Error, message):
                octet.conformance(**arguments)


if __name__ == "__main__":
    unittest.main()
