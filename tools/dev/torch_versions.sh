#!/usr/bin/env bash
# tools/dev/torch_versions.sh VERSION...: builds the command and the Python packages beside other
# versions of torch (for example 2.14.1 2.15.0) and runs the packages' tests. pip installs builds with
# CUDA (5 GB each). Results are in build/torch; each version builds for ten minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
log() { echo "torch_versions: $*" >&2; }
[ $# -gt 0 ] || { log "no version, want at least one, such as 2.15.0"; exit 2; }

tests=(runtime model quantize steps quantizer search errors)
failed=()
for version in "$@"; do
  folder=$PWD/build/torch/$version
  python=$folder/env/bin/python
  mkdir -p "$folder/scratch"
  if [ ! -x "$python" ]; then
    log "$version: making an environment"
    python3 -m venv "$folder/env"
    "$python" -m pip install --quiet --disable-pip-version-check "torch==$version" numpy $(grep -E '^(onednn|nanobind)' tools/dev/requirements-build.txt)
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps $(grep '^torchao' tools/dev/requirements-models.txt)
  fi
  log "$version: building"
  cmake -S . -B "$folder/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DOCTET_VENV="$folder/env" -DPython_EXECUTABLE="$python" \
    -DOCTET_TESTS=OFF -DOCTET_MPI=OFF >"$folder/configure.log" 2>&1 || { cat "$folder/configure.log" >&2; exit 1; }
  cmake --build "$folder/build" --target octet octet_python octet_python_runtime >"$folder/build.log" || { tail -n 40 "$folder/build.log" >&2; exit 1; }
  for test in "${tests[@]}"; do
    log "$version: tests/python/test_$test.py"
    # In a separate folder, because some tests leave packed caches where they run.
    env -C "$folder/scratch" OCTET="$folder/build/bin/octet" OCTET_BUILD="$folder/build" OCTET_SCRATCH="$folder/scratch" \
      PYTHONPATH="$folder/build/python" "$python" -B "$PWD/tests/python/test_$test.py" || failed+=("$version:$test")
  done
done
[ ${#failed[@]} -eq 0 ] || { log "failed: ${failed[*]}"; exit 1; }
log "all tests pass with torch $*"
