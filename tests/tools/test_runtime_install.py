"""The installed runtime: an application in C finds the package and links it, shared and static, without LibTorch."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

BUILD = os.environ["OCTET_BUILD"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(app C CXX)
find_package(octet REQUIRED)
foreach(kind runtime runtime_shared)
  add_executable(app_${kind} example.c)
  target_link_libraries(app_${kind} PRIVATE octet::${kind})
endforeach()
set_target_properties(app_runtime PROPERTIES LINKER_LANGUAGE CXX)
"""


class RuntimeInstall(unittest.TestCase):
    def call(self, *arguments):
        result = subprocess.run([str(argument) for argument in arguments], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stdout[-3000:] + result.stderr[-3000:])
        return result.stdout

    def test_an_application_in_c(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            self.call("cmake", "--install", BUILD, "--prefix", folder / "prefix")
            (folder / "CMakeLists.txt").write_text(PROJECT)
            shutil.copy(ROOT / "backends/runtime/example.c", folder)
            self.call("cmake", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={folder / 'prefix'}")
            self.call("cmake", "--build", folder / "build")
            for kind in ("runtime", "runtime_shared"):
                app = folder / "build" / f"app_{kind}"
                self.assertNotIn("torch", self.call("ldd", app))
                result = subprocess.run([str(app), "absent.octet"], capture_output=True, text=True)
                self.assertEqual(result.returncode, 1)
                self.assertEqual(result.stderr, "example: artifact: absent.octet: cannot be opened (No such file or directory); check the path\n")


if __name__ == "__main__":
    unittest.main()
