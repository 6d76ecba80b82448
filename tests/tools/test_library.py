"""--library: what a user's shared library can do wrong, one line each; and that what it registers is there."""
import os
import re
import subprocess
import unittest

from support import CommandTest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMPILER = os.environ.get("OCTET_CXX", "c++")


class Library(CommandTest):
    def library(self, name, source):
        """A shared library of this C++ source."""
        with open(self.path(name + ".cpp"), "w") as file:
            file.write(source)
        path = self.path(f"lib{name}.so")
        subprocess.run([COMPILER, "-std=c++20", "-shared", "-fPIC", "-I", ROOT, self.path(name + ".cpp"), "-o", path], check=True)
        return path

    def message(self, *paths):
        """What the command says of libraries; the program does not matter, because libraries are loaded first."""
        options = [option for path in paths for option in ("--library", path)]
        return self.fails("inspect", self.path("absent.pt2"), *options)

    def version(self):
        """What the command wants octet_extension_version to say."""
        line = self.message(self.library("old", 'extern "C" const char* octet_extension_version() { return "octet 0.0.1"; } extern "C" void octet_register() {}'))
        match = re.fullmatch(r"octet: library: .*libold\.so: is built for another Octet, got octet 0\.0\.1, want (.*); build it again", line)
        self.assertTrue(match, line)
        return match[1]

    def extension(self, name, body, head=""):
        return self.library(name, f'{head}\nextern "C" const char* octet_extension_version() {{ return "{self.version()}"; }}\n'
                                  f'extern "C" void octet_register() {{ {body} }}\n')

    def test_files_that_are_no_library(self):
        self.assertEqual(self.message(self.path("none.so")), f"octet: library: {self.path('none.so')}: there is no such file; check the path")
        self.assertEqual(self.message(self.folder), f"octet: library: {self.folder}: is a folder; name the shared library in it")
        for text in ("", "hello, this is not a library at all"):
            with open(self.path("text.so"), "w") as file:
                file.write(text * 20)
            line = self.message(self.path("text.so"))
            self.assertRegex(line, r"text\.so: cannot be loaded: .*; give a shared library that is built for this machine$")

    def test_symbols_that_nobody_has(self):
        path = self.library("needy", 'extern "C" void nobody_has_this(); extern "C" void octet_register() { nobody_has_this(); }')
        self.assertEqual(self.message(path), f"octet: library: {path}: cannot be loaded: undefined symbol: nobody_has_this; give a shared library that is "
                                             "built for this machine")

    def test_libraries_that_register_nothing(self):
        self.assertRegex(self.message(self.library("bare", "int nothing = 1;")), r"libbare\.so: registers nothing, neither an op with TORCH_LIBRARY nor")
        path = self.library("half", 'extern "C" void octet_register() {}')
        self.assertEqual(self.message(path), f"octet: library: {path}: has octet_register but not octet_extension_version; write its registrations with "
                                             "OCTET_EXTENSION() of tools/extension.h")

    def test_registrations_that_fail(self):
        path = self.extension("angry", 'throw std::runtime_error("no licence\\nsecond line");', "#include <stdexcept>")
        self.assertEqual(self.message(path), f"octet: library: {path}: its octet_register says: no licence")
        kernel = 'octet::register_custom_kernel("acme.op.default", [](const octet::CustomCall&) {});'
        first = self.extension("first", kernel, '#include "lowering/program/custom_kernel.h"')
        second = self.extension("second", kernel, '#include "lowering/program/custom_kernel.h"')
        self.assertEqual(self.message(first, second), f"octet: library: {second}: its octet_register says: library: acme.op.default: already has a kernel; register only one")

    def test_a_library_given_twice_is_loaded_once(self):
        path = self.extension("kernel", 'octet::register_custom_kernel("acme.op.default", [](const octet::CustomCall&) {});',
                              '#include "lowering/program/custom_kernel.h"')
        self.assertIn("absent.pt2", self.message(path, path).split(": ")[2])

    def test_the_option_wants_a_value(self):
        self.octet("inspect", "x.pt2", "--library", code=2)


if __name__ == "__main__":
    unittest.main()
