#!/usr/bin/env bash
# tools/dev/debian13.sh [FOLDER]: builds the runtime in a Debian 13 root with Debian's packages alone
# (oneDNN 3.7, XNNPACK of November 2024) and runs its tests there, those of oneDNN also with the
# release of Debian's unstable. The root is build/debian13/root, which debootstrap makes (needs root,
# for chroot; mounts are in a namespace and end with each command). Runs each .octet file of FOLDER
# that was lowered for XNNPACK on both systems.
#   --in COMMAND...     runs a command inside, where the project is /octet
#   --clone COMMAND...  runs a command in a clone of the last commit, /src of a second root that has only
#                       git and Python, for example tools/demo.sh: it installs all that it needs
set -euo pipefail
programs=${1:-}
[[ $programs == --* ]] || programs=${programs:+$(realpath "$programs")}
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

if [ "$programs" = --clone ]; then
  shift
  [ $# -gt 0 ] || { echo "debian13: --clone wants a command, such as tools/demo.sh" >&2; exit 2; }
  root=$PWD/build/debian13/clone
  if [ ! -f "$root/complete" ]; then
    make_root trixie "$root" ca-certificates,git,python3,python3-venv
    # The downloads of setup.sh go through the same servers as here.
    cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
    [ ! -f /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/"
    touch "$root/complete"
  fi
  [ -d "$root/src" ] || git clone -q . "$root/src"
  git -C "$root/src" fetch -q "$PWD" HEAD
  git -C "$root/src" checkout -q --detach FETCH_HEAD
  inside "$root" /src "$@"
  exit
fi
case $programs in --*) echo "debian13: unknown option $programs, want --in or --clone" >&2; exit 2 ;; esac

# ---- the root
if [ ! -f "$root/complete" ]; then
  echo "debian13: making the root (this downloads about 200 MB once)" >&2
  make_root trixie "$root" g++,cmake,ninja-build,catch2,libdnnl-dev,libxnnpack-dev,libpthreadpool-dev,nlohmann-json3-dev,libfmt-dev,libxxhash-dev
  # Only this library from unstable, beside the one of the system.
  apt=$PWD/build/debian13/unstable
  mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$root/octet"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror unstable main" >"$apt/sources.list"
  options=(-qq -o "Dir::Etc::SourceList=$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::lists=$apt/lists"
    -o Dir::State::status=/dev/null -o "Dir::Cache=$apt" -o APT::Sandbox::User=root)
  apt-get "${options[@]}" update
  (cd "$apt" && apt-get "${options[@]}" download libdnnl3.6)
  dpkg-deb -x "$apt"/libdnnl3.6_*.deb "$root/opt/unstable"
  touch "$root/complete"
fi

# ---- build and test
[ -f $build/build.ninja ] || inside "$root" /octet cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DOCTET_TORCH=OFF -DOCTET_VENV=/none >/dev/null
inside "$root" /octet ninja -C $build test_backends run_lowered octet_runtime_bench >$build/build.log || { tail -n 40 $build/build.log >&2; exit 1; }
inside "$root" /octet $build/bin/test_backends '~[long]~[native]'
inside "$root" /octet env LD_LIBRARY_PATH=/opt/unstable/usr/lib/x86_64-linux-gnu $build/bin/test_backends '[onednn]~[long]~[native]'

# ---- the same programs here and there
[ -z "$programs" ] || tools/dev/compare_programs.sh "$programs" build/debian13/programs tools/dev/debian13.sh --in $build/bin/run_lowered
