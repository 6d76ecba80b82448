#!/usr/bin/env bash
# tools/site/build.sh [OPTION]...: builds the site into build/site and fails on broken links. Options
# go to `mkdocs build`. Needs the octet command (build/release, or $OCTET), whose --help becomes a
# reference. With --venv it only makes the virtual environment .venv-site.
set -euo pipefail
cd "$(dirname "$0")/../.."

stamp=.venv-site/.octet-requirements
wanted=$(sha256sum <tools/site/requirements.txt)
if [ "$(cat $stamp 2>/dev/null)" != "$wanted" ]; then
  echo "site: making the virtual environment .venv-site" >&2
  [ -x .venv-site/bin/python ] || python3 -m venv .venv-site
  .venv-site/bin/python -m pip install --quiet --disable-pip-version-check \
    -r tools/site/requirements.txt
  echo "$wanted" >$stamp
fi
[ "${1:-}" != --venv ] || exit 0

# MkDocs Material draws attention to another project at each build.
export NO_MKDOCS_2_WARNING=1
exec .venv-site/bin/python -B -m mkdocs build --strict \
  --config-file tools/site/mkdocs.yml "$@"
