#!/usr/bin/env bash
# Sets everything up and runs all tests, the long differential ones against torchao included. Arguments go to ctest, e.g. -L core or -LE long.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh
ctest --preset release -j "$(nproc)" "$@"
