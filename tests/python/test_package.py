"""The installed packages, moved: they run on the libraries that they carry, with torch and without, and share none with it."""

import json
import os
import pathlib
import subprocess
import sys
import unittest
import zlib

import numpy
import torch
from package_test import PackageTest

BUILD = os.environ["OCTET_BUILD"]
# The limit for a wheel, as in tools/dev/wheel.sh. Nearly all of octet_runtime is oneDNN.
MOST_BYTES = {"octet_runtime": 15 << 20, "octet": 8 << 20}
# Which files of these libraries are in the process, after a run on each backend.
SCRIPT = """
import json, sys, numpy
if sys.argv[1] == "torch first":
    import torch
import octet_runtime
if sys.argv[1] == "octet":
    import octet, torch
x, load = numpy.load(sys.argv[2]), (octet if sys.argv[1] == "octet" else octet_runtime).load
ys = [load(file, threads=2)(x).tolist() for file in sys.argv[3:]]
if sys.argv[1] == "torch later":
    import torch
if "torch" in sys.modules:
    torch.nn.functional.conv2d(torch.randn(1, 3, 32, 32), torch.randn(4, 3, 3, 3))
kinds = ("libdnnl.", "libXNNPACK.", "libpthreadpool.", "libcpuinfo.", "libgomp.")
with open("/proc/self/maps") as maps:
    files = {line.split()[-1] for line in maps if any(kind in line for kind in kinds)}
print(json.dumps({"ys": ys, "files": sorted(files), "package": octet_runtime.__file__}))
"""


class Package(PackageTest):
    def installed(self):
        """A folder with both packages."""
        before, after = self.path("before"), self.path("site_packages")
        for component in ["python_octet_runtime", "python_octet"]:
            subprocess.run(
                ["cmake", "--install", BUILD, "--strip", "--prefix", before, "--component", component],
                check=True, capture_output=True,
            )
        os.rename(before, after)
        return after

    def test_runs_on_what_it_carries(self):
        backends = ["onednn", "xnnpack"]
        x = self.lowered_files(*backends)
        numpy.save(self.path("x.npy"), x.numpy())
        files = [self.path(backend + ".octet") for backend in backends]
        expected = [self.run_file(backend + ".octet")[0] for backend in backends]
        site = self.installed()
        for order in ["alone", "torch first", "torch later", "octet"]:
            with self.subTest(order):
                result = subprocess.run(
                    [sys.executable, "-B", "-c", SCRIPT, order, self.path("x.npy"), *files],
                    capture_output=True, text=True, env={**os.environ, "PYTHONPATH": site},
                )
                self.assertEqual(result.returncode, 0, result.stderr[-2000:])
                told = json.loads(result.stdout)
                for y, want in zip(told["ys"], expected):
                    self.assertTrue(torch.equal(torch.tensor(y), want))
                self.assertTrue(told["package"].startswith(site))
                names = [os.path.basename(file) for file in told["files"]]
                self.assertEqual(len(names), len(set(names)), told["files"])
                own = [file for file in told["files"] if file.startswith(site)]
                others = [file for file in told["files"] if not file.startswith(site)]
                # One OpenMP, that of the package imported first.
                self.assertTrue(all("libgomp" in file for file in others), others)
                self.assertEqual(len(own) + len(others), 5)

    def test_wheels_stay_small(self):
        site = pathlib.Path(self.installed())
        for package, most in MOST_BYTES.items():
            files = [path for path in (site / package).rglob("*") if path.is_file()]
            sizes = {str(path.relative_to(site)): len(zlib.compress(path.read_bytes(), 9)) for path in files}
            self.assertLess(sum(sizes.values()), most, sorted(sizes.items(), key=lambda item: -item[1])[:5])

    def test_the_command_finds_its_libraries(self):
        """That of the package is a small program beside the module's own code; torch is elsewhere here."""
        site = self.installed()
        self.lowered_files("xnnpack", "onednn")
        for backend in ("xnnpack", "onednn"):
            arguments = ["octet", "lower", self.path("q.pt2"), "--backend", backend, "--output", self.path("again.octet")]
            script = f"import sys; sys.argv = {arguments!r}; from octet._command import main; main()"
            subprocess.run([sys.executable, "-B", "-c", script], check=True, env={**os.environ, "PYTHONPATH": site})
            self.assertEqual(self.bytes_of("again.octet"), self.bytes_of(backend + ".octet"))
        self.assertLess(os.path.getsize(os.path.join(site, "octet/bin/octet")), 1 << 20)


if __name__ == "__main__":
    unittest.main()
