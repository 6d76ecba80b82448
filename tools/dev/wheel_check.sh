#!/usr/bin/env bash
# tools/dev/wheel_check.sh [OPTION]... PYTHON...: installs the wheels of tools/dev/wheel.sh into empty
# environments and checks that programs give the same bits as with the command.
#   --environment FOLDER  the environment with torch, in which the programs are made (.venv). A Python
#                         of the same minor version runs the octet wheel with this torch; others run
#                         octet_runtime with NumPy, and the compiled module of octet, if there is one,
#                         with this torch's LibTorch
#   --octet COMMAND       the command that lowers and runs them (build/release/bin/octet)
#   --wheels FOLDER       where the wheels are (build/wheels)
# Environments and programs are in build/wheel_check.
set -euo pipefail
cd "$(dirname "$0")/../.."

environment=$PWD/.venv
octet=$PWD/build/release/bin/octet
wheels=build/wheels
work=$PWD/build/wheel_check
while [ $# -gt 0 ]; do
  case $1 in
    --environment) environment=$(realpath "$2"); shift 2 ;;
    --octet) octet=$(realpath "$2"); shift 2 ;;
    --wheels) wheels=$2; shift 2 ;;
    -*)
      echo "wheel_check: unknown option $1, want --environment or --wheels FOLDER, or" \
        "--octet COMMAND" >&2
      exit 2 ;;
    *) break ;;
  esac
done
log() { echo "wheel_check: $*" >&2; }
[ $# -gt 0 ] || { log "no Python, want one or several, such as python3.12"; exit 2; }
minor_of() { "$1" -c 'import sys; print(sys.version_info.minor)'; }

mkdir -p "$work"
"$environment/bin/python" -B tests/python/wheel_programs.py "$octet" "$work"
site=$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

for python in "$@"; do
  minor=$(minor_of "$python")
  folder=$work/env-3.$minor
  rm -rf "$folder"
  "$python" -m venv "$folder"
  pip=("$folder/bin/python" -m pip install --quiet --disable-pip-version-check)
  "${pip[@]}" numpy
  "${pip[@]}" --no-index --find-links "$wheels" octet-runtime
  log "Python 3.$minor: octet_runtime"
  env -C "$work" "$folder/bin/python" -B "$PWD/tests/python/wheel_runs.py" octet_runtime "$work"
  if ! "${pip[@]}" --no-index --no-deps --find-links "$wheels" octet 2>"$work/log"; then
    log "Python 3.$minor: no wheel of octet: $(grep -m 1 ERROR "$work/log")"
    continue
  fi
  if [ "$minor" != "$(minor_of "$environment/bin/python")" ]; then
    log "Python 3.$minor: the module of octet, with LibTorch"
    LD_LIBRARY_PATH=$site/torch/lib env -C "$work" "$folder/bin/python" -B \
      "$PWD/tests/python/wheel_runs.py" octet._octet "$work"
    continue
  fi
  # Adds the torch of the other environment; packages of this one take precedence.
  echo "$site" >"$folder/lib/python3.$minor/site-packages/torch_elsewhere.pth"
  log "Python 3.$minor: octet, with torch"
  env -C "$work" "$folder/bin/python" -B "$PWD/tests/python/wheel_runs.py" octet "$work"
done
