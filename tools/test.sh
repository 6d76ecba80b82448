#!/usr/bin/env bash
# Sets everything up and runs all tests, the long differential ones against torchao included.
# Arguments go to ctest, e.g. -L core or -LE long.
#   tools/test.sh --backend onednn|xnnpack|reference [ctest arguments]
# builds and runs one backend's tests alone, without LibTorch and the other backends: what that
# backend's CI calls.
set -euo pipefail
cd "$(dirname "$0")/.."

# run_logged LOG COMMAND...: the output goes to the file; its end is shown when the command fails.
run_logged() {
  local log=$1
  shift
  "$@" >"$log" || { tail -n 40 "$log" >&2; exit 1; }
}

if [ "${1:-}" = --backend ]; then
  backend=${2:-}
  shift $(($# < 2 ? $# : 2))
  case $backend in
    onednn) libraries=(-DOCTET_XNNPACK=OFF) ;;
    xnnpack) libraries=(-DOCTET_ONEDNN=OFF) ;;
    reference) libraries=(-DOCTET_ONEDNN=OFF -DOCTET_XNNPACK=OFF) ;;
    *) echo "test: unknown backend \"$backend\", want onednn, xnnpack or reference" >&2; exit 2 ;;
  esac
  tools/setup.sh --runtime
  folder=build/test-$backend
  mkdir -p "$folder"
  echo "test: building the tests of $backend" >&2
  run_logged "$folder/configure.log" cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DOCTET_TORCH=OFF "${libraries[@]}"
  run_logged "$folder/build.log" cmake --build "$folder" --target test_backends
  exec ctest --test-dir "$folder" --output-on-failure -j "$(nproc)" -L "^$backend\$" "$@"
fi

tools/setup.sh --test
echo "test: building the tests" >&2
run_logged build/release/build.log cmake --build --preset release
ctest --preset release -j "$(nproc)" "$@"
