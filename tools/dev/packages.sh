#!/usr/bin/env bash
# tools/dev/packages.sh [OPTION]...: makes Debian packages: liboctet-runtime1 and -dev (no LibTorch),
# octet and liboctet-dev (with it). The times inside are SOURCE_DATE_EPOCH, by default that of the last
# commit.
#   --runtime-only  makes the first two only
#   --arm64         makes these two for 64-bit ARM, with XNNPACK
#   --build FOLDER  the CMake build folder (build/packages/build, build/packages/runtime or
#                   build/aarch64/build); that of tools/dev/wheel.sh works too, and compiles nothing again
#   --out FOLDER    where the packages go (build/packages)
#   --check         installs them in fresh roots of Debian 12 and 13, measures what the recipe
#                   tools/dev/Dockerfile adds, and runs the command and a C program
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/dev/progress.sh
. tools/dev/root.sh
log() { echo "packages: $*" >&2; }

build=
out=build/packages
check=
torch=ON
system=()
architecture=$(dpkg --print-architecture)
while [ $# -gt 0 ]; do
  case $1 in
    --runtime-only) torch=OFF; shift ;;
    --arm64) torch=OFF; architecture=arm64; system=(-DCMAKE_TOOLCHAIN_FILE=tools/cmake/aarch64.cmake -DOCTET_ONEDNN=OFF); shift ;;
    --build) build=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    --check) check=yes; shift ;;
    *)
      echo "packages: unknown option $1, want --runtime-only, --arm64, --build or --out FOLDER, or" \
        "--check" >&2
      exit 2 ;;
  esac
done
[ ${#system[@]} -eq 0 ] || [ -z "$check" ] ||
  { log "--check: cannot install packages of --arm64 on this machine; leave one of the two out"; exit 2; }
if [ -z "$build" ]; then
  [ $torch = ON ] && build=build/packages/build || build=build/packages/runtime
  [ ${#system[@]} -eq 0 ] || build=build/aarch64/build
fi
[ ${#system[@]} -gt 0 ] || [ -x .venv/bin/python ] ||
  { log "no .venv; run tools/setup.sh --no-build first"; exit 1; }
[ ${#system[@]} -eq 0 ] || tools/dev/aarch64.sh --sysroot

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
out=$(realpath -m "$out")
mkdir -p "$out"
rm -f "$out"/*_"$architecture".deb
# What GNUInstallDirs knows of another prefix, such as that of wheels, would replace LIBDIR.
cmake -S . -B "$build" -G Ninja "${system[@]}" '-U_GNUInstallDirs_*' -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_INSTALL_LIBDIR=lib -DOCTET_PACKAGES=ON \
  -DOCTET_TORCH=$torch -DOCTET_TESTS=OFF -DOCTET_PYTHON_PACKAGES=OFF -DOCTET_MPI=OFF >/dev/null
watched "packages: build" "$build/build.log" cmake --build "$build"
watched "packages: cpack" "$build/cpack.log" env -C "$build" cpack -B "$out/files"
for package in "$out"/files/*.deb; do
  mv "$package" "$out"
  package=$out/$(basename "$package")
  log "$package: $(($(stat -c %s "$package") / 1024)) KB, sha256 $(sha256sum "$package" | cut -c1-16)..."
done
rm -rf "$out/files"
[ -n "$check" ] || exit 0

# ---- in fresh roots
check_root packages
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
.venv/bin/python - "$work" <<'PYTHON'
import sys, torch
folder = sys.argv[1]
net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 4)).eval()
data = [(torch.randn(1, 3, 16, 16),) for _ in range(8)]
torch.export.save(torch.export.export(net, data[0]), f"{folder}/model.pt2")
torch.save(data, f"{folder}/data.pt")
torch.save(data[0], f"{folder}/x.pt")
PYTHON
cp backends/runtime/example.c "$work"
cat >"$work/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(app C CXX)
find_package(octet REQUIRED COMPONENTS runtime runtime_shared)
add_executable(app example.c)
target_link_libraries(app octet::runtime_shared)
CMAKE
# Megabytes in a root, without what images do not keep.
size_of() { du -s -B 1000000 --exclude=./var/cache/apt --exclude=./packages "$1/." | cut -f 1; }
most=60
recipe=$(sed -n 's/^RUN --mount=[^ ]* //p' tools/dev/Dockerfile)
for release in bookworm trixie; do
  root=build/packages/roots/$release
  log "$release: a fresh root"
  make_root $release "$root"
  mkdir "$root/packages"
  cp "$out"/*.deb "$work"/* "$root/packages"
  rm -rf "$root"/var/lib/apt/lists/*
  before=$(size_of "$root")
  inside "$root" / DEBIAN_FRONTEND=noninteractive bash -euc "$recipe" >>"$root.log" 2>&1 || { tail -n 20 "$root.log" >&2; exit 1; }
  added=$(($(size_of "$root") - before))
  log "$release: the runtime adds $added MB"
  [ $added -le $most ] || { log "$release: want at most $most MB"; exit 1; }
  [ $torch = ON ] || continue
  inside "$root" /packages DEBIAN_FRONTEND=noninteractive bash -s <<'INSIDE' >>"$root.log" 2>&1 || { tail -n 20 "$root.log" >&2; exit 1; }
set -euo pipefail
apt-get update -qq
apt-get install -y --no-install-recommends ./octet_*.deb
octet doctor
octet quantize model.pt2 --quantizer xnnpack --calibration data.pt --output q.pt2
for backend in onednn xnnpack; do
  octet lower q.pt2 --backend $backend --output $backend.octet
  octet run $backend.octet --inputs x.pt --outputs y.pt
done
apt-get remove -y octet
apt-get install -y --no-install-recommends ./liboctet-runtime-dev_*_$(dpkg --print-architecture).deb g++ cmake make
cmake -S . -B app
cmake --build app
for backend in onednn xnnpack; do ./app/app $backend.octet >y.raw; done
echo "all works"
INSIDE
  log "$release: installed, quantized, lowered and ran a program; a program in C found the package and ran it"
done
