# Sourced by the scripts that work in a root of some Debian, which debootstrap makes.

# check_root LABEL: ends the script unless it may chroot and mount.
check_root() {
  [ "$(id -u)" -eq 0 ] || { echo "$1: wants to be root, for chroot and mounts" >&2; exit 1; }
}

# make_root RELEASE FOLDER [PACKAGE,...]: makes a root with the mirror and the proxy that apt uses here; sets
# mirror.
make_root() {
  command -v debootstrap >/dev/null || { apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends debootstrap >/dev/null; }
  mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Identifier: Packages' | awk -v release="$(. /etc/os-release && echo "$VERSION_CODENAME")" '$2 == release && !seen++ {print $1}')
  [ -n "$mirror" ] || { echo "debootstrap: apt knows no mirror of this Debian; run apt-get update" >&2; exit 1; }
  eval "$(apt-config shell http_proxy Acquire::http::Proxy https_proxy Acquire::https::Proxy)"
  export http_proxy=${http_proxy:-} https_proxy=${https_proxy:-}
  rm -rf "$2"
  mkdir -p "$2"
  debootstrap --variant=minbase ${3:+--include="$3"} "$1" "$2" "$mirror" >"$2.log" || { tail -n 20 "$2.log" >&2; exit 1; }
}

# inside ROOT FOLDER COMMAND...: runs a command in a folder of the root. The project is /octet there if
# the root has this folder. Mounts are in a namespace and end with the command.
inside() {
  OCTET_ROOT=$1 unshare --mount --propagation private bash -euc '
    [ ! -d "$OCTET_ROOT/octet" ] || mount --bind "$PWD" "$OCTET_ROOT/octet"
    mount -t proc proc "$OCTET_ROOT/proc"
    mount --rbind /dev "$OCTET_ROOT/dev"
    exec chroot "$OCTET_ROOT" /usr/bin/env -C "$@"' inside "${@:2}"
}
