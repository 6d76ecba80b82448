"""octet doctor: the machine, the backends' kernels and libraries, and programs that do or do not run."""
import json
import os
import unittest

from support import CommandTest


class Doctor(CommandTest):
    def test_it_tells_of_the_machine_and_of_each_backend(self):
        report = json.loads(self.octet("doctor", "--json")[0])
        self.assertEqual(set(report), {"machine", "backends", "files", "libraries"})
        self.assertLessEqual(report["machine"]["cpus"], os.cpu_count())
        self.assertGreaterEqual(report["machine"]["cpus"], 1)
        self.assertIn("reference", [backend["name"] for backend in report["backends"]])
        for backend in report["backends"]:
            self.assertTrue(backend["kernels"])
        self.assertTrue(any("libtorch_cpu" in path for path in report["libraries"]))
        text = self.octet("doctor")[0]
        self.assertIn("instruction sets", text)
        self.assertIn("reference", text)

    def test_programs_that_run_and_one_that_does_not(self):
        self.quantized_model()
        self.octet("lower", self.path("q.pt2"), "--backend", "reference", "--output", self.path("m.octet"))
        text = self.octet("doctor", self.path("m.octet"), self.path("q.pt2"))[0]
        self.assertRegex(text, r"m\.octet: runs: \d+ ops on reference")
        self.assertRegex(text, r"q\.pt2: is interpreted by LibTorch, \d+ nodes")
        with open(self.path("m.octet"), "rb") as file:
            damaged = file.read()[:1000]
        with open(self.path("damaged.octet"), "wb") as file:
            file.write(damaged)
        out, errors = self.octet("doctor", self.path("damaged.octet"), code=1)
        self.assertIn("does not run", out)
        self.assertEqual(len(errors.strip().splitlines()), 1)
        self.assertTrue(errors.startswith("octet: doctor: this machine: not everything works: "), errors)

    def test_a_limit_of_the_instruction_sets_is_told(self):
        os.environ["ONEDNN_MAX_CPU_ISA"] = "SSE41"
        try:
            self.assertEqual(json.loads(self.octet("doctor", "--json")[0])["machine"]["isa_limit"], "SSE41")
        finally:
            del os.environ["ONEDNN_MAX_CPU_ISA"]


if __name__ == "__main__":
    unittest.main()
