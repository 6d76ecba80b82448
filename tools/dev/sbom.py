#!/usr/bin/env python3
"""What is inside of Debian packages, as SPDX 2.3 in JSON: parts with versions and licences, files with their hashes.

    sbom.py PACKAGE.deb... >octet.spdx.json

tools/dev/packages.sh calls it.
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


# name -> (version, licence, home page, what of the packages it is: a pattern of paths, None for what is compiled in)
PARTS = {
    "libtorch": (lambda: pypi("torch"), "BSD-3-Clause", "https://pytorch.org", r"/lib/octet/torch/"),
    "oneDNN": (lambda: pypi("onednn-devel-cpu-gomp"), "Apache-2.0", "https://github.com/uxlfoundation/oneDNN", r"/lib/octet/libdnnl"),
    "XNNPACK": (lambda: debian("libxnnpack0"), "BSD-3-Clause", "https://github.com/google/XNNPACK", r"/lib/octet/libXNNPACK"),
    "pthreadpool": (lambda: debian("libpthreadpool0"), "BSD-2-Clause", "https://github.com/google/pthreadpool", r"/lib/octet/libpthreadpool"),
    "cpuinfo": (lambda: debian("libcpuinfo0"), "BSD-2-Clause", "https://github.com/pytorch/cpuinfo", r"/lib/octet/libcpuinfo"),
    "nlohmann_json": (lambda: debian("nlohmann-json3-dev"), "MIT", "https://github.com/nlohmann/json", None),
    "fmt": (lambda: debian("libfmt-dev"), "MIT", "https://fmt.dev", None),
    "xxHash": (lambda: debian("libxxhash-dev"), "BSD-2-Clause", "https://xxhash.com", None),
    "CLI11": (lambda: debian("libcli11-dev"), "BSD-3-Clause", "https://github.com/CLIUtils/CLI11", None),
    "protobuf": (lambda: debian("libprotobuf-dev"), "BSD-3-Clause", "https://protobuf.dev", None),
    "d3": (lambda: vendored("d3"), "ISC", "https://d3js.org", None),
    "plot": (lambda: vendored("plot"), "ISC", "https://observablehq.com/plot", None),
    "dagre": (lambda: vendored("dagre"), "MIT", "https://github.com/dagrejs/dagre", None),
}
COMMAND = ("CLI11", "protobuf", "d3", "plot", "dagre")  # of what is compiled in, what the command alone has


def vendored(name):
    """The version of a script in tools/page/vendor, as the table there says."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "page", "vendor", "README.md")
    with open(path, encoding="utf-8") as file:
        found = re.search(rf"`{name}\.min\.js` \| `[^`]+` ([0-9.]+)", file.read())
    return found.group(1) if found else NOTHING


def spdx_id(*words):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]+", "-", "-".join(words)).strip("-")


def package(name, version, licence, home):
    return {
        "SPDXID": spdx_id("Package", name),
        "name": name,
        "versionInfo": version,
        "downloadLocation": home,
        "filesAnalyzed": False,
        "licenseConcluded": licence,
        "licenseDeclared": licence,
        "copyrightText": NOTHING,
    }


def fields_of(deb):
    text = subprocess.run(["dpkg-deb", "--field", deb], check=True, capture_output=True, text=True).stdout
    return dict(line.split(": ", 1) for line in text.splitlines() if re.match(r"[A-Za-z-]+: ", line))


def files_of(deb):
    """(path, content) of each file."""
    data = subprocess.run(["dpkg-deb", "--fsys-tarfile", deb], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for entry in archive:
            if entry.isfile():
                yield entry.name, archive.extractfile(entry).read()


def document(debs):
    packages = {name: package(name, version(), licence, home) for name, (version, licence, home, _) in PARTS.items()}
    files, relations = [], []

    def relate(one, kind, other):
        relations.append({"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other})

    hashes = hashlib.sha256()
    for deb in debs:
        fields = fields_of(deb)
        name = fields["Package"]
        packages[name] = own = package(name, fields["Version"], "Apache-2.0", NOTHING)
        relate("SPDXRef-DOCUMENT", "DESCRIBES", own["SPDXID"])
        for path, content in files_of(deb):
            part = next((part for part, row in PARTS.items() if row[3] and re.search(row[3], path)), None)
            digest = hashlib.sha256(content).hexdigest()
            hashes.update(digest.encode())
            entry = {
                "SPDXID": spdx_id("File", name, path),
                "fileName": path,
                "checksums": [
                    {"algorithm": "SHA1", "checksumValue": hashlib.sha1(content).hexdigest()},
                    {"algorithm": "SHA256", "checksumValue": digest},
                ],
                "licenseConcluded": PARTS[part][1] if part else NOTHING if "/third-party/" in path else "Apache-2.0",
                "copyrightText": NOTHING,
            }
            files.append(entry)
            relate(own["SPDXID"], "CONTAINS", entry["SPDXID"])
            if part:
                relate(packages[part]["SPDXID"], "CONTAINS", entry["SPDXID"])
        for part, row in PARTS.items():
            if row[3] is None and name.startswith(OCTET if part in COMMAND else ("lib", OCTET)):
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


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("sbom: want PACKAGE.deb...")
    json.dump(document(sys.argv[1:]), sys.stdout, indent=1)
    print()
