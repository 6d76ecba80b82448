#!/usr/bin/env bash
# Makes wheels of the Python packages, octet_runtime-*.whl and octet-*.whl, each tagged for the
# oldest Linux (manylinux) that has what it asks for.
# tools/dev/wheel.sh [--environment FOLDER] [--python PYTHON]... [--runtime-only] [--build FOLDER]
#                [--out FOLDER]
#   --environment   the virtual environment whose LibTorch and oneDNN are taken (.venv)
#   --python        for which CPython, a command or a path, such as python3.12; several times for
#                   several. From 3.12 on one wheel serves all later ones. Default: that of the
#                   environment. It needs no torch
#   --runtime-only  octet_runtime alone, without LibTorch: the environment needs oneDNN alone
#   --build         the CMake build folder (build/wheels/build, with --runtime-only
#                   build/wheels/runtime); one that is there is built on: each further Python
#                   compiles the modules alone
#   --out           where the wheels go (build/wheels)
# Each Python gets an environment with the tools that build wheels, build/wheels/tools-3.N.
set -euo pipefail
cd "$(dirname "$0")/../.."

environment=$PWD/.venv
build=
out=build/wheels
pythons=()
packages=(tools/python .)
torch=ON
while [ $# -gt 0 ]; do
  case $1 in
    --environment) environment=$(realpath "$2"); shift 2 ;;
    --python) pythons+=("$2"); shift 2 ;;
    --runtime-only) packages=(tools/python); torch=OFF; shift ;;
    --build) build=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    *)
      echo "wheel: unknown option $1, want --environment, --build or --out FOLDER," \
        "--python PYTHON or --runtime-only" >&2
      exit 2 ;;
  esac
done
if [ -z "$build" ]; then
  [ $torch = ON ] && build=build/wheels/build || build=build/wheels/runtime
fi
[ ${#pythons[@]} -gt 0 ] || pythons=("$environment/bin/python")

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
# PyPI takes no more than 100 MB; a limit of our own.
most=$((15 * 1024 * 1024))

for python in "${pythons[@]}"; do
  tools=$(build_tools "$python")
  for source in "${packages[@]}"; do
    log "building the wheel of $source for $("$python" -V)"
    raw=$(mktemp -d)
    # Both packages are parts of one build, so that nothing is compiled twice. What CMake found for
    # another Python is forgotten.
    settings=(build-dir="$PWD/$build" cmake.define.OCTET_TORCH=$torch
      cmake.define.OCTET_VENV="$environment" "cmake.args=-U_Python_*;-Unanobind_DIR")
    PATH=$tools/bin:$PATH OCTET_TORCH_SITE=$site "$tools/bin/python" -m pip wheel --quiet \
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
    bytes=$(stat -c %s "$made")
    log "$made: $((bytes / 1024)) KB"
    [ "$bytes" -le $most ] || { log "$made has more than 15 MB"; exit 1; }
    rm -r "$raw"
  done
done
