#!/usr/bin/env bash
# Sets everything up and runs all tests, the long differential ones against torchao included. Arguments go to ctest, e.g. -L core or -LE long.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh --test
echo "test: building the tests" >&2
cmake --build --preset release >build/release/build.log || { tail -n 40 build/release/build.log >&2; exit 1; }
ctest --preset release -j "$(nproc)" "$@"
