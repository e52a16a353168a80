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
echo "setup: installing$missing"
root=
[ "$(id -u)" = 0 ] || root=sudo
DEBIAN_FRONTEND=noninteractive
export DEBIAN_FRONTEND
# shellcheck disable=SC2086
$root apt-get install -y --no-install-recommends $missing >/dev/null 2>&1 || {
    $root apt-get update -qq
    $root apt-get install -y --no-install-recommends $missing >/dev/null
}
