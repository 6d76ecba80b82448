#!/usr/bin/env bash
# tools/dev/fuzz.sh [SECONDS [SEED]]: runs the cells of `octet conformance`, then each libFuzzer
# target for that long (600), with the address and undefined-behavior sanitizers. Needs clang. Starts
# with the seed programs, build/fuzz/corpus of earlier runs, .octet files in build/demo, and .pt2
# files from tests/core/make_models.py. Without LibTorch (tools/setup.sh) it skips the .pt2 target.
# Findings go to build/fuzz/findings and make the script fail.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-600}
seed=${2:-0}  # 0: a new one each time

clang=$(compgen -c clang++ | grep -E '^clang\+\+(-[0-9]+)?$' | sort -V | tail -n 1) || true
[ -n "$clang" ] || { echo "fuzz: clang++ is not here; tools/setup.sh --test installs it" >&2; exit 1; }
targets="artifact program"
# GCC's OpenMP, as clang's is another package: oneDNN needs its functions; loops stay on one thread.
# clang 14 does not know the attribute with a deallocator.
mkdir -p build/fuzz/openmp
sed -E 's/__malloc__ \(omp_free\)/__malloc__/' "$(gcc -print-file-name=include/omp.h)" >build/fuzz/openmp/omp.h
openmp=("-DOpenMP_CXX_FLAGS=-fopenmp=libgomp -I$PWD/build/fuzz/openmp" -DOpenMP_CXX_LIB_NAMES=gomp
  "-DOpenMP_gomp_LIBRARY=$(gcc -print-file-name=libgomp.so)")
common=(-G Ninja -DCMAKE_C_COMPILER="${clang/++/}" -DCMAKE_CXX_COMPILER="$clang" -DOCTET_FUZZ=ON
  -DCMAKE_BUILD_TYPE=RelWithDebInfo "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g1")
[ -f build/fuzz/build.ninja ] || cmake -S . -B build/fuzz "${common[@]}" "${openmp[@]}" -DOCTET_TORCH=OFF >/dev/null
ninja -C build/fuzz run_cells write_seeds fuzz_artifact fuzz_program >build/fuzz/build.log || { tail -n 40 build/fuzz/build.log >&2; exit 1; }

build/fuzz/bin/write_seeds build/fuzz/seeds
find build/demo -maxdepth 1 -name '*.octet' -size -8M -exec cp -t build/fuzz/seeds/artifact {} + 2>/dev/null || true

python=.venv/bin/python
if [ -x $python ]; then
  [ -f build/fuzz-pt2/build.ninja ] || cmake -S . -B build/fuzz-pt2 "${common[@]}" -DOCTET_TORCH=ON -DOCTET_ONEDNN=OFF -DOCTET_XNNPACK=OFF >/dev/null
  ninja -C build/fuzz-pt2 fuzz_pt2 >build/fuzz-pt2/build.log || { tail -n 40 build/fuzz-pt2/build.log >&2; exit 1; }
  ln -sf ../../fuzz-pt2/bin/fuzz_pt2 build/fuzz/bin/fuzz_pt2
  [ -d build/fuzz/seeds/pt2 ] || { $python tests/core/make_models.py build/fuzz/models >build/fuzz/models.log 2>&1; mkdir build/fuzz/seeds/pt2
    find build/fuzz/models -name '*.pt2' -size -24k -exec cp -t build/fuzz/seeds/pt2 {} +; }
  targets="$targets pt2"
else
  echo "fuzz: LibTorch is not here, so .pt2 is left out; tools/setup.sh installs it" >&2
fi

passed=0
failed=0
for backend in onednn xnnpack reference; do
  echo "fuzz: the cells of $backend" >&2
  build/fuzz/bin/run_cells $backend 2>build/fuzz/cells.log || { tail -n 60 build/fuzz/cells.log >&2; failed=$((failed + 1)); }
done
for target in $targets; do
  leaks=1
  [ $target = pt2 ] && leaks=0  # LibTorch's own reader of zips leaks some bytes where it refuses a damaged one
  mkdir -p build/fuzz/corpus/$target build/fuzz/findings
  echo "fuzz: $target, $seconds seconds" >&2
  if ASAN_OPTIONS=detect_leaks=$leaks build/fuzz/bin/fuzz_$target -detect_leaks=$leaks -max_total_time="$seconds" -seed="$seed" -timeout=20 -rss_limit_mb=2048 -max_len=32768 -dict=tests/fuzz/program.dict -verbosity=0 \
    -print_final_stats=1 -artifact_prefix=build/fuzz/findings/$target- build/fuzz/corpus/$target build/fuzz/seeds/$target 2>build/fuzz/$target.log; then
    grep '^stat::number_of_executed_units' build/fuzz/$target.log
    passed=$((passed + 1))
  else
    tail -n 60 build/fuzz/$target.log >&2
    failed=$((failed + 1))
  fi
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
