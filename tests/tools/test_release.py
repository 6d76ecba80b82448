"""tools/release.sh: what it makes again has the same bytes, and it lists what differs. Wheels and
packages are small ones here."""
import hashlib
import json
import pathlib
import subprocess
import sys
import unittest
import zipfile

from support import CommandTest

ROOT = pathlib.Path(__file__).resolve().parents[2]
METADATA = "Metadata-Version: 2.4\nName: octet-runtime\nVersion: 0.1.0\n"


class Release(CommandTest):
    def call(self, *command, code=0):
        result = subprocess.run([str(part) for part in command], cwd=ROOT, text=True,
                                capture_output=True)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result.stdout + result.stderr

    def release(self, name, oneDNN):
        """A folder with a wheel, as release.sh leaves it."""
        folder = pathlib.Path(self.folder) / name
        folder.mkdir()
        wheel = folder / "octet_runtime-0.1.0-cp312-abi3-linux_x86_64.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for path, text in (("octet_runtime/__init__.py", ""),
                               ("octet_runtime/lib/libdnnl.so.3", oneDNN),
                               ("octet_runtime-0.1.0.dist-info/METADATA", METADATA)):
                archive.writestr(zipfile.ZipInfo(path), text)
        told = subprocess.run([sys.executable, ROOT / "tools/dev/sbom.py", wheel.name], cwd=folder,
                              check=True, capture_output=True, text=True).stdout
        (folder / "octet.spdx.json").write_text(told)
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        (folder / "SHA256SUMS").write_text(f"{digest}  {wheel.name}\n")
        return folder

    def test_it_lists_what_is_inside(self):
        told = json.loads((self.release("one", "code") / "octet.spdx.json").read_text())
        names = {part["SPDXID"]: part["name"] for part in told["packages"]}
        files = {part["SPDXID"]: part["fileName"] for part in told["files"]}
        self.assertEqual(len(names), len(told["packages"]))
        related = {(names.get(row["spdxElementId"]), row["relationshipType"],
                    files.get(row["relatedSpdxElement"], names.get(row["relatedSpdxElement"])))
                   for row in told["relationships"]}
        for row in (("oneDNN", "CONTAINS", "octet_runtime/lib/libdnnl.so.3"),
                    ("octet-runtime", "CONTAINS", "octet_runtime/__init__.py"),
                    ("fmt", "STATIC_LINK", "octet-runtime"),
                    ("nanobind", "STATIC_LINK", "octet-runtime")):
            self.assertIn(row, related)
        self.assertNotIn(("CLI11", "STATIC_LINK", "octet-runtime"), related)

    def test_it_lists_what_differs(self):
        one, same, other = (self.release(name, text) for name, text in
                            (("one", "code"), ("same", "code"), ("other", "other code")))
        command = "tools/release.sh", "--out", one, "--compare"
        self.assertIn("have the same 1 files, byte for byte", self.call(*command, same))
        told = self.call(*command, other, code=1)
        self.assertIn("octet_runtime-0.1.0-cp312-abi3-linux_x86_64.whl\n", told)
        self.assertIn("whl-octet-runtime-lib-libdnnl.so.3\n", told)
        self.assertNotIn("init", told)
        self.assertIn("has no SHA256SUMS", self.call(*command, self.folder, code=1))

    def test_the_site_has_the_same_bytes_again(self):
        for name in ("first", "again"):
            self.call("tools/release.sh", "--only", "site", "--out", self.path(name))
        told = self.call("tools/release.sh", "--out", self.path("first"),
                         "--compare", self.path("again"))
        self.assertIn("have the same 2 files", told)  # and the changelog

    def test_other_options_are_refused(self):
        for said, *options in (('unknown part "all", want wheels', "--only", "all"),
                               ("unknown option --all, want --only PART", "--all")):
            self.assertIn(said, self.call("tools/release.sh", *options, code=2))


if __name__ == "__main__":
    unittest.main()
