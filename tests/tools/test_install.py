"""cmake --install, and a project outside of the tree that finds the package, writes a quantizer and runs a program without LibTorch."""
import os
import subprocess
import unittest

from support import CommandTest

BUILD = os.environ["OCTET_BUILD"]
OUTSIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "outside")


class Install(CommandTest):
    def call(self, *arguments):
        result = subprocess.run(arguments, capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stdout[-3000:] + result.stderr[-3000:])
        return result.stdout

    def test_outside_project_builds_against_the_installed_package(self):
        prefix = self.path("prefix")
        self.call("cmake", "--install", BUILD, "--prefix", prefix)
        self.call("cmake", "-S", OUTSIDE, "-B", self.path("build"), f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release")
        self.call("cmake", "--build", self.path("build"), "-j", "2")
        self.assertEqual(self.call(self.path("build/quantizer")), "annotated 2\n")
        self.quantized_model()
        self.call(os.path.join(prefix, "bin", "octet"), "lower", self.path("q.pt2"), "--backend", "onednn", "--output", self.path("m.octet"))
        self.assertEqual(self.call(self.path("build/runner"), self.path("m.octet")), "outputs 1\n")
        libraries = self.call("ldd", self.path("build/runner"))
        self.assertNotIn("libtorch", libraries)


if __name__ == "__main__":
    unittest.main()
