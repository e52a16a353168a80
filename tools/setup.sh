#!/bin/sh
# usage: setup.sh PACKAGE...   Installs the missing Debian or Ubuntu packages; does nothing when all are there.
set -eu
command -v dpkg-query >/dev/null 2>&1 || { echo "setup: not a Debian or Ubuntu system; install by hand: $*"; exit 0; }
missing=
for p in "$@"; do
    case $(dpkg-query -W -f='${Status}' "$p" 2>/dev/null || :) in
        *"ok installed"*) ;;
        *) missing="$missing $p" ;;
    esac
done
[ -n "$missing" ] || exit 0
stop() {
    echo "setup: $1; missing packages:$missing" >&2
    echo "setup: as root: apt-get update && apt-get install -y --no-install-recommends$missing" >&2
    exit 3
}
root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null 2>&1 || stop "not root, and there is no sudo"
    root=sudo
fi
echo "setup: installing$missing"
# sudo clears the environment, so the variable goes in behind it; the lists of packages are renewed only when the first try fails
install() {
    # shellcheck disable=SC2086
    $root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing
}
install >/dev/null 2>&1 || { $root apt-get update -qq && install >/dev/null; } || stop "apt-get could not install them"
