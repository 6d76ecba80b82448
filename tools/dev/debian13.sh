#!/usr/bin/env bash
# tools/dev/debian13.sh [FOLDER]: builds the runtime against Debian 13's XNNPACK (November 2024) and
# runs its tests in a Debian 13 root, build/debian13/root (needs root, for chroot). The libraries need
# a newer libc than Debian 12 has. Runs each .octet file of FOLDER that was lowered for XNNPACK on both
# systems.
#   --in COMMAND...  runs a command inside, where the project is /octet
set -euo pipefail
programs=${1:-}
[ "$programs" = --in ] || programs=${programs:+$(realpath "$programs")}
cd "$(dirname "$0")/../.."
. tools/dev/root.sh
root=$PWD/build/debian13/root
build=build/debian13/build

check_root debian13
if [ "$programs" = --in ]; then
  [ -f "$root/complete" ] || { echo "debian13: there is no root yet; run tools/dev/debian13.sh first" >&2; exit 1; }
  shift
  inside "$root" /octet "$@"
  exit
fi

# ---- the root
if [ ! -f "$root/complete" ]; then
  echo "debian13: making the root (this downloads about 200 MB once)" >&2
  make_root trixie "$root" g++,cmake,ninja-build,libxnnpack-dev,libpthreadpool-dev,nlohmann-json3-dev,libfmt-dev,libxxhash-dev
  # The tests are written for Catch2's second version, which Debian 13 lacks; they are those of this machine.
  mkdir -p "$root/octet"
  dpkg -L catch2 | grep -E '^/usr/(include|lib)/' | while read -r file; do
    [ -d "$file" ] || install -D -m 644 "$file" "$root/usr/local${file#/usr}"
  done
  touch "$root/complete"
fi

# ---- build and test
[ -f $build/build.ninja ] || inside "$root" /octet cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DOCTET_TORCH=OFF -DOCTET_ONEDNN=OFF -DOCTET_VENV=/none >/dev/null
inside "$root" /octet ninja -C $build test_backends run_lowered octet_runtime_bench >$build/build.log || { tail -n 40 $build/build.log >&2; exit 1; }
inside "$root" /octet $build/bin/test_backends '~[long]~[native]'

# ---- the same programs here and there
[ -z "$programs" ] || tools/dev/compare_programs.sh "$programs" build/debian13/programs tools/dev/debian13.sh --in $build/bin/run_lowered
