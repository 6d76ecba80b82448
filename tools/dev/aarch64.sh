#!/usr/bin/env bash
# tools/dev/aarch64.sh [FOLDER]: builds the runtime with XNNPACK for 64-bit ARM and runs its tests
# under emulation, on a CPU with plain NEON, one with dotprod and one with i8mm. Unpacks the arm64
# packages of XNNPACK into build/aarch64/sysroot, because Debian cannot install them beside those of
# this machine. Runs each .octet file of FOLDER that was lowered for XNNPACK on both machines with
# the same inputs; outputs may differ by one step.
#   --sysroot  installs what cross-compiling needs, and builds nothing
set -euo pipefail
programs=${1:-}
[ "$programs" = --sysroot ] || programs=${programs:+$(realpath "$programs")}
cd "$(dirname "$0")/../.."

missing=()
for package in g++-aarch64-linux-gnu qemu-user-static; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  root=()
  [ "$(id -u)" -eq 0 ] || root=(sudo)
  "${root[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

# ---- the sysroot
sysroot=$PWD/build/aarch64/sysroot
if [ ! -f "$sysroot/complete" ]; then
  echo "aarch64: downloading the arm64 packages" >&2
  apt=$PWD/build/aarch64/apt
  mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$apt/packages" "$sysroot"
  options=(-qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o "Dir::State::lists=$apt/lists" -o Dir::State::status=/dev/null
    -o "Dir::Cache=$apt" -o APT::Sandbox::User=root)
  apt-get "${options[@]}" update
  (cd "$apt/packages" && apt-get "${options[@]}" download libxnnpack-dev libxnnpack0 libpthreadpool-dev libpthreadpool0 libcpuinfo0)
  for package in "$apt"/packages/*.deb; do dpkg-deb -x "$package" "$sysroot"; done
  touch "$sysroot/complete"
fi
[ "$programs" != --sysroot ] || exit 0

# ---- build and test
build=build/aarch64/build
cmake -S . -B $build -G Ninja -DCMAKE_TOOLCHAIN_FILE=tools/cmake/aarch64.cmake -DCMAKE_BUILD_TYPE=Release \
  -DOCTET_TORCH=OFF -DOCTET_ONEDNN=OFF -DOCTET_PACKAGES=OFF -DOCTET_TESTS=ON >/dev/null
ninja -C $build test_backends run_lowered >$build/build.log || { tail -n 40 $build/build.log >&2; exit 1; }
emulate=(qemu-aarch64-static -L /usr/aarch64-linux-gnu -E "LD_LIBRARY_PATH=$sysroot/usr/lib/aarch64-linux-gnu")
# One CPU with each set of instructions that custom kernels choose from.
for cpu in cortex-a72:NEON neoverse-n1:dotprod max:i8mm; do
  echo "aarch64: tests on ${cpu%:*} (${cpu#*:})" >&2
  "${emulate[@]}" -cpu "${cpu%:*}" $build/bin/test_backends '~[long]~[native]'
done

# ---- the same programs here and there
[ -z "$programs" ] || tools/dev/compare_programs.sh "$programs" build/aarch64/programs "${emulate[@]}" $build/bin/run_lowered
