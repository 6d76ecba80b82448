"""Watching a program while passes change it."""
import os
import re
import subprocess
import unittest

from support import OCTET, CommandTest


class Passes(CommandTest):
    def traced(self, *arguments, **environment):
        """What was printed after passes: (stage, pass) -> text."""
        result = subprocess.run([OCTET, *arguments], capture_output=True, text=True, env={**os.environ, **environment})
        self.assertEqual(result.returncode, 0, result.stderr)
        pieces = re.split(r"^(prepare|convert|lower): ([a-z_]+)$", result.stderr, flags=re.MULTILINE)
        return [((stage, name), text) for stage, name, text in zip(pieces[1::3], pieces[2::3], pieces[3::3])], result.stderr

    def test_passes_can_be_watched(self):
        self.small_model()
        quantize = ("quantize", self.path("model.pt2"), "--quantizer", "xnnpack", "--calibration", self.path("calibration.pt"), "--output", self.path("q.pt2"))
        lower = ("lower", self.path("q.pt2"), "--backend", "onednn", "--output", self.path("m.octet"))
        pieces, _ = self.traced(*quantize, "--print-after", "fold_conv_bn,insert_qdq")
        self.assertEqual([key for key, _ in pieces], [("prepare", "fold_conv_bn"), ("convert", "insert_qdq")])
        self.assertNotIn("batch_norm", pieces[0][1])
        self.assertNotIn("octet.observe", pieces[0][1])
        self.assertIn("quantized_decomposed.quantize_per_tensor.default", pieces[1][1])
        pieces, _ = self.traced(*quantize, OCTET_DEBUG="passes")
        names = [name for (_, name), _ in pieces]
        self.assertEqual(names, sorted(names, key=["set_origins", "move_constants_into_bodies", "fold_conv_bn", "transform_for_annotation", "annotate", "insert_observers",
                                                   "leave_unseen_bodies_float", "convert_opaque_parts", "use_trained_qparams", "fold_conv_bn_qat",
                                                   "leave_vanishing_operands_float", "fit_weights_to_biases", "report_scale_floors", "check_scale_limits", "convert_bodies", "insert_qdq", "duplicate_dequantize", "port_metadata", "fold_quantize",
                                                   "fold_float16", "move_constants_out_of_bodies"].index))
        texts = dict(pieces)
        self.assertIn("octet.observe.default", texts["convert", "leave_unseen_bodies_float"])
        self.assertEqual(texts["convert", "check_scale_limits"].strip(), "(unchanged)")
        self.assertIn("octet.observe.default", dict(pieces)["prepare", "insert_observers"])
        pieces, _ = self.traced(*lower, OCTET_DEBUG="passes")
        self.assertEqual([key for key, _ in pieces], [("lower", name) for name in ("inline_bodies", "fold_conv_bn", "fold_input_free", "decompose", "split_complex", "import", "fuse", "quantize_states", "attention", "count_macs", "split_refused", "partition", "order_filters")])
        self.assertIn("quantize", dict(pieces)["lower", "import"])
        self.assertGreater(dict(pieces)["lower", "import"].count("dequantize"), dict(pieces)["lower", "fuse"].count("dequantize"))
        pieces, errors = self.traced(*lower, "--print-after", "fusion")
        self.assertEqual(pieces, [])
        self.assertIn("warning: --print-after fusion: no such pass ran, these did: inline_bodies, fold_conv_bn, fold_input_free, decompose, split_complex, import, fuse, ", errors)


if __name__ == "__main__":
    unittest.main()
