#!/usr/bin/env bash
# tools/dev/wheel.sh [OPTION]...: builds wheels of the Python packages, octet_runtime-*.whl and
# octet-*.whl, tagged for the oldest Linux (manylinux) that they support.
#   --environment FOLDER  the virtual environment with LibTorch and oneDNN (.venv)
#   --python PYTHON       the CPython to build for, a command or a path; repeat it for several.
#                         Default: that of the environment. It needs no torch. From 3.12 on one wheel
#                         serves all later versions
#   --runtime-only        builds octet_runtime only, without LibTorch
#   --build FOLDER        the CMake build folder (build/wheels/build, or build/wheels/runtime with
#                         --runtime-only). If it exists, a further Python compiles only the modules
#   --out FOLDER          where the wheels go (build/wheels)
set -euo pipefail

environment=
build=
out=
pythons=()
packages=(tools/python .)
torch=ON
while [ $# -gt 0 ]; do
  case $1 in
    --environment) environment=$(realpath -m "${2:?wheel: --environment wants a folder}"); shift 2 ;;
    --python) pythons+=("${2:?wheel: --python wants a Python}"); shift 2 ;;
    --runtime-only) packages=(tools/python); torch=OFF; shift ;;
    --build) build=$(realpath -m "${2:?wheel: --build wants a folder}"); shift 2 ;;
    --out) out=$(realpath -m "${2:?wheel: --out wants a folder}"); shift 2 ;;
    *)
      echo "wheel: unknown option $1, want --environment, --build or --out FOLDER," \
        "--python PYTHON or --runtime-only" >&2
      exit 2 ;;
  esac
done
cd "$(dirname "$0")/../.."
environment=${environment:-$PWD/.venv}
out=${out:-$PWD/build/wheels}
if [ -z "$build" ]; then
  [ $torch = ON ] && build=$PWD/build/wheels/build || build=$PWD/build/wheels/runtime
fi
[ ${#pythons[@]} -gt 0 ] || pythons=("$environment/bin/python")

. tools/dev/progress.sh
log() { echo "wheel: $*" >&2; }
[ -x "$environment/bin/python" ] ||
  { log "no $environment/bin/python; run tools/setup.sh --no-build first"; exit 1; }
# Not the one that each Python was built with, which may differ, and all would be compiled again.
export CC=${CC:-cc} CXX=${CXX:-c++}
site=$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

# build_tools PYTHON: makes the environment with the tools, and prints its folder.
build_tools() {
  local version folder
  version=$("$1" -c 'import sys; print("3.%d" % sys.version_info.minor)')
  folder=$PWD/build/wheels/tools-$version
  if [ ! -e "$folder/complete" ]; then
    "$1" -m venv --clear "$folder" >&2
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check \
      $(grep -E '^(nanobind|scikit-build-core)' tools/dev/requirements-build.txt) \
      -r tools/dev/requirements-wheels.txt >&2
    touch "$folder/complete"
  fi
  echo "$folder"
}

# What octet finds elsewhere, so that nothing is copied for it: LibTorch comes with torch, which is
# imported first, and OpenMP with torch or octet_runtime. octet_runtime is whole.
elsewhere="--exclude libtorch_cpu.so --exclude libc10.so --exclude libgomp.so.1"
declare -A foreign=([.]=$elsewhere [tools/python]="")
# PyPI accepts 100 MB; keep wheels much smaller.
most=$((15 * 1024 * 1024))

for python in "${pythons[@]}"; do
  tools=$(build_tools "$python")
  for source in "${packages[@]}"; do
    log "building the wheel of $source for $("$python" -V)"
    raw=$(mktemp -d)
    # Both packages are parts of one build, so that nothing is compiled twice. What CMake found for
    # another Python is forgotten.
    settings=(build-dir="$build" cmake.define.OCTET_TORCH=$torch
      cmake.define.OCTET_PYTHON_PACKAGES=ON cmake.define.OCTET_PACKAGES=OFF
      cmake.define.OCTET_VENV="$environment" "cmake.args=-U_Python_*;-Unanobind_DIR")
    watched "wheel: build" build/wheels/build.log \
      env PATH="$tools/bin:$PATH" OCTET_TORCH_SITE="$site" "$tools/bin/python" -m pip wheel -v \
      --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir "$raw" "$source" \
      "${settings[@]/#/--config-settings=}"
    # Nothing is put in; the wheel gets its tag, or auditwheel says what is in the way.
    mkdir -p "$out"
    PATH=$tools/bin:$PATH "$tools/bin/auditwheel" --verbose repair ${foreign[$source]} \
      --zip-compression-level 9 --wheel-dir "$out" "$raw"/*.whl >"$raw/log" 2>&1 ||
      { cat "$raw/log" >&2; exit 1; }
    made=$out/$(sed -n 's/.*Fixed-up wheel written to .*\///p' "$raw/log")
    if "$tools/bin/python" -m zipfile -l "$made" | grep -F .libs/ >&2; then
      log "$made: auditwheel put these libraries in, which are neither octet's nor torch's"
      exit 1
    fi
    glibc=$(sed -n 's/.*manylinux_2_\([0-9]*\)_.*/\1/p' <<<"$made")
    [ "${glibc:-0}" -le 34 ] || { log "$made needs glibc 2.$glibc, want at most 2.34, that of the other wheels"; exit 1; }
    bytes=$(stat -c %s "$made")
    log "$made: $((bytes / 1024)) KB"
    [ "$bytes" -le $most ] || { log "$made has more than 15 MB"; exit 1; }
    rm -r "$raw"
  done
done
