#!/usr/bin/env python3
"""Checks which files may include which.

1. A folder includes itself and the folders below it: core <- annotate <- quantizers, core <- lowering <- backends. Tools and tests include all.
   Within a folder the sub-folders have an order too (ORDER), and so have those of each backend: each includes itself and those before it.
2. The torch-free world (TORCH_FREE below) reaches no header of ATen, torch, c10 or caffe2, however many files lie in between.
3. The library knows no backend by name outside of backends/, and backends do not include each other.
4. No source names a path of one machine.
5. The headers of oneDNN, XNNPACK and pthreadpool are included by one file each, which makes their functions those of an opened library.

Prints one line per violation: file:line: what; exits with 1 when there is any.
"""
import argparse
import fnmatch
import pathlib
import re
import sys

SOURCES = {".h", ".cpp"}
TEXTS = SOURCES | {".py", ".sh", ".cmake", ".txt", ".json", ".md"}
FOLDERS = ["core", "annotate", "quantizers", "lowering", "backends", "tools", "tests"]
MAY_INCLUDE = {
    "core": {"core"},
    "annotate": {"annotate", "core"},
    "quantizers": {"quantizers", "annotate", "core"},
    "lowering": {"lowering", "core"},
    "backends": {"backends", "lowering", "core"},
}
# The sub-folders of each folder, and files by name, with or without their ending; "": the other files in the folder itself.
ORDER = {
    "core": ["torch_pch.h", "base", "graph", "ops", "pt2", "pattern", "text", "interpreter", "passes"],
    "annotate": ["annotation", "graph", "observers", "rules", "observed", "reference", "training", "calibrate", "prepare", "convert", "accuracy", "compare", "conformance"],
    "quantizers": ["common", "xnnpack", "x86", "embedding", "cache", "compose", "json", ""],
    "lowering": ["program", "import", "fuse", ""],
    "backends": ["common", "kernels", "reference", "onednn", "xnnpack", "registry", "runtime", "tokenizer", "generation", "plugin", "conformance", "torch"],
    "tools/python": ["runtime", "torch"],
    "backends/onednn": ["functions.h", "form", "library", "packed", "saturation", "kernels", "bytes", "builder", "emit", ""],
    "backends/xnnpack": ["function_list.h", "functions.h", "memory", "library", "form", "window", "kernels", ""],
    "tools": ["extension.h", "page", "onnx", "cli", "python", ""],
    "tools/cli": ["common", "processes", "compare", "quantize", "qat", "tune", "conformance", "commands", ""],
}
# octet_base, octet_program, the graph's own headers, and all that runs a program.
TORCH_FREE = [
    "core/base/*", "core/graph/*.h", "core/graph/graph.cpp", "core/text/text.h", "core/pattern/pattern.*", "core/ops/op_schema.h", "core/passes/*.h",
    "lowering/program/*", "backends/*", "tools/python/runtime/*",
]
# The backend that is LibTorch.
MAY_REACH_TORCH = "backends/torch/*"
TORCH_HEADER = re.compile(r"^(ATen|torch|c10|caffe2)/")
# header: the file that includes it.
ONLY_INCLUDED_BY = [
    (re.compile(r"^(oneapi/)?(dnnl/)?dnnl\w*\.h(pp)?$"), "backends/onednn/functions.h"),
    (re.compile(r"^(xnnpack|pthreadpool|cpuinfo)\.h$"), "backends/xnnpack/functions.h"),
    (re.compile(r"^(onnx\.pb\.h|google/protobuf/.*)$"), "tools/onnx/file.cpp"),
]
# A separate program, which uses nothing of the library.
MAY_LINK = {"tools/bench/kernel_peak.cpp"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
# Absolute paths that name a person's or a machine's folder. System folders are fine.
MACHINE_PATH = re.compile(r"""(?<![\w./$}\]*<])/(?:work|home|root|Users|tmp)/[A-Za-z0-9_.-]+""")
# Places that every machine has, spelled as examples or defaults.
ALLOWED_PATHS = re.compile(r"^/tmp/(\$|\{|XXXX)")


def includes_of(path):
    """(line number, is quoted, header) for each #include of the file."""
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            found.append((number, match.group(1) == '"', match.group(2)))
    return found


class Tree:
    def __init__(self, root):
        self.root = root
        self.includes = {}
        for folder in FOLDERS:
            for path in sorted((root / folder).rglob("*")):
                if path.suffix in SOURCES and path.is_file():
                    self.includes[path.relative_to(root).as_posix()] = includes_of(path)

    def resolve(self, name, header):
        """The file of this tree that a quoted include names, or None."""
        beside = (pathlib.PurePosixPath(name).parent / header).as_posix()
        for candidate in (header, "tests/" + header, beside):
            if candidate in self.includes:
                return candidate
        return None


def check_folders(tree):
    for name, includes in tree.includes.items():
        folder = name.split("/")[0]
        allowed = MAY_INCLUDE.get(folder)
        if allowed is None:
            continue
        for number, _, header in includes:
            target = tree.resolve(name, header)
            if target is None:
                continue
            other = target.split("/")[0]
            if other not in allowed:
                yield f"{name}:{number}: {folder}/ includes {target}; want only {', '.join(sorted(allowed))}"


def places_of(name):
    """{folder: entry of its order} of a file, for each folder around it that has an order."""
    if name.startswith(("tools/bench/", "tools/example_backend/")):
        return {}
    places = {}
    for folder, order in ORDER.items():
        if name.startswith(folder + "/"):
            rest = name[len(folder) + 1:]
            stem = rest.rpartition(".")[0]
            places[folder] = rest if rest in order else stem if stem in order else rest.partition("/")[0] if "/" in rest else ""
    return places


def check_order(tree):
    for name, includes in tree.includes.items():
        for folder, part in places_of(name).items():
            order = ORDER[folder]
            if part not in order:
                yield f"{name}:1: {folder}/{part} has no place in ORDER; give it one"
                continue
            allowed = order[:order.index(part) + 1]
            for number, _, header in includes:
                target = tree.resolve(name, header)
                other = target and places_of(target).get(folder)
                if other is not None and other not in allowed:
                    yield f"{name}:{number}: {folder}/{part} includes {target}; want only {', '.join(filter(None, allowed))}"


def torch_path(tree, name, seen):
    """The chain of files from `name` to a torch header, or None."""
    seen.add(name)
    for number, _, header in tree.includes[name]:
        if TORCH_HEADER.match(header):
            return [f"{name}:{number}", header]
    for number, _, header in tree.includes[name]:
        target = tree.resolve(name, header)
        if target is None or target in seen:
            continue
        chain = torch_path(tree, target, seen)
        if chain:
            return [f"{name}:{number}"] + chain
    return None


def check_torch_free(tree):
    for name in tree.includes:
        if not any(fnmatch.fnmatch(name, pattern) for pattern in TORCH_FREE):
            continue
        if fnmatch.fnmatch(name, MAY_REACH_TORCH):
            continue
        chain = torch_path(tree, name, set())
        if chain:
            yield f"{chain[0]}: must be free of torch, but reaches it: {' -> '.join(chain)}"


def check_backends(tree):
    """Only backends/registry and the runtime's session may see several backends."""
    shared = {"common", "conformance", "generation", "kernels", "runtime", "tokenizer", "registry.h",
              "registry.cpp"}
    for name, includes in tree.includes.items():
        parts = name.split("/")
        if parts[0] != "backends" or parts[1] in shared or len(parts) < 3:
            continue
        for number, _, header in includes:
            target = tree.resolve(name, header)
            if target is None or not target.startswith("backends/"):
                continue
            other = target.split("/")[1]
            if other != parts[1] and other not in shared and "/" in target[len("backends/"):] and other != "reference":
                yield f"{name}:{number}: backend {parts[1]} includes {target}; backends must not know each other"


def check_opened_libraries(tree):
    for name, includes in tree.includes.items():
        for number, _, header in includes:
            for pattern, only in ONLY_INCLUDED_BY:
                if pattern.match(header) and name != only and name not in MAY_LINK:
                    yield f"{name}:{number}: includes {header}, so that its functions would be linked; include {only}"


def check_paths(root):
    own = pathlib.Path(__file__).resolve()
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in TEXTS or not path.is_file() or path.resolve() == own:
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                for match in MACHINE_PATH.finditer(line):
                    if not ALLOWED_PATHS.match(match.group(0)):
                        yield f"{path.relative_to(root).as_posix()}:{number}: names {match.group(0)}, a path of one machine; pass it in"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=pathlib.Path, nargs="?", default=pathlib.Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root
    tree = Tree(root)
    violations = [*check_folders(tree), *check_order(tree), *check_torch_free(tree), *check_backends(tree), *check_opened_libraries(tree), *check_paths(root)]
    for violation in violations:
        print(violation)
    print(f"{len(tree.includes)} files, {len(violations)} violations", file=sys.stderr)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
