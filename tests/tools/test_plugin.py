"""--library with a plug-in: every step of the command uses its backend, and a command without it
names the remedy (tools/site/docs/tutorials/plugin.md)."""
import json
import os
import re
import shutil
import subprocess
import unittest

import torch

from support import CommandTest

PLUGINS = os.path.join(os.environ["OCTET_BUILD"], "plugins")
MIRROR, PLAIN = (os.path.join(PLUGINS, name + ".so") for name in ("mirror", "plain"))


class Plugin(CommandTest):
    def lowered(self, backend, *options):
        self.octet("lower", self.path("q.pt2"), "--backend", backend, *options, "--output", self.path(backend + ".octet"))

    def test_the_command_uses_a_plugin(self):
        self.quantized_model()
        own = ["--library", MIRROR]
        self.lowered("reference")
        self.lowered("mirror", *own)
        self.octet("run", self.path("mirror.octet"), *own, "--inputs", self.path("x.pt"), "--outputs", self.path("m.pt"))
        got = torch.load(self.path("m.pt"), weights_only=True)[0]
        self.assertTrue(torch.equal(got, self.run_file("reference.octet")[0]))
        program = self.inspect("mirror.octet")
        self.assertEqual({op["backend"] for op in program["ops"]}, {"mirror"})
        versions = program["versions"]
        self.assertEqual((versions["mirror"], versions["glass"]), ("1.2.0", "3.1.4"))
        self.assertRegex(versions["mirror:library"], r"^xxh64 [0-9a-f]{16}$")
        bench, _ = self.octet("bench", self.path("mirror.octet"), *own, "--explain")
        self.assertIn("mirrored", bench)
        for command in (["run", "--inputs", self.path("x.pt"), "--outputs", self.path("none.pt")], ["bench"]):
            line = self.fails(command[0], self.path("mirror.octet"), *command[1:])
            self.assertEqual(line, f"octet: session: mirror: the program needs this plug-in, version 1.2.0 ({versions['mirror:library']}), which is not "
                                   "loaded; load its library (--library, octet::register_backend)")

    def test_the_page_of_ops_has_its_column(self):
        page, _ = self.octet("inspect", "--ops", "--library", PLAIN)
        self.assertEqual(page, self.octet("inspect", "--library", PLAIN, "--ops")[0])
        self.assertIn(" | plain |", page)
        self.assertNotIn(" | plain |", self.octet("inspect", "--ops")[0])
        self.assertIn("absent.so: not found", self.fails("inspect", "--ops", "--library", "absent.so"))
        self.octet("inspect", code=2)

    def test_a_plugin_conforms(self):
        for library, name in ((PLAIN, "plain"), (MIRROR, "mirror")):
            out, _ = self.octet("conformance", "--library", library, "--backend", name, "--quick", "--json", self.path("r.json"))
            with open(self.path("r.json")) as file:
                report = json.load(file)
            self.assertEqual((report["wrong"], report["crashed"]), (0, 0), out)
            self.assertGreater(report["exact"], 0 if name == "plain" else 500)

    def test_another_build_warns(self):
        self.quantized_model()
        self.lowered("mirror", "--library", MIRROR)
        other = shutil.copy(MIRROR, self.path("mirror.so"))
        with open(other, "ab") as file:
            file.write(b"\0")  # after all that the loader reads
        _, errors = self.octet("run", self.path("mirror.octet"), "--library", other, "--inputs", self.path("x.pt"), "--outputs", self.path("y.pt"))
        self.assertRegex(errors, r"was lowered with another build of the plug-in mirror \(xxh64 \w{16}, here xxh64 \w{16}\); lower the model again")

    def test_messages(self):
        line = self.fails("inspect", self.path("absent.pt2"), "--library", MIRROR, "--library", shutil.copy(MIRROR, self.path("copy.so")))
        self.assertEqual(line, f"octet: library: {self.path('copy.so')}: its backend mirror: is already a backend; register it under another name")
        # Given twice, it is loaded once.
        self.assertIn("absent.pt2", self.fails("inspect", self.path("absent.pt2"), "--library", MIRROR, "--library", MIRROR))

    def test_it_shares_no_symbol_with_the_process(self):
        """Whatever compiled the command, and whatever else is in the process."""
        def symbols(*options):
            lines = subprocess.run(["nm", "-D", *options, MIRROR], capture_output=True, text=True, check=True).stdout.splitlines()
            return [line.split()[-1] for line in lines]
        self.assertEqual(symbols("--defined-only"), ["octet_plugin_entry"])
        self.assertEqual([name for name in symbols("--undefined-only") if re.search("octet|torch|c10", name)], [])
        needed = subprocess.run(["readelf", "-d", MIRROR], capture_output=True, text=True, check=True).stdout
        self.assertNotIn("torch", needed)


if __name__ == "__main__":
    unittest.main()
