"""octet.export_onnx: the same file as the command's."""

import os
import unittest

import octet
import torch
from package_test import PackageTest, SmallNet


class Export(PackageTest):
    def test_the_command_writes_the_same(self):
        torch.manual_seed(0)
        x = torch.randn(1, 3, 32, 32)
        program = torch.export.export(SmallNet().requires_grad_(False).eval(), (x,))
        q = octet.quantize(program, "xnnpack", calibration=[(x,)])
        q.save(self.path("q.pt2"))
        for options, settings in (
            ((), {}),
            (("--opset", "21", "--integer-biases"), {"opset": 21, "integer_biases": True}),
        ):
            with self.subTest(options):
                self.assertEqual(octet.export_onnx(q, self.path("q.onnx"), **settings), settings.get("opset", 17))
                os.makedirs(self.path("command"), exist_ok=True)
                self.octet("export", self.path("q.pt2"), "--onnx", self.path("command/q.onnx"), *options)
                self.assertEqual(self.bytes_of("q.onnx"), self.bytes_of("command/q.onnx"))
        octet.export_onnx(program, self.path("float.onnx"), external_data=True)
        self.assertTrue(os.path.exists(self.path("float.onnx.data")))

    def test_errors(self):
        program = torch.export.export(torch.nn.Linear(4, 4), (torch.randn(2, 4),))
        for path, opset, wanted in (
            ("q.onnx", 16, "want 17 to 23"),
            ("absent/q.onnx", None, "absent/q.onnx"),
        ):
            with self.assertRaisesRegex(octet.Error, wanted):
                octet.export_onnx(program, self.path(path), opset=opset)
        self.assertEqual([name for name in os.listdir(self.folder) if "onnx" in name], [])


if __name__ == "__main__":
    unittest.main()
