"""Binaries look for libraries in folders that the build or the package chose, never in the current one."""
import os
import re
import subprocess
import unittest

from support import CommandTest

BUILD = os.environ["OCTET_BUILD"]


def run_paths(folder):
    """{file: entries of its run path} of all binaries below."""
    paths = {}
    for top, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(top, name)
            if os.path.islink(path) or os.path.splitext(name)[1] in (".a", ".o", ".py", ".cpp", ".h"):
                continue
            with open(path, "rb") as file:
                if file.read(4) != b"\x7fELF":
                    continue
            dynamic = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
            found = re.search(r"\((?:RUNPATH|RPATH)\)[^[]*\[(.*)\]", dynamic)
            if found:
                paths[path] = found[1].split(":")
    return paths


class RunPaths(CommandTest):
    def check(self, folder, pattern):
        paths = run_paths(folder)
        for file, entries in paths.items():
            for entry in entries:
                self.assertRegex(entry, pattern, f"{file}: {entries}")
        return paths

    def test_of_the_build_tree(self):
        count = sum(len(self.check(os.path.join(BUILD, folder), r"^(/|\$ORIGIN)")) for folder in ("bin", "backends", "python"))
        self.assertGreater(count, 3)

    def test_of_what_is_installed(self):
        for component in ("runtime", "python_octet", "python_octet_runtime"):
            with self.subTest(component):
                prefix = self.path(component)
                installed = subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix, "--component", component], capture_output=True, text=True)
                self.assertEqual(installed.returncode, 0, installed.stderr)
                self.check(prefix, r"^\$ORIGIN")


if __name__ == "__main__":
    unittest.main()
