"""octet.conformance beside the command."""

import json
import pathlib
import unittest

import octet
from package_test import PackageTest


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

    def test_bad_arguments(self):
        for arguments, message in (({"backend": "acme"}, "backend: acme: "),
                                   ({"backend": "xnnpack", "filter": "("}, "regular expression"),
                                   ({"backend": "xnnpack", "libraries": ["absent.so"]}, "absent.so")):
            with self.assertRaisesRegex(octet.Error, message):
                octet.conformance(**arguments)


if __name__ == "__main__":
    unittest.main()
