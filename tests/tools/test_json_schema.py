"""The schema of quantizers' JSON files against every example in the documentation, the files of the tests, and the wrong ones among them."""
import copy
import glob
import json
import os
import re
import unittest

import fastjsonschema

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
KEYS = ("base", "compose", "patterns", "opaque", "op_type", "module_name")  # one of these is in each example about quantizers


def load(path):
    with open(os.path.join(ROOT, path)) as file:
        return json.load(file)


def examples_of(markdown):
    """The JSON values in the ```json blocks of a page; a block may be a key with its value alone."""
    decoder = json.JSONDecoder()
    for block in re.findall(r"```json\n(.*?)```", markdown, re.S):
        rest = block.strip()
        if rest.startswith('"'):
            rest = "{" + rest + "}"
        while rest:
            value, end = decoder.raw_decode(rest)
            yield value
            rest = rest[end:].strip()


def place(document, pointer):
    """The container that a JSON pointer ends in, made on the way, and the key in it."""
    keys = [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]
    for key in keys[:-1]:
        document = document[int(key)] if isinstance(document, list) else document.setdefault(key, {})
    return document, int(keys[-1]) if isinstance(document, list) else keys[-1]


class JsonSchema(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.validate = staticmethod(fastjsonschema.compile(load("quantizers/quantizer.schema.json")))
        cls.table = load("tests/quantizers/wrong_files.json")

    def accepts(self, document):
        try:
            self.validate(document)
        except fastjsonschema.JsonSchemaException:
            return False
        return True

    def wrong_file(self, entry):
        document = copy.deepcopy(self.table["files"][entry["file"]])
        for pointer, value in entry.get("set", {}).items():
            container, key = place(document, pointer)
            container[key] = value
        for pointer in entry.get("drop", []):
            container, key = place(document, pointer)
            del container[key]
        return document

    def test_the_examples_of_the_documentation_are_valid(self):
        pages = [path for path in glob.glob(os.path.join(ROOT, "**", "*.md"), recursive=True) if not re.search(r"/(build|\.venv)/", path)]
        found = 0
        for page in pages:
            with open(page) as file:
                for example in examples_of(file.read()):
                    if any(key in example for key in KEYS):
                        found += 1
                        self.validate(example)
        self.assertGreaterEqual(found, 6)

    def test_the_files_in_the_tree_are_valid(self):
        self.validate(load("quantizers/toy_npu.json"))
        self.validate(load("quantizers/tensorrt.json"))
        for name, document in self.table["files"].items():
            with self.subTest(file=name):
                self.validate(document)

    def test_settings_for_config_are_valid(self):
        self.validate({"op_type": {"linear": None}, "module_name": {"head": {"weight_bits": 4}}})
        self.assertFalse(self.accepts({"op_typ": {"linear": None}}))

    def test_editors_see_what_the_shape_of_a_file_says(self):
        for entry in self.table["wrong"]:
            if "text" not in entry:
                with self.subTest(cause=entry["cause"]):
                    self.assertEqual(not self.accepts(self.wrong_file(entry)), entry["editor"])


if __name__ == "__main__":
    unittest.main()
