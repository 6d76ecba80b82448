"""--library: what a user's shared library can do wrong, one line each; and that what it registers is there."""
import os
import re
import subprocess
import unittest

from support import CommandTest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HEADERS = "tools/cmake/public_headers.txt"
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
        match = re.fullmatch(r"octet: library: .*libold\.so: is built for another Octet, got octet 0\.0\.1, want (.*); build it again against this Octet", line)
        self.assertTrue(match, line)
        return match[1]

    def extension(self, name, body, head=""):
        return self.library(name, f'{head}\nextern "C" const char* octet_extension_version() {{ return "{self.version()}"; }}\n'
                                  f'extern "C" void octet_register() {{ {body} }}\n')

    def test_files_that_are_no_library(self):
        self.assertEqual(self.message(self.path("none.so")), f"octet: library: {self.path('none.so')}: not found; check the path")
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
        path = self.extension("angry", 'throw std::runtime_error("no license\\nsecond line");', "#include <stdexcept>")
        self.assertEqual(self.message(path), f"octet: library: {path}: its octet_register says: no license")
        kernel = 'octet::register_custom_kernel("acme.op.default", [](const octet::CustomCall&) {});'
        first = self.extension("first", kernel, '#include "lowering/program/custom_kernel.h"')
        second = self.extension("second", kernel, '#include "lowering/program/custom_kernel.h"')
        self.assertEqual(self.message(first, second), f"octet: library: {second}: its octet_register says: library: acme.op.default: already has a kernel; register only one")

    def versioned(self, name, version):
        """What is said of a library of this version."""
        line = self.message(self.library(name, f'extern "C" const char* octet_extension_version() {{ return "{version}"; }} extern "C" void octet_register() {{}}'))
        return line.split(f"lib{name}.so: ")[-1]

    def test_libraries_of_another_build(self):
        own = self.version()
        self.assertRegex(own, r"^octet [\d.]+, torch [\w.+]+, headers [0-9a-f]{12}, (gcc|clang), lib(std)?c\+\+[\w +]*$")
        headers = re.search(r"headers [0-9a-f]+", own)[0]
        want = "is built for another Octet, got %s, want %s; build it again against this Octet"
        self.assertEqual(self.versioned("headers", own.replace(headers, "headers 0123456789ab")), want % ("headers 0123456789ab", headers))
        self.assertEqual(self.versioned("abi", re.sub("lib(std)?c.*", "libstdc++ with the old ABI", own)), want % ("libstdc++ with the old ABI", own.split(", ")[-1]))
        self.assertEqual(self.versioned("older", own.split(", headers")[0]), want % (own.split(", headers")[0], headers + own.split(headers)[1]))
        path = self.library("gone", 'namespace octet { void gone(int); } extern "C" void octet_register() { octet::gone(1); }')
        self.assertRegex(self.message(path), r"cannot be loaded: undefined symbol: _ZN5octet4goneEi; build it again against this Octet$")

    def headers_hash(self, change=lambda header, text: text):
        """The hash of a copy of the public headers with a change."""
        with open(os.path.join(ROOT, HEADERS)) as file:
            listed = [line for line in file.read().splitlines() if line and line[0] not in "#<"]
        for header in [HEADERS, *listed]:
            os.makedirs(os.path.dirname(self.path(header)), exist_ok=True)
            with open(os.path.join(ROOT, header)) as source, open(self.path(header), "w") as copy:
                copy.write(change(header, source.read()))
        script = os.path.join(ROOT, "tools/cmake/headers_hash.cmake")
        subprocess.run(["cmake", f"-DROOT={self.folder}", f"-DOUTPUT={self.path('hash.h')}", "-P", script], check=True)
        with open(self.path("hash.h")) as file:
            return re.search('OCTET_HEADERS_HASH "([0-9a-f]{12})"', file.read())[1]

    def test_the_hash_is_that_of_the_headers(self):
        own = self.headers_hash()
        self.assertIn(f"headers {own}, ", self.version())
        quantizer = "annotate/annotation/quantizer.h"

        def changed(old, new):
            def change(header, text):
                self.assertTrue(header != quantizer or old in text)
                return text.replace(old, new) if header == quantizer else text

            return self.headers_hash(change)

        self.assertEqual(changed("#pragma once\n", "#pragma once  // a comment\n\n"), own)
        self.assertNotEqual(changed("virtual ~Quantizer()", "virtual void more(); virtual ~Quantizer()"), own)

    def test_a_library_given_twice_is_loaded_once(self):
        path = self.extension("kernel", 'octet::register_custom_kernel("acme.op.default", [](const octet::CustomCall&) {});',
                              '#include "lowering/program/custom_kernel.h"')
        self.assertIn("absent.pt2", self.message(path, path).split(": ")[2])

    def test_the_option_wants_a_value(self):
        self.octet("inspect", "x.pt2", "--library", code=2)


if __name__ == "__main__":
    unittest.main()
