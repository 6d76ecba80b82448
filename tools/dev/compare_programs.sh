#!/usr/bin/env bash
# tools/dev/compare_programs.sh FOLDER SCRATCH COMMAND...: runs the .octet files of FOLDER on this
# machine and elsewhere, with the same inputs. COMMAND is run_lowered built for the other machine; it
# sees the files under the same paths, relative to the project's folder. SCRATCH gets the outputs.
# OCTET_BINARIES names a folder with a run_lowered for this machine; without it, the script builds one.
set -euo pipefail
programs=$(realpath "$1")
cd "$(dirname "$0")/../.."
scratch=$2
shift 2

binaries=${OCTET_BINARIES:-build/native/bin}
if [ -z "${OCTET_BINARIES:-}" ]; then
  [ -f build/native/build.ninja ] || cmake -S . -B build/native -G Ninja -DCMAKE_BUILD_TYPE=Release -DOCTET_TORCH=OFF -DOCTET_ONEDNN=OFF >/dev/null
  ninja -C build/native run_lowered >build/native/build.log || { tail -n 40 build/native/build.log >&2; exit 1; }
fi

rm -rf "$scratch"
mkdir -p "$scratch"
passed=0
failed=0
for program in "$programs"/*.octet; do
  name=$(basename "$program" .octet)
  cp "$program" "$scratch/program.octet"
  if "$binaries/run_lowered" "$scratch/program.octet" "$scratch/here.raw" && "$@" "$scratch/program.octet" "$scratch/there.raw" "$scratch/here.raw"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "compare_programs: $name differs" >&2
  fi
done
echo "$passed programs passed, $failed failed"
[ $failed -eq 0 ]
