"""The type stubs are what nanobind's generator makes of the compiled modules, and all that is public has a docstring.

OCTET_UPDATE_STUBS=1 in the environment writes them anew."""

import importlib
import inspect
import os
import sys
import unittest

import octet
import octet_runtime

STUBS = {"octet._octet": "octet/_octet.pyi", "octet_runtime._runtime": "octet_runtime/_runtime.pyi"}
FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "tools/python")


def generated(module):
    sys.path.append(os.environ["OCTET_NANOBIND"])
    from nanobind.stubgen import StubGen

    generator = StubGen(importlib.import_module(module), quiet=True)
    generator.put(generator.module)
    return generator.get().strip() + "\n"


class Stubs(unittest.TestCase):
    maxDiff = None

    def test_stubs_fit(self):
        for module, file in STUBS.items():
            with self.subTest(module):
                path = os.path.join(FOLDER, file)
                text = generated(module)
                if os.environ.get("OCTET_UPDATE_STUBS"):
                    with open(path, "w") as stub:
                        stub.write(text)
                with open(path) as stub:
                    self.assertEqual(stub.read(), text)

    def test_all_that_is_public_has_a_docstring(self):
        for package in (octet, octet_runtime):
            for name in package.__all__:
                value = getattr(package, name)
                self.assertTrue(inspect.getdoc(value), name)
                members = vars(value).items() if inspect.isclass(value) else []
                bare = [
                    m for m, v in members
                    if not m.startswith("_") and (callable(v) or isinstance(v, property)) and not inspect.getdoc(v)
                ]
                self.assertEqual(bare, [], name)


if __name__ == "__main__":
    unittest.main()
