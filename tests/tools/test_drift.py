"""tests/oracle/drift.py lists the cases that another version of torchao changes, and where."""
import json
import pathlib
import shutil
import subprocess
import sys
import unittest

import numpy

from support import CommandTest

DRIFT = pathlib.Path(__file__).resolve().parents[1] / "oracle/drift.py"
TOLERANCE = {"float_out_atol": 1e-6, "quantized_out_max_frac_beyond_float": 0.01}


class Drift(CommandTest):
    def golden(self, name, torchao):
        root = pathlib.Path(self.folder) / name
        for case in ("same", "annotated", "ranges", "fails"):
            (root / case).mkdir(parents=True)
            self.write(root / case / "case.json", {"peer_error": None, "tolerance": TOLERANCE})
            self.write(root / case / "annotated.json", {"nodes": [{"name": "relu", "annotation": {"annotated": True}}]})
            self.write(root / case / "qparams.json", {"groups": [{"scale": [0.5]}]})
            numpy.save(root / case / "quantized_out0.npy", numpy.ones(4, numpy.float32))
        self.write(root / "index.json", {"versions": {"torch": "2.13.0", "torchao": torchao}})
        return root

    def write(self, path, value):
        path.write_text(json.dumps(value))

    def drift(self, *folders, code=0):
        said = subprocess.run([sys.executable, "-B", DRIFT, *folders], capture_output=True, text=True)
        self.assertEqual(said.returncode, code, said.stderr)
        return said.stdout + said.stderr

    def test_it_lists_what_differs(self):
        old, new = self.golden("old", "0.18.0"), self.golden("new", "0.19.0")
        self.assertEqual(self.drift(old, new), "torchao 0.18.0 -> 0.19.0: 0 of 4 cases differ\n")
        self.write(new / "annotated/annotated.json", {"nodes": [{"name": "relu", "annotation": {"annotated": False}}]})
        self.write(new / "ranges/qparams.json", {"groups": [{"scale": [0.25]}]})
        self.write(new / "fails/case.json", {"peer_error": {"stage": "convert", "message": "no scale\nmore"}, "tolerance": TOLERANCE})
        numpy.save(new / "same/quantized_out0.npy", numpy.ones(4, numpy.float32) + numpy.float32(1e-7))
        lines = [line.split(maxsplit=2) for line in self.drift(old, new).splitlines()]
        self.assertEqual(lines[2:], [
            ["annotated", "annotations", "nodes/relu/annotation/annotated: got false, before true"],
            ["fails", "errors", "fails in convert: no scale"],
            ["ranges", "ranges", "groups/0/scale/0: got 0.25, before 0.5"],
        ])
        shutil.rmtree(new)
        self.assertIn("has no index.json", self.drift(old, new, code=2))


if __name__ == "__main__":
    unittest.main()
