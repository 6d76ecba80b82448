#!/usr/bin/env bash
# Sets everything up, builds and runs all tests, including the long comparisons with torchao.
# Arguments go to ctest, for example -L core or -LE long.
#   tools/test.sh --backend onednn|xnnpack|reference [ctest arguments]
# builds and runs the tests of one backend, without LibTorch and the other backends.
#   tools/test.sh --backend NAME --library FILE.so [arguments of octet conformance]
# proves a backend outside of this tree with the command of build/release, or that of PATH, and
# writes conformance-NAME.xml for its CI.
set -euo pipefail
cd "$(dirname "$0")/.."

. tools/dev/progress.sh

if [ "${1:-}" = --backend ]; then
  backend=${2:-}
  shift $(($# < 2 ? $# : 2))
  if [ "${1:-}" = --library ]; then
    octet=$PWD/build/release/bin/octet
    [ -x "$octet" ] || octet=octet
    cd "$OLDPWD"
    exec "$octet" conformance --backend "$backend" --junit "conformance-$backend.xml" "$@"
  fi
  case $backend in
    onednn) libraries=(-DOCTET_XNNPACK=OFF) ;;
    xnnpack) libraries=(-DOCTET_ONEDNN=OFF) ;;
    reference) libraries=(-DOCTET_ONEDNN=OFF -DOCTET_XNNPACK=OFF) ;;
    *) echo "test: unknown backend \"$backend\", want onednn, xnnpack or reference, or --library FILE.so" >&2; exit 2 ;;
  esac
  tools/setup.sh --runtime
  folder=build/test-$backend
  echo "test: building the tests of $backend" >&2
  watched "test: cmake" "$folder/configure.log" cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DOCTET_TORCH=OFF "${libraries[@]}"
  watched "test: build" "$folder/build.log" cmake --build "$folder" --target test_backends
  exec ctest --test-dir "$folder" --output-on-failure -j "$(nproc)" -L "^$backend\$" "$@"
fi

tools/setup.sh --test
echo "test: installing what setup.sh has built" >&2
watched "test: install" build/release/install.log .venv/bin/python tests/tools/test_bare_setup.py
echo "test: building the tests" >&2
watched "test: build" build/release/build.log cmake --build --preset release
ctest --preset release -j "$(nproc)" "$@"
