#!/usr/bin/env bash
# tools/dev/aarch64.sh [FOLDER]: builds the runtime with XNNPACK for 64-bit ARM and runs its tests
# under emulation, on a CPU with plain NEON, one with dotprod and one with i8mm. Unpacks the arm64
# packages of XNNPACK into build/aarch64/sysroot, because Debian cannot install them beside those of
# this machine. Runs each .octet file of FOLDER that was lowered for XNNPACK on both machines with
# the same inputs; outputs may differ by one step.
#   --sysroot  installs what cross-compiling needs, and builds nothing
#   --counts   prints instructions per multiply-accumulate of some products (CSV), without tests:
#              on a CPU with plain NEON, with dotprod, with i8mm, and with i8mm limited to dotprod
set -euo pipefail
programs=${1:-}
case "$programs" in
  --sysroot | --counts | "") ;;
  --*) echo "aarch64: unknown option $programs, want --sysroot or --counts" >&2; exit 2 ;;
  *) programs=$(realpath "$programs") ;;
esac
cd "$(dirname "$0")/../.."

missing=()
for package in g++-aarch64-linux-gnu qemu-user-static qemu-user; do
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
targets=(test_backends run_lowered)
[ "$programs" != --counts ] || targets=(count_products)
ninja -C $build "${targets[@]}" >$build/build.log || { tail -n 40 $build/build.log >&2; exit 1; }
emulate=(qemu-aarch64-static -L /usr/aarch64-linux-gnu -E "LD_LIBRARY_PATH=$sysroot/usr/lib/aarch64-linux-gnu")
if [ "$programs" = --counts ]; then
  gcc -shared -fPIC -O2 -fvisibility=hidden tools/dev/count_instructions.c -o $build/libcount_instructions.so
  # the instructions of one run: those of two runs less those of one. qemu-user: the static one opens no plug-ins
  count() {
    qemu-aarch64 -plugin "$PWD/$build/libcount_instructions.so" "${emulate[@]:1}" -cpu "${1%:*}" -E "ONEDNN_MAX_CPU_ISA=${1#*:}" $build/bin/count_products "$2" "$3" 2>&1 >/dev/null
  }
  echo "product,multiply-accumulates,NEON,dotprod,i8mm,i8mm limited to dotprod"
  for product in $("${emulate[@]}" $build/bin/count_products); do
    macs=$("${emulate[@]}" $build/bin/count_products "$product" 0)
    line=$product,$macs
    for cpu in cortex-a72:ALL neoverse-n1:ALL max:ALL max:DOTPROD; do
      one=$(count $cpu "$product" 1)
      two=$(count $cpu "$product" 2)
      line+=,$(awk -v one="$one" -v two="$two" -v macs="$macs" 'BEGIN { printf "%.3f", (two - one) / macs }')
    done
    echo "$line"
  done
  exit 0
fi
# One CPU with each set of instructions that custom kernels choose from.
for cpu in cortex-a72:NEON neoverse-n1:dotprod max:i8mm; do
  echo "aarch64: tests on ${cpu%:*} (${cpu#*:})" >&2
  "${emulate[@]}" -cpu "${cpu%:*}" $build/bin/test_backends '~[long]~[native]'
done

# ---- the same programs here and there
[ -z "$programs" ] || tools/dev/compare_programs.sh "$programs" build/aarch64/programs "${emulate[@]}" $build/bin/run_lowered
