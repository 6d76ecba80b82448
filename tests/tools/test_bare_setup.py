"""Installs Octet and imports its Python packages as the pages say after tools/setup.sh, which builds
the command alone. tools/test.sh runs this before it builds the tests."""
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/release"


def call(*arguments, **environment):
    result = subprocess.run(arguments, cwd=ROOT, env={**os.environ, **environment},
                            capture_output=True, text=True)
    if result.returncode != 0:
        raise AssertionError(f"{arguments}: {result.stdout[-3000:]}{result.stderr[-3000:]}")
    return result.stdout


class BareSetup(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="octet-bare-")
        self.addCleanup(folder.cleanup)
        self.prefix = pathlib.Path(folder.name) / "prefix"

    def install(self, *options):
        call("cmake", "--install", BUILD, "--prefix", self.prefix, *options)

    def test_the_runtime_is_installed(self):
        self.install("--component", "runtime")
        self.assertTrue(list((self.prefix / "lib").rglob("liboctet_runtime.so*")))
        self.assertFalse((self.prefix / "bin").exists())

    def test_everything_is_installed(self):
        self.install()
        octet = self.prefix / "bin/octet"
        self.assertIn("octet ", call(octet, "--version"))
        call(octet, "new-backend", "my_npu", self.prefix / "project")
        warnings = subprocess.run(
            ["cmake", "-S", self.prefix / "project", "-B", self.prefix / "project/build",
             f"-DCMAKE_PREFIX_PATH={self.prefix}"], capture_output=True, text=True)
        self.assertEqual((warnings.returncode, warnings.stderr), (0, ""))

    def test_the_packages_are_imported(self):
        call("tools/setup.sh", "--python")
        call(".venv/bin/python", "-c", "import octet, octet_runtime", PYTHONPATH=str(BUILD / "python"))


if __name__ == "__main__":
    unittest.main()
