"""The zoo's short form: a dozen tiny networks are exported, quantized and run on both
backends, and the tool's own promises."""
import csv
import os
import pathlib
import subprocess
import sys
import unittest

from support import CommandTest

ZOO = pathlib.Path(__file__).resolve().parents[2] / "tools" / "zoo"
sys.path.insert(0, str(ZOO))
import catalog  # noqa: E402
import steps  # noqa: E402
import table  # noqa: E402

ENTRIES = catalog.short_entries()
SMALL = "torchvision/squeezenet1_1"


class Zoo(CommandTest):
    def zoo(self, *arguments, code=0):
        """Runs the tool; returns (stdout, stderr)."""
        result = subprocess.run(
            [sys.executable, "-B", str(ZOO / "zoo.py"), "--work", self.path("work"), *arguments],
            capture_output=True, text=True, timeout=1500)
        self.assertEqual(result.returncode, code, result.stderr[-3000:])
        return result.stdout, result.stderr

    def test_a_dozen_networks_go_the_whole_way(self):
        self.zoo("--short", "--parts", "octet", "--jobs", "2")
        for name in steps.CONFIGURATIONS:
            found = table.rows(self.path("work"), ENTRIES, name)
            self.assertEqual(len(found), len(ENTRIES))  # each is exported
            for row in found:
                with self.subTest(row.name, configuration=name):
                    if row.is_empty:  # dynamic takes linear layers alone, and this network has none
                        self.assertEqual((row.name, name), (SMALL, "x86-dynamic"))
                        continue
                    self.assertTrue(row.is_lowered, row.octet)
                    self.assertFalse(row.is_wrong, row.octet)
                    self.assertGreater(row.octet["share"], 0)

    def test_results_are_kept_and_told(self):
        one = ("--only", SMALL, "--configurations", "x86-static")
        _, progress = self.zoo(*one, "--parts", "octet,peer,time")
        self.assertIn(f"{SMALL} x86-static time", progress)
        _, progress = self.zoo(*one, "--tables", self.path("tables"))
        self.assertNotIn(SMALL, progress)
        with open(self.path("tables/results.csv"), newline="") as file:
            line = next(line for line in csv.reader(file) if line[1] == SMALL)
        share, state, octet, peer, peers_share, ratio = line[2:]
        self.assertEqual(state, "yes")
        self.assertTrue(share.endswith("%"))
        self.assertEqual(peers_share, share)
        self.assertGreater(float(octet), float(peer) - 3)
        self.assertGreater(float(ratio), 0)
        _, progress = self.zoo(*one, "--parts", "octet", "--redo", "octet")
        self.assertIn(f"{SMALL} x86-static octet", progress)

    def test_a_part_that_fails_is_a_result(self):
        os.makedirs(os.path.join(self.path("work"), SMALL))
        pathlib.Path(self.path("work"), SMALL, "export.json").write_text("{}")
        self.zoo("--only", SMALL, "--configurations", "x86-static", "--parts", "octet,time")
        row, = table.rows(self.path("work"), [e for e in ENTRIES if e.name == SMALL], "x86-static")
        self.assertEqual(row.octet["failed"], "quantize")
        self.assertIn("model.pt2", row.octet["message"])
        self.assertFalse(row.runs)
        _, message = self.zoo("--parts", "nonsense", code=2)
        self.assertIn("nonsense", message)


if __name__ == "__main__":
    unittest.main()
