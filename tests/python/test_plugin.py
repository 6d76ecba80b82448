"""Plug-ins in octet_runtime, in a process without torch, and in octet
(tools/site/docs/tutorials/plugin.md)."""

import json
import re
import os
import sys
import unittest

from package_test import PackageTest

PLUGINS = os.path.join(os.environ["OCTET_BUILD"], "plugins")
MIRROR = os.path.join(PLUGINS, "mirror.so")

RUN = """
import json, pathlib, pickle, sys
import numpy as np
import octet_runtime
plugin, file, x = sys.argv[1], sys.argv[2], np.load(sys.argv[3])
def error_of(call):
    try:
        call()
    except octet_runtime.Error as error:
        return str(error)
told = {"missing": error_of(lambda: octet_runtime.load(file)),
        "bytes": error_of(lambda: octet_runtime.Model.from_bytes(open(file, "rb").read())),
        "absent": error_of(lambda: octet_runtime.load_plugin("absent.so")),
        "wrong": error_of(lambda: octet_runtime.load_plugin(sys.argv[4]))}
before = octet_runtime.backends()
told["names"] = [octet_runtime.load_plugin(plugin), octet_runtime.load_plugin(pathlib.Path(plugin))]
told["new"] = [name for name in octet_runtime.backends() if name not in before]
model = octet_runtime.load(file)
told["y"] = model(x).tolist()
told["pickled"] = pickle.loads(pickle.dumps(model))(x).tolist()
told["warnings"] = model.warnings
told["torch"] = "torch" in sys.modules
print(json.dumps(told))
"""

LOWER = """
import sys, torch, octet
folder, plugin = sys.argv[1:]
octet.load_library(plugin)
assert "mirror" in octet.backends(), octet.backends()
model = octet.lower(folder + "/q.pt2", "mirror")
model.save(folder + "/python.octet")
print(model.backend)
"""


class Plugin(PackageTest):
    def test_a_plugin_without_torch(self):
        import numpy as np

        x = self.lowered_files("reference").numpy()
        own = ["--library", MIRROR]
        self.octet("lower", self.path("q.pt2"), *own, "--backend", "mirror", "--output", self.path("m.octet"))
        np.save(self.path("x.npy"), x)
        arguments = [MIRROR, self.path("m.octet"), self.path("x.npy"), self.path("m.octet")]
        told = json.loads(self.python(RUN, *arguments))
        remedy = "load its library (octet_runtime.load_plugin)"
        self.assertEqual(told["missing"], told["bytes"])
        self.assertRegex(
            told["missing"],
            r"^session: mirror: the program needs this plug-in, version 1\.2\.0 "
            r"\(xxh64 \w{16}\), which is not loaded; " + re.escape(remedy) + "$",
        )
        self.assertEqual(
            told["absent"], "library: absent.so: not found; check the path"
        )
        self.assertIn("m.octet: cannot be loaded: ", told["wrong"])
        self.assertEqual(told["names"], ["mirror", "mirror"])
        self.assertEqual(told["new"], ["mirror"])
        self.assertFalse(told["torch"])
        expected = self.run_file("reference.octet")[0].tolist()
        self.assertEqual(told["y"], expected)
        self.assertEqual(told["pickled"], expected)
        self.assertIn("it is a mirror", told["warnings"][0])

    def test_the_same_file_in_octet(self):
        self.quantized_model()
        self.assertEqual(self.python(LOWER, self.folder, MIRROR).split(), ["mirror"])
        own = ["--library", MIRROR]
        self.octet("lower", self.path("q.pt2"), *own, "--backend", "mirror", "--output", self.path("m.octet"))
        self.assertEqual(self.bytes_of("python.octet"), self.bytes_of("m.octet"))
        script = (
            "import sys, octet\n"
            "try:\n    octet.load(sys.argv[1])\n"
            "except octet.Error as error:\n    print(error)\n"
        )
        self.assertIn("(octet.load_library)", self.python(script, self.path("m.octet")))


if __name__ == "__main__":
    unittest.main()
