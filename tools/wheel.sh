#!/usr/bin/env bash
# Makes the wheels of the Python packages, octet_runtime-*.whl and octet-*.whl, with the Python and the torch of an environment.
# tools/wheel.sh [--environment FOLDER] [--build FOLDER] [--out FOLDER]
#   --environment  a virtual environment with torch and what tools/requirements-build.txt has besides (.venv)
#   --build        the CMake build folder of both wheels (build/wheels/build); one that is there is built on
#   --out          where the wheels go (build/wheels)
set -euo pipefail
cd "$(dirname "$0")/.."

environment=$PWD/.venv
build=build/wheels/build
out=build/wheels
while [ $# -gt 0 ]; do
  case $1 in
    --environment) environment=$(realpath "$2"); shift 2 ;;
    --build) build=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    *) echo "wheel: unknown option $1, want --environment, --build or --out FOLDER" >&2; exit 2 ;;
  esac
done

log() { echo "wheel: $*" >&2; }
python=$environment/bin/python
[ -x "$python" ] || { log "no $python; run tools/setup.sh --no-build first"; exit 1; }

# Both are parts of one build with LibTorch, so that nothing is compiled twice.
for source in tools/python .; do
  log "building the wheel of $source"
  "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir "$out" "$source" \
    --config-settings=build-dir="$PWD/$build" --config-settings=cmake.define.OCTET_TORCH=ON \
    --config-settings=cmake.define.OCTET_VENV="$environment"
done

# What PyPI would take: a limit of our own for the size.
most=$((15 * 1024 * 1024))
for wheel in "$out"/octet*-*.whl; do
  bytes=$(stat -c %s "$wheel")
  log "$wheel: $((bytes / 1024)) KB"
  [ "$bytes" -le $most ] || { log "$wheel has more than 15 MB"; exit 1; }
done
