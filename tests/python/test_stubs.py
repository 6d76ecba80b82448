"""The type stubs are what nanobind's generator makes of the compiled modules, the signatures of the package have the options of the
command, and all that is public has a docstring.

OCTET_UPDATE_STUBS=1 in the environment rewrites stubs and signatures."""

import ast
import importlib
import inspect
import os
import re
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
    text = with_parameters(generator.get().strip() + "\n")
    return text if module == "octet_runtime._runtime" else without_shared(text, generated("octet_runtime._runtime"))


def with_parameters(text):
    """The stub as type checkers in strict mode want it: with parameters of generic types."""
    text = re.sub(r"(: |-> |\[|, |\| )dict\b(?![\[(])", r"\1dict[str, Any]", text)
    text = re.sub(r"(?<=[:>] )(tuple|list)\b(?!\[)", lambda m: m[1] + ("[Any, ...]" if m[1] == "tuple" else "[Any]"), text)
    text = re.sub(r"os\.PathLike\b(?!\[)", "os.PathLike[str]", text)
    text = re.sub(r"def __eq__\(self, arg: \w+, /\)", "def __eq__(self, arg: object, /)", text)
    return text.replace("\n\n\n", "\n\n__version__: str\n\n", 1) if "__version__" not in text else text


def without_shared(text, shared):
    """Definitions that the stub of the runtime has, too, are imported from there."""
    definitions = (ast.ClassDef, ast.FunctionDef)
    known = {ast.dump(node) for node in ast.parse(shared).body if isinstance(node, definitions)}
    lines, names = text.splitlines(keepends=True), []
    body = ast.parse(text).body
    for node, following in reversed(list(zip(body, [*body[1:], None]))):
        if isinstance(node, definitions) and ast.dump(node) in known:
            names.append(node.name)
            del lines[node.lineno - 1 : following.lineno - 1 if following else None]
    imports = f"from octet_runtime._runtime import {', '.join(f'{name} as {name}' for name in sorted(names))}\n"
    return "".join(lines).rstrip().replace("from typing import Any\n", "from typing import Any\n\n" + imports, 1) + "\n"


# Files with functions whose options are those of the command: between the two comments in the signature.
WITH_OPTIONS = {"octet/_quantize.py": ["quantize"], "octet/_search.py": ["qat", "tune"], "octet/_steps.py": ["prepare", "prepare_qat"],
                "octet/_lower.py": ["lower"], "octet/_compare.py": ["compare"], "octet/_export.py": ["export_onnx"]}


def with_options(text, function):
    rows = [signature.replace("os.PathLike |", "os.PathLike[str] |") for _, _, signature in octet._octet.arguments(function)]
    pattern = rf"(\ndef {function}\((?:(?!\ndef ).)*?    # options\n)(?:(?!\ndef ).)*?(    # end of options\n)"
    return re.sub(pattern, lambda m: m[1] + "".join(f"    {row},\n" for row in rows) + m[2], text, count=1, flags=re.DOTALL)


class Stubs(unittest.TestCase):
    maxDiff = None

    def test_signatures_have_the_options_of_the_command(self):
        for file, functions in WITH_OPTIONS.items():
            path = os.path.join(FOLDER, file)
            with open(path) as source:
                text = wanted = source.read()
            for function in functions:
                wanted = with_options(wanted, function)
                self.assertIn(f"# options\n    {octet._octet.arguments(function)[0][2]},", wanted)
            if os.environ.get("OCTET_UPDATE_STUBS"):
                with open(path, "w") as source:
                    source.write(wanted)
            else:
                self.assertEqual(text, wanted)

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
