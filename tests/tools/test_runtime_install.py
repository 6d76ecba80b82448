"""The installed runtime, moved: an application in C finds the package and links it, shared and static, without LibTorch; oneDNN comes from the same prefix."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

from support import CommandTest

BUILD = os.environ["OCTET_BUILD"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
# LibTorch must not even be looked for.
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(app C CXX)
set(CMAKE_DISABLE_FIND_PACKAGE_Torch ON)
find_package(octet REQUIRED COMPONENTS runtime runtime_shared)
if(TARGET octet::core)
  message(FATAL_ERROR "targets that need LibTorch")
endif()
foreach(kind runtime runtime_shared)
  add_executable(app_${kind} example.c)
  target_link_libraries(app_${kind} PRIVATE octet::${kind})
endforeach()
set_target_properties(app_runtime PROPERTIES LINKER_LANGUAGE CXX)
"""

# Plug-ins in C++ and C: the example of a backend, and one of the tree's tests.
PLUGINS = """cmake_minimum_required(VERSION 3.25)
project(plugins C CXX)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_DISABLE_FIND_PACKAGE_Torch ON)
find_package(octet REQUIRED COMPONENTS plugin)
add_library(acme MODULE acme_plugin.cpp acme_backend.cpp acme_compiler.cpp acme_device.cpp acme_numbers.cpp)
target_link_libraries(acme PRIVATE octet::plugin)
add_library(plain MODULE plain.c)
target_link_libraries(plain PRIVATE octet::plugin)
"""

# A backend to ship: it runs nothing, but says so.
BACKEND = """
#include "backends/plugin/plugin.h"

namespace acme {
struct NpuBackend : octet::Backend {
  std::string name() const override { return "my_npu"; }
  std::map<std::string, std::string> versions() const override { return {}; }
  std::unique_ptr<octet::CompiledSegment> compile(const octet::Program&, const octet::Segment&,
                                                  int) const override {
    return nullptr;
  }
};
struct NpuSupport : octet::BackendSupport {
  std::string name() const override { return "my_npu"; }
  std::map<std::string, std::string> versions() const override { return {}; }
  octet::Verdict accepts(const octet::Program&, const octet::ProgramOp& op) const override {
    return octet::Verdict::refuse("the NPU has no " + op.kind);
  }
};
}  // namespace acme
"""
LOADER = """
#include <octet.h>
#include <stdio.h>
int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (octet_load_plugin(argv[i]) != OCTET_OK) return puts(octet_last_error()), 1;
  return puts(octet_backends()), 0;
}
"""


