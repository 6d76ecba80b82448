#!/usr/bin/env bash
# tools/dev/packages.sh [--check]: makes Debian packages in build/packages: liboctet-runtime1 and -dev
# (no LibTorch), octet and liboctet-dev (with it), and a list of their contents (SPDX).
#   --check   installs them in fresh roots of Debian 12 and 13 and runs the command and a C program
set -euo pipefail
cd "$(dirname "$0")/../.."
log() { echo "packages: $*" >&2; }

out=build/packages
build=$out/build
case ${1:-} in
  '') check= ;;
  --check) check=yes ;;
  *) echo "packages: unknown option $1, want --check" >&2; exit 2 ;;
esac
[ -x .venv/bin/python ] || { log "no .venv; run tools/setup.sh --no-build first"; exit 1; }

# The times inside are those of the last commit.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON -DOCTET_PACKAGES=ON \
  -DOCTET_TESTS=OFF -DOCTET_PYTHON_PACKAGES=OFF -DOCTET_MPI=OFF >/dev/null
log "building"
cmake --build $build -- --quiet
rm -f $out/*.deb
(cd $build && cpack -B "$OLDPWD/$out/files" >cpack.log 2>&1) || { tail -n 20 $build/cpack.log >&2; exit 1; }
mv $out/files/*.deb $out/
rm -rf $out/files
.venv/bin/python tools/dev/sbom.py $out/*.deb >$out/octet.spdx.json
for package in $out/*.deb; do
  log "$package: $(($(stat -c %s "$package") / 1024)) KB, sha256 $(sha256sum "$package" | cut -c1-16)..."
done
[ -n "$check" ] || exit 0

# ---- in fresh roots
[ "$(id -u)" -eq 0 ] || { log "--check wants to be root, for chroot and mounts"; exit 1; }
command -v debootstrap >/dev/null || apt-get install -y -qq --no-install-recommends debootstrap >/dev/null
mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Identifier: Packages' | awk -v release="$(. /etc/os-release && echo "$VERSION_CODENAME")" '$2 == release && !seen++ {print $1}')
eval "$(apt-config shell http_proxy Acquire::http::Proxy https_proxy Acquire::https::Proxy)"
export http_proxy=${http_proxy:-} https_proxy=${https_proxy:-}
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
for release in bookworm trixie; do
  root=$out/roots/$release
  log "$release: a fresh root"
  rm -rf $root
  mkdir -p $out/roots
  debootstrap --variant=minbase $release $root "$mirror" >$out/roots/$release.log || { tail -n 20 $out/roots/$release.log >&2; exit 1; }
  mkdir $root/work
  cp $out/*.deb "$work"/* $root/work/
  OCTET_ROOT=$root unshare --mount --propagation private bash -euc '
    mount -t proc proc "$OCTET_ROOT/proc"
    mount --rbind /dev "$OCTET_ROOT/dev"
    exec chroot "$OCTET_ROOT" /usr/bin/env -C /work DEBIAN_FRONTEND=noninteractive bash -s' <<'INSIDE' >>$out/roots/$release.log 2>&1 ||
set -euo pipefail
apt-get install -y --no-install-recommends ./octet_*.deb ./liboctet-runtime1_*.deb
octet doctor
octet quantize model.pt2 --quantizer xnnpack --calibration data.pt --output q.pt2
for backend in onednn xnnpack; do
  octet lower q.pt2 --backend $backend --output $backend.octet
  octet run $backend.octet --inputs x.pt --outputs y.pt
done
apt-get remove -y octet
apt-get install -y --no-install-recommends ./liboctet-runtime-dev_*.deb g++ cmake make
cmake -S . -B app
cmake --build app
for backend in onednn xnnpack; do ./app/app $backend.octet >y.raw; done
echo "all works"
INSIDE
    { tail -n 20 $out/roots/$release.log >&2; exit 1; }
  log "$release: installed, quantized, lowered and ran a program; a program in C found the package and ran it"
done
