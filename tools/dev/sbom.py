#!/usr/bin/env python3
"""What is inside of Debian packages and wheels, as SPDX 2.3 in JSON: parts with versions and licenses, files with their hashes.

    sbom.py PACKAGE.deb... WHEEL.whl... >octet.spdx.json
    sbom.py --compare OLD.spdx.json NEW.spdx.json     prints the files that differ

tools/release.sh calls it.
"""
import hashlib
import importlib.metadata
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import time
import zipfile

NOTHING = "NOASSERTION"
OCTET = "octet"


def debian(package):
    """The version of an installed package of this Debian."""
    result = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True)
    return result.stdout or NOTHING


def pypi(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return NOTHING


# name -> (version, license, home page, what of a package it is: a pattern of paths; what it is compiled into: a pattern of names of packages or files)
EVERYWHERE, COMMAND, WHEELS = r"", r"^octet$", r"\.whl$"
PARTS = {
    "libtorch": (lambda: pypi("torch"), "BSD-3-Clause", "https://pytorch.org", r"/lib/octet/torch/", None),
    "oneDNN": (lambda: pypi("onednn-devel-cpu-gomp"), "Apache-2.0", "https://github.com/uxlfoundation/oneDNN", r"/lib/(octet/)?libdnnl", None),
    "XNNPACK": (lambda: debian("libxnnpack0"), "BSD-3-Clause", "https://github.com/google/XNNPACK", r"/lib/(octet/)?libXNNPACK", None),
    "pthreadpool": (lambda: debian("libpthreadpool0"), "BSD-2-Clause", "https://github.com/google/pthreadpool", r"/lib/(octet/)?libpthreadpool", None),
    "cpuinfo": (lambda: debian("libcpuinfo0"), "BSD-2-Clause", "https://github.com/pytorch/cpuinfo", r"/lib/(octet/)?libcpuinfo", None),
    "libgomp": (lambda: debian("libgomp1"), "GPL-3.0-or-later WITH GCC-exception-3.1", "https://gcc.gnu.org", r"/lib/libgomp", None),
    "nlohmann_json": (lambda: debian("nlohmann-json3-dev"), "MIT", "https://github.com/nlohmann/json", None, EVERYWHERE),
    "fmt": (lambda: debian("libfmt-dev"), "MIT", "https://fmt.dev", None, EVERYWHERE),
    "xxHash": (lambda: debian("libxxhash-dev"), "BSD-2-Clause", "https://xxhash.com", None, EVERYWHERE),
    "CLI11": (lambda: debian("libcli11-dev"), "BSD-3-Clause", "https://github.com/CLIUtils/CLI11", None, COMMAND),
    "protobuf": (lambda: debian("libprotobuf-dev"), "BSD-3-Clause", "https://protobuf.dev", r"/lib/libprotobuf", COMMAND),
    "nanobind": (lambda: pypi("nanobind"), "BSD-3-Clause", "https://github.com/wjakob/nanobind", None, WHEELS),
    "d3": (lambda: vendored("d3"), "ISC", "https://d3js.org", None, COMMAND),
    "plot": (lambda: vendored("plot"), "ISC", "https://observablehq.com/plot", None, COMMAND),
    "dagre": (lambda: vendored("dagre"), "MIT", "https://github.com/dagrejs/dagre", None, COMMAND),
}


def vendored(name):
    """The version of a script in tools/page/vendor, as the table there says."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "page", "vendor", "README.md")
    with open(path, encoding="utf-8") as file:
        found = re.search(rf"`{name}\.min\.js` \| `[^`]+` ([0-9.]+)", file.read())
    return found.group(1) if found else NOTHING


def spdx_id(*words):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]+", "-", "-".join(words)).strip("-")


def package(name, version, license, home, file=None):
    return {
        "SPDXID": spdx_id("Package", file or name),
        "name": name,
        **({"packageFileName": file} if file else {}),
        "versionInfo": version,
        "downloadLocation": home,
        "filesAnalyzed": False,
        "licenseConcluded": license,
        "licenseDeclared": license,
        "copyrightText": NOTHING,
    }


def content_of(path):
    """(name, version, [(path, content) of each file])"""
    if path.endswith(".whl"):
        with zipfile.ZipFile(path) as archive:
            files = [(name, archive.read(name)) for name in archive.namelist()]
        text = next(content for name, content in files if name.endswith(".dist-info/METADATA")).decode()
        names = "Name", "Version"
    else:
        text = subprocess.run(["dpkg-deb", "--field", path], check=True, capture_output=True, text=True).stdout
        data = subprocess.run(["dpkg-deb", "--fsys-tarfile", path], check=True, capture_output=True).stdout
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            files = [(entry.name, archive.extractfile(entry).read()) for entry in archive if entry.isfile()]
        names = "Package", "Version"
    return *(re.search(f"^{name}: (.*)$", text, re.MULTILINE)[1] for name in names), files


def document(paths):
    packages = {name: package(name, version(), license, home) for name, (version, license, home, *_) in PARTS.items()}
    files, relations = [], []

    def relate(one, kind, other):
        relations.append({"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other})

    hashes = hashlib.sha256()
    for file in paths:
        name, version, contents = content_of(file)
        packages[file] = own = package(name, version, "Apache-2.0", NOTHING, file)
        relate("SPDXRef-DOCUMENT", "DESCRIBES", own["SPDXID"])
        inside = set()
        for path, content in contents:
            part = next((part for part, row in PARTS.items() if row[3] and re.search(row[3], path)), None)
            digest = hashlib.sha256(content).hexdigest()
            hashes.update(digest.encode())
            entry = {
                "SPDXID": spdx_id("File", file, path),
                "fileName": path,
                "checksums": [
                    {"algorithm": "SHA1", "checksumValue": hashlib.sha1(content).hexdigest()},
                    {"algorithm": "SHA256", "checksumValue": digest},
                ],
                "licenseConcluded": PARTS[part][1] if part else NOTHING if re.search("/(third-party|licenses)/", path) else "Apache-2.0",
                "copyrightText": NOTHING,
            }
            files.append(entry)
            relate(own["SPDXID"], "CONTAINS", entry["SPDXID"])
            if part:
                inside.add(part)
                relate(packages[part]["SPDXID"], "CONTAINS", entry["SPDXID"])
        for part, row in PARTS.items():
            if row[4] is not None and part not in inside and (re.search(row[4], name) or re.search(row[4], file)):
                relate(packages[part]["SPDXID"], "STATIC_LINK" if part not in ("d3", "plot", "dagre") else "CONTAINED_BY", own["SPDXID"])
    created = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": OCTET,
        "documentNamespace": f"https://spdx.org/spdxdocs/{OCTET}-{hashes.hexdigest()}",
        "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ", created), "creators": ["Tool: tools/dev/sbom.py"]},
        "packages": list(packages.values()),
        "files": files,
        "relationships": relations,
    }


def differences(old, new):
    """Names of files whose content differs, or that only one of two documents has."""
    sums = []
    for path in (old, new):
        with open(path, encoding="utf-8") as file:
            told = json.load(file)
        sums.append({entry["SPDXID"].removeprefix("SPDXRef-File-"): entry["checksums"][1]["checksumValue"] for entry in told["files"]})
    return sorted(name for name in sums[0].keys() | sums[1].keys() if sums[0].get(name) != sums[1].get(name))


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "--compare":
        print(*differences(*sys.argv[2:]), sep="\n")
    elif len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        json.dump(document(sys.argv[1:]), sys.stdout, indent=1)
        print()
    else:
        sys.exit("sbom: want PACKAGE.deb... and WHEEL.whl..., or --compare OLD.spdx.json NEW.spdx.json")