class RuntimeInstall(CommandTest):
    def call(self, *arguments, **options):
        result = subprocess.run([str(argument) for argument in arguments], capture_output=True, text=True, **options)
        self.assertEqual(result.returncode, 0, result.stdout[-3000:] + result.stderr[-3000:])
        return result.stdout

    def installed(self, *components):
        """A prefix with these components, moved after the installation."""
        for component in components:
            self.call("cmake", "--install", BUILD, "--prefix", self.path("before"), "--component", component)
        os.rename(self.path("before"), self.path("prefix of the runtime"))
        return pathlib.Path(self.path("prefix of the runtime"))

    def check(self, app, prefix):
        """It runs a program, on the oneDNN of the prefix, and knows nothing of LibTorch."""
        self.assertNotIn("torch", self.call("ldd", app))
        result = subprocess.run([app, "absent.octet"], capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stderr), (1, "example: artifact: absent.octet: cannot be opened (No such file or directory); check the path\n"))
        opened = subprocess.run([app, self.path("onednn.octet")], capture_output=True, env={**os.environ, "LD_DEBUG": "files"})
        self.assertEqual((opened.returncode, len(opened.stdout)), (0, 40))
        if (prefix / "lib/octet/libdnnl.so.3").exists():
            self.assertIn(f"calling init: {prefix}/lib/octet/libdnnl.so.3", opened.stderr.decode())

    def test_an_application_in_c(self):
        self.quantized_model()
        self.octet("lower", self.path("q.pt2"), "--backend", "onednn", "--output", self.path("onednn.octet"))
        prefix = self.installed("runtime", "runtime-development")
        self.assertFalse(list(prefix.rglob("lib/**/*torch*")))
        project = pathlib.Path(self.path("project"))
        project.mkdir()
        (project / "CMakeLists.txt").write_text(PROJECT)
        shutil.copy(ROOT / "backends/runtime/example.c", project)
        self.call("cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
        self.call("cmake", "--build", project / "build")
        for kind in ("runtime", "runtime_shared"):
            with self.subTest(kind):
                self.check(project / "build" / f"app_{kind}", prefix)

    def test_pkg_config(self):
        if shutil.which("pkg-config") is None:
            self.skipTest("no pkg-config")
        self.quantized_model()
        self.octet("lower", self.path("q.pt2"), "--backend", "onednn", "--output", self.path("onednn.octet"))
        prefix = self.installed("runtime", "runtime-development").rename(self.path("prefix"))
        flags = self.call("pkg-config", "--cflags", "--libs", "octet", env={**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}).split()
        app = pathlib.Path(self.path("app"))
        self.call("cc", ROOT / "backends/runtime/example.c", "-o", app, *flags, f"-Wl,-rpath,{prefix}/lib")
        self.check(app, prefix)

    def test_plugins_of_the_page(self):
        """The blocks of tools/site/docs/tutorials/plugin.md build a plug-in in C++ and one in C,
        and an application in C loads both."""
        if shutil.which("pkg-config") is None:
            self.skipTest("no pkg-config")
        prefix = self.installed("runtime", "runtime-development").rename(self.path("prefix"))
        page = (ROOT / "tools/site/docs/tutorials/plugin.md").read_text()
        blocks = {language: block for language, block in re.findall(r"^```(cpp|cmake)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)}
        project = pathlib.Path(self.path("project"))
        project.mkdir()
        head = "cmake_minimum_required(VERSION 3.25)\nproject(my_npu LANGUAGES C CXX)\nset(CMAKE_DISABLE_FIND_PACKAGE_Torch ON)\n"
        (project / "CMakeLists.txt").write_text(head + blocks["cmake"])
        (project / "my_npu.cpp").write_text(BACKEND + blocks["cpp"])
        self.call("cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release")
        self.call("cmake", "--build", project / "build")
        plugin = project / "build/libmy_npu.so"
        self.assertEqual(self.call("nm", "-D", "--defined-only", plugin).split()[1:], ["T", "octet_plugin_entry"])
        environment = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
        shutil.copy(ROOT / "tests/backends/plugin/plain.c", project / "my_npu.c")
        command = re.search(r"^cc -shared.*$", page, re.MULTILINE)[0]
        self.call("sh", "-c", command, cwd=project, env=environment)
        (project / "loader.c").write_text(LOADER)
        flags = self.call("pkg-config", "--cflags", "--libs", "octet", env=environment).split()
        self.call("cc", project / "loader.c", "-o", project / "loader", *flags, f"-Wl,-rpath,{prefix}/lib")
        names = self.call(project / "loader", plugin, project / "my_npu.so").split()
        self.assertEqual(names[-2:], ["my_npu", "plain"])

    def test_plugins_of_another_compiler(self):
        """Only C crosses the border: the command of this build runs plug-ins that clang compiled."""
        c, cpp = (next(filter(None, map(shutil.which, names)), None) for names in (("clang", "clang-14"), ("clang++", "clang++-14")))
        if c is None or cpp is None:
            self.skipTest("no clang")
        prefix = self.installed("runtime", "runtime-development")
        project = pathlib.Path(self.path("project"))
        project.mkdir()
        (project / "CMakeLists.txt").write_text(PLUGINS)
        for file in ((ROOT / "tests/backends/plugin/plain.c"), *(ROOT / "tools/example_backend").glob("*.[ch]*")):
            shutil.copy(file, project)
        self.call("cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release",
                  f"-DCMAKE_C_COMPILER={c}", f"-DCMAKE_CXX_COMPILER={cpp}")
        self.call("cmake", "--build", project / "build")
        for name, least in (("acme", 50), ("plain", 1)):
            plugin = str(project / f"build/lib{name}.so")
            self.assertIn("clang", self.call("readelf", "-p", ".comment", plugin))
            self.octet("conformance", "--library", plugin, "--backend", name, "--filter", "^(conv|linear|add)/", "--json", self.path("r.json"))
            report = json.loads(pathlib.Path(self.path("r.json")).read_text())
            self.assertEqual(report["wrong"] + report["crashed"], 0)
            self.assertGreater(report["exact"], least)


if __name__ == "__main__":
    unittest.main()
