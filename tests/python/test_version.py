"""One version, that of CMakeLists.txt: in the command, the packages, the wheels, the CMake package and the changelog."""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import octet
import octet_runtime

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["OCTET_BUILD"])
WHEEL = """
import os, sys
from scikit_build_core.build import prepare_metadata_for_build_wheel as prepare
folder = os.path.join(sys.argv[1], prepare(sys.argv[1]))
print(open(os.path.join(folder, "METADATA")).read())
"""


def version():
    sys.path.insert(0, str(ROOT / "tools/python"))
    import wheel_metadata

    return wheel_metadata.version()


class Version(unittest.TestCase):
    def test_everything_that_is_built_has_it(self):
        self.assertEqual(octet.__version__, version())
        self.assertEqual(octet_runtime.__version__, version())
        said = subprocess.run([os.environ["OCTET"], "--version"], capture_output=True, text=True, check=True)
        self.assertEqual(said.stdout.strip(), f"octet {version()}")
        self.assertIn(f'set(PACKAGE_VERSION "{version()}")', (BUILD / "octet-config-version.cmake").read_text())
        self.assertIn(f"\nVersion: {version()}\n", (BUILD / "octet.pc").read_text())

    def test_wheels_have_it(self):
        for folder, needs in ((".", [f"octet-runtime=={version()}", "numpy", "torch=="]), ("tools/python", ["numpy"])):
            with self.subTest(folder):
                out = pathlib.Path(os.environ["OCTET_SCRATCH"]) / folder.replace("/", "_").replace(".", "octet")
                shutil.rmtree(out, ignore_errors=True)
                out.mkdir(parents=True)
                made = subprocess.run([sys.executable, "-B", "-c", WHEEL, str(out)], cwd=ROOT / folder, capture_output=True, text=True)
                self.assertEqual(made.returncode, 0, made.stderr[-2000:])
                lines = made.stdout.splitlines()
                self.assertIn(f"Version: {version()}", lines)
                for need in needs:
                    self.assertTrue(any(line.startswith(f"Requires-Dist: {need}") for line in lines), need)

    def test_the_changelog_begins_with_it(self):
        headings = [line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")]
        self.assertEqual(headings[0].split()[1], version())


if __name__ == "__main__":
    unittest.main()
