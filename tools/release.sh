#!/usr/bin/env bash
# tools/release.sh [OPTION]...: makes the files of a release in build/dist: wheels, Debian packages for
# x86-64 and 64-bit ARM, the site, the changelog, what is inside of them (SPDX), and SHA256SUMS. Wheels
# and packages share a build folder. The times inside are SOURCE_DATE_EPOCH, by default that of the last
# commit: with the same tools, a release made again has the same bytes.
#   --only PART           makes only wheels, packages, arm64 or site; repeat it for several
#   --python PYTHON       builds wheels for this CPython; repeat it for several. Default: those of
#                         python3.10 to python3.14 that are on the PATH. From 3.12 on one wheel serves all
#   --environment FOLDER  also builds wheels for the torch of this virtual environment, for example one
#                         of tools/dev/torch_versions.sh, into torch-VERSION; repeat it for several
#   --build FOLDER        the CMake build folder (build/wheels/build)
#   --out FOLDER          where the files go (build/dist)
#   --check               installs wheels and packages in empty environments and fresh Debian roots
#   --compare FOLDER      makes nothing, but lists what differs between --out and an earlier release, and
#                         fails if anything does. For two independent builds:
#                           tools/release.sh --build build/again/build --out build/again
#                           tools/release.sh --compare build/again
set -euo pipefail
log() { echo "release: $*" >&2; }

parts=()
pythons=()
environments=()
build=
out=
check=
other=
while [ $# -gt 0 ]; do
  case $1 in
    --only)
      case ${2:-} in
        wheels | packages | arm64 | site) parts+=("$2") ;;
        *) echo "release: unknown part \"${2:-}\", want wheels, packages, arm64 or site" >&2; exit 2 ;;
      esac
      shift 2 ;;
    --python) pythons+=("${2:?release: --python wants a Python}"); shift 2 ;;
    --environment) environments+=("$(realpath -m "${2:?release: --environment wants a folder}")"); shift 2 ;;
    --build) build=$(realpath -m "${2:?release: --build wants a folder}"); shift 2 ;;
    --out) out=$(realpath -m "${2:?release: --out wants a folder}"); shift 2 ;;
    --check) check=yes; shift ;;
    --compare) other=$(realpath -m "${2:?release: --compare wants a folder}"); shift 2 ;;
    *)
      echo "release: unknown option $1, want --only PART, --python PYTHON, --environment, --build or" \
        "--out FOLDER, --check or --compare FOLDER" >&2
      exit 2 ;;
  esac
done
cd "$(dirname "$0")/.."
. tools/dev/progress.sh
build=${build:-$PWD/build/wheels/build}
out=${out:-$PWD/build/dist}

if [ -n "$other" ]; then
  for folder in "$out" "$other"; do
    [ -f "$folder/SHA256SUMS" ] || { log "$folder: has no SHA256SUMS; make a release there first"; exit 1; }
  done
  if cmp -s "$out/SHA256SUMS" "$other/SHA256SUMS"; then
    log "$out and $other have the same $(wc -l <"$out/SHA256SUMS") files, byte for byte"
    exit 0
  fi
  log "these files differ:"
  cat "$out/SHA256SUMS" "$other/SHA256SUMS" | sort | uniq -u | cut -c 67- | sort -u
  if [ -f "$out/octet.spdx.json" ] && [ -f "$other/octet.spdx.json" ]; then
    log "inside of packages and wheels:"
    python3 tools/dev/sbom.py --compare "$other/octet.spdx.json" "$out/octet.spdx.json"
  fi
  exit 1
fi

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
[ -z "$(git status --porcelain)" ] || log "warning: this tree has changes that are not committed"
version=$(sed -n 's/^project(octet VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
grep -q "^## $version\b" CHANGELOG.md || { log "CHANGELOG.md has no section $version; write it first"; exit 1; }
if [ ${#parts[@]} -eq 0 ]; then
  command -v aarch64-linux-gnu-g++ >/dev/null ||
    { log "aarch64-linux-gnu-g++ is not here, which packages for arm64 need; --only arm64 installs it"; exit 1; }
  if [ -n "$(ls -A "$out" 2>/dev/null)" ] && [ ! -f "$out/SHA256SUMS" ]; then
    log "$out is not empty and not a release; give an empty folder"
    exit 1
  fi
  parts=(wheels packages arm64 site)
  rm -rf "$out"
elif [ -f "$out/SHA256SUMS" ]; then  # what an earlier version left there
  find "$out" -type f \( -name 'octet*' -o -name 'liboctet*' \) ! -name octet.spdx.json \
    ! -name "*[-_]$version[-_.+]*" -delete
fi
if [ ${#pythons[@]} -eq 0 ]; then
  for minor in 10 11 12 13 14; do
    "python3.$minor" -c '' 2>/dev/null || continue  # a shim of pyenv may lead nowhere
    pythons+=("python3.$minor")
  done
fi

# The command of this release if it is built (by packages or wheels), else that of tools/setup.sh.
octet_command() {
  local command
  for command in "$build/bin/octet" "$build/python/octet/bin/octet" "$PWD/build/release/bin/octet"; do
    [ ! -x "$command" ] || break
  done
  [[ $command == "$build"/* ]] || log "uses $command, because $build has none"
  echo "$command"
}

make_wheels() {
  local python environment torch options=() newest=
  for python in "${pythons[@]}"; do
    [ -z "$newest" ] || continue  # its wheels serve the later ones
    options+=(--python "$python")
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' && newest=$python
  done
  tools/dev/wheel.sh --build "$build" --out "$out" "${options[@]}"
  for environment in "${environments[@]}"; do
    torch=$("$environment/bin/python" -c 'import torch; print(torch.__version__.split("+")[0])')
    tools/dev/wheel.sh --environment "$environment" --build "build/torch/$torch/wheels" --out "$out/torch-$torch" "${options[@]}"
  done
  [ -z "$check" ] || tools/dev/wheel_check.sh --octet "$(octet_command)" --wheels "$out" "${pythons[@]}"
}

make_packages() { tools/dev/packages.sh --build "$build" --out "$out" ${check:+--check}; }

make_arm64() { tools/dev/packages.sh --arm64 --out "$out"; }

make_site() {
  local scratch
  scratch=$(mktemp -d)
  watched "release: site" build/site.log env OCTET="$(octet_command)" tools/site/build.sh --site-dir "$scratch/octet-site-$version"
  tar -C "$scratch" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw \
    -c "octet-site-$version" | gzip -9n >"$out/octet-site-$version.tar.gz"
  rm -rf "$scratch"
}

mkdir -p "$out"
for part in "${parts[@]}"; do
  log "$part"
  "make_$part"
done
cp CHANGELOG.md "$out"
root=$PWD
cd "$out"
rm -f SHA256SUMS octet.spdx.json
mapfile -t files < <(find . -name '*.deb' -printf '%P\n' -o -name '*.whl' -printf '%P\n' | sort)
[ ${#files[@]} -eq 0 ] || "$root/.venv/bin/python" "$root/tools/dev/sbom.py" "${files[@]}" >octet.spdx.json
sums=$(find . -type f -printf '%P\0' | sort -z | xargs -0 sha256sum)
echo "$sums" >SHA256SUMS
cd "$root"
log "$out has $(wc -l <"$out/SHA256SUMS") files of version $version"
